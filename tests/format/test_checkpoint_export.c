/* A model folder exported from a checkpoint: matrices transposed where files store them so, the
   requested dtype, the requested size of shards. */
#include "check.h"
#include "format/checkpoint_export.h"
#include "model/config/config.h"
#include "format/safetensors.h"
#include "io/file.h"
#include "store/state.h"
#include "store/store.h"

#define MODEL HIL_TESTS "/golden/models/gpt2_untied"

/* One matrix is larger than a piece of the export. */
static const hil_param_spec specs[] = {
    {.name = "z.turned", .shape = {2, {5003, 901}}, .transposed = true},
    {.name = "plain", .shape = {2, {64, 33}}},
    {.name = "a.turned", .shape = {2, {3, 7}}, .transposed = true},
    {.name = "vector", .shape = {1, {1500001}}},
};
enum { PARAMS = 4 };

static char root[] = "/tmp/hilbert-export-XXXXXX";

/* Small whole numbers: exact in every dtype. */
static float value(int p, int64_t row, int64_t col)
{
    return (float)((row * 31 + col * 17 + p) % 251) - 100;
}

static hil_store *make_store(void)
{
    hil_store *store;
    hil_param *param;
    CHECK_OK(hil_store_create(&store));
    for (int p = 0; p < PARAMS; ++p) CHECK_OK(hil_store_add(store, &specs[p], &param));
    hil_store_options options = {.compute = HIL_F32, .training = true, .tile_size = 1 << 30};
    CHECK_OK(hil_store_arrange(store, &options));
    return store;
}

static void save(const char *folder, hil_store *store)
{
    hil_checkpoint_writer *writer;
    hil_sidecar_files files = {0};
    hil_checkpoint_options options = {.folder = folder, .step = 5, .store = store, .files = &files};
    CHECK_OK(hil_sidecar_files_read(&files, MODEL));
    CHECK_OK(hil_checkpoint_begin(&writer, &options));
    for (int p = 0; p < PARAMS; ++p) {
        int64_t cols = hil_shape_cols(&specs[p].shape);
        float *row;
        CHECK_OK(HIL_ALLOC(cols, &row));
        for (int64_t r = 0; r < hil_shape_rows(&specs[p].shape); ++r) {
            for (int64_t c = 0; c < cols; ++c) row[c] = value(p, r, c);
            CHECK_OK(hil_checkpoint_put(writer, hil_store_at(store, (size_t)p), HIL_MASTER,
                                        r * cols, cols, row));
        }
        hil_free(row);
    }
    json_t *state = json_object();
    CHECK_OK(hil_checkpoint_finish(writer, state));
    json_decref(state);
    hil_sidecar_files_free(&files);
}

static void check_tensor(const hil_safetensors *file, int p, hil_dtype expected)
{
    int64_t rows = hil_shape_rows(&specs[p].shape), cols = hil_shape_cols(&specs[p].shape);
    const hil_entry *entry = hil_safetensors_find(file, specs[p].name);
    hil_dtype dtype;
    float *all;
    CHECK(entry != NULL);
    CHECK_OK(hil_entry_dtype(entry, &dtype));
    CHECK_INT(dtype, expected);
    CHECK_INT(entry->ndim, specs[p].shape.ndim);
    CHECK_INT(entry->dim[0], specs[p].transposed ? cols : specs[p].shape.dim[0]);
    CHECK_INT(entry->bytes, (size_t)(rows * cols) * hil_dtype_size(dtype));
    CHECK_OK(HIL_ALLOC(rows * cols, &all));
    void *aligned;
    CHECK_OK(hil_alloc(entry->bytes, 1, &aligned));
    CHECK_OK(hil_entry_read(entry, 0, aligned, entry->bytes));
    hil_dtype_to_f32(all, aligned, dtype, rows * cols);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            CHECK(all[specs[p].transposed ? c * rows + r : r * cols + c] == value(p, r, c));
    hil_free(aligned);
    hil_free(all);
}

static void check_export(const char *dir, hil_dtype dtype, size_t shard_bytes, const char *last)
{
    char out[HIL_PATH_MAX], path[HIL_PATH_MAX];
    hil_checkpoint_model *model;
    hil_safetensors *file;
    hil_config config;
    CHECK_OK(hil_path_join(out, root, "model"));
    CHECK_OK(hil_dir_create(out));
    CHECK_OK(hil_checkpoint_model_open(&model, dir));
    CHECK_INT(hil_checkpoint_model_dtype(model), HIL_F32); /* that of config.json */
    CHECK_INT(hil_checkpoint_model_tensors(model), PARAMS);
    CHECK_INT(hil_checkpoint_model_step(model), 5);
    hil_checkpoint_model_options options = {
        .out = out, .replaced = HIL_NAMES_ALL, .dtype = dtype, .shard_bytes = shard_bytes};
    CHECK_OK(hil_checkpoint_model_write(model, &options));
    hil_checkpoint_model_close(model);
    CHECK_OK(hil_safetensors_open_folder(&file, out));
    for (int p = 0; p < PARAMS; ++p) check_tensor(file, p, dtype);
    hil_safetensors_close(file);
    CHECK_OK(hil_path_join(path, out, last));
    CHECK(hil_file_exists(path));
    CHECK_OK(hil_config_open(&config, out));
    CHECK_INT(config.dtype, dtype);
    CHECK_OK(hil_path_join(path, out, "generation_config.json"));
    CHECK(hil_file_exists(path));
}

/* A checkpoint without the model's files cannot be exported. */
static void check_bare(const char *folder, hil_store *store)
{
    char dir[HIL_PATH_MAX];
    hil_checkpoint_writer *writer;
    hil_checkpoint_model *model;
    float zeros[21] = {0};
    hil_checkpoint_options options = {.folder = folder, .step = 6, .store = store};
    CHECK_OK(hil_checkpoint_begin(&writer, &options));
    CHECK_OK(hil_checkpoint_put(writer, hil_store_at(store, 2), HIL_MASTER, 0, 21, zeros));
    json_t *state = json_object();
    CHECK_FAILS(hil_checkpoint_finish(writer, state), HIL_ERR_USAGE, "not written once and whole");
    json_decref(state);
    CHECK_OK(hil_step_path(dir, folder, 6));
    CHECK(!hil_file_exists(dir));
    CHECK_FAILS(hil_checkpoint_model_open(&model, dir), HIL_ERR_INPUT, "manifest.json is missing");
    options.step = 5;
    CHECK_FAILS(hil_checkpoint_begin(&writer, &options), HIL_ERR_USAGE, "is there already");
}

int main(void)
{
    char folder[HIL_PATH_MAX], dir[HIL_PATH_MAX];
    CHECK(mkdtemp(root) != NULL);
    CHECK_OK(hil_path_join(folder, root, "checkpoints"));
    hil_store *store = make_store();
    save(folder, store);
    CHECK_OK(hil_step_path(dir, folder, 5));
    check_export(dir, HIL_F32, 0, "model.safetensors");
    check_export(dir, HIL_BF16, 2 << 20, "model-00003-of-00003.safetensors");
    check_export(dir, HIL_F16, 0, "model.safetensors");
    check_bare(folder, store);
    hil_store_destroy(store);
    CHECK_OK(hil_file_remove_tree(root));
    return 0;
}
