/* test_pretokenize_sweep.c - word boundaries around every code point against Hugging Face
   tokenizers, if the data is present. A sample of them unless called with --full. */
#include "check.h"

#include "text/pretokenize.h"
#include "text/unicode.h"

#include <unistd.h>

#define SWEEP HIL_TESTS "/../../shared/data/unicode/hf_split_offsets_all_codepoints.txt.xz"

static hil_pattern pattern_of(const char *name)
{
    if (strcmp(name, "gpt2") == 0) return HIL_PATTERN_GPT2;
    if (strcmp(name, "llama3") == 0) return HIL_PATTERN_LLAMA3;
    CHECK_TEXT(name, "qwen2");
    return HIL_PATTERN_QWEN2;
}

static size_t characters(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; ++i) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* The offsets, in characters, of the words of "a{c}b 1{c}2 {c}! {c}\n{c}" as "0-1,1-3". */
static void split(hil_pattern pattern, uint32_t point, char out[256])
{
    char c[5] = {0}, text[64];
    hil_utf8_put(c, point);
    size_t size = (size_t)snprintf(text, sizeof text, "a%sb 1%s2 %s! %s\n%s", c, c, c, c, c);
    hil_pretokenizer pretokenizer = {.pattern = pattern, .byte_level = true};
    size_t from = 0, used = 0;
    for (size_t at = 0; at < size;) {
        size_t word = hil_pretokenizer_next(&pretokenizer, NULL, text + at, size - at, true);
        CHECK(word > 0);
        size_t to = from + characters(text + at, word);
        used += (size_t)snprintf(out + used, 256 - used, "%s%zu-%zu", at ? "," : "", from, to);
        from = to;
        at += word;
    }
}

int main(int argc, char **argv)
{
    long stride = argc > 1 && strcmp(argv[1], "--full") == 0 ? 1 : 31;
    if (access(SWEEP, R_OK) != 0) return CHECK_SKIP;
    FILE *lines = popen("xzcat " SWEEP, "r");
    CHECK(lines);
    char line[512], got[256];
    long count = 0;
    while (fgets(line, sizeof line, lines)) {
        if (count++ % stride) continue;
        char name[16], expected[256];
        unsigned point;
        CHECK_INT(sscanf(line, "%15s %x %255s", name, &point, expected), 3);
        split(pattern_of(name), point, got);
        if (strcmp(got, expected) != 0) {
            fprintf(stderr, "%s U+%04X: %s, expected %s\n", name, point, got, expected);
            return 1;
        }
    }
    if (pclose(lines) != 0) return CHECK_SKIP;
    CHECK_INT(count, 3 * 1112063);
    return 0;
}
