/* orthogonal.c - the nearest orthogonal matrix, by Newton-Schulz steps: the products of Muon. */
#include "ops/linear/orthogonal.h"

#include "ops/linear/gemm.h"
#include "ops/rows/rows.h"

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 2));
    hil_infer_out(call, call->in[0].dtype, &call->in[0].shape);
    call->forward_scratch = hil_orthogonal_of(call).bytes;
    return HIL_OK;
}

typedef struct job {
    hil_orthogonal o;
    const hil_op_call *call;
    const uint16_t *from; /* what follows is for all rows of a matrix with `side` columns */
    uint16_t *to;
    float factor, diagonal;
} job;

static float number(const hil_tensor *x, int64_t i)
{
    return x->dtype == HIL_F32 ? ((const float *)x->data)[i]
                               : hil_bf16_load(((const uint16_t *)x->data)[i]);
}

static void square_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const job *j = context;
    double sum = 0;
    for (int64_t i = row * j->o.cols; i < (row + 1) * j->o.cols; ++i)
        sum += (double)number(&j->call->in[0], i) * (double)number(&j->call->in[0], i);
    j->o.square[row] = sum;
}

static void add_squares(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const job *j = context;
    double sum = 0;
    for (int64_t r = 0; r < j->o.rows; ++r) sum += j->o.square[r];
    j->o.square[j->o.rows] = sum;
}

static void normalize_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const job *j = context;
    float scale = (float)(1 / fmax(sqrt(j->o.square[j->o.rows]), HIL_ORTHOGONAL_EPS));
    for (int64_t i = row * j->o.cols; i < (row + 1) * j->o.cols; ++i)
        j->o.x[0][i] = hil_bf16_round(number(&j->call->in[0], i) * scale);
}

/* to = diagonal on the diagonal + factor * from. */
static void shift_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const job *j = context;
    for (int64_t i = 0; i < j->o.side; ++i) {
        int64_t at = row * j->o.side + i;
        j->to[at] =
            hil_bf16_round(fmaf(j->factor, hil_bf16_load(j->from[at]), i == row ? j->diagonal : 0));
    }
}

static void scale_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const job *j = context;
    const hil_tensor *y = &j->call->out[0];
    for (int64_t i = row * j->o.cols; i < (row + 1) * j->o.cols; ++i) {
        float v = hil_bf16_load(j->from[i]) * j->factor;
        if (y->dtype == HIL_F32)
            ((float *)y->data)[i] = v;
        else
            ((uint16_t *)y->data)[i] = hil_bf16_round(v);
    }
}

static hil_status product(const hil_op_call *call, const int64_t mnk[3], hil_matrix a, hil_matrix b,
                          uint16_t *c)
{
    hil_gemm gemm = {.m = mnk[0],
                     .n = mnk[1],
                     .k = mnk[2],
                     .a = a,
                     .b = b,
                     .c = c,
                     .c_dtype = HIL_BF16,
                     .c_stride = mnk[1]};
    return hil_pool_is_dry(call->pool) ? HIL_OK : hil_gemm_run(call->pool, &gemm);
}

/* j->o.x[1] = the polynomial of j->o.x[0]. */
static hil_status step(const job *j)
{
    const hil_orthogonal *o = &j->o;
    hil_pool *pool = j->call->pool;
    int64_t n = o->side, longer = o->rows + o->cols - n;
    hil_matrix x = hil_matrix_rows(o->x[0], HIL_BF16, o->cols),
               transposed = hil_matrix_transpose(x);
    hil_matrix gram = hil_matrix_rows(o->gram, HIL_BF16, n);
    hil_matrix inner = hil_matrix_rows(o->inner, HIL_BF16, n);
    hil_matrix outer = hil_matrix_rows(o->outer, HIL_BF16, n);
    bool wide = o->rows == n;
    HIL_TRY(product(j->call, (int64_t[]){n, n, longer}, wide ? x : transposed,
                    wide ? transposed : x, o->gram));
    job shift = *j;
    shift.from = o->gram, shift.to = o->inner;
    shift.factor = HIL_ORTHOGONAL_C, shift.diagonal = HIL_ORTHOGONAL_B;
    hil_pool_run(pool, shift_row, &shift, n);
    HIL_TRY(product(j->call, (int64_t[]){n, n, n}, inner, gram, o->outer));
    shift.from = shift.to = o->outer;
    shift.factor = 1, shift.diagonal = HIL_ORTHOGONAL_A;
    hil_pool_run(pool, shift_row, &shift, n);
    return product(j->call, (int64_t[]){o->rows, o->cols, n}, wide ? outer : x, wide ? x : outer,
                   o->x[1]);
}

static hil_status forward(hil_op_call *call)
{
    job j = {.o = hil_orthogonal_of(call), .call = call};
    hil_pool_run(call->pool, square_row, &j, j.o.rows);
    hil_pool_run(call->pool, add_squares, &j, 1);
    hil_pool_run(call->pool, normalize_row, &j, j.o.rows);
    for (int i = 0; i < HIL_ORTHOGONAL_STEPS; ++i) {
        HIL_TRY(step(&j));
        uint16_t *next = j.o.x[1];
        j.o.x[1] = j.o.x[0];
        j.o.x[0] = next;
    }
    j.from = j.o.x[0];
    j.factor = j.o.scale;
    hil_pool_run(call->pool, scale_row, &j, j.o.rows);
    return HIL_OK;
}

const hil_op hil_op_orthogonal = {
    .name = "orthogonal",
    .infer = infer,
    .forward = forward,
};
