/* test_pretokenize_sweep.c - word boundaries around every code point against Hugging Face
   tokenizers, if the data is present. A sample of them unless called with --full. */
#include "check.h"

#include "text/pretokenize.h"
#include "text/unicode/unicode.h"

#include <unistd.h>

#define SWEEP HIL_TESTS "/../../shared/data/unicode/hf_split_offsets_all_codepoints.txt.xz"

enum { GPT2, LLAMA3, QWEN2, PATTERNS };
static const char *const names[] = {"gpt2", "llama3", "qwen2"};

/* The pre-tokenizers of the small golden tokenizers. */
static hil_pretokenizer pretokenizers[PATTERNS];

static void load(void)
{
    for (int i = 0; i < PATTERNS; ++i) {
        char path[HIL_PATH_MAX];
        snprintf(path, sizeof path, HIL_TESTS "/golden/tokenizers/%s/tokenizer.json", names[i]);
        json_t *root = json_load_file(path, 0, NULL);
        CHECK_OK(
            hil_pretokenizer_load(&pretokenizers[i], json_object_get(root, "pre_tokenizer"), path));
        CHECK(hil_pretokenizer_drop_map(&pretokenizers[i]));
        json_decref(root);
    }
}

static size_t characters(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; ++i) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* The offsets, in characters, of the words as "0-1,1-3". */
typedef struct offsets {
    size_t from, used;
    char text[256];
} offsets;

static hil_status take(void *context, const char *text, size_t size, bool ended)
{
    offsets *o = context;
    CHECK(ended && size > 0);
    size_t to = o->from + characters(text, size);
    o->used += (size_t)snprintf(o->text + o->used, sizeof o->text - o->used, "%s%zu-%zu",
                                o->from ? "," : "", o->from, to);
    o->from = to;
    return HIL_OK;
}

/* Cuts "a{c}b 1{c}2 {c}! {c}\n{c}". */
static void split(const char *name, uint32_t point, offsets *out)
{
    char c[5] = {0}, text[64];
    static hil_pretokenizer_state states;
    int pattern = 0;
    while (pattern < PATTERNS && strcmp(names[pattern], name) != 0) ++pattern;
    CHECK(pattern < PATTERNS);
    hil_utf8_put(c, point);
    size_t size = (size_t)snprintf(text, sizeof text, "a%sb 1%s2 %s! %s\n%s", c, c, c, c, c);
    *out = (offsets){0};
    CHECK_OK(hil_pretokenizer_add(&pretokenizers[pattern], &states, text, size, true,
                                  &(hil_pretokenizer_sink){take, out}));
}

int main(int argc, char **argv)
{
    long stride = argc > 1 && strcmp(argv[1], "--full") == 0 ? 1 : 31;
    if (access(SWEEP, R_OK) != 0) return CHECK_SKIP;
    FILE *lines = popen("xzcat " SWEEP, "r");
    CHECK(lines);
    char line[512];
    offsets got;
    load();
    long count = 0;
    while (fgets(line, sizeof line, lines)) {
        if (count++ % stride) continue;
        char name[16], expected[256];
        unsigned point;
        CHECK_INT(sscanf(line, "%15s %x %255s", name, &point, expected), 3);
        split(name, point, &got);
        if (strcmp(got.text, expected) != 0) {
            fprintf(stderr, "%s U+%04X: %s, expected %s\n", name, point, got.text, expected);
            return 1;
        }
    }
    if (pclose(lines) != 0) return CHECK_SKIP;
    CHECK_INT(count, 3 * 1112063);
    for (int i = 0; i < PATTERNS; ++i) hil_pretokenizer_free(&pretokenizers[i]);
    return 0;
}
