/* regex.c - compiles a pattern to a program for a machine that is in many states at once, so that
   no pattern takes exponential time. */
#include "base/regex.h"

#include "base/alloc.h"

#include <ctype.h>
#include <string.h>

#define CODE_MOST 4096 /* instructions */
#define DEPTH_MOST 64  /* groups inside of each other */
#define COUNT_MOST 1000

typedef enum kind { MATCH_BYTE, GO, SPLIT, AT_BEGIN, AT_END, AT_EDGE, NOT_AT_EDGE, ACCEPT } kind;

/* Targets of GO and SPLIT are relative, so that code can be moved. */
typedef struct instruction {
    kind kind;
    int to, or ;
    unsigned char set[32]; /* of MATCH_BYTE: a bit for each byte */
} instruction;

struct hil_regex {
    instruction *code;
    int size;
};

typedef struct compiler {
    instruction *code;
    int size;
    const char *at, *what, *pattern;
    int depth;
} compiler;

static hil_status refuse(const compiler *c, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s: in the expression \"%.100s\" %s", c->what, c->pattern, why);
}

/* Inserts one instruction at `place`. */
static hil_status insert(compiler *c, int place, instruction i)
{
    if (c->size == CODE_MOST) return refuse(c, "there is too much to repeat");
    memmove(&c->code[place + 1], &c->code[place], (size_t)(c->size - place) * sizeof *c->code);
    c->code[place] = i;
    ++c->size;
    return HIL_OK;
}

static hil_status append(compiler *c, instruction i)
{
    return insert(c, c->size, i);
}

static void set_add(unsigned char *set, int low, int high)
{
    for (int b = low; b <= high; ++b) set[b / 8] |= (unsigned char)(1 << b % 8);
}

static void set_invert(unsigned char *set)
{
    for (int i = 0; i < 32; ++i) set[i] = (unsigned char)~set[i];
}

static bool is_word(int byte)
{
    return isalnum(byte) || byte == '_';
}

/* Adds the bytes of \d, \w or \s; false: it is another letter. */
static bool set_add_letter(unsigned char *set, int letter)
{
    unsigned char own[32] = {0};
    for (int b = 1; b < 128; ++b) {
        bool in = tolower(letter) == 'd'   ? isdigit(b)
                  : tolower(letter) == 'w' ? is_word(b)
                                           : isspace(b) != 0;
        if (in) set_add(own, b, b);
    }
    if (!strchr("dwsDWS", letter)) return false;
    if (isupper(letter)) set_invert(own);
    for (int i = 0; i < 32; ++i) set[i] |= own[i];
    return true;
}

/* The byte that an escape stands for, c->at being behind the backslash. */
static hil_status escaped(compiler *c, int *byte)
{
    static const char letters[] = "nrtfv", bytes[] = "\n\r\t\f\v";
    int letter = (unsigned char)*c->at;
    const char *known = letter ? strchr(letters, letter) : NULL;
    if (!letter) return refuse(c, "a backslash ends the pattern");
    if (!known && isalnum(letter)) return refuse(c, "there is an escape that is not supported");
    *byte = known ? bytes[known - letters] : letter;
    ++c->at;
    return HIL_OK;
}

/* One member of a class: a byte, which *byte becomes, or a set (*byte is -1). */
static hil_status class_member(compiler *c, unsigned char *set, int *byte)
{
    *byte = -1;
    if (*c->at != '\\') {
        *byte = (unsigned char)*c->at++;
        return HIL_OK;
    }
    ++c->at;
    if (*c->at && set_add_letter(set, *c->at)) {
        ++c->at;
        return HIL_OK;
    }
    return escaped(c, byte);
}

/* "[...]", c->at being behind the bracket. */
static hil_status class(compiler *c)
{
    instruction i = {.kind = MATCH_BYTE};
    bool inverted = *c->at == '^';
    const char *first = c->at += inverted;
    while (*c->at != ']' || c->at == first) {
        int low, high;
        if (!*c->at) return refuse(c, "a class has no end");
        HIL_TRY(class_member(c, i.set, &low));
        high = low;
        if (low >= 0 && c->at[0] == '-' && c->at[1] && c->at[1] != ']') {
            ++c->at;
            HIL_TRY(class_member(c, i.set, &high));
            if (high < low) return refuse(c, "a range of a class is wrong");
        }
        if (low >= 0) set_add(i.set, low, high);
    }
    ++c->at;
    if (inverted) set_invert(i.set);
    return append(c, i);
}

static hil_status alternatives(compiler *c);

/* "(...)", c->at being behind the parenthesis. */
static hil_status group(compiler *c)
{
    if (*c->at == '?') {
        if (strncmp(c->at, "?P<", 3) == 0 && strchr(c->at, '>'))
            c->at = strchr(c->at, '>') + 1;
        else if (c->at[1] == ':')
            c->at += 2;
        else
            return refuse(c, "there is a group of a kind that is not supported");
    }
    if (++c->depth > DEPTH_MOST) return refuse(c, "there are too many groups in each other");
    HIL_TRY(alternatives(c));
    --c->depth;
    if (*c->at != ')') return refuse(c, "a group has no end");
    ++c->at;
    return HIL_OK;
}

static hil_status escape(compiler *c)
{
    instruction i = {.kind = MATCH_BYTE};
    int byte;
    if (*c->at == 'b' || *c->at == 'B')
        return append(c, (instruction){.kind = *c->at++ == 'b' ? AT_EDGE : NOT_AT_EDGE});
    if (*c->at && set_add_letter(i.set, *c->at)) {
        ++c->at;
        return append(c, i);
    }
    HIL_TRY(escaped(c, &byte));
    set_add(i.set, byte, byte);
    return append(c, i);
}

static hil_status atom(compiler *c)
{
    instruction i = {.kind = MATCH_BYTE};
    int byte = (unsigned char)*c->at++;
    switch (byte) {
    case '(':
        return group(c);
    case '[':
        return class(c);
    case '\\':
        return escape(c);
    case '^':
        return append(c, (instruction){.kind = AT_BEGIN});
    case '$':
        return append(c, (instruction){.kind = AT_END});
    case '*':
    case '+':
    case '?':
        return refuse(c, "there is nothing to repeat");
    case '.':
        set_add(i.set, 0, 255);
        i.set['\n' / 8] &= (unsigned char)~(1 << '\n' % 8);
        break;
    default:
        set_add(i.set, byte, byte);
    }
    return append(c, i);
}

/* Reads "{m}", "{m,}", "{,n}" or "{m,n}"; *most is -1 without an upper bound. False: these are
   plain characters. */
static bool read_counts(const char **at, int *least, int *most)
{
    const char *s = *at + 1;
    bool any = false;
    *least = 0;
    for (; isdigit((unsigned char)*s); ++s, any = true)
        if (*least <= COUNT_MOST) *least = *least * 10 + (*s - '0');
    *most = *least;
    if (*s == ',') {
        any = true;
        *most = -1;
        for (++s; isdigit((unsigned char)*s); ++s) {
            if (*most < 0) *most = 0;
            if (*most <= COUNT_MOST) *most = *most * 10 + (*s - '0');
        }
    }
    if (*s != '}' || !any) return false;
    *at = s + 1;
    return true;
}

/* Makes the code from `begin` on optional, or repeats it any number of times. */
static hil_status make_optional(compiler *c, int begin, bool repeats)
{
    int size = c->size - begin;
    HIL_TRY(insert(c, begin, (instruction){.kind = SPLIT, .to = 1, .or = size + 1 + repeats}));
    return repeats ? append(c, (instruction){.kind = GO, .to = -(size + 1)}) : HIL_OK;
}

/* The atom at `from` was compiled once, from `begin` on: compiles it as often as the counts say. */
static hil_status repeat_counted(compiler *c, const char *from, int begin, int least, int most)
{
    const char *end = c->at;
    if (least > COUNT_MOST || most > COUNT_MOST || (most >= 0 && most < least))
        return refuse(c, "the counts of a repetition are wrong");
    c->size = begin;
    for (int i = 0; i < (most < 0 ? least + 1 : most); ++i) {
        int start = c->size;
        c->at = from;
        HIL_TRY(atom(c));
        if (i >= least) HIL_TRY(make_optional(c, start, most < 0));
    }
    c->at = end;
    return HIL_OK;
}

/* An atom with what repeats it. A "?" or "+" behind that changes only what is tried first. */
static hil_status repetition(compiler *c)
{
    const char *from = c->at;
    int begin = c->size, least = 1, most = 1;
    HIL_TRY(atom(c));
    switch (*c->at) {
    case '*':
        ++c->at, least = 0, most = -1;
        break;
    case '+':
        ++c->at, most = -1;
        break;
    case '?':
        ++c->at, least = 0;
        break;
    case '{':
        if (!read_counts(&c->at, &least, &most)) return HIL_OK;
        break;
    default:
        return HIL_OK;
    }
    HIL_TRY(repeat_counted(c, from, begin, least, most));
    if (*c->at == '?') ++c->at;
    if (*c->at && strchr("*+?", *c->at)) return refuse(c, "a repetition is repeated");
    return HIL_OK;
}

static hil_status alternatives(compiler *c)
{
    int begin = c->size, ends[CODE_MOST / 64], count = 0;
    for (;;) {
        while (*c->at && *c->at != '|' && *c->at != ')') HIL_TRY(repetition(c));
        if (*c->at != '|') break;
        ++c->at;
        if (count == CODE_MOST / 64) return refuse(c, "there are too many alternatives");
        HIL_TRY(insert(c, begin, (instruction){.kind = SPLIT, .to = 1, .or = c->size - begin + 2}));
        ends[count++] = c->size;
        HIL_TRY(append(c, (instruction){.kind = GO}));
        begin = c->size;
    }
    for (int i = 0; i < count; ++i) c->code[ends[i]].to = c->size - ends[i];
    return HIL_OK;
}

hil_status hil_regex_create(hil_regex **out, const char *pattern, const char *what)
{
    compiler c = {.at = pattern, .pattern = pattern, .what = what};
    hil_status status;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(CODE_MOST, &c.code));
    HIL_TRY_DONE(alternatives(&c));
    if (*c.at) HIL_TRY_DONE(refuse(&c, "a parenthesis is too much"));
    HIL_TRY_DONE(append(&c, (instruction){.kind = ACCEPT}));
    HIL_TRY_DONE(HIL_ALLOC(1, out));
    (*out)->code = c.code;
    (*out)->size = c.size;
    return HIL_OK;
done:
    hil_free(c.code);
    return status;
}

void hil_regex_destroy(hil_regex *regex)
{
    if (!regex) return;
    hil_free(regex->code);
    hil_free(regex);
}

/* The states that the machine is in: instructions that match a byte, or accept. */
typedef struct states {
    bool in[CODE_MOST];
    short list[CODE_MOST];
    int count;
} states;

static bool is_edge(const char *text, const char *at)
{
    bool before = at > text && is_word((unsigned char)at[-1]);
    return before != is_word((unsigned char)*at);
}

/* Enters the state `first` and all that follow from it without a byte. */
static void enter(const hil_regex *r, states *s, int first, const char *text, const char *at)
{
    short stack[CODE_MOST];
    int depth = 0;
    if (s->in[first]) return;
    s->in[first] = true;
    stack[depth++] = (short)first;
    while (depth) {
        int pc = stack[--depth], next[2], nexts = 0;
        const instruction *i = &r->code[pc];
        s->list[s->count++] = (short)pc;
        if (i->kind == GO || i->kind == SPLIT) next[nexts++] = pc + i->to;
        if (i->kind == SPLIT) next[nexts++] = pc + i->or ;
        if ((i->kind == AT_BEGIN && at == text) || (i->kind == AT_END && !*at) ||
            (i->kind == AT_EDGE && is_edge(text, at)) ||
            (i->kind == NOT_AT_EDGE && !is_edge(text, at)))
            next[nexts++] = pc + 1;
        for (int k = 0; k < nexts; ++k) {
            if (s->in[next[k]]) continue;
            s->in[next[k]] = true;
            stack[depth++] = (short)next[k];
        }
    }
}

bool hil_regex_matches(const hil_regex *r, const char *text)
{
    states now = {.count = 0}, next;
    enter(r, &now, 0, text, text);
    for (const char *at = text; *at; ++at) {
        unsigned byte = (unsigned char)*at;
        next = (states){.count = 0};
        for (int k = 0; k < now.count; ++k) {
            const instruction *i = &r->code[now.list[k]];
            if (i->kind == MATCH_BYTE && (i->set[byte / 8] >> byte % 8 & 1))
                enter(r, &next, now.list[k] + 1, text, at + 1);
        }
        now = next;
    }
    return now.in[r->size - 1];
}
