/* order.h - the order in which a pass uses weights and sums: recorded in the last pass, followed in
   this one, repaired where the model takes another path. */
#ifndef HIL_STORE_ORDER_H
#define HIL_STORE_ORDER_H

#include "base/fail.h"

/* [Note: repair] The engine enters every segment for every micro-batch in a fixed order and marks
   each entry. Between two marks the model may skip or repeat uses. If the unexpected use is found
   ahead in the known order before the next mark, the position jumps to it; otherwise the position
   stays. The next mark resynchronises the position in either case. So a detour only costs late
   fetches up to the next mark. After a pass with a detour, the order seen becomes the known one. */
typedef struct hil_uses_list {
    int32_t *use; /* entities; HIL_ORDER_BACK is set where a backward visit uses one */
    size_t count, room;
    int64_t *mark; /* positions in `use` */
    size_t marks, marks_room;
    int64_t *renewal; /* positions in `use`: see hil_store_pass_renew */
    size_t renewals, renewals_room;
} hil_uses_list;

#define HIL_ORDER_BACK (1 << 30)
static inline int32_t hil_order_entity(int32_t use)
{
    return use & ~HIL_ORDER_BACK;
}

/* Zero it before the first begin. */
typedef struct hil_order {
    hil_uses_list known, seen;
    hil_uses_list whole; /* the full known order between hil_order_cut and hil_order_restore */
    size_t entities;
    int64_t *begin;  /* per entity: index of its first entry in `place` */
    int64_t *place;  /* positions in known.use, ascending for each entity */
    int64_t *cursor; /* per entity: index in `place` of its first position >= at */
    int64_t *next;   /* per entity: what the last hil_order_next returned, -1 at first */
    size_t begin_room, place_room, cursor_room, next_room;
    int64_t at, ahead;   /* position of the next use expected; of the next use to prefetch */
    size_t mark;         /* next mark expected */
    size_t first_mark;   /* the one expected after the last renewal */
    size_t renewal;      /* next renewal expected */
    int64_t stuck;       /* a prefetch for this position found nothing to evict, and nothing changed
                            since; HIL_NEVER: not known */
    int64_t stuck_until; /* from this position on it may find something: see [Note: far uses] */
    int64_t repairs;     /* so far */
    bool detour;         /* in this pass */
    bool back;           /* the uses that come are those of a backward visit; set by the visits */
} hil_order;

#define HIL_NEVER INT64_MAX

void hil_order_free(hil_order *order);
/* A new pass over entities [0, entities). */
hil_status hil_order_begin(hil_order *order, size_t entities);
hil_status hil_order_mark(hil_order *order);
hil_status hil_order_use(hil_order *order, int32_t entity);
/* Records a renewal of the window here. Prefetch does not cross a renewal. */
hil_status hil_order_renew(hil_order *order);
/* The same, but then goes back to the renewal before, or to the beginning: the pass repeats what it
   did since. */
hil_status hil_order_renew_again(hil_order *order);
/* The position of the next renewal, or of the end: how far prefetch may go. */
static inline int64_t hil_order_limit(const hil_order *o)
{
    if (o->renewal < o->known.renewals) return o->known.renewal[o->renewal];
    return (int64_t)o->known.count;
}
/* Whether the known order has a use of `entity` next; whether it has a mark next. */
bool hil_order_expects(const hil_order *order, int32_t entity);
bool hil_order_expects_mark(const hil_order *order);
/* Ends the pass. If it differed from the known order, the order seen becomes the known one. */
hil_status hil_order_end(hil_order *order);

/* A range of the known order, as indices of uses, of marks and of renewals. */
typedef struct hil_order_range {
    size_t use, use_end, mark, mark_end, renewal, renewal_end;
} hil_order_range;
/* Inserts `times` more copies of the range after it. Between passes. */
hil_status hil_order_repeat(hil_order *order, const hil_order_range *range, int64_t times);

/* Makes a known order of parts of the known one. Part n is mark n and the uses from there to the
   next mark; HIL_ORDER_EMPTY: a mark without uses; HIL_ORDER_RENEWAL: a renewal. Between passes. */
enum { HIL_ORDER_EMPTY = -1, HIL_ORDER_RENEWAL = -2 };
hil_status hil_order_compose(hil_order *order, const int32_t *part, size_t parts);

/* Removes the first `uses` uses and `marks` marks from the known order, until hil_order_restore.
   The cut must be at a renewal. Between passes. */
hil_status hil_order_cut(hil_order *order, size_t uses, size_t marks);
hil_status hil_order_restore(hil_order *order);

/* The position of the entity's next use at or after `at`, or HIL_NEVER. */
static inline int64_t hil_order_next(hil_order *o, int32_t entity)
{
    if (o->next[entity] >= o->at) return o->next[entity];
    int64_t *cursor = &o->cursor[entity], end = o->begin[entity + 1];
    while (*cursor < end && o->place[*cursor] < o->at) ++*cursor;
    o->next[entity] = *cursor < end ? o->place[*cursor] : HIL_NEVER;
    return o->next[entity];
}
/* Whether it is used at least `times` times before position `before` and the next renewal. */
bool hil_order_often(hil_order *order, int32_t entity, int64_t times, int64_t before);
/* Whether a forward visit will use it before position `before`. */
bool hil_order_forward(hil_order *order, int32_t entity, int64_t before);
/* The position of its first use in a pass, or HIL_NEVER. */
int64_t hil_order_first(const hil_order *order, int32_t entity);

#endif
