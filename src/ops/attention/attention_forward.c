/* attention_forward.c - attention forward: online softmax over blocks of keys. */
#include "ops/attention/attention_block.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

typedef struct job {
    const hil_attention *a;
    const hil_gemm_kernel *kernel;
    hil_pool *pool;
    int64_t share;   /* heads of queries for one of keys */
    int64_t step;    /* queries in a block */
    int64_t blocks;  /* of queries in a sequence */
    int64_t rows;    /* share * step, padded to whole tiles */
    int64_t columns; /* D, padded to whole tiles */
    int64_t depth;   /* D, padded to whole units of k */
    int64_t keys;    /* of a block, padded to whole tiles */
} job;

/* A block of queries: row r is query first + r % count of head r / count in the group. */
typedef struct work {
    int64_t b, group;
    int64_t first, count, rows;
    float *q, *q_panels; /* queries times scale, (rows, D) and packed */
    float *k, *v;        /* packed keys and values of a block */
    float *score;        /* (rows, keys) */
    float *p;            /* the same packed */
    float *out;          /* (rows, D) */
    float *most, *sum;   /* of each row so far */
    float *factor;       /* of dropout, (keys) */
} work;

static int64_t layout(const job *j, float *memory, work *w)
{
    int64_t used = 0;
    int64_t dim = j->a->dim;
    w->q = hil_attention_block_take(memory, &used, j->rows * dim);
    w->q_panels = hil_attention_block_take(memory, &used, j->rows * j->depth);
    w->k = hil_attention_block_take(memory, &used, j->keys * j->depth);
    w->v = hil_attention_block_take(memory, &used, HIL_ATTENTION_KEYS * j->columns);
    w->score = hil_attention_block_take(memory, &used, j->rows * j->keys);
    w->p = hil_attention_block_take(memory, &used, j->rows * HIL_ATTENTION_KEYS);
    w->out = hil_attention_block_take(memory, &used, j->rows * j->columns);
    w->most = hil_attention_block_take(memory, &used, j->rows);
    w->sum = hil_attention_block_take(memory, &used, j->rows);
    w->factor = hil_attention_block_take(memory, &used, HIL_ATTENTION_KEYS);
    return used;
}

static int64_t head_of(const job *j, const work *w, int64_t row)
{
    return w->group * j->share + row / w->count;
}

static int64_t query_of(const work *w, int64_t row)
{
    return w->first + row % w->count;
}

static void begin(const job *j, work *w)
{
    const hil_attention *a = j->a;
    for (int64_t r = 0; r < w->rows; ++r) {
        int64_t row = w->b * a->queries + query_of(w, r);
        hil_attention_read(a, &a->q, hil_attention_at(a, a->q_stride, row, head_of(j, w, r)),
                           a->scale, w->q + r * a->dim);
        w->most[r] = a->sinks ? a->sinks[head_of(j, w, r)] : -INFINITY;
        w->sum[r] = a->sinks ? 1 : 0;
    }
    if (w->rows > HIL_GEMM_FEW)
        j->kernel->pack_a(w->q_panels, &(hil_strip){w->q, HIL_F32, a->dim, 1, w->rows, a->dim});
    memset(w->out, 0, (size_t)(j->rows * j->columns) * sizeof(float));
}

/* Computes score[r][0..count) = q[r] . k[key + ...], and packs the values of the block. */
static void score_block(const job *j, const work *w, int64_t key, int64_t count)
{
    const hil_attention *a = j->a;
    int64_t at = hil_attention_at(a, a->kv_stride, w->b * a->capacity + key, w->group);
    hil_strip v = hil_attention_sums_strip(a, &a->v, at, count);
    j->kernel->pack_b(w->v, &v);
    hil_strip k = hil_attention_scores_strip(a, &a->k, at, count);
    if (w->rows <= HIL_GEMM_FEW) {
        j->kernel->few(&(hil_few){.a = w->q,
                                  .m = w->rows,
                                  .k = a->dim,
                                  .b = k.data,
                                  .b_dtype = k.dtype,
                                  .b_stride = k.stride,
                                  .columns = count,
                                  .c = w->score,
                                  .c_stride = j->keys});
        return;
    }
    j->kernel->pack_b(w->k, &k);
    hil_attention_block_multiply(&(hil_attention_block){.kernel = j->kernel,
                                                        .rows = w->rows,
                                                        .columns = count,
                                                        .depth = a->dim,
                                                        .a_by_rows = true,
                                                        .a = w->q_panels,
                                                        .b = w->k,
                                                        .c = w->score,
                                                        .stride = j->keys});
}

/* Turns row r's scores of keys [key, key + count) into weights relative to the new maximum, and
   rescales the earlier sums to it. */
static void weigh_row(const job *j, const work *w, int64_t r, int64_t key, int64_t count)
{
    const hil_attention *a = j->a;
    const hil_row_kernel *rows = hil_rows();
    int64_t t = query_of(w, r), from = hil_attention_from(a, w->b, t), to = a->past + t + 1;
    float *p = w->score + r * j->keys;
    from = from < key ? 0 : from - key;
    to = to > key + count ? count : to - key;
    if (from >= to) {
        memset(p, 0, (size_t)count * sizeof(float));
        return;
    }
    memset(p, 0, (size_t)from * sizeof(float));
    memset(p + to, 0, (size_t)(count - to) * sizeof(float));
    if (a->cap > 0) rows->cap.bound(p + from, p + from, a->cap, to - from);
    float most = rows->math.max(p + from, to - from);
    if (most < w->most[r]) most = w->most[r];
    float sum = rows->math.exp_sum(p + from, most, to - from);
    float before = expf(w->most[r] - most);
    w->sum[r] = w->sum[r] * before + sum;
    w->most[r] = most;
    if (before != 1)
        rows->math.scale(w->out + r * j->columns, w->out + r * j->columns, before, a->dim);
    if (a->mask) {
        int64_t keys = a->past + a->queries;
        int64_t element = (head_of(j, w, r) * a->queries + t) * keys + key + from;
        hil_mask_fill(a->mask, w->b, element, to - from, w->factor);
        rows->math.multiply(p + from, p + from, w->factor, to - from);
    }
}

static void end(const job *j, const work *w)
{
    const hil_attention *a = j->a;
    for (int64_t r = 0; r < w->rows; ++r) {
        int64_t t = query_of(w, r), head = head_of(j, w, r);
        float *from = w->out + r * j->columns;
        hil_rows()->math.scale(from, from, 1 / w->sum[r], a->dim);
        int64_t row = w->b * a->queries + t;
        hil_row_write(&a->out, hil_attention_at(a, hil_attention_out_stride(a), row, head), a->dim,
                      from, false);
        if (a->lse)
            a->lse[(w->b * a->heads + head) * a->queries + t] = w->most[r] + logf(w->sum[r]);
    }
}

/* Later blocks have more keys in their mask, so they are started first. */
static void attend(void *context, int64_t task, int thread)
{
    const job *j = context;
    const hil_attention *a = j->a;
    int64_t block = j->blocks - 1 - task / (a->batch * a->groups);
    int64_t sequence = task % (a->batch * a->groups);
    work w = {.b = sequence / a->groups, .group = sequence % a->groups, .first = block * j->step};
    w.count = a->queries - w.first < j->step ? a->queries - w.first : j->step;
    w.rows = w.count * j->share;
    layout(j, hil_pool_scratch(j->pool, thread), &w);
    begin(j, &w);
    int64_t end_key = a->past + w.first + w.count;
    int64_t key = hil_attention_from(a, w.b, w.first) / HIL_ATTENTION_KEYS * HIL_ATTENTION_KEYS;
    for (; key < end_key; key += HIL_ATTENTION_KEYS) {
        int64_t count = end_key - key < HIL_ATTENTION_KEYS ? end_key - key : HIL_ATTENTION_KEYS;
        score_block(j, &w, key, count);
        for (int64_t r = 0; r < w.rows; ++r) weigh_row(j, &w, r, key, count);
        j->kernel->pack_a(w.p, &(hil_strip){w.score, HIL_F32, j->keys, 1, w.rows, count});
        hil_attention_block_multiply(&(hil_attention_block){.kernel = j->kernel,
                                                            .rows = w.rows,
                                                            .columns = a->dim,
                                                            .depth = count,
                                                            .a_by_rows = true,
                                                            .a = w.p,
                                                            .b = w.v,
                                                            .c = w.out,
                                                            .stride = j->columns,
                                                            .add = true});
    }
    end(j, &w);
}

hil_status hil_attention_forward(hil_pool *pool, const hil_attention *a)
{
    if (a->batch == 0 || a->queries == 0 || a->heads == 0) return HIL_OK;
    job j = {.a = a, .kernel = hil_gemm_choose(HIL_F32, HIL_F32), .pool = pool};
    j.share = a->heads / a->groups;
    j.step = HIL_ATTENTION_ROWS / j.share > 1 ? HIL_ATTENTION_ROWS / j.share : 1;
    j.blocks = (a->queries + j.step - 1) / j.step;
    j.rows = hil_attention_block_whole(j.share * j.step, j.kernel->mr);
    j.depth = hil_attention_block_whole(a->dim, j.kernel->k_unit);
    j.columns = hil_attention_block_whole(a->dim, j.kernel->nr);
    j.keys = hil_attention_block_whole(HIL_ATTENTION_KEYS, j.kernel->nr);
    work w;
    HIL_TRY(hil_pool_reserve(pool, (size_t)layout(&j, NULL, &w) * sizeof(float)));
    hil_pool_run(pool, attend, &j, a->batch * a->groups * j.blocks);
    return HIL_OK;
}
