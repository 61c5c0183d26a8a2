/* Configs of adapters: what is not honoured is refused by its key; which modules are meant. */
#include "check.h"
#include "format/peft_experts.h"

#include <string.h>

#define HEAD "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, "
#define NAMES "\"target_modules\": [\"q_proj\", \"mlp.up_proj\"]"

static hil_status parse(hil_peft *p, const char *text)
{
    return hil_peft_parse(p, text, strlen(text), "adapter_config.json");
}

static void check_refused(void)
{
    static const char *const rows[][2] = {
        {HEAD NAMES ", \"lora_bias\": true}", "lora_bias true"},
        {HEAD NAMES ", \"trainable_token_indices\": [1]}", "trainable_token_indices [1]"},
        {HEAD NAMES ", \"layer_replication\": [[0, 2]]}", "layer_replication"},
        {HEAD NAMES ", \"init_lora_weights\": \"pissa\"}", "init_lora_weights \"pissa\""},
        {HEAD NAMES ", \"bias\": \"some\"}", "bias \"some\""},
        {HEAD NAMES ", \"task_type\": \"SEQ_CLS\"}", "task_type"},
        {HEAD NAMES ", \"rank_pattern\": {\"q_proj\": 0}}", "rank_pattern"},
        {HEAD "\"target_modules\": []}", "target_modules"},
        {HEAD "\"target_modules\": \"(?!a).*\"}", "not supported"},
        {HEAD "\"target_modules\": \".*\", \"layers_to_transform\": [1]}", "layers_to_transform"},
        {HEAD NAMES ", \"target_parameters\": \"a.b\"}", "target_parameters"},
        {HEAD NAMES ", \"target_parameters\": [1]}", "target_parameters"},
        {"{\"peft_type\": \"IA3\", " NAMES "}", "peft_type \"IA3\""},
        {"{\"peft_type\": \"LORA\", \"r\": 0, " NAMES "}", "r is 0"},
    };
    hil_peft p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        CHECK_FAILS(parse(&p, rows[i][0]), HIL_ERR_INPUT, rows[i][1]);
    CHECK_OK(parse(&p, HEAD NAMES ", \"lora_bias\": false, \"unheard_of\": null, \"more\": {}}"));
    hil_peft_close(&p);
}

static void check_modules(void)
{
    hil_peft p;
    CHECK_OK(parse(&p, HEAD NAMES ", \"layers_to_transform\": [1], \"use_rslora\": true, "
                                  "\"modules_to_save\": [\"head\"]}"));
    CHECK(hil_peft_is_target(&p, "model.layers.1.self_attn.q_proj"));
    CHECK(hil_peft_is_target(&p, "model.layers.1.mlp.up_proj"));
    CHECK(!hil_peft_is_target(&p, "model.layers.2.mlp.up_proj"));
    CHECK(!hil_peft_is_target(&p, "model.layers.1.mlp.xup_proj"));
    CHECK(hil_peft_is_target(&p, "q_proj"));
    CHECK(hil_peft_is_saved(&p, "lm_head") && !hil_peft_is_saved(&p, "model.norm"));
    CHECK_NEAR(hil_peft_scale(&p, "q_proj"), 4, 1e-12);
    char name[HIL_PEFT_NAME];
    hil_peft_tensor_name(&p, "lm_head.weight", name);
    CHECK_TEXT(name, "base_model.model.lm_head.weight");
    hil_peft_tensor_name(&p, "model.layers.1.self_attn.q_proj.bias", name);
    CHECK_TEXT(name, "base_model.model.model.layers.1.self_attn.q_proj.base_layer.bias");
    hil_peft_close(&p);
}

/* Experts: names of parameters, and where their stacked tensors have a matrix. */
static void check_parameters(void)
{
    static const char json[] =
        "{\"model_type\": \"mixtral\", \"hidden_size\": 6, \"intermediate_size\": 5, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, "
        "\"vocab_size\": 9, \"num_local_experts\": 4}";
    hil_config config;
    hil_peft p;
    hil_peft_place place;
    CHECK_OK(hil_config_parse(&config, json, strlen(json), "config.json"));
    CHECK_OK(parse(&p,
                   HEAD "\"target_modules\": [], \"target_parameters\": [\"experts.gate_up_proj\", "
                        "\"layers.1.mlp.experts.down_proj\"]}"));
    CHECK(hil_peft_is_parameter(&p, "model.layers.0.mlp.experts.gate_up_proj"));
    CHECK(!hil_peft_is_parameter(&p, "model.layers.0.mlp.experts.down_proj"));
    CHECK(!hil_peft_is_target(&p, "model.layers.0.self_attn.q_proj"));
    /* The up rows of expert 3, in a B of 2 * 5 rows and 4 * 4 columns. */
    CHECK(hil_peft_place_of(
        &p, &config, HIL_PEFT_PREFIX "model.layers.0.block_sparse_moe.experts.3.w3.lora_B.weight",
        &(hil_shape){2, {5, 4}}, &place));
    CHECK_TEXT(place.tensor, HIL_PEFT_PREFIX "model.layers.0.mlp.experts.lora_B.weight");
    CHECK(place.whole.dim[0] == 10 && place.whole.dim[1] == 16);
    CHECK(place.index == 7 && place.members == 8 && place.stride == 4);
    /* In layer 1 another parameter of the module wraps it. */
    CHECK(hil_peft_place_of(
        &p, &config, HIL_PEFT_PREFIX "model.layers.1.block_sparse_moe.experts.2.w1.lora_A.weight",
        &(hil_shape){2, {4, 6}}, &place));
    CHECK_TEXT(place.tensor, HIL_PEFT_PREFIX "model.layers.1.mlp.experts.base_layer.lora_A.weight");
    CHECK(place.whole.dim[0] == 16 && place.index == 2 && place.stride == 1);
    CHECK(!hil_peft_place_of(&p, &config,
                             HIL_PEFT_PREFIX "model.layers.0.self_attn.q_proj.lora_A.weight",
                             &(hil_shape){2, {4, 6}}, &place));
    hil_peft_close(&p);
}

int main(void)
{
    check_refused();
    check_parameters();
    check_modules();
    return 0;
}
