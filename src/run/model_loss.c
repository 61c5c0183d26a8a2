/* model_loss.c - what --loss and the options beside it ask for. */
#include "run/model_source.h"

#include "model/mixture.h"

#include <string.h>

#define BETA 0.1
#define SIMPO_BETA 2.0 /* of means over tokens, which are small */
#define SIMPO_MARGIN 0.5

typedef struct method {
    const char *word;
    double beta, nll_weight; /* defaults */
    bool smooths;            /* --label-smoothing has a meaning */
} method;

static const method methods[HIL_PREFER_KINDS] = {
    [HIL_PREFER_NONE] = {.word = "cross-entropy"},
    [HIL_PREFER_DPO] = {"dpo", BETA, 0, true},
    [HIL_PREFER_ROBUST] = {"robust", BETA, 0, true},
    [HIL_PREFER_IPO] = {"ipo", BETA, 0, false},
    [HIL_PREFER_HINGE] = {"hinge", BETA, 0, false},
    [HIL_PREFER_APO_ZERO] = {"apo_zero", BETA, 0, false},
    [HIL_PREFER_APO_DOWN] = {"apo_down", BETA, 0, false},
    [HIL_PREFER_KTO] = {"kto", BETA, 0, false},
    [HIL_PREFER_CPO] = {"cpo", BETA, 1, true},
    [HIL_PREFER_SIMPO] = {"simpo", SIMPO_BETA, 0, true},
    [HIL_PREFER_ORPO] = {"orpo", BETA, 1, false},
};

const char *hil_source_loss_word(hil_preference_kind kind)
{
    return methods[kind].word;
}

hil_status hil_source_loss_read(const char *word, hil_preference_kind *kind)
{
    *kind = HIL_PREFER_NONE;
    if (!word) return HIL_OK;
    for (int k = 0; k < HIL_PREFER_KINDS; ++k) {
        if (strcmp(word, methods[k].word) != 0) continue;
        *kind = (hil_preference_kind)k;
        return HIL_OK;
    }
    return hil_fail(HIL_ERR_USAGE,
                    "--loss must be cross-entropy, dpo, robust, ipo, hinge, apo_zero, apo_down, "
                    "kto, cpo, simpo or orpo, not '%s'",
                    word);
}

/* The option of the two weights of kto that was given; NULL: none. */
static const char *weighs(const hil_preference_choice *c)
{
    if (c->desirable_weight >= 0) return "desirable-weight";
    return c->undesirable_weight >= 0 ? "undesirable-weight" : NULL;
}

/* Refuses options that mean nothing for the loss. */
static hil_status check_choice(hil_preference_kind kind, const hil_loss_request *r)
{
    const hil_preference_choice *c = &r->choice;
    const char *word = methods[kind].word;
    if (kind == HIL_PREFER_NONE) {
        const char *given = r->precompute            ? r->precompute
                            : r->beta > 0            ? "beta"
                            : c->label_smoothing > 0 ? "label-smoothing"
                            : c->nll_weight >= 0     ? "nll-weight"
                            : c->margin >= 0         ? "margin"
                            : weighs(c)              ? weighs(c)
                                                     : NULL;
        if (!given) return HIL_OK;
        return hil_fail(HIL_ERR_USAGE,
                        "--%s is for a loss that compares answers: give --loss dpo or another one "
                        "too",
                        given);
    }
    if (c->label_smoothing > 0 && !methods[kind].smooths)
        return hil_fail(HIL_ERR_USAGE,
                        "--label-smoothing has no meaning for --loss %s: it is for dpo, robust, "
                        "cpo and simpo",
                        word);
    if (!(c->label_smoothing >= 0 && c->label_smoothing < 0.5))
        return hil_fail(HIL_ERR_USAGE,
                        "--label-smoothing %g: expected the share of wrong labels, below 0.5",
                        c->label_smoothing);
    if (c->nll_weight >= 0 && kind == HIL_PREFER_ORPO)
        return hil_fail(HIL_ERR_USAGE,
                        "--nll-weight has no meaning for --loss orpo, where cross-entropy counts "
                        "once: --beta weighs the comparison");
    if (c->nll_weight > 0 && kind == HIL_PREFER_KTO)
        return hil_fail(HIL_ERR_USAGE, "--nll-weight has no meaning for --loss kto");
    if (weighs(c) && kind != HIL_PREFER_KTO)
        return hil_fail(HIL_ERR_USAGE, "--%s is that of --loss kto, not of %s", weighs(c), word);
    if (c->margin >= 0 && kind != HIL_PREFER_SIMPO)
        return hil_fail(HIL_ERR_USAGE, "--margin is that of --loss simpo, not of %s", word);
    return HIL_OK;
}

/* Lets the model that will be built have the router z-loss. */
static hil_status weigh_routers(hil_source *s, double coefficient)
{
    hil_config *c = &s->config;
    if (!(coefficient > 0)) return HIL_OK;
    if (s->loss)
        return hil_fail(HIL_ERR_USAGE,
                        "--router-z-loss is for cross-entropy, not for --loss %s: leave it out",
                        s->loss);
    if (!hil_mixture_before(c, c->layers))
        return hil_fail(HIL_ERR_USAGE,
                        "--router-z-loss is for mixtures of experts: no layer of this %s has a "
                        "router, so leave it out",
                        c->arch->name);
    c->mixture.router_z = coefficient;
    return HIL_OK;
}

hil_status hil_source_loss(hil_source *s, const hil_loss_request *r, hil_preference_loss *out)
{
    const hil_preference_choice *c = &r->choice;
    hil_preference_kind kind;
    *out = (hil_preference_loss){0};
    HIL_TRY(hil_source_loss_read(r->word, &kind));
    HIL_TRY(check_choice(kind, r));
    s->loss = kind == HIL_PREFER_NONE ? NULL : methods[kind].word;
    HIL_TRY(weigh_routers(s, r->router_z));
    if (kind == HIL_PREFER_NONE) return HIL_OK;
    if (!hil_reference_wanted(kind) && r->precompute)
        return hil_fail(HIL_ERR_USAGE,
                        "--loss %s has no reference: leave --reference and --precompute-reference "
                        "out",
                        s->loss);
    *out = (hil_preference_loss){
        .kind = kind,
        .precomputed = hil_reference_wanted(kind) && (r->precompute || !s->adapter.root),
        .beta = r->beta > 0 ? r->beta : methods[kind].beta,
        .label_smoothing = c->label_smoothing,
        .margin = kind != HIL_PREFER_SIMPO ? 0
                  : c->margin >= 0         ? c->margin
                                           : SIMPO_MARGIN,
        .nll_weight = c->nll_weight >= 0 ? c->nll_weight : methods[kind].nll_weight,
        .desirable_weight = c->desirable_weight >= 0 ? c->desirable_weight : 1,
        .undesirable_weight = c->undesirable_weight >= 0 ? c->undesirable_weight : 1,
    };
    return HIL_OK;
}
