/* pairs.c - counts the pairs of a batch; checks that a model can be its own reference. */
#include "train/pairs.h"

#include "store/store.h"

hil_status hil_pairs_check(const hil_model *model, const hil_preference_loss *loss)
{
    size_t adapters = 0;
    const char *other = NULL;
    if (!hil_reference_runs(loss)) return HIL_OK;
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        const hil_param_spec *spec = hil_param_spec_of(p);
        adapters += spec->adapter;
        if (!spec->adapter && hil_param_trainable(p) && !other) other = spec->name;
    }
    if (!adapters)
        return hil_fail(HIL_ERR_USAGE, "a model without adapter cannot be its own reference");
    if (other)
        return hil_fail(HIL_ERR_USAGE,
                        "--loss: %s would be trained beside the adapter, but the model without "
                        "adapter is the reference and must not change (no --modules-to-save, and "
                        "\"bias\": \"none\" in adapter_config.json)",
                        other);
    return HIL_OK;
}

/* A document of a sequence; places are those of all positions of the batch. */
typedef struct document {
    int64_t begin, end;
    int64_t learned; /* its targets */
} document;

static document document_at(const hil_batch *b, int64_t begin)
{
    int64_t at = begin % b->length, end = begin - at + b->length;
    document d = {begin, begin, 0};
    for (; d.end < end && (d.end == begin || b->first[d.end] == at); ++d.end)
        d.learned += b->target[d.end] >= 0;
    return d;
}

/* The pair that begins at *at, which becomes the place after it. False: it does not count, or is
   padding, a document without another in its sequence. */
static bool read_pair(const hil_batch *b, int64_t *at, document pair[2])
{
    pair[0] = document_at(b, *at);
    *at = pair[0].end;
    if (*at % b->length == 0) return false;
    pair[1] = document_at(b, *at);
    *at = pair[1].end;
    return pair[0].learned || pair[1].learned;
}

hil_pairs_size hil_pairs_measure(const hil_batch *b, const hil_preference_loss *loss)
{
    hil_pairs_size out = {0};
    document pair[2];
    bool prompts = loss->kind == HIL_PREFER_ORPO;
    for (int64_t at = 0; at < b->sequences * b->length;) {
        if (!read_pair(b, &at, pair)) continue;
        out.pairs +=
            loss->kind == HIL_PREFER_KTO ? (pair[0].learned > 0) + (pair[1].learned > 0) : 1;
        if (loss->nll_weight > 0)
            out.tokens += prompts ? pair[0].end - pair[0].begin - 1 : pair[0].learned;
    }
    return out;
}

int64_t hil_pairs_documents(const hil_batch *b)
{
    int64_t count = 0, end = b->sequences * b->length;
    for (int64_t at = 0; at < end; at = document_at(b, at).end) ++count;
    return count;
}

void hil_pairs_gather(const hil_batch *b, const float *loss, double *logp)
{
    for (int64_t at = 0, end = b->sequences * b->length; at < end; ++logp) {
        document d = document_at(b, at);
        for (*logp = 0; at < d.end; ++at)
            if (b->target[at] >= 0) *logp -= (double)loss[at];
    }
}

void hil_pairs_spread(const hil_batch *b, const double *logp, float *loss)
{
    for (int64_t at = 0, end = b->sequences * b->length; at < end; ++logp) {
        document d = document_at(b, at);
        double left = -*logp;
        for (; at < d.end; ++at) {
            loss[at] = b->target[at] >= 0 ? (float)left : 0;
            left -= (double)loss[at];
        }
    }
}

void hil_pairs_read_prompts(const hil_batch *b, int32_t *target)
{
    document pair[2];
    for (int64_t i = 0; i < b->sequences * b->length; ++i)
        target[i] = b->target[i] < 0 ? -1 : b->target[i];
    for (int64_t at = 0; at < b->sequences * b->length;) {
        if (!read_pair(b, &at, pair)) continue;
        for (int64_t i = pair[0].begin; i + 1 < pair[0].end; ++i)
            if (target[i] < 0) target[i] = -2 - b->token[i + 1];
    }
}

/* A learned document, and where its answer begins. */
typedef struct example {
    document all;
    int64_t answer;
} example;

static example example_of(const hil_batch *b, const document *d)
{
    example e = {*d, d->begin};
    while (b->target[e.answer] < 0) ++e.answer;
    ++e.answer;
    return e;
}

/* Where documents of other tokens are written: arrays like those of a batch. */
typedef struct writing {
    const hil_batch *from;
    int32_t *token, *target, *position, *first;
    int64_t at, begin; /* the next place; that of the document */
} writing;

/* Copies [begin, end) to the end of the document; what they predict too, if `learned`. */
static void copy_tokens(writing *w, int64_t begin, int64_t end, bool learned)
{
    int64_t length = w->from->length;
    for (int64_t i = begin; i < end; ++i, ++w->at) {
        w->token[w->at] = w->from->token[i];
        w->target[w->at] = -1;
        w->position[w->at] = (int32_t)(w->at - w->begin);
        w->first[w->at] = (int32_t)(w->begin % length);
        if (learned && w->at > w->begin && w->from->target[i - 1] >= 0)
            w->target[w->at - 1] = w->token[w->at];
    }
}

/* Which answer of its record a learned document is: 0 the first one, 1 that after it. */
typedef struct place {
    int64_t documents; /* before it in its sequence */
    int side;
} place;

/* Goes on to the next document; `learned`: the one at hand is. */
static void pass_document(place *p, bool learned)
{
    p->side = ++p->documents % 2 ? p->side + learned : 0;
}

/* Writes a sequence: [Note: mismatched answers]. Where no other record has such an answer, an
   example stays as it is, without targets. */
static void mismatch_sequence(writing *w, int64_t begin, int64_t end)
{
    document d;
    example before[2] = {{{0}, 0}};
    int64_t count[2] = {0};
    place p = {0};
    for (int64_t at = begin; at < end; at = d.end, pass_document(&p, d.learned > 0)) {
        d = document_at(w->from, at);
        if (!d.learned) continue;
        before[p.side] = example_of(w->from, &d);
        ++count[p.side];
    }
    p = (place){0};
    for (int64_t at = begin; at < end; at = d.end, pass_document(&p, d.learned > 0)) {
        d = document_at(w->from, at);
        w->begin = w->at;
        if (!d.learned || count[p.side] < 2) {
            copy_tokens(w, d.begin, d.end, false);
            continue;
        }
        example own = example_of(w->from, &d);
        copy_tokens(w, own.all.begin, own.answer, false);
        copy_tokens(w, before[p.side].answer, before[p.side].all.end, true);
        before[p.side] = own;
    }
}

void hil_pairs_mismatch(const hil_batch *b, int32_t *arrays, hil_batch *out)
{
    int64_t n = b->sequences * b->length;
    writing w = {b, arrays, arrays + n, arrays + 2 * n, arrays + 3 * n, 0, 0};
    for (int64_t at = 0; at < n; at += b->length) mismatch_sequence(&w, at, at + b->length);
    *out = (hil_batch){.sequences = b->sequences,
                       .length = b->length,
                       .token = w.token,
                       .target = w.target,
                       .position = w.position,
                       .first = w.first};
}

double hil_pairs_kl(const hil_preference_loss *loss, const double sum[HIL_PREFERENCES])
{
    double rewards = sum[HIL_PREFERENCE_REWARD_CHOSEN] + sum[HIL_PREFERENCE_REWARD_REJECTED];
    double kl = rewards / loss->beta / sum[HIL_PREFERENCE_PAIRS];
    return kl < 0 || sum[HIL_PREFERENCE_PAIRS] == 0 ? 0 : kl;
}

static double mean_of(double sum, double count)
{
    return count > 0 ? sum / count : 0;
}

double hil_pairs_loss(const hil_preference_loss *loss, const double sum[HIL_PREFERENCES])
{
    double nll = mean_of(sum[HIL_PREFERENCE_NLL], sum[HIL_PREFERENCE_NLL_TOKENS]);
    return sum[HIL_PREFERENCE_LOSS] / sum[HIL_PREFERENCE_PAIRS] + loss->nll_weight * nll;
}

hil_preferences hil_pairs_mean(hil_preference_kind kind, const double sum[HIL_PREFERENCES])
{
    double pairs = sum[HIL_PREFERENCE_PAIRS], tokens = sum[HIL_PREFERENCE_NLL_TOKENS];
    double chosen = sum[HIL_PREFERENCE_CHOSEN], rejected = sum[HIL_PREFERENCE_REJECTED];
    return (hil_preferences){
        .kind = kind,
        .pairs = (int64_t)pairs,
        .chosen = (int64_t)chosen,
        .rejected = (int64_t)rejected,
        .reward_chosen = mean_of(sum[HIL_PREFERENCE_REWARD_CHOSEN], chosen),
        .reward_rejected = mean_of(sum[HIL_PREFERENCE_REWARD_REJECTED], rejected),
        .accuracy = mean_of(sum[HIL_PREFERENCE_ACCURATE], pairs),
        .logp_chosen = mean_of(sum[HIL_PREFERENCE_LOGP_CHOSEN], chosen),
        .logp_rejected = mean_of(sum[HIL_PREFERENCE_LOGP_REJECTED], rejected),
        .compared = mean_of(sum[HIL_PREFERENCE_LOSS], pairs),
        .nll = mean_of(sum[HIL_PREFERENCE_NLL], tokens),
        .nll_tokens = (int64_t)tokens,
        .log_odds_ratio = mean_of(sum[HIL_PREFERENCE_LOG_ODDS_RATIO], pairs),
        .log_odds = mean_of(sum[HIL_PREFERENCE_LOG_ODDS], pairs),
        .kl = mean_of(sum[HIL_PREFERENCE_KL], pairs),
    };
}

void hil_pairs_sum(const hil_preferences *mean, double sum[HIL_PREFERENCES])
{
    double pairs = (double)mean->pairs, tokens = (double)mean->nll_tokens;
    double chosen = (double)mean->chosen, rejected = (double)mean->rejected;
    sum[HIL_PREFERENCE_CHOSEN] += chosen;
    sum[HIL_PREFERENCE_REJECTED] += rejected;
    sum[HIL_PREFERENCE_KL] += mean->kl * pairs;
    sum[HIL_PREFERENCE_LOSS] += mean->compared * pairs;
    sum[HIL_PREFERENCE_REWARD_CHOSEN] += mean->reward_chosen * chosen;
    sum[HIL_PREFERENCE_REWARD_REJECTED] += mean->reward_rejected * rejected;
    sum[HIL_PREFERENCE_ACCURATE] += mean->accuracy * pairs;
    sum[HIL_PREFERENCE_LOGP_CHOSEN] += mean->logp_chosen * chosen;
    sum[HIL_PREFERENCE_LOGP_REJECTED] += mean->logp_rejected * rejected;
    sum[HIL_PREFERENCE_PAIRS] += pairs;
    sum[HIL_PREFERENCE_NLL] += mean->nll * tokens;
    sum[HIL_PREFERENCE_NLL_TOKENS] += tokens;
    sum[HIL_PREFERENCE_LOG_ODDS_RATIO] += mean->log_odds_ratio * pairs;
    sum[HIL_PREFERENCE_LOG_ODDS] += mean->log_odds * pairs;
}
