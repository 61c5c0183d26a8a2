/* arch.c - the table of architectures. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const hil_arch *const archs[] = {
    &hil_arch_gpt2,
    &hil_arch_llama,
    &hil_arch_mistral,
    &hil_arch_qwen2,
    &hil_arch_qwen3,
    &hil_arch_mixtral,
    &hil_arch_qwen3_moe,
    &hil_arch_gemma,
    &hil_arch_gemma2,
    &hil_arch_gemma3,
    &hil_arch_phi,
    &hil_arch_phi3,
    &hil_arch_neox,
    &hil_arch_olmo2,
    &hil_arch_olmo3,
    &hil_arch_granite,
    &hil_arch_smollm3,
    &hil_arch_stablelm,
    &hil_arch_cohere,
    &hil_arch_cohere2,
    &hil_arch_olmoe,
    &hil_arch_qwen2_moe,
    &hil_arch_granite_moe,
    &hil_arch_exaone4,
    &hil_arch_gpt_oss,
    &hil_arch_deepseek_v2,
    &hil_arch_deepseek_v3,
    &hil_arch_kimi_k2,
    &hil_arch_glm4_moe,
    &hil_arch_glm4_moe_lite,
    &hil_arch_dots1,
    &hil_arch_glm,
    &hil_arch_glm4,
    &hil_arch_seed_oss,
    &hil_arch_ministral,
    &hil_arch_starcoder2,
    &hil_arch_helium,
    &hil_arch_vaultgemma,
    &hil_arch_cwm,
    &hil_arch_internlm3,
    &hil_arch_ernie,
    &hil_arch_ernie_moe,
    &hil_arch_minimax_m2,
    &hil_arch_solar_open,
    &hil_arch_exaone_moe,
    &hil_arch_flex_olmo,
    &hil_arch_granite_moe_shared,
    &hil_arch_hunyuan,
    &hil_arch_hunyuan_moe,
    &hil_arch_ministral3,
    &hil_arch_nemotron,
    &hil_arch_arcee,
    &hil_arch_olmo,
    &hil_arch_gemma4,
    &hil_arch_gemma4_unified,
    &hil_arch_qwen3_next,
    &hil_arch_qwen3_5,
    &hil_arch_qwen3_5_moe,
    &hil_arch_lfm2,
    &hil_arch_lfm2_moe,
    &hil_arch_llama4,
    &hil_arch_granite_hybrid,
    &hil_arch_nemotron_h,
    &hil_arch_falcon_h1,
    &hil_arch_bamba,
    &hil_arch_mamba2,
    &hil_arch_apertus,
    &hil_arch_jais2,
    &hil_arch_nanochat,
    &hil_arch_iquestcoder,
    &hil_arch_hyperclovax,
    &hil_arch_granite_swa,
    &hil_arch_gptj,
    &hil_arch_opt,
    &hil_arch_youtu,
    &hil_arch_minicpm3,
    &hil_arch_mellum,
    &hil_arch_afmoe,
    &hil_arch_hy_v3,
    &hil_arch_granite_moe_swa,
    &hil_arch_lfm3,
    &hil_arch_axk1,
    &hil_arch_flint,
    &hil_arch_kolibri1,
    &hil_arch_kimi_linear,
    &hil_arch_mistral4,
    &hil_arch_longcat_flash,
    &hil_arch_olmo_hybrid,
    &hil_arch_cohere2_moe,
    &hil_arch_mimo_v2_flash,
    &hil_arch_laguna,
    &hil_arch_bailing_hybrid,
    &hil_arch_deepseek_v32,
    &hil_arch_glm_moe_dsa,
    &hil_arch_gpt_bigcode,
    &hil_arch_falcon,
    &hil_arch_persimmon,
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

#define EXPERTS "mlp.experts."
const hil_arch_stack hil_arch_saved_stacks[] = {
    {EXPERTS "gate_up_proj", EXPERTS "*.gate_proj.weight", 0, 2, false, HIL_FLAT_NOT, true},
    {EXPERTS "gate_up_proj", EXPERTS "*.up_proj.weight", 1, 2, false, HIL_FLAT_NOT, true},
    {EXPERTS "down_proj", EXPERTS "*.down_proj.weight", 0, 1, false, HIL_FLAT_NOT, true},
    {.tensor = NULL},
};

/* The names of transformers 5 in memory. */
const hil_arch_stack hil_arch_block_sparse_stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "block_sparse_moe.experts.*.w1.weight",
                     "block_sparse_moe.experts.*.w3.weight",
                     "block_sparse_moe.experts.*.w2.weight"),
    {.tensor = "mlp.gate.weight", .param = "block_sparse_moe.gate.weight", .parts = 1},
    {.tensor = "mlp.e_score_correction_bias",
     .param = "block_sparse_moe.e_score_correction_bias",
     .parts = 1},
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
    const size_t more = sizeof ", " + sizeof " and 10000 more";
    size_t used = 0;
    int i = 0;
    for (; i < COUNT && used + strlen(archs[i]->name) + more < room; ++i)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", archs[i]->name);
    if (i < COUNT) snprintf(out + used, room - used, " and %d more", COUNT - i);
}
