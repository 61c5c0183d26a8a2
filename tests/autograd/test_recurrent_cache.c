/* Generation with recurrences, whose last pass can be undone: after a cut, a failure in the middle
   of a pass, or both, logits have the bits of a run in which none of that happened. */
#include "device_net.h"

enum { HEADS = 4, KEYS = 2, DIM = 3, KERNEL = 4, WIDTH = 2 * KEYS * DIM + C, PROMPT = 8 };

typedef struct mixer {
    hil_param *qkv, *b, *a, *kernel, *rate, *bias;
} mixer;

/* Recurrences, then attention. */
static hil_status mix(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const mixer *m = layer;
    hil_delta_options options;
    hil_value *x, *h, *b, *a;
    HIL_TRY(hil_values_get(in, "x", &x));
    int64_t heads[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), HEADS, C / HEADS};
    int64_t whole[3] = {heads[0], heads[1], C};
    hil_delta_defaults(&options);
    options.key_heads = KEYS, options.key_dim = DIM;
    options.rate = m->rate, options.bias = m->bias;
    HIL_TRY(hil_linear(t, x, m->b, NULL, &b));
    HIL_TRY(hil_linear(t, x, m->a, NULL, &a));
    HIL_TRY(hil_linear(t, x, m->qkv, NULL, &h));
    HIL_TRY(hil_causal_conv(t, h, m->kernel, &h));
    HIL_TRY(hil_delta_rule(t, h, b, a, &options, &h));
    HIL_TRY(hil_attention(t, h, h, h, NULL, &h));
    HIL_TRY(hil_reshape(t, h, 3, whole, &h));
    HIL_TRY(hil_add(t, x, h, &x));
    return hil_values_set(out, "x", x);
}

static hil_status begin(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    hil_value *x;
    (void)in;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), layer, &x));
    return hil_values_set(out, "x", x);
}

static hil_status finish(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    hil_value *x;
    (void)out;
    HIL_TRY(hil_values_get(in, "x", &x));
    return hil_head_loss(t, x, layer);
}

static void add(hil_model *model, const char *name, hil_param_form form, hil_param **out)
{
    CHECK_OK(hil_model_param(model, name, &form, out));
}

static void build(hil_model **out)
{
    static mixer m[2];
    static const char *const segment[] = {"block 0", "block 1"};
    hil_param *table;
    CHECK_OK(hil_model_create(out));
    add(*out, "table", (hil_param_form){HIL_MATRIX, V, C, 0.5}, &table);
    CHECK_OK(hil_model_segment(*out, "embedding", begin, table));
    for (int i = 0; i < 2; ++i) {
        const struct {
            const char *name;
            hil_param_form form;
            hil_param **out;
        } rows[] = {{"qkv", {HIL_MATRIX, WIDTH, C, 0.5}, &m[i].qkv},
                    {"b", {HIL_MATRIX, HEADS, C, 0.5}, &m[i].b},
                    {"a", {HIL_MATRIX, HEADS, C, 0.5}, &m[i].a},
                    {"kernel", {HIL_KERNEL, WIDTH, KERNEL, 0.5}, &m[i].kernel},
                    {"rate", {HIL_RATE, 1, HEADS, 0}, &m[i].rate},
                    {"bias", {HIL_BIAS, 1, HEADS, 0}, &m[i].bias}};
        for (size_t n = 0; n < sizeof rows / sizeof *rows; ++n) {
            char name[32];
            snprintf(name, sizeof name, "%d.%s", i, rows[n].name);
            add(*out, name, rows[n].form, rows[n].out);
        }
        CHECK_OK(hil_model_segment(*out, segment[i], mix, &m[i]));
    }
    CHECK_OK(hil_model_segment(*out, "head", finish, table));
}

static hil_status extend(net_rig *r, int64_t at, int64_t length, float logits[V])
{
    hil_micro micro = {
        .sequences = 1, .length = length, .token = r->token + at, .position = r->position + at};
    return hil_engine_extend(r->engine, &micro, logits);
}

/* Before this segment the next pass fails; -1: it does not. */
static int failing = -1;

static hil_status fail_once(void *context, int segment, int segments)
{
    (void)context, (void)segments;
    if (segment != failing) return HIL_OK;
    failing = -1;
    return hil_fail(HIL_ERR_INTERRUPTED, "stopped");
}

/* The prompt, then one position at a time; expected[i] is after PROMPT + i positions. */
static void check_logits(net_rig *r, int64_t from, float expected[][V])
{
    float logits[V];
    for (int64_t at = from; at < NET_SEQ; at = at ? at + 1 : PROMPT) {
        CHECK_OK(extend(r, at, at ? 1 : PROMPT, logits));
        int64_t row = at ? at + 1 - PROMPT : 0;
        CHECK(memcmp(logits, expected[row], sizeof logits) == 0);
    }
}

/* Cuts to `length` when `passes` positions were read, of which `kept` stay. */
static void check_cut(net_rig *r, float expected[][V], const int64_t passes_length_kept[3])
{
    float logits[V];
    CHECK_OK(hil_engine_cache_begin(r->engine, NET_CACHE));
    for (int64_t at = 0; at < passes_length_kept[0]; at = at ? at + 1 : PROMPT)
        CHECK_OK(extend(r, at, at ? 1 : PROMPT, logits));
    CHECK_INT(hil_engine_cache_cut(r->engine, passes_length_kept[1]), passes_length_kept[2]);
    CHECK_INT(hil_engine_cache_cut(r->engine, passes_length_kept[2]), passes_length_kept[2]);
    check_logits(r, passes_length_kept[2], expected);
}

/* A pass that fails before segment `segment`, after `length` positions, of which one more was read
   and cut with `cut`. */
static void check_failure(net_rig *r, float expected[][V], int segment, int64_t length, bool cut)
{
    float logits[V];
    CHECK_OK(hil_engine_cache_begin(r->engine, NET_CACHE));
    for (int64_t at = 0; at < length + cut; at = at ? at + 1 : PROMPT)
        CHECK_OK(extend(r, at, at ? 1 : PROMPT, logits));
    if (cut) CHECK_INT(hil_engine_cache_cut(r->engine, length), length);
    failing = segment;
    CHECK_FAILS(extend(r, length, length ? 1 : PROMPT, logits), HIL_ERR_INTERRUPTED, "stopped");
    CHECK_INT(hil_engine_cache_cut(r->engine, length), length);
    check_logits(r, length, expected);
}

/* Only one pass can be undone, and none after one that failed. */
static void check_twice(net_rig *r, float expected[][V], bool fails)
{
    float logits[V];
    CHECK_OK(hil_engine_cache_begin(r->engine, NET_CACHE));
    for (int64_t at = 0; at < 12; at = at ? at + 1 : PROMPT)
        CHECK_OK(extend(r, at, at ? 1 : PROMPT, logits));
    if (fails) {
        failing = 3;
        CHECK_FAILS(extend(r, 12, 1, logits), HIL_ERR_INTERRUPTED, "stopped");
    } else {
        CHECK_INT(hil_engine_cache_cut(r->engine, 11), 11);
    }
    CHECK_INT(hil_engine_cache_cut(r->engine, fails ? 11 : 10), 0);
    check_logits(r, 0, expected);
}

int main(void)
{
    static float expected[NET_SEQ - PROMPT + 1][V], whole[NET_SEQ][V];
    net_rig r;
    net_how how = {.build = build, .generates = true};
    net_open(&r, &how);
    hil_engine_set_watch(r.engine, fail_once, NULL);
    CHECK_OK(hil_engine_cache_begin(r.engine, NET_CACHE));
    for (int64_t at = 0, row = 0; at < NET_SEQ; at = at ? at + 1 : PROMPT, ++row)
        CHECK_OK(extend(&r, at, at ? 1 : PROMPT, expected[row]));
    check_cut(&r, expected, (const int64_t[]){12, 12, 12});
    check_cut(&r, expected, (const int64_t[]){12, 11, 11});
    check_cut(&r, expected, (const int64_t[]){12, 10, 0});
    check_cut(&r, expected, (const int64_t[]){PROMPT, PROMPT - 1, 0});
    check_cut(&r, expected, (const int64_t[]){PROMPT, 0, 0});
    for (int segment = 0; segment < 4; ++segment) {
        check_failure(&r, expected, segment, 0, false);
        check_failure(&r, expected, segment, PROMPT, false);
        check_failure(&r, expected, segment, 12, true);
    }
    check_twice(&r, expected, false);
    check_twice(&r, expected, true);
    net_close(&r);
    how.generates = false, how.logits = true;
    net_open(&r, &how);
    hil_micro all = {.sequences = 1,
                     .length = NET_SEQ,
                     .token = r.token,
                     .position = r.position,
                     .first = r.first};
    CHECK_OK(hil_engine_logits(r.engine, &all, whole[0]));
    for (int i = 0; i <= NET_SEQ - PROMPT; ++i)
        for (int v = 0; v < V; ++v) CHECK_NEAR(expected[i][v], whole[PROMPT - 1 + i][v], 1e-5);
    net_close(&r);
    return 0;
}
