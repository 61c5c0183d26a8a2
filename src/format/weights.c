/* weights.c - loads the tensors of files into the parameters of a store. */
#include "format/weights.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "format/quantized.h"
#include "format/torch_weights.h"
#include "store/quantizer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PIECE 16384
/* Columns and rows transposed at once: a cache line of the target, some of the source. */
#define BAND 16
#define LINE 256
enum { SAMPLES = 4, SAMPLE_BYTES = 4096 };

hil_shape hil_weights_shape(const hil_param *param)
{
    hil_shape shape = *hil_param_filed(param);
    if (!hil_param_spec_of(param)->transposed) return shape;
    return (hil_shape){2, {shape.dim[1], shape.dim[0]}};
}

const hil_entry *hil_weights_find(const hil_safetensors *file, const char *name)
{
    static const char *const prefixes[] = {"transformer.", "model."};
    const hil_entry *entry = hil_safetensors_find(file, name);
    for (size_t i = 0; !entry && i < sizeof prefixes / sizeof *prefixes; ++i) {
        size_t size = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], size) == 0) entry = hil_safetensors_find(file, name + size);
    }
    return entry;
}

static void print_shape(char out[80], int ndim, const int64_t *dim)
{
    size_t used = (size_t)snprintf(out, 80, "[");
    for (int i = 0; i < ndim && used < 60; ++i)
        used += (size_t)snprintf(out + used, 80 - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(out + used, 80 - used, "]");
}

static hil_status check_shape(const hil_param *param, const hil_entry *entry)
{
    hil_shape shape = hil_weights_shape(param);
    bool same = entry->ndim == shape.ndim;
    for (int i = 0; same && i < shape.ndim; ++i) same = entry->dim[i] == shape.dim[i];
    if (same) return HIL_OK;
    char got[80], expected[80];
    print_shape(got, entry->ndim, entry->dim);
    print_shape(expected, shape.ndim, shape.dim);
    return hil_fail(HIL_ERR_INPUT, "tensor %s has shape %s, but config.json makes it %s",
                    entry->name, got, expected);
}

/* One range of a parameter that is read from the file. */
typedef struct loading {
    hil_store *store;
    hil_pool *pool;
    hil_param *param;
    hil_state state;
    const hil_entry *entry;
    hil_dtype dtype;
    int64_t rows, cols; /* of the parameter */
    int64_t first, count;
    float *range;  /* `count` elements from `first` on */
    float *buffer; /* for the ranges of parameters that are not quantized */
    /* The first failure of a task, with its message. */
    atomic_int failed; /* hil_status */
    char message[1024];
} loading;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void keep_failure(loading *job, hil_status status)
{
    int none = HIL_OK;
    if (status != HIL_OK && atomic_compare_exchange_strong(&job->failed, &none, (int)status))
        snprintf(job->message, sizeof job->message, "%s", hil_status_message());
}

/* Reads more than PIECE elements of 16 bits. */
static hil_status read_many(const loading *job, int64_t first, int64_t count, float *out)
{
    uint16_t *half;
    HIL_TRY(HIL_ALLOC(count, &half));
    hil_status status = hil_entry_read(job->entry, (size_t)first * 2, half, (size_t)count * 2);
    if (status == HIL_OK) hil_dtype_to_f32(out, half, job->dtype, count);
    hil_free(half);
    return status;
}

/* Reads elements as fp32. */
static void read_elements(loading *job, int64_t first, int64_t count, float *out)
{
    size_t size = hil_dtype_size(job->dtype), at = (size_t)first * size;
    uint16_t half[PIECE];
    bool whole = size == 4;
    if (!whole && count > PIECE) {
        keep_failure(job, read_many(job, first, count, out));
        return;
    }
    keep_failure(job,
                 hil_entry_read(job->entry, at, whole ? (void *)out : half, (size_t)count * size));
    if (!whole) hil_dtype_to_f32(out, half, job->dtype, count);
}

static int64_t piece_of(const loading *job)
{
    return job->entry->piece > PIECE ? job->entry->piece : PIECE;
}

static void convert_piece(void *context, int64_t i, int thread)
{
    (void)thread;
    loading *job = context;
    int64_t piece = piece_of(job), at = i * piece;
    read_elements(job, job->first + at, least(piece, job->count - at), job->range + at);
}

/* Transposes columns [i * BAND, (i + 1) * BAND) of the range's rows: rows of the file's matrix,
   which is (cols, rows). */
static void convert_transposed(void *context, int64_t i, int thread)
{
    (void)thread;
    loading *job = context;
    float line[BAND][LINE];
    int64_t column = i * BAND, width = least(BAND, job->cols - column);
    int64_t row = job->first / job->cols, end = (job->first + job->count - 1) / job->cols + 1;
    for (; row < end; row += LINE) {
        int64_t height = least(LINE, end - row);
        for (int64_t c = 0; c < width; ++c)
            read_elements(job, (column + c) * job->rows + row, height, line[c]);
        for (int64_t r = 0; r < height; ++r) {
            int64_t at = (row + r) * job->cols + column - job->first;
            for (int64_t c = 0; c < width; ++c)
                if (at + c >= 0 && at + c < job->count) job->range[at + c] = line[c][r];
        }
    }
}

static hil_status read_range(void *context, int64_t first, int64_t count, float *out)
{
    loading *job = context;
    job->first = first;
    job->count = count;
    job->range = out;
    if (hil_param_spec_of(job->param)->transposed)
        hil_pool_run(job->pool, convert_transposed, job, (job->cols + BAND - 1) / BAND);
    else
        hil_pool_run(job->pool, convert_piece, job, (count + piece_of(job) - 1) / piece_of(job));
    hil_status failed = (hil_status)atomic_load(&job->failed);
    return failed == HIL_OK ? HIL_OK : hil_fail(failed, "%s", job->message);
}

static hil_status take_entry(loading *job, const hil_entry *entry)
{
    const hil_param_spec *spec = hil_param_spec_of(job->param);
    job->entry = entry;
    job->rows = hil_shape_rows(&spec->shape);
    job->cols = hil_shape_cols(&spec->shape);
    HIL_TRY(hil_entry_dtype(entry, &job->dtype));
    return check_shape(job->param, entry);
}

hil_status hil_weights_read(const hil_weights_range *range, float *out)
{
    loading job = {.pool = range->pool, .param = range->param};
    HIL_TRY(take_entry(&job, range->entry));
    return read_range(&job, range->first, range->count, out);
}

static hil_status load_param(loading *job, const hil_entry *entry)
{
    HIL_TRY(take_entry(job, entry));
    if (hil_param_quant(job->param))
        return hil_quantizer_fill(job->param, &(hil_quantizer){.read = read_range, .context = job});
    for (int64_t first = 0, count; (count = hil_param_held(job->param, &first)); first += count) {
        HIL_TRY(read_range(job, first, count, job->buffer));
        HIL_TRY(hil_store_write(job->store, job->param, job->state, first, count, job->buffer));
    }
    return HIL_OK;
}

/* Old folders of GPTQ and AWQ say what the codes are in a file of its own. */
static hil_status no_tensor(const hil_safetensors *file, const char *name)
{
    char codes[512];
    size_t end = sizeof "weight" - 1, size = strlen(name);
    if (size > end && size < sizeof codes && strcmp(name + size - end, "weight") == 0) {
        snprintf(codes, sizeof codes, "%.*sqweight", (int)(size - end), name);
        if (hil_weights_find(file, codes))
            return hil_fail(
                HIL_ERR_INPUT,
                "the model folder has %s instead of %s, codes of GPTQ or AWQ, but its "
                "config.json does not say how to read them: add the contents of "
                "quantize_config.json to it as \"quantization_config\", with "
                "\"quant_method\": \"gptq\"; of AWQ \"quant_method\": \"awq\", \"bits\" "
                "and \"group_size\"",
                codes, name);
    }
    return hil_fail(HIL_ERR_INPUT, "the model folder has no tensor %s", name);
}

static hil_status load_base(loading *job, const hil_safetensors *file)
{
    for (size_t i = 0; i < hil_store_count(job->store); ++i) {
        job->param = hil_store_at(job->store, i);
        const hil_param_spec *spec = hil_param_spec_of(job->param);
        if (spec->adapter) continue;
        if (hil_quantized_find(file, job->param)) {
            HIL_TRY(hil_quantized_load(file, job->param));
            continue;
        }
        const hil_entry *entry = hil_weights_find(file, spec->name);
        if (!entry) return no_tensor(file, spec->name);
        HIL_TRY(load_param(job, entry));
    }
    return hil_store_finish_writes(job->store);
}

hil_status hil_weights_load(hil_store *store, hil_pool *pool, const hil_safetensors *file)
{
    loading job = {.store = store, .pool = pool};
    HIL_TRY(HIL_ALLOC(hil_store_range(store), &job.buffer));
    hil_status status = load_base(&job, file);
    hil_free(job.buffer);
    return status;
}

static hil_status load_state(loading *job, const hil_safetensors *file)
{
    for (size_t i = 0; i < hil_store_count(job->store); ++i) {
        job->param = hil_store_at(job->store, i);
        const char *name = hil_param_spec_of(job->param)->name;
        if (!hil_param_has(job->param, job->state)) continue;
        const hil_entry *entry = hil_weights_find(file, name);
        if (!entry)
            return hil_fail(HIL_ERR_INPUT, "the checkpoint has no %s of %s",
                            job->state == HIL_MASTER    ? "weights"
                            : job->state == HIL_MOMENT1 ? "first moment"
                                                        : "second moment",
                            name);
        HIL_TRY(load_param(job, entry));
    }
    return hil_store_finish_writes(job->store);
}

hil_status hil_weights_load_state(hil_store *store, hil_pool *pool, const hil_safetensors *file,
                                  hil_state state)
{
    loading job = {.store = store, .pool = pool, .state = state};
    HIL_TRY(HIL_ALLOC(hil_store_range(store), &job.buffer));
    hil_status status = load_state(&job, file);
    hil_free(job.buffer);
    return status;
}

hil_status hil_weights_sample(const hil_entry *entry, uint64_t *hash)
{
    char block[SAMPLES * SAMPLE_BYTES];
    size_t size = entry->bytes;
    if (size <= sizeof block) {
        HIL_TRY(hil_entry_read(entry, 0, block, size));
    } else {
        for (size_t i = 0; i < SAMPLES; ++i)
            HIL_TRY(hil_entry_read(entry, (size - SAMPLE_BYTES) * i / (SAMPLES - 1),
                                   block + i * SAMPLE_BYTES, SAMPLE_BYTES));
        size = sizeof block;
    }
    *hash = hil_hash(0, block, size);
    return HIL_OK;
}

hil_status hil_weights_digest(const hil_safetensors *file, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        uint64_t key;
        HIL_TRY(hil_weights_sample(entry, &key));
        key = hil_hash(key, entry->name, strlen(entry->name));
        key = hil_hash(key, entry->dtype, strlen(entry->dtype));
        *out += hil_hash(key, entry->dim, (size_t)entry->ndim * sizeof *entry->dim);
    }
    return HIL_OK;
}

/* With bias "all" PEFT saves biases of modules_to_save twice more, under names of its own. */
static bool is_copy(const char *name)
{
    return strstr(name, ".modules_to_save.") || strstr(name, ".original_module.");
}

/* Loads those parameters that an adapter has, or trains. *used counts them. */
static hil_status load_adapter(loading *job, const hil_peft *peft, const hil_safetensors *file,
                               bool *used)
{
    char name[HIL_PEFT_NAME];
    for (size_t i = 0; i < hil_store_count(job->store); ++i) {
        job->param = hil_store_at(job->store, i);
        hil_peft_tensor_name(peft, hil_param_spec_of(job->param)->name, name);
        const hil_entry *entry = hil_safetensors_find(file, name);
        if (!entry && hil_param_spec_of(job->param)->adapter)
            return hil_fail(HIL_ERR_INPUT, "the adapter folder has no tensor %s", name);
        if (!entry) continue;
        for (size_t k = 0; k < hil_safetensors_count(file); ++k)
            if (hil_safetensors_at(file, k) == entry) used[k] = true;
        HIL_TRY(load_param(job, entry));
    }
    for (size_t k = 0; k < hil_safetensors_count(file); ++k)
        if (!used[k] && !is_copy(hil_safetensors_at(file, k)->name))
            return hil_fail(HIL_ERR_INPUT,
                            "the adapter's tensor %s does not belong to a layer that can have an "
                            "adapter",
                            hil_safetensors_at(file, k)->name);
    return hil_store_finish_writes(job->store);
}

hil_status hil_weights_open_adapter(hil_safetensors **out, const char *folder)
{
    char path[HIL_PATH_MAX];
    HIL_TRY(hil_path_join(path, folder, "adapter_model.bin"));
    if (hil_file_exists(path)) {
        char better[HIL_PATH_MAX];
        HIL_TRY(hil_path_join(better, folder, HIL_PEFT_WEIGHTS));
        if (!hil_file_exists(better)) return hil_torch_weights_open(out, path);
    }
    HIL_TRY(hil_path_join(path, folder, HIL_PEFT_WEIGHTS));
    return hil_safetensors_open(out, path);
}

hil_status hil_weights_load_adapter(hil_store *store, hil_pool *pool, const hil_peft *peft,
                                    const hil_safetensors *file)
{
    loading job = {.store = store, .pool = pool};
    bool *used = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(hil_safetensors_count(file), &used));
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &job.buffer));
    status = load_adapter(&job, peft, file, used);
done:
    hil_free(used);
    hil_free(job.buffer);
    return status;
}
