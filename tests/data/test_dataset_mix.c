/* test_dataset_mix.c - files in their shares: how often an epoch draws each window, the order of
 * draws, and names with colons. */
#include "data/files.h"
#include "data/fixture.h"

#include <math.h>

enum { SEQ = 4 };

/* A file with `count` windows of one example each, "xy" with a number as the prompt. */
static hil_dataset *open_examples(const char *name, int count, int per_window)
{
    hil_text text = {0};
    hil_dataset *dataset;
    for (int i = 0; i < count * per_window; ++i)
        CHECK_OK(hil_text_print(&text, "{\"prompt\": \"%c\", \"completion\": \"%s\"}\n",
                                'A' + i / per_window, per_window == 1 ? "bc" : ""));
    const char *path = fixture_bytes(name, text.data, text.size);
    hil_dataset_options options = fixture_options(SEQ);
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_windows(dataset), count);
    hil_text_free(&text);
    return dataset;
}

static hil_dataset *mix(hil_dataset *a, double share_a, hil_dataset *b, double share_b)
{
    hil_dataset *mixed;
    CHECK_OK(hil_dataset_mix(&mixed, (hil_dataset *[]){a, b}, (double[]){share_a, share_b}, 2));
    hil_dataset_close(a);
    hil_dataset_close(b);
    return mixed;
}

/* How often each window is drawn in draws [from, to). */
static void count_draws(const hil_dataset *dataset, hil_window_order order, int64_t from,
                        int64_t to, int *times)
{
    memset(times, 0, 64 * sizeof *times);
    for (int64_t n = from; n < to; ++n) {
        int64_t window = hil_dataset_pick(dataset, order, 42, n);
        CHECK(window >= 0 && window < hil_dataset_windows(dataset) && window < 64);
        ++times[window];
    }
}

/* 20 of a with 0.7, 3 of b with 0.3: an epoch has each of a once and 9 draws (20 * 3 / 7 = 8.6) of
   b, so each of b three times. */
static void check_small_repeats(void)
{
    hil_dataset *mixed =
        mix(open_examples("a.jsonl", 20, 1), 0.7, open_examples("b.jsonl", 3, 1), 0.3);
    int times[64];
    CHECK_INT(hil_dataset_windows(mixed), 23);
    CHECK_INT(hil_dataset_epoch(mixed), 29);
    CHECK(fabs(hil_dataset_passes(mixed, 1) - 3) < 1e-9);
    for (int order = HIL_ORDER_FILE; order <= HIL_ORDER_SHUFFLE; ++order)
        for (int epoch = 0; epoch < 3; ++epoch) {
            count_draws(mixed, (hil_window_order)order, epoch * 29, epoch * 29 + 29, times);
            for (int i = 0; i < 23; ++i) CHECK_INT(times[i], i < 20 ? 1 : 3);
        }
    /* the windows are those of the files, in order */
    CHECK_TEXT(fixture_window(mixed, SEQ, 0), "65>98@0/0 98>99@1/0 99>256@2/0 256>-1@3/0");
    CHECK_TEXT(fixture_window(mixed, SEQ, 21), "66>98@0/0 98>99@1/0 99>256@2/0 256>-1@3/0");
    hil_dataset_close(mixed);
}

/* A file that is larger than its share continues where the last epoch left it: in five epochs of
   4 + 2 draws each of its 10 windows was drawn once. */
static void check_large_continues(void)
{
    hil_dataset *mixed = mix(open_examples("a.jsonl", 4, 1), 2, open_examples("b.jsonl", 10, 1), 1);
    int times[64];
    CHECK_INT(hil_dataset_epoch(mixed), 6);
    for (int order = HIL_ORDER_FILE; order <= HIL_ORDER_SHUFFLE; ++order) {
        count_draws(mixed, (hil_window_order)order, 0, 30, times);
        for (int i = 0; i < 14; ++i) CHECK_INT(times[i], i < 4 ? 5 : 1);
    }
    /* and each pass has another order */
    bool other = false;
    for (int i = 0; i < 30; ++i)
        other |= hil_dataset_pick(mixed, HIL_ORDER_SHUFFLE, 42, i) !=
                 hil_dataset_pick(mixed, HIL_ORDER_SHUFFLE, 42, 30 + i);
    CHECK(other);
    hil_dataset_close(mixed);
}

/* Shares are of examples: two in a window of b count as two. */
static void check_examples_count(void)
{
    hil_dataset *mixed =
        mix(open_examples("a.jsonl", 8, 1), 0.5, open_examples("b.jsonl", 20, 2), 0.5);
    CHECK_INT(hil_dataset_epoch(mixed), 8 + 4);
    hil_dataset *held;
    CHECK_OK(hil_dataset_hold_out(mixed, 0.25, &held));
    CHECK_INT(hil_dataset_windows(held), 2 + 5);
    CHECK_INT(hil_dataset_windows(mixed), 6 + 15);
    CHECK_INT(hil_dataset_epoch(mixed), 6 + 3);
    CHECK_TEXT(fixture_window(held, SEQ, 0), "71>98@0/0 98>99@1/0 99>256@2/0 256>-1@3/0");
    hil_dataset_close(mixed);
    hil_dataset_close(held);
}

static void check_weight(const char *given, size_t length, double weight)
{
    size_t got_length;
    double got;
    CHECK_OK(hil_files_weight(given, &got_length, &got));
    CHECK_INT(got_length, length);
    CHECK(got == weight);
}

static void check_names(void)
{
    size_t length;
    double weight;
    check_weight("a.jsonl:0.7", 7, 0.7);
    check_weight("a:b:2", 3, 2);
    check_weight("a.jsonl", 7, 0);
    check_weight("a:b", 3, 0);
    check_weight("a:", 2, 0);
    check_weight("a:1x", 4, 0);
    check_weight("c:\\x", 4, 0);
    check_weight(":3", 2, 0);
    check_weight("a:1e-3", 1, 1e-3);
    CHECK_FAILS(hil_files_weight("a:0", &length, &weight), HIL_ERR_USAGE, "greater than 0");
    CHECK_FAILS(hil_files_weight("a:-1", &length, &weight), HIL_ERR_USAGE, "greater than 0");
    const char *path = fixture_text("t:5", "x");
    check_weight(path, strlen(path), 0); /* there is such a file */
    fixture_text("t", "x");
    check_weight(path, strlen(path) - 2, 5);
}

int main(void)
{
    fixture_create();
    check_small_repeats();
    check_large_continues();
    check_examples_count();
    check_names();
    return 0;
}
