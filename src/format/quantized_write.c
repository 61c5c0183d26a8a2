/* quantized_write.c - how a quantized matrix is named and described in a folder. See
   [Note: quantized folders]. */
#include "format/quantized.h"

#include "model/config/config.h"

#include <string.h>

#define WEIGHT (sizeof "weight" - 1)

/* The end of each tensor's name; it replaces the last `cut` characters of the parameter's. */
typedef struct naming {
    const char *suffix;
    size_t cut;
    hil_dtype dtype;
} naming;

static const naming nf4[HIL_QUANTIZED_PARTS] = {
    [HIL_QUANTIZED_CODES] = {"", 0, HIL_U8},
    [HIL_QUANTIZED_SCALES] = {".absmax", 0, HIL_U8},
    [HIL_QUANTIZED_NESTED] = {".nested_absmax", 0, HIL_F32},
    [HIL_QUANTIZED_TABLE] = {".quant_map", 0, HIL_F32},
    [HIL_QUANTIZED_NESTED_TABLE] = {".nested_quant_map", 0, HIL_F32},
    [HIL_QUANTIZED_STATE] = {".quant_state.bitsandbytes__nf4", 0, HIL_U8},
};
static const naming int8[HIL_QUANTIZED_PARTS] = {
    [HIL_QUANTIZED_CODES] = {"", 0, HIL_I8},
    [HIL_QUANTIZED_SCALES] = {"SCB", WEIGHT, HIL_F32},
    [HIL_QUANTIZED_FORMAT] = {"_format", 0, HIL_U8},
};
static const naming fp8[HIL_QUANTIZED_PARTS] = {
    [HIL_QUANTIZED_CODES] = {"", 0, HIL_E4M3},
    [HIL_QUANTIZED_SCALES] = {"_scale_inv", 0, HIL_F32},
};

static const naming *names_of(hil_quant quant)
{
    assert(quant == HIL_QUANT_NF4 || quant == HIL_QUANT_INT8 || quant == HIL_QUANT_FP8);
    return quant == HIL_QUANT_NF4 ? nf4 : quant == HIL_QUANT_INT8 ? int8 : fp8;
}

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

static hil_shape vector_of(int64_t count)
{
    return (hil_shape){1, {count}};
}

static hil_status shape_of(const hil_quantized_matrix *m, hil_quantized_part part, hil_shape *out)
{
    const hil_shape *shape = &hil_param_spec_of(m->param)->shape;
    int64_t rows = shape->dim[0], cols = shape->dim[1];
    int64_t blocks = divide_up(rows * cols, HIL_QUANT_BLOCK);
    hil_text state = {0};
    *out = (hil_shape){0, {0}};
    switch (part) {
    case HIL_QUANTIZED_CODES:
        *out = *shape;
        if (m->quant == HIL_QUANT_NF4)
            *out = (hil_shape){2, {(int64_t)hil_quant_codes(m->quant, rows * cols), 1}};
        return HIL_OK;
    case HIL_QUANTIZED_SCALES:
        *out = vector_of(m->quant == HIL_QUANT_NF4 ? blocks : rows);
        if (m->quant == HIL_QUANT_FP8)
            *out = (hil_shape){
                2, {divide_up(rows, HIL_QUANT_SQUARE), divide_up(cols, HIL_QUANT_SQUARE)}};
        return HIL_OK;
    case HIL_QUANTIZED_NESTED:
        *out = vector_of(divide_up(blocks, HIL_QUANT_NESTED));
        return HIL_OK;
    case HIL_QUANTIZED_TABLE:
        *out = vector_of(16);
        return HIL_OK;
    case HIL_QUANTIZED_NESTED_TABLE:
        *out = vector_of(HIL_QUANT_NEST_TABLE);
        return HIL_OK;
    case HIL_QUANTIZED_STATE:
        HIL_TRY(hil_quantized_state_write(m, &state));
        *out = vector_of((int64_t)state.size);
        hil_text_free(&state);
        return HIL_OK;
    default: /* one number, without dimensions */
        return HIL_OK;
    }
}

hil_status hil_quantized_tensor(const hil_quantized_matrix *m, hil_quantized_part part,
                                hil_export_tensor *out)
{
    const naming *n = &names_of(m->quant)[part];
    const char *name = hil_param_spec_of(m->param)->name;
    hil_text text = {0};
    *out = (hil_export_tensor){0};
    if (!n->suffix) return HIL_OK;
    out->dtype = n->dtype;
    HIL_TRY(shape_of(m, part, &out->shape));
    HIL_TRY(hil_text_print(&text, "%.*s%s", (int)(strlen(name) - n->cut), name, n->suffix));
    out->name = text.data;
    return HIL_OK;
}

hil_status hil_quantized_state_write(const hil_quantized_matrix *m, hil_text *out)
{
    const hil_shape *shape = &hil_param_spec_of(m->param)->shape;
    char offset[32];
    hil_text_real(offset, (double)m->offset);
    return hil_text_print(out,
                          "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": %s, \"shape\": "
                          "[%lld, %lld], \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", "
                          "\"nested_offset\": %s}",
                          HIL_QUANT_BLOCK, hil_config_torch_name(m->dtype),
                          (long long)shape->dim[0], (long long)shape->dim[1], HIL_QUANT_NESTED,
                          offset);
}
