/* quantized.c - reads quantized weights of bitsandbytes and of fp8 folders. */
#include "format/quantized.h"

#include "base/alloc.h"
#include "format/weights.h"
#include "store/quantizer.h"

#include <string.h>

#define NAME_MOST 512
#define PIECE ((int64_t)8 << 20) /* elements whose codes are read at once; even */

static hil_status check_number(const json_t *config, const char *key, const char *what,
                               int64_t expected)
{
    int64_t value = expected;
    HIL_TRY(hil_json_int(config, key, what, &value));
    if (value == expected) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: %s is %lld; only %lld is supported", what, key,
                    (long long)value, (long long)expected);
}

static hil_status read_state(hil_quantized_state *s, const json_t *object, const char *what)
{
    const char *type = "nf4";
    double offset = 0;
    const json_t *shape = json_object_get(object, "shape");
    HIL_TRY(hil_json_string(object, "quant_type", what, &type));
    if (strcmp(type, "nf4") != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: quant_type is %.40s; only nf4 is supported", what,
                        type);
    HIL_TRY(check_number(object, "blocksize", what, HIL_QUANT_BLOCK));
    HIL_TRY(check_number(object, "nested_blocksize", what, HIL_QUANT_NESTED));
    HIL_TRY(hil_json_real(object, "nested_offset", what, &offset));
    if (!json_is_array(shape) || json_array_size(shape) != 2)
        return hil_fail(HIL_ERR_INPUT, "%s: shape must have two numbers", what);
    s->rows = json_integer_value(json_array_get(shape, 0));
    s->cols = json_integer_value(json_array_get(shape, 1));
    s->nested = json_object_get(object, "nested_offset") != NULL;
    s->offset = (float)offset;
    return HIL_OK;
}

hil_status hil_quantized_state_parse(hil_quantized_state *out, const char *bytes, size_t size,
                                     const char *what)
{
    json_t *object;
    *out = (hil_quantized_state){0};
    HIL_TRY(hil_json_parse(bytes, size, what, &object));
    hil_status status = json_is_object(object)
                            ? read_state(out, object, what)
                            : hil_fail(HIL_ERR_INPUT, "%s: not a JSON object", what);
    json_decref(object);
    return status;
}

/* The tensor beside a parameter's; its name with `suffix` instead of the last `cut` characters. */
static const hil_entry *beside(const hil_safetensors *file, const hil_param *p, size_t cut,
                               const char *suffix)
{
    const char *name = hil_param_spec_of(p)->name;
    size_t length = strlen(name);
    char full[NAME_MOST];
    if (length < cut || length + strlen(suffix) >= sizeof full) return NULL;
    memcpy(full, name, length - cut);
    memcpy(full + length - cut, suffix, strlen(suffix) + 1);
    return hil_weights_find(file, full);
}

#define WEIGHT (sizeof "weight" - 1)

hil_quant hil_quantized_find(const hil_safetensors *file, const hil_param *p)
{
    if (hil_param_spec_of(p)->shape.ndim != 2) return HIL_QUANT_NONE;
    if (beside(file, p, 0, ".nested_absmax")) return HIL_QUANT_NF4;
    if (beside(file, p, 0, ".absmax")) return HIL_QUANT_NF4_PLAIN;
    if (beside(file, p, 0, "_scale_inv")) return HIL_QUANT_FP8;
    if (beside(file, p, WEIGHT, "SCB")) return HIL_QUANT_INT8;
    return HIL_QUANT_NONE;
}

/* A tensor of `count` numbers of `dtype`, whole in memory; hil_free it. */
static hil_status read_all(const hil_entry *entry, const char *dtype, int64_t count, size_t size,
                           void *out)
{
    char *bytes;
    if (!entry) return hil_fail(HIL_ERR_INPUT, "scales of quantized weights are missing");
    if (strcmp(entry->dtype, dtype) != 0 || entry->bytes != (size_t)count * size)
        return hil_fail(HIL_ERR_INPUT, "tensor %.200s is %s with %zu bytes, expected %s with %zu",
                        entry->name, entry->dtype, entry->bytes, dtype, (size_t)count * size);
    HIL_TRY(HIL_ALLOC(entry->bytes + 1, &bytes));
    *(void **)out = bytes;
    return hil_entry_read(entry, 0, bytes, entry->bytes);
}

static hil_status read_codes(const hil_entry *entry, hil_param *p)
{
    int64_t elements = hil_param_elements(p), count;
    int64_t tile = hil_param_tile_rows(p) * hil_shape_cols(&hil_param_spec_of(p)->shape);
    hil_quant quant = hil_param_quant(p);
    char *codes;
    if (entry->bytes != hil_quant_codes(quant, elements))
        return hil_fail(
            HIL_ERR_INPUT, "tensor %.200s has %zu bytes, but config.json makes it %zu in %s",
            entry->name, entry->bytes, hil_quant_codes(quant, elements), hil_quant_name(quant));
    HIL_TRY(HIL_ALLOC(hil_quant_codes(quant, elements < PIECE ? elements : PIECE), &codes));
    hil_status status = HIL_OK;
    for (int64_t first = 0; first < elements && status == HIL_OK; first += count) {
        count = tile - first % tile;
        if (count > elements - first) count = elements - first;
        if (count > PIECE) count = PIECE;
        status = hil_entry_read(entry, hil_quant_codes(quant, first), codes,
                                hil_quant_codes(quant, count));
        if (status == HIL_OK) status = hil_quantizer_put_codes(p, first, count, codes);
    }
    hil_free(codes);
    return status;
}

static hil_status load_state(const hil_safetensors *file, hil_param *p, hil_quantized_state *state)
{
    const hil_entry *entry = beside(file, p, 0, ".quant_state.bitsandbytes__nf4");
    const hil_shape *shape = &hil_param_spec_of(p)->shape;
    char *bytes = NULL;
    if (!entry)
        return hil_fail(HIL_ERR_INPUT, "tensor %.200s.quant_state.bitsandbytes__nf4 is missing",
                        hil_param_spec_of(p)->name);
    hil_status status = read_all(entry, "U8", (int64_t)entry->bytes, 1, &bytes);
    if (status == HIL_OK)
        status = hil_quantized_state_parse(state, bytes, entry->bytes, entry->name);
    hil_free(bytes);
    HIL_TRY(status);
    if (state->rows == shape->dim[0] && state->cols == shape->dim[1] &&
        state->nested == (hil_param_quant(p) == HIL_QUANT_NF4))
        return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "tensor %.200s says a matrix of %lld x %lld, but config.json makes it %lld x "
                    "%lld, or its nested scales are missing",
                    entry->name, (long long)state->rows, (long long)state->cols,
                    (long long)shape->dim[0], (long long)shape->dim[1]);
}

static hil_status load_nf4(const hil_safetensors *file, hil_param *p)
{
    bool nested = hil_param_quant(p) == HIL_QUANT_NF4;
    int64_t blocks = (hil_param_elements(p) + HIL_QUANT_BLOCK - 1) / HIL_QUANT_BLOCK;
    int64_t groups = (blocks + HIL_QUANT_NESTED - 1) / HIL_QUANT_NESTED;
    float *table = NULL, *nested_table = NULL, *scale = NULL;
    void *absmax = NULL;
    hil_quantized_state state;
    hil_status status;
    HIL_TRY_DONE(load_state(file, p, &state));
    HIL_TRY_DONE(read_all(beside(file, p, 0, ".quant_map"), "F32", 16, 4, &table));
    HIL_TRY_DONE(read_all(beside(file, p, 0, ".absmax"), nested ? "U8" : "F32", blocks,
                          nested ? 1 : 4, &absmax));
    if (nested) {
        HIL_TRY_DONE(read_all(beside(file, p, 0, ".nested_absmax"), "F32", groups, 4, &scale));
        HIL_TRY_DONE(read_all(beside(file, p, 0, ".nested_quant_map"), "F32", HIL_QUANT_NEST_TABLE,
                              4, &nested_table));
    }
    hil_quantizer_scales scales = {.table = table,
                                   .nested_table = nested_table,
                                   .nested = scale,
                                   .offset = state.offset,
                                   .code = absmax,
                                   .scale = absmax};
    HIL_TRY_DONE(hil_quantizer_put_scales(p, &scales));
done:
    hil_free(table);
    hil_free(nested_table);
    hil_free(scale);
    hil_free(absmax);
    return status;
}

/* Scales of int8 and fp8, which may be bf16. */
static hil_status load_scales(const hil_entry *entry, hil_param *p, int64_t count)
{
    hil_dtype dtype;
    char *bytes = NULL;
    float *scale = NULL;
    hil_status status;
    HIL_TRY_DONE(hil_entry_dtype(entry, &dtype));
    HIL_TRY_DONE(read_all(entry, entry->dtype, count, hil_dtype_size(dtype), &bytes));
    HIL_TRY_DONE(HIL_ALLOC(count, &scale));
    hil_dtype_to_f32(scale, bytes, dtype, count);
    HIL_TRY_DONE(hil_quantizer_put_scales(p, &(hil_quantizer_scales){.scale = scale}));
done:
    hil_free(bytes);
    hil_free(scale);
    return status;
}

hil_status hil_quantized_load(const hil_safetensors *file, hil_param *p)
{
    const hil_entry *entry = beside(file, p, 0, "");
    int64_t rows = hil_param_spec_of(p)->shape.dim[0], cols = hil_param_spec_of(p)->shape.dim[1];
    if (!entry)
        return hil_fail(HIL_ERR_INPUT, "the model folder has no tensor %s",
                        hil_param_spec_of(p)->name);
    HIL_TRY(read_codes(entry, p));
    switch (hil_param_quant(p)) {
    case HIL_QUANT_INT8:
        return load_scales(beside(file, p, WEIGHT, "SCB"), p, rows);
    case HIL_QUANT_FP8:
        rows = (rows + HIL_QUANT_SQUARE - 1) / HIL_QUANT_SQUARE;
        cols = (cols + HIL_QUANT_SQUARE - 1) / HIL_QUANT_SQUARE;
        return load_scales(beside(file, p, 0, "_scale_inv"), p, rows * cols);
    default:
        return load_nf4(file, p);
    }
}
