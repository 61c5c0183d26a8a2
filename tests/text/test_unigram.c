/* Unigram: words in parts, with pieces given out as soon as they are certain, have the pieces that
   the definition gives, for any scores. */
#include "check.h"
#include "text/tokenizer_parts.h"

static unsigned state = 1;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

enum { PIECES = 40, LONGEST = 9, SIZE = 600 };

static char piece[PIECES][LONGEST + 1];
static double score[PIECES];
static int pieces;

/* Piece 0 is the unknown token; all but one of the letters a to c may be missing. */
static void draw_pieces(void)
{
    int most = 2 + (int)draw(PIECES - 2);
    snprintf(piece[0], sizeof piece[0], "<unk>");
    score[0] = 0;
    for (pieces = 1; pieces < most;) {
        char text[LONGEST + 1] = {0};
        size_t size = 1 + draw(LONGEST);
        for (size_t i = 0; i < size; ++i) text[i] = (char)('a' + draw(3));
        bool fresh = true;
        for (int i = 0; i < pieces; ++i) fresh &= strcmp(piece[i], text) != 0;
        if (!fresh) {
            --most;
            continue;
        }
        memcpy(piece[pieces], text, sizeof text);
        score[pieces++] = draw(3) ? -(double)draw(6) : -(double)draw(1 << 20) / 100000;
    }
}

static hil_tokenizer *make(void)
{
    hil_text json = {0};
    hil_tokenizer *tokenizer;
    CHECK_OK(hil_text_print(&json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["));
    for (int i = 0; i < pieces; ++i)
        CHECK_OK(hil_text_print(&json, "%s[\"%s\",%.17g]", i ? "," : "", piece[i], score[i]));
    CHECK_OK(hil_text_print(&json, "]}}"));
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json.data, json.size, "drawn"));
    hil_text_free(&json);
    return tokenizer;
}

/* The best pieces by trying each piece at each place; unknown letters in a row are one token. */
static size_t best(const char *text, size_t size, int32_t *ids)
{
    static double total[SIZE + 1];
    static int last[SIZE + 1];
    double lowest = 0;
    int32_t back[SIZE];
    size_t count = 0, kept = 0;
    for (int i = 0; i < pieces; ++i)
        if (score[i] < lowest) lowest = score[i];
    for (size_t i = 0; i <= size; ++i) last[i] = -1;
    for (size_t at = 0; at < size; ++at) {
        bool single = false;
        for (size_t length = 1; length <= LONGEST && at + length <= size; ++length)
            for (int i = 1; i < pieces; ++i) {
                if (strlen(piece[i]) != length || memcmp(piece[i], text + at, length)) continue;
                double sum = (at ? total[at] : 0) + score[i];
                if (last[at + length] < 0 || sum > total[at + length]) {
                    total[at + length] = sum;
                    last[at + length] = i;
                }
                single |= length == 1;
            }
        double sum = (at ? total[at] : 0) + (lowest - 10);
        if (!single && (last[at + 1] < 0 || sum > total[at + 1])) {
            total[at + 1] = sum;
            last[at + 1] = 0;
        }
    }
    for (size_t at = size; at > 0; at -= last[at] ? strlen(piece[last[at]]) : 1)
        back[count++] = last[at];
    while (count-- > 0)
        if (back[count] || kept == 0 || ids[kept - 1]) ids[kept++] = back[count];
    return kept;
}

/* Returns whether ids came before the end of the word. */
static bool check_word(const hil_tokenizer *tokenizer, unsigned most)
{
    char text[SIZE];
    int32_t expected[SIZE];
    size_t size = 1 + draw(SIZE);
    unsigned letters = 3 + (draw(3) == 0), period = 1 + draw(12), noise = draw(20);
    for (size_t i = 0; i < size; ++i)
        text[i] =
            i < period || draw(noise + 1) == 0 ? (char)('a' + draw(letters)) : text[i - period];
    size_t count = best(text, size, expected);
    hil_unigram_work work = {.window = 1};
    hil_ids ids = {0};
    for (size_t at = 0, part; at < size; at += part) {
        part = 1 + draw(most);
        if (part > size - at) part = size - at;
        CHECK_OK(hil_unigram_add(&tokenizer->unigram, &work, text + at, part, &ids));
    }
    bool early = ids.size > 0;
    CHECK_OK(hil_unigram_end(&tokenizer->unigram, &work, &ids));
    CHECK_INT(ids.size, count);
    for (size_t i = 0; i < count; ++i) CHECK_INT(ids.data[i], expected[i]);
    hil_unigram_work_free(&work);
    hil_ids_free(&ids);
    return early;
}

/* A word of many megabytes, unknown letters among them, takes little memory. */
static void check_long(const char *unit)
{
    enum { TIMES = CHECK_SLOW ? 20000 : 500000 };
    static const char json[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
                               "[[\"?\",0],[\"a\",-1],[\"b\",-1],[\"ab\",-1.5],[\"ba\",-1.5]]}}";
    hil_tokenizer *tokenizer;
    hil_unigram_work work = {0};
    hil_ids ids = {0};
    CHECK_OK(hil_tokenizer_parse(&tokenizer, json, strlen(json), "json"));
    for (int i = 0; i < TIMES; ++i) {
        CHECK_OK(hil_unigram_add(&tokenizer->unigram, &work, unit, strlen(unit), &ids));
        ids.size = 0;
    }
    CHECK(work.text.capacity < 1 << 17);
    CHECK(work.unknown.capacity < 1 << 17);
    CHECK_OK(hil_unigram_end(&tokenizer->unigram, &work, &ids));
    hil_unigram_work_free(&work);
    hil_ids_free(&ids);
    hil_tokenizer_close(tokenizer);
}

int main(void)
{
    int rounds = CHECK_SLOW ? 30 : 300, early = 0;
    for (int i = 0; i < rounds; ++i) {
        draw_pieces();
        hil_tokenizer *tokenizer = make();
        for (int k = 0; k < 4; ++k) early += check_word(tokenizer, 1 + draw(40));
        hil_tokenizer_close(tokenizer);
    }
    printf("%d of %d words gave ids before their end\n", early, 4 * rounds);
    CHECK(early > 4 * rounds / 2);
    check_long("abaab");
    check_long("xy");
    return 0;
}
