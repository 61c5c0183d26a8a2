/* config_mixture.c - the keys of mixtures of experts. */
#include "model/arch.h"

#include <string.h>

#define EXPERTS_MAX 65536
#define CHOSEN_MAX 64
#define GROUPS_MAX 64
#define SHARED_MAX 1024

hil_status hil_config_layer_list(const hil_config_reader *r, const char *key, uint64_t *layers)
{
    const json_t *list = json_object_get(r->object, key);
    if (!list || json_is_null(list)) return HIL_OK;
    if (!json_is_array(list)) return hil_config_refuse(r, key, "must be a list of layers");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        int64_t n = json_is_integer(item) ? json_integer_value(item) : -1;
        if (n < 0 || n >= r->config->layers)
            return hil_config_refuse(r, key, "names a layer that does not exist");
        layers[n / 64] |= (uint64_t)1 << (n % 64);
    }
    return HIL_OK;
}

/* mlp_only_layers, and all but every decoder_sparse_step-th layer, have an MLP. */
static hil_status read_dense_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t step = 1;
    HIL_TRY(hil_config_size(r, "decoder_sparse_step", NULL, HIL_LAYERS_MAX, &step));
    for (int64_t n = 0; n < c->layers; ++n)
        if ((n + 1) % step) c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    return hil_config_layer_list(r, "mlp_only_layers", c->mixture.dense);
}

static hil_status read_scores(const hil_config_reader *r)
{
    const hil_mixture_config *m = &r->config->mixture;
    const char *score = m->sigmoid ? "sigmoid" : "softmax", *given = score;
    int64_t period = 1;
    HIL_TRY(hil_json_string(r->object, "scoring_func", r->what, &given));
    if (strcmp(given, score) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: \"scoring_func\" is \"%.40s\"; for %s only %s is known",
                        r->what, given, r->config->arch->name, score);
    HIL_TRY(hil_json_int(r->object, "moe_layer_freq", r->what, &period));
    return period == 1 ? HIL_OK
                       : hil_config_refuse(r, "moe_layer_freq", "other than 1 is not supported");
}

/* null: experts have no groups. */
hil_status hil_config_groups(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    if (json_is_null(json_object_get(r->object, "n_group"))) m->groups = 0;
    if (!m->groups && !json_is_integer(json_object_get(r->object, "n_group"))) return HIL_OK;
    HIL_TRY(hil_config_size(r, "n_group", NULL, GROUPS_MAX, &m->groups));
    HIL_TRY(hil_config_size(r, "topk_group", NULL, m->groups, &m->groups_chosen));
    if (m->experts % m->groups || (m->pairs && m->experts < 2 * m->groups))
        return hil_config_refuse(r, "n_group", "does not cut the experts into groups");
    if (m->chosen > m->experts / m->groups * m->groups_chosen)
        return hil_config_refuse(r, "topk_group", "leaves too few experts to choose from");
    return HIL_OK;
}

hil_status hil_config_grouped_mixture(const hil_config_reader *r, int64_t shared, int64_t dense)
{
    HIL_TRY(hil_config_mixture(r, "n_routed_experts"));
    r->config->mixture.balance = 0; /* there is none in transformers */
    HIL_TRY(read_scores(r));
    return hil_config_grouped(r, shared, dense);
}

hil_status hil_config_grouped(const hil_config_reader *r, int64_t shared, int64_t dense)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    HIL_TRY(hil_config_groups(r));
    if (m->scale == 0) m->scale = 1;
    HIL_TRY(hil_config_real(r, "routed_scaling_factor", 1e-9, 1e9, &m->scale));
    HIL_TRY(hil_config_size(r, "n_shared_experts", NULL, SHARED_MAX, &shared));
    m->shared = shared * m->width;
    HIL_TRY(hil_json_int(r->object, "first_k_dense_replace", r->what, &dense));
    for (int64_t n = 0; n < dense && n < c->layers; ++n)
        m->dense[n / 64] |= (uint64_t)1 << (n % 64);
    return HIL_OK;
}

hil_status hil_config_check_mixture(const hil_config_reader *r)
{
    const hil_mixture_config *m = &r->config->mixture;
    if (m->identities < 0 || m->identities > EXPERTS_MAX)
        return hil_config_refuse(r, "zero_expert_num", "must be from 0 to 65536");
    if (m->experts > EXPERTS_MAX) return hil_config_refuse(r, "num_experts", "is too large");
    if (m->chosen > m->experts + m->identities || m->chosen > CHOSEN_MAX)
        return hil_config_refuse(r, "num_experts_per_tok", "is larger than the number of experts");
    return HIL_OK;
}

hil_status hil_config_mixture(const hil_config_reader *r, const char *experts)
{
    hil_mixture_config *m = &r->config->mixture;
    bool balanced = false;
    HIL_TRY(hil_config_size(r, experts, "num_experts", EXPERTS_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "num_experts_per_tok", NULL, CHOSEN_MAX, &m->chosen));
    HIL_TRY(hil_config_size(r, "moe_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX, &m->width));
    HIL_TRY(hil_config_check_mixture(r));
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &m->normalized));
    HIL_TRY(hil_config_real(r, "router_aux_loss_coef", 0, 1e6, &m->balance));
    HIL_TRY(hil_config_bool(r, "output_router_logits", &balanced));
    if (!balanced) m->balance = 0;
    return read_dense_layers(r);
}

hil_status hil_config_experts(const hil_config_reader *r, const char *key, const char *other)
{
    hil_mixture_config *m = &r->config->mixture;
    HIL_TRY(hil_config_size(r, key, other, EXPERTS_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "num_experts_per_tok", NULL, m->experts, &m->chosen));
    HIL_TRY(hil_config_size(r, "moe_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX, &m->width));
    return hil_config_check_mixture(r);
}

hil_status hil_config_shared_mixture(const hil_config_reader *r, int64_t shared)
{
    hil_mixture_config *m = &r->config->mixture;
    HIL_TRY(hil_config_experts(r, "num_experts", "num_local_experts"));
    HIL_TRY(hil_config_size(r, "num_shared_experts", NULL, SHARED_MAX, &shared));
    m->shared = shared * m->width;
    return HIL_OK;
}

hil_status hil_config_mlp_types(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *kinds = json_object_get(r->object, "mlp_layer_types");
    if (!kinds || json_is_null(kinds)) return HIL_OK;
    if ((int64_t)json_array_size(kinds) != c->layers)
        return hil_config_refuse(r, "mlp_layer_types", "must be a list with an entry per layer");
    memset(c->mixture.dense, 0, sizeof c->mixture.dense);
    for (int64_t n = 0; n < c->layers; ++n) {
        const char *kind = json_string_value(json_array_get(kinds, (size_t)n));
        bool dense = kind && strcmp(kind, "dense") == 0;
        if (!dense && !(kind && strcmp(kind, "sparse") == 0))
            return hil_config_refuse(r, "mlp_layer_types",
                                     "has other entries than dense and sparse");
        if (dense) c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    }
    return HIL_OK;
}
