/* mixture.c - a router chooses experts for each token; each expert is a gated MLP. */
#include "model/mixture.h"

#include <stdio.h>

static bool is_mixture(const hil_config *c, int64_t n)
{
    return c->mixture.experts && !(c->mixture.dense[n / 64] >> (n % 64) & 1);
}

int64_t hil_mixture_before(const hil_config *c, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += is_mixture(c, i);
    return count;
}

/* The expert that all tokens have. */
static hil_status build_shared(hil_model *model, const hil_config *c, int64_t n, hil_mixture *out)
{
    const hil_mixture_names *m = c->arch->mixture;
    const hil_param_form inner = {HIL_MATRIX, c->mixture.shared, c->hidden, c->init_std};
    const hil_param_form both = {HIL_MATRIX, 2 * c->mixture.shared, c->hidden, c->init_std};
    const hil_param_form outer = {HIL_MATRIX, c->hidden, c->mixture.shared, c->init_std};
    const hil_param_form one = {HIL_MATRIX, 1, c->hidden, c->init_std};
    const struct {
        const char *name;
        const hil_param_form *form;
        hil_param **out;
    } rows[] = {{m->shared_gate, &inner, &out->shared_gate},
                {m->shared_up, &inner, &out->shared_up},
                {m->shared_gate_up, &both, &out->shared_gate_up},
                {m->shared_down, &outer, &out->shared_down},
                {m->shared, &one, &out->shared}};
    char name[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (!rows[i].name) continue;
        snprintf(name, sizeof name, "%s%lld.%s", c->arch->names->blocks, (long long)n,
                 rows[i].name);
        HIL_TRY(hil_build_param(model, name, rows[i].form, rows[i].out));
    }
    return HIL_OK;
}

/* A vector with a number of each expert; `whole` is its name in the block. */
static hil_status build_vector(hil_model *model, const hil_config *c, int64_t n, const char *whole,
                               hil_role role, hil_param **out)
{
    const hil_param_form form = {role, 1, c->mixture.experts + c->mixture.identities, 0};
    char name[256];
    snprintf(name, sizeof name, "%s%lld.%s", c->arch->names->blocks, (long long)n, whole);
    return hil_model_param(model, name, &form, out);
}

static hil_status build_biases(hil_model *model, const hil_config *c, int64_t n, hil_mixture *out)
{
    const hil_mixture_names *m = c->arch->mixture;
    int64_t experts = c->mixture.experts, width = c->mixture.width;
    const struct {
        const char *name;
        int64_t count;
        hil_param **out;
    } rows[] = {{m->router, experts, &out->router_bias},
                {m->gate_bias, experts * width, &out->gate_bias},
                {m->up_bias, experts * width, &out->up_bias},
                {m->down_bias, experts * c->hidden, &out->down_bias}};
    char name[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const hil_param_form form = {HIL_BIAS, 1, rows[i].count, 0};
        snprintf(name, sizeof name, "%s%lld.%s", c->arch->names->blocks, (long long)n,
                 rows[i].name);
        HIL_TRY(hil_build_param(model, name, &form, rows[i].out));
    }
    return HIL_OK;
}

/* The projections before the experts and after them. */
static hil_status build_latent(hil_model *model, const hil_config *c, int64_t n, hil_mixture *out)
{
    const hil_mixture_names *m = c->arch->mixture;
    int64_t size = c->mixture.latent;
    const hil_build_row rows[] = {
        {m->latent_down, {HIL_MATRIX, size, c->hidden, c->init_std}, &out->latent_down, false},
        {m->latent_up, {HIL_MATRIX, c->hidden, size, c->init_std}, &out->latent_up, false},
    };
    if (!size) return HIL_OK;
    return hil_build_params(
        model, &(hil_build_table){c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows});
}

static void set_route(const hil_mixture_config *m, hil_route_options *out)
{
    hil_route_defaults(out);
    out->chosen = m->chosen, out->normalized = m->normalized, out->scale = m->scale;
    out->groups = m->groups, out->groups_chosen = m->groups_chosen;
    out->sigmoid = m->sigmoid, out->pairs = m->pairs, out->eps = m->eps;
    out->by_logits = m->by_logits;
    out->identities = m->identities;
}

hil_status hil_mixture_build(hil_model *model, const hil_config *c, int64_t n, hil_mixture *out)
{
    const hil_mixture_names *m = c->arch->mixture;
    const char *blocks = c->arch->names->blocks;
    int64_t routed = c->mixture.experts + c->mixture.identities;
    const hil_param_form router = {HIL_ROUTER, routed, c->hidden, c->init_std};
    const hil_role role = c->mixture.transposed ? HIL_TRANSPOSED : HIL_MATRIX;
    int64_t d = c->mixture.latent ? c->mixture.latent : c->hidden;
    const hil_param_form inner = {role, c->mixture.width, d, c->init_std};
    const hil_param_form both = {role, 2 * c->mixture.width, d, c->init_std};
    const hil_param_form outer = {role, d, c->mixture.width, c->init_std};
    *out = (hil_mixture){.balanced = c->mixture.balance > 0, .later = hil_mixture_before(c, n) > 0};
    if (!is_mixture(c, n)) return HIL_OK;
    set_route(&c->mixture, &out->route);
    out->activation = c->activation;
    out->early = c->mixture.early;
    out->alpha = c->mixture.alpha;
    out->limit = c->mixture.limit;
    out->cap = c->mixture.cap;
    out->router_z = c->mixture.router_z;
    out->layers = hil_mixture_before(c, c->layers);
    const struct {
        const char *name;
        const hil_param_form *form;
        hil_param **first;
    } rows[] = {{m->gate, &inner, &out->gate},
                {m->up, &inner, &out->up},
                {m->gate_up, &both, &out->gate_up},
                {m->down, &outer, &out->down}};
    char name[256];
    snprintf(name, sizeof name, "%s%lld.%s", blocks, (long long)n, m->router);
    HIL_TRY(hil_build_param(model, name, &router, &out->router));
    if (c->mixture.corrected)
        HIL_TRY(build_vector(model, c, n, m->correction, HIL_FIXED, &out->route.correction));
    if (m->factors) HIL_TRY(build_vector(model, c, n, m->factors, HIL_SCALE, &out->factors));
    if (c->mixture.shared) HIL_TRY(build_shared(model, c, n, out));
    if (c->mixture.biased) HIL_TRY(build_biases(model, c, n, out));
    HIL_TRY(build_latent(model, c, n, out));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        if (!rows[i].name) continue;
        snprintf(name, sizeof name, "%s%lld.%s.weight", blocks, (long long)n, rows[i].name);
        HIL_TRY(hil_model_experts(model, name, rows[i].form, c->mixture.experts, rows[i].first));
    }
    return HIL_OK;
}

hil_status hil_mixture_pass(const hil_mixture *m, const hil_values *in, hil_values *out)
{
    hil_value *used;
    if (!m->balanced || !m->later) return HIL_OK;
    HIL_TRY(hil_values_get(in, "used", &used));
    return hil_values_set(out, "used", used);
}

hil_status hil_mixture_route(hil_tape *t, const hil_mixture *m, hil_value *x, const hil_values *in,
                             hil_values *out, hil_routing *routing)
{
    hil_value *logits, *used = NULL;
    if (m->balanced && m->later) HIL_TRY(hil_values_get(in, "used", &used));
    HIL_TRY(hil_linear(t, x, m->router, m->router_bias, &logits));
    if (m->cap > 0) HIL_TRY(hil_softcap(t, logits, m->cap, &logits));
    if (m->router_z > 0) HIL_TRY(hil_router_z_loss(t, logits, m->layers, m->router_z));
    HIL_TRY(hil_route(t, logits, used, &m->route, routing));
    if (m->factors) HIL_TRY(hil_expert_scale(t, routing, m->factors));
    return m->balanced ? hil_values_set(out, "used", routing->used) : HIL_OK;
}

/* The gate and the rest of the expert that all tokens have. */
static hil_status open_shared(hil_tape *t, const hil_mixture *m, hil_value *x, hil_value *part[2])
{
    if (m->shared_gate_up) {
        HIL_TRY(hil_linear(t, x, m->shared_gate_up, NULL, &x));
        int64_t half = hil_value_dim(x, -1) / 2;
        return hil_split(t, x, 2, (int64_t[]){half, half}, part);
    }
    HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){m->shared_gate, m->shared_up}));
    HIL_TRY(hil_linear(t, x, m->shared_gate, NULL, &part[0]));
    return hil_linear(t, x, m->shared_up, NULL, &part[1]);
}

/* That expert up to its last projection. */
static hil_status activate_shared(hil_tape *t, const hil_mixture *m, hil_value *x, hil_value **y)
{
    hil_value *part[2];
    if (!m->shared_gate && !m->shared_gate_up) {
        HIL_TRY(hil_linear(t, x, m->shared_up, NULL, y));
        return hil_relu_squared(t, *y, y);
    }
    HIL_TRY(open_shared(t, m, x, part));
    return hil_swiglu(t, part[0], part[1], y);
}

/* *sum += the expert that all tokens have; *sum may be NULL. */
static hil_status add_shared(hil_tape *t, const hil_mixture *m, hil_value *x, hil_value **sum)
{
    hil_value *gate, *y;
    HIL_TRY(activate_shared(t, m, x, &y));
    if (!m->shared && *sum) return hil_linear_add(t, y, m->shared_down, NULL, *sum, sum);
    HIL_TRY(hil_linear(t, y, m->shared_down, NULL, &y));
    if (m->shared) {
        HIL_TRY(hil_linear(t, x, m->shared, NULL, &gate));
        HIL_TRY(hil_sigmoid_gate(t, y, gate, &y));
    }
    if (*sum) return hil_add(t, *sum, y, sum);
    *sum = y;
    return HIL_OK;
}

/* *sum += the experts that give what they get; *sum may be NULL. */
static hil_status add_identities(hil_tape *t, hil_value *x, const hil_routing *routing,
                                 hil_value **sum)
{
    hil_value *y;
    HIL_TRY(hil_expert_identity(t, x, routing, &y));
    if (*sum) return hil_add(t, *sum, y, sum);
    *sum = y;
    return HIL_OK;
}

static hil_status project(hil_tape *t, hil_value *rows, const hil_routing *routing,
                          hil_param *first, hil_param *bias, hil_value **y)
{
    HIL_TRY(hil_grouped_linear(t, rows, routing, first, y));
    return bias ? hil_expert_bias(t, *y, routing, bias, y) : HIL_OK;
}

static hil_status activate(hil_tape *t, const hil_mixture *m, hil_value *gate, hil_value *up,
                           hil_value **y)
{
    if (m->limit > 0) return hil_swiglu_clamped(t, gate, up, m->alpha, m->limit, y);
    if (m->activation == HIL_SILU) return hil_swiglu(t, gate, up, y);
    return hil_geglu(t, gate, up, m->activation == HIL_GELU ? HIL_GELU_EXACT : HIL_GELU_APPROXIMATE,
                     y);
}

/* The experts up to their last projection. */
static hil_status open_experts(hil_tape *t, const hil_mixture *m, hil_value *rows,
                               const hil_routing *routing, hil_value **y)
{
    hil_value *part[2];
    if (!m->gate && !m->gate_up) {
        HIL_TRY(project(t, rows, routing, m->up, m->up_bias, &rows));
        return hil_relu_squared(t, rows, y);
    }
    if (m->gate_up) {
        HIL_TRY(project(t, rows, routing, m->gate_up, NULL, &rows));
        int64_t half = hil_value_dim(rows, -1) / 2;
        HIL_TRY(hil_split(t, rows, 2, (int64_t[]){half, half}, part));
    } else {
        HIL_TRY(project(t, rows, routing, m->gate, m->gate_bias, &part[0]));
        HIL_TRY(project(t, rows, routing, m->up, m->up_bias, &part[1]));
    }
    return activate(t, m, part[0], part[1], y);
}

hil_status hil_mixture_run(hil_tape *t, const hil_mixture *m, hil_value *x,
                           const hil_routing *routing, hil_value *residual, hil_value **y)
{
    hil_value *rows;
    hil_routing own = *routing;
    if (m->shared_down) HIL_TRY(add_shared(t, m, x, &residual));
    if (m->route.identities) HIL_TRY(add_identities(t, x, &own, &residual));
    if (m->latent_down) HIL_TRY(hil_linear(t, x, m->latent_down, NULL, &x));
    if (m->early)
        HIL_TRY(hil_dispatch_weighed(t, x, &own, &rows));
    else
        HIL_TRY(hil_dispatch(t, x, &own, &rows));
    HIL_TRY(open_experts(t, m, rows, &own, &rows));
    HIL_TRY(project(t, rows, &own, m->down, m->down_bias, &rows));
    if (!m->latent_up) return hil_combine(t, rows, &own, residual, y);
    HIL_TRY(hil_combine(t, rows, &own, NULL, &rows));
    if (residual) return hil_linear_add(t, rows, m->latent_up, NULL, residual, y);
    return hil_linear(t, rows, m->latent_up, NULL, y);
}
