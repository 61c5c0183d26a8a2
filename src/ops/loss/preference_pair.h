/* preference_pair.h - the loss of one pair of answers and its gradient, for CPU and GPU. */
#ifndef HIL_OPS_LOSS_PREFERENCE_PAIR_H
#define HIL_OPS_LOSS_PREFERENCE_PAIR_H

#include "ops/ops.h"

#include <math.h>

/* Sums over an answer, which is a document. */
typedef struct hil_answer {
    double logp, reference; /* of its tokens, without the prompt's */
    double nll;             /* of these, and of those of the prompt that are learned */
    int64_t tokens, nll_tokens;
} hil_answer;

/* Adds a position with its losses. */
static inline HIL_BOTH void hil_answer_add(hil_answer *a, int32_t target, double loss,
                                           double reference, bool prompts)
{
    if (target < 0 && !(prompts && target < -1)) return;
    a->nll += loss;
    ++a->nll_tokens;
    if (target < 0) return;
    a->logp -= loss;
    a->reference -= reference;
    ++a->tokens;
}

typedef struct hil_compared {
    double number[HIL_PREFERENCES];
    double slope[2]; /* of the loss by the loss of a token of the chosen and the rejected answer */
} hil_compared;

static inline HIL_BOTH double hil_softplus(double x)
{
    return log1p(exp(-fabs(x))) + (x > 0 ? x : 0);
}

static inline HIL_BOTH double hil_sigmoid(double x)
{
    double small = exp(-fabs(x));
    return (x > 0 ? 1 : small) / (1 + small);
}

/* A function of the two scores, and its derivatives. */
typedef struct hil_slopes {
    double value, chosen, rejected;
} hil_slopes;

/* right * -log sigmoid(x) + wrong * -log sigmoid(-x), of x = beta (c - r) - margin */
static inline HIL_BOTH hil_slopes hil_answer_sigmoid(double x, double beta, double right,
                                                     double wrong)
{
    double slope = beta * (wrong * hil_sigmoid(x) - right * hil_sigmoid(-x));
    hil_slopes out = {right * hil_softplus(-x) + wrong * hil_softplus(x), slope, -slope};
    return out;
}

/* factor * sigmoid(x), of x = beta times a score */
static inline HIL_BOTH double hil_answer_share(double x, double beta, double *slope)
{
    double y = hil_sigmoid(x);
    *slope = beta * y * hil_sigmoid(-x);
    return y;
}

static inline HIL_BOTH hil_slopes hil_answer_apo(bool zero, double beta, double c, double r)
{
    double of_c, of_r;
    double chosen = hil_answer_share(beta * c, beta, &of_c);
    double other = hil_answer_share(zero ? beta * r : beta * (c - r), beta, &of_r);
    hil_slopes of_zero = {1 - chosen + other, -of_c, of_r};
    hil_slopes of_down = {chosen + 1 - other, of_c - of_r, of_r};
    return zero ? of_zero : of_down;
}

#define HIL_CERTAIN (-1e-12) /* means of log probabilities are at most this: odds stay finite */

/* log(p / (1 - p)) of a log probability. */
static inline HIL_BOTH double hil_answer_odds(double logp)
{
    double x = logp < HIL_CERTAIN ? logp : HIL_CERTAIN;
    return x - (x < -0.6931471805599453 ? log1p(-exp(x)) : log(-expm1(x)));
}

static inline HIL_BOTH double hil_answer_odds_slope(double logp)
{
    return -1 / expm1(logp < HIL_CERTAIN ? logp : HIL_CERTAIN);
}

static inline HIL_BOTH hil_slopes hil_answer_ratio(double beta, double c, double r)
{
    double x = hil_answer_odds(c) - hil_answer_odds(r);
    hil_slopes out = hil_answer_sigmoid(x, 1, beta, 0);
    out.chosen *= hil_answer_odds_slope(c);
    out.rejected *= hil_answer_odds_slope(r);
    return out;
}

static inline HIL_BOTH hil_slopes hil_answer_scores(const hil_preference_loss *l, double c,
                                                    double r)
{
    double x = l->beta * (c - r), wrong = l->label_smoothing, gap = c - r - 1 / (2 * l->beta);
    hil_slopes ipo = {gap * gap, 2 * gap, -2 * gap};
    hil_slopes hinge = {x < 1 ? 1 - x : 0, x < 1 ? -l->beta : 0, x < 1 ? l->beta : 0};
    switch (l->kind) {
    case HIL_PREFER_ROBUST:
        return hil_answer_sigmoid(x, l->beta, (1 - wrong) / (1 - 2 * wrong),
                                  -wrong / (1 - 2 * wrong));
    case HIL_PREFER_IPO:
        return ipo;
    case HIL_PREFER_HINGE:
        return hinge;
    case HIL_PREFER_APO_ZERO:
        return hil_answer_apo(true, l->beta, c, r);
    case HIL_PREFER_APO_DOWN:
        return hil_answer_apo(false, l->beta, c, r);
    case HIL_PREFER_SIMPO:
        return hil_answer_sigmoid(x - l->margin, l->beta, 1 - wrong, wrong);
    case HIL_PREFER_ORPO:
        return hil_answer_ratio(l->beta, c, r);
    default:
        return hil_answer_sigmoid(x, l->beta, 1 - wrong, wrong);
    }
}

/* The loss of kto of one answer. */
static inline HIL_BOTH void hil_answer_judge(const hil_preference_attr *attr, const hil_answer *a,
                                             bool chosen, hil_compared *out)
{
    const hil_preference_loss *l = &attr->loss;
    double ratio = a->logp - a->reference, slope;
    double weight = chosen ? l->desirable_weight : l->undesirable_weight;
    if (!a->tokens) return;
    double x = l->beta * (chosen ? ratio - attr->kl : attr->kl - ratio);
    double share = hil_answer_share(x, l->beta, &slope);
    out->slope[!chosen] = chosen ? weight * slope : -weight * slope;
    out->number[HIL_PREFERENCE_LOSS] += weight * (1 - share);
    out->number[HIL_PREFERENCE_PAIRS] += 1;
    out->number[HIL_PREFERENCE_KL] += attr->kl;
    out->number[chosen ? HIL_PREFERENCE_CHOSEN : HIL_PREFERENCE_REJECTED] = 1;
    out->number[chosen ? HIL_PREFERENCE_REWARD_CHOSEN : HIL_PREFERENCE_REWARD_REJECTED] =
        l->beta * ratio;
    out->number[chosen ? HIL_PREFERENCE_LOGP_CHOSEN : HIL_PREFERENCE_LOGP_REJECTED] = a->logp;
}

static inline HIL_BOTH hil_compared hil_answer_judge_both(const hil_preference_attr *attr,
                                                          const hil_answer *chosen,
                                                          const hil_answer *rejected)
{
    hil_compared out = {{0}, {0, 0}};
    hil_answer_judge(attr, chosen, true, &out);
    hil_answer_judge(attr, rejected, false, &out);
    return out;
}

/* A pair that counts: one of its answers has a token. */
static inline HIL_BOTH hil_compared hil_answer_compare(const hil_preference_attr *attr,
                                                       const hil_answer *chosen,
                                                       const hil_answer *rejected)
{
    const hil_preference_loss *l = &attr->loss;
    if (l->kind == HIL_PREFER_KTO) return hil_answer_judge_both(attr, chosen, rejected);
    bool refers = hil_reference_wanted(l->kind), odds = l->kind == HIL_PREFER_ORPO;
    bool mean = odds || l->kind == HIL_PREFER_SIMPO; /* also what is measured */
    double each[2] = {1, 1};
    if (mean || l->kind == HIL_PREFER_IPO) {
        each[0] = 1 / (double)(chosen->tokens > 1 ? chosen->tokens : 1);
        each[1] = 1 / (double)(rejected->tokens > 1 ? rejected->tokens : 1);
    }
    double ratio[2] = {chosen->logp - (refers ? chosen->reference : 0),
                       rejected->logp - (refers ? rejected->reference : 0)};
    double c = ratio[0] * each[0], r = ratio[1] * each[1];
    hil_slopes s = hil_answer_scores(l, c, r);
    double good = l->beta * (mean ? c : ratio[0]), bad = l->beta * (mean ? r : ratio[1]);
    hil_compared out = {{0}, {-s.chosen * each[0], -s.rejected * each[1]}};
    out.number[HIL_PREFERENCE_LOSS] = s.value;
    out.number[HIL_PREFERENCE_PAIRS] = 1;
    out.number[HIL_PREFERENCE_CHOSEN] = out.number[HIL_PREFERENCE_REJECTED] = 1;
    out.number[HIL_PREFERENCE_REWARD_CHOSEN] = good;
    out.number[HIL_PREFERENCE_REWARD_REJECTED] = bad;
    out.number[HIL_PREFERENCE_ACCURATE] = good > bad;
    out.number[HIL_PREFERENCE_LOGP_CHOSEN] = mean ? c : chosen->logp;
    out.number[HIL_PREFERENCE_LOGP_REJECTED] = mean ? r : rejected->logp;
    if (l->nll_weight > 0) {
        out.number[HIL_PREFERENCE_NLL] = chosen->nll;
        out.number[HIL_PREFERENCE_NLL_TOKENS] = (double)chosen->nll_tokens;
        out.slope[0] += attr->token_weight;
    }
    if (odds) {
        double x = hil_answer_odds(c) - hil_answer_odds(r);
        out.number[HIL_PREFERENCE_LOG_ODDS] = x;
        out.number[HIL_PREFERENCE_LOG_ODDS_RATIO] = -hil_softplus(-x);
    }
    return out;
}

#endif
