/* Tensors are loaded into the store exactly, transposed or not, for any tiles and ranges. */
#include "format/weights.h"
#include "check.h"
#include "store_open.h"

#include "base/alloc.h"
#include "store/state.h"
#include "store/store.h"

#include <unistd.h>

enum { ROWS = 2500, COLS = 901, LONG = 1100000 };

static char folder[] = "/tmp/hil-weights-XXXXXX";

/* Exact in fp32, bf16 and fp16, and different for neighbours in both directions. */
static float value(int64_t row, int64_t col)
{
    return (float)((row * 7 + col * 13) % 127);
}

static void write_tensor(hil_safetensors_writer *file, hil_dtype dtype, int64_t rows, int64_t cols,
                         bool turn)
{
    float *line;
    void *out;
    CHECK_OK(HIL_ALLOC(cols, &line));
    CHECK_OK(hil_alloc((size_t)cols, 4, &out));
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) line[c] = turn ? value(c, r) : value(r, c);
        hil_dtype_from_f32(out, line, dtype, cols);
        CHECK_OK(hil_safetensors_writer_data(file, out, (size_t)cols * hil_dtype_size(dtype)));
    }
    hil_free(line);
    hil_free(out);
}

/* plain is (ROWS, COLS); so is turned, but (COLS, ROWS) in the file. */
static void write_model(const char *path)
{
    hil_safetensors_writer *file;
    CHECK_OK(hil_safetensors_writer_create(&file, path));
    CHECK_OK(hil_safetensors_writer_declare(file, "plain", HIL_F32, &(hil_shape){2, {ROWS, COLS}}));
    CHECK_OK(hil_safetensors_writer_declare(file, "transformer.turned", HIL_BF16,
                                            &(hil_shape){2, {COLS, ROWS}}));
    CHECK_OK(hil_safetensors_writer_declare(file, "vector", HIL_F16, &(hil_shape){1, {LONG}}));
    CHECK_OK(hil_safetensors_writer_begin(file));
    for (const char *name; (name = hil_safetensors_writer_next(file));) {
        if (strcmp(name, "plain") == 0)
            write_tensor(file, HIL_F32, ROWS, COLS, false);
        else if (strcmp(name, "vector") == 0)
            write_tensor(file, HIL_F16, 1, LONG, false);
        else
            write_tensor(file, HIL_BF16, COLS, ROWS, true);
    }
    CHECK_OK(hil_safetensors_writer_commit(file));
    hil_safetensors_writer_destroy(file);
}

static void check_param(hil_store *store, hil_param *p, int64_t rows, int64_t cols)
{
    float *all;
    CHECK_OK(HIL_ALLOC(rows * cols, &all));
    CHECK_OK(hil_store_read(store, p, HIL_MASTER, 0, rows * cols, all));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            CHECK_NEAR((double)all[r * cols + c], (double)value(r, c), 0);
    hil_free(all);
}

static void check_model(hil_pool *pool, const hil_safetensors *file, hil_dtype dtype, size_t tile)
{
    static const hil_param_spec spec[] = {
        {.name = "plain", .shape = {2, {ROWS, COLS}}},
        {.name = "transformer.turned", .shape = {2, {ROWS, COLS}}, .transposed = true},
        {.name = "vector", .shape = {1, {LONG}}}};
    hil_store *store;
    hil_param *p[3];
    CHECK_OK(hil_store_create(&store));
    for (int i = 0; i < 3; ++i) CHECK_OK(hil_store_add(store, &spec[i], &p[i]));
    hil_store_options options = {
        .compute = dtype, .training = true, .tile_size = tile, .moments = 2};
    store_rig rig;
    store_rig_open(&rig, store, pool, &options);
    CHECK_OK(hil_weights_load(store, pool, file));
    check_param(store, p[0], ROWS, COLS);
    check_param(store, p[1], ROWS, COLS);
    check_param(store, p[2], 1, LONG);
    store_rig_close(&rig);
}

/* A file truncated while it is loaded gives an error with its name, not SIGBUS. */
static void check_cut(hil_pool *pool, const char *path, const char *name, bool turned)
{
    const hil_param_spec spec = {.name = name, .shape = {2, {ROWS, COLS}}, .transposed = turned};
    hil_store *store;
    hil_param *p;
    hil_safetensors *file;
    store_rig rig;
    write_model(path);
    CHECK_OK(hil_store_create(&store));
    CHECK_OK(hil_store_add(store, &spec, &p));
    hil_store_options options = {
        .compute = HIL_F32, .training = true, .tile_size = 1 << 20, .moments = 2};
    store_rig_open(&rig, store, pool, &options);
    CHECK_OK(hil_safetensors_open(&file, path));
    CHECK(truncate(path, 4096) == 0);
    CHECK_FAILS(hil_weights_load(store, pool, file), HIL_ERR_IO,
                "model.safetensors was cut short while it was being read");
    hil_safetensors_close(file);
    store_rig_close(&rig);
}

int main(void)
{
    char path[HIL_PATH_MAX];
    hil_safetensors *file;
    hil_pool *pool;
    CHECK(mkdtemp(folder) != NULL);
    CHECK_OK(hil_path_join(path, folder, "model.safetensors"));
    write_model(path);
    CHECK_OK(hil_pool_create(&pool, 3));
    CHECK_OK(hil_safetensors_open(&file, path));
    check_model(pool, file, HIL_F32, (size_t)1 << 30);
    check_model(pool, file, HIL_BF16, 1280 * COLS * 2);
    hil_safetensors_close(file);
    check_cut(pool, path, "plain", false);
    check_cut(pool, path, "transformer.turned", true);
    hil_pool_destroy(pool);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
