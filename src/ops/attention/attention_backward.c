/* attention_backward.c - attention backward: recomputes the probabilities block by block. */
#include "ops/attention/attention_block.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

#define ROWS HIL_ATTENTION_ROWS
#define KEYS HIL_ATTENTION_KEYS
_Static_assert(ROWS >= KEYS, "`packed` has room for the larger of both");

typedef struct job {
    const hil_attention *a;
    const hil_attention_gradients *g;
    const hil_gemm_kernel *kernel;
    hil_pool *pool;
    int64_t rows;     /* of a block of queries, padded to whole tiles */
    int64_t keys;     /* of a block of keys, padded to whole columns of tiles */
    int64_t key_rows; /* of a block of keys, padded to whole rows of tiles */
    int64_t columns;  /* D, padded to whole tiles */
    int64_t depth;    /* D, padded to whole units of k */
} job;

/* The current head of queries, block of keys and block of queries. */
typedef struct work {
    int64_t b, group, head;
    int64_t key, keys;
    int64_t query, queries;
    float *dq, *dk, *dv;                 /* (T, D) sums: of the head; of the group */
    float *delta;                        /* (T): dout . out */
    float *k_scores, *k_back, *v_scores; /* packed for q k^T, ds k, dout v^T */
    float *q, *dout;                     /* (rows, D), q times scale */
    float *q_rows, *q_back, *dout_rows, *dout_back;
    float *p, *ds; /* (rows, keys) */
    float *packed; /* p^T, ds^T or ds */
    float *block;  /* a product, to be added to dq */
    float *dk_block, *dv_block;
    float *factor;
    float *bounded; /* a row of scores, with a cap */
} work;

static int64_t layout(const job *j, float *memory, work *w)
{
    const hil_attention *a = j->a;
    int64_t used = 0, dim = a->dim, whole = a->queries * dim;
    w->dq = hil_attention_block_take(memory, &used, whole);
    w->dk = hil_attention_block_take(memory, &used, whole);
    w->dv = hil_attention_block_take(memory, &used, whole);
    w->delta = hil_attention_block_take(memory, &used, a->queries);
    w->k_scores = hil_attention_block_take(memory, &used, j->keys * j->depth);
    w->v_scores = hil_attention_block_take(memory, &used, j->keys * j->depth);
    w->k_back = hil_attention_block_take(memory, &used, KEYS * j->columns);
    w->q = hil_attention_block_take(memory, &used, ROWS * dim);
    w->dout = hil_attention_block_take(memory, &used, ROWS * dim);
    w->q_rows = hil_attention_block_take(memory, &used, j->rows * j->depth);
    w->dout_rows = hil_attention_block_take(memory, &used, j->rows * j->depth);
    w->q_back = hil_attention_block_take(memory, &used, ROWS * j->columns);
    w->dout_back = hil_attention_block_take(memory, &used, ROWS * j->columns);
    w->p = hil_attention_block_take(memory, &used, j->rows * j->keys);
    w->ds = hil_attention_block_take(memory, &used, j->rows * j->keys);
    int64_t transposed = j->key_rows * ROWS, straight = j->rows * KEYS;
    w->packed =
        hil_attention_block_take(memory, &used, transposed > straight ? transposed : straight);
    w->block = hil_attention_block_take(memory, &used, j->rows * j->columns);
    w->dk_block = hil_attention_block_take(memory, &used, j->key_rows * j->columns);
    w->dv_block = hil_attention_block_take(memory, &used, j->key_rows * j->columns);
    w->factor = hil_attention_block_take(memory, &used, KEYS);
    w->bounded = hil_attention_block_take(memory, &used, KEYS);
    return used;
}

static float dot(const float *x, const float *y, int64_t n)
{
    float sum[HIL_LANES] = {0}, total = 0;
    for (int64_t i = 0; i < n; ++i) sum[i % HIL_LANES] += x[i] * y[i];
    for (int i = 0; i < HIL_LANES; ++i) total += sum[i];
    return total;
}

/* The sink's gradient: minus its probability times delta, over all queries of the sequence. */
static float sink_gradient(const hil_attention *a, const work *w)
{
    const float *lse = a->lse + (w->b * a->heads + w->head) * a->queries;
    float sum = 0;
    for (int64_t t = 0; t < a->queries; ++t) sum -= expf(a->sinks[w->head] - lse[t]) * w->delta[t];
    return sum;
}

/* delta[t] = dout . out, the sum over keys of probability times its gradient. */
static void begin_head(const job *j, const work *w)
{
    const hil_attention *a = j->a;
    memset(w->dq, 0, (size_t)(a->queries * a->dim) * sizeof(float));
    for (int64_t t = 0; t < a->queries; ++t) {
        int64_t row = w->b * a->queries + t;
        int64_t at = hil_attention_at(a, hil_attention_out_stride(a), row, w->head);
        hil_attention_read(a, &a->out, at, 1, w->q);
        hil_attention_read(a, &j->g->dout, at, 1, w->dout);
        w->delta[t] = dot(w->q, w->dout, a->dim);
    }
    if (j->g->dsinks) j->g->dsinks[w->b * a->heads + w->head] = sink_gradient(a, w);
}

static void begin_keys(const job *j, const work *w)
{
    const hil_attention *a = j->a;
    int64_t at = hil_attention_at(a, a->kv_stride, w->b * a->capacity + w->key, w->group);
    hil_strip k_scores = hil_attention_scores_strip(a, &a->k, at, w->keys);
    hil_strip v_scores = hil_attention_scores_strip(a, &a->v, at, w->keys);
    hil_strip k_back = hil_attention_sums_strip(a, &a->k, at, w->keys);
    j->kernel->pack_b(w->k_scores, &k_scores);
    j->kernel->pack_b(w->v_scores, &v_scores);
    j->kernel->pack_b(w->k_back, &k_back);
    memset(w->dk_block, 0, (size_t)(j->key_rows * j->columns) * sizeof(float));
    memset(w->dv_block, 0, (size_t)(j->key_rows * j->columns) * sizeof(float));
}

static void begin_queries(const job *j, const work *w)
{
    const hil_attention *a = j->a;
    for (int64_t r = 0; r < w->queries; ++r) {
        int64_t row = w->b * a->queries + w->query + r;
        int64_t q = hil_attention_at(a, a->q_stride, row, w->head);
        int64_t dout = hil_attention_at(a, hil_attention_out_stride(a), row, w->head);
        hil_attention_read(a, &a->q, q, a->scale, w->q + r * a->dim);
        hil_attention_read(a, &j->g->dout, dout, 1, w->dout + r * a->dim);
    }
    hil_strip rows = {w->q, HIL_F32, a->dim, 1, w->queries, a->dim};
    hil_strip columns = {w->q, HIL_F32, 1, a->dim, a->dim, w->queries};
    j->kernel->pack_a(w->q_rows, &rows);
    j->kernel->pack_b(w->q_back, &columns);
    rows.data = columns.data = w->dout;
    j->kernel->pack_a(w->dout_rows, &rows);
    j->kernel->pack_b(w->dout_back, &columns);
}

/* Turns p from scores into probabilities, and ds from gradients of probabilities into those of
   scores. With dropout, p then is the factor of the values. */
static void weigh_row(const job *j, const work *w, int64_t r)
{
    const hil_attention *a = j->a;
    const hil_row_kernel *rows = hil_rows();
    int64_t t = w->query + r, from = hil_attention_from(a, w->b, t), to = t + 1;
    float *p = w->p + r * j->keys, *ds = w->ds + r * j->keys;
    from = from < w->key ? 0 : from - w->key;
    to = to > w->key + w->keys ? w->keys : to - w->key;
    if (from > to) from = to = 0;
    if (to < 0) from = to = 0;
    memset(p, 0, (size_t)from * sizeof(float));
    memset(ds, 0, (size_t)from * sizeof(float));
    memset(p + to, 0, (size_t)(w->keys - to) * sizeof(float));
    memset(ds + to, 0, (size_t)(w->keys - to) * sizeof(float));
    if (from == to) return;
    p += from, ds += from, to -= from;
    if (a->cap > 0) {
        rows->cap.bound(p, p, a->cap, to);
        memcpy(w->bounded, p, (size_t)to * sizeof(float));
    }
    rows->math.exp_sum(p, a->lse[(w->b * a->heads + w->head) * a->queries + t], to);
    if (a->mask) {
        int64_t element = (w->head * a->queries + t) * a->queries + w->key + from;
        hil_mask_fill(a->mask, w->b, element, to, w->factor);
        rows->math.multiply(ds, ds, w->factor, to);
    }
    float delta = w->delta[t];
    for (int64_t i = 0; i < to; ++i) ds[i] = p[i] * (ds[i] - delta);
    if (a->cap > 0) rows->cap.slope(ds, w->bounded, ds, a->cap, to);
    if (a->mask) rows->math.multiply(p, p, w->factor, to);
}

/* sum (keys, D) += x^T (keys, queries) * b, where x is (queries, keys). */
static void add_transposed(const job *j, const work *w, const float *x, const float *b, float *sum)
{
    j->kernel->pack_a(w->packed, &(hil_strip){x, HIL_F32, 1, j->keys, w->keys, w->queries});
    hil_attention_block_multiply(&(hil_attention_block){.kernel = j->kernel,
                                                        .rows = w->keys,
                                                        .columns = j->a->dim,
                                                        .depth = w->queries,
                                                        .a = w->packed,
                                                        .b = b,
                                                        .c = sum,
                                                        .stride = j->columns,
                                                        .add = true});
}

static void add_rows(float *sum, const float *block, int64_t rows, int64_t dim, int64_t stride)
{
    for (int64_t r = 0; r < rows; ++r)
        hil_rows()->math.add(sum + r * dim, sum + r * dim, block + r * stride, dim);
}

static void visit(const job *j, const work *w)
{
    const hil_attention *a = j->a;
    begin_queries(j, w);
    hil_attention_block product = {.kernel = j->kernel,
                                   .rows = w->queries,
                                   .columns = w->keys,
                                   .depth = a->dim,
                                   .a_by_rows = true,
                                   .a = w->q_rows,
                                   .b = w->k_scores,
                                   .c = w->p,
                                   .stride = j->keys};
    hil_attention_block_multiply(&product);
    product.a = w->dout_rows;
    product.b = w->v_scores;
    product.c = w->ds;
    hil_attention_block_multiply(&product);
    for (int64_t r = 0; r < w->queries; ++r) weigh_row(j, w, r);
    add_transposed(j, w, w->p, w->dout_back, w->dv_block);
    add_transposed(j, w, w->ds, w->q_back, w->dk_block);
    j->kernel->pack_a(w->packed, &(hil_strip){w->ds, HIL_F32, j->keys, 1, w->queries, w->keys});
    hil_attention_block_multiply(&(hil_attention_block){.kernel = j->kernel,
                                                        .rows = w->queries,
                                                        .columns = a->dim,
                                                        .depth = w->keys,
                                                        .a_by_rows = true,
                                                        .a = w->packed,
                                                        .b = w->k_back,
                                                        .c = w->block,
                                                        .stride = j->columns});
    add_rows(w->dq + w->query * a->dim, w->block, w->queries, a->dim, j->columns);
}

static void run_head(const job *j, work *w)
{
    const hil_attention *a = j->a;
    begin_head(j, w);
    for (w->key = 0; w->key < a->queries; w->key += KEYS) {
        w->keys = a->queries - w->key < KEYS ? a->queries - w->key : KEYS;
        begin_keys(j, w);
        for (w->query = w->key / ROWS * ROWS; w->query < a->queries; w->query += ROWS) {
            w->queries = a->queries - w->query < ROWS ? a->queries - w->query : ROWS;
            if (hil_attention_from(a, w->b, w->query) >= w->key + w->keys) break;
            visit(j, w);
        }
        add_rows(w->dk + w->key * a->dim, w->dk_block, w->keys, a->dim, j->columns);
        add_rows(w->dv + w->key * a->dim, w->dv_block, w->keys, a->dim, j->columns);
    }
}

typedef struct result {
    const hil_tensor *tensor; /* (B, T, heads, D) */
    int64_t stride, head;
    float factor;
    bool add;
} result;

static void write(const hil_attention *a, int64_t b, const result *to, float *from)
{
    if (!to->tensor->data) return;
    for (int64_t t = 0; t < a->queries; ++t, from += a->dim) {
        if (to->factor != 1) hil_rows()->math.scale(from, from, to->factor, a->dim);
        hil_row_write(to->tensor, hil_attention_at(a, to->stride, b * a->queries + t, to->head),
                      a->dim, from, to->add);
    }
}

static void differentiate(void *context, int64_t task, int thread)
{
    const job *j = context;
    const hil_attention *a = j->a;
    const hil_attention_gradients *g = j->g;
    int64_t share = a->heads / a->groups;
    work w = {.b = task / a->groups, .group = task % a->groups};
    layout(j, hil_pool_scratch(j->pool, thread), &w);
    memset(w.dk, 0, (size_t)(a->queries * a->dim) * sizeof(float));
    memset(w.dv, 0, (size_t)(a->queries * a->dim) * sizeof(float));
    for (w.head = w.group * share; w.head < (w.group + 1) * share; ++w.head) {
        run_head(j, &w);
        write(a, w.b, &(result){&g->dq, a->q_stride, w.head, a->scale, g->add_dq}, w.dq);
    }
    write(a, w.b, &(result){&g->dk, a->kv_stride, w.group, 1, g->add_dk}, w.dk);
    write(a, w.b, &(result){&g->dv, a->kv_stride, w.group, 1, g->add_dv}, w.dv);
}

hil_status hil_attention_backward(hil_pool *pool, const hil_attention *a,
                                  const hil_attention_gradients *g)
{
    assert(a->past == 0 && a->capacity == a->queries && a->lse);
    if (a->batch == 0 || a->queries == 0 || a->heads == 0) return HIL_OK;
    const hil_gemm_kernel *kernel = hil_gemm_choose(HIL_F32, HIL_F32);
    job j = {.a = a, .g = g, .kernel = kernel, .pool = pool};
    j.rows = hil_attention_block_whole(ROWS, kernel->mr);
    j.keys = hil_attention_block_whole(KEYS, kernel->nr);
    j.key_rows = hil_attention_block_whole(KEYS, kernel->mr);
    j.depth = hil_attention_block_whole(a->dim, kernel->k_unit);
    j.columns = hil_attention_block_whole(a->dim, kernel->nr);
    work w;
    HIL_TRY(hil_pool_reserve(pool, (size_t)layout(&j, NULL, &w) * sizeof(float)));
    hil_pool_run(pool, differentiate, &j, a->batch * a->groups);
    return HIL_OK;
}
