/* arch.h - an architecture: what its config.json means, its names of tensors and how it is built.

   [Note: architectures] Each architecture is one file of this folder, which defines a hil_arch, and
   one row of the table in arch.c. No other code chooses by the architecture. `defaults` has what
   transformers takes for absent keys, and what the architecture always has; `read` reads the keys
   that it knows with the functions of config_read.h; `build` appends the segments, for most by
   hil_build_decoder. docs/adding.md adds one as an example. */
#ifndef HIL_MODEL_ARCH_H
#define HIL_MODEL_ARCH_H

#include "hilbert/nn.h"

#include "model/config/config_read.h"

/* Names of modules, to which ".weight" or ".bias" is added; NULL: the architecture lacks it. Those
   of a block are after "<blocks>N.". With a * in q_norm or k_norm every head has a vector of its
   own, whose number stands for it. */
typedef struct hil_arch_names {
    const char *embedding, *blocks, *norm, *head;
    const char *positions; /* learned ones, added to the embedding */
    const char *attention_norm, *q, *k, *v, *qkv, *q_norm, *k_norm, *o, *attention_post_norm;
    const char *sinks;    /* without ".weight" */
    const char *own_gate; /* of what attention gives, from what it gets */
    const char *mlp_norm, *gate, *up, *gate_up, *down, *mlp_post_norm;
} hil_arch_names;

/* Names of a mixture's modules; the number of the expert stands for the *. Experts without gates
   have ReLU squared. */
typedef struct hil_mixture_names {
    const char *router, *gate, *up, *gate_up, *down; /* gate_up: both in one */
    const char *gate_bias, *up_bias, *down_bias;     /* of all experts */
    /* The whole names of a bias where experts are chosen, and of factors of their weights. */
    const char *correction, *factors;
    /* Of the expert that all tokens have; `shared`: how much of it each has, NULL: all. */
    const char *shared_gate, *shared_up, *shared_gate_up, *shared_down, *shared;
    const char *latent_down, *latent_up; /* before and after experts with a latent size */
} hil_mixture_names;

/* Names of the modules of linear attention; those of `rate` and `bias` are whole. NULL: see
   hil_delta_net. */
typedef struct hil_delta_names {
    const char *qkvz, *ba, *qkv, *z, *b, *a;
    const char *q, *k, *v, *q_kernel, *k_kernel, *v_kernel; /* instead of `qkv` and `kernel` */
    const char *kernel, *rate, *bias, *norm, *out;
    bool drawn; /* as in hil_mamba_names */
} hil_delta_names;

/* Names of the modules of state spaces; those of `rate`, `bias` and `direct` are whole. */
typedef struct hil_mamba_names {
    const char *in, *kernel, *rate, *bias, *direct, *norm, *out;
    bool drawn; /* `bias` begins as HIL_STEP, not as ones */
    bool whole; /* adapters leave `out` out: PEFT refuses it, because kernels read its weight */
} hil_mamba_names;
/* What most files have where keys are absent. */
#define HIL_ARCH_MAMBA_SIZES                                                                       \
    .heads = 128, .groups = 1, .states = 256, .kernel = 4, .kernel_bias = true
/* All of them in `module`. */
#define HIL_ARCH_MAMBA(module)                                                                     \
    .in = module ".in_proj", .kernel = module ".conv1d", .rate = module ".A_log",                  \
    .bias = module ".dt_bias", .direct = module ".D", .norm = module ".norm",                      \
    .out = module ".out_proj"

/* What a vector of the model is in files. */
typedef enum hil_arch_flat {
    HIL_FLAT_NOT,     /* the same */
    HIL_FLAT_EXPERTS, /* (experts, numbers) */
    HIL_FLAT_ROW,     /* (1, numbers) */
    HIL_FLAT_NUMBER,  /* one number, without dimensions */
    HIL_FLAT_HEADS,   /* (1, 1, numbers, 1) */
} hil_arch_flat;

/* [Note: stacked tensors] A tensor in files that holds parameters of the model, or is one under
   another name. With a * in `param` it has a matrix of each expert, (experts, rows, cols), else it
   is one parameter, or a part of it. `parts` parameters share it: their rows follow each other, or
   they are interleaved, number by number. One parameter may have several rows: files of all these
   forms are read, the one that is `saved` is written, else the parameters under their own names. */
typedef struct hil_arch_stack {
    const char *tensor, *param; /* after "<blocks>N." */
    int part, parts;
    bool interleaved;
    hil_arch_flat flat;
    bool saved;
} hil_arch_stack;
/* How transformers 5 stacks experts in memory: in two tensors under `stack`. */
#define HIL_ARCH_STACKED(stack, gate, up, down)                                                    \
    {.tensor = stack ".gate_up_proj", .param = gate, .part = 0, .parts = 2},                       \
        {.tensor = stack ".gate_up_proj", .param = up, .part = 1, .parts = 2},                     \
    {                                                                                              \
        .tensor = stack ".down_proj", .param = down, .parts = 1                                    \
    }

/* Names that most architectures have, for their tables. */
#define HIL_ARCH_ENDS                                                                              \
    .embedding = "model.embed_tokens", .blocks = "model.layers.", .norm = "model.norm",            \
    .head = "lm_head"
#define HIL_ARCH_PROJECTIONS                                                                       \
    .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",                     \
    .o = "self_attn.o_proj"
#define HIL_ARCH_ATTENTION                                                                         \
    HIL_ARCH_PROJECTIONS, .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define HIL_ARCH_EXPERTS                                                                           \
    .router = "mlp.gate", .gate = "mlp.experts.*.gate_proj", .up = "mlp.experts.*.up_proj",        \
    .down = "mlp.experts.*.down_proj"
/* Those of Mixtral. */
#define HIL_ARCH_BLOCK_SPARSE                                                                      \
    .router = "block_sparse_moe.gate", .gate = "block_sparse_moe.experts.*.w1",                    \
    .up = "block_sparse_moe.experts.*.w3", .down = "block_sparse_moe.experts.*.w2"
/* Those of DeepSeek, with the experts that all tokens have. */
#define HIL_ARCH_SHARED_EXPERTS                                                                    \
    HIL_ARCH_EXPERTS, .correction = "mlp.gate.e_score_correction_bias",                            \
                      .shared_gate = "mlp.shared_experts.gate_proj",                               \
                      .shared_up = "mlp.shared_experts.up_proj",                                   \
                      .shared_down = "mlp.shared_experts.down_proj"
/* What architectures with these experts share. */
#define HIL_ARCH_GROUPED                                                                           \
    .mixture = &(const hil_mixture_names){HIL_ARCH_SHARED_EXPERTS},                                \
    .stacks = hil_arch_usual_stacks, .fused = true, .build = hil_build_decoder
/* How DeepSeek-V3 and its like choose experts, with one group where keys say nothing. */
#define HIL_ARCH_SIGMOIDS                                                                          \
    .sigmoid = true, .pairs = true, .corrected = true, .groups = 1, .groups_chosen = 1
#define HIL_ARCH_V3_CHOICE                                                                         \
    .chosen = 8, .width = 2048, .normalized = true, .sigmoid = true, .pairs = true,                \
    .corrected = true, .groups = 8, .groups_chosen = 4, .scale = 2.5
#define HIL_ARCH_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"

struct hil_arch {
    const char *name;       /* model_type in config.json */
    const char *class_name; /* of transformers, for "architectures" */
    const char *gguf;       /* what llama.cpp calls it; NULL: it is not exported to GGUF */
    const hil_config *defaults;
    const hil_arch_names *names;
    const hil_arch_names *linear_names; /* in layers with linear attention; NULL: the same */
    const hil_mixture_names *mixture;   /* NULL: it has no experts */
    const hil_delta_names *delta;       /* NULL: it has no layers with linear attention */
    const hil_mamba_names *mamba;       /* NULL: it has no layers with state spaces */
    const hil_arch_stack *stacks;       /* ended by one without a tensor; NULL: there are none */
    const char *root; /* of the names in memory of transformers 5; NULL: as in files */
    bool swapped;     /* PEFT takes rows of the experts' tensors for columns */
    bool fused; /* transformers 4 had experts as linear layers, and PEFT still takes their names in
                   target_modules for the experts alone */
    bool wrapped; /* tensors may have the names of a model with images around it, whatever
                     config.json says */
    bool varied;  /* its layers may differ: it reads per_layer_config */
    hil_status (*read)(const hil_config_reader *reader);
    hil_status (*build)(hil_model *model, const hil_config *config);
};

extern const hil_arch hil_arch_gpt2, hil_arch_llama, hil_arch_mistral, hil_arch_qwen2,
    hil_arch_qwen3, hil_arch_mixtral, hil_arch_qwen3_moe, hil_arch_gemma, hil_arch_gemma2,
    hil_arch_gemma3, hil_arch_phi3, hil_arch_neox, hil_arch_phi, hil_arch_stablelm, hil_arch_cohere,
    hil_arch_cohere2, hil_arch_olmo2, hil_arch_olmo3, hil_arch_granite, hil_arch_smollm3,
    hil_arch_olmoe, hil_arch_qwen2_moe, hil_arch_granite_moe, hil_arch_exaone4, hil_arch_gpt_oss,
    hil_arch_deepseek_v2, hil_arch_deepseek_v3, hil_arch_kimi_k2, hil_arch_glm4_moe,
    hil_arch_glm4_moe_lite, hil_arch_dots1, hil_arch_glm, hil_arch_glm4, hil_arch_seed_oss,
    hil_arch_ministral, hil_arch_starcoder2, hil_arch_helium, hil_arch_vaultgemma, hil_arch_cwm,
    hil_arch_internlm3, hil_arch_ernie, hil_arch_ernie_moe, hil_arch_minimax_m2,
    hil_arch_solar_open, hil_arch_exaone_moe, hil_arch_flex_olmo, hil_arch_granite_moe_shared,
    hil_arch_hunyuan, hil_arch_hunyuan_moe, hil_arch_ministral3, hil_arch_nemotron, hil_arch_arcee,
    hil_arch_olmo, hil_arch_gemma4, hil_arch_gemma4_unified, hil_arch_qwen3_next, hil_arch_qwen3_5,
    hil_arch_qwen3_5_moe, hil_arch_lfm2, hil_arch_lfm2_moe, hil_arch_llama4,
    hil_arch_granite_hybrid, hil_arch_nemotron_h, hil_arch_falcon_h1, hil_arch_bamba,
    hil_arch_mamba2, hil_arch_apertus, hil_arch_jais2, hil_arch_nanochat, hil_arch_iquestcoder,
    hil_arch_hyperclovax, hil_arch_granite_swa, hil_arch_gptj, hil_arch_opt, hil_arch_youtu,
    hil_arch_minicpm3, hil_arch_mellum, hil_arch_afmoe, hil_arch_hy_v3, hil_arch_granite_moe_swa,
    hil_arch_lfm3, hil_arch_axk1, hil_arch_flint, hil_arch_kolibri1, hil_arch_kimi_linear,
    hil_arch_mistral4, hil_arch_longcat_flash, hil_arch_olmo_hybrid, hil_arch_cohere2_moe,
    hil_arch_mimo_v2_flash, hil_arch_laguna, hil_arch_bailing_hybrid, hil_arch_deepseek_v32,
    hil_arch_glm_moe_dsa, hil_arch_gpt_bigcode, hil_arch_falcon, hil_arch_persimmon;
/* llama.c: reads the sizes, RMSNorm's epsilon, dropout of attention, whether the head is tied,
   hidden_act (SiLU) and rotary embedding. */
hil_status hil_config_read_usual(const hil_config_reader *r);
/* llama.c: reads the keys of Llama, for architectures that have those and more. */
hil_status hil_config_read_llama(const hil_config_reader *r);
/* gptj.c: reads the sizes and dropouts under the names that GPT-2 gave them. */
hil_status hil_config_read_gpt(const hil_config_reader *r);
/* mistral.c: reads `keys`, and whether queries grow with their position. */
hil_status hil_config_growing(const hil_config_reader *r,
                              hil_status (*keys)(const hil_config_reader *));
/* What the rotary embeddings of Mistral have where keys are absent. */
#define HIL_ARCH_GROWING                                                                           \
    .kind = HIL_ROPE_YARN, .attention_factor = 1, .beta_fast = 32, .beta_slow = 1,                 \
    .truncate = true, .growth = 0.1
/* deepseek.c: reads the keys of latent attention, and what its architectures share but the mixture.
 */
hil_status hil_config_latent(const hil_config_reader *r);
/* deepseek.c: refuses a head_dim, `usual` where the key is absent, other than what turns. */
hil_status hil_config_latent_head(const hil_config_reader *r, int64_t usual);
/* qwen_next.c: reads the sizes of linear attention under linear_*. */
hil_status hil_config_delta_sizes(const hil_config_reader *r);
/* Those of HIL_ARCH_EXPERTS in one tensor. */
extern const hil_arch_stack hil_arch_usual_stacks[];
/* The same where they are also saved so. */
extern const hil_arch_stack hil_arch_saved_stacks[];
/* Those of HIL_ARCH_BLOCK_SPARSE. */
extern const hil_arch_stack hil_arch_block_sparse_stacks[];
/* granite_moe.c: those of Granite. */
extern const hil_arch_stack hil_arch_granite_stacks[];
extern const hil_mixture_names hil_arch_granite_experts;
/* falcon_h1.c and nemotron_h.c: those of Falcon-H1 and Bamba, of Nemotron-H and Mamba-2. */
extern const hil_arch_names hil_arch_falcon_names, hil_arch_backbone_names;
/* deepseek.c: those of DeepSeek. */
extern const hil_arch_names hil_arch_deepseek_names;
/* gemma.c: those of Gemma 2 and later. */
extern const hil_arch_names hil_arch_gemma_names;
/* The names that Llama gave most architectures. */
extern const hil_arch_names hil_arch_usual_names;

/* NULL: no architecture has this model_type. */
const hil_arch *hil_arch_find(const char *name);
/* The supported names, for messages: "gpt2, llama, ... and 9 more" */
void hil_arch_list(char *out, size_t room);

#endif
