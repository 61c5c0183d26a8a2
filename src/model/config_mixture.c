/* config_mixture.c - the keys of mixtures of experts. */
#include "model/config_read.h"

#define EXPERTS_MAX 65536
#define CHOSEN_MAX 64

/* mlp_only_layers, and all but every decoder_sparse_step-th layer, have an MLP. */
static hil_status read_dense_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t step = 1;
    HIL_TRY(hil_config_size(r, "decoder_sparse_step", NULL, HIL_LAYERS_MAX, &step));
    for (int64_t n = 0; n < c->layers; ++n)
        if ((n + 1) % step) c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    const json_t *list = json_object_get(r->object, "mlp_only_layers");
    if (!list || json_is_null(list)) return HIL_OK;
    if (!json_is_array(list))
        return hil_config_refuse(r, "mlp_only_layers", "must be a list of layers");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        int64_t n = json_is_integer(item) ? json_integer_value(item) : -1;
        if (n < 0 || n >= c->layers)
            return hil_config_refuse(r, "mlp_only_layers", "names a layer that does not exist");
        c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    }
    return HIL_OK;
}

hil_status hil_config_mixture(const hil_config_reader *r, const char *experts)
{
    hil_mixture_config *m = &r->config->mixture;
    bool balanced = false;
    HIL_TRY(hil_config_size(r, experts, "num_experts", EXPERTS_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "num_experts_per_tok", NULL, CHOSEN_MAX, &m->chosen));
    HIL_TRY(hil_config_size(r, "moe_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX, &m->width));
    if (m->chosen > m->experts)
        return hil_config_refuse(r, "num_experts_per_tok", "is larger than the number of experts");
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &m->normalized));
    HIL_TRY(hil_config_real(r, "router_aux_loss_coef", 0, 1e6, &m->balance));
    HIL_TRY(hil_config_bool(r, "output_router_logits", &balanced));
    if (!balanced) m->balance = 0;
    return read_dense_layers(r);
}
