/* pretokenize.c - hand-written matchers for the regular expressions of the GPT-2 family. */
#include "text/pretokenize.h"

#include "text/unicode.h"

#include <string.h>

/* The text being matched. `reached_end`: the match may change if more text follows. */
typedef struct view {
    const char *text;
    size_t size;
    bool reached_end;
} view;

enum { L = HIL_UNICODE_LETTER, N = HIL_UNICODE_NUMBER, S = HIL_UNICODE_SPACE, END = 1 << 8 };

static const unsigned char ascii_flags[128] = {
    ['\t'] = S, ['\n'] = S,        ['\v'] = S,        ['\f'] = S,        ['\r'] = S,
    [' '] = S,  ['0' ... '9'] = N, ['A' ... 'Z'] = L, ['a' ... 'z'] = L,
};

/* The flags of the character at `at`, and its length in *step; END at the end. */
static inline unsigned flags_at(view *v, size_t at, size_t *step)
{
    if (at >= v->size) {
        v->reached_end = true;
        *step = 0;
        return END;
    }
    unsigned char byte = (unsigned char)v->text[at];
    if (byte < 0x80) {
        *step = 1;
        return ascii_flags[byte];
    }
    return hil_unicode_flags(hil_utf8_get(v->text + at, step)) & (L | N | S);
}

/* The end of the run of characters with one of `flags`, at most `most` of them. */
static size_t skip(view *v, size_t at, unsigned flags, size_t most)
{
    size_t step;
    for (; most > 0 && flags_at(v, at, &step) & flags; --most) at += step;
    return at;
}

/* The end of the run of characters that are neither letter, number nor space. */
static size_t skip_marks(view *v, size_t at)
{
    size_t step;
    while (flags_at(v, at, &step) == 0) at += step;
    return at;
}

static bool is_line_end(const view *v, size_t at)
{
    return at < v->size && (v->text[at] == '\n' || v->text[at] == '\r');
}

static size_t skip_line_ends(view *v, size_t at)
{
    while (is_line_end(v, at)) ++at;
    if (at >= v->size) v->reached_end = true;
    return at;
}

/* The byte at `at`, an ASCII letter in lower case when `fold`; 0 at the end. U+017F folds to s. */
static int letter(view *v, size_t at, bool fold, size_t *step)
{
    *step = 1;
    if (at >= v->size) {
        v->reached_end = true;
        return 0;
    }
    unsigned char byte = (unsigned char)v->text[at];
    if (!fold) return byte;
    if (byte == 0xC5 && (unsigned char)v->text[at + 1] == 0xBF) {
        *step = 2;
        return 's';
    }
    return byte >= 'A' && byte <= 'Z' ? byte + 32 : byte;
}

/* The length of 's 't 're 've 'm 'll 'd, or 0. */
static size_t contraction(view *v, bool fold)
{
    if (v->text[0] != '\'') return 0;
    size_t step, more;
    int first = letter(v, 1, fold, &step);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1 + step;
    if (first != 'r' && first != 'v' && first != 'l') return 0;
    int second = letter(v, 1 + step, fold, &more);
    return second == (first == 'l' ? 'l' : 'e') ? 1 + step + more : 0;
}

/* \s+(?!\S)|\s+ for spaces up to `end`: the last space before a word belongs to the word. */
static size_t spaces(view *v, size_t end)
{
    if (end >= v->size) return end;
    size_t before = hil_utf8_back(v->text, end);
    return before > 0 ? before : end;
}

static size_t match_gpt2(view *v)
{
    size_t length = contraction(v, false), step;
    if (length) return length;
    size_t start = v->text[0] == ' ';
    unsigned flags = flags_at(v, start, &step);
    if (flags & L) return skip(v, start, L, SIZE_MAX);
    if (flags & N) return skip(v, start, N, SIZE_MAX);
    if (flags == 0) return skip_marks(v, start);
    return spaces(v, skip(v, 0, S, SIZE_MAX));
}

/* Numbers are cut into groups of up to `digits`. */
static size_t match_llama3(view *v, size_t digits)
{
    size_t length = contraction(v, true), step, next_step;
    if (length) return length;
    unsigned flags = flags_at(v, 0, &step);
    if (flags & L) return skip(v, 0, L, SIZE_MAX);
    if (flags & N) return skip(v, 0, N, digits);
    if (!is_line_end(v, 0) && flags_at(v, step, &next_step) & L) return skip(v, step, L, SIZE_MAX);
    size_t start = v->text[0] == ' ';
    if (flags_at(v, start, &next_step) == 0) return skip_line_ends(v, skip_marks(v, start));
    size_t end = skip(v, 0, S, SIZE_MAX), line = end;
    while (line > 0 && !is_line_end(v, line - 1)) --line;
    return line > 0 ? line : spaces(v, end);
}

static size_t match(hil_pattern pattern, view *v)
{
    switch (pattern) {
    case HIL_PATTERN_GPT2:
        return match_gpt2(v);
    case HIL_PATTERN_LLAMA3:
        return match_llama3(v, 3);
    case HIL_PATTERN_QWEN2:
        return match_llama3(v, 1);
    case HIL_PATTERN_NONE:
        break;
    }
    v->reached_end = true;
    return v->size;
}

/* Shortens the view to its first number, or to the text before the first number. */
static void narrow(hil_digits digits, view *v)
{
    size_t step, end;
    if (flags_at(v, 0, &step) & N) {
        end = digits == HIL_DIGITS_SINGLE ? step : skip(v, 0, N, SIZE_MAX);
    } else {
        for (end = step; !(flags_at(v, end, &step) & (N | END)); end += step) continue;
    }
    v->size = end;
}

/* The end of the first word without a pattern: at a `space`, or where no merge can join. */
static size_t next_cut(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe, view *v)
{
    size_t step, space = strlen(pretokenizer->space);
    uint32_t before = hil_utf8_get(v->text, &step);
    for (size_t at = step; at < v->size; at += step) {
        uint32_t point = hil_utf8_get(v->text + at, &step);
        if (pretokenizer->split_space && step == space &&
            memcmp(v->text + at, pretokenizer->space, space) == 0)
            return at;
        if (!hil_bpe_may_join(bpe, before, point)) return at;
        before = point;
    }
    v->reached_end = true;
    return v->size;
}

size_t hil_pretokenizer_next(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                             const char *text, size_t size, bool last)
{
    view v = {text, size, false};
    bool open = false;
    if (pretokenizer->digits != HIL_DIGITS_PLAIN) {
        narrow(pretokenizer->digits, &v);
        open = v.reached_end;
        v.reached_end = false;
    }
    size_t length = pretokenizer->byte_level ? match(pretokenizer->pattern, &v)
                                             : next_cut(pretokenizer, bpe, &v);
    bool certain = !v.reached_end || (pretokenizer->digits != HIL_DIGITS_PLAIN && !open);
    return last || certain ? length : 0;
}

/* Kinds of words that may be of any length. */
enum { LETTERS, NUMBERS, MARKS, LINES, SPACES, ALL, PIECES };

static bool takes_lines(const hil_pretokenizer *pretokenizer)
{
    return pretokenizer->pattern == HIL_PATTERN_LLAMA3 ||
           pretokenizer->pattern == HIL_PATTERN_QWEN2;
}

size_t hil_pretokenizer_begin(const hil_pretokenizer *pretokenizer, const char *text, size_t size,
                              hil_word *word)
{
    view v = {text, size, false};
    size_t step, more, start = text[0] == ' ';
    unsigned flags = flags_at(&v, 0, &step);
    *word = (hil_word){.kind = ALL, .is_number = flags & N};
    if (!pretokenizer->byte_level) {
        word->kind = PIECES;
        word->before = hil_utf8_get(text, &step);
        return step;
    }
    if (pretokenizer->pattern == HIL_PATTERN_NONE) return 0;
    bool lines = takes_lines(pretokenizer);
    if (lines && !(flags & (L | N)) && !is_line_end(&v, 0) && flags_at(&v, step, &more) & L)
        start = step;
    flags = flags_at(&v, start, &more);
    if (flags & S) {
        word->kind = SPACES;
        return 0;
    }
    word->kind = flags & L ? LETTERS : flags & N ? NUMBERS : MARKS;
    return start;
}

/* \s*[\r\n]+ up to the last line end if the pattern has it, else as spaces(). Holds back the
   spaces that depend on what ends the run. */
static size_t continue_spaces(const hil_pretokenizer *pretokenizer, hil_word *word, view *v,
                              bool *ended)
{
    size_t step, end = skip(v, 0, S, SIZE_MAX), line = 0;
    bool stops = end < v->size || *ended;
    if (takes_lines(pretokenizer)) {
        line = end;
        while (line > 0 && !is_line_end(v, line - 1)) --line;
    }
    word->has_line |= line > 0;
    bool alone =
        end == v->size || (pretokenizer->digits != HIL_DIGITS_PLAIN && flags_at(v, end, &step) & N);
    *ended = stops;
    if (word->has_line) return line;
    if (stops && alone) return end;
    return end ? hil_utf8_back(v->text, end) : 0;
}

/* The bytes of the view that continue a word of kind ALL or PIECES. */
static size_t continue_any(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe, hil_word *word,
                           view *v)
{
    size_t step, space = strlen(pretokenizer->space), at = 0;
    for (; at < v->size; at += step) {
        bool is_number = flags_at(v, at, &step) & N;
        if (pretokenizer->digits != HIL_DIGITS_PLAIN && is_number != word->is_number) break;
        if (word->kind == ALL) continue;
        if (pretokenizer->split_space && step == space &&
            memcmp(v->text + at, pretokenizer->space, space) == 0)
            break;
        uint32_t point = hil_utf8_get(v->text + at, &step);
        if (!hil_bpe_may_join(bpe, word->before, point)) break;
        word->before = point;
    }
    return at;
}

size_t hil_pretokenizer_continue(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                                 hil_word *word, const char *text, size_t size, bool *ended)
{
    view v = {text, size, false};
    size_t end = 0;
    if (word->kind == SPACES) return continue_spaces(pretokenizer, word, &v, ended);
    if (word->kind == LETTERS) end = skip(&v, 0, L, SIZE_MAX);
    if (word->kind == NUMBERS) end = skip(&v, 0, N, SIZE_MAX);
    if (word->kind == ALL || word->kind == PIECES) end = continue_any(pretokenizer, bpe, word, &v);
    if (word->kind == MARKS) end = skip_marks(&v, 0);
    if (word->kind == MARKS && end < size && takes_lines(pretokenizer)) word->kind = LINES;
    if (word->kind == LINES) end = skip_line_ends(&v, end);
    *ended = *ended || end < size;
    return end;
}
