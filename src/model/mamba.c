/* mamba.c - the state space layer of Mamba-2: projections, a convolution, the recurrence, a gated
   norm. */
#include "model/mamba.h"

hil_status hil_mamba_build(hil_model *model, const hil_config *c, int64_t n, hil_mamba *out)
{
    const hil_mamba_config *s = &c->mamba;
    const hil_mamba_names *m = c->arch->mamba;
    *out = (hil_mamba){.config = c};
    if (!hil_config_mamba(c, n)) return HIL_OK;
    const hil_role role = m->whole ? HIL_ROUTER : HIL_MATRIX;
    int64_t d = c->hidden, inner = s->heads * s->head_dim;
    int64_t mixed = inner + 2 * s->groups * s->states, all = inner + mixed + s->heads;
    const hil_build_row rows[] = {
        {m->in, {HIL_MATRIX, all, d, c->init_std}, &out->in, false},
        {m->in, {HIL_BIAS, 1, all, 0}, &out->in_bias, !s->bias},
        {m->kernel, {HIL_KERNEL, mixed, s->kernel, c->init_std}, &out->kernel, false},
        {m->kernel, {HIL_BIAS, 1, mixed, 0}, &out->kernel_bias, !s->kernel_bias},
        {m->norm, {HIL_SCALE, 1, inner, 0}, &out->norm, s->bare},
        {m->out, {role, d, inner, c->init_std}, &out->out, !s->beside},
        {m->out, {HIL_BIAS, 1, d, 0}, &out->out_bias, !s->beside || !s->out_bias},
    };
    hil_state_space_options *options = &out->options;
    hil_state_space_defaults(options);
    options->groups = s->groups;
    options->states = s->states;
    options->least = s->least;
    options->most = s->most;
    const hil_build_row vectors[] = {
        {m->rate, {HIL_RATES, 1, s->heads, 0}, &options->rate, false},
        {m->bias, {m->drawn ? HIL_STEP : HIL_SCALE, 1, s->heads, 0}, &options->bias, false},
        {m->direct, {HIL_SCALE, 1, s->heads, 0}, &options->direct, false},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i)
        HIL_TRY(hil_build_vector(model, c, n, &vectors[i]));
    return hil_build_params(
        model, &(hil_build_table){c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows});
}

/* RMSNorm of each group of x (B, T, C), whose weights are one vector. */
static hil_status normalize(hil_tape *t, const hil_mamba *mamba, hil_value **x)
{
    const hil_config *c = mamba->config;
    int64_t whole[3] = {hil_value_dim(*x, 0), hil_value_dim(*x, 1), -1};
    int64_t groups[4] = {whole[0], whole[1], c->mamba.groups, -1};
    if (!mamba->norm) return HIL_OK;
    if (c->mamba.groups == 1) return hil_rmsnorm(t, *x, mamba->norm, c->norm_eps, x);
    HIL_TRY(hil_reshape(t, *x, 4, groups, x));
    HIL_TRY(hil_head_rmsnorm(t, *x, mamba->norm, c->norm_eps, x));
    return hil_reshape(t, *x, 3, whole, x);
}

static hil_status scale(hil_tape *t, double factor, hil_value **x)
{
    return factor > 0 && factor != 1 ? hil_scale(t, *x, factor, x) : HIL_OK;
}

/* z, what the convolution reads, and the steps. */
static hil_status project(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value *part[3])
{
    const hil_mamba_config *s = &mamba->config->mamba;
    int64_t inner = s->heads * s->head_dim, shared = s->groups * s->states;
    hil_value *mixed[3];
    HIL_TRY(scale(t, s->in, &x));
    HIL_TRY(hil_linear(t, x, mamba->in, mamba->in_bias, &x));
    HIL_TRY(hil_split(t, x, 3, (int64_t[]){inner, inner + 2 * shared, s->heads}, part));
    HIL_TRY(scale(t, s->parts[0], &part[0]));
    HIL_TRY(scale(t, s->parts[4], &part[2]));
    if (s->parts[1] == s->parts[2] && s->parts[2] == s->parts[3])
        return scale(t, s->parts[1], &part[1]);
    HIL_TRY(hil_split(t, part[1], 3, (int64_t[]){inner, shared, shared}, mixed));
    for (int i = 0; i < 3; ++i) HIL_TRY(scale(t, s->parts[1 + i], &mixed[i]));
    return hil_join(t, 3, mixed, &part[1]);
}

hil_status hil_mamba_run(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value **y)
{
    const hil_mamba_config *s = &mamba->config->mamba;
    int64_t whole[3] = {hil_value_dim(x, 0), hil_value_dim(x, 1), s->heads * s->head_dim};
    hil_value *part[3];
    HIL_TRY(project(t, mamba, x, part));
    HIL_TRY(hil_causal_conv_biased(t, part[1], mamba->kernel, mamba->kernel_bias, &x));
    HIL_TRY(hil_state_space(t, x, part[2], &mamba->options, &x));
    HIL_TRY(hil_reshape(t, x, 3, whole, &x));
    if (s->norm_first) HIL_TRY(normalize(t, mamba, &x));
    HIL_TRY(hil_swiglu(t, part[0], x, y));
    return s->norm_first ? HIL_OK : normalize(t, mamba, y);
}

hil_status hil_mamba_add(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value **sum)
{
    if (!mamba->out) return HIL_OK;
    HIL_TRY(hil_mamba_run(t, mamba, x, &x));
    HIL_TRY(hil_linear(t, x, mamba->out, mamba->out_bias, &x));
    HIL_TRY(scale(t, mamba->config->mamba.out, &x));
    return hil_add(t, *sum, x, sum);
}
