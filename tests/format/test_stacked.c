/* Tensors that files stack or name otherwise are read as the model's, and written as they were. */
#include "format/stacked.h"

#include "golden.h"

#include <unistd.h>

static char folder[] = "/tmp/hil-stacked-XXXXXX";

static const hil_entry *find(const hil_safetensors *file, const char *name)
{
    const hil_entry *entry = hil_safetensors_find(file, name);
    if (!entry) check_die("tensor", 0, name);
    return entry;
}

static float *numbers(const hil_safetensors *file, const char *name, int64_t *count)
{
    return golden_copy(file, name, "F32", count);
}

static hil_safetensors *open_model(const char *path, hil_config *config)
{
    hil_safetensors *file;
    CHECK_OK(hil_config_open(config, path));
    CHECK_OK(hil_stacked_open(&file, path, config));
    return file;
}

/* Expert e of granitemoe has rows [0, 26) and [26, 52) of its input_linear, as torch.chunk. */
static void check_parts(void)
{
    enum { EXPERTS = 5, WIDTH = 26, HIDDEN = 24 };
    char *path = golden_path("granitemoe", NULL), name[120];
    hil_config config;
    hil_safetensors *file = open_model(path, &config), *raw;
    int64_t all, count;
    CHECK_OK(hil_safetensors_open_folder(&raw, path));
    float *whole = numbers(raw, "model.layers.1.block_sparse_moe.input_linear.weight", &all);
    CHECK_INT(all, EXPERTS * 2 * WIDTH * HIDDEN);
    for (int e = 0; e < EXPERTS; ++e)
        for (int part = 0; part < 2; ++part) {
            snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%d.%s_proj.weight",
                     e, part ? "up" : "gate");
            const hil_entry *entry = find(file, name);
            CHECK(entry->ndim == 2 && entry->dim[0] == WIDTH && entry->dim[1] == HIDDEN);
            float *own = numbers(file, name, &count);
            CHECK_INT(count, WIDTH * HIDDEN);
            CHECK(memcmp(own, whole + (e * 2 + part) * count, (size_t)count * 4) == 0);
            hil_free(own);
        }
    CHECK(!hil_safetensors_find(file, "model.layers.1.block_sparse_moe.input_linear.weight"));
    hil_free(whole);
    hil_safetensors_close(raw);
    hil_safetensors_close(file);
    hil_free(path);
}

static hil_status read_entry(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    if (*size > 1000) *size = 1000; /* as an export that gives less than it is asked for */
    return hil_entry_read(hil_safetensors_at(context, i), offset, out, *size);
}

/* Writes the tensors of an open model to `folder`, stacked as its files are. */
static void write_back(hil_safetensors *file, const hil_config *config)
{
    hil_export_tensor *tensor;
    hil_stacked *stacked;
    size_t count = hil_safetensors_count(file);
    CHECK_OK(HIL_ALLOC(count, &tensor));
    for (size_t i = 0; i < count; ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        tensor[i] = (hil_export_tensor){.name = entry->name};
        CHECK_OK(hil_entry_dtype(entry, &tensor[i].dtype));
        CHECK_OK(hil_entry_shape(entry, &tensor[i].shape));
    }
    hil_export plain = {.tensor = tensor, .count = count, .read = read_entry, .context = file};
    CHECK_OK(hil_stacked_create(&stacked, &plain, config, NULL));
    CHECK_OK(hil_export_write(hil_stacked_export(stacked), folder));
    hil_stacked_destroy(stacked);
    hil_free(tensor);
}

/* The files of `path` have the tensors that were written back. */
static void check_written(const char *path)
{
    hil_safetensors *b, *a;
    CHECK_OK(hil_safetensors_open_folder(&b, folder));
    size_t written = hil_safetensors_count(b);
    CHECK_OK(hil_safetensors_open_folder(&a, path));
    CHECK_INT(hil_safetensors_count(a), written);
    for (size_t i = 0; i < hil_safetensors_count(a); ++i) {
        const hil_entry *one = hil_safetensors_at(a, i), *other = find(b, one->name);
        int64_t count;
        CHECK_INT(one->ndim, other->ndim);
        for (int d = 0; d < one->ndim; ++d) CHECK_INT(one->dim[d], other->dim[d]);
        float *x = numbers(a, one->name, &count), *y = numbers(b, one->name, &count);
        CHECK(memcmp(x, y, (size_t)count * 4) == 0);
        hil_free(x);
        hil_free(y);
    }
    hil_safetensors_close(a);
    hil_safetensors_close(b);
}

/* What transformers wrote is written again, tensor by tensor. */
static void check_round(const char *model)
{
    char *path = golden_path(model, NULL);
    hil_config config;
    hil_safetensors *file = open_model(path, &config);
    write_back(file, &config);
    check_written(path);
    hil_safetensors_close(file);
    hil_free(path);
}

typedef struct stacking {
    hil_safetensors *from;
    int64_t experts;
} stacking;

/* The names that transformers 5 has in memory: tensor i of the list below, of layer 0 and 1. */
static hil_status read_stack(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    static const char *const part[3] = {"w1", "w3", "w2"};
    stacking *s = context;
    char name[120];
    int layer = (int)i / 3;
    bool down = i % 3 == 1;
    if (i % 3 == 2) {
        snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.gate.weight", layer);
        return hil_entry_read(find(s->from, name), offset, out, *size);
    }
    for (size_t at = 0, parts = down ? 1 : 2, k = 0; k < (size_t)s->experts * parts; ++k) {
        snprintf(name, sizeof name, "model.layers.%d.block_sparse_moe.experts.%d.%s.weight", layer,
                 (int)(k / parts), part[down ? 2 : k % parts]);
        const hil_entry *entry = find(s->from, name);
        CHECK(offset == 0);
        CHECK_OK(hil_entry_read(entry, 0, (char *)out + at, entry->bytes));
        at += entry->bytes;
    }
    return HIL_OK;
}

/* A Mixtral whose experts are stacked as in transformers 5 holds the same tensors. */
static void check_other_names(void)
{
    char *path = golden_path("mixtral", NULL), name[120];
    hil_config config;
    stacking s;
    hil_export_tensor tensor[6];
    char names[6][120];
    s.from = open_model(path, &config);
    s.experts = config.mixture.experts;
    int64_t width = config.mixture.width, hidden = config.hidden;
    const hil_shape shape[3] = {{3, {s.experts, 2 * width, hidden}},
                                {3, {s.experts, hidden, width}},
                                {2, {s.experts, hidden}}};
    static const char *const rest[3] = {"experts.gate_up_proj", "experts.down_proj", "gate.weight"};
    for (int i = 0; i < 6; ++i) {
        snprintf(names[i], sizeof names[i], "model.layers.%d.mlp.%s", i / 3, rest[i % 3]);
        tensor[i] = (hil_export_tensor){names[i], HIL_F32, shape[i % 3]};
    }
    CHECK_OK(hil_export_write(
        &(hil_export){.tensor = tensor, .count = 6, .read = read_stack, .context = &s}, folder));
    hil_safetensors *file;
    CHECK_OK(hil_stacked_open(&file, folder, &config));
    CHECK_INT(hil_safetensors_count(file), 2 * (3 * s.experts + 1));
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        int64_t count;
        float *own = numbers(file, entry->name, &count);
        float *theirs = numbers(s.from, entry->name, &count);
        CHECK(memcmp(own, theirs, (size_t)count * 4) == 0);
        hil_free(own);
        hil_free(theirs);
    }
    hil_safetensors_close(file);
    config.mixture.experts += 1;
    snprintf(name, sizeof name, "of each of the %d experts of config.json",
             (int)config.mixture.experts);
    CHECK_FAILS(hil_stacked_open(&file, folder, &config), HIL_ERR_INPUT, name);
    hil_safetensors_close(s.from);
    hil_free(path);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_parts();
    check_round("granitemoe");
    check_round("gpt_oss");
    check_round("mixtral");
    check_round("llama");
    check_other_names();
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
