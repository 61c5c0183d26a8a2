/* order.h - the order in which a pass uses weights and sums: known from the last one, followed now,
   repaired where the model takes another path. */
#ifndef HIL_STORE_ORDER_H
#define HIL_STORE_ORDER_H

#include "base/fail.h"

/* [Note: repair] The engine enters every segment for every micro-batch in a fixed order and marks
   each entry. Between two marks the model may skip or repeat uses: a use that comes later before
   the next mark moves the place there, any other leaves it; the next mark puts it right again. So
   a detour costs what it skipped or repeated, never the whole schedule. After a pass with a detour
   the order that was seen becomes the known one. */
typedef struct hil_uses_list {
    int32_t *use;
    size_t count, room;
    int64_t *mark; /* places in `use` */
    size_t marks, marks_room;
    int64_t *renewal; /* places in `use`: see hil_store_pass_renew */
    size_t renewals, renewals_room;
} hil_uses_list;

/* Zero it before the first begin. */
typedef struct hil_order {
    hil_uses_list known, seen;
    hil_uses_list whole; /* what is known, while that is cut */
    size_t entities;
    int64_t *begin;  /* per entity: where its places start in `place` */
    int64_t *place;  /* in known.use, ascending */
    int64_t *cursor; /* per entity: first place that is not before `at` */
    size_t begin_room, place_room, cursor_room;
    int64_t at, ahead; /* next use expected; next use to be fetched */
    size_t mark;       /* next mark expected */
    size_t renewal;    /* next renewal expected */
    int64_t stuck;     /* nothing in the window is used after this place, or it crosses the bus to
                          leave; HIL_NEVER: that is not known */
    int64_t repairs;   /* so far */
    bool detour;       /* in this pass */
} hil_order;

#define HIL_NEVER INT64_MAX

void hil_order_free(hil_order *order);
/* A new pass over entities [0, entities). */
hil_status hil_order_begin(hil_order *order, size_t entities);
hil_status hil_order_mark(hil_order *order);
hil_status hil_order_use(hil_order *order, int32_t entity);
/* The window is renewed here: nothing is fetched ahead over such a place. */
hil_status hil_order_renew(hil_order *order);
/* The place of the next one, or the end. */
int64_t hil_order_limit(const hil_order *order);
/* Whether a use of `entity` is the next one known; whether the next mark comes here. */
bool hil_order_expects(const hil_order *order, int32_t entity);
bool hil_order_expects_mark(const hil_order *order);
/* Adopts what was seen when it is not what was known. */
hil_status hil_order_end(hil_order *order);

/* Uses, marks and renewals of a stretch of the known order. */
typedef struct hil_order_stretch {
    size_t use, use_end, mark, mark_end, renewal, renewal_end;
} hil_order_stretch;
/* The known order has this stretch `times` more, one after the other. Between passes. */
hil_status hil_order_repeat(hil_order *order, const hil_order_stretch *stretch, int64_t times);

/* The known order is what is behind so many uses and marks, a renewal; until hil_order_restore.
   Between passes. */
hil_status hil_order_cut(hil_order *order, size_t uses, size_t marks);
hil_status hil_order_restore(hil_order *order);

/* The place of the next use at or after `at`, or HIL_NEVER. */
int64_t hil_order_next(hil_order *order, int32_t entity);
/* Whether it is used at least `times` before place `before` and the next renewal. */
bool hil_order_often(hil_order *order, int32_t entity, int64_t times, int64_t before);
/* The place of its first use in a pass, or HIL_NEVER. */
int64_t hil_order_first(const hil_order *order, int32_t entity);

#endif
