/* test_config_later.c - as test_config_refused.c, of architectures that were added later. */
#include "model/config/config.h"
#include "check.h"

static hil_status read(const char *type, const char *keys, hil_config *out)
{
    static const char form[] = "{\"model_type\":\"%s\",\"hidden_size\":96,\"vocab_size\":96,"
                               "\"num_attention_heads\":8%s%s%s}";
    const char *layers = strstr(keys, "num_hidden_layers") ? "" : ",\"num_hidden_layers\":4";
    const char *heads = strstr(keys, "num_key_value_heads") ? "" : ",\"num_key_value_heads\":2";
    char json[1024];
    snprintf(json, sizeof json, form, type, layers, heads, keys);
    return hil_config_parse(out, json, strlen(json), "t");
}

static hil_config accept(const char *type, const char *keys)
{
    hil_config c;
    CHECK_OK(read(type, keys, &c));
    return c;
}

#define TYPES(a, b, c, d)                                                                          \
    ",\"layer_types\":[\"" a "_attention\",\"" b "_attention\",\"" c "_attention\",\"" d           \
    "_attention\"]"
#define HEADS ",\"num_key_value_heads\":8"
#define FULL(keys) ",\"rope_parameters\":{\"full_attention\":{" keys "}}"

static const char *const refused[][3] = {
    {"olmo_hybrid", TYPES("full", "full", "full", "full"), "must have full_attention and linear"},
    {"olmo_hybrid", TYPES("linear", "linear", "linear", "linear"), "\"layer_types\" must have"},
    {"olmo_hybrid", TYPES("linear", "sliding", "full", "full"), "no window is switched on"},
    {"olmo_hybrid", ",\"linear_num_key_heads\":3", "does not divide \"linear_num_value_heads\""},
    {"olmo_hybrid", ",\"linear_num_key_heads\":100", "\"linear_key_head_dim\" is missing"},
    {"olmo_hybrid", ",\"linear_allow_neg_eigval\":2", "must be true or false"},
    {"olmo_hybrid", ",\"hidden_act\":\"gelu\"", "for olmo_hybrid only silu"},
    {"olmo_hybrid", ",\"partial_rotary_factor\":0.5", "other than 1 is not supported"},
    {"cohere2_moe", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"cohere2_moe", ",\"first_k_dense_replace\":5", "\"first_k_dense_replace\" is no number"},
    {"cohere2_moe", ",\"expert_selection_fn\":\"relu\"", "it must be softmax or sigmoid"},
    {"cohere2_moe", ",\"shared_expert_combination_strategy\":\"max\"", "average or sum"},
    {"cohere2_moe", ",\"num_experts_per_tok\":9", "\"num_experts_per_tok\" is 9"},
    {"cohere2_moe", ",\"num_shared_experts\":2000", "\"num_shared_experts\" is too large"},
    {"cohere2_moe", ",\"sliding_window_pattern\":0", "\"sliding_window_pattern\" is 0"},
    {"cohere2_moe", ",\"mlp_layer_types\":[\"sparse\"]", "an entry per layer"},
    {"cohere2_moe", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "is not known here"},
    {"cohere2_moe", ",\"rms_norm_eps\":0", "\"rms_norm_eps\" is 0"},
    {"mimo_v2_flash", ",\"v_head_dim\":193", "\"v_head_dim\" is larger than \"head_dim\""},
    {"mimo_v2_flash", ",\"attention_value_scale\":0", "\"attention_value_scale\" is 0"},
    {"mimo_v2_flash", ",\"sliding_window_size\":-1", "is no number of positions"},
    {"mimo_v2_flash", ",\"n_group\":3", "\"n_group\" does not cut the experts into groups"},
    {"mimo_v2_flash", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "is not known here"},
    {"mimo_v2_flash", ",\"n_routed_experts\":8,\"num_local_experts\":9", "is not \"num_local_exp"},
    {"mimo_v2_flash", ",\"rope_theta\":10000", "is not that of layers with full attention"},
    {"mimo_v2_flash", FULL("\"rope_theta\":9"), "lacks an object of a kind of layers"},
    {"mimo_v2_flash", FULL("\"rope_type\":\"linear\",\"factor\":2"), "needs \"partial_rotary"},
    {"mimo_v2_flash", FULL("\"rope_theta\":9,\"partial_rotary_factor\":0.001"), "no even number"},
    {"laguna", FULL("\"partial_rotary_factor\":1"), "\"rope_theta\" is missing"},
    {"laguna", ",\"partial_rotary_factor\":1" FULL("\"rope_theta\":5"), "belongs into"},
    {"laguna", ",\"gating\":false", "\"gating\" must be true, per-head or per-element"},
    {"laguna", ",\"output_router_logits\":true", "\"output_router_logits\" is true"},
    {"laguna", ",\"moe_apply_router_weight_on_input\":true", "weight_on_input\" is true"},
    {"laguna", ",\"num_attention_heads_per_layer\":[8,8]", "an entry per layer"},
    {"laguna", ",\"num_attention_heads_per_layer\":[8,8,8,10]", "differs in layers of one kind"},
    {"laguna", ",\"num_attention_heads_per_layer\":[7,7,7,7]", "heads\" does not divide"},
    {"laguna", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "is not known here"},
    {"bailing_hybrid", "", "\"num_key_value_heads\" is not that of \"num_attention_heads\""},
    {"bailing_hybrid", ",\"tie_word_embeddings\":true", "\"tie_word_embeddings\" is true"},
    {"bailing_hybrid", ",\"num_experts\":4,\"num_local_experts\":5", "under another name"},
    {"bailing_hybrid", HEADS ",\"kda_lower_bound\":0", "\"kda_lower_bound\" is 0"},
    {"bailing_hybrid", HEADS ",\"linear_head_dim\":1", "no size of the heads of linear attention"},
    {"bailing_hybrid", HEADS ",\"layer_group_size\":0", "\"layer_group_size\" is 0"},
    {"bailing_hybrid", HEADS ",\"num_expert_group\":7", "does not cut the experts into groups"},
};

static void check_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
        hil_config c;
        CHECK_FAILS(read(refused[i][0], refused[i][1], &c), HIL_ERR_INPUT, refused[i][2]);
    }
}

static void check_olmo(void)
{
    hil_config c = accept("olmo_hybrid", "");
    CHECK_INT(c.delta.layers[0], 7);
    CHECK_INT(c.delta.key_heads, 8);
    CHECK_INT(c.delta.heads, 8);
    CHECK_INT(c.delta.key_dim, 9);
    CHECK_INT(c.delta.value_dim, 18);
    CHECK_INT(c.intermediate, 11008);
    CHECK_NEAR(c.delta.write, 2, 0);
    CHECK_NEAR(c.delta.norm_eps, 1e-5, 0);
    CHECK_NEAR(c.rope.theta, 10000, 0);
    CHECK(hil_config_turns(&c, 3));
    c = accept("olmo_hybrid", ",\"num_hidden_layers\":2");
    CHECK_INT(c.delta.layers[0], 1);
    c = accept("olmo_hybrid", ",\"linear_num_key_heads\":4,\"linear_key_head_dim\":null,"
                              "\"linear_value_head_dim\":5,\"linear_allow_neg_eigval\":false");
    CHECK_INT(c.delta.key_dim, 18);
    CHECK_INT(c.delta.value_dim, 5);
    CHECK_NEAR(c.delta.write, 1, 0);
    static const char *const still[] = {",\"rope_theta\":null",
                                        ",\"rope_parameters\":{\"rope_theta\":null}",
                                        ",\"rope_scaling\":{\"rope_theta\":null}"};
    static const char *const turning[] = {
        ",\"rope_parameters\":null", ",\"rope_parameters\":{}",
        ",\"rope_theta\":null,\"rope_parameters\":{\"rope_theta\":5}"};
    for (int i = 0; i < 3; ++i) {
        c = accept("olmo_hybrid", still[i]);
        CHECK(!hil_config_turns(&c, 0) && !hil_config_turns(&c, 3));
        c = accept("olmo_hybrid", turning[i]);
        CHECK(hil_config_turns(&c, 3));
    }
    CHECK_NEAR(c.rope.theta, 5, 0);
}

static void check_cohere(void)
{
    hil_config c = accept("cohere2_moe", ",\"first_k_dense_replace\":1");
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_INT(c.slides[0], 14);
    CHECK(hil_config_turns(&c, 0) && hil_config_turns(&c, 3));
    CHECK(!c.mixture.sigmoid && c.mixture.normalized && c.tied && c.norm == HIL_NORM_LAYER);
    CHECK_INT(c.intermediate + c.mixture.width, 2 * 22528);
    CHECK_INT(c.mixture.shared, 0);
    CHECK_NEAR(c.mixture.part, 0, 0);
    c = accept("cohere2_moe", ",\"first_k_dense_replace\":3,\"num_shared_experts\":2,"
                              "\"prefix_dense_sliding_window_pattern\":2,"
                              "\"expert_selection_fn\":\"sigmoid\",\"norm_topk_prob\":false,"
                              "\"prefix_dense_intermediate_size\":7,\"rms_norm_eps\":0.5");
    CHECK_INT(c.slides[0], 13);
    CHECK(!hil_config_turns(&c, 1) && hil_config_turns(&c, 2));
    CHECK(c.mixture.sigmoid && !c.mixture.normalized && c.norm == HIL_NORM_RMS);
    CHECK_INT(c.intermediate, 7);
    CHECK_INT(c.mixture.shared, 2 * 22528);
    CHECK_NEAR(c.mixture.part, 0.5, 0);
    CHECK_NEAR(c.norm_eps, 0.5, 0);
}

static void check_mimo(void)
{
    hil_config c = accept("mimo_v2_flash", ",\"num_hidden_layers\":7,\"n_shared_experts\":null,"
                                           "\"moe_layer_freq\":[0,1]");
    CHECK_INT(c.slides[0], 94);
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_INT(hil_config_kv_heads(&c, 5), 2);
    CHECK_INT(hil_config_kv_heads(&c, 6), 4);
    CHECK_INT(hil_config_window(&c, 1), 129);
    CHECK_INT(hil_config_rope_dims(&c, &c.local_rope), 64);
    CHECK_INT(hil_config_value_dim(&c), 128);
    CHECK_NEAR(c.value_scale, 0.707, 0);
    CHECK_NEAR(c.rope.theta, 5e6, 0);
    c = accept("mimo_v2_flash", ",\"sliding_window_size\":4,\"sliding_window\":9,"
                                "\"attention_value_scale\":null,\"num_local_experts\":12,"
                                "\"routed_scaling_factor\":null");
    CHECK_INT(hil_config_window(&c, 1), 5);
    CHECK_INT(c.mixture.experts, 12);
    CHECK_NEAR(c.value_scale, 0, 0);
    CHECK_NEAR(c.mixture.scale, 1, 0);
}

static void check_laguna(void)
{
    hil_config c = accept("laguna", ",\"gating\":\"per-head\"");
    CHECK_INT(c.slides[0], 0);
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 64);
    CHECK(c.own_gate == HIL_OWN_GATE_HEAD && c.mixture.cap == 0);
    c = accept("laguna", TYPES("sliding", "full", "full",
                               "sliding") ","
                                          "\"num_attention_heads_per_layer\":[6,2,2,6],"
                                          "\"gating\":\"per-element\"");
    CHECK_INT(hil_config_heads(&c, 0), 6);
    CHECK_INT(hil_config_heads(&c, 1), 2);
    CHECK_INT(hil_config_window(&c, 3), 512);
    CHECK_NEAR(c.local_rope.theta, 10000, 0);
    CHECK(c.own_gate == HIL_OWN_GATE_NUMBER);
    c = accept("laguna", FULL("\"rope_theta\":7"));
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 128);
}

static void check_bailing(void)
{
    hil_config c = accept("bailing_hybrid", HEADS ",\"num_hidden_layers\":7,\"q_lora_rank\":5,"
                                                  "\"decoder_sparse_step\":2");
    CHECK_INT(c.delta.layers[0], 95);
    CHECK_INT(c.mixture.dense[0], 3);
    CHECK_INT(c.delta.heads * c.delta.key_dim, 8 * 128);
    CHECK_INT(c.head_dim + c.latent.q_rank, 64);
    CHECK_NEAR(c.delta.floor, -5, 0);
    CHECK_NEAR(c.rope.theta, 6e6, 0);
    c = accept("bailing_hybrid", HEADS ",\"partial_rotary_factor\":0.5,\"moe_renormalize\":null,"
                                       "\"rope_parameters\":{\"partial_rotary_factor\":0.5}");
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 64);
    CHECK(!c.mixture.normalized);
    c = accept("bailing_hybrid", HEADS ",\"head_dim\":4,\"linear_head_dim\":6,"
                                       "\"kda_safe_gate\":false,\"num_experts\":16,"
                                       "\"moe_renormalize\":false,\"model_max_length\":77");
    CHECK_INT(c.delta.key_dim, 6);
    CHECK_INT(c.mixture.experts, 16);
    CHECK_INT(c.max_positions, 77);
    CHECK(!c.mixture.normalized && c.delta.floor == 0);
}

int main(void)
{
    check_refused();
    check_olmo();
    check_cohere();
    check_mimo();
    check_laguna();
    check_bailing();
    return 0;
}
