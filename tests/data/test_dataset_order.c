/* The order of windows: file order, shuffled epochs, held-out windows. */
#include "data/fixture.h"

static hil_dataset *open_windows(int64_t windows)
{
    char text[4096];
    for (int64_t i = 0; i < 2 * windows; ++i)
        text[i] = (char)('0' + (i % 2 ? i / 2 / 16 : i / 2 % 16));
    text[2 * windows] = '\n';
    const char *path = fixture_bytes("windows.txt", text, (size_t)(2 * windows + 1));
    hil_dataset_options options = fixture_options(2);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_windows(dataset), windows);
    return dataset;
}

/* The number that open_windows wrote into the window. */
static int number_of(hil_dataset *dataset, int64_t index)
{
    int32_t token[2], other[2];
    CHECK_OK(hil_dataset_window(dataset, index, &(hil_window){token, other, other, other}));
    return token[0] - '0' + 16 * (token[1] - '0');
}

static void check_epochs(int64_t windows)
{
    hil_dataset *dataset = open_windows(windows);
    for (int64_t n = 0; n < 3 * windows; ++n)
        CHECK_INT(number_of(dataset, hil_dataset_pick(dataset, HIL_ORDER_FILE, 9, n)), n % windows);
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
        char seen[2048] = {0};
        for (int64_t i = 0; i < windows; ++i) {
            int64_t index = hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, 9, epoch * windows + i);
            ++seen[number_of(dataset, index)];
        }
        for (int64_t i = 0; i < windows; ++i) CHECK_INT(seen[i], 1);
    }
    hil_dataset_close(dataset);
}

/* Places where two shuffled epochs of 1000 windows agree: about 1 by chance. */
static int64_t agreement(const hil_dataset *dataset, uint64_t seed, int64_t epoch,
                         uint64_t other_seed, int64_t other_epoch)
{
    int64_t same = 0;
    for (int64_t i = 0; i < 1000; ++i)
        same += hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, seed, epoch * 1000 + i) ==
                hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, other_seed, other_epoch * 1000 + i);
    return same;
}

static void check_shuffles_differ(void)
{
    hil_dataset *dataset = open_windows(1000);
    CHECK_INT(agreement(dataset, 1, 0, 1, 0), 1000);
    CHECK(agreement(dataset, 1, 0, 2, 0) < 20);
    CHECK(agreement(dataset, 1, 0, 1, 1) < 20);
    CHECK(agreement(dataset, 1, 1, 2, 0) < 20);
    CHECK(agreement(dataset, 0, 0, 0, 1) < 20);
    int64_t in_place = 0, neighbours = 0, before = -2;
    for (int64_t i = 0; i < 1000; ++i) {
        int64_t index = hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, 3, i);
        in_place += index == i;
        neighbours += index == before + 1;
        before = index;
    }
    CHECK(in_place < 20 && neighbours < 20);
    hil_dataset_close(dataset);
}

static void check_hold_out(int64_t windows, double fraction, int64_t expected)
{
    hil_dataset *dataset = open_windows(windows), *held;
    CHECK_OK(hil_dataset_hold_out(dataset, fraction, &held));
    CHECK_INT(hil_dataset_windows(held), expected);
    CHECK_INT(hil_dataset_tokens(held), 2 * expected);
    CHECK_INT(hil_dataset_windows(dataset), windows - expected);
    CHECK_INT(hil_dataset_tokens(dataset), 2 * (windows - expected));
    for (int64_t i = 0; i < windows - expected; ++i) CHECK_INT(number_of(dataset, i), i);
    for (int64_t n = 0; n < 3 * windows; ++n)
        CHECK(number_of(dataset, hil_dataset_pick(dataset, HIL_ORDER_SHUFFLE, 5, n)) <
              windows - expected);
    hil_dataset_close(dataset);
    for (int64_t i = 0; i < expected; ++i) CHECK_INT(number_of(held, i), windows - expected + i);
    hil_dataset_close(held);
}

int main(void)
{
    fixture_create();
    const int64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 63, 100, 255};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) check_epochs(counts[i]);
    check_shuffles_differ();
    check_hold_out(100, 0.29, 29);
    check_hold_out(100, 0.5, 50);
    check_hold_out(10, 0.001, 1);
    check_hold_out(2, 0.5, 1);

    hil_dataset *dataset = open_windows(4), *held;
    const double bad[] = {0, 1, -0.5, 2, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        CHECK_FAILS(hil_dataset_hold_out(dataset, bad[i], &held), HIL_ERR_USAGE, "fraction");
    CHECK_FAILS(hil_dataset_hold_out(dataset, 0.9, &held), HIL_ERR_INPUT, "nothing to train on");
    CHECK_INT(hil_dataset_windows(dataset), 4);
    hil_dataset_close(dataset);
    return 0;
}
