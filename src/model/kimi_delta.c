/* kimi_delta.c - Kimi Delta Attention: convolutions, the delta rule with a decay per channel, a
   gated norm. */
#include "model/kimi_delta.h"

hil_status hil_kimi_delta_build(hil_model *model, const hil_config *c, int64_t n,
                                hil_kimi_delta *out)
{
    const hil_delta_config *s = &c->delta;
    *out = (hil_kimi_delta){.config = c};
    if (!s->channels || !hil_config_linear(c, n)) return HIL_OK;
    int64_t d = c->hidden, few = s->key_dim, all = s->heads * s->key_dim;
    double std = c->init_std;
    const hil_param_form whole = {HIL_MATRIX, all, d, std},
                         kernel = {HIL_KERNEL, all, s->kernel, std};
    const hil_param_form down = {HIL_MATRIX, few, d, std}, up = {HIL_MATRIX, all, few, std};
    const hil_build_row rows[] = {
        {"self_attn.q_proj", whole, &out->qkv[0], false},
        {"self_attn.k_proj", whole, &out->qkv[1], false},
        {"self_attn.v_proj", whole, &out->qkv[2], false},
        {"self_attn.q_conv1d", kernel, &out->kernel[0], false},
        {"self_attn.k_conv1d", kernel, &out->kernel[1], false},
        {"self_attn.v_conv1d", kernel, &out->kernel[2], false},
        {"self_attn.forget_gate.f_a_proj", down, &out->forget_down, s->direct},
        {"self_attn.forget_gate.f_b_proj", up, &out->forget_up, s->direct},
        {"self_attn.forget_gate.f_proj", whole, &out->forget_up, !s->direct},
        {"self_attn.b_proj", {HIL_MATRIX, s->heads, d, std}, &out->write, false},
        {"self_attn.g_a_proj", down, &out->gate_down, s->direct},
        {"self_attn.g_b_proj", up, &out->gate_up, s->direct},
        {"self_attn.g_proj", whole, &out->gate_up, !s->direct},
        {"self_attn.o_norm", {HIL_SCALE, 1, few, 0}, &out->norm, false},
    };
    const hil_build_row rate = {
        "self_attn.A_log", {HIL_RATE, 1, s->heads, 0}, &out->options.rate, false};
    const hil_build_row bias = {
        "self_attn.dt_bias", {HIL_STEP, 1, all, 0}, &out->options.bias, false};
    hil_delta_defaults(&out->options);
    out->options.key_heads = s->heads;
    out->options.key_dim = s->key_dim;
    out->options.floor = s->floor;
    HIL_TRY(hil_build_vector(model, c, n, &rate));
    HIL_TRY(hil_build_vector(model, c, n, &bias));
    return hil_build_params(
        model, &(hil_build_table){c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows});
}

/* The product with `up` of that with `down`, if there is one. */
static hil_status project_twice(hil_tape *t, hil_value *x, hil_param *down, hil_param *up,
                                hil_value **y)
{
    if (down) HIL_TRY(hil_linear(t, x, down, NULL, &x));
    return hil_linear(t, x, up, NULL, y);
}

hil_status hil_kimi_delta_run(hil_tape *t, const hil_kimi_delta *k, hil_value *x, hil_value **y)
{
    const hil_delta_config *s = &k->config->delta;
    hil_value *part[3], *write, *forget, *gate;
    int64_t heads[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), s->heads, s->value_dim};
    int64_t whole[3] = {heads[0], heads[1], s->heads * s->value_dim};
    HIL_TRY(hil_linear_share(t, x, 3, (hil_param *[]){k->qkv[0], k->qkv[1], k->qkv[2]}));
    for (int i = 0; i < 3; ++i) {
        HIL_TRY(hil_linear(t, x, k->qkv[i], NULL, &part[i]));
        HIL_TRY(hil_causal_conv(t, part[i], k->kernel[i], &part[i]));
    }
    HIL_TRY(hil_join(t, 3, part, &part[0]));
    HIL_TRY(hil_linear(t, x, k->write, NULL, &write));
    HIL_TRY(project_twice(t, x, k->forget_down, k->forget_up, &forget));
    HIL_TRY(hil_channel_delta(t, part[0], write, forget, &k->options, y));
    HIL_TRY(hil_rmsnorm(t, *y, k->norm, k->config->norm_eps, y));
    HIL_TRY(project_twice(t, x, k->gate_down, k->gate_up, &gate));
    HIL_TRY(hil_reshape(t, gate, 4, heads, &gate));
    HIL_TRY(hil_sigmoid_gate(t, *y, gate, y));
    return hil_reshape(t, *y, 3, whole, y);
}
