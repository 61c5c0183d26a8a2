/* The shared collections, if present: files that the reference accepts or refuses, and real
   configs. */
#include "base/json.h"
#include "model/config/config.h"
#include "format/safetensors.h"
#include "check.h"

#define SHARED HIL_TESTS "/../../shared/data/"
#define REAL SHARED "real-model-folders/"

/* Files that hilbert refuses and the reference accepts: duplicate names, a NUL in a name. */
static bool is_stricter(const char *name)
{
    return strcmp(name, "dup_key.safetensors") == 0 || strcmp(name, "name_escape.safetensors") == 0;
}

static void check_verdicts(const char *folder, const char *verdict)
{
    char path[HIL_PATH_MAX];
    hil_bytes map;
    json_t *list;
    CHECK_OK(hil_path_join(path, folder, "manifest.json"));
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_OK(hil_json_parse(map.data, map.size, path, &list));
    CHECK(json_array_size(list) >= 20);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, "file"));
        const char *expect = json_string_value(json_object_get(item, verdict));
        bool good = strncmp(expect, "ok", 2) == 0 && !is_stricter(name);
        hil_safetensors *file;
        CHECK_OK(hil_path_join(path, folder, name));
        hil_status status = hil_safetensors_open(&file, path);
        fprintf(stderr, "%s: %s\n", name, status == HIL_OK ? "ok" : hil_status_message());
        CHECK_INT(status, good ? HIL_OK : HIL_ERR_INPUT);
        hil_safetensors_close(file);
    }
    json_decref(list);
    hil_bytes_free(&map);
}

/* A real folder without its weights: its config, and the first shard that its index names. */
static void check_folder(const char *name, const char *refused, const char *shard)
{
    char path[HIL_PATH_MAX];
    hil_config config;
    hil_safetensors *file;
    CHECK_OK(hil_path_join(path, REAL, name));
    if (refused)
        CHECK_FAILS(hil_config_open(&config, path), HIL_ERR_INPUT, refused);
    else
        CHECK_OK(hil_config_open(&config, path));
    CHECK_FAILS(hil_safetensors_open_folder(&file, path), HIL_ERR_INPUT, shard);
}

static void check_values(void)
{
    hil_config config;
    CHECK_OK(hil_config_open(&config, REAL "PANDASANG1231+llama_3.2-3B-huggingface-shard0"));
    CHECK_INT(config.rope.kind, HIL_ROPE_LLAMA3);
    CHECK_NEAR(config.rope.factor, 32, 0);
    CHECK_INT(config.rope.original_positions, 8192);
    CHECK_INT(config.tied, true);
    CHECK_INT(config.dtype, HIL_BF16);
    CHECK_OK(hil_config_open(&config, REAL "fetchwiki+mistralai-Devstral-Small-2507"));
    CHECK_INT(config.head_dim, 128);
    CHECK_INT(hil_config_window(&config, 39), 0);
    CHECK_OK(hil_config_open(&config, REAL "fetchwiki+deepcogito-cogito-v1-preview-qwen-14B"));
    CHECK_INT(config.attention_bias, true);
    CHECK_INT(config.output_bias, false);
    CHECK_INT(hil_config_window(&config, 47), 0);
    CHECK_OK(hil_config_open(&config, REAL "bryce-hoehn+Qwen3.5-25B-REAP-A3B-Coding"));
    CHECK(hil_config_linear(&config, 38) && !hil_config_linear(&config, 39));
    CHECK_INT(hil_config_rope_dims(&config, &config.rope), 64);
}

static void check_stories(void)
{
    hil_config config;
    hil_safetensors *file;
    hil_text text = {0};
    hil_bytes map;
    CHECK_OK(hil_config_open(&config, SHARED "stories260K/hf"));
    CHECK_INT(config.kv_heads, 4);
    CHECK_OK(hil_safetensors_open_folder(&file, SHARED "stories260K/hf"));
    const hil_entry *entry = hil_safetensors_find(file, "model.embed_tokens.weight");
    CHECK_INT(entry->dim[0], config.vocab);
    CHECK_INT(entry->dim[1], config.hidden);
    hil_safetensors_close(file);
    CHECK_OK(hil_bytes_read(&map, SHARED "stories260K/hf/config.json"));
    CHECK_OK(hil_config_edit(&text, map.data, map.size, HIL_F32, HIL_QUANT_NONE));
    CHECK_INT(text.size, map.size);
    CHECK(memcmp(text.data, map.data, map.size) == 0); /* the same dtype: the same bytes */
    hil_text_free(&text);
    hil_bytes_free(&map);
}

int main(void)
{
    if (!hil_file_exists(SHARED)) return CHECK_SKIP;
    check_verdicts(SHARED "safetensors-conformance", "expect");
    check_verdicts(SHARED "safetensors-conformance/probe", "reference_0.8.0");
    const char *first = "model-00001-of-";
    check_folder("Avent-IQ+pythia-410m", NULL, "no weights");
    check_folder("Ibtasam-98+medgemma-27b-it", NULL, first);
    check_folder("MiMiGame-1+Reflection-Llama-3.1-70B", NULL, first);
    check_folder("PANDASANG1231+llama_3.2-3B-huggingface-shard0", NULL, "embed_tokens.safetensors");
    check_folder("YouZiSoftware+lzlv_70b_fp16_hf", NULL, first);
    check_folder("YouriLalain+3PRYMMAL-PHI3-3B-SLERP", NULL, first);
    check_folder("ananddhanabal+gemma", NULL, first);
    check_folder("bryce-hoehn+Qwen3.5-25B-REAP-A3B-Coding", NULL, first);
    check_folder("fetchwiki+deepcogito-cogito-v1-preview-qwen-14B", NULL, first);
    check_folder("fetchwiki+mistralai-Devstral-Small-2507", NULL, first);
    check_folder("jeremieconte+granite-3.1-1b-a400m-instruct", NULL, "");
    check_folder("root-hypercube+qwen3-mlx", NULL, "model.safetensors: missing");
    check_folder("tbressers+WizardLM-2-8x22B", NULL, first);
    check_values();
    check_stories();
    return 0;
}
