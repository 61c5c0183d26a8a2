/* Long words encoded in parts give the ids of the whole, for merges in any order of ranks. */
#include "check.h"
#include "text/bpe_work.h"
#include "text/tokenizer_parts.h"

static unsigned state = 1;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

enum { MERGES = 25, LONGEST = 12, SIZE = 700 };

/* The text of each token; the first `letters` tokens are characters. Merge i makes token
   letters + i from two earlier tokens; order[r] is the merge of rank r. */
static char token[26 + MERGES][LONGEST + 1];
static int left[MERGES], right[MERGES], order[MERGES];
static int letters, merges;

static bool is_fresh(const char *text, int count)
{
    for (int i = 0; i < count; ++i)
        if (strcmp(token[i], text) == 0) return false;
    return true;
}

static void name_letters(int count)
{
    letters = count;
    merges = 0;
    for (int i = 0; i < count; ++i) snprintf(token[i], sizeof token[i], "%c", 'a' + i);
}

static void draw_merges(void)
{
    name_letters(3);
    int most = 1 + (int)draw(MERGES);
    for (int tries = 0; merges < most && tries < 400; ++tries) {
        int known = letters + merges;
        int a = (int)draw((unsigned)known), b = (int)draw((unsigned)known);
        char text[2 * LONGEST + 1];
        if (strlen(token[a]) + strlen(token[b]) > LONGEST) continue;
        snprintf(text, sizeof text, "%s%s", token[a], token[b]);
        if (!is_fresh(text, known)) continue;
        memcpy(token[known], text, strlen(text) + 1);
        left[merges] = a;
        right[merges] = b;
        order[merges] = merges;
        ++merges;
    }
    if (draw(2) == 0) return; /* in the order of training */
    for (int i = merges - 1; i > 0; --i) {
        int k = (int)draw((unsigned)i + 1), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
}

static hil_tokenizer *make(void)
{
    hil_text json = {0};
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_text_print(&json, "{\"model\": {\"type\": \"BPE\", \"vocab\": {"));
    for (int i = 0; i < letters + merges; ++i)
        CHECK_OK(hil_text_print(&json, "%s\"%s\": %d", i ? ", " : "", token[i], i));
    CHECK_OK(hil_text_print(&json, "}, \"merges\": ["));
    for (int i = 0; i < merges; ++i)
        CHECK_OK(hil_text_print(&json, "%s[\"%s\", \"%s\"]", i ? ", " : "", token[left[order[i]]],
                                token[right[order[i]]]));
    CHECK_OK(hil_text_print(&json, "]}}"));
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json.data, json.size, "drawn"));
    hil_text_free(&json);
    return tokenizer;
}

/* BPE by its definition: merge the leftmost pair of the lowest rank until none is left. */
static size_t merge_all(int32_t *id, size_t count)
{
    for (;;) {
        int best = merges;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; ++i)
            for (int rank = 0; rank < best; ++rank)
                if (left[order[rank]] == id[i] && right[order[rank]] == id[i + 1]) {
                    best = rank;
                    at = i;
                }
        if (best == merges) return count;
        id[at] = letters + order[best];
        memmove(id + at + 1, id + at + 2, (count - at - 2) * sizeof *id);
        --count;
    }
}

static void draw_text(char *text, size_t size)
{
    unsigned period = 1 + draw(12), noise = draw(30);
    for (size_t i = 0; i < size; ++i) {
        bool fresh = i < period || (noise && draw(noise + 1) == 0);
        text[i] = fresh ? (char)('a' + draw((unsigned)letters)) : text[i - period];
    }
}

/* Merges of adjacent letters of the alphabet, later letters first: the end of an alphabetic run
   decides how the whole run is paired. */
static void follow_merges(void)
{
    name_letters(26);
    for (merges = 0; merges < 25; ++merges) {
        int a = merges;
        snprintf(token[26 + a], sizeof token[26 + a], "%c%c", 'a' + a, 'b' + a);
        left[a] = a;
        right[a] = a + 1;
        order[24 - a] = a;
    }
}

static void follow_text(char *text, size_t size)
{
    for (size_t i = 0, end = 0; i < size; ++i) {
        bool begins = i == end;
        if (begins) end += 1 + draw(26);
        text[i] = begins || text[i - 1] == 'z' ? 'a' : (char)(text[i - 1] + 1);
    }
}

/* Returns whether ids were appended before the end of the word. */
static bool check_word(const char *text, unsigned most)
{
    int32_t expected[SIZE];
    hil_tokenizer *tokenizer = make();
    for (int i = 0; i < SIZE; ++i) expected[i] = text[i] - 'a';
    size_t count = merge_all(expected, SIZE);
    hil_bpe_work *work;
    hil_ids ids = {0};
    CHECK_OK(hil_bpe_work_create(&work));
    work->window = 1;
    for (size_t at = 0, part; at < SIZE; at += part) {
        part = 1 + draw(most);
        if (part > SIZE - at) part = SIZE - at;
        CHECK_OK(hil_bpe_word_add(&tokenizer->bpe, work, text + at, part, &ids));
    }
    bool early = ids.size > 0;
    CHECK_OK(hil_bpe_word_end(&tokenizer->bpe, work, &ids));
    CHECK_INT(ids.size, count);
    for (size_t i = 0; i < count; ++i) CHECK_INT(ids.data[i], expected[i]);
    hil_bpe_work_destroy(work);
    hil_tokenizer_close(tokenizer);
    hil_ids_free(&ids);
    return early;
}

int main(void)
{
    int rounds = CHECK_SLOW ? 50 : 300, early = 0;
    char text[SIZE];
    for (int i = 0; i < rounds; ++i) {
        draw_merges();
        draw_text(text, SIZE);
        early += check_word(text, 60);
        follow_merges();
        follow_text(text, SIZE);
        early += check_word(text, 1);
    }
    printf("%d of %d words gave ids before their end\n", early, 2 * rounds);
    CHECK(early > 2 * rounds * 9 / 10);
    return 0;
}
