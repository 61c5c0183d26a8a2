/* unigram_load.c - the Unigram "model" of a tokenizer.json: pieces, scores and the tree of pieces.
 */
#include "text/unigram.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the score of an unknown character is below the lowest score. */
#define UNKNOWN_PENALTY 10.0

/* significand * 10^exponent, rounded as Hugging Face tokenizers does it: in steps. */
static double scale(uint64_t significand, int64_t exponent)
{
    double value = (double)significand;
    for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
    if (exponent < -308) return 0;
    if (exponent > 308) return value == 0 ? 0 : INFINITY;
    char power[8];
    snprintf(power, sizeof power, "1e%d", (int)(exponent < 0 ? -exponent : exponent));
    return exponent < 0 ? value / strtod(power, NULL) : value * strtod(power, NULL);
}

/* Digits into *significand as far as they fit; *exponent counts those that do not, or with
   `fraction` those that do. */
static const char *read_digits(const char *at, const char *end, bool fraction,
                               uint64_t *significand, int64_t *exponent)
{
    bool full = false;
    for (; at < end && *at >= '0' && *at <= '9'; ++at) {
        uint64_t next, digit = (uint64_t)(*at - '0');
        full = full || __builtin_mul_overflow(*significand, (uint64_t)10, &next) ||
               __builtin_add_overflow(next, digit, &next);
        if (!full) *significand = next;
        *exponent += full ? !fraction : fraction ? -1 : 0;
    }
    return at;
}

/* [Note: scores] A score is read as Hugging Face tokenizers reads it, which can differ from the
   nearest double in the last bit: sums of scores are compared, so bits count. */
static bool parse_score(const char *at, const char *end, double *out)
{
    uint64_t significand = 0;
    int64_t exponent = 0, power = 0;
    bool negative = at < end && *at == '-', down = false;
    at += negative;
    const char *digits = at;
    at = read_digits(at, end, false, &significand, &exponent);
    if (at == digits || at - digits > 400) return false;
    if (at < end && *at == '.') {
        digits = ++at;
        at = read_digits(at, end, true, &significand, &exponent);
        if (at == digits) return false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        down = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) ++at;
        digits = at;
        for (; at < end && *at >= '0' && *at <= '9' && power < 100000; ++at)
            power = 10 * power + (*at - '0');
        if (at == digits) return false;
    }
    double value = scale(significand, exponent + (down ? -power : power));
    *out = negative ? -value : value;
    return at == end && isfinite(value);
}

static hil_status read_score(hil_json_pull *pull, const hil_text *piece, double *score)
{
    hil_json_pull_peek(pull);
    size_t from = pull->at;
    HIL_TRY(hil_json_pull_skip(pull));
    if (parse_score(pull->text + from, pull->text + pull->at, score)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: the score of \"%.60s\" is not a number", pull->what,
                    piece->data);
}

/* Reads ["piece", score]. */
static hil_status read_pair(hil_json_pull *pull, hil_text *piece, double *score)
{
    bool more;
    HIL_TRY(hil_json_pull_enter(pull, '[', &more));
    if (more) HIL_TRY(hil_json_pull_string(pull, piece));
    if (more) HIL_TRY(hil_json_pull_next(pull, '[', &more));
    bool pair = more;
    if (more) HIL_TRY(read_score(pull, piece, score));
    if (more) HIL_TRY(hil_json_pull_next(pull, '[', &more));
    if (pair && !more) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: a piece of the vocabulary is not a text and a score",
                    pull->what);
}

static hil_status read_pieces(hil_unigram *unigram, hil_vocab *vocab, hil_json_pull pull,
                              hil_text *piece)
{
    size_t count;
    bool more, fresh;
    double lowest = INFINITY;
    HIL_TRY(hil_json_pull_count(pull, &count));
    if (count == 0 || count >= (size_t)HIL_VOCAB_MAX)
        return hil_fail(HIL_ERR_INPUT, "%s: the vocabulary has %s pieces", pull.what,
                        count ? "too many" : "no");
    HIL_TRY(HIL_ALLOC(count, &unigram->scores));
    HIL_TRY(hil_vocab_init(vocab, count, pull.size, (int64_t)count));
    HIL_TRY(hil_json_pull_enter(&pull, '[', &more));
    for (int32_t id = 0; more; ++id) {
        double *score = &unigram->scores[id];
        HIL_TRY(read_pair(&pull, piece, score));
        HIL_TRY(hil_json_pull_next(&pull, '[', &more));
        HIL_TRY(hil_vocab_add(vocab, piece->data, piece->size, id, &fresh));
        if (!fresh)
            return hil_fail(HIL_ERR_INPUT, "%s: the piece \"%.60s\" is in the vocabulary twice",
                            pull.what, piece->data);
        if (*score < lowest) lowest = *score;
        if (piece->size > unigram->longest) unigram->longest = piece->size;
    }
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    return HIL_OK;
}

static const char *text_of(const hil_vocab *vocab, int32_t id)
{
    return vocab->text.data + vocab->pieces[id].offset;
}

static int by_text(const void *left, const void *right, void *context)
{
    const hil_vocab *vocab = context;
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    size_t m = vocab->pieces[a].size, n = vocab->pieces[b].size;
    int order = memcmp(text_of(vocab, a), text_of(vocab, b), m < n ? m : n);
    return order ? order : (m > n) - (m < n);
}

/* A node: the pieces [low, high) in the order of their texts share their first `depth` bytes. */
typedef struct node {
    uint32_t low, high, depth;
} node;

typedef struct tree {
    hil_unigram *unigram;
    int32_t *order;
    node *nodes;
    size_t count, node_capacity, byte_capacity, first_capacity, id_capacity;
} tree;

static hil_status add_node(tree *t, node next, uint8_t byte)
{
    hil_unigram *unigram = t->unigram;
    if (t->count >= UINT32_MAX - 1)
        return hil_fail(HIL_ERR_INPUT, "tokenizer: the pieces have more than 4 GiB of text");
    HIL_TRY(HIL_GROW(&t->nodes, &t->node_capacity, t->count + 1));
    HIL_TRY(HIL_GROW(&unigram->bytes, &t->byte_capacity, t->count + 1));
    HIL_TRY(HIL_GROW(&unigram->first, &t->first_capacity, t->count + 2));
    HIL_TRY(HIL_GROW(&unigram->ids, &t->id_capacity, t->count + 1));
    t->nodes[t->count] = next;
    unigram->bytes[t->count++] = byte;
    return HIL_OK;
}

/* Adds the children of node n, one for each byte that follows. */
static hil_status add_children(tree *t, size_t n)
{
    hil_unigram *unigram = t->unigram;
    const hil_vocab *vocab = unigram->vocab;
    node at = t->nodes[n];
    unigram->first[n] = (uint32_t)t->count;
    unigram->ids[n] = -1;
    if (at.low < at.high && vocab->pieces[t->order[at.low]].size == at.depth)
        unigram->ids[n] = t->order[at.low++];
    while (at.low < at.high) {
        char byte = text_of(vocab, t->order[at.low])[at.depth];
        uint32_t end = at.low + 1;
        while (end < at.high && text_of(vocab, t->order[end])[at.depth] == byte) ++end;
        HIL_TRY(add_node(t, (node){at.low, end, at.depth + 1}, (uint8_t)byte));
        at.low = end;
    }
    unigram->first[n + 1] = (uint32_t)t->count;
    return HIL_OK;
}

static hil_status build_tree(tree *t)
{
    hil_unigram *unigram = t->unigram;
    hil_vocab *vocab = (hil_vocab *)unigram->vocab;
    HIL_TRY(HIL_ALLOC(vocab->count, &t->order));
    for (size_t i = 0; i < vocab->count; ++i) t->order[i] = (int32_t)i;
    qsort_r(t->order, vocab->count, sizeof *t->order, by_text, vocab);
    HIL_TRY(add_node(t, (node){0, (uint32_t)vocab->count, 0}, 0));
    for (size_t n = 0; n < t->count; ++n) HIL_TRY(add_children(t, n));
    for (uint32_t n = unigram->first[0]; n < unigram->first[1]; ++n)
        unigram->root[unigram->bytes[n]] = n;
    return HIL_OK;
}

hil_status hil_unigram_load(hil_unigram *unigram, hil_vocab *vocab, const json_t *model,
                            hil_json_pull pieces, const char *what)
{
    *unigram = (hil_unigram){.vocab = vocab, .longest = 1};
    tree t = {.unigram = unigram};
    hil_text piece = {0};
    int64_t unk = -1;
    hil_status status;
    HIL_TRY_DONE(hil_json_int(model, "unk_id", what, &unk));
    HIL_TRY_DONE(hil_json_bool(model, "byte_fallback", what, &unigram->byte_fallback));
    HIL_TRY_DONE(hil_vocab_check_utf8(&pieces, "vocab"));
    HIL_TRY_DONE(read_pieces(unigram, vocab, pieces, &piece));
    unigram->unk_id = (int32_t)unk;
    if (unk < -1 || unk >= (int64_t)vocab->count)
        status = hil_fail(HIL_ERR_INPUT, "%s: unk_id %lld is not in the vocabulary", what,
                          (long long)unk);
    else
        HIL_TRY_DONE(build_tree(&t));
    hil_vocab_find_bytes(vocab, unigram->byte_ids);
    unigram->all_bytes = true;
    for (int i = 0; i < 256; ++i) unigram->all_bytes &= unigram->byte_ids[i] >= 0;
done:
    hil_text_free(&piece);
    hil_free(t.order);
    hil_free(t.nodes);
    return status;
}

void hil_unigram_free(hil_unigram *unigram)
{
    hil_free(unigram->scores);
    hil_free(unigram->first);
    hil_free(unigram->bytes);
    hil_free(unigram->ids);
    *unigram = (hil_unigram){0};
}
