/* Keys of config.json that would change the numbers and are not supported are refused by name; keys
   that are absent have the values of transformers. */
#include "config_keys.h"

/* Each row: an architecture, keys after the sizes, and words of the refusal. */
static const char *const refused[][3] = {
    {"internlm3", ",\"qkv_bias\":true", "\"qkv_bias\" and \"bias\" must be the same"},
    {"helium", "", "\"head_dim\" times the heads must be \"hidden_size\""},
    {"helium", ",\"head_dim\":16,\"hidden_act\":\"gelu\"", "for helium only silu"},
    {"starcoder2", ",\"hidden_act\":\"silu\"", "for starcoder2 only gelu"},
    {"glm4", ",\"hidden_act\":\"gelu\"", "for glm4 only silu"},
    {"ministral", ",\"layer_types\":[\"full_attention\"]", "1 entries for 2 layers"},
    {"vaultgemma", ",\"hidden_activation\":\"relu\"", "\"hidden_activation\" is \"relu\""},
    {"vaultgemma", ",\"hidden_activation\":\"relu\"", "only silu, gelu, gelu_new"},
    {"ernie4_5_moe", ",\"use_bias\":true", "\"use_bias\" is true"},
    {"ernie4_5_moe", ",\"output_router_logits\":true", "\"output_router_logits\" is true"},
    {"ernie4_5_moe", ",\"moe_num_experts\":4", "is larger than the number of experts"},
    {"ernie4_5_moe", ",\"moe_norm_min\":0.5", "\"moe_norm_min\" is 0.5"},
    {"ernie4_5_moe", ",\"moe_num_shared_experts\":-1", "\"moe_num_shared_experts\" must be"},
    {"minimax_m2", ",\"output_router_logits\":true", "\"output_router_logits\" is true"},
    {"minimax_m2", ",\"router_jitter_noise\":0.1", "\"router_jitter_noise\" other than 0"},
    {"minimax_m2", ",\"rotary_dim\":256", "\"rotary_dim\" is larger"},
    {"solar_open", ",\"use_qk_norm\":true", "\"use_qk_norm\" is true"},
    {"solar_open", ",\"first_k_dense_replace\":1", "\"first_k_dense_replace\" other than 0"},
    {"exaone_moe", ",\"mlp_layer_types\":[\"dense\"]", "an entry per layer"},
    {"olmo", ",\"clip_qkv\":8.0", "\"clip_qkv\" other than 0"},
    {"arcee", ",\"hidden_act\":\"silu\"", "for arcee only relu2"},
    {"jais2", ",\"hidden_act\":\"gelu\"", "for jais2 only relu2"},
    {"iquestcoder", ",\"clip_qkv\":8.0", "\"clip_qkv\" is set"},
    {"iquestcoder", ",\"use_sliding_window\":true", "\"use_sliding_window\" is true"},
    {"granite_swa", ",\"layer_rope_theta\":[1]", "a number per layer"},
    {"granite_swa", ",\"layer_rope_theta\":[1,-1]", "has an entry that is no base"},
    {"granite_swa",
     ",\"layer_rope_theta\":[1,2],\"layer_types\":[\"full_attention\",\"full_attention\"]",
     "\"layer_rope_theta\" differs in layers of one kind"},
    {"granite_swa", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"afmoe", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"afmoe", ",\"num_experts_per_tok\":65", "\"num_experts_per_tok\" is 65"},
    {"hy_v3", ",\"mlp_bias\":true", "\"mlp_bias\" is true"},
    {"kimi_linear", ",\"tie_word_embeddings\":true", "\"tie_word_embeddings\" is true"},
    {"kimi_linear", ",\"moe_router_activation_func\":\"softmax\"", "other than sigmoid"},
    {"kimi_linear", ",\"moe_renormalize\":true,\"norm_topk_prob\":false", "under another name"},
    {"kimi_linear", ",\"first_k_dense_replace\":null", "\"first_k_dense_replace\" is null"},
    {"lfm3", ",\"conv_bias\":true", "\"conv_bias\" is true"},
    {"lfm3", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"lfm3", ",\"partial_rotary_factor\":0.25", "\"partial_rotary_factor\" other than 0"},
    {"lfm3",
     ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
     "\"partial_rotary_factor\":0.5}}",
     "needs the type proportional"},
    {"lfm3", ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5.0}",
     "\"rope_parameters\" must have an object for each"},
    {"lfm3", ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}",
     "\"rope_parameters\" must have an object for each"},
    {"lfm3", ",\"layer_types\":[\"mamba\",\"conv\"]",
     "only full_attention, sliding_attention and conv are supported"},
    {"axk1", ",\"q_lora_rank\":null", "\"q_lora_rank\" is null"},
    {"longcat_flash", ",\"num_layers\":2", "is not twice \"num_layers\""},
    {"longcat_flash", ",\"ffn_hidden_size\":8", "\"ffn_hidden_size\" is there under another"},
    {"flint", ",\"output_router_logits\":true", "\"output_router_logits\" is true"},
    {"flint", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"kolibri1", ",\"attention_bias\":true", "\"attention_bias\" is true"},
    {"kolibri1", ",\"sliding_window\":null", "\"sliding_window\" is null"},
    {"mellum", ",\"rope_theta\":5", "\"rope_theta\" other than 0"},
    {"youtu", "", "is not that of \"num_attention_heads\""},
    {"gptj", ",\"n_embd\":64,\"n_head\":3", "\"n_head\" does not divide"},
    {"gptj", ",\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"rotary_dim\":7", "\"rotary_dim\" is odd"},
    {"gptj", ",\"n_embd\":64,\"n_head\":4,\"n_layer\":2", "\"rotary_dim\" is 64"},
    {"opt", ",\"do_layer_norm_before\":false", "\"do_layer_norm_before\" is false"},
    {"opt", ",\"layer_norm_elementwise_affine\":false", "elementwise_affine\" is false"},
    {"opt", ",\"_remove_final_layer_norm\":true", "\"_remove_final_layer_norm\" is true"},
    {"opt", ",\"word_embed_proj_dim\":32", "\"word_embed_proj_dim\" differs"},
    {"opt", ",\"layerdrop\":0.1", "\"layerdrop\" other than 0"},
    {"opt", ",\"activation_function\":\"silu\"", "for opt only relu, gelu"},
    {"apertus", ",\"hidden_act\":\"relu2\"", "for apertus only xielu"},
    {"nemotron", ",\"hidden_act\":\"gelu\"", "for nemotron only relu2"},
    {"ministral3", ",\"rope_parameters\":{\"llama_4_scaling_beta\":0.1}",
     "\"llama_4_scaling_beta\" needs"},
    {"gemma4_text", ",\"enable_moe_block\":true", "\"num_experts\" is missing"},
    {"gemma4_text",
     ",\"enable_moe_block\":true,\"num_experts\":4,\"moe_intermediate_size\":8,"
     "\"top_k_experts\":5",
     "\"top_k_experts\" is 5"},
    {"gemma4_text", ",\"attention_bias\":true", "\"attention_bias\" is true"},
    {"gemma4_text", ",\"use_bidirectional_attention\":\"all\"", "only causal attention"},
    {"gemma4_text", ",\"num_kv_shared_layers\":2", "leaves no layer with keys"},
    {"gemma4_text", ",\"num_kv_shared_layers\":1", "leaves a kind of layers without keys"},
    {"gemma4_text", ",\"vocab_size_per_layer_input\":95", "is below \"vocab_size\""},
    {"gemma4_text", ",\"global_head_dim\":7", "\"global_head_dim\" and its heads do not fit"},
    {"gemma4_text", ",\"per_layer_config\":{\"0\":{\"head_dim\":8}}", "more than full attention"},
    {"gemma4_text", ",\"per_layer_config\":{\"x\":{\"head_dim\":8}}", "more than full attention"},
    {"gemma4_text",
     ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"per_layer_config\":{"
     "\"0\":{\"head_dim\":8},\"1\":{\"head_dim\":16}}",
     "\"per_layer_config\" differs in layers of one kind"},
    {"gemma4_text",
     ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"per_layer_config\":{"
     "\"0\":{\"head_dim\":8}}",
     "\"per_layer_config\" lacks layers"},
    {"gemma4_text", ",\"per_layer_config\":[1]", "\"per_layer_config\" must be an object"},
    {"gemma4_text",
     ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"per_layer_config\":{"
     "\"1\":{\"head_dim\":8},\"01\":{\"head_dim\":8}}",
     "more than full attention"},
    {"gemma4_text",
     ",\"global_head_dim\":12,\"rope_parameters\":{\"full_attention\":{"
     "\"rope_type\":\"default\",\"partial_rotary_factor\":0.05}}",
     "\"partial_rotary_factor\" leaves no even number"},
    {"gemma4_text",
     ",\"head_dim\":4,\"global_head_dim\":1024,\"rope_parameters\":{\"full_attention\":{"
     "\"rope_type\":\"longrope\",\"partial_rotary_factor\":1,\"factor\":2,"
     "\"short_factor\":[1,1],\"long_factor\":[1,1]}}",
     "\"short_factor\" has not one number"},
    {"llama4_text", ",\"attention_chunk_size\":null", "\"attention_chunk_size\" is null"},
    {"llama4_text", ",\"moe_layers\":[2]", "names a layer that does not exist"},
    {"llama4_text", ",\"moe_layers\":3", "\"moe_layers\" must be a list"},
    {"llama4_text", ",\"num_experts_per_tok\":17", "\"num_experts_per_tok\" is 17"},
    {"llama4_text", ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
     "no window is switched on"},
    {"llama4_text", ",\"hidden_act\":\"gelu\"", "for llama4_text only silu"},
    {"llama4_text", ",\"floor_scale\":0", "\"floor_scale\" is 0"},
    {"flex_olmo", ",\"clip_qkv\":8.0", "\"clip_qkv\" other than 0"},
    {"granitemoeshared", ",\"shared_intermediate_size\":-1", "is no size of an expert"},
    {"hunyuan_v1_dense", ",\"use_cla\":true", "\"use_cla\" is true"},
    {"hunyuan_v1_dense", ",\"use_qk_norm\":false", "\"use_qk_norm\" must be true"},
    {"hunyuan_v1_dense", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"alpha\":2}",
     "\"alpha\" needs the type dynamic"},
    {"hunyuan_v1_dense", ",\"rope_parameters\":{\"rope_theta\":1e4,\"alpha\":2}",
     "\"alpha\" needs the type dynamic"},
    {"hunyuan_v1_moe", ",\"moe_topk\":[0]", "\"moe_topk\" is 0"},
    {"hunyuan_v1_moe", ",\"moe_topk\":[-3,-3]", "\"moe_topk\" is -3"},
    {"hunyuan_v1_moe", ",\"moe_topk\":[1,2]", "\"moe_topk\" must be the same number"},
    {"hunyuan_v1_moe", ",\"moe_intermediate_size\":32", "must be \"intermediate_size\""},
    {"hunyuan_v1_moe", ",\"num_shared_expert\":2", "\"num_shared_expert\" must be 1"},
    {"qwen3_next", ",\"linear_num_key_heads\":5", "does not divide \"linear_num_value_heads\""},
    {"qwen3_next", ",\"linear_conv_kernel_dim\":0", "\"linear_conv_kernel_dim\" is 0"},
    {"qwen3_next", ",\"linear_key_head_dim\":65537", "\"linear_key_head_dim\" is 65537"},
    {"qwen3_next", ",\"layer_types\":[\"full_attention\",\"conv\"]",
     "for qwen3_next only full_attention and linear_attention"},
    {"qwen3_next", ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]",
     "no window is switched on"},
    {"qwen3_next", ",\"hidden_act\":\"gelu\"", "for qwen3_next only silu"},
    {"qwen3_next", ",\"num_experts\":4", "is larger than the number of experts"},
    {"qwen3_5_text", ",\"attn_output_gate\":false", "\"attn_output_gate\" is false"},
    {"qwen3_5_moe_text", ",\"full_attention_interval\":0", "\"full_attention_interval\" is 0"},
    {"lfm2", ",\"conv_bias\":true", "\"conv_bias\" is true"},
    {"lfm2", ",\"conv_L_cache\":0", "\"conv_L_cache\" is 0"},
    {"lfm2_moe", ",\"output_router_logits\":true", "\"output_router_logits\" is true"},
    {"lfm2", ",\"full_attn_idxs\":[2]", "names a layer that does not exist"},
    {"lfm2", ",\"layer_types\":[\"conv\",\"linear_attention\"]",
     "for lfm2 only full_attention and conv"},
    {"granitemoehybrid", ",\"mamba_n_heads\":5", "\"mamba_d_head\" is 25, which 5 heads do not"},
    {"granitemoehybrid", ",\"mamba_d_head\":8", "\"mamba_d_head\" is 8, which 128 heads do not"},
    {"granitemoehybrid", ",\"mamba_n_groups\":3", "\"mamba_n_groups\" does not divide"},
    {"granitemoehybrid", ",\"mamba_d_conv\":0", "\"mamba_d_conv\" is 0"},
    {"granitemoehybrid", ",\"time_step_limit\":[0.1]", "\"time_step_limit\" must be two numbers"},
    {"granitemoehybrid", ",\"time_step_limit\":[-1,2]", "must be two numbers that are not neg"},
    {"granitemoehybrid", ",\"time_step_limit\":[0.2,0.1]", "\"time_step_limit\" leaves no step"},
    {"granitemoehybrid", ",\"num_local_experts\":1", "larger than the number of experts"},
    {"granitemoehybrid", ",\"hidden_act\":\"gelu\"", "for granitemoehybrid only silu"},
    {"granitemoehybrid", ",\"layer_types\":[\"attention\",\"conv\"]",
     "for granitemoehybrid only full_attention and linear_attention"},
    {"nemotron_h", ",\"layers_block_type\":[\"mamba\",\"conv\"]", "a layer is \"conv\""},
    {"nemotron_h", ",\"layers_block_type\":[]", "must be a list with an entry per layer"},
    {"nemotron_h", ",\"hybrid_override_pattern\":\"M|\"", "a layer is \"|\""},
    {"nemotron_h", ",\"hybrid_override_pattern\":\"\"", "must have a letter per layer"},
    {"nemotron_h", ",\"mamba_d_conv\":4", "\"mamba_d_conv\" is a key of older files"},
    {"nemotron_h", ",\"mlp_bias\":true", "\"mlp_bias\" is true, which is not supported with"},
    {"nemotron_h", ",\"mlp_hidden_act\":\"silu\"", "for nemotron_h only relu2"},
    {"nemotron_h", ",\"mamba_hidden_act\":\"gelu\"", "for nemotron_h only silu"},
    {"nemotron_h", ",\"moe_latent_size\":-1", "\"moe_latent_size\" is no size"},
    {"falcon_h1", ",\"mlp_multipliers\":[1]", "\"mlp_multipliers\" must be 2 numbers above 0"},
    {"falcon_h1", ",\"ssm_multipliers\":[1,1,0,1,1]", "\"ssm_multipliers\" must be 5 numbers"},
    {"falcon_h1", ",\"mamba_d_ssm\":100", "\"mamba_d_head\" is 0, which 128 heads do not make 100"},
    {"falcon_h1", ",\"key_multiplier\":0", "\"key_multiplier\" is 0"},
    {"falcon_h1", ",\"hidden_act\":\"gelu\"", "for falcon_h1 only silu"},
    {"bamba", ",\"z_loss_coefficient\":0.1", "\"z_loss_coefficient\" other than 0"},
    {"bamba", ",\"attn_layer_indices\":[2]", "names a layer that does not exist"},
    {"bamba", ",\"attn_layer_indices\":1", "\"attn_layer_indices\" must be a list of layers"},
    {"mamba2", ",\"expand\":3", "\"head_dim\" is 64, which 128 heads do not make 192"},
    {"mamba2", ",\"rescale_prenorm_residual\":true,\"num_heads\":8,\"head_dim\":16",
     "\"rescale_prenorm_residual\" is true"},
    {"nemotron_h", ",\"n_groups\":3", "\"n_groups\" does not divide"},
};

static void check_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        refuse(refused[i][0], refused[i][1], refused[i][2]);
}

static void check_spaces(void)
{
    hil_config c = parse("granitemoehybrid",
                         ",\"num_local_experts\":0,\"layer_types\":[\"mamba\",\"attention\"]");
    CHECK(hil_config_mamba(&c, 0) && !hil_config_mamba(&c, 1) && !hil_config_turns(&c, 1));
    CHECK_INT(c.intermediate, 1024);
    CHECK_INT(c.mamba.head_dim, 1);
    CHECK(c.mamba.kernel_bias && !c.mamba.bias && c.mamba.most == 0);
    c = parse("granitemoehybrid", ",\"position_embedding_type\":\"rope\",\"mamba_expand\":4,"
                                  "\"time_step_limit\":[0.01,{\"__float__\":\"Infinity\"}]");
    CHECK(hil_config_turns(&c, 1) && hil_config_mamba(&c, 1));
    CHECK_INT(c.mamba.head_dim, 2);
    CHECK_NEAR(c.mamba.least, 0.01, 0);
    CHECK_INT(c.mixture.shared, 1024);
}

static void check_lone(void)
{
    hil_config c = parse("nemotron_h", ",\"hybrid_override_pattern\":\"M-*EM\"");
    CHECK_INT(c.layers, 5);
    CHECK(hil_config_mamba(&c, 0) && !hil_config_feeds(&c, 0) && hil_config_mixes(&c, 0));
    CHECK(hil_config_feeds(&c, 1) && !hil_config_mixes(&c, 1) && !hil_config_mamba(&c, 1));
    CHECK(hil_config_mixes(&c, 2) && !hil_config_turns(&c, 2));
    CHECK_INT(c.mixture.dense[0], 23);
    CHECK_INT(c.mixture.shared, 7688);
    CHECK_NEAR(c.mamba.least, 0.001, 0);
    c = parse("nemotron_h", ",\"hybrid_override_pattern\":\"M-*\",\"mlp_bias\":true,"
                            "\"time_step_min\":0.01,\"time_step_limit\":[0.5,1]");
    CHECK_INT(c.mixture.experts, 0);
    CHECK(c.mlp_bias);
    CHECK_NEAR(c.mamba.least, 0.01, 0);
    CHECK_NEAR(c.mamba.most, 0, 0);
    CHECK_INT(parse("nemotron_h", "").layers, 4);
}

static void check_beside(void)
{
    hil_config c = parse("falcon_h1", ",\"mamba_d_head\":\"auto\",\"mlp_multipliers\":[2,1]");
    CHECK(hil_config_mamba(&c, 0) && hil_config_turns(&c, 1) && c.mamba.bare && c.mamba.norm_first);
    CHECK_INT(c.mamba.head_dim, 8);
    CHECK_NEAR(c.gate_scale, 2, 0);
    CHECK_NEAR(c.mlp_out, 0, 0);
    c = parse("falcon_h1", ",\"mamba_d_ssm\":null,\"mamba_rms_norm\":true,\"key_multiplier\":2,"
                           "\"projectors_bias\":true");
    CHECK_INT(c.mamba.head_dim, 1);
    CHECK(!c.mamba.bare && c.mamba.out_bias && !c.mamba.bias);
    CHECK_NEAR(c.attention_scale, 0.5, 0);
}

static void check_defaults(void)
{
    hil_config c = parse("cwm", "");
    CHECK_INT(c.rope.kind, HIL_ROPE_LLAMA3);
    CHECK_NEAR(c.rope.factor, 16, 0);
    CHECK_INT(hil_config_window(&c, 0), 0);
    CHECK_INT(hil_config_window(&c, 1), 8192);
    c = parse("glm", "");
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 64);
    c = parse("hunyuan_v1_moe", ",\"num_experts\":8,\"moe_topk\":[2,2],\"num_shared_expert\":[1,1],"
                                "\"moe_intermediate_size\":[160,160]");
    CHECK_INT(c.mixture.chosen, 2);
    CHECK_INT(c.mixture.shared, 160);
    c = parse("ernie4_5_moe", ",\"moe_layer_interval\":2,\"moe_layer_start_index\":0");
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_INT(c.mixture.shared, 3072);
    c = parse("ministral3", "");
    CHECK_INT(c.rope.kind, HIL_ROPE_YARN);
    CHECK_NEAR(c.rope.growth, 0.1, 0);
    c = parse("gemma4_text", "");
    CHECK_INT(c.varied.head_dim, 512);
    CHECK_INT(c.varied.input, 256);
    CHECK_INT(hil_config_window(&c, 0), 512);
    CHECK_INT(hil_config_window(&c, 1), 0);
    c = parse("gemma4_text", ",\"head_dim\":8,\"per_layer_config\":{}");
    CHECK_INT(c.varied.head_dim, 8);
    CHECK_INT(c.varied.kv_heads, 2);
    c = parse("gemma4_text", ",\"head_dim\":8,\"per_layer_config\":null");
    CHECK_INT(c.varied.head_dim, 8);
    c = parse("gemma4_text", ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
                             "\"proportional\",\"rope_theta\":1e4}}");
    CHECK_NEAR(c.rope.partial, 1, 0);
    CHECK_NEAR(parse("solar_open", "").mixture.scale, 1, 0);
    CHECK_NEAR(parse("glm4_moe", "").mixture.scale, 1, 0);
    CHECK_INT(parse("ernie4_5", ",\"head_dim\":null").head_dim, 16);
    CHECK_NEAR(parse("nemotron", "").init_std, 0.0134, 0);
    CHECK_NEAR(parse("starcoder2", "").init_std, 0.018042, 0);
    CHECK_NEAR(parse("glm4", "").init_std, 0.02, 0);
    CHECK_NEAR(parse("cwm", ",\"rope_theta\":500").rope.theta, 1e6, 0);
    CHECK_NEAR(parse("ministral3", ",\"rope_theta\":500").rope.theta, 1e6, 0);
    c = parse("ministral3", ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4}");
    CHECK_NEAR(c.rope.theta, 10000, 0);
    c = parse("qwen3_next", ",\"full_attention_interval\":2");
    CHECK(hil_config_linear(&c, 0) && !hil_config_linear(&c, 1));
    CHECK_INT(hil_config_rope_dims(&c, &c.rope), 64);
    CHECK_INT(c.delta.heads, 32);
    CHECK(c.mixture.normalized);
    c = parse("qwen3_5_moe_text", ",\"norm_topk_prob\":false,\"mlp_only_layers\":[0]");
    CHECK(hil_config_linear(&c, 0) && hil_config_linear(&c, 1));
    CHECK(c.mixture.normalized && !c.mixture.dense[0]);
    c = parse("lfm2", ",\"full_attn_idxs\":[1],\"tie_embedding\":false");
    CHECK(hil_config_convolves(&c, 0) && !hil_config_convolves(&c, 1));
    CHECK_INT(c.intermediate, 256);
    CHECK(!c.tied);
    c = parse("lfm2", ",\"block_ff_dim\":300,\"block_ffn_dim_multiplier\":null");
    CHECK_INT(c.intermediate, 200);
    c = parse("lfm2_moe", ",\"num_dense_layers\":1,\"use_expert_bias\":false");
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK(c.mixture.sigmoid && !c.mixture.corrected);
    CHECK_INT(c.intermediate, 160);
    c = parse("opt", "");
    CHECK_INT(c.intermediate, 3072);
    CHECK_INT(c.kv_heads, 4);
    CHECK_INT(c.position_shift, 2);
    CHECK(c.tied && c.frozen_pad && c.attention_bias && c.output_bias && !hil_config_turns(&c, 1));
    CHECK_NEAR(c.dropout_residual, 0.1, 0);
    c = parse("opt", ",\"enable_bias\":false,\"ffn_dim\":7,\"dropout\":0");
    CHECK(!c.attention_bias && !c.output_bias && !c.mlp_bias && c.norm_bias);
    CHECK_INT(c.intermediate, 7);
    c = parse("seed_oss", "");
    CHECK_NEAR(c.dropout_residual, 0.1, 0);
    CHECK(c.attention_bias && !c.output_bias);
}

static void check_mistral4(void)
{
    hil_config c = parse_latent("mistral4", ",\"rope_theta\":500");
    CHECK_NEAR(c.rope.theta, 10000, 0);
    CHECK_NEAR(c.growth.factor, 0.1, 0);
    CHECK_NEAR(c.rope.growth + c.rope.partial, 0, 0);
    CHECK_NEAR(c.attention_scale, pow(0.1 * log(128) + 1, 2) / sqrt(128), 1e-12);
    CHECK(c.mixture.normalized && !c.mixture.sigmoid && c.mixture.dense[0] == 0);
    CHECK_INT(c.head_dim + c.growth.from, 64 + 8192);
    CHECK(!parse_latent("mistral4", ",\"norm_topk_prob\":null").mixture.normalized);
    refuse_latent("mistral4", ",\"qk_nope_head_dim\":65", "\"qk_nope_head_dim\" must be even");
    refuse_latent("mistral4",
                  ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":2,"
                  "\"partial_rotary_factor\":0.25}",
                  "\"partial_rotary_factor\" of a head is not \"qk_rope_head_dim\"");
}

static void check_newer_defaults(void)
{
    hil_config c;
    c = parse("llama4_text", "");
    CHECK_INT(hil_config_chunk(&c, 0), 8192);
    CHECK_INT(c.intermediate, 16384);
    CHECK_INT(c.mixture.width, 160);
    CHECK_INT(c.growth.from, 8192);
    CHECK(!(c.mixture.dense[0] & 3));
    c = parse("llama4_text", ",\"no_rope_layers\":[],\"no_rope_layer_interval\":2,"
                             "\"interleave_moe_layer_step\":2");
    CHECK(hil_config_turns(&c, 0) && !hil_config_turns(&c, 1));
    CHECK_INT(hil_config_chunk(&c, 1), 0);
    CHECK_INT(c.mixture.dense[0] & 3, 1);
    c = parse("llama4_text", ",\"moe_layers\":[],\"layer_types\":[\"full_attention\","
                             "\"chunked_attention\"],\"attn_temperature_tuning\":false");
    CHECK_INT(c.mixture.dense[0] & 3, 3);
    CHECK_INT(hil_config_chunk(&c, 0), 0);
    CHECK_INT(hil_config_chunk(&c, 1), 8192);
    CHECK_NEAR(c.growth.factor, 0, 0);
    c = parse("apertus", ",\"rope_theta\":500");
    CHECK_INT(c.rope.kind, HIL_ROPE_LLAMA3);
    CHECK_NEAR(c.rope.theta, 12000000, 0);
    c = parse("apertus", ",\"rope_parameters\":{\"rope_theta\":500}");
    CHECK_INT(c.rope.kind, HIL_ROPE_DEFAULT);
    CHECK_NEAR(c.rope.theta, 500, 0);
    c = parse_latent("youtu", "");
    CHECK_NEAR(c.init_std, 2 / sqrt(5.0 * 64), 1e-12);
    CHECK_NEAR(c.embedding_std, 4 / sqrt(5.0 * 64), 1e-12);
    CHECK(c.interleaved && !parse_latent("youtu", ",\"rope_interleave\":null").interleaved);
    c = parse_latent("minicpm3", ",\"scale_depth\":null,\"dim_model_base\":null");
    CHECK_NEAR(c.residual_scale + c.logit_scale, 0, 0);
    CHECK_INT(c.latent.value, 16);
    CHECK_NEAR(parse("hyperclovax", "").attention_scale, 0, 0);
    c = parse("mellum", ",\"num_experts\":8");
    CHECK_NEAR(c.rope.theta, 500000, 0);
    CHECK_NEAR(c.local_rope.theta, 10000, 0);
    c = parse("mellum", ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}");
    CHECK_NEAR(c.rope.theta, 10000, 0);
    c = parse("granite_swa", ",\"layer_rope_theta\":[0,7]");
    CHECK(!hil_config_turns(&c, 0) && hil_config_turns(&c, 1));
    CHECK_NEAR(c.local_rope.theta, 7, 0);
    CHECK_INT(hil_config_window(&c, 0), 0);
    CHECK_INT(hil_config_window(&c, 1), 128);
    c = parse("afmoe", ",\"global_attn_every_n_layers\":2");
    CHECK(hil_config_turns(&c, 0) && !hil_config_turns(&c, 1));
    CHECK_INT(c.mixture.shared, 2816);
    CHECK_INT(c.mixture.dense[0], 1);
    c = parse("nanochat", ",\"final_logit_softcapping\":null");
    CHECK_NEAR(c.logit_cap, 0, 0);
    c = parse("hy_v3", "");
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_NEAR(c.mixture.scale, 2.826, 0);
    CHECK(parse("hyperclovax", ",\"use_post_norm\":false").no_post_norms);
}

static void check_longcat(void)
{
    static const char *const cases[][2] = {
        {",\"head_dim\":32", "\"head_dim\" is not \"qk_rope_head_dim\""},
        {",\"qk_head_dim\":7", "\"qk_head_dim\" is not that of"},
        {",\"q_lora_rank\":null", "\"q_lora_rank\" must be a number"},
        {",\"mla_scale_q_lora\":false", "\"mla_scale_q_lora\" is false"},
        {",\"mla_scale_kv_lora\":false", "\"mla_scale_kv_lora\" is false"},
        {",\"zero_expert_type\":\"copy\"", "\"zero_expert_type\" other than identity"},
        {",\"zero_expert_num\":-1", "\"zero_expert_num\" must be from 0"},
        {",\"moe_topk\":50,\"n_routed_experts\":2,\"zero_expert_num\":3", "is larger than"},
        {",\"router_bias\":true", "\"router_bias\" is true"},
        {",\"norm_topk_prob\":true", "\"norm_topk_prob\" is true"},
    };
    hil_config c = parse_latent("longcat_flash", ",\"decoder_sparse_step\":2");
    CHECK_INT(c.layers, 1);
    CHECK_INT(c.attentions, 2);
    CHECK_INT(c.mixture.identities, 256);
    CHECK_INT(c.mixture.dense[0], 0);
    CHECK_NEAR(c.latent.q_scale, sqrt((double)c.hidden / 1536), 1e-12);
    CHECK_NEAR(c.rope.theta, 1e7, 0);
    static const char odd[] =
        "{\"model_type\":\"longcat_flash\",\"vocab_size\":9,\"num_hidden_layers\":3}";
    CHECK_FAILS(hil_config_parse(&c, odd, sizeof odd - 1, "t"), HIL_ERR_INPUT, "is odd");
    CHECK_INT(parse_latent("longcat_flash", ",\"zero_expert_num\":null").mixture.identities, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        refuse_latent("longcat_flash", cases[i][0], cases[i][1]);
}

/* Models of later versions of transformers. */
static void check_recent_defaults(void)
{
    hil_config c = parse("lfm3", "");
    CHECK(hil_config_convolves(&c, 0) && hil_config_convolves(&c, 1));
    CHECK_INT(c.rope.kind, HIL_ROPE_PROPORTIONAL);
    CHECK_NEAR(c.rope.partial, 0.5, 0);
    CHECK_NEAR(c.local_rope.theta, 10000, 0);
    c = parse("lfm3", ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}");
    CHECK_INT(c.rope.kind, HIL_ROPE_DEFAULT);
    CHECK_NEAR(c.rope.theta, 1e6, 0);
    CHECK_NEAR(c.local_rope.theta, 1e6, 0);
    c = parse("lfm3", ",\"rope_theta\":5.0,\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
                      "\"default\"},\"sliding_attention\":{\"rope_type\":\"default\"}}");
    CHECK_NEAR(c.rope.theta, 5, 0);
    CHECK_NEAR(c.local_rope.theta, 5, 0);
    c = parse("lfm3", ",\"use_sandwich_norm\":false,\"use_attention_gate\":false");
    CHECK(c.no_post_norms && c.own_gate == HIL_OWN_GATE_NONE);
    c = parse_latent("axk1", ",\"norm_topk_prob\":null");
    CHECK(!c.mixture.normalized && c.mixture_post_norms);
    refuse_latent("axk1",
                  ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"mscale_all_dim\":1}",
                  "\"mscale_all_dim\" needs the type yarn");
    refuse_latent("axk1",
                  ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2,\"mscale_all_dim\":1}",
                  "\"mscale_all_dim\" needs the type yarn");
    refuse_latent("axk1", ",\"head_dim\":32", "\"head_dim\" is not \"qk_rope_head_dim\"");
    c = parse_latent("axk1", "");
    CHECK_INT(c.mixture.dense[0], 1);
    c = parse_latent("kimi_linear", ",\"moe_renormalize\":null");
    CHECK(hil_config_linear(&c, 0) && hil_config_linear(&c, 1) && !c.mixture.normalized);
    CHECK_INT(c.latent.q_rank, 0);
    CHECK_INT(c.mixture.dense[0], 1);
    c = parse_latent("kimi_linear", ",\"num_experts\":16,\"num_experts_per_token\":2,"
                                    "\"linear_attn_config\":{\"full_attn_layers\":[1],"
                                    "\"kda_layers\":[2],\"head_dim\":24,\"num_heads\":3,"
                                    "\"short_conv_kernel_size\":5}");
    CHECK(!hil_config_linear(&c, 0) && hil_config_linear(&c, 1) && !hil_config_turns(&c, 0));
    CHECK_INT(c.delta.key_heads * c.delta.value_dim, 72);
    CHECK_INT(c.delta.kernel, 5);
    CHECK_INT(c.mixture.experts, 16);
    refuse_latent("kimi_linear",
                  ",\"linear_attn_config\":{\"full_attn_layers\":[1],"
                  "\"kda_layers\":[1]}",
                  "do not name every layer once");
    refuse_latent("kimi_linear",
                  ",\"linear_attn_config\":{\"full_attn_layers\":[3],"
                  "\"kda_layers\":[1]}",
                  "\"full_attn_layers\" names a layer that does not exist");
    refuse_latent("kimi_linear",
                  ",\"linear_attn_config\":{\"full_attn_layers\":[-9223372036854775808],"
                  "\"kda_layers\":[1]}",
                  "\"full_attn_layers\" names a layer that does not exist");
    refuse_latent("kimi_linear", ",\"linear_attn_config\":[]", "must be an object");
    refuse_latent("kimi_linear", ",\"linear_head_dim\":1", "must be 2 or more");
    refuse_latent("kimi_linear", ",\"linear_head_dim\":65536,\"linear_num_heads\":65536",
                  "are too large");
    check_longcat();
    c = parse("flint", "");
    CHECK_INT(c.mixture.dense[0], 3);
    CHECK(!hil_config_turns(&c, 0) && !hil_config_turns(&c, 1));
    CHECK(parse("flint", ",\"mlp_only_layers\":[]").mixture.dense[0] == 0);
    c = parse("kolibri1", "");
    CHECK(hil_config_turns(&c, 0) && !c.mixture.normalized);
    CHECK_INT(hil_config_window(&c, 1), 513);
}

int main(void)
{
    check_refused();
    check_defaults();
    check_spaces();
    check_lone();
    check_beside();
    check_newer_defaults();
    check_recent_defaults();
    check_mistral4();
    return 0;
}
