/* template_tests.c - the tests after `is`. */
#include "text/template_eval.h"

#include <string.h>

#define TEST(name, condition)                                                                      \
    static hil_status run_##name(hil_render *r, const hil_call *call, hil_variant *out)            \
    {                                                                                              \
        (void)r;                                                                                   \
        hil_variant v = call->self;                                                                \
        *out = HIL_BOOL(condition);                                                                \
        return HIL_OK;                                                                             \
    }

TEST(defined, v.type != HIL_V_UNDEFINED)
TEST(undefined, v.type == HIL_V_UNDEFINED)
TEST(none, v.type == HIL_V_NONE)
TEST(boolean, v.type == HIL_V_BOOL)
TEST(true, v.type == HIL_V_BOOL && v.truth)
TEST(false, v.type == HIL_V_BOOL && !v.truth)
TEST(integer, v.type == HIL_V_INT)
TEST(float, v.type == HIL_V_REAL)
TEST(number, hil_variant_is_number(v))
TEST(string, v.type == HIL_V_TEXT)
TEST(mapping, v.type == HIL_V_DICT)
TEST(iterable, hil_variant_is_iterable(v))
TEST(sequence, hil_variant_has_length(v) && v.type != HIL_V_VIEW)
TEST(escaped, v.type == HIL_V_TEXT && v.text->safe)
TEST(callable, v.type == HIL_V_UNDEFINED || v.type == HIL_V_MACRO || v.type == HIL_V_FUNCTION ||
                   v.type == HIL_V_METHOD || v.type == HIL_V_LOOP || v.type == HIL_V_JOINER)

/* self % other */
static hil_status modulo(hil_render *r, hil_variant self, hil_variant other, int64_t expected,
                         hil_variant *out)
{
    hil_variant rest;
    bool equal;
    HIL_TRY(hil_variant_binary(r, HIL_OP_MOD, self, other, &rest));
    HIL_TRY(hil_variant_equal(r, rest, HIL_INT(expected), &equal));
    *out = HIL_BOOL(equal);
    return HIL_OK;
}

HIL_BUILTIN(run_odd, modulo(r, call->self, HIL_INT(2), 1, out))
HIL_BUILTIN(run_even, modulo(r, call->self, HIL_INT(2), 0, out))
HIL_BUILTIN(run_divisibleby, modulo(r, call->self, call->bound[0], 0, out))

static hil_status ask(hil_render *r, const hil_call *call, const char *method, hil_variant *out)
{
    const hil_chars *text;
    HIL_TRY(hil_variant_text(r, call->self, &text));
    const hil_builtin *predicate = hil_builtin_find(hil_text_predicates, method, strlen(method));
    return hil_builtin_call(r, predicate, HIL_TEXT(text), &(hil_arguments){0}, out);
}

HIL_BUILTIN(run_lower, ask(r, call, "islower", out))
HIL_BUILTIN(run_upper, ask(r, call, "isupper", out))

static hil_status run_filter(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)r;
    *out = HIL_BOOL(call->self.type == HIL_V_TEXT &&
                    hil_filter_find(call->self.text->data, call->self.text->size));
    return HIL_OK;
}

static hil_status run_test(hil_render *r, const hil_call *call, hil_variant *out)
{
    (void)r;
    *out = HIL_BOOL(call->self.type == HIL_V_TEXT &&
                    hil_test_find(call->self.text->data, call->self.text->size));
    return HIL_OK;
}

/* The same object. Python shares small integers and constants; equal numbers count as the same. */
static hil_status run_sameas(hil_render *r, const hil_call *call, hil_variant *out)
{
    hil_variant a = call->self, b = call->bound[0];
    bool same = a.type == b.type;
    if (same && (a.type <= HIL_V_TEXT || a.type == HIL_V_NONE))
        HIL_TRY(hil_variant_equal(r, a, b, &same));
    else if (same)
        same = a.loop == b.loop;
    *out = HIL_BOOL(same);
    return HIL_OK;
}

static hil_status run_in(hil_render *r, const hil_call *call, hil_variant *out)
{
    bool found;
    HIL_TRY(hil_variant_contains(r, call->bound[0], call->self, &found));
    *out = HIL_BOOL(found);
    return HIL_OK;
}

static hil_status run_eq(hil_render *r, const hil_call *call, hil_variant *out)
{
    bool equal;
    HIL_TRY(hil_variant_equal(r, call->self, call->bound[0], &equal));
    *out = HIL_BOOL(equal);
    return HIL_OK;
}

static hil_status run_ne(hil_render *r, const hil_call *call, hil_variant *out)
{
    HIL_TRY(run_eq(r, call, out));
    out->truth = !out->truth;
    return HIL_OK;
}

static hil_status run_lt(hil_render *r, const hil_call *call, hil_variant *out)
{
    int order;
    HIL_TRY(hil_variant_compare(r, call->self, call->bound[0], "<", &order));
    *out = HIL_BOOL(order == -1);
    return HIL_OK;
}

static hil_status run_le(hil_render *r, const hil_call *call, hil_variant *out)
{
    int order;
    HIL_TRY(hil_variant_compare(r, call->self, call->bound[0], "<=", &order));
    *out = HIL_BOOL(order == -1 || order == 0);
    return HIL_OK;
}

static hil_status run_gt(hil_render *r, const hil_call *call, hil_variant *out)
{
    int order;
    HIL_TRY(hil_variant_compare(r, call->self, call->bound[0], ">", &order));
    *out = HIL_BOOL(order == 1);
    return HIL_OK;
}

static hil_status run_ge(hil_render *r, const hil_call *call, hil_variant *out)
{
    int order;
    HIL_TRY(hil_variant_compare(r, call->self, call->bound[0], ">=", &order));
    *out = HIL_BOOL(order == 1 || order == 0);
    return HIL_OK;
}

static const hil_builtin tests[] = {
    {"odd", run_odd, {NULL}, 0, false},
    {"even", run_even, {NULL}, 0, false},
    {"divisibleby", run_divisibleby, {"num"}, 1, false},
    {"defined", run_defined, {NULL}, 0, false},
    {"undefined", run_undefined, {NULL}, 0, false},
    {"filter", run_filter, {NULL}, 0, false},
    {"test", run_test, {NULL}, 0, false},
    {"none", run_none, {NULL}, 0, false},
    {"boolean", run_boolean, {NULL}, 0, false},
    {"false", run_false, {NULL}, 0, false},
    {"true", run_true, {NULL}, 0, false},
    {"integer", run_integer, {NULL}, 0, false},
    {"float", run_float, {NULL}, 0, false},
    {"lower", run_lower, {NULL}, 0, false},
    {"upper", run_upper, {NULL}, 0, false},
    {"string", run_string, {NULL}, 0, false},
    {"mapping", run_mapping, {NULL}, 0, false},
    {"number", run_number, {NULL}, 0, false},
    {"sequence", run_sequence, {NULL}, 0, false},
    {"iterable", run_iterable, {NULL}, 0, false},
    {"callable", run_callable, {NULL}, 0, false},
    {"sameas", run_sameas, {"other"}, 1, false},
    {"escaped", run_escaped, {NULL}, 0, false},
    {"in", run_in, {"seq"}, 1, false},
    {"==", run_eq, {"other"}, 1, false},
    {"eq", run_eq, {"other"}, 1, false},
    {"equalto", run_eq, {"other"}, 1, false},
    {"!=", run_ne, {"other"}, 1, false},
    {"ne", run_ne, {"other"}, 1, false},
    {">", run_gt, {"other"}, 1, false},
    {"gt", run_gt, {"other"}, 1, false},
    {"greaterthan", run_gt, {"other"}, 1, false},
    {">=", run_ge, {"other"}, 1, false},
    {"ge", run_ge, {"other"}, 1, false},
    {"<", run_lt, {"other"}, 1, false},
    {"lt", run_lt, {"other"}, 1, false},
    {"lessthan", run_lt, {"other"}, 1, false},
    {"<=", run_le, {"other"}, 1, false},
    {"le", run_le, {"other"}, 1, false},
    {NULL, NULL, {NULL}, 0, false},
};

const hil_builtin *hil_test_find(const char *name, size_t size)
{
    return hil_builtin_find(tests, name, size);
}
