/* test_pretokenize.c - the words of pre-tokenizers against Hugging Face tokenizers, for the whole
   text and in fragments; long matches pass through in bounded memory. */
#include "check.h"
#include "fragment.h"

#include "io/file.h"
#include "text/pretokenize.h"

/* Words, each followed by a NUL. */
static hil_status take(void *context, const char *text, size_t size, bool ended)
{
    hil_text *words = context;
    HIL_TRY(hil_text_add(words, text, size));
    bool empty = words->size == 0 || words->data[words->size - 1] == 0;
    return ended && !empty ? hil_text_add(words, "", 1) : HIL_OK;
}

/* Cuts `text` in fragments of up to `most` characters; 0: whole. */
static void cut(const hil_pretokenizer *pretokenizer, const char *text, unsigned most,
                hil_text *words)
{
    hil_pretokenizer_state states = {0};
    size_t size = strlen(text);
    words->size = 0;
    for (size_t at = 0, to; at < size && most; at = to) {
        to = fragment_end(text, size, at, most);
        CHECK_OK(hil_pretokenizer_add(pretokenizer, &states, text + at, to - at, false,
                                      &(hil_pretokenizer_sink){take, words}));
    }
    CHECK_OK(hil_pretokenizer_add(pretokenizer, &states, text, most ? 0 : size, true,
                                  &(hil_pretokenizer_sink){take, words}));
    hil_pretokenizer_state_free(&states);
}

static void check_words(const hil_pretokenizer *pretokenizer, const json_t *item, int line)
{
    const char *text = json_string_value(json_array_get(item, 0));
    const json_t *expected = json_array_get(item, 1);
    hil_text words = {0}, all = {0};
    for (size_t i = 0; i < json_array_size(expected); ++i) {
        const char *word = json_string_value(json_array_get(expected, i));
        CHECK_OK(hil_text_add(&all, word, strlen(word) + 1));
    }
    for (unsigned most = 0; most < 4; ++most) {
        cut(pretokenizer, text, most * most, &words);
        bool same =
            words.size == all.size && (!all.size || !memcmp(words.data, all.data, all.size));
        if (same) continue;
        fprintf(stderr, "line %d, fragments of %u: \"%s\" is cut into", line, most * most, text);
        for (size_t i = 0; i < words.size; i += strlen(words.data + i) + 1)
            fprintf(stderr, " [%s]", words.data + i);
        fprintf(stderr, "\n");
        exit(1);
    }
    hil_text_free(&words);
    hil_text_free(&all);
}

static void test_golden(const char *path)
{
    FILE *lines = fopen(path, "r");
    CHECK(lines);
    char *line = NULL;
    size_t capacity = 0, texts = 0;
    ssize_t size;
    int number = 0;
    while ((size = getline(&line, &capacity, lines)) > 0) {
        json_t *item = json_loadb(line, (size_t)size, 0, NULL);
        const json_t *list = json_object_get(item, "texts");
        hil_pretokenizer pretokenizer;
        CHECK(list);
        ++number;
        CHECK_OK(hil_pretokenizer_load(&pretokenizer, json_object_get(item, "pre_tokenizer"), "t"));
        for (size_t i = 0; i < json_array_size(list); ++i)
            check_words(&pretokenizer, json_array_get(list, i), number);
        texts += json_array_size(list);
        hil_pretokenizer_free(&pretokenizer);
        json_decref(item);
    }
    printf("%d pre-tokenizers, %zu texts\n", number, texts);
    CHECK(number > 50);
    free(line);
    fclose(lines);
}

static size_t held(const hil_pretokenizer_state *states)
{
    size_t bytes = 0;
    for (size_t i = 0; i < HIL_PRETOKEN_MAX; ++i) bytes += states->holds[i].finder.held.capacity;
    return bytes;
}

static hil_status count(void *context, const char *text, size_t size, bool ended)
{
    (void)text;
    size_t *counted = context;
    counted[0] += size;
    counted[1] += ended;
    return HIL_OK;
}

/* Words of many megabytes, cut by several steps, pass through without being held. */
static void test_long(void)
{
    static const char *const repeated[] = {"ab", "\xE5\xB7\x9D", "  ", "12", "!?", "Ab"};
    enum { TIMES = CHECK_SLOW ? 20000 : 400000 };
    json_t *item = json_loads(
        "{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}+\"}},"
        "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"},"
        "{\"type\":\"Split\",\"behavior\":\"MergedWithNext\",\"pattern\":{\"Regex\":"
        "\"[\\\\p{Lu}\\\\p{Lo}]*[\\\\p{Ll}\\\\p{Lo}\\\\p{Lu}]+|\\\\s+(?!\\\\S)|\\\\s+|[^a-z]+\"}}]"
        "}",
        0, NULL);
    hil_pretokenizer pretokenizer;
    CHECK_OK(hil_pretokenizer_load(&pretokenizer, item, "long"));
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; ++i) {
        hil_pretokenizer_state states = {0};
        size_t counted[2] = {0}, size = strlen(repeated[i]);
        for (int k = 0; k < TIMES; ++k)
            CHECK_OK(hil_pretokenizer_add(&pretokenizer, &states, repeated[i], size, false,
                                          &(hil_pretokenizer_sink){count, counted}));
        CHECK(held(&states) < 1 << 16);
        CHECK_OK(hil_pretokenizer_add(&pretokenizer, &states, "", 0, true,
                                      &(hil_pretokenizer_sink){count, counted}));
        CHECK_INT(counted[0], size * TIMES);
        CHECK_INT(counted[1], 1);
        hil_pretokenizer_state_free(&states);
    }
    hil_pretokenizer_free(&pretokenizer);
    json_decref(item);
}

static void refuse(const char *pattern, const char *words)
{
    hil_pattern regex;
    CHECK_FAILS(hil_pattern_compile(&regex, pattern, "t.json"), HIL_ERR_INPUT, words);
}

static void test_refused(void)
{
    refuse("a*", "empty text");
    refuse("(?=a)", "empty text");
    refuse("(?!ab)c", "lookahead of more than one character");
    refuse("(?<=a)b", "a group other than");
    refuse("^a", "the anchor ^");
    refuse("(a", "without its )");
    refuse("a)", "a ) without its (");
    refuse("[a", "without its ]");
    refuse("\\p{Greek}", "neither a general category nor Han");
    refuse("\\p", "without braces");
    refuse("[[:alpha:]]", "POSIX");
    refuse("[b-a]", "range without an end");
    refuse("(?:ab)++c", "possessive");
    refuse("(?i:gross)", "fold to one character");
    refuse("(?i:\xC3\xA9)", "beyond ASCII");
    refuse("a{2000}", "over 1000");
    refuse("(?:(?:a{100}){100})b", "too many repetitions");
    refuse("(?:a|b)*a(?:a|b){14}", "table of states is too large");
    refuse("\\1", "an escape that is not known here");
    refuse("a\\", "an escape that is not known here");
    refuse("\\x{110000}", "code point");
    refuse("+a", "repetition of nothing");
}

int main(int argc, char **argv)
{
    test_golden(argc > 1 ? argv[1] : HIL_TESTS "/golden/tokenizers/pretokenizers.jsonl");
    test_long();
    test_refused();
    return 0;
}
