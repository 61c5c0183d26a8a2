/* golden.h - PyTorch's results for the tiny models of tests/golden/models, by name. */
#ifndef HIL_TESTS_GOLDEN_H
#define HIL_TESTS_GOLDEN_H

#include "base/alloc.h"
#include "check.h"
#include "format/safetensors.h"

/* The six dense architectures, variants, mixtures; tools/golden_models.py describes each folder. */
#define GOLDEN_MODELS                                                                              \
    "gpt2", "llama", "llama3", "mistral", "qwen2", "qwen3", "gpt2_untied", "llama_bias",           \
        "qwen2_window", "mixtral", "qwen3_moe"

/* Small models of the other architectures, with what they generate; phi3_long lacks that. */
#define GOLDEN_FAMILIES                                                                            \
    "qwen3_pad", "gemma", "gemma2", "gemma3", "phi3", "llama_yarn", "phi", "gpt_neox",             \
        "gpt_neox_serial", "olmo2", "olmo3", "granite", "smollm3", "stablelm",                     \
        "stablelm_parallel", "cohere", "cohere2", "mistral_nemo", "olmoe", "qwen2_moe",            \
        "granitemoe", "exaone4", "gpt_oss", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3",      \
        "deepseek_v3_plain", "glm4_moe", "glm4_moe_lite", "dots1", "phi_norms", "cohere_norms",    \
        "stablelm_norms", "glm", "glm4", "seed_oss", "ministral", "starcoder2", "helium",          \
        "vaultgemma", "cwm", "internlm3", "ernie4_5", "ernie4_5_moe", "minimax_m2", "solar_open",  \
        "exaone_moe", "flex_olmo", "granitemoeshared", "hunyuan_v1_dense", "hunyuan_v1_moe",       \
        "ministral3", "nemotron", "arcee", "olmo", "gemma4", "gemma4_values", "gemma4_unified",    \
        "qwen3_next", "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe", "gemma4_moe", "llama4",        \
        "llama4_two", "granitemoehybrid", "granitemoehybrid_dense", "nemotron_h",                  \
        "nemotron_h_moe", "falcon_h1", "falcon_h1_norm", "bamba", "mamba2", "apertus", "jais2",    \
        "nanochat", "iquestcoder", "hyperclovax", "granite_swa", "gptj", "opt", "youtu",           \
        "minicpm3", "mellum", "afmoe", "hy_v3", "granitemoe_swa", "lfm3", "axk1", "flint",         \
        "kolibri1", "kimi_linear", "mistral4", "longcat_flash", "olmo_hybrid",                     \
        "olmo_hybrid_turned", "cohere2_moe", "cohere2_moe_norms", "mimo_v2_flash", "laguna",       \
        "laguna_elements", "bailing_hybrid", "deepseek_v32", "glm_moe_dsa", "gpt_bigcode",         \
        "gpt_bigcode_heads", "falcon", "falcon_groups", "falcon_one_norm", "falcon_serial",        \
        "persimmon"

enum { GOLDEN_SEQ = 32, GOLDEN_BATCH = 4, GOLDEN_STEPS = 20 };

/* The path of a model's folder, or of a file in it where `file` is not NULL. hil_free it. */
static inline char *golden_path(const char *model, const char *file)
{
    size_t size = sizeof HIL_TESTS + strlen(model) + (file ? strlen(file) : 0) + 32;
    char *path;
    CHECK_OK(HIL_ALLOC(size, &path));
    snprintf(path, size, "%s/golden/models/%s%s%s", HIL_TESTS, model, file ? "/" : "",
             file ? file : "");
    return path;
}

/* golden.safetensors of a model. Close it with hil_safetensors_close. */
static inline hil_safetensors *golden_open(const char *model)
{
    char *path = golden_path(model, "golden.safetensors");
    hil_safetensors *file;
    CHECK_OK(hil_safetensors_open(&file, path));
    hil_free(path);
    return file;
}

/* A copy of a tensor of four-byte numbers ("F32" or "I32"); hil_free it. */
static inline void *golden_copy(const hil_safetensors *file, const char *name, const char *dtype,
                                int64_t *count)
{
    const hil_entry *entry = hil_safetensors_find(file, name);
    if (!entry) check_die("golden file", 0, name);
    CHECK_TEXT(entry->dtype, dtype);
    void *copy;
    CHECK_OK(hil_alloc(entry->bytes / 4, 4, &copy));
    CHECK_OK(hil_entry_read(entry, 0, copy, entry->bytes));
    *count = (int64_t)(entry->bytes / 4);
    return copy;
}

static inline float *golden_floats(const hil_safetensors *file, const char *name, int64_t *count)
{
    return golden_copy(file, name, "F32", count);
}

static inline int32_t *golden_ints(const hil_safetensors *file, const char *name, int64_t *count)
{
    return golden_copy(file, name, "I32", count);
}

/* Relative error of a tensor: max|a-b| / max|b|; infinite where either holds a NaN. */
static inline double golden_error(const float *a, const float *b, int64_t count)
{
    double difference = 0, largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (isnan(d)) return INFINITY;
        difference = fmax(difference, d);
        largest = fmax(largest, fabs((double)b[i]));
    }
    return difference == 0 ? 0 : difference / largest;
}

/* The same against a tensor of the file, which must have `count` numbers. */
static inline double golden_compare(const hil_safetensors *file, const char *name, const float *a,
                                    int64_t count)
{
    int64_t expected;
    float *b = golden_floats(file, name, &expected);
    CHECK_INT(count, expected);
    double error = golden_error(a, b, count);
    hil_free(b);
    return error;
}

#endif
