/* preference.h - losses that compare answers, and what is measured of them. */
#ifndef HILBERT_PREFERENCE_H
#define HILBERT_PREFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* By their words in --loss. c and r are what the model says of the chosen and of the rejected
   answer of a pair: log probabilities, from which those under the reference model are subtracted
   where there is one; means over tokens with ipo, simpo and orpo. */
typedef enum hil_preference_kind {
    HIL_PREFER_NONE, /* cross-entropy */
    /* With a reference model: */
    HIL_PREFER_DPO,      /* -log sigmoid(beta (c - r)), with label smoothing cDPO */
    HIL_PREFER_ROBUST,   /* the same without the bias of labels that are wrong that often */
    HIL_PREFER_IPO,      /* (c - r - 1 / (2 beta))^2 */
    HIL_PREFER_HINGE,    /* max(0, 1 - beta (c - r)) */
    HIL_PREFER_APO_ZERO, /* 1 - sigmoid(beta c) + sigmoid(beta r) */
    HIL_PREFER_APO_DOWN, /* sigmoid(beta c) + 1 - sigmoid(beta (c - r)) */
    /* Of each answer: 1 - sigmoid(beta (c - kl)), 1 - sigmoid(beta (kl - r)). kl is the mean of
       such differences over answers to other prompts, or 0 if that is larger. */
    HIL_PREFER_KTO,
    /* Without: */
    HIL_PREFER_CPO,   /* as dpo */
    HIL_PREFER_SIMPO, /* as dpo, of beta (c - r) - margin */
    HIL_PREFER_ORPO,  /* -beta log sigmoid(log odds of c - log odds of r) */
    HIL_PREFER_KINDS
} hil_preference_kind;

typedef struct hil_preference_loss {
    hil_preference_kind kind;
    /* The log probabilities under the reference come with each batch (hil_batch.reference); false:
       the reference is the model without its adapter, which runs beside it. */
    bool precomputed;
    double beta;
    double label_smoothing; /* fraction of the pairs whose labels are wrong, below 0.5 */
    double margin;          /* of simpo */
    /* Of the cross-entropy of the chosen answers, which is added: its mean over their tokens. With
       orpo those of the prompt count too. */
    double nll_weight;
    double desirable_weight, undesirable_weight; /* of kto: of chosen and rejected answers */
} hil_preference_loss;

/* Numbers of a loss as options say them. */
typedef struct hil_preference_choice {
    double label_smoothing;
    double nll_weight, margin; /* below 0: the default of the loss, as below */
    double desirable_weight, undesirable_weight;
} hil_preference_choice;

/* Means over the pairs of answers of a step or an evaluation, under the names of TRL. A reward is
   beta times the difference of an answer's log probability to that under the reference model, or
   times the log probability. */
typedef struct hil_preferences {
    hil_preference_kind kind;
    int64_t pairs;            /* or answers, with kto; 0: the loss is not that of preferences */
    int64_t chosen, rejected; /* answers */
    double reward_chosen, reward_rejected;
    double accuracy; /* fraction of the pairs whose chosen answer has the higher reward */
    double logp_chosen, logp_rejected;
    double compared;                 /* the loss without cross-entropy */
    double nll;                      /* cross-entropy of the chosen answers */
    int64_t nll_tokens;              /* over which it is a mean; 0: its weight is 0 */
    double log_odds_ratio, log_odds; /* of orpo: log sigmoid(log_odds), and that */
    double kl;                       /* of kto */
} hil_preferences;

/* What is measured, by the names of TRL. */
typedef struct hil_preference_value {
    const char *name;
    double value;
} hil_preference_value;
#define HIL_PREFERENCE_VALUES 10
/* Returns how many there are: without means over nothing. */
static inline int hil_preference_values(const hil_preferences *p,
                                        hil_preference_value out[HIL_PREFERENCE_VALUES])
{
    bool single = p->kind == HIL_PREFER_KTO, odds = p->kind == HIL_PREFER_ORPO;
    const struct {
        bool has;
        hil_preference_value value;
    } all[HIL_PREFERENCE_VALUES] = {
        {p->chosen > 0, {"rewards/chosen", p->reward_chosen}},
        {p->rejected > 0, {"rewards/rejected", p->reward_rejected}},
        {p->chosen && p->rejected, {"rewards/margins", p->reward_chosen - p->reward_rejected}},
        {!single, {"rewards/accuracies", p->accuracy}},
        {p->chosen > 0, {"logps/chosen", p->logp_chosen}},
        {p->rejected > 0, {"logps/rejected", p->logp_rejected}},
        {p->nll_tokens > 0, {"nll_loss", p->nll}},
        {odds, {"log_odds_ratio", p->log_odds_ratio}},
        {odds, {"log_odds_chosen", p->log_odds}},
        {single, {"kl", p->kl}}};
    int count = 0;
    for (int i = 0; i < HIL_PREFERENCE_VALUES; ++i)
        if (all[i].has) out[count++] = all[i].value;
    return count;
}

#ifdef __cplusplus
}
#endif
#endif
