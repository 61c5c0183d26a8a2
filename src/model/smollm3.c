/* smollm3.c - SmolLM3: Llama with layers that have no rotary embedding. */
#include "model/build.h"

static void set_still(hil_config *c, int64_t layer)
{
    c->still[layer / 64] |= (uint64_t)1 << (layer % 64);
}

static bool is_empty(const json_t *list)
{
    return json_is_array(list) && json_array_size(list) == 0;
}

hil_status hil_config_still(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t interval = 4;
    const json_t *list = json_object_get(r->object, "no_rope_layers");
    HIL_TRY(hil_config_size(r, "no_rope_layer_interval", NULL, HIL_LAYERS_MAX, &interval));
    bool given = list && !json_is_null(list) && !is_empty(list);
    if (given && (!json_is_array(list) || (int64_t)json_array_size(list) < c->layers))
        return hil_config_refuse(r, "no_rope_layers",
                                 "must be a list with a number for each layer");
    for (int64_t i = 0; i < c->layers; ++i) {
        const json_t *turns = json_array_get(list, (size_t)i);
        if (given && !json_is_integer(turns))
            return hil_config_refuse(r, "no_rope_layers", "must have 0 or 1 for each layer");
        if (given ? json_integer_value(turns) == 0 : (i + 1) % interval == 0) set_still(c, i);
    }
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool use = false;
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_still(r));
    HIL_TRY(hil_config_bool(r, "use_sliding_window", &use));
    use = use && json_is_integer(json_object_get(r->object, "sliding_window"));
    HIL_TRY(hil_config_sliding_window(r, use));
    if (use)
        for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->slides[i] = c->still[i];
    return hil_config_layer_types(r);
}

const hil_arch hil_arch_smollm3 = {
    .name = "smollm3",
    .class_name = "SmolLM3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .kv_heads = 4,
                                    .window = 4096,
                                    .max_positions = 32768,
                                    .rope = {.theta = 2000000},
                                    .bos = 128000,
                                    .eos = 128001,
                                    .pad = 128004},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
