/* delta_net.c - linear attention by the gated delta rule: a convolution, the rule, a gated norm. */
#include "model/delta_net.h"

hil_status hil_delta_net_build(hil_model *model, const hil_config *c, int64_t n, hil_delta_net *out)
{
    const hil_delta_config *s = &c->delta;
    const hil_delta_names *m = c->arch->delta;
    *out = (hil_delta_net){.config = c};
    if (s->channels || !hil_config_linear(c, n)) return HIL_OK;
    int64_t d = c->hidden, keys = s->key_heads * s->key_dim, values = s->heads * s->value_dim;
    int64_t mixed = 2 * keys + values;
    double std = c->init_std;
    const hil_build_row rows[] = {
        {m->qkvz, {HIL_MATRIX, mixed + values, d, std}, &out->qkvz, false},
        {m->ba, {HIL_MATRIX, 2 * s->heads, d, std}, &out->ba, false},
        {m->qkv, {HIL_MATRIX, mixed, d, std}, &out->qkv, false},
        {m->z, {HIL_MATRIX, values, d, std}, &out->z, false},
        {m->b, {HIL_MATRIX, s->heads, d, std}, &out->b, false},
        {m->a, {HIL_MATRIX, s->heads, d, std}, &out->a, false},
        {m->q, {HIL_MATRIX, keys, d, std}, &out->each[0], false},
        {m->k, {HIL_MATRIX, keys, d, std}, &out->each[1], false},
        {m->v, {HIL_MATRIX, values, d, std}, &out->each[2], false},
        {m->kernel, {HIL_KERNEL, mixed, s->kernel, std}, &out->kernel, false},
        {m->q_kernel, {HIL_KERNEL, keys, s->kernel, std}, &out->each_kernel[0], false},
        {m->k_kernel, {HIL_KERNEL, keys, s->kernel, std}, &out->each_kernel[1], false},
        {m->v_kernel, {HIL_KERNEL, values, s->kernel, std}, &out->each_kernel[2], false},
        {m->norm, {HIL_SCALE, 1, s->value_dim, 0}, &out->norm, false},
    };
    hil_delta_defaults(&out->options);
    out->options.key_heads = s->key_heads;
    out->options.key_dim = s->key_dim;
    out->options.write = s->write;
    const hil_build_row rate = {m->rate, {HIL_RATE, 1, s->heads, 0}, &out->options.rate, false};
    const hil_role role = m->drawn ? HIL_STEP : HIL_SCALE;
    const hil_build_row bias = {m->bias, {role, 1, s->heads, 0}, &out->options.bias, false};
    HIL_TRY(hil_build_vector(model, c, n, &rate));
    HIL_TRY(hil_build_vector(model, c, n, &bias));
    return hil_build_params(
        model, &(hil_build_table){c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows});
}

/* What the rule and the norm read. */
typedef struct inputs {
    hil_value *qkv, *z, *b, *a;
} inputs;

/* (B, T, K, n) to (B, T, K n). */
static hil_status join_heads(hil_tape *t, hil_value **x)
{
    int64_t shape[3] = {hil_value_dim(*x, 0), hil_value_dim(*x, 1), -1};
    return hil_reshape(t, *x, 3, shape, x);
}

/* Cuts x (B, T, K n) into parts of each of the K heads of keys; each part becomes (B, T, K size).
 */
static hil_status split_groups(hil_tape *t, const hil_delta_net *net, hil_value *x, int parts,
                               const int64_t *sizes, hil_value **part)
{
    int64_t shape[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), net->config->delta.key_heads, -1};
    HIL_TRY(hil_reshape(t, x, 4, shape, &x));
    HIL_TRY(hil_split(t, x, parts, sizes, part));
    for (int i = 0; i < parts; ++i) HIL_TRY(join_heads(t, &part[i]));
    return HIL_OK;
}

static hil_status project_fused(hil_tape *t, const hil_delta_net *net, hil_value *x, inputs *out)
{
    const hil_delta_config *s = &net->config->delta;
    int64_t group = s->heads / s->key_heads, values = group * s->value_dim;
    hil_value *part[4], *gate[2], *y;
    HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){net->qkvz, net->ba}));
    HIL_TRY(hil_linear(t, x, net->qkvz, NULL, &y));
    HIL_TRY(split_groups(t, net, y, 4, (int64_t[]){s->key_dim, s->key_dim, values, values}, part));
    HIL_TRY(hil_join(t, 3, part, &out->qkv));
    out->z = part[3];
    HIL_TRY(hil_linear(t, x, net->ba, NULL, &y));
    HIL_TRY(split_groups(t, net, y, 2, (int64_t[]){group, group}, gate));
    out->b = gate[0], out->a = gate[1];
    return HIL_OK;
}

static hil_status project_gates(hil_tape *t, const hil_delta_net *net, hil_value *x, inputs *out)
{
    HIL_TRY(hil_linear(t, x, net->z, NULL, &out->z));
    HIL_TRY(hil_linear(t, x, net->b, NULL, &out->b));
    return hil_linear(t, x, net->a, NULL, &out->a);
}

static hil_status project_apart(hil_tape *t, const hil_delta_net *net, hil_value *x, inputs *out)
{
    HIL_TRY(hil_linear_share(t, x, 4, (hil_param *[]){net->qkv, net->z, net->b, net->a}));
    HIL_TRY(hil_linear(t, x, net->qkv, NULL, &out->qkv));
    return project_gates(t, net, x, out);
}

/* The same where q, k and v are apart, too; their convolutions included. */
static hil_status project_each(hil_tape *t, const hil_delta_net *net, hil_value *x, inputs *out)
{
    hil_param *const *of = net->each;
    hil_value *part[3];
    HIL_TRY(
        hil_linear_share(t, x, 6, (hil_param *[]){of[0], of[1], of[2], net->z, net->b, net->a}));
    for (int i = 0; i < 3; ++i) {
        HIL_TRY(hil_linear(t, x, of[i], NULL, &part[i]));
        HIL_TRY(hil_causal_conv(t, part[i], net->each_kernel[i], &part[i]));
    }
    HIL_TRY(hil_join(t, 3, part, &out->qkv));
    return project_gates(t, net, x, out);
}

static hil_status project(hil_tape *t, const hil_delta_net *net, hil_value *x, inputs *out)
{
    if (net->each[0]) return project_each(t, net, x, out);
    HIL_TRY((net->qkvz ? project_fused : project_apart)(t, net, x, out));
    return hil_causal_conv(t, out->qkv, net->kernel, &out->qkv);
}

hil_status hil_delta_net_run(hil_tape *t, const hil_delta_net *net, hil_value *x, hil_value **y)
{
    const hil_config *c = net->config;
    inputs in;
    HIL_TRY(project(t, net, x, &in));
    HIL_TRY(hil_delta_rule(t, in.qkv, in.b, in.a, &net->options, y));
    HIL_TRY(
        hil_rmsnorm(t, *y, net->norm, c->delta.norm_eps > 0 ? c->delta.norm_eps : c->norm_eps, y));
    HIL_TRY(join_heads(t, y));
    return hil_swiglu(t, in.z, *y, y);
}
