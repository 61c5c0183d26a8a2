/* bank.h - inside of a bank: a store with its tiers, plan and optimizer, and nothing of models. */
#ifndef HIL_TRAIN_BANK_H
#define HIL_TRAIN_BANK_H

#include "hilbert/store.h"

#include "optim/scaling.h"
#include "optim/update.h"
#include "plan/placement.h"
#include "store/param.h"
#include "base/pool.h"
#include "tier/tiers.h"

/* Parameters whose gradients are given together: one segment of the store. */
typedef struct hil_bank_group {
    int number;
    int pins;            /* sums that are acquired */
    bool summing, given; /* in this step */
} hil_bank_group;

struct hil_bank_param {
    hil_bank *bank;
    hil_param *param;
    size_t group; /* place in the bank's list */
    int64_t tiles;
    int *pins, *sum_pins; /* per tile */
};

typedef enum hil_bank_phase {
    HIL_BANK_NEW,    /* parameters may be added */
    HIL_BANK_BROKEN, /* they found no place: only to be destroyed */
    HIL_BANK_IDLE,   /* between passes */
    HIL_BANK_OPEN,   /* in a pass */
    HIL_BANK_UPDATED /* in a pass whose step is done */
} hil_bank_phase;

struct hil_bank {
    hil_bank_phase phase;
    hil_bank_pass pass;
    hil_budget budget;
    size_t window; /* asked for; 0: not */
    hil_drive drive[HIL_DRIVES];
    char *path[HIL_DRIVES];
    int drive_count;
    hil_io_kind io;
    hil_dtype dtype;
    size_t tile_size;
    hil_optimizer optimizer;
    hil_scaling scaling;
    int64_t updates;
    hil_store *store;
    hil_pool *pool, *update;
    hil_tiers tiers;
    hil_plan plan;
    hil_outline outline;
    hil_outline_unit *unit;
    hil_bank_param **param;
    size_t params, params_room;
    hil_bank_group *group;
    size_t groups, groups_room;
    int64_t acquired; /* weights and sums */
};

/* bank_plan.c: the plan for the store's units, and how large each swap file must be. No rehearsal
   of steps: there is no model that could be run. */
hil_status hil_bank_plan(hil_bank *bank, uint64_t drive_bytes[HIL_DRIVES]);

#endif
