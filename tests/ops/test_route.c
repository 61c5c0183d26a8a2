/* test_route.c - experts from the best groups, by sigmoids, with a bias: choices against a plain
   search in double, gradients against finite differences. */
#include "ops/op_refused.h"

enum { ROWS = 6, EXPERTS = 12, CHOSEN = 4, PLACES = ROWS * CHOSEN };

typedef struct routed {
    float logits[ROWS * EXPERTS], weights[PLACES], use[2 * EXPERTS], saved[ROWS * EXPERTS];
    float dweights[PLACES], din[ROWS * EXPERTS];
    int32_t place[PLACES], begin[EXPERTS + 1], chosen[PLACES];
} routed;

static float bias[EXPERTS];

static hil_status begin_weight(void *owner, int param, int64_t tile, const void **data)
{
    (void)owner;
    CHECK_INT(param, 0);
    CHECK_INT(tile, 0);
    *data = bias;
    return HIL_OK;
}

static void end_weight(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}

static const hil_op_source source = {.weight_begin = begin_weight, .weight_end = end_weight};

static void run_route(routed *r, const hil_route_attr *attr, int params, bool back)
{
    static _Alignas(64) float scratch[4096];
    hil_op_call call = {.op = &hil_op_route,
                        .attr = attr,
                        .compute = HIL_F32,
                        .source = &source,
                        .ins = 1,
                        .params = params,
                        .param = {{.dtype = HIL_F32, .rows = 1, .cols = EXPERTS, .tile_rows = 1}},
                        .in = {{HIL_F32, {3, {1, ROWS, EXPERTS}}, r->logits}}};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(hil_op_infer(&call));
    CHECK(call.forward_scratch <= sizeof scratch);
    call.scratch = scratch;
    void *const out[] = {r->weights, r->place, r->begin, r->use};
    for (int i = 0; i < 4; ++i) call.out[i].data = out[i];
    call.saved[0].data = r->saved;
    call.saved[1].data = r->chosen;
    CHECK_OK(hil_op_forward(&call));
    call.dout[0] = (hil_tensor){HIL_F32, call.out[0].shape, r->dweights};
    call.din[0] = (hil_tensor){HIL_F32, call.in[0].shape, r->din};
    if (back) CHECK_OK(hil_op_backward(&call));
    hil_pool_destroy(call.pool);
}

/* How many of `count` numbers are better than x[at]. */
static int rank_of(const double *x, int count, int at)
{
    int better = 0;
    for (int i = 0; i < count; ++i) better += x[i] > x[at];
    return better;
}

static void check_row(const routed *r, const hil_route_attr *attr, int params, int row)
{
    double p[EXPERTS], by[EXPERTS], score[EXPERTS], all = 0, sum = 0;
    int size = attr->groups ? EXPERTS / (int)attr->groups : EXPERTS;
    const float *x = r->logits + row * EXPERTS;
    for (int e = 0; e < EXPERTS; ++e) all += exp((double)x[e]);
    for (int e = 0; e < EXPERTS; ++e) {
        p[e] = attr->sigmoid ? 1 / (1 + exp(-(double)x[e])) : exp((double)x[e]) / all;
        by[e] = (attr->by_logits ? (double)x[e] : p[e]) + (params ? (double)bias[e] : 0);
    }
    for (int g = 0; g < EXPERTS / size; ++g) {
        score[g] = 0;
        for (int e = g * size; e < (g + 1) * size; ++e)
            if (rank_of(by + g * size, size, e - g * size) < (attr->pairs ? 2 : 1))
                score[g] += by[e];
    }
    for (int e = 0; e < EXPERTS && attr->groups; ++e)
        if (rank_of(score, EXPERTS / size, e / size) >= attr->groups_chosen) by[e] = -1e9;
    for (int j = 0; j < CHOSEN; ++j) {
        int32_t e = r->chosen[row * CHOSEN + j];
        CHECK_INT(rank_of(by, EXPERTS, e), j);
        sum += p[e];
    }
    for (int j = 0; j < CHOSEN; ++j) {
        double expected = p[r->chosen[row * CHOSEN + j]] * (attr->scale > 0 ? attr->scale : 1);
        if (attr->normalized) expected /= sum + attr->eps;
        CHECK_NEAR((double)r->weights[row * CHOSEN + j], expected, 1e-6);
    }
}

static double loss_of(routed *r, const hil_route_attr *attr, int params)
{
    double sum = 0;
    run_route(r, attr, params, false);
    for (int i = 0; i < PLACES; ++i) sum += (double)r->weights[i] * (double)r->dweights[i];
    return sum;
}

static void check_route(const hil_route_attr *attr, int params)
{
    routed r;
    memset(&r, 0xff, sizeof r);
    for (int i = 0; i < ROWS * EXPERTS; ++i) r.logits[i] = (float)(2 * op_random());
    for (int i = 0; i < PLACES; ++i) r.dweights[i] = (float)op_random();
    for (int e = 0; e < EXPERTS; ++e) bias[e] = (float)op_random();
    run_route(&r, attr, params, true);
    for (int row = 0; row < ROWS; ++row) check_row(&r, attr, params, row);
    for (int i = 0; i < ROWS * EXPERTS; ++i) {
        const float step = 1e-3f;
        routed up = r, down = r;
        up.logits[i] += step;
        down.logits[i] -= step;
        double slope = (loss_of(&up, attr, params) - loss_of(&down, attr, params)) / 2e-3;
        CHECK_NEAR((double)r.din[i], slope, 3e-3);
    }
}

/* What is no number is chosen last, and of the best groups before any expert of others. */
static void check_nan(void)
{
    const hil_route_attr all = {.chosen = CHOSEN, .sigmoid = true};
    const hil_route_attr best = {
        .chosen = CHOSEN, .sigmoid = true, .groups = 3, .groups_chosen = 1};
    routed r;
    memset(&r, 0xff, sizeof r);
    for (int i = 0; i < ROWS * EXPERTS; ++i)
        r.logits[i] = i % EXPERTS == 0 ? NAN : (float)-(i % EXPERTS);
    run_route(&r, &all, 0, false);
    for (int i = 0; i < PLACES; ++i) CHECK_INT(r.chosen[i], 1 + i % CHOSEN);
    run_route(&r, &best, 0, false);
    for (int i = 0; i < PLACES; ++i) CHECK_INT(r.chosen[i], (1 + i) % CHOSEN);
}

int main(void)
{
    const hil_route_attr cases[] = {
        {.chosen = CHOSEN, .scale = 1.7},
        {.chosen = CHOSEN, .groups = 4, .groups_chosen = 2, .scale = 0.6},
        {.chosen = CHOSEN, .groups = 3, .groups_chosen = 1, .normalized = true},
        {.chosen = CHOSEN, .sigmoid = true},
        {.chosen = CHOSEN, .sigmoid = true, .normalized = true, .scale = 2.5},
        {.chosen = CHOSEN, .sigmoid = true, .normalized = true, .eps = 0.3},
        {.chosen = CHOSEN, .sigmoid = true, .normalized = true, .groups = 1, .groups_chosen = 1},
        {.chosen = CHOSEN,
         .sigmoid = true,
         .normalized = true,
         .pairs = true,
         .groups = 4,
         .groups_chosen = 2,
         .scale = 2.5},
        {.chosen = CHOSEN, .sigmoid = true, .by_logits = true, .normalized = true},
        {.chosen = CHOSEN, .sigmoid = true, .by_logits = true, .groups = 4, .groups_chosen = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        for (int params = 0; params < 2; ++params) check_route(&cases[i], params);
    check_nan();
    hil_route_attr wrong = {.chosen = CHOSEN, .groups = 5, .groups_chosen = 2};
    op_case c = {
        .op = &hil_op_route, .attr = &wrong, .ins = 1, .in_shape = {{3, {1, ROWS, EXPERTS}}}};
    OP_REFUSED(&c, "route: 4 of 12 experts cannot be chosen from 2 of 5 groups");
    wrong = (hil_route_attr){.chosen = CHOSEN, .groups = 4, .groups_chosen = 1};
    OP_REFUSED(&c, "route: 4 of 12 experts cannot be chosen from 1 of 4 groups");
    return 0;
}
