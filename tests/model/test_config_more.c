/* The keys of indexers, and of the first decoders. */
#include "config_keys.h"

static bool shares(const hil_config *c, int64_t layer)
{
    return c->indexer.shared[0] >> layer & 1;
}

/* Which of two layers shares the indexer of the other. */
static void check_sharing(const char *keys, bool second)
{
    hil_config c = parse_latent("glm_moe_dsa", keys);
    CHECK(!shares(&c, 0));
    CHECK_INT(shares(&c, 1), second);
}

static void check_indexers(void)
{
    static const char *const cases[][2] = {
        {",\"q_lora_rank\":null", "\"q_lora_rank\" must be a number"},
        {",\"rope_interleave\":false", "\"rope_interleave\" is false"},
        {",\"layer_types\":[\"full_attention\",\"indexed_attention\"]", "other entries than"},
        {",\"rope_parameters\":{\"type\":\"linear\",\"factor\":2,\"mscale_all_dim\":1}",
         "\"mscale_all_dim\" needs the type yarn"},
        {",\"index_topk\":0", "\"index_topk\" is 0"},
        {",\"index_head_dim\":62", "\"index_head_dim\" is below"},
        {",\"index_head_dim\":65536,\"index_n_heads\":65536", "times its heads is too large"},
        {",\"n_routed_experts\":16,\"num_experts\":8", "\"num_experts\" is there under another"},
        {",\"mlp_layer_types\":[\"dense\"]", "an entry per layer"},
    };
    static const char *const sharing[][2] = {
        {",\"indexer_types\":[\"full\"]", "\"indexer_types\" must have an entry per layer"},
        {",\"indexer_types\":[\"full\",\"S\"]", "other entries than full and shared"},
        {",\"index_topk_pattern\":\"FX\"", "other entries than full and shared"},
        {",\"index_topk_pattern\":\"SF\"", "lets the first layer share"},
        {",\"index_topk_freq\":2,\"index_skip_topk_offset\":0", "must be 1 or more"},
    };
    hil_config c = parse_latent("deepseek_v32", "");
    CHECK_INT(hil_config_longest(&c), 2048);
    CHECK(strstr(hil_config_longest_why(&c), "index_topk") != NULL);
    CHECK_INT(c.indexer.heads, 64);
    CHECK_INT(c.mixture.dense[0], 3);
    CHECK_INT(c.mixture.groups, 8);
    CHECK_NEAR(c.mixture.scale, 2.5, 0);
    c = parse_latent("deepseek_v32", ",\"index_topk\":7,\"max_position_embeddings\":7,"
                                     "\"num_local_experts\":16,\"indexer_types\":[\"shared\"]");
    CHECK_INT(hil_config_longest(&c), 7);
    CHECK_TEXT(hil_config_longest_why(&c), "");
    CHECK_INT(c.mixture.experts, 16);
    CHECK(!shares(&c, 0) && !shares(&c, 1));
    CHECK_INT(hil_config_longest(&(hil_config){.max_positions = 9}), 9);
    c = parse_latent("glm_moe_dsa", ",\"first_k_dense_replace\":1");
    CHECK_INT(c.indexer.heads, 32);
    CHECK_INT(c.mixture.groups, 1);
    CHECK_INT(c.mixture.dense[0], 1);
    check_sharing("", false);
    check_sharing(",\"index_topk_freq\":4", false);
    check_sharing(",\"index_topk_freq\":4,\"index_skip_topk_offset\":1", true);
    check_sharing(",\"index_topk_freq\":4,\"indexer_types\":null", false);
    check_sharing(",\"index_topk_pattern\":\"FSF\"", true);
    check_sharing(",\"index_topk_pattern\":[\"full\",\"shared\"]", true);
    check_sharing(",\"index_topk_pattern\":\"FF\",\"indexer_types\":[\"full\",\"shared\"]", true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        refuse_latent("deepseek_v32", cases[i][0], cases[i][1]);
        refuse_latent("glm_moe_dsa", cases[i][0], cases[i][1]);
    }
    for (size_t i = 0; i < sizeof sharing / sizeof *sharing; ++i)
        refuse_latent("glm_moe_dsa", sharing[i][0], sharing[i][1]);
}

static void check_bigcode(void)
{
    hil_config c = parse("gpt_bigcode", "");
    CHECK_INT(c.kv_heads, 1);
    CHECK_INT(c.intermediate, 256);
    CHECK_INT(c.max_positions, 1024);
    CHECK_INT(c.activation, HIL_GELU_TANH);
    CHECK(c.tied && !c.frozen_pad && !c.qkv_by_head && !hil_config_turns(&c, 1));
    CHECK(c.attention_bias && c.output_bias && c.mlp_bias);
    CHECK_NEAR(c.dropout_embed + c.dropout_residual + c.dropout_attention, 0.3, 1e-12);
    CHECK_NEAR(c.attention_scale, 0, 0);
    CHECK_NEAR(c.part_std, 0.01, 1e-12);
    c = parse("gpt_bigcode", ",\"multi_query\":false,\"scale_attn_weights\":false,\"n_inner\":7,"
                             "\"initializer_range\":0.1,\"layer_norm_epsilon\":1e-3");
    CHECK_INT(c.kv_heads, 4);
    CHECK_INT(c.intermediate, 7);
    CHECK(c.qkv_by_head);
    CHECK_NEAR(c.attention_scale, 1, 0);
    CHECK_NEAR(c.part_std, 0.05, 1e-12);
    CHECK_NEAR(c.norm_eps, 1e-3, 0);
    refuse("gpt_bigcode", ",\"n_embd\":66", "\"n_head\" does not divide");
    refuse("gpt_bigcode", ",\"activation_function\":\"silu\"", "for gpt_bigcode only relu, gelu");
    refuse("gpt_bigcode", ",\"add_cross_attention\":true", "\"add_cross_attention\" is true");
}

static void check_falcon(void)
{
    static const char newer[] = ",\"new_decoder_architecture\":true";
    static const char *const cases[][2] = {
        {"\"alibi\":true", "\"alibi\" is true"},
        {"\"apply_residual_connection_post_layernorm\":true", "is true, which is not supported"},
        {"\"n_embed\":32", "\"n_embed\" is not \"hidden_size\""},
        {"\"hidden_dropout\":0.1", "\"hidden_dropout\" other than 0"},
        {"\"parallel_attn\":false,\"attention_dropout\":0.1", "\"attention_dropout\" other than 0"},
        {"\"num_ln_in_parallel_attn\":2", "is 2, which needs"},
        {"\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":3", "must be 1 or 2"},
        {"\"new_decoder_architecture\":true,\"parallel_attn\":false", "\"parallel_attn\" is false"},
        {"\"new_decoder_architecture\":true,\"num_kv_heads\":3", "does not divide the heads"},
        {"\"multi_query\":false,\"num_kv_heads\":2", "\"num_kv_heads\" needs"},
        {"\"activation\":\"silu\"", "for falcon only relu, gelu"},
    };
    char keys[256];
    hil_config c = parse("falcon", "");
    CHECK_INT(c.kv_heads, 1);
    CHECK_INT(c.intermediate, 256);
    CHECK_INT(c.activation, HIL_GELU);
    CHECK(c.parallel && c.shared_norm && !c.qkv_by_head && !c.attention_bias && c.tied);
    CHECK(!c.frozen_pad);
    CHECK_NEAR(c.rope.theta, 10000, 0);
    c = parse("falcon", ",\"num_kv_heads\":3,\"attention_dropout\":0.1,\"bias\":true");
    CHECK_INT(c.kv_heads, 1);
    CHECK(c.attention_bias && c.output_bias && c.mlp_bias);
    CHECK_NEAR(c.dropout_attention, 0, 0);
    c = parse("falcon",
              ",\"multi_query\":null,\"parallel_attn\":null,\"num_ln_in_parallel_attn\":2");
    CHECK_INT(c.kv_heads, 4);
    CHECK(!c.parallel && !c.shared_norm && c.qkv_by_head);
    c = parse("falcon", newer);
    CHECK_INT(c.kv_heads, 4);
    CHECK(c.parallel && !c.shared_norm && c.qkv_by_head);
    c = parse("falcon", ",\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":1,"
                        "\"num_kv_heads\":2,\"ffn_hidden_size\":7");
    CHECK_INT(c.kv_heads, 2);
    CHECK_INT(c.intermediate, 7);
    CHECK(c.shared_norm);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        snprintf(keys, sizeof keys, ",%s", cases[i][0]);
        refuse("falcon", keys, cases[i][1]);
    }
}

static void check_persimmon(void)
{
    static const char absent[] = "{\"model_type\":\"persimmon\",\"vocab_size\":96,"
                                 "\"hidden_size\":64,\"num_hidden_layers\":2,"
                                 "\"num_attention_heads\":4,\"qk_layernorm\":false,"
                                 "\"partial_rotary_factor\":0.25}";
    hil_config c = parse_latent("persimmon", "");
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 8);
    CHECK(c.qk_norm == HIL_QK_NORM_HEAD && c.qkv_by_head && c.frozen_pad && !c.tied && !c.parallel);
    CHECK_INT(c.max_positions, 16384);
    CHECK_OK(hil_config_parse(&c, absent, sizeof absent - 1, "t"));
    CHECK_INT(c.intermediate, 16384);
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 4);
    CHECK(c.qk_norm == HIL_QK_NORM_NONE);
    refuse("persimmon", "", "\"num_key_value_heads\" is not a key of persimmon");
    refuse_latent("persimmon", ",\"head_dim\":8", "\"head_dim\" is not a key of persimmon");
    refuse_latent("persimmon", ",\"hidden_dropout\":0.1", "\"hidden_dropout\" other than 0");
    refuse_latent("persimmon", ",\"hidden_act\":\"gelu\"", "for persimmon only relu2");
}

int main(void)
{
    check_persimmon();
    check_falcon();
    check_bigcode();
    check_indexers();
    return 0;
}
