/* preference.h - losses that compare answers, and what is measured of them. */
#ifndef HILBERT_PREFERENCE_H
#define HILBERT_PREFERENCE_H

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
    /* Without: */
    HIL_PREFER_CPO,   /* as dpo */
    HIL_PREFER_SIMPO, /* as dpo, of beta (c - r) - margin */
    HIL_PREFER_ORPO,  /* -beta log sigmoid(log odds of c - log odds of r) */
    HIL_PREFER_KINDS
} hil_preference_kind;

typedef struct hil_preference_loss {
    hil_preference_kind kind;
    double beta;
    double label_smoothing; /* fraction of the pairs whose labels are wrong, below 0.5 */
    double margin;          /* of simpo */
    /* Of the cross-entropy of the chosen answers, which is added: its mean over their tokens. With
       orpo those of the prompt count too. */
    double nll_weight;
} hil_preference_loss;

/* Numbers of a loss as options say them. */
typedef struct hil_preference_choice {
    double label_smoothing;
    double nll_weight, margin; /* below 0: the default of the loss */
} hil_preference_choice;

/* Means over the pairs of answers of a step or an evaluation, under the names of TRL. A reward is
   beta times the difference of an answer's log probability to that under the reference model, or
   times the log probability. */
typedef struct hil_preferences {
    int64_t pairs; /* 0: the loss is not that of preferences, and all below is 0 */
    double reward_chosen, reward_rejected;
    double accuracy; /* fraction of the pairs whose chosen answer has the higher reward */
    double logp_chosen, logp_rejected;
    double compared;                 /* the loss without cross-entropy */
    double nll;                      /* cross-entropy of the chosen answers */
    int64_t nll_tokens;              /* over which it is a mean; 0: its weight is 0 */
    double log_odds_ratio, log_odds; /* of orpo: log sigmoid(log_odds), and that */
} hil_preferences;

/* What is measured, by the names of TRL. Returns how many there are. */
typedef struct hil_preference_value {
    const char *name;
    double value;
} hil_preference_value;
#define HIL_PREFERENCE_VALUES 9
static inline int hil_preference_values(const hil_preferences *p,
                                        hil_preference_value out[HIL_PREFERENCE_VALUES])
{
    const hil_preference_value all[HIL_PREFERENCE_VALUES] = {
        {"rewards/chosen", p->reward_chosen},
        {"rewards/rejected", p->reward_rejected},
        {"rewards/margins", p->reward_chosen - p->reward_rejected},
        {"rewards/accuracies", p->accuracy},
        {"logps/chosen", p->logp_chosen},
        {"logps/rejected", p->logp_rejected},
        {"nll_loss", p->nll},
        {"log_odds_ratio", p->log_odds_ratio},
        {"log_odds_chosen", p->log_odds}};
    int count = p->log_odds_ratio < 0 ? 9 : p->nll_tokens ? 7 : 6;
    for (int i = 0; i < count; ++i) out[i] = all[i];
    return count;
}

#ifdef __cplusplus
}
#endif
#endif
