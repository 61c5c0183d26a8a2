/* The order of uses is learned in the first pass and followed in the next; when a pass skips,
   repeats or adds uses, it is repaired between two marks. */
#include "check.h"
#include "store/order.h"

#include <string.h>

#define ENTITIES 26

/* Letters are uses, '|' is a mark. Writes the position after each character to `places`. */
static void walk(hil_order *o, const char *path, int64_t *places)
{
    CHECK_OK(hil_order_begin(o, ENTITIES));
    for (size_t i = 0; path[i]; ++i) {
        if (path[i] == '|')
            CHECK_OK(hil_order_mark(o));
        else
            CHECK_OK(hil_order_use(o, path[i] - 'a'));
        if (places) places[i] = o->at;
    }
    CHECK_OK(hil_order_end(o));
}

static void check_known(const hil_order *o, const char *uses)
{
    CHECK_INT(o->known.count, strlen(uses));
    for (size_t i = 0; uses[i]; ++i) CHECK_INT(o->known.use[i], uses[i] - 'a');
}

/* An order of parts of another one. */
static void check_compose(void)
{
    hil_order o = {0};
    const int32_t parts[] = {1, 1, 0, HIL_ORDER_EMPTY, HIL_ORDER_RENEWAL, 2, 1};
    walk(&o, "|ab|c|def", NULL);
    CHECK_OK(hil_order_compose(&o, parts, sizeof parts / sizeof *parts));
    CHECK_OK(hil_order_begin(&o, ENTITIES));
    CHECK_INT(hil_order_next(&o, 'd' - 'a'), 4);
    CHECK_INT(hil_order_limit(&o), 4);
    CHECK_OK(hil_order_end(&o)); /* not followed: the pass was empty */
    check_known(&o, "");
    hil_order_free(&o);

    walk(&o, "|ab|c|def", NULL);
    CHECK_OK(hil_order_compose(&o, (const int32_t[]){1, 1, 0, HIL_ORDER_EMPTY, 2}, 5));
    walk(&o, "|c|c|ab||def", NULL);
    CHECK(!o.detour);
    CHECK_INT(o.repairs, 0);
    check_known(&o, "ccabdef");
    hil_order_free(&o);
}

int main(void)
{
    check_compose();
    hil_order o = {0};
    int64_t at[64];
    walk(&o, "|ab|cd|dc|ba", NULL);
    check_known(&o, "abcddcba");
    CHECK_INT(o.repairs, 0);

    CHECK_OK(hil_order_begin(&o, ENTITIES));
    CHECK_INT(hil_order_next(&o, 'c' - 'a'), 2);
    CHECK_INT(hil_order_first(&o, 'd' - 'a'), 3);
    CHECK(hil_order_next(&o, 'z' - 'a') == HIL_NEVER);

    walk(&o, "|ab|cd|dc|ba", at); /* the same path: nothing to repair */
    CHECK_INT(o.repairs, 0);
    CHECK_INT(at[11], 8);

    walk(&o, "|a|cd|dc|ba", at); /* b is skipped: the mark resynchronises the position */
    CHECK_INT(at[1], 1);
    CHECK_INT(at[2], 2);
    check_known(&o, "acddcba");
    CHECK_INT(o.repairs, 0);

    walk(&o, "|ab|cd|dc|ba", at); /* b is new: one repair, the rest is followed */
    CHECK_INT(o.repairs, 1);
    CHECK_INT(at[2], 1); /* b occurs again later, but after the next mark */
    CHECK_INT(at[4], 2);
    CHECK_INT(at[11], 7);

    walk(&o, "|ab|cd|dc|ba", NULL);
    CHECK_INT(o.repairs, 1);
    walk(&o, "|abab|cd|dc|ba", at); /* a block twice */
    CHECK_INT(o.repairs, 3);
    CHECK_INT(at[4], 2);
    CHECK_INT(at[6], 3);

    walk(&o, "|abab|d|dc|ba", at); /* d comes where c was known: the position moves past c */
    CHECK_INT(o.repairs, 4);
    CHECK_INT(at[6], 6);
    CHECK_INT(at[8], 7);
    hil_order_free(&o);
    return 0;
}
