/* arch.c - the table of architectures. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const hil_arch *const archs[] = {
    &hil_arch_gpt2,     &hil_arch_llama,         &hil_arch_mistral,     &hil_arch_qwen2,
    &hil_arch_qwen3,    &hil_arch_mixtral,       &hil_arch_qwen3_moe,   &hil_arch_gemma,
    &hil_arch_gemma2,   &hil_arch_gemma3,        &hil_arch_phi,         &hil_arch_phi3,
    &hil_arch_neox,     &hil_arch_olmo2,         &hil_arch_olmo3,       &hil_arch_granite,
    &hil_arch_smollm3,  &hil_arch_stablelm,      &hil_arch_cohere,      &hil_arch_cohere2,
    &hil_arch_olmoe,    &hil_arch_qwen2_moe,     &hil_arch_granite_moe, &hil_arch_exaone4,
    &hil_arch_gpt_oss,  &hil_arch_deepseek_v2,   &hil_arch_deepseek_v3, &hil_arch_kimi_k2,
    &hil_arch_glm4_moe, &hil_arch_glm4_moe_lite, &hil_arch_dots1,
};
enum { COUNT = sizeof archs / sizeof *archs };

const hil_arch_names hil_arch_usual_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    HIL_ARCH_MLP,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
};

const hil_arch_stack hil_arch_usual_stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = NULL},
};

const hil_arch *hil_arch_find(const char *name)
{
    for (int i = 0; i < COUNT; ++i)
        if (strcmp(archs[i]->name, name) == 0) return archs[i];
    return NULL;
}

void hil_arch_list(char *out, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < COUNT && used < room; ++i)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", archs[i]->name);
}
