/* bank.h - the internals of a bank (hilbert/store.h): a store with tiers, plan and optimizer. */
#ifndef HIL_TRAIN_BANK_H
#define HIL_TRAIN_BANK_H

#include "hilbert/store.h"

#include "optim/scaling.h"
#include "optim/update.h"
#include "plan/placement.h"
#include "store/param.h"
#include "base/pool.h"
#include "tier/tiers.h"

/* Parameters whose gradients are given together; a segment of the store. */
typedef struct hil_bank_group {
    int number;
    int pins;            /* gradient sums acquired and not yet released */
    bool summing, given; /* in this step */
} hil_bank_group;

struct hil_bank_param {
    hil_bank *bank;
    hil_param *param;
    size_t group; /* index into bank->group */
    int64_t tiles;
    int *pins, *sum_pins; /* per tile */
};

typedef enum hil_bank_phase {
    HIL_BANK_NEW,    /* parameters may be added */
    HIL_BANK_BROKEN, /* hil_bank_place failed: the bank can only be destroyed */
    HIL_BANK_IDLE,   /* between passes */
    HIL_BANK_OPEN,   /* in a pass */
    HIL_BANK_UPDATED /* in a pass, after hil_bank_step */
} hil_bank_phase;

struct hil_bank {
    hil_bank_phase phase;
    hil_bank_pass pass;
    hil_budget budget;
    size_t window; /* from the options; 0: chosen by bank_plan.c */
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
    int64_t acquired; /* tiles of weights and sums acquired and not yet released */
};

/* Plans where each unit is kept; drive_bytes gets the size of each swap file. Rehearses no steps,
   because the bank does not know the program's model. */
hil_status hil_bank_plan(hil_bank *bank, uint64_t drive_bytes[HIL_DRIVES]);

#endif
