/* test_gpu_mixture.c - the operations of a mixture of experts on a GPU: choices, rows that go to
   the experts and come back, products with experts that nobody chose, the auxiliary loss. */
#include "gpu/gpu_check.h"

/* Any order of all places. */
static int32_t *make_places(int64_t count)
{
    int32_t *place = malloc((size_t)count * sizeof *place);
    for (int64_t i = 0; i < count; ++i) place[i] = (int32_t)i;
    gpu_seed = 3;
    for (int64_t i = count - 1; i > 0; --i) {
        int64_t other = (int64_t)((gpu_random() + 1) / 2 * (double)(i + 1));
        int32_t kept = place[i];
        place[i] = place[other];
        place[other] = kept;
    }
    return place;
}

static void check_rows(int64_t rows, int64_t chosen, int64_t cols)
{
    int32_t *place = make_places(rows * chosen);
    gpu_case d = {.name = "dispatch",
                  .op = &hil_op_dispatch,
                  .ins = 2,
                  .outs = 1,
                  .in = {{2, {rows, cols}}, {1, {rows * chosen}}, {3, {1, rows, chosen}}},
                  .ids = {NULL, place}};
    gpu_check_dtypes(d);
    d.name = "dispatch with weights", d.ins = 3, d.whole = 4;
    gpu_check_dtypes(d);
    d.name = "dispatch, no gradient of x", d.no_din = 1;
    gpu_check_dtypes(d);
    gpu_case c = {.name = "combine",
                  .op = &hil_op_combine,
                  .ins = 3,
                  .outs = 1,
                  .in = {{2, {rows * chosen, cols}},
                         {3, {1, rows, chosen}},
                         {1, {rows * chosen}},
                         {3, {1, rows, cols}}},
                  .ids = {NULL, NULL, place},
                  .whole = 2};
    gpu_check_dtypes(c);
    c.name = "combine with residual", c.ins = 4;
    gpu_check_dtypes(c);
    c.name = "combine, no gradient of weights", c.no_din = 2;
    gpu_check_dtypes(c);
    c.name = "combine with weights of 1", c.no_din = 0, c.ids[1] = place;
    gpu_check_dtypes(c);
    free(place);
}

/* The logits of bf16 and fp16 have equal ones. */
static void check_route(int64_t rows, int64_t experts, int64_t chosen)
{
    hil_route_attr attr = {.chosen = chosen};
    gpu_case c = {.name = "route",
                  .op = &hil_op_route,
                  .attr = &attr,
                  .ins = 1,
                  .outs = 4,
                  .in = {{3, {1, rows, experts}}, {2, {2, experts}}},
                  .whole = 2,
                  .no_dout = 2 | 4 | 8};
    gpu_check_dtypes(c);
    c.name = "route with earlier use", c.ins = 2, c.no_dout = 2 | 4;
    gpu_check_dtypes(c);
    attr.normalized = true;
    c.name = "route normalised";
    gpu_check_dtypes(c);
    c.name = "route, no gradient of weights", c.no_dout = 1 | 2 | 4;
    gpu_check_dtypes(c);
}

/* Experts of the best groups, chosen with a bias. */
static void check_groups(int64_t rows, int64_t experts, int64_t groups, int64_t chosen)
{
    hil_route_attr attr = {
        .chosen = chosen, .groups = groups, .groups_chosen = (groups + 1) / 2, .scale = 1.5};
    gpu_case c = {.name = "route from groups",
                  .op = &hil_op_route,
                  .attr = &attr,
                  .ins = 1,
                  .outs = 4,
                  .in = {{3, {1, rows, experts}}},
                  .rows = {1},
                  .cols = {experts},
                  .frozen = {true},
                  .no_dout = 2 | 4 | 8};
    gpu_check_dtypes(c);
    attr.sigmoid = attr.normalized = attr.pairs = true;
    c.name = "route by sigmoids";
    gpu_check_dtypes(c);
    c.name = "route with a bias", c.params = 1;
    gpu_check_dtypes(c);
    attr.groups = 0;
    c.name = "route with a bias, without groups";
    gpu_check_dtypes(c);
    attr.by_logits = true;
    c.name = "route by logits with a bias";
    gpu_check_dtypes(c);
    attr.groups = groups, attr.pairs = false;
    c.name = "route by logits from groups";
    gpu_check_dtypes(c);
}

/* One tile at a time, in the CPU's order; then some at once, then many. Experts after the first
   `experts` have no weights. */
static void check_grouped(int64_t n, int64_t k, int64_t tile_rows, int64_t experts,
                          const int32_t *begin, int64_t begins)
{
    hil_grouped_attr attr = {experts};
    const size_t hold[] = {0, (size_t)(n * k) * 12, (size_t)1 << 30};
    for (int i = 0; i < 3; ++i) {
        gpu_case c = {.name = "grouped linear",
                      .op = &hil_op_grouped_linear,
                      .attr = &attr,
                      .ins = 2,
                      .outs = 1,
                      .params = 1,
                      .in = {{2, {begin[begins - 1], k}}, {1, {begins}}},
                      .ids = {NULL, begin},
                      .experts = experts,
                      .hold = hold[i],
                      .other_grid = hold[i] > 0,
                      .rows = {n},
                      .cols = {k},
                      .tile_rows = {tile_rows}};
        gpu_check_dtypes(c);
        c.name = "grouped linear frozen", c.frozen[0] = true;
        gpu_check_dtypes(c);
        c.name = "grouped linear, no din", c.frozen[0] = false, c.no_din = 1;
        gpu_check_dtypes(c);
    }
}

/* Some numbers are bounded. */
static void check_clamped(int64_t count)
{
    hil_swiglu_clamped_attr attr = {1.702, 0.9};
    gpu_check_dtypes((gpu_case){.name = "swiglu clamped",
                                .op = &hil_op_swiglu_clamped,
                                .attr = &attr,
                                .ins = 2,
                                .outs = 1,
                                .spread = 3,
                                .in = {{2, {3, count}}, {2, {3, count}}}});
}

static void check_bias(int64_t cols, int64_t experts, const int32_t *begin)
{
    gpu_case c = {.name = "expert bias",
                  .op = &hil_op_expert_bias,
                  .ins = 2,
                  .outs = 1,
                  .params = 1,
                  .in = {{2, {begin[experts], cols}}, {1, {experts + 1}}},
                  .ids = {NULL, begin},
                  .rows = {1},
                  .cols = {cols * experts}};
    gpu_check_dtypes(c);
    c.name = "expert bias frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
}

/* Choices that lie in any order of places. */
static void check_scale(int64_t rows, int64_t chosen, int64_t experts, const int32_t *begin)
{
    int64_t count = rows * chosen;
    int32_t *place = malloc((size_t)count * sizeof *place);
    for (int64_t i = 0; i < count; ++i) place[i] = (int32_t)((i * 7 + 3) % count);
    gpu_case c = {.name = "expert scale",
                  .op = &hil_op_expert_scale,
                  .ins = 3,
                  .outs = 1,
                  .params = 1,
                  .in = {{3, {1, rows, chosen}}, {1, {count}}, {1, {experts + 1}}},
                  .ids = {NULL, place, begin},
                  .rows = {1},
                  .cols = {experts}};
    gpu_check_dtypes(c);
    c.name = "expert scale frozen", c.frozen[0] = true;
    gpu_check_dtypes(c);
    c.name = "expert scale, no din", c.frozen[0] = false, c.no_din = 1;
    gpu_check_dtypes(c);
    free(place);
}

/* The last experts have no weights: they give what they get. */
static void check_identity(int64_t rows, int64_t chosen, int64_t cols, const int32_t *begin)
{
    int64_t count = rows * chosen;
    hil_identity_attr attr = {3};
    int32_t *place = malloc((size_t)count * sizeof *place);
    for (int64_t i = 0; i < count; ++i) place[i] = (int32_t)((i * 7 + 3) % count);
    gpu_case c = {.name = "expert identity",
                  .op = &hil_op_expert_identity,
                  .attr = &attr,
                  .ins = 4,
                  .outs = 1,
                  .in = {{3, {1, rows, cols}}, {3, {1, rows, chosen}}, {1, {count}}, {1, {6}}},
                  .ids = {NULL, NULL, place, begin}};
    gpu_check_dtypes(c);
    c.name = "expert identity, no dx", c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "expert identity, no dweights", c.no_din = 2;
    gpu_check_dtypes(c);
    free(place);
}

static void check_gate(int64_t rows, int64_t cols, int64_t gates)
{
    gpu_case c = {.name = "sigmoid gate",
                  .op = &hil_op_sigmoid_gate,
                  .ins = 2,
                  .outs = 1,
                  .in = {{2, {rows, cols}}, {2, {rows, gates}}}};
    gpu_check_dtypes(c);
    c.name = "sigmoid gate over its gradient", c.over = true;
    gpu_check_dtypes(c);
    c.name = "sigmoid gate, no gradient of x", c.over = false, c.no_din = 1;
    gpu_check_dtypes(c);
    c.name = "softplus gate", c.op = &hil_op_softplus_gate, c.no_din = 0;
    gpu_check_dtypes(c);
    c.name = "softplus gate over its gradient", c.over = true;
    gpu_check_dtypes(c);
}

static void check_balance(int64_t experts, int64_t tokens)
{
    int32_t *target = malloc((size_t)tokens * sizeof *target);
    for (int64_t i = 0; i < tokens; ++i) target[i] = (int32_t)(i % 7 - 1);
    hil_balance_attr attr = {0.02, 3 * tokens};
    gpu_check_dtypes((gpu_case){.name = "balance",
                                .op = &hil_op_balance,
                                .attr = &attr,
                                .ins = 2,
                                .outs = 1,
                                .in = {{2, {2, experts}}, {2, {1, tokens}}},
                                .ids = {NULL, target},
                                .whole = 1,
                                .fused = true});
    free(target);
}

static void check_router_z(int64_t experts, int64_t tokens)
{
    int32_t *target = malloc((size_t)tokens * sizeof *target);
    for (int64_t i = 0; i < tokens; ++i) target[i] = (int32_t)(i % 7 - 1);
    hil_router_z_attr attr = {0.02, 3};
    gpu_check_dtypes((gpu_case){.name = "router_z",
                                .op = &hil_op_router_z,
                                .attr = &attr,
                                .ins = 2,
                                .outs = 1,
                                .in = {{2, {tokens, experts}}, {2, {1, tokens}}},
                                .ids = {NULL, target},
                                .fused = true});
    free(target);
}

int main(void)
{
    gpu_begin();
    check_rows(7, 3, 19);
    check_rows(300, 8, 256);
    check_rows(5, 64, 1100);
    check_route(7, 5, 3);
    check_route(1000, 128, 8);
    check_route(70, 300, 64);
    check_route(9000, 8, 2);
    check_groups(7, 12, 4, 3);
    check_groups(1000, 256, 8, 8);
    check_groups(500, 160, 8, 6);
    /* Experts without rows, with one, with more than fit a part of a kernel's result. */
    const int32_t few[] = {0, 0, 4, 5, 5, 7};
    const int32_t many[] = {0, 0, 200, 201, 201, 329, 460, 460, 523, 587};
    check_grouped(6, 9, 0, 5, few, 6);
    check_grouped(6, 9, 4, 5, few, 6);
    check_grouped(64, 64, 0, 5, few, 6);
    check_grouped(96, 200, 0, 9, many, 10);
    check_grouped(264, 328, 0, 9, many, 10);
    check_grouped(192, 72, 64, 9, many, 10);
    check_grouped(320, 520, 128, 9, many, 10);
    /* The last ones have no weights. */
    check_grouped(6, 9, 4, 3, few, 6);
    check_grouped(264, 328, 0, 7, many, 10);
    check_grouped(192, 72, 64, 7, many, 10);
    check_identity(7, 1, 19, few);
    check_identity(7, 1, 1100, few);
    check_bias(19, 5, few);
    check_bias(1100, 9, many);
    const int32_t some[] = {0, 0, 200, 201, 201, 329, 460, 460, 523, 600};
    check_scale(300, 2, 9, some);
    check_clamped(1001);
    check_gate(7, 19, 1);
    check_gate(300, 2048, 1);
    check_balance(5, 6);
    check_balance(128, 5000);
    check_router_z(5, 6);
    check_router_z(128, 5000);
    check_router_z(300, 70);
    check_gate(7, 19, 19);
    check_gate(30, 264, 264);
    gpu_end();
    return 0;
}
