/* order.c - following and repairing the order of uses; see [Note: repair]. */
#include "store/internal.h"
#include "store/order.h"

#include "base/alloc.h"

#include <string.h>

static void free_list(hil_uses_list *list)
{
    hil_free(list->use);
    hil_free(list->mark);
    hil_free(list->renewal);
}

void hil_order_free(hil_order *order)
{
    free_list(&order->known);
    free_list(&order->seen);
    free_list(&order->whole);
    hil_free(order->begin);
    hil_free(order->place);
    hil_free(order->cursor);
    hil_free(order->next);
    *order = (hil_order){0};
}

/* Lists for every entity the positions of its uses: counts them, then fills the lists in order. If
   memory runs out, there are no entities. */
static hil_status index_known(hil_order *o, size_t entities)
{
    o->entities = 0;
    HIL_TRY(HIL_GROW(&o->begin, &o->begin_room, entities + 1));
    HIL_TRY(HIL_GROW(&o->place, &o->place_room, o->known.count + 1));
    HIL_TRY(HIL_GROW(&o->cursor, &o->cursor_room, entities + 1));
    HIL_TRY(HIL_GROW(&o->next, &o->next_room, entities + 1));
    memset(o->begin, 0, (entities + 1) * sizeof *o->begin);
    for (size_t i = 0; i < o->known.count; ++i) ++o->begin[hil_order_entity(o->known.use[i]) + 1];
    for (size_t e = 0; e < entities; ++e) o->begin[e + 1] += o->begin[e];
    memcpy(o->cursor, o->begin, entities * sizeof *o->cursor);
    for (size_t i = 0; i < o->known.count; ++i)
        o->place[o->cursor[hil_order_entity(o->known.use[i])]++] = (int64_t)i;
    o->entities = entities;
    return HIL_OK;
}

/* Continues from any position. */
static void go_to(hil_order *o, int64_t place)
{
    memcpy(o->cursor, o->begin, o->entities * sizeof *o->cursor);
    for (size_t e = 0; e < o->entities; ++e) o->next[e] = -1;
    o->at = o->ahead = place;
    o->stuck = HIL_NEVER;
}

hil_status hil_order_begin(hil_order *o, size_t entities)
{
    if (o->entities != entities || !o->begin) HIL_TRY(index_known(o, entities));
    go_to(o, 0);
    o->mark = o->first_mark = o->renewal = 0;
    o->detour = o->back = false;
    o->seen.count = o->seen.marks = o->seen.renewals = 0;
    return HIL_OK;
}

bool hil_order_often(hil_order *o, int32_t entity, int64_t times, int64_t before)
{
    int64_t limit = hil_order_limit(o);
    hil_order_next(o, entity); /* moves the cursor */
    int64_t i = o->cursor[entity] + times - 1;
    return i < o->begin[entity + 1] && o->place[i] < before && o->place[i] < limit;
}

bool hil_order_forward(hil_order *o, int32_t entity, int64_t before)
{
    hil_order_next(o, entity); /* moves the cursor */
    for (int64_t i = o->cursor[entity]; i < o->begin[entity + 1] && o->place[i] < before; ++i)
        if (!(o->known.use[o->place[i]] & HIL_ORDER_BACK)) return true;
    return false;
}

int64_t hil_order_first(const hil_order *o, int32_t entity)
{
    return o->begin[entity] < o->begin[entity + 1] ? o->place[o->begin[entity]] : HIL_NEVER;
}

static void move_to(hil_order *o, int64_t place)
{
    o->at = place;
    if (o->ahead < place) o->ahead = place;
}

bool hil_order_expects(const hil_order *o, int32_t entity)
{
    return o->at < (int64_t)o->known.count && hil_order_entity(o->known.use[o->at]) == entity;
}

bool hil_order_expects_mark(const hil_order *o)
{
    return o->mark < o->known.marks && o->known.mark[o->mark] == o->at;
}

hil_status hil_order_mark(hil_order *o)
{
    HIL_TRY(HIL_GROW(&o->seen.mark, &o->seen.marks_room, o->seen.marks + 1));
    o->seen.mark[o->seen.marks++] = (int64_t)o->seen.count;
    if (o->mark >= o->known.marks) {
        o->detour = true;
        return HIL_OK;
    }
    int64_t place = o->known.mark[o->mark++];
    if (place == o->at) return HIL_OK;
    o->detour = true;
    o->stuck = HIL_NEVER;
    if (place > o->at) move_to(o, place);
    return HIL_OK;
}

static hil_status see_renewal(hil_order *o)
{
    HIL_TRY(HIL_GROW(&o->seen.renewal, &o->seen.renewals_room, o->seen.renewals + 1));
    o->seen.renewal[o->seen.renewals++] = (int64_t)o->seen.count;
    return HIL_OK;
}

hil_status hil_order_renew_again(hil_order *o)
{
    HIL_TRY(see_renewal(o));
    go_to(o, o->renewal ? o->known.renewal[o->renewal - 1] : 0);
    o->mark = o->first_mark;
    return HIL_OK;
}

hil_status hil_order_renew(hil_order *o)
{
    HIL_TRY(see_renewal(o));
    int64_t place = hil_order_limit(o);
    if (place != o->at) o->detour = true;
    if (o->renewal < o->known.renewals) {
        ++o->renewal;
        if (place > o->at) move_to(o, place);
    } else {
        o->detour = true;
    }
    o->ahead = o->at;
    o->stuck = HIL_NEVER;
    o->first_mark = o->mark;
    return HIL_OK;
}

hil_status hil_order_use(hil_order *o, int32_t entity)
{
    HIL_TRY(HIL_GROW(&o->seen.use, &o->seen.room, o->seen.count + 1));
    o->seen.use[o->seen.count++] = o->back ? entity | HIL_ORDER_BACK : entity;
    int64_t count = (int64_t)o->known.count;
    if (hil_order_expects(o, entity)) {
        move_to(o, o->at + 1);
        if (hil_order_next(o, entity) > o->stuck) o->stuck = HIL_NEVER;
        return HIL_OK;
    }
    o->detour = true;
    o->stuck = HIL_NEVER;
    if (count) ++o->repairs;
    int64_t limit = o->mark < o->known.marks ? o->known.mark[o->mark] : count;
    int64_t next = hil_order_next(o, entity);
    if (next < limit) move_to(o, next + 1);
    return HIL_OK;
}

hil_status hil_order_end(hil_order *o)
{
    if (!o->detour && o->at == (int64_t)o->known.count) return HIL_OK;
    hil_uses_list seen = o->seen;
    o->seen = o->known;
    o->known = seen;
    return index_known(o, o->entities);
}

/* Inserts `times` copies of places [from, end) after them. Each copy is `uses` further than the one
   before; the places after the copies move by `times * uses`. */
static void repeat_places(int64_t *place, size_t *count, size_t from, size_t end, int64_t times,
                          int64_t uses)
{
    size_t size = end - from, more = size * (size_t)times;
    for (size_t i = *count; i-- > end;) place[i + more] = place[i] + times * uses;
    for (size_t i = 0; i < more; ++i)
        place[end + i] = place[from + i % size] + (int64_t)(1 + i / size) * uses;
    *count += more;
}

hil_status hil_order_repeat(hil_order *o, const hil_order_range *s, int64_t times)
{
    hil_uses_list *known = &o->known;
    size_t n = (size_t)times, uses = s->use_end - s->use, more = uses * n;
    assert(s->use_end <= known->count && s->mark_end <= known->marks);
    HIL_TRY(HIL_GROW(&known->use, &known->room, known->count + more));
    HIL_TRY(HIL_GROW(&known->mark, &known->marks_room, known->marks + (s->mark_end - s->mark) * n));
    HIL_TRY(HIL_GROW(&known->renewal, &known->renewals_room,
                     known->renewals + (s->renewal_end - s->renewal) * n));
    memmove(known->use + s->use_end + more, known->use + s->use_end,
            (known->count - s->use_end) * sizeof *known->use);
    for (size_t i = 0; i < more; ++i) known->use[s->use_end + i] = known->use[s->use + i % uses];
    known->count += more;
    repeat_places(known->mark, &known->marks, s->mark, s->mark_end, times, (int64_t)uses);
    repeat_places(known->renewal, &known->renewals, s->renewal, s->renewal_end, times,
                  (int64_t)uses);
    return index_known(o, o->entities);
}

/* Appends mark `n` of another list, and its uses. */
static hil_status append_part(hil_uses_list *to, const hil_uses_list *from, int32_t n)
{
    HIL_TRY(HIL_GROW(&to->mark, &to->marks_room, to->marks + 1));
    to->mark[to->marks++] = (int64_t)to->count;
    if (n == HIL_ORDER_EMPTY) return HIL_OK;
    assert(n >= 0 && (size_t)n < from->marks);
    int64_t first = from->mark[n];
    int64_t end = (size_t)n + 1 < from->marks ? from->mark[n + 1] : (int64_t)from->count;
    size_t uses = (size_t)(end - first);
    HIL_TRY(HIL_GROW(&to->use, &to->room, to->count + uses));
    memcpy(to->use + to->count, from->use + first, uses * sizeof *to->use);
    to->count += uses;
    return HIL_OK;
}

hil_status hil_order_compose(hil_order *o, const int32_t *part, size_t parts)
{
    hil_uses_list made = {0};
    hil_status status = HIL_OK;
    for (size_t i = 0; i < parts; ++i) {
        if (part[i] != HIL_ORDER_RENEWAL) {
            HIL_TRY_DONE(append_part(&made, &o->known, part[i]));
            continue;
        }
        HIL_TRY_DONE(HIL_GROW(&made.renewal, &made.renewals_room, made.renewals + 1));
        made.renewal[made.renewals++] = (int64_t)made.count;
    }
    hil_uses_list old = o->known;
    o->known = made;
    made = old;
    status = index_known(o, o->entities);
done:
    free_list(&made);
    return status;
}

hil_status hil_order_cut(hil_order *o, size_t uses, size_t marks)
{
    hil_uses_list *known = &o->known, *whole = &o->whole;
    assert(!whole->use && uses <= known->count && marks <= known->marks);
    *whole = *known;
    *known = (hil_uses_list){.count = whole->count - uses, .marks = whole->marks - marks};
    HIL_TRY(HIL_GROW(&known->use, &known->room, known->count));
    HIL_TRY(HIL_GROW(&known->mark, &known->marks_room, known->marks));
    memcpy(known->use, whole->use + uses, known->count * sizeof *known->use);
    for (size_t i = 0; i < known->marks; ++i)
        known->mark[i] = whole->mark[marks + i] - (int64_t)uses;
    return index_known(o, o->entities);
}

hil_status hil_order_restore(hil_order *o)
{
    free_list(&o->known);
    o->known = o->whole;
    o->whole = (hil_uses_list){0};
    return index_known(o, o->entities);
}
