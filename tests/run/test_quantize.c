/* quantize writes the bytes that bitsandbytes writes for nf4, and the same tensors as the golden
   folders for int8 and fp8; evaluation and training from its folder have the bits of --base-dtype
   on the original. */
#include "format/same_bytes.h"
#include "job.h"

#include "format/safetensors.h"

#define FOLDERS HIL_TESTS "/golden/quantized/"

static void quantize(const job_place *place, const char *kind, const char *out)
{
    hil_quantize_options options;
    hil_quantize_result result;
    hil_quantize_defaults(&options);
    options.model = place->model;
    options.base_dtype = kind;
    options.out = out;
    options.threads = 2;
    CHECK_OK(hil_quantize(&options, NULL, &result));
    CHECK_TEXT(result.dtype, kind);
    CHECK(result.matrices > 0);
}

static void check_same_tensors(const char *left, const char *right)
{
    hil_safetensors *a, *b;
    CHECK_OK(hil_safetensors_open_folder(&a, left));
    CHECK_OK(hil_safetensors_open_folder(&b, right));
    CHECK_INT(hil_safetensors_count(a), hil_safetensors_count(b));
    for (size_t i = 0; i < hil_safetensors_count(a); ++i) {
        const hil_entry *x = hil_safetensors_at(a, i), *y = hil_safetensors_find(b, x->name);
        char *in_a, *in_b;
        if (!y) printf("%s is missing\n", x->name);
        CHECK(y != NULL);
        CHECK_TEXT(x->dtype, y->dtype);
        CHECK_INT(x->ndim, y->ndim);
        for (int k = 0; k < x->ndim; ++k) CHECK_INT(x->dim[k], y->dim[k]);
        CHECK_OK(HIL_ALLOC(x->bytes, &in_a));
        CHECK_OK(HIL_ALLOC(y->bytes, &in_b));
        CHECK_OK(hil_entry_read(x, 0, in_a, x->bytes));
        CHECK_OK(hil_entry_read(y, 0, in_b, y->bytes));
        if (memcmp(in_a, in_b, x->bytes) != 0) printf("%s differs\n", x->name);
        CHECK(memcmp(in_a, in_b, x->bytes) == 0);
        hil_free(in_a);
        hil_free(in_b);
    }
    hil_safetensors_close(a);
    hil_safetensors_close(b);
}

/* Every member of quantization_config that the golden folder has, except which modules are left
   out: hilbert names them. */
static void check_config(const char *out, const char *golden)
{
    const char *const folder[] = {out, golden}, *key;
    json_t *config[2], *value;
    for (int i = 0; i < 2; ++i) {
        char path[JOB_PATH];
        hil_bytes bytes;
        CHECK_OK(hil_path_join(path, folder[i], "config.json"));
        CHECK_OK(hil_bytes_read(&bytes, path));
        CHECK_OK(hil_json_parse(bytes.data, bytes.size, path, &config[i]));
        hil_bytes_free(&bytes);
    }
    json_t *own = json_object_get(config[0], "quantization_config");
    json_object_foreach(json_object_get(config[1], "quantization_config"), key, value)
    {
        if (strcmp(key, "llm_int8_skip_modules") == 0) continue;
        if (!json_equal(json_object_get(own, key), value)) printf("%s differs\n", key);
        CHECK(json_equal(json_object_get(own, key), value));
    }
    json_decref(config[0]);
    json_decref(config[1]);
}

static double adapted_loss(job_place *place, const char *folder, const char *base_dtype,
                           const char *adapter)
{
    hil_eval_options options = job_eval_options(place);
    hil_eval_result result;
    options.model = folder;
    options.base_dtype = base_dtype;
    options.adapter = adapter;
    if (hil_text_ends_with(place->tokens, ".txt")) options.tokenizer = "bytes";
    CHECK_OK(hil_eval(&options, NULL, &result));
    return result.loss;
}

static double loss_of(job_place *place, const char *folder, const char *base_dtype)
{
    return adapted_loss(place, folder, base_dtype, NULL);
}

/* `golden` is NULL where no other program writes such folders. */
static void check(job_place *place, const char *base, const char *kind, const char *golden)
{
    char out[JOB_PATH], name[64], folder[JOB_PATH], one[JOB_PATH], two[JOB_PATH];
    snprintf(name, sizeof name, "%s_%s", base, kind);
    (void)job_options(place, base, "");
    quantize(place, kind, job_path(place, out, name));
    CHECK(loss_of(place, out, NULL) == loss_of(place, place->model, kind));
    if (!golden) return;
    snprintf(folder, sizeof folder, FOLDERS "%s", golden);
    check_same_tensors(folder, out);
    check_config(out, folder);
    CHECK_OK(hil_path_join(one, folder, "model.safetensors"));
    CHECK_OK(hil_path_join(two, out, "model.safetensors"));
    check_same_bytes(one, two);
}

/* Experts are quantized, the router that chooses them is not. */
static void check_mixture(job_place *place)
{
    char out[JOB_PATH];
    hil_safetensors *file;
    check(place, "mixtral", "nf4", NULL);
    check(place, "deepseek_v3", "fp8", NULL);
    CHECK_OK(hil_safetensors_open_folder(&file, job_path(place, out, "mixtral_nf4")));
    const hil_entry *router =
        hil_safetensors_find(file, "model.layers.1.block_sparse_moe.gate.weight");
    const hil_entry *expert =
        hil_safetensors_find(file, "model.layers.1.block_sparse_moe.experts.2.w1.weight");
    CHECK(router && expert);
    CHECK_TEXT(router->dtype, "F32");
    CHECK_TEXT(expert->dtype, "U8");
    hil_safetensors_close(file);
}

static void train(job_place *place, const char *model, const char *base_dtype, const char *out)
{
    hil_train_options options = job_options(place, "llama", out);
    options.model = model;
    options.base_dtype = base_dtype;
    options.adapter.source = "lora";
    options.steps = 3;
    options.lr = 1e-2;
    job_train(&options);
}

static void check_training(job_place *place)
{
    char folder[JOB_PATH], one[JOB_PATH], two[JOB_PATH], model[JOB_PATH];
    (void)job_options(place, "llama", "");
    memcpy(model, place->model, sizeof model);
    train(place, model, "nf4", job_path(place, one, "one"));
    train(place, job_path(place, folder, "llama_nf4"), NULL, job_path(place, two, "two"));
    CHECK(job_same(one, two));
    /* The adapter itself is not quantized. */
    CHECK(adapted_loss(place, model, "nf4", one) == adapted_loss(place, folder, NULL, one));
}

/* A matrix of more numbers than are quantized at once. */
static void check_pieces(job_place *place)
{
    static const char *const kinds[] = {"nf4", "int8", "fp8"};
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 128, \"intermediate_size\": 33000, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 261, "
        "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5}";
    char path[JOB_PATH], model[JOB_PATH], out[JOB_PATH];
    hil_train_options options = job_options(place, "llama", job_path(place, model, "wide"));
    CHECK_OK(hil_file_write(job_path(place, path, "config.json"), config, sizeof config - 1));
    CHECK_OK(hil_file_write(job_path(place, place->tokens, "text.txt"), config, 100));
    options.model = path;
    options.tokenizer = "bytes";
    options.dtype = "bf16";
    options.steps = 1;
    options.batch = 1;
    job_train(&options);
    memcpy(place->model, model, sizeof model);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        quantize(place, kinds[i], job_path(place, out, kinds[i]));
        CHECK(loss_of(place, out, NULL) == loss_of(place, model, kinds[i]));
    }
}

static void check_refusals(job_place *place)
{
    char out[JOB_PATH], done[JOB_PATH];
    hil_quantize_options options;
    hil_quantize_result result;
    hil_quantize_defaults(&options);
    (void)job_options(place, "llama", "");
    options.model = place->model;
    options.out = job_path(place, done, "llama_nf4");
    CHECK_FAILS(hil_quantize(&options, NULL, &result), HIL_ERR_USAGE, "--overwrite");
    options.out = options.model;
    CHECK_FAILS(hil_quantize(&options, NULL, &result), HIL_ERR_USAGE, "what is read");
    options.out = job_path(place, out, "new/folder");
    options.base_dtype = "bf16";
    CHECK_FAILS(hil_quantize(&options, NULL, &result), HIL_ERR_USAGE, "nf4, int8 or fp8");
    options.base_dtype = "nf4";
    options.model = done;
    CHECK_FAILS(hil_quantize(&options, NULL, &result), HIL_ERR_USAGE, "quantized already");
    volatile int stop = 1;
    options.model = place->model;
    options.stop = &stop;
    CHECK_FAILS(hil_quantize(&options, NULL, &result), HIL_ERR_INTERRUPTED, "stopped");
    CHECK(!hil_file_exists(job_path(place, out, "new")));
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check(&place, "llama", "nf4", "llama_nf4");
    check(&place, "llama", "int8", "llama_int8");
    check(&place, "llama", "fp8", "llama_fp8");
    check(&place, "gpt2", "nf4", "gpt2_nf4");
    check(&place, "gpt2", "int8", NULL);
    check(&place, "qwen2", "fp8", NULL);
    check_mixture(&place);
    check_training(&place);
    check_pieces(&place);
    check_refusals(&place);
    job_end(&place);
    return 0;
}
