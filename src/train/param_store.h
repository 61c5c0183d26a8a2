/* param_store.h - the internals of a parameter store (hilbert/store.h): a store with tiers, plan
   and optimizer. */
#ifndef HIL_TRAIN_PARAM_STORE_H
#define HIL_TRAIN_PARAM_STORE_H

#include "hilbert/store.h"

#include "format/checkpoint_saver.h"
#include "optim/scaling.h"
#include "optim/update.h"
#include "machine/device_connect.h"
#include "plan/placement.h"
#include "store/param.h"
#include "base/pool.h"
#include "tier/offload.h"
#include "tier/tiers.h"

/* Parameters whose gradients are given together; a segment of the store. */
typedef struct hil_param_store_group {
    int number;
    int pins;            /* gradient sums acquired and not yet released */
    bool summing, given; /* in this step */
    bool late;           /* gradients were added after that: see [Note: late gradients] */
} hil_param_store_group;

struct hil_stored_param {
    hil_param_store *store;
    hil_param *param;
    size_t group; /* index into store->group */
    int rates;    /* index into store->rates */
    int64_t updates;
    int64_t tiles;
    int *pins, *sum_pins; /* per tile */
};

typedef enum hil_param_store_phase {
    HIL_PARAM_STORE_NEW,    /* parameters may be added */
    HIL_PARAM_STORE_BROKEN, /* hil_param_store_place failed: the store can only be destroyed */
    HIL_PARAM_STORE_IDLE,   /* between passes */
    HIL_PARAM_STORE_OPEN,   /* in a pass */
    HIL_PARAM_STORE_UPDATED /* in a pass, after hil_param_store_step */
} hil_param_store_phase;

/* What hil_param_store_keep took over. */
typedef struct hil_param_store_kept {
    size_t window, host;  /* bytes of the device and of host memory */
    size_t piece;         /* bytes that move at once */
    hil_buffers *buffers; /* NULL: nothing may be kept */
    hil_ring *ring;
    hil_offload *offload;
    hil_kept *first, *last;
} hil_param_store_kept;

struct hil_param_store {
    hil_param_store_phase phase;
    hil_param_store_pass pass;
    hil_budget budget;
    size_t window; /* from the options; 0: chosen by param_store_plan.c */
    hil_drive drive[HIL_DRIVES];
    char *path[HIL_DRIVES];
    int drive_count;
    hil_io_kind io;
    hil_comm *comm;     /* NULL: one rank */
    hil_device *device; /* NULL: the CPU */
    hil_speeds speeds;
    int sharers;                      /* ranks that share the device, with this one */
    hil_device_connection connection; /* to the devices of other ranks */
    hil_dtype dtype;
    size_t tile_size;
    hil_optimizer optimizer;
    hil_scaling scaling;
    int64_t updates;
    hil_store *states; /* holds the parameters with their states */
    hil_pool *pool, *update;
    hil_tiers tiers;
    hil_plan plan;
    hil_outline outline;
    hil_outline_unit *unit;
    hil_stored_param **param;
    size_t params, params_room;
    hil_param_store_group *group;
    size_t groups, groups_room;
    hil_param_store_rates *rates; /* by number */
    size_t rates_count, rates_room;
    hil_rule_step *numbers; /* of one update */
    size_t numbers_room;
    hil_param_store_kept kept;
    bool grows; /* from the options */
    bool saves, average;
    hil_saver saver;
    char *folder;               /* of the saver */
    hil_checkpoint_found found; /* the checkpoint that was loaded, and its state */
    json_t *loaded;
    int64_t acquired; /* tiles of weights and sums acquired and not yet released */
};

/* After the tiers were opened; the other after all transfers are over. */
hil_status hil_param_store_open_kept(hil_param_store *store);
void hil_param_store_close_kept(hil_param_store *store);
/* Makes room for the rates of this number, with their defaults. */
hil_status hil_param_store_reserve_rates(hil_param_store *store, int number);
/* Starts the update, after the norm was computed: the numbers of each parameter follow from its
   rates and from how often it was updated. */
hil_status hil_param_store_update(hil_param_store *store, const hil_update *update);

/* Plans where each unit is kept; drive_bytes gets the size of each swap file. Rehearses no steps,
   because the store does not know the program's model. */
hil_status hil_param_store_plan(hil_param_store *store, uint64_t drive_bytes[HIL_DRIVES]);
/* The smallest window, after hil_param_store_plan. */
uint64_t hil_param_store_least_window(const hil_param_store *store);

#endif
