/* hil_inspect lists what the Python safetensors package lists. */
#include "copy.h"
#include "hilbert/inspect.h"
#include "base/json.h"
#include "io/file.h"
#include "check.h"

static char output[1 << 16];

static hil_status run(const char *path, bool json)
{
    FILE *out = tmpfile();
    CHECK(out != NULL);
    hil_status status = hil_inspect(path, json, out);
    rewind(out);
    output[fread(output, 1, sizeof output - 1, out)] = 0;
    fclose(out);
    return status;
}

static int64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    CHECK(json_is_integer(value));
    return json_integer_value(value);
}

/* Sums from the Python package over the three files. */
static void check_folder(void)
{
    json_t *root;
    CHECK_OK(run(HIL_TESTS "/golden/formats/sharded", true));
    CHECK_OK(hil_json_parse(output, strlen(output), "output", &root));
    const json_t *total = json_object_get(root, "total"), *list = json_object_get(root, "tensors");
    CHECK_INT(number(total, "tensors"), 21);
    CHECK_INT(number(total, "parameters"), 1384);
    CHECK_INT(number(total, "bytes"), 1384 * 4);
    CHECK_INT(json_array_size(list), 21);
    bool found = false;
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *tensor = json_array_get(list, i), *shape = json_object_get(tensor, "shape");
        if (strcmp(json_string_value(json_object_get(tensor, "name")), "lm_head.weight") != 0)
            continue;
        found = true;
        CHECK_TEXT(json_string_value(json_object_get(tensor, "dtype")), "F32");
        CHECK_INT(json_array_size(shape), 2);
        CHECK_INT(json_integer_value(json_array_get(shape, 0)), 16);
        CHECK_INT(json_integer_value(json_array_get(shape, 1)), 8);
        CHECK_INT(number(tensor, "elements"), 128);
    }
    CHECK(found);
    const json_t *config = json_object_get(root, "config");
    CHECK_TEXT(json_string_value(json_object_get(config, "model_type")), "llama");
    CHECK_INT(number(config, "layers"), 2);
    CHECK_INT(number(config, "vocab"), 16);
    json_decref(root);

    CHECK_OK(run(HIL_TESTS "/golden/formats/sharded", false));
    CHECK(strstr(output, "model.norm.weight                               F32      [8]    "));
    CHECK(strstr(output, "21 tensors, 1384 parameters, 5536 bytes (5.4 KiB)\n"));
    CHECK(strstr(output, "llama: 2 layers, hidden 8,"));
}

/* The same numbers as data. */
static void check_data(void)
{
    hil_inspection *x;
    CHECK_OK(hil_inspect_open(&x, HIL_TESTS "/golden/formats/sharded"));
    CHECK_INT(x->tensors, 21);
    CHECK_INT(x->parameters, 1384);
    CHECK_INT(x->bytes, 1384 * 4);
    CHECK_INT(x->states, 0);
    CHECK(!x->run && !x->run_error && !x->config_error);
    CHECK_TEXT(x->config->model_type, "llama");
    CHECK_INT(x->config->layers, 2);
    CHECK_INT(x->config->vocab, 16);
    const hil_inspected_tensor *head = NULL;
    for (size_t i = 0; i < x->tensors; ++i)
        if (strcmp(x->tensor[i].name, "lm_head.weight") == 0) head = &x->tensor[i];
    CHECK(head != NULL);
    CHECK_TEXT(head->dtype, "F32");
    CHECK(head->dims == 2 && head->shape[0] == 16 && head->shape[1] == 8);
    CHECK(head->elements == 128 && head->bytes == 512);
    hil_inspect_close(x);
    hil_inspect_close(NULL);
    CHECK_FAILS(hil_inspect_open(&x, "/nonexistent"), HIL_ERR_IO, "/nonexistent");
    CHECK(x == NULL);
}

/* A folder without a model's names is the sum of its files. */
static void check_files(void)
{
    CHECK_OK(run(HIL_TESTS "/golden/formats/sharded/model-00001-of-00003.safetensors", false));
    CHECK(strstr(output, "6 tensors, 480 parameters"));
    CHECK(strstr(output, "llama") == NULL);
    CHECK_OK(run(HIL_TESTS "/golden/formats", false));
    CHECK(strstr(output, " tensors, "));
}

/* A checkpoint has three states of each parameter; the parameters count once. */
static void check_checkpoint(void)
{
    static const char *const state[] = {"master", "moment1", "moment2"};
    char folder[] = "/tmp/hilbert-inspect-XXXXXX", step[64], path[128];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/step-9", folder);
    CHECK_OK(hil_dir_create(path));
    snprintf(step, sizeof step, "%s/step-10", folder);
    CHECK_OK(hil_dir_create(step));
    for (int i = 0; i < 3; ++i) {
        snprintf(path, sizeof path, "%s/%s.safetensors", step, state[i]);
        CHECK_OK(copy_file(HIL_TESTS "/golden/models/gpt2/model.safetensors", path));
    }
    snprintf(path, sizeof path, "%s/manifest.json", step);
    CHECK_OK(hil_file_write(path, "{}", 2));
    CHECK_OK(run(step, false));
    CHECK(strstr(output, "28 tensors, 24674 parameters, 296088 bytes"));
    CHECK(strstr(output, "\nmoment2.safetensors: second moments, of the same shapes, 96.4"));
    CHECK_OK(run(step, true));
    CHECK(strstr(output, "\"states\":{\"master\":98696,\"moment1\":98696,\"moment2\":98696}"));
    CHECK(strstr(output, "\"total\":{\"tensors\":28,\"parameters\":24674,\"bytes\":296088}"));
    CHECK(strstr(output, "step-10/manifest.json is damaged"));
    hil_inspection *x;
    CHECK_OK(hil_inspect_open(&x, step));
    CHECK(x->states == 3 && x->state[1].bytes == 98696 && !x->run);
    CHECK_TEXT(x->state[2].name, "moment2");
    CHECK(strstr(x->run_error, "step-10/manifest.json is damaged"));
    hil_inspect_close(x);
    CHECK_OK(run(folder, false)); /* the newest of them */
    CHECK(strstr(output, "28 tensors, 24674 parameters, 296088 bytes"));
    CHECK(strstr(output, "step-10/manifest.json is damaged"));
    CHECK_OK(hil_file_remove_tree(folder));
}

static void check_failures(void)
{
    CHECK_FAILS(run(HIL_TESTS "/golden/models/gpt2/config.json", false), HIL_ERR_INPUT,
                "config.json is not a safetensors file");
    CHECK_FAILS(run(HIL_TESTS "/golden/formats/u2.npy", true), HIL_ERR_INPUT,
                "u2.npy is not a safetensors file");
    CHECK_FAILS(run(HIL_TESTS "/cli", false), HIL_ERR_INPUT, "no .safetensors files");
    CHECK_FAILS(run("/nonexistent", true), HIL_ERR_IO, "/nonexistent");
    CHECK_FAILS(run(HIL_TESTS "/golden/formats/u2.npy", true), HIL_ERR_INPUT, "u2.npy");
    CHECK_TEXT(output, "");
    FILE *full = fopen("/dev/full", "w");
    if (!full) return;
    CHECK_FAILS(hil_inspect(HIL_TESTS "/golden/formats/sharded", false, full), HIL_ERR_IO,
                "No space left");
    fclose(full);
}

/* A config that hilbert cannot train gives an error line, not a failure. */
static void check_refused_config(void)
{
    char folder[] = "/tmp/hilbert-inspect-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK_OK(hil_file_write(path, "{\"model_type\": \"bert\"}", 22));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK_OK(copy_file(HIL_TESTS "/golden/models/gpt2/model.safetensors", path));
    CHECK_OK(run(folder, false));
    CHECK(strstr(output, "28 tensors, 24674 parameters"));
    CHECK(strstr(output, "bert"));
    CHECK_OK(run(folder, true));
    CHECK(strstr(output, "\"config\":{\"error\":\""));
    CHECK_OK(hil_file_remove_tree(folder));
}

static void check_no_memory(void)
{
    for (int json = 0; json < 2; ++json) {
        long n = 0;
        hil_status status;
        do {
            hil_alloc_fail_at(++n);
            status = run(HIL_TESTS "/golden/formats/sharded", json != 0);
            hil_alloc_fail_at(0);
            CHECK(status == HIL_OK || status == HIL_ERR_MEMORY);
        } while (status != HIL_OK);
        CHECK(n > 3);
    }
}

int main(void)
{
    check_folder();
    check_data();
    check_files();
    check_checkpoint();
    check_failures();
    check_refused_config();
    check_no_memory();
    return 0;
}
