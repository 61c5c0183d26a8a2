/* arch.c - the table of architectures. */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

static const hil_arch *const archs[] = {
    &hil_arch_gpt2,  &hil_arch_llama,   &hil_arch_mistral,   &hil_arch_qwen2,
    &hil_arch_qwen3, &hil_arch_mixtral, &hil_arch_qwen3_moe,
};
enum { COUNT = sizeof archs / sizeof *archs };

const hil_arch_names hil_arch_usual_names = {
    .embedding = "model.embed_tokens",
    .blocks = "model.layers.",
    .norm = "model.norm",
    .head = "lm_head",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .o = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
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
