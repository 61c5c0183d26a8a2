/* linear.cu - x times the transposed weight, plus bias and residual, one tile of the weight's rows
   at a time. */
#include "ops/cuda_columns.h"
#include "ops/linear/matmul_cuda.h"
#include "ops/linear/narrow_cuda.h"
#include "ops/linear/operand_cuda.h"

typedef struct sizes {
    int64_t rows, n, k, tiles;
    hil_columns columns; /* of the output */
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_op_param *w = &call->param[0];
    sizes s = {hil_shape_rows(&call->in[0].shape), w->rows, w->cols, hil_op_tiles(w)};
    s.columns = hil_columns_of(s.rows, s.n);
    return s;
}

/* Whether it is the product with an adapter's B, which has kernels of its own. */
static bool is_narrow(const hil_op_call *call, const sizes *s)
{
    return call->params == 1 && s->tiles == 1 && !call->param[0].fp8 &&
           hil_cuda_narrow_suits(call->device, call->param[0].dtype, s->rows, s->n, s->k);
}

/* Whether both gradients are computed at once. */
static bool joins_gradients(const hil_op_call *call, const sizes *s)
{
    return call->param[0].trainable && is_narrow(call, s);
}

/* Factors that are rounded to 8 bits, in the order of their parts of the scratch. */
enum { X, W, DY, FACTORS };

/* Scratch; NULL: there is no such part. */
typedef struct parts {
    void *bias;     /* forward: in the output's dtype (N) */
    float *sum;     /* backward: gradient of x (rows, K) when tiles must be summed */
    float *partial; /* backward: the bias' gradient of each block of rows (blocks, N) */
    bool codes;     /* products are of codes, not of the numbers that these stand for */
    hil_cuda_operand in8[FACTORS];
    size_t bytes;
} parts;

static void *take(const hil_op_call *call, int64_t count, size_t size, size_t *bytes)
{
    return (void *)((uintptr_t)call->scratch + hil_scratch_add(bytes, count, size));
}

/* Whether cuBLASLt multiplies such matrices, and their tiles and transposes, in 8 bits. */
static bool suits_codes(const hil_op_param *w, const sizes *s)
{
    return s->rows % HIL_OPERAND_MULTIPLE == 0 && s->n % HIL_OPERAND_MULTIPLE == 0 &&
           s->k % HIL_OPERAND_MULTIPLE == 0 &&
           (s->tiles == 1 || w->tile_rows % HIL_OPERAND_MULTIPLE == 0);
}

/* Products in 8 bits want the numbers that are added up side by side in both factors: forward has
   them so, backward adds up over the weight's rows (dx) and over those of x and dy (dw). */
static void place_factors(const hil_op_call *call, const sizes *s, bool backward, parts *p)
{
    const hil_op_param *w = &call->param[0];
    int64_t tile = w->tile_rows < s->n ? w->tile_rows : s->n;
    const int64_t rows[FACTORS] = {s->rows, tile, s->rows}, cols[FACTORS] = {s->k, s->k, s->n};
    const bool wanted[FACTORS] = {!backward || w->trainable, true, backward};
    p->codes = suits_codes(w, s);
    for (int i = 0; i < FACTORS; ++i) {
        if (!wanted[i]) continue;
        hil_cuda_operand *o = &p->in8[i];
        int64_t count = rows[i] * cols[i];
        *o = {.kind = i == DY ? HIL_FP8_E5M2 : HIL_FP8_E4M3, .rows = rows[i], .cols = cols[i]};
        o->scale = (hil_operand_scale *)take(call, 1, sizeof *o->scale, &p->bytes);
        if (!p->codes) {
            o->numbers = (uint16_t *)take(call, count, sizeof *o->numbers, &p->bytes);
            continue;
        }
        if (!backward || i == DY) o->codes = (unsigned char *)take(call, count, 1, &p->bytes);
        if (backward && (i != DY || w->trainable))
            o->transposed = (unsigned char *)take(call, count, 1, &p->bytes);
    }
}

static parts place(const hil_op_call *call, const sizes *s, bool backward)
{
    parts p = {};
    bool bias = call->params == 2;
    if (!backward && bias) p.bias = take(call, s->n, sizeof(float), &p.bytes);
    if (backward && s->tiles > 1)
        p.sum = (float *)take(call, s->rows * s->k, sizeof(float), &p.bytes);
    if (backward && bias)
        p.partial = (float *)take(call, s->columns.blocks * s->n, sizeof(float), &p.bytes);
    if (call->param[0].fp8) place_factors(call, s, backward, &p);
    return p;
}

static hil_status infer(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->in[0].dtype != call->param[0].dtype || call->compute != call->param[0].dtype)
        return hil_fail(HIL_ERR_USAGE, "linear: input is %s, weight is %s; a GPU wants both alike",
                        hil_dtype_name(call->in[0].dtype), hil_dtype_name(call->param[0].dtype));
    call->forward_scratch = place(call, &s, false).bytes;
    call->backward_scratch = place(call, &s, true).bytes;
    if (joins_gradients(call, &s)) call->backward_scratch += hil_cuda_narrow_bytes(s.rows, s.n);
    return HIL_OK;
}

/* Rounds factor i to 8 bits, if that is wanted. */
static hil_status round_factor(const hil_op_call *call, parts *p, int i, const void *from,
                               int64_t rows)
{
    hil_cuda_operand *o = &p->in8[i];
    if (!o->scale) return HIL_OK;
    o->from = from;
    o->rows = rows;
    return hil_cuda_operand_round(call->device, o);
}

/* Has the product read factors a and b as they were rounded; `first` is the column of a, or of what
   its transpose was made of, where the product begins. */
static void use_factors(const parts *p, hil_cuda_matmul *m, int a, int b, int64_t first)
{
    const hil_cuda_operand *left = &p->in8[a], *right = &p->in8[b];
    if (!right->scale) return;
    if (!p->codes) {
        m->a.data = left->numbers + first;
        m->b.data = right->numbers;
        return;
    }
    m->dtype = HIL_E4M3;
    m->a_e5m2 = a == DY;
    m->a_scale = &left->scale->multiplier;
    m->b_scale = &right->scale->multiplier;
    m->a = {left->codes + first, left->cols, false};
    if (b == X) m->a = {left->transposed + first * left->rows, left->rows, false};
    m->b = {right->codes, right->cols, true};
    if (right->transposed) m->b = {right->transposed, right->rows, true};
}

static void *element(const hil_tensor *x, int64_t at)
{
    return (char *)x->data + (size_t)at * hil_dtype_size(x->dtype);
}

static hil_status copy_bias(const hil_op_call *call, const hil_tensor *to)
{
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, 1, 0, &data));
    hil_tensor from = {call->param[1].dtype, to->shape, (void *)(uintptr_t)data};
    hil_status status = hil_op_cuda_convert(call->device, to, &from, false);
    call->source->weight_end(call->owner, 1, 0);
    return status;
}

/* Of a narrow weight, with a residual. */
static hil_status add_narrow(hil_op_call *call, const sizes *s)
{
    hil_cuda_narrow job = {s->rows, s->n, s->k, NULL, NULL, call->in[0].data, NULL};
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &job.w));
    hil_status status =
        hil_cuda_narrow_add(call->device, &job, call->in[1].data, call->out[0].data);
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->ins == 2 && is_narrow(call, &s)) return add_narrow(call, &s);
    const hil_tensor *x = &call->in[0], *y = &call->out[0];
    parts part = place(call, &s, false);
    hil_tensor bias = {y->dtype, {1, {s.n}}, part.bias};
    if (part.bias) HIL_TRY(copy_bias(call, &bias));
    HIL_TRY(round_factor(call, &part, X, x->data, s.rows));
    for (int64_t tile = 0; tile < s.tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_cuda_matmul product = {.m = s.rows,
                                   .n = p.count,
                                   .k = s.k,
                                   .dtype = x->dtype,
                                   .a = {x->data, s.k, false},
                                   .b = {w, s.k, true},
                                   .c = element(y, p.first),
                                   .c_dtype = y->dtype,
                                   .c_stride = s.n,
                                   .bias = part.bias ? element(&bias, p.first) : NULL,
                                   .base = call->ins == 2 ? element(&call->in[1], p.first) : NULL};
        hil_status status = round_factor(call, &part, W, w, p.count);
        use_factors(&part, &product, X, W, 0);
        if (status == HIL_OK) status = hil_cuda_matmul_run(call->device, &product);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* dx = dy * weight: straight to din, or tile by tile into the fp32 sum. */
static hil_status back_input(hil_op_call *call, const sizes *s, parts *part)
{
    const hil_tensor *dy = &call->dout[0], *dx = &call->din[0];
    float *sum = part->sum;
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_cuda_matmul product = {.m = s->rows,
                                   .n = s->k,
                                   .k = p.count,
                                   .dtype = dy->dtype,
                                   .a = {element(dy, p.first), s->n, false},
                                   .b = {w, s->k, false},
                                   .c = sum ? sum : dx->data,
                                   .c_dtype = sum ? HIL_F32 : dx->dtype,
                                   .c_stride = s->k,
                                   .add = sum ? tile > 0 : call->din_add[0]};
        hil_status status = round_factor(call, part, W, w, p.count);
        use_factors(part, &product, DY, W, p.first);
        if (status == HIL_OK) status = hil_cuda_matmul_run(call->device, &product);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    if (!sum) return HIL_OK;
    hil_tensor whole = {HIL_F32, dx->shape, sum};
    return hil_op_cuda_convert(call->device, dx, &whole, call->din_add[0]);
}

/* The weight's gradient: transposed dy * x. */
static hil_status back_weight(hil_op_call *call, const sizes *s, parts *part)
{
    const hil_tensor *dy = &call->dout[0], *x = &call->in[0];
    HIL_TRY(round_factor(call, part, X, x->data, s->rows));
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        hil_cuda_matmul product = {.m = p.count,
                                   .n = s->k,
                                   .k = s->rows,
                                   .dtype = x->dtype,
                                   .a = {element(dy, p.first), s->n, true},
                                   .b = {x->data, s->k, false},
                                   .c = sum,
                                   .c_dtype = HIL_F32,
                                   .c_stride = s->k,
                                   .add = add};
        use_factors(part, &product, DY, X, p.first);
        hil_status status = hil_cuda_matmul_run(call->device, &product);
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status back_bias(hil_op_call *call, const sizes *s, float *partial)
{
    HIL_TRY(hil_columns_run<false>(call->device, partial,
                                   {"linear bias", hil_view_of(&call->dout[0])}, s->columns));
    return hil_columns_give(call, 1, partial, s->columns);
}

/* Of a narrow weight. */
static hil_status back_both(hil_op_call *call, const sizes *s)
{
    hil_cuda_narrow job = {s->rows,          s->n,         s->k, call->dout[0].data, NULL,
                           call->in[0].data, call->scratch};
    float *sum;
    bool add;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &job.w));
    hil_status status = hil_cuda_narrow_run(call->device, &job);
    call->source->weight_end(call->owner, 0, 0);
    HIL_TRY(status);
    HIL_TRY(hil_cuda_narrow_input(call->device, &job, call->din[0].data, call->din_add[0]));
    HIL_TRY(call->source->gradient_begin(call->owner, 0, 0, &sum, &add));
    status = hil_cuda_narrow_weight(call->device, &job, sum, add);
    call->source->gradient_end(call->owner, 0, 0);
    return status;
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->din[0].data && joins_gradients(call, &s)) return back_both(call, &s);
    parts part = place(call, &s, true);
    HIL_TRY(round_factor(call, &part, DY, call->dout[0].data, s.rows));
    if (call->din[0].data) HIL_TRY(back_input(call, &s, &part));
    if (call->param[0].trainable) HIL_TRY(back_weight(call, &s, &part));
    if (call->params == 2 && call->param[1].trainable) HIL_TRY(back_bias(call, &s, part.partial));
    return HIL_OK;
}

const hil_op_kernel hil_cuda_linear = {
    .op = &hil_op_linear, .infer = infer, .forward = forward, .backward = backward};
