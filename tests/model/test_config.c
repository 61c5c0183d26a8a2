/* config.json of every architecture gives the values of transformers; others are refused. */
#include "model/config/config.h"
#include "base/json.h"
#include "format/sidecar_files.h"
#include "check.h"

static const json_t *expected;

static int64_t whole(const char *key)
{
    const json_t *value = json_object_get(expected, key);
    CHECK(json_is_integer(value) || json_is_boolean(value));
    return json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
}

static double real(const char *key)
{
    const json_t *value = json_object_get(expected, key);
    CHECK(json_is_number(value));
    return json_number_value(value);
}

static const char *text(const char *key)
{
    return json_string_value(json_object_get(expected, key));
}

static void check_names(const hil_config *c)
{
    static const char *const rope[] = {"default", "linear", "llama3"};
    const char *activation = text("activation");
    hil_activation kind = strcmp(activation, "gelu") == 0       ? HIL_GELU
                          : strncmp(activation, "gelu", 4) == 0 ? HIL_GELU_TANH
                                                                : HIL_SILU;
    const char *dtype = text("dtype");
    CHECK_INT(c->activation, kind);
    CHECK_TEXT(rope[c->rope.kind], text("rope_type"));
    CHECK_TEXT(hil_dtype_name(c->dtype), dtype[0] == 'b'                 ? "bf16"
                                         : strcmp(dtype, "float16") == 0 ? "fp16"
                                                                         : "fp32");
}

static void check_numbers(const hil_config *c)
{
    CHECK_INT(c->vocab, whole("vocab"));
    CHECK_INT(c->hidden, whole("hidden"));
    CHECK_INT(c->intermediate, whole("intermediate"));
    CHECK_INT(c->layers, whole("layers"));
    CHECK_INT(c->heads, whole("heads"));
    CHECK_INT(c->kv_heads, whole("kv_heads"));
    CHECK_INT(c->head_dim, whole("head_dim"));
    CHECK_INT(c->max_positions, whole("max_positions"));
    CHECK_INT(c->tied, whole("tied"));
    CHECK_INT(c->scale_by_layer, whole("scale_by_layer"));
    CHECK_INT(c->attention_bias, whole("qkv_bias"));
    CHECK_INT(c->output_bias, whole("output_bias"));
    CHECK_INT(c->mlp_bias, whole("mlp_bias"));
    CHECK_INT(c->bos, whole("bos"));
    CHECK_INT(c->pad, whole("pad"));
    CHECK_INT(c->rope.original_positions, whole("original"));
    CHECK_NEAR(c->norm_eps, real("norm_eps"), 0);
    CHECK_NEAR(c->init_std, real("init_std"), 0);
    CHECK_NEAR(c->dropout_embed, real("dropout_embed"), 0);
    CHECK_NEAR(c->dropout_residual, real("dropout_residual"), 0);
    CHECK_NEAR(c->dropout_attention, real("dropout_attention"), 0);
    CHECK_NEAR(c->rope.theta, real("theta"), 0);
    CHECK_NEAR(c->rope.factor, real("factor"), 0);
    CHECK_NEAR(c->rope.low_freq, real("low_freq"), 0);
    CHECK_NEAR(c->rope.high_freq, real("high_freq"), 0);
}

static void check_lists(const hil_config *c)
{
    json_t *windows = json_object_get(expected, "windows"), *eos = json_object_get(expected, "eos");
    CHECK_INT(json_array_size(windows), c->layers);
    for (int64_t i = 0; i < c->layers; ++i)
        CHECK_INT(hil_config_window(c, i), json_integer_value(json_array_get(windows, (size_t)i)));
    CHECK_INT(c->eos, json_integer_value(json_array_get(eos, 0)));
    for (size_t i = 0; i < HIL_EOS_MAX; ++i)
        CHECK_INT(c->eos_all[i],
                  i < json_array_size(eos) ? json_integer_value(json_array_get(eos, i)) : -1);
}

/* Every case that tools/golden_formats.py resolved with transformers. */
static void check_golden(void)
{
    hil_bytes map;
    json_t *cases;
    hil_config config;
    CHECK_OK(hil_bytes_read(&map, HIL_TESTS "/golden/formats/configs.json"));
    CHECK_OK(hil_json_parse(map.data, map.size, "configs.json", &cases));
    CHECK(json_array_size(cases) > 20);
    for (size_t i = 0; i < json_array_size(cases); ++i) {
        const json_t *item = json_array_get(cases, i);
        char *json = json_dumps(json_object_get(item, "config"), 0);
        expected = json_object_get(item, "expect");
        fprintf(stderr, "case %zu: %s\n", i, json);
        CHECK_OK(hil_config_parse(&config, json, strlen(json), "t"));
        check_numbers(&config);
        check_names(&config);
        check_lists(&config);
        free(json);
    }
    json_decref(cases);
    hil_bytes_free(&map);
}

#define LLAMA_SIZES                                                                                \
    "\"vocab_size\":96,\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":2,"
#define LLAMA "{\"model_type\":\"llama\"," LLAMA_SIZES "\"num_attention_heads\":4"
#define QWEN2                                                                                      \
    "{\"model_type\":\"qwen2\"," LLAMA_SIZES "\"num_attention_heads\":4,\"num_key_value_heads\":2"
#define GPT2 "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"n_positions\":8"

static void check_bad(const char *json, const char *words)
{
    hil_config config;
    CHECK_FAILS(hil_config_parse(&config, json, strlen(json), "t"), HIL_ERR_INPUT, words);
}

/* The form is under the older key or "format", in upper or lower case, as transformers reads it. */
static void check_packing(const char *quantized, bool less_one)
{
    char text[1024];
    hil_config config;
    snprintf(text, sizeof text, LLAMA ",\"quantization_config\":{%s,\"bits\":4}}", quantized);
    CHECK_OK(hil_config_parse(&config, text, strlen(text), "t"));
    CHECK(config.packing.method != HIL_PACKING_NONE);
    CHECK_INT(config.packing.less_one, less_one);
}

static void check_packings(void)
{
    check_packing("\"quant_method\":\"awq\",\"version\":\"GEMM\"", false);
    check_packing("\"quant_method\":\"awq\",\"version\":\"gemm\",\"format\":\"x\"", false);
    check_packing("\"quant_method\":\"gptq\"", true);
    check_packing("\"quant_method\":\"gptq\",\"checkpoint_format\":\"GPTQ\"", true);
    check_packing("\"quant_method\":\"gptq\",\"format\":\"GPTQ_V2\"", false);
    check_packing("\"quant_method\":\"gptq\",\"format\":\"gptq\","
                  "\"checkpoint_format\":\"gptq_v2\"",
                  false);
}

static void check_refused(void)
{
    hil_config config;
    const char nul[] = "{\"model_type\":\"llama\",\"vocab_size\":96\0}";
    CHECK_FAILS(hil_config_parse(&config, nul, sizeof nul - 1, "t"), HIL_ERR_INPUT, "NUL");
    check_bad("", "JSON");
    check_bad("[]", "not a JSON object");
    check_bad("{}", "\"model_type\" is missing; supported are gpt2, llama, mistral, qwen2, qwen3");
    check_bad("{\"model_type\":7}", "\"model_type\" must be a string");
    check_bad(
        "{\"model_type\":\"mamba\"}",
        "\"mamba\" is not supported; supported are gpt2, llama, mistral, qwen2, qwen3, mixtral");
    check_bad("{\"model_type\":\"mllama\",\"text_config\":{\"model_type\":\"mllama_text_model\"}}",
              "\"mllama\", whose text model is \"mllama_text_model\", is not supported");
    check_bad(LLAMA ",\"quantization_config\":{\"bits\":4}}", "method without a name");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"hqq\"}}", "the method hqq");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\"}}", "2, 4 or 8 bits");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":3}}",
              "gptq with other than 2, 4 or 8 bits are not supported; take the original");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":8}}",
              "awq with other than 4 bits");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,"
                    "\"version\":\"gemv\"}}",
              "another version than gemm");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,"
                    "\"zero_point\":false}}",
              "no zeros");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                    "\"checkpoint_format\":\"marlin\"}}",
              "another checkpoint_format");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                    "\"format\":\"marlin\"}}",
              "another checkpoint_format");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,"
                    "\"format\":\"gemv\"}}",
              "another version than gemm");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                    "\"group_size\":0}}",
              "groups of that size");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"bitsandbytes\","
                    "\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"fp4\"}}",
              "bnb_4bit_quant_type is fp4");
    check_bad(LLAMA ",\"quantization_config\":{\"quant_method\":\"fp8\","
                    "\"weight_block_size\":[64,128]}}",
              "weight_block_size");
    check_bad(LLAMA ",\"per_layer_config\":{\"0\":{\"x\":1}}}", "layers that differ");
    check_bad(LLAMA ",\"is_encoder_decoder\":true}", "is_encoder_decoder");
    check_bad(LLAMA ",\"hidden_act\":\"gelu\"}", "for llama only silu");
    check_bad(LLAMA ",\"hidden_act\":\"relu2\"}", "\"hidden_act\" is \"relu2\"");
    check_bad(
        LLAMA ",\"rope_scaling\":{\"type\":\"mrope\",\"factor\":2}}",
        "\"rope_scaling\" has type \"mrope\"; supported are default, linear, dynamic, llama3");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"factor\":2}}", "short_factor");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1],"
                    "\"long_factor\":[1]}}",
              "long_factor");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1],"
                    "\"long_factor\":[1,1]}}",
              "for each frequency");
    check_bad(LLAMA ",\"rope_parameters\":{\"full_attention\":{}}}", "per layer type");
    check_bad(LLAMA ",\"rope_scaling\":3}", "\"rope_scaling\" must be an object");
    check_bad(LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor");
    check_bad(LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", "partial_rotary");
    check_bad(GPT2 ",\"vocab_size\":96,\"scale_attn_weights\":false}", "scale_attn_weights");
    check_bad(GPT2 ",\"vocab_size\":96,\"add_cross_attention\":true}", "add_cross_attention");
    check_bad(GPT2 ",\"vocab_size\":96,\"activation_function\":\"silu\"}", "for gpt2 only gelu");
    check_bad(QWEN2 ",\"layer_types\":[\"full_attention\"]}", "1 entries for 2 layers");
    check_bad(QWEN2 ",\"layer_types\":[\"full_attention\",\"linear_attention\"]}", "linear_att");
    check_bad(QWEN2 ",\"layer_types\":[\"full_attention\",1]}", "layer_types");
    check_bad(QWEN2 ",\"layer_types\":\"full\"}", "must be a list");
    check_bad(QWEN2 ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
              "no window is switched on");
}

/* Each required size, missing and out of range. */
static void check_sizes(void)
{
    static const char *const llama[] = {"vocab_size", "hidden_size", "intermediate_size",
                                        "num_hidden_layers", "num_attention_heads"};
    static const char *const gpt2[] = {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"};
    static const char *const absurd[] = {"0",     "-1",    "99999999999", "9223372036854775807",
                                         "1.5",   "\"x\"", "[1]",         "true",
                                         "1e300", "null",  NULL};
    for (int arch = 0; arch < 2; ++arch)
        for (int bad = 0; bad < 5; ++bad)
            for (size_t i = 0; i < sizeof absurd / sizeof *absurd; ++i) {
                const char *const *key = arch ? gpt2 : llama;
                hil_text json = {0};
                CHECK_OK(hil_text_print(&json, "{\"model_type\":\"%s\"", arch ? "gpt2" : "llama"));
                for (int k = 0; k < 5; ++k) {
                    if (k != bad)
                        CHECK_OK(hil_text_print(&json, ",\"%s\":%d", key[k],
                                                strstr(key[k], "head") ? 4 : 64));
                    else if (absurd[i])
                        CHECK_OK(hil_text_print(&json, ",\"%s\":%s", key[k], absurd[i]));
                }
                CHECK_OK(hil_text_print(&json, "}"));
                check_bad(json.data, key[bad]);
                hil_text_free(&json);
            }
}

static void check_numbers_refused(void)
{
    check_bad(LLAMA ",\"num_key_value_heads\":3}", "does not divide");
    check_bad(LLAMA ",\"num_key_value_heads\":8}", "does not divide");
    check_bad(LLAMA ",\"num_key_value_heads\":0}", "num_key_value_heads");
    check_bad(LLAMA ",\"head_dim\":7}", "even \"head_dim\"");
    check_bad(LLAMA ",\"head_dim\":0}", "head_dim");
    check_bad(LLAMA ",\"head_dim\":9999999999999}", "head_dim");
    check_bad("{\"model_type\":\"llama\"," LLAMA_SIZES "\"num_attention_heads\":3}",
              "do not divide");
    check_bad("{\"model_type\":\"mistral\"," LLAMA_SIZES "\"num_attention_heads\":24}", "do not");
    check_bad("{\"model_type\":\"qwen2\"," LLAMA_SIZES "\"num_attention_heads\":4}",
              "\"num_key_value_heads\" (32) does not divide");
    check_bad("{\"model_type\":\"llama\",\"vocab_size\":16777216,\"hidden_size\":4194304,"
              "\"num_hidden_layers\":10000,\"num_attention_heads\":64,"
              "\"intermediate_size\":16777216}",
              "parameters");
    check_bad(LLAMA ",\"max_position_embeddings\":0}", "max_position_embeddings");
    check_bad(LLAMA ",\"rms_norm_eps\":0}", "rms_norm_eps");
    check_bad(LLAMA ",\"rms_norm_eps\":-1e-5}", "rms_norm_eps");
    check_bad(LLAMA ",\"rms_norm_eps\":\"1e-5\"}", "\"rms_norm_eps\" must be a number");
    check_bad(LLAMA ",\"rms_norm_eps\":NaN}", "JSON");
    check_bad(LLAMA ",\"initializer_range\":-1}", "initializer_range");
    check_bad(LLAMA ",\"attention_dropout\":1}", "attention_dropout");
    check_bad(LLAMA ",\"rope_theta\":0}", "rope_theta");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", "\"factor\" is missing");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", "factor");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
                    "\"high_freq_factor\":3}}",
              "high_freq_factor");
    check_bad(LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
                    "\"high_freq_factor\":4,\"original_max_position_embeddings\":-5}}",
              "original_max");
    check_bad(LLAMA ",\"eos_token_id\":\"</s>\"}", "eos_token_id");
    check_bad(LLAMA ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "too long");
    check_bad(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":0}", "sliding_window");
    check_bad(GPT2 ",\"vocab_size\":96,\"n_inner\":-3}", "n_inner");
}

static char *slurp(const char *path)
{
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, path));
    char *copy = calloc(map.size + 1, 1);
    memcpy(copy, map.data, map.size);
    hil_bytes_free(&map);
    return copy;
}

/* Files on disk: a folder, a file, the ids of generation_config.json. */
static void check_open(void)
{
    char folder[] = "/tmp/hil-config-XXXXXX", path[HIL_PATH_MAX], beside[HIL_PATH_MAX];
    hil_config config;
    CHECK(mkdtemp(folder) != NULL);
    CHECK_FAILS(hil_config_open(&config, folder), HIL_ERR_INPUT, "no config.json is there");
    CHECK_FAILS(hil_config_open(&config, "/no/such/folder"), HIL_ERR_IO, "/no/such/folder");
    CHECK_OK(hil_path_join(path, folder, "config.json"));
    CHECK_OK(hil_path_join(beside, folder, "generation_config.json"));
    CHECK_OK(hil_file_write(path, LLAMA ",\"eos_token_id\":3}", strlen(LLAMA) + 18));
    CHECK_OK(hil_config_open(&config, folder));
    CHECK_INT(config.eos_all[0], 3);
    CHECK_INT(config.eos_all[1], -1);
    CHECK_OK(hil_file_write(beside, "{\"eos_token_id\":[5,4]}", 22));
    for (int as_file = 0; as_file < 2; ++as_file) {
        CHECK_OK(hil_config_open(&config, as_file ? path : folder));
        CHECK_INT(config.eos, 3);
        CHECK_INT(config.eos_all[0], 5);
        CHECK_INT(config.eos_all[1], 4);
        CHECK_INT(config.eos_all[2], -1);
    }

    const char infinite[] =
        "{\"note\":\"an \\\"Infinity\",\"model_type\":\"nemotron_h\",\"vocab_size\":96,"
        "\"hidden_size\":32,\"x\":[0.0, Infinity, -Infinity]}";
    CHECK_OK(hil_file_write(path, infinite, strlen(infinite)));
    hil_bytes text = {0}, none = {0};
    CHECK_OK(hil_config_read(&config, path, &text, &none));
    CHECK(strstr(text.data, "an \\\"Infinity\"") &&
          strstr(text.data, "[0.0, 1e38    , -1e38    ]"));
    hil_bytes_free(&text);
    hil_bytes_free(&none);
    CHECK_OK(hil_file_write(path, LLAMA ",\"eos_token_id\":3}", strlen(LLAMA) + 18));

    char out[] = "/tmp/hil-config-XXXXXX";
    hil_sidecar_files files = {0};
    CHECK(mkdtemp(out) != NULL);
    CHECK_OK(hil_sidecar_files_read(&files, folder));
    CHECK_OK(hil_path_join(beside, out, "config.json"));
    CHECK_OK(hil_sidecar_files_write_config(&files, out, HIL_BF16, HIL_QUANT_NONE));
    char *written = slurp(beside);
    CHECK_TEXT(written, LLAMA ",\"eos_token_id\":3,\"architectures\": [\"LlamaForCausalLM\"],"
                              "\"dtype\": \"bfloat16\"}");
    free(written);
    for (long n = 1;; ++n) {
        CHECK_OK(hil_file_remove_tree(beside));
        hil_alloc_fail_at(n);
        hil_status status = hil_sidecar_files_write_config(&files, out, HIL_F16, HIL_QUANT_NONE);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
        CHECK(!hil_file_exists(beside));
    }
    hil_sidecar_files_free(&files);
    CHECK_OK(hil_file_remove_tree(out));
    CHECK_OK(hil_file_remove_tree(folder));
}

static void check_edit(const char *json, hil_dtype dtype, const char *want)
{
    hil_text out = {0};
    CHECK_OK(hil_config_edit(&out, json, strlen(json), dtype, HIL_QUANT_NONE));
    CHECK_TEXT(out.data, want);
    hil_text_free(&out);
}

static void check_edits(void)
{
    check_edit("{\n  \"dtype\" : null ,\n  \"architectures\": [ \"X\" ],\n  \"odd }\\\"\": [1e-05, "
               "{\"dtype\": 3}],\n  \"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,"
               "\"n_layer\":2,\"n_positions\":8,\"vocab_size\":96\n}\n",
               HIL_F32,
               "{\n  \"dtype\" : \"float32\" ,\n  \"architectures\": [ \"X\" ],\n  \"odd }\\\"\": "
               "[1e-05, {\"dtype\": 3}],\n  \"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,"
               "\"n_layer\":2,\"n_positions\":8,\"vocab_size\":96\n}\n");
    check_edit(LLAMA ",\"torch_dtype\":\"float32\",\"architectures\":null}", HIL_F16,
               LLAMA ",\"torch_dtype\":\"float16\",\"architectures\":[\"LlamaForCausalLM\"]}");
    check_edit(
        "{\n    \"architectures\":[],\"model_type\":\"qwen2\"," LLAMA_SIZES
        "\"num_attention_heads\":4,\"num_key_value_heads\":2 }\n",
        HIL_BF16,
        "{\n    \"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\"," LLAMA_SIZES
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\n    \"dtype\": \"bfloat16\" }\n");
}

#define DEEPSEEK                                                                                   \
    "{\"model_type\":\"deepseek_v3\"," LLAMA_SIZES                                                 \
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"n_routed_experts\":16"

/* The keys of the published DeepSeek-V3, and what transformers makes of them. */
static void check_deepseek(void)
{
    static const char json[] = DEEPSEEK
        ",\"num_experts_per_tok\":4,\"first_k_dense_replace\":1,\"n_shared_experts\":3,"
        "\"moe_intermediate_size\":10,\"moe_layer_freq\":1,\"scoring_func\":\"sigmoid\","
        "\"topk_method\":\"noaux_tc\",\"num_nextn_predict_layers\":1,\"rope_scaling\":{\"type\":"
        "\"yarn\",\"factor\":40,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
        "\"original_max_position_embeddings\":4096,\"beta_fast\":32,\"beta_slow\":1}}";
    hil_config c;
    CHECK_OK(hil_config_parse(&c, json, strlen(json), "t"));
    CHECK_INT(hil_config_key_dim(&c), 192);
    CHECK_INT(c.latent.value, 128);
    CHECK_INT(c.mixture.shared, 30);
    CHECK_INT(c.mixture.groups, 8);
    CHECK_INT(c.mixture.dense[0], 1);
    CHECK_NEAR(c.rope.attention_factor, 1, 0);
    double mscale = 0.1 * log(40) + 1;
    CHECK_NEAR(c.attention_scale, mscale * mscale / sqrt(192), 1e-12);
    check_bad("{\"model_type\":\"deepseek_v3\",\"vocab_size\":96,\"hidden_size\":4194304,"
              "\"num_hidden_layers\":64,\"intermediate_size\":64,\"max_position_embeddings\":8,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"n_routed_experts\":16,"
              "\"moe_intermediate_size\":4194304}",
              "these sizes make a model of");
    check_bad(DEEPSEEK ",\"scoring_func\":\"softmax\"}", "for deepseek_v3 only sigmoid is known");
    check_bad(DEEPSEEK ",\"moe_layer_freq\":2}", "\"moe_layer_freq\" other than 1");
    check_bad(DEEPSEEK ",\"n_group\":5}", "\"n_group\" does not cut the experts into groups");
    check_bad(DEEPSEEK ",\"topk_group\":1}", "\"topk_group\" leaves too few experts");
    check_bad(DEEPSEEK ",\"v_head_dim\":193}", "\"v_head_dim\" is larger");
    check_bad(DEEPSEEK ",\"mlp_bias\":true}", "\"mlp_bias\" is true");
    check_bad("{\"model_type\":\"other_linear\",\"linear_attn_config\":{}}",
              "\"other_linear\" is not supported: it has layers with linear attention");
}

int main(void)
{
    check_golden();
    check_deepseek();
    check_packings();
    check_refused();
    check_sizes();
    check_numbers_refused();
    check_open();
    check_edits();
    return 0;
}
