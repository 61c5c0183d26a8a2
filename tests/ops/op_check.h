/* op_check.h - runs one operation as a tape would and compares it with a reference in double.
   Buffers are poisoned before they are written; inputs and outputs that the operation does not ask
   to keep are poisoned before backward; tiles of parameters are valid only between begin and end. A
   dry run on addresses without memory must ask for the same tiles in the same order. */
#ifndef HIL_TESTS_OP_CHECK_H
#define HIL_TESTS_OP_CHECK_H

#include "check.h"
#include "ops/ops.h"

#include <sys/mman.h>

typedef struct op_case op_case;

/* Computes out[] from in[] and param[], all in double; int32 inputs are converted to double. */
typedef void op_reference(const op_case *c, double *const *in, double *const *param,
                          double *const *out);

/* The dtype that out must have. */
typedef enum op_out { OP_COMPUTE, OP_INPUT, OP_FP32 } op_out;

struct op_case {
    const hil_op *op;
    const void *attr;
    op_reference *reference;
    hil_dtype compute;
    op_out out;
    int ins, outs, params;
    hil_shape in_shape[HIL_OP_TENSORS];
    hil_dtype in_dtype[HIL_OP_TENSORS];
    const int32_t *ids[HIL_OP_TENSORS]; /* contents of int32 inputs */
    hil_dtype dout_dtype, din_dtype;    /* of all outputs' and inputs' gradients */
    int64_t rows[HIL_OP_PARAMS], cols[HIL_OP_PARAMS];
    bool frozen[HIL_OP_PARAMS];
    int64_t experts;      /* parameters like param 0, of rows[0] / experts rows each; 0: one */
    bool fused;           /* the loss head: dout is loss_scale, forward computes the gradients */
    unsigned no_dout;     /* bit i: no gradient arrives for out[i] */
    unsigned no_din;      /* bit i: no gradient of in[i] is wanted */
    int64_t samples;      /* how many elements of each gradient are checked; 0: all */
    double spread;        /* of random inputs; 0: 1 */
    double slack;         /* allowed error of gradients beyond rounding, relative to the largest */
    hil_op_random random; /* for dropout */
    /* varied by op_check */
    int threads;
    int64_t tiles;
    bool add; /* add to existing gradients */
};

#define OP_ASKED 256

typedef struct op_result {
    hil_tensor in[HIL_OP_TENSORS], out[HIL_OP_TENSORS], dout[HIL_OP_TENSORS], din[HIL_OP_TENSORS];
    double *din_before[HIL_OP_TENSORS];
    hil_op_param param[HIL_OP_PARAMS];
    int64_t experts;
    void *weight[HIL_OP_PARAMS];
    float *before[HIL_OP_PARAMS], *gradient[HIL_OP_PARAMS];
    int outs;
    /* what the operation asked the source of parameters for */
    bool add;
    unsigned begun[HIL_OP_PARAMS]; /* bit per tile: its sum has been added to */
    int held;
    void *lent;
    struct op_asked {
        char what; /* w, W: weight_begin, weight_end; g, G: gradient */
        int param;
        int64_t tile;
    } asked[OP_ASKED];
    size_t asks;
} op_result;

static void op_note(op_result *r, char what, int param, int64_t tile)
{
    CHECK(r->asks < OP_ASKED);
    r->asked[r->asks++] = (struct op_asked){what, param, tile};
}

/* Whether the tile's sum was added to before. */
static bool op_begin_sum(op_result *r, int param, int64_t tile)
{
    bool holds = r->begun[param] >> tile & 1;
    r->begun[param] |= 1u << tile;
    return r->add || holds;
}

static const hil_op_source op_dry_source;

/* Runs an inferred call without memory and compares the tiles it asks for with those of the real
   run. */
static inline void op_check_dry(hil_op_call call, const op_result *real, const hil_tensor *dout,
                                const hil_tensor *din)
{
    size_t size = (size_t)1 << 30;
    void *nowhere = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(nowhere != MAP_FAILED);
    op_result dry = {.lent = nowhere};
    memcpy(dry.param, real->param, sizeof dry.param);
    CHECK_OK(hil_pool_create_dry(&call.pool));
    CHECK(hil_pool_is_dry(call.pool));
    call.source = &op_dry_source;
    call.owner = &dry;
    call.scratch = nowhere;
    for (int i = 0; i < HIL_OP_TENSORS; ++i) {
        call.in[i].data = call.out[i].data = call.saved[i].data = nowhere;
        call.dout[i] = dout[i];
        call.din[i] = din[i];
        if (dout[i].data) call.dout[i].data = nowhere;
        if (din[i].data) call.din[i].data = nowhere;
    }
    CHECK_OK(call.op->forward(&call));
    if (call.op->backward) CHECK_OK(call.op->backward(&call));
    CHECK_INT(dry.asks, real->asks);
    for (size_t i = 0; i < dry.asks; ++i) {
        CHECK_INT(dry.asked[i].what, real->asked[i].what);
        CHECK_INT(dry.asked[i].param, real->asked[i].param);
        CHECK_INT(dry.asked[i].tile, real->asked[i].tile);
    }
    hil_pool_destroy(call.pool);
    munmap(nowhere, size);
}

#define OP_SCALE 0.37f /* loss_scale of a fused case */

static uint64_t op_seed = 1;

static double op_random(void)
{
    op_seed = op_seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(op_seed >> 11) * 0x1p-53 * 2 - 1;
}

/* The first row of a tile among those of all experts. */
static int64_t op_tile_row(const op_result *r, const hil_op_param *p, int64_t tile)
{
    int64_t each = hil_op_tiles(p);
    CHECK(tile >= 0 && tile < each * (p == r->param && r->experts ? r->experts : 1));
    return tile / each * p->rows + tile % each * p->tile_rows;
}

static hil_status op_weight_begin(void *owner, int param, int64_t tile, const void **data)
{
    op_result *r = owner;
    const hil_op_param *p = &r->param[param];
    op_note(r, 'w', param, tile);
    CHECK_INT(r->held, 0);
    int64_t first = op_tile_row(r, p, tile), left = p->rows - first % p->rows;
    int64_t rows = left < p->tile_rows ? left : p->tile_rows;
    size_t row = (size_t)p->cols * hil_dtype_size(p->dtype);
    r->lent = malloc((size_t)rows * row + 1);
    memcpy(r->lent, (char *)r->weight[param] + (size_t)first * row, (size_t)rows * row);
    *data = r->lent;
    r->held = 1 + param;
    return HIL_OK;
}

static void op_weight_end(void *owner, int param, int64_t tile)
{
    op_result *r = owner;
    op_note(r, 'W', param, tile);
    CHECK_INT(r->held, 1 + param);
    free(r->lent);
    r->held = 0;
}

static hil_status op_gradient_begin(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    op_result *r = owner;
    const hil_op_param *p = &r->param[param];
    *add = op_begin_sum(r, param, tile);
    op_note(r, 'g', param, tile);
    CHECK_INT(r->held, 0);
    CHECK(p->trainable);
    *sum = r->gradient[param] + op_tile_row(r, p, tile) * p->cols;
    r->held = -1 - param;
    return HIL_OK;
}

static void op_gradient_end(void *owner, int param, int64_t tile)
{
    op_result *r = owner;
    op_note(r, 'G', param, tile);
    CHECK_INT(r->held, -1 - param);
    r->held = 0;
}

static const hil_op_source op_source = {op_weight_begin, op_weight_end, op_gradient_begin,
                                        op_gradient_end};

static hil_status op_dry_weight_begin(void *owner, int param, int64_t tile, const void **data)
{
    op_note(owner, 'w', param, tile);
    *data = ((op_result *)owner)->lent;
    return HIL_OK;
}

static void op_dry_weight_end(void *owner, int param, int64_t tile)
{
    op_note(owner, 'W', param, tile);
}

static hil_status op_dry_gradient_begin(void *owner, int param, int64_t tile, float **sum,
                                        bool *add)
{
    *add = op_begin_sum(owner, param, tile);
    op_note(owner, 'g', param, tile);
    *sum = ((op_result *)owner)->lent;
    return HIL_OK;
}

static void op_dry_gradient_end(void *owner, int param, int64_t tile)
{
    op_note(owner, 'G', param, tile);
}

static const hil_op_source op_dry_source = {op_dry_weight_begin, op_dry_weight_end,
                                            op_dry_gradient_begin, op_dry_gradient_end};

static void *op_poisoned(size_t bytes)
{
    void *memory = NULL;
    CHECK(posix_memalign(&memory, 64, bytes ? bytes : 1) == 0);
    memset(memory, 0xff, bytes);
    return memory;
}

static void op_fill(const hil_tensor *t, double spread)
{
    int64_t count = hil_shape_count(&t->shape);
    for (int64_t i = 0; i < count; ++i) {
        float x = (float)(op_random() * spread);
        hil_dtype_from_f32((char *)t->data + (size_t)i * hil_dtype_size(t->dtype), &x, t->dtype, 1);
    }
}

static double *op_doubles(const hil_tensor *t)
{
    int64_t count = hil_shape_count(&t->shape);
    double *out = malloc(sizeof(double) * (size_t)count + 1);
    for (int64_t i = 0; i < count; ++i) {
        if (t->dtype == HIL_I32) {
            out[i] = ((const int32_t *)t->data)[i];
            continue;
        }
        float x;
        hil_dtype_to_f32(&x, (char *)t->data + (size_t)i * hil_dtype_size(t->dtype), t->dtype, 1);
        out[i] = x;
    }
    return out;
}

static void op_make_inputs(const op_case *c, hil_op_call *call, op_result *r)
{
    double spread = c->spread > 0 ? c->spread : 1;
    for (int i = 0; i < c->ins; ++i) {
        hil_tensor *t = &r->in[i];
        *t = (hil_tensor){.dtype = c->in_dtype[i], .shape = c->in_shape[i]};
        t->data = op_poisoned(hil_tensor_bytes(t));
        if (t->dtype == HIL_I32)
            memcpy(t->data, c->ids[i], hil_tensor_bytes(t));
        else
            op_fill(t, spread);
        call->in[i] = *t;
    }
    for (int i = 0; i < c->params; ++i) {
        hil_op_param *p = &r->param[i];
        int64_t experts = i == 0 && c->experts ? c->experts : 1, rows = c->rows[i] / experts;
        int64_t tile_rows = (rows + c->tiles - 1) / c->tiles;
        *p = (hil_op_param){.dtype = c->rows[i] == 1 ? HIL_F32 : c->compute,
                            .rows = rows,
                            .cols = c->cols[i],
                            .tile_rows = tile_rows > 1 ? tile_rows : 1,
                            .trainable = !c->frozen[i]};
        hil_tensor w = {p->dtype, {2, {c->rows[i], p->cols}}, NULL};
        w.data = r->weight[i] = op_poisoned(hil_tensor_bytes(&w));
        op_fill(&w, spread);
        size_t bytes = (size_t)(c->rows[i] * p->cols) * sizeof(float);
        hil_tensor sum = {HIL_F32, w.shape, r->before[i] = op_poisoned(bytes)};
        op_fill(&sum, 0.1);
        r->gradient[i] = op_poisoned(bytes);
        if (!c->add) memset(r->before[i], 0, bytes);
        if (c->add) memcpy(r->gradient[i], r->before[i], bytes);
        call->param[i] = *p;
    }
}

static void op_backward(const op_case *c, hil_op_call *call, op_result *r)
{
    for (int i = 0; i < call->outs; ++i) {
        hil_tensor *t = &r->dout[i];
        *t = (hil_tensor){.dtype = c->dout_dtype, .shape = call->out[i].shape};
        if (c->fused || c->no_dout >> i & 1) continue;
        t->data = op_poisoned(hil_tensor_bytes(t));
        op_fill(t, 1);
        call->dout[i] = *t;
    }
    for (int i = 0; i < c->ins; ++i) {
        if (c->in_dtype[i] == HIL_I32 || (c->op->pass | c->no_din) >> i & 1) continue;
        hil_tensor *t = &r->din[i];
        *t = (hil_tensor){.dtype = c->din_dtype, .shape = c->in_shape[i]};
        t->data = op_poisoned(hil_tensor_bytes(t));
        if (c->add) {
            op_fill(t, 0.5);
            r->din_before[i] = op_doubles(t);
        }
        call->din[i] = *t;
        call->din_add[i] = c->add;
    }
    hil_tensor keep_in[HIL_OP_TENSORS], keep_out[HIL_OP_TENSORS];
    for (int i = 0; i < c->ins; ++i) {
        keep_in[i] = call->in[i];
        if (!(c->op->keep_in >> i & 1)) call->in[i].data = NULL;
    }
    for (int i = 0; i < call->outs; ++i) {
        keep_out[i] = call->out[i];
        if (!(c->op->keep_out >> i & 1)) call->out[i].data = NULL;
    }
    call->scratch = op_poisoned(call->backward_scratch);
    if (c->op->backward) CHECK_OK(c->op->backward(call));
    free(call->scratch);
    memcpy(call->in, keep_in, sizeof keep_in);
    memcpy(call->out, keep_out, sizeof keep_out);
}

static void op_run(const op_case *c, op_result *r)
{
    memset(r, 0, sizeof *r);
    op_seed = 1;
    r->add = c->add;
    r->experts = c->experts ? c->experts : 1;
    hil_op_call call = {.op = c->op,
                        .attr = c->attr,
                        .compute = c->compute,
                        .differentiate = true,
                        .loss_scale = OP_SCALE,
                        .random = c->random,
                        .ins = c->ins,
                        .outs = c->outs,
                        .params = c->params,
                        .source = &op_source,
                        .owner = r};
    op_make_inputs(c, &call, r);
    CHECK_OK(hil_pool_create(&call.pool, c->threads));
    CHECK_OK(c->op->infer(&call));
    CHECK_INT(call.outs, c->outs);
    r->outs = call.outs;
    const hil_dtype dtypes[] = {c->compute, c->in_dtype[0], HIL_F32};
    for (int i = 0; i < call.outs; ++i) CHECK_INT(call.out[i].dtype, dtypes[c->out]);
    for (int i = 0; i < call.outs; ++i)
        r->out[i] = call.out[i],
        r->out[i].data = call.out[i].data = op_poisoned(hil_tensor_bytes(&call.out[i]));
    for (int i = 0; i < call.saveds; ++i)
        call.saved[i].data = op_poisoned(hil_tensor_bytes(&call.saved[i]));
    call.scratch = op_poisoned(call.forward_scratch);
    CHECK_OK(c->op->forward(&call));
    free(call.scratch);
    op_backward(c, &call, r);
    CHECK_INT(r->held, 0);
    op_check_dry(call, r, r->dout, r->din);
    for (int i = 0; i < call.saveds; ++i) free(call.saved[i].data);
    hil_pool_destroy(call.pool);
}

static void op_free(op_result *r)
{
    for (int i = 0; i < HIL_OP_TENSORS; ++i) {
        free(r->in[i].data);
        free(r->out[i].data);
        free(r->dout[i].data);
        free(r->din[i].data);
        free(r->din_before[i]);
    }
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        free(r->weight[i]);
        free(r->before[i]);
        free(r->gradient[i]);
    }
}

/* Describes the case, for messages. */
static const char *op_describe(const op_case *c)
{
    static char text[160];
    snprintf(text, sizeof text, "%s (compute %s, threads %d, tiles %lld, add %d)", c->op->name,
             hil_dtype_name(c->compute), c->threads, (long long)c->tiles, c->add);
    return text;
}

typedef struct op_numbers {
    const double *got, *want;
    int64_t count;
} op_numbers;

/* Allows half a unit of the dtype's last place, plus a fraction of the largest number. */
static void op_compare(const op_case *c, const char *what, const op_numbers *x, hil_dtype dtype,
                       double slack)
{
    double most = 0, half = dtype == HIL_BF16 ? 0x1.01p-8 : dtype == HIL_F16 ? 0x1.01p-11 : 0;
    for (int64_t i = 0; i < x->count; ++i) most = fmax(most, fabs(x->want[i]));
    for (int64_t i = 0; i < x->count; ++i) {
        if (fabs(x->got[i] - x->want[i]) <= half * fabs(x->want[i]) + slack * (most + 0.1))
            continue;
        fprintf(stderr, "%s: %s[%lld] is %.9g, expected %.9g\n", op_describe(c), what, (long long)i,
                x->got[i], x->want[i]);
        exit(1);
    }
}

static double op_loss(const op_case *c, const op_result *r, double *const *in, double *const *param,
                      double *const *dout)
{
    double *out[HIL_OP_TENSORS] = {0}, loss = 0;
    for (int i = 0; i < r->outs; ++i)
        out[i] = malloc(sizeof(double) * (size_t)hil_shape_count(&r->out[i].shape) + 1);
    c->reference(c, in, param, out);
    for (int i = 0; i < r->outs; ++i) {
        int64_t count = hil_shape_count(&r->out[i].shape);
        for (int64_t j = 0; j < count; ++j)
            loss += out[i][j] * (c->fused ? (double)OP_SCALE : dout[i] ? dout[i][j] : 0);
        free(out[i]);
    }
    return loss;
}

static double op_slope(const op_case *c, const op_result *r, double *const *in,
                       double *const *param, double *const *dout, double *x)
{
    double at = *x, step = 1e-5;
    *x = at + step;
    double above = op_loss(c, r, in, param, dout);
    *x = at - step;
    double below = op_loss(c, r, in, param, dout);
    *x = at;
    return (above - below) / (2 * step);
}

static int64_t op_samples(const op_case *c, int64_t count)
{
    int64_t most = c->samples ? c->samples : CHECK_SLOW ? 9 : count; /* slopes are slow */
    return most < count ? most : count;
}

static void op_check_gradients(const op_case *c, const op_result *r, double *const *in,
                               double *const *param)
{
    double *dout[HIL_OP_TENSORS] = {0}, slack = 2e-6 + c->slack;
    for (int i = 0; i < r->outs; ++i)
        if (r->dout[i].data) dout[i] = op_doubles(&r->dout[i]);
    for (int i = 0; i < c->ins; ++i) {
        if (!r->din[i].data) continue;
        int64_t count = hil_shape_count(&c->in_shape[i]), samples = op_samples(c, count);
        double *want = malloc(sizeof(double) * (size_t)samples + 1);
        double *all = op_doubles(&r->din[i]), *got = malloc(sizeof(double) * (size_t)samples + 1);
        for (int64_t j = 0; j < samples; ++j) {
            int64_t at = j * (count / samples);
            got[j] = all[at];
            want[j] =
                op_slope(c, r, in, param, dout, &in[i][at]) + (c->add ? r->din_before[i][at] : 0);
        }
        for (int64_t j = 0; j < count; ++j) CHECK(isfinite(all[j]));
        op_compare(c, "din", &(op_numbers){got, want, samples}, r->din[i].dtype, slack);
        free(want);
        free(got);
        free(all);
    }
    for (int i = 0; i < c->params; ++i) {
        int64_t count = c->rows[i] * c->cols[i], samples = op_samples(c, count);
        double *want = malloc(sizeof(double) * (size_t)samples + 1);
        double *got = malloc(sizeof(double) * (size_t)samples + 1);
        for (int64_t j = 0; j < samples; ++j) {
            int64_t at = j * (count / samples);
            want[j] = (double)r->before[i][at];
            if (!c->frozen[i]) want[j] += op_slope(c, r, in, param, dout, &param[i][at]);
            got[j] = (double)(r->begun[i] ? r->gradient : r->before)[i][at];
        }
        op_compare(c, "gradient", &(op_numbers){got, want, samples}, HIL_F32, slack);
        free(want);
        free(got);
    }
    for (int i = 0; i < r->outs; ++i) free(dout[i]);
}

/* Forward against the reference, gradients against its finite differences. */
static void op_check_numbers(const op_case *c, const op_result *r)
{
    double *in[HIL_OP_TENSORS] = {0}, *param[HIL_OP_PARAMS] = {0}, *out[HIL_OP_TENSORS] = {0};
    for (int i = 0; i < c->ins; ++i) in[i] = op_doubles(&r->in[i]);
    for (int i = 0; i < c->params; ++i) {
        hil_tensor w = {r->param[i].dtype, {2, {c->rows[i], c->cols[i]}}, r->weight[i]};
        param[i] = op_doubles(&w);
    }
    for (int i = 0; i < r->outs; ++i)
        out[i] = op_doubles(&r->out[i]); /* for an array of the right size */
    c->reference(c, in, param, out);
    for (int i = 0; i < r->outs; ++i) {
        double *got = op_doubles(&r->out[i]);
        op_compare(c, "out", &(op_numbers){got, out[i], hil_shape_count(&r->out[i].shape)},
                   r->out[i].dtype, 2e-6);
        free(got);
    }
    op_check_gradients(c, r, in, param);
    for (int i = 0; i < c->ins; ++i) free(in[i]);
    for (int i = 0; i < c->params; ++i) free(param[i]);
    for (int i = 0; i < r->outs; ++i) free(out[i]);
}

static void op_same_bits(const op_case *c, const char *what, const hil_tensor *a,
                         const hil_tensor *b)
{
    if (!a->data || memcmp(a->data, b->data, hil_tensor_bytes(a)) == 0) return;
    fprintf(stderr, "%s: other bits in %s\n", op_describe(c), what);
    exit(1);
}

/* Runs the case with 1 and 3 tiles, overwriting and adding, and 1, 2 and 4 threads. */
static void op_check(op_case c)
{
    op_result base = {0};
    for (c.tiles = 1; c.tiles <= 3; c.tiles += 2) {
        for (int add = 0; add < 2; ++add) {
            c.add = add;
            c.threads = 1;
            op_result one;
            op_run(&c, &one);
            op_check_numbers(&c, &one);
            for (c.threads = CHECK_SLOW ? 4 : 2; c.threads <= 4; c.threads += 2) {
                op_result many;
                op_run(&c, &many);
                for (int i = 0; i < one.outs; ++i)
                    op_same_bits(&c, "out", &one.out[i], &many.out[i]);
                for (int i = 0; i < c.ins; ++i) op_same_bits(&c, "din", &one.din[i], &many.din[i]);
                for (int i = 0; i < c.params; ++i)
                    CHECK(memcmp(one.gradient[i], many.gradient[i],
                                 (size_t)(c.rows[i] * c.cols[i]) * sizeof(float)) == 0);
                op_free(&many);
            }
            if (base.outs) {
                for (int i = 0; i < one.outs; ++i)
                    op_same_bits(&c, "out", &one.out[i], &base.out[i]);
                op_free(&one);
            } else {
                base = one;
            }
        }
    }
    op_free(&base);
}

static void op_set_dtypes(op_case *c, const hil_dtype mix[4])
{
    c->compute = mix[0];
    for (int i = 0; i < c->ins; ++i)
        c->in_dtype[i] = c->ids[i] ? HIL_I32 : i == 1 ? mix[0] : mix[1];
    c->dout_dtype = mix[2];
    c->din_dtype = mix[3];
}

static inline void op_check_fp32(op_case c)
{
    op_set_dtypes(&c, (const hil_dtype[4]){HIL_F32, HIL_F32, HIL_F32, HIL_F32});
    op_check(c);
}

/* The case in fp32, in bf16, in fp16, and in the mixes that a model makes. */
static inline void op_check_dtypes(op_case c)
{
    static const hil_dtype mix[][4] = {
        /* compute, inputs, dout, din */
        {HIL_F32, HIL_F32, HIL_F32, HIL_F32},   {HIL_BF16, HIL_BF16, HIL_BF16, HIL_BF16},
        {HIL_BF16, HIL_F32, HIL_BF16, HIL_F32}, {HIL_BF16, HIL_BF16, HIL_F32, HIL_BF16},
        {HIL_F32, HIL_BF16, HIL_BF16, HIL_F32}, {HIL_F16, HIL_F16, HIL_F16, HIL_F16},
        {HIL_F16, HIL_F32, HIL_F16, HIL_F32},
    };
    for (size_t m = 0; m < sizeof mix / sizeof *mix; ++m) {
        op_set_dtypes(&c, mix[m]);
        op_check(c);
    }
}

/* The same for a case too large to check all its gradients. */
static inline void op_check_large(op_case c)
{
    c.samples = CHECK_SLOW ? 3 : 9;
    op_check_dtypes(c);
}

#endif
