/* Configs of adapters: what is not honoured is refused by its key; which modules are meant. */
#include "check.h"
#include "format/peft.h"

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

int main(void)
{
    check_refused();
    check_modules();
    return 0;
}
