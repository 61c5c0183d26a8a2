/* falcon.c - Falcon: attention and MLP side by side, with keys and values that many heads of
   queries share: of Falcon 7B one head, of later ones one in each group. Those of 40B and 180B read
   a norm each. */
#include "model/build.h"

#define FALCON_NAMES                                                                               \
    .embedding = "transformer.word_embeddings", .blocks = "transformer.h.",                        \
    .norm = "transformer.ln_f", .head = "lm_head", .qkv = "self_attention.query_key_value",        \
    .o = "self_attention.dense", .up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h"

static const hil_config_size_keys sizes = {
    .hidden = {"hidden_size", "n_embed"},
    .layers = {"num_hidden_layers"},
    .heads = {"num_attention_heads"},
    .positions = {"max_position_embeddings"},
    .intermediate = {"ffn_hidden_size"},
};

/* Null is false in transformers. */
static hil_status read_flag(const hil_config_reader *r, const char *key, bool *out)
{
    if (json_is_null(json_object_get(r->object, key))) *out = false;
    return hil_config_bool(r, key, out);
}

static const hil_arch two_norms;

/* How many norms the parts of a layer read: two where they are side by side only in the newer
   architecture. */
static hil_status read_norms(const hil_config_reader *r, bool newer)
{
    hil_config *c = r->config;
    int64_t norms = newer ? 2 : 1;
    HIL_TRY(read_flag(r, "parallel_attn", &c->parallel));
    if (newer && !c->parallel)
        return hil_config_refuse(r, "parallel_attn",
                                 "is false, which \"new_decoder_architecture\" excludes");
    if (!c->parallel) return HIL_OK;
    HIL_TRY(hil_json_int(r->object, "num_ln_in_parallel_attn", r->what, &norms));
    if (newer ? norms != 1 && norms != 2 : norms == 2)
        return hil_config_refuse(r, "num_ln_in_parallel_attn",
                                 newer ? "must be 1 or 2"
                                       : "is 2, which needs "
                                         "\"new_decoder_architecture\"");
    c->shared_norm = norms != 2;
    if (norms == 2) c->arch = &two_norms;
    return HIL_OK;
}

/* One head of keys and values for all, one for each group of heads, or one for each head. */
static hil_status read_heads(const hil_config_reader *r, bool newer)
{
    hil_config *c = r->config;
    bool shared = true;
    int64_t heads = c->heads;
    HIL_TRY(read_flag(r, "multi_query", &shared));
    c->qkv_by_head = newer || !shared;
    if (!newer && shared) {
        c->kv_heads = 1;
        return HIL_OK;
    }
    HIL_TRY(hil_config_size(r, "num_kv_heads", NULL, HIL_CONFIG_HEADS_MAX, &heads));
    if (c->heads % heads) return hil_config_refuse(r, "num_kv_heads", "does not divide the heads");
    if (!newer && heads != c->heads)
        return hil_config_refuse(r, "num_kv_heads", "needs \"new_decoder_architecture\"");
    c->kv_heads = heads;
    return HIL_OK;
}

/* transformers has no dropout of attention, and one of what both parts give together. Behind an
   attention that the MLP reads is that of attention_dropout. */
static hil_status refuse_dropout(const hil_config_reader *r)
{
    HIL_TRY(hil_config_refuse_number(r, "hidden_dropout"));
    return r->config->parallel ? HIL_OK : hil_config_refuse_number(r, "attention_dropout");
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool newer = false;
    HIL_TRY(hil_config_refuse_flag(r, "alibi"));
    HIL_TRY(hil_config_refuse_flag(r, "apply_residual_connection_post_layernorm"));
    HIL_TRY(hil_config_sizes_under(r, &sizes));
    int64_t width = c->hidden;
    HIL_TRY(hil_json_int(r->object, "n_embed", r->what, &width));
    if (width != c->hidden) return hil_config_refuse(r, "n_embed", "is not \"hidden_size\"");
    HIL_TRY(read_flag(r, "new_decoder_architecture", &newer));
    HIL_TRY(read_norms(r, newer));
    HIL_TRY(read_heads(r, newer));
    HIL_TRY(refuse_dropout(r));
    HIL_TRY(hil_config_bool(r, "bias", &c->attention_bias));
    c->output_bias = c->mlp_bias = c->attention_bias;
    HIL_TRY(hil_config_real(r, "layer_norm_epsilon", 1e-30, 1, &c->norm_eps));
    HIL_TRY(hil_config_bool(r, "tie_word_embeddings", &c->tied));
    HIL_TRY(hil_config_activation(r, "activation",
                                  1u << HIL_RELU | 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    return hil_config_rope(r);
}

static const hil_config defaults = {
    .activation = HIL_GELU,
    .norm = HIL_NORM_LAYER,
    .norm_bias = true,
    .norm_eps = 1e-5,
    .parallel = true,
    .tied = true,
    .max_positions = 2048,
    .bos = 11,
    .eos = 11,
    .pad = -1,
};

const hil_arch hil_arch_falcon = {
    .name = "falcon",
    .class_name = "FalconForCausalLM",
    .defaults = &defaults,
    .names = &(const hil_arch_names){FALCON_NAMES, .attention_norm = "input_layernorm",
                                     .mlp_norm = "post_attention_layernorm"},
    .read = read,
    .build = hil_build_decoder,
};

/* The same where attention and MLP read a norm each. */
static const hil_arch two_norms = {
    .name = "falcon",
    .class_name = "FalconForCausalLM",
    .defaults = &defaults,
    .names =
        &(const hil_arch_names){FALCON_NAMES, .attention_norm = "ln_attn", .mlp_norm = "ln_mlp"},
    .read = read,
    .build = hil_build_decoder,
};
