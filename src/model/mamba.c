/* mamba.c - the state space layer of Mamba-2: projections, a convolution, the recurrence, a gated
   norm. */
#include "model/mamba.h"

hil_status hil_mamba_build(hil_model *model, const hil_config *c, int64_t n, hil_mamba *out)
{
    const hil_mamba_config *s = &c->mamba;
    const hil_mamba_names *m = c->arch->mamba;
    *out = (hil_mamba){.config = c};
    if (!hil_config_mamba(c, n)) return HIL_OK;
    int64_t d = c->hidden, inner = s->heads * s->head_dim;
    int64_t mixed = inner + 2 * s->groups * s->states, all = inner + mixed + s->heads;
    const hil_build_row rows[] = {
        {m->in, {HIL_MATRIX, all, d, c->init_std}, &out->in, false},
        {m->in, {HIL_BIAS, 1, all, 0}, &out->in_bias, !s->bias},
        {m->kernel, {HIL_KERNEL, mixed, s->kernel, c->init_std}, &out->kernel, false},
        {m->kernel, {HIL_BIAS, 1, mixed, 0}, &out->kernel_bias, !s->kernel_bias},
        {m->norm, {HIL_SCALE, 1, inner, 0}, &out->norm, false},
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
    if (c->mamba.groups == 1) return hil_rmsnorm(t, *x, mamba->norm, c->norm_eps, x);
    HIL_TRY(hil_reshape(t, *x, 4, groups, x));
    HIL_TRY(hil_head_rmsnorm(t, *x, mamba->norm, c->norm_eps, x));
    return hil_reshape(t, *x, 3, whole, x);
}

hil_status hil_mamba_run(hil_tape *t, const hil_mamba *mamba, hil_value *x, hil_value **y)
{
    const hil_mamba_config *s = &mamba->config->mamba;
    int64_t inner = s->heads * s->head_dim, mixed = inner + 2 * s->groups * s->states;
    int64_t whole[3] = {hil_value_dim(x, 0), hil_value_dim(x, 1), inner};
    hil_value *part[3]; /* z; x, B and C; the steps */
    HIL_TRY(hil_linear(t, x, mamba->in, mamba->in_bias, &x));
    HIL_TRY(hil_split(t, x, 3, (int64_t[]){inner, mixed, s->heads}, part));
    HIL_TRY(hil_causal_conv_biased(t, part[1], mamba->kernel, mamba->kernel_bias, &x));
    HIL_TRY(hil_state_space(t, x, part[2], &mamba->options, &x));
    HIL_TRY(hil_reshape(t, x, 3, whole, &x));
    HIL_TRY(hil_swiglu(t, part[0], x, y));
    return normalize(t, mamba, y);
}
