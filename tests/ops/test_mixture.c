/* test_mixture.c - the operations of a mixture of experts: choices and their order, rows that go to
   the experts and come back, products with experts that nobody chose, the auxiliary loss. */
#include "ops/op_refused.h"

enum { ROWS = 7, EXPERTS = 5, CHOSEN = 3, PLACES = ROWS * CHOSEN, HALF = 4 };

/* Of ROWS tokens with CHOSEN places each: any order of all places. */
static const int32_t places[PLACES] = {3,  7, 12, 0, 20, 4,  1,  8,  13, 2, 9,
                                       14, 5, 10, 6, 11, 15, 16, 17, 18, 19};

static void dispatch_reference(const op_case *c, double *const *in, double *const *param,
                               double *const *out)
{
    (void)param;
    int64_t cols = hil_shape_cols(&c->in_shape[0]);
    for (int64_t i = 0; i < PLACES; ++i)
        for (int64_t j = 0; j < cols; ++j)
            out[0][places[i] * cols + j] =
                in[0][i / CHOSEN * cols + j] * (c->ins == 3 ? in[2][i] : 1);
}

static void check_dispatch(void)
{
    op_case c = {.op = &hil_op_dispatch,
                 .reference = dispatch_reference,
                 .out = OP_INPUT,
                 .ins = 2,
                 .outs = 1,
                 .in_shape = {{2, {ROWS, 19}}, {1, {PLACES}}},
                 .ids = {NULL, places}};
    op_check_dtypes(c);
    c.ins = 3;
    c.in_shape[2] = (hil_shape){3, {1, ROWS, CHOSEN}};
    op_check_dtypes(c);
    c.no_din = 1;
    op_check_dtypes(c);
    c.in_shape[2].dim[2] -= 1;
    OP_REFUSED(&c, "weights (1, 7, 2) do not fit");
    c.in_shape[0].dim[0] = ROWS - 1;
    OP_REFUSED(&c, "do not fit");
}

static void combine_reference(const op_case *c, double *const *in, double *const *param,
                              double *const *out)
{
    (void)param;
    int64_t cols = hil_shape_cols(&c->in_shape[0]);
    for (int64_t r = 0; r < ROWS; ++r)
        for (int64_t j = 0; j < cols; ++j) {
            double sum = c->ins == 4 ? in[3][r * cols + j] : 0;
            for (int64_t k = r * CHOSEN; k < (r + 1) * CHOSEN; ++k)
                sum += (c->ids[1] ? 1 : in[1][k]) * in[0][places[k] * cols + j];
            out[0][r * cols + j] = sum;
        }
}

static void check_combine(void)
{
    op_case c = {.op = &hil_op_combine,
                 .reference = combine_reference,
                 .ins = 3,
                 .outs = 1,
                 .in_shape = {{2, {PLACES, 11}}, {3, {1, ROWS, CHOSEN}}, {1, {PLACES}}},
                 .ids = {NULL, NULL, places}};
    op_check_dtypes(c);
    c.ins = 4;
    c.in_shape[3] = (hil_shape){3, {1, ROWS, 11}};
    op_check_dtypes(c);
    c.ids[1] = places; /* in place of weights */
    op_check_dtypes(c);
    c.ids[1] = NULL;
    c.in_shape[3].dim[2] = 10;
    OP_REFUSED(&c, "residual");
    c.ins = 3;
    c.in_shape[0].dim[0] = PLACES - 1;
    OP_REFUSED(&c, "do not fit");
}

/* Experts 0 and 3 have no rows. */
static const int32_t begins[EXPERTS + 1] = {0, 0, 4, 5, 5, ROWS};
/* Two more have no weights. */
static const int32_t long_begins[EXPERTS + 3] = {0, 0, 2, 3, 3, 4, 5, ROWS};

static void grouped_reference(const op_case *c, double *const *in, double *const *param,
                              double *const *out)
{
    int64_t n = c->rows[0] / EXPERTS, k = c->cols[0];
    const int32_t *begin = c->ids[1];
    memset(out[0], 0, (size_t)(ROWS * n) * sizeof *out[0]);
    for (int e = 0; e < EXPERTS; ++e)
        for (int64_t r = begin[e]; r < begin[e + 1]; ++r)
            for (int64_t i = 0; i < n; ++i) {
                double sum = 0;
                for (int64_t j = 0; j < k; ++j)
                    sum += in[0][r * k + j] * param[0][(e * n + i) * k + j];
                out[0][r * n + i] = sum;
            }
}

static void bias_reference(const op_case *c, double *const *in, double *const *param,
                           double *const *out)
{
    int64_t n = c->cols[0] / EXPERTS;
    for (int e = 0; e < EXPERTS; ++e)
        for (int64_t r = begins[e]; r < begins[e + 1]; ++r)
            for (int64_t i = 0; i < n; ++i)
                out[0][r * n + i] = in[0][r * n + i] + param[0][e * n + i];
}

static void check_bias(void)
{
    for (int64_t n = 3; n <= 300; n += 297) {
        op_case c = {.op = &hil_op_expert_bias,
                     .reference = bias_reference,
                     .ins = 2,
                     .outs = 1,
                     .params = 1,
                     .in_shape = {{2, {ROWS, n}}, {1, {EXPERTS + 1}}},
                     .ids = {NULL, begins},
                     .rows = {1},
                     .cols = {n * EXPERTS}};
        op_check_dtypes(c);
        c.frozen[0] = true;
        op_check_dtypes(c);
        c.cols[0] -= 1;
        OP_REFUSED(&c, "do not fit the biases");
    }
}

/* Of each place the expert that `begins` gives it. */
static const int32_t chosen_begins[EXPERTS + 1] = {0, 0, 4, 5, 5, PLACES};

static void scale_reference(const op_case *c, double *const *in, double *const *param,
                            double *const *out)
{
    (void)c;
    for (int64_t i = 0; i < PLACES; ++i) {
        int e = 0;
        while (places[i] >= chosen_begins[e + 1]) ++e;
        out[0][i] = in[0][i] * param[0][e];
    }
}

static void check_scale(void)
{
    op_case c = {.op = &hil_op_expert_scale,
                 .reference = scale_reference,
                 .out = OP_INPUT,
                 .ins = 3,
                 .outs = 1,
                 .params = 1,
                 .in_shape = {{3, {1, ROWS, CHOSEN}}, {1, {PLACES}}, {1, {EXPERTS + 1}}},
                 .ids = {NULL, places, chosen_begins},
                 .rows = {1},
                 .cols = {EXPERTS}};
    op_check_dtypes(c);
    c.no_din = 1;
    op_check_dtypes(c);
    c.no_din = 0, c.frozen[0] = true;
    op_check_dtypes(c);
    c.cols[0] -= 1;
    OP_REFUSED(&c, "expected");
    c.in_shape[1].dim[0] -= 1;
    OP_REFUSED(&c, "do not fit");
}

/* The last two of the experts give what they get. */
static const hil_identity_attr identities = {EXPERTS - 2};

static void identity_reference(const op_case *c, double *const *in, double *const *param,
                               double *const *out)
{
    (void)param;
    int64_t cols = hil_shape_cols(&c->in_shape[0]);
    for (int64_t r = 0; r < ROWS; ++r) {
        double sum = 0;
        for (int64_t i = r * CHOSEN; i < (r + 1) * CHOSEN; ++i)
            if (places[i] >= chosen_begins[identities.first]) sum += in[1][i];
        for (int64_t j = 0; j < cols; ++j) out[0][r * cols + j] = sum * in[0][r * cols + j];
    }
}

static void check_identity(void)
{
    for (int64_t cols = 11; cols <= 1100; cols += 1089) {
        op_case c = {.op = &hil_op_expert_identity,
                     .attr = &identities,
                     .reference = identity_reference,
                     .ins = 4,
                     .outs = 1,
                     .in_shape = {{3, {1, ROWS, cols}},
                                  {3, {1, ROWS, CHOSEN}},
                                  {1, {PLACES}},
                                  {1, {EXPERTS + 1}}},
                     .ids = {NULL, NULL, places, chosen_begins},
                     .samples = 40};
        op_check_dtypes(c);
        c.no_din = 1;
        op_check_dtypes(c);
        c.no_din = 2;
        op_check_dtypes(c);
        c.in_shape[3].dim[0] = EXPERTS - 2;
        OP_REFUSED(&c, "is not one of");
        c.in_shape[2].dim[0] -= 1;
        OP_REFUSED(&c, "do not fit");
    }
}

static void check_grouped(void)
{
    const hil_grouped_attr attr = {EXPERTS}, other = {EXPERTS + 1};
    for (int64_t n = 2; n <= 6; n += 4) {
        op_case c = {.op = &hil_op_grouped_linear,
                     .attr = &attr,
                     .reference = grouped_reference,
                     .ins = 2,
                     .outs = 1,
                     .params = 1,
                     .in_shape = {{2, {ROWS, 9}}, {1, {EXPERTS + 1}}},
                     .ids = {NULL, begins},
                     .experts = EXPERTS,
                     .rows = {n * EXPERTS},
                     .cols = {9}};
        op_check_dtypes(c);
        c.frozen[0] = true;
        op_check_dtypes(c);
        c.frozen[0] = false;
        c.no_din = 1;
        op_check_dtypes(c);
        c.no_din = 0, c.ids[1] = long_begins, c.in_shape[1].dim[0] = EXPERTS + 3;
        op_check_dtypes(c);
        c.ids[1] = begins, c.in_shape[1].dim[0] = EXPERTS + 1, c.attr = &other;
        OP_REFUSED(&c, "does not fit");
    }
}

typedef struct routed {
    float logits[ROWS * EXPERTS], weights[PLACES], use[2 * EXPERTS], saved[ROWS * EXPERTS];
    float dweights[PLACES], duse[2 * EXPERTS], din[ROWS * EXPERTS];
    float before[2 * EXPERTS], dbefore[2 * EXPERTS];
    int32_t place[PLACES], begin[EXPERTS + 1], chosen[PLACES];
} routed;

static void run_route(routed *r, bool normalized, bool back, int threads)
{
    hil_route_attr attr = {.chosen = CHOSEN, .normalized = normalized};
    hil_op_call call = {.op = &hil_op_route,
                        .attr = &attr,
                        .compute = HIL_F32,
                        .differentiate = true,
                        .ins = 2,
                        .in = {{HIL_F32, {3, {1, ROWS, EXPERTS}}, r->logits},
                               {HIL_F32, {2, {2, EXPERTS}}, r->before}}};
    float scratch[4096];
    CHECK_OK(hil_pool_create(&call.pool, threads));
    CHECK_OK(hil_op_infer(&call));
    CHECK(call.forward_scratch <= sizeof scratch);
    CHECK_INT(hil_tensor_bytes(&call.out[0]), sizeof r->weights);
    call.scratch = scratch;
    call.out[0].data = r->weights;
    call.out[1].data = r->place;
    call.out[2].data = r->begin;
    call.out[3].data = r->use;
    call.saved[0].data = r->saved;
    call.saved[1].data = r->chosen;
    CHECK_OK(hil_op_forward(&call));
    call.dout[0] = (hil_tensor){HIL_F32, call.out[0].shape, r->dweights};
    call.dout[3] = (hil_tensor){HIL_F32, call.out[3].shape, r->duse};
    call.din[0] = (hil_tensor){HIL_F32, call.in[0].shape, r->din};
    call.din[1] = (hil_tensor){HIL_F32, call.in[1].shape, r->dbefore};
    if (back) CHECK_OK(hil_op_backward(&call));
    hil_pool_destroy(call.pool);
}

static double route_loss(routed *r, bool normalized)
{
    double sum = 0;
    run_route(r, normalized, false, 1);
    for (int i = 0; i < PLACES; ++i) sum += (double)r->weights[i] * (double)r->dweights[i];
    for (int i = EXPERTS; i < 2 * EXPERTS; ++i) sum += (double)r->use[i] * (double)r->duse[i];
    return sum;
}

static void check_choices(const routed *r, bool normalized)
{
    int32_t next = 0;
    for (int e = 0; e < EXPERTS; ++e) {
        double use = 0;
        CHECK_INT(r->begin[e], next);
        for (int i = 0; i < PLACES; ++i)
            if (r->chosen[i] == e) CHECK_INT(r->place[i], next++);
        for (int row = 0; row < ROWS; ++row) use += (double)r->saved[row * EXPERTS + e];
        CHECK_NEAR((double)r->use[e], (double)r->before[e] + next - r->begin[e], 1e-6);
        CHECK_NEAR((double)r->use[EXPERTS + e], (double)r->before[EXPERTS + e] + use, 1e-6);
    }
    CHECK_INT(r->begin[EXPERTS], PLACES);
    for (int row = 0; row < ROWS; ++row) {
        double all = 0, sum = 0;
        for (int e = 0; e < EXPERTS; ++e) all += exp((double)r->logits[row * EXPERTS + e]);
        for (int j = 0; j < CHOSEN; ++j) {
            int32_t e = r->chosen[row * CHOSEN + j];
            int larger = 0;
            for (int k = 0; k < EXPERTS; ++k)
                larger += r->logits[row * EXPERTS + k] > r->logits[row * EXPERTS + e];
            CHECK_INT(larger, j);
            double p = exp((double)r->logits[row * EXPERTS + e]) / all;
            sum += p;
            if (!normalized) CHECK_NEAR((double)r->weights[row * CHOSEN + j], p, 1e-6);
        }
        for (int j = 0; j < CHOSEN && normalized; ++j) {
            double p = (double)r->saved[row * EXPERTS + r->chosen[row * CHOSEN + j]];
            CHECK_NEAR((double)r->weights[row * CHOSEN + j], p / sum, 1e-6);
        }
    }
}

static void check_route(bool normalized)
{
    routed r, other;
    memset(&r, 0xff, sizeof r);
    for (int i = 0; i < ROWS * EXPERTS; ++i) r.logits[i] = (float)(2 * op_random());
    for (int i = 0; i < PLACES; ++i) r.dweights[i] = (float)op_random();
    for (int i = 0; i < 2 * EXPERTS; ++i) r.duse[i] = (float)op_random();
    for (int i = 0; i < 2 * EXPERTS; ++i) r.before[i] = (float)op_random();
    other = r;
    run_route(&r, normalized, true, 1);
    run_route(&other, normalized, true, 3);
    CHECK(memcmp(&r, &other, sizeof r) == 0);
    check_choices(&r, normalized);
    CHECK(memcmp(r.dbefore, r.duse, sizeof r.duse) == 0);
    for (int i = 0; i < ROWS * EXPERTS; ++i) {
        const float step = 1e-3f;
        routed up = r, down = r;
        up.logits[i] += step;
        down.logits[i] -= step;
        double slope = (route_loss(&up, normalized) - route_loss(&down, normalized)) / 2e-3;
        CHECK_NEAR((double)r.din[i], slope, 2e-3);
    }
}

/* Of equal probabilities the lower expert is chosen first; numbers that are none do no harm. */
static void check_ties(void)
{
    routed r = {0};
    for (int e = 0; e < EXPERTS; ++e) r.logits[e] = NAN;
    run_route(&r, true, false, 1);
    for (int i = 0; i < PLACES; ++i) CHECK_INT(r.chosen[i], i % CHOSEN);
    for (int i = 0; i < PLACES; ++i) CHECK(r.place[i] >= 0 && r.place[i] < PLACES);
}

static void check_balance(void)
{
    enum { TOKENS = 6 };
    const int32_t target[TOKENS] = {4, -1, 0, 2, -1, 9};
    float use[2 * EXPERTS], out[2], din[2 * EXPERTS];
    hil_balance_attr attr = {0.02, 3 * ROWS};
    for (int i = 0; i < 2 * EXPERTS; ++i) use[i] = (float)(2 + op_random());
    double expected = 0, scale = 0.37;
    for (int e = 0; e < EXPERTS; ++e)
        expected += (double)use[e] * (double)use[EXPERTS + e] * EXPERTS * 4 / (9.0 * ROWS * ROWS);
    hil_op_call call = {.op = &hil_op_balance,
                        .attr = &attr,
                        .loss_scale = (float)scale,
                        .ins = 2,
                        .in = {{HIL_F32, {2, {2, EXPERTS}}, use},
                               {HIL_I32, {2, {2, 3}}, (void *)(uintptr_t)target}}};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(hil_op_infer(&call));
    call.out[0].data = out;
    CHECK_OK(hil_op_forward(&call));
    CHECK_NEAR((double)out[1], expected, 1e-6);
    CHECK_NEAR((double)out[0], 0.02 * expected, 1e-7);
    call.din[0] = (hil_tensor){HIL_F32, call.in[0].shape, din};
    CHECK_OK(hil_op_backward(&call));
    for (int e = 0; e < EXPERTS; ++e) {
        double slope = 0.02 * scale * (double)use[e] * EXPERTS * 4 / (9.0 * ROWS * ROWS);
        CHECK_NEAR((double)din[e], 0, 0);
        CHECK_NEAR((double)din[EXPERTS + e], slope, 1e-8);
    }
    hil_pool_destroy(call.pool);
}

int main(void)
{
    check_dispatch();
    check_combine();
    check_grouped();
    check_identity();
    check_bias();
    check_scale();
    check_route(true);
    check_route(false);
    check_ties();
    check_balance();
    return 0;
}
