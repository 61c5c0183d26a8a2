/* attention_cudnn.cu - attention as graphs of products, masks and softmax that cuDNN recognises and
   runs as one kernel.

   [Note: attention's backward in parts] cuDNN's deterministic backward stores the gradient of the
   score matrix, (H, T, T) numbers of 16 bits for each sequence. So it is called for a part of the
   batch, or for some groups of one sequence, so that this takes at most PART_BYTES if possible. The
   parts depend on the shape only and are independent of each other. */
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_graph.h"

#include <float.h>
#include <string.h>

#define PART_BYTES ((int64_t)8 << 30) /* smaller parts leave multiprocessors idle at their end */

/* The key of a plan. Zeroed before it is filled, because keys are compared as bytes. */
typedef struct key {
    int64_t batch, queries, heads, groups, dim; /* of one call */
    int64_t all_heads, q_stride, kv_stride;     /* of the tensors */
    int32_t dtype;
    bool windowed, documents, backward;
} key;

/* Tensors in memory and scalars of a graph, by index. */
enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, DELTA, SCALE, LOWEST, FAR, WINDOW, FIRST, ONE, PLACES };

typedef struct plan {
    key key;
    hil_graph graph;
    int64_t number[PLACES]; /* 0: not part of the graph */
} plan;

typedef struct plans {
    plan **plan;
    size_t count, capacity;
} plans;

static void free_plans(void *data)
{
    plans *all = (plans *)data;
    for (size_t i = 0; i < all->count; ++i) {
        hil_graph_free(&all->plan[i]->graph);
        hil_free(all->plan[i]);
    }
    hil_free(all->plan);
    hil_free(all);
}

/* How backward is cut: sequences and groups of one call. */
typedef struct parts {
    int64_t batch, groups;
} parts;

static parts parts_of(const hil_cuda_attention *a, bool backward)
{
    parts p = {a->batch, a->groups};
    if (!backward) return p;
    int64_t share = a->heads / a->groups, group = share * a->queries * a->queries * 2;
    while (p.batch > 1 && p.batch * a->groups * group > PART_BYTES) {
        do --p.batch;
        while (a->batch % p.batch);
    }
    while (p.groups > 1 && p.batch * p.groups * group > PART_BYTES) {
        do --p.groups;
        while (a->groups % p.groups);
    }
    return p;
}

static key key_of(const hil_cuda_attention *a, bool backward)
{
    parts p = parts_of(a, backward);
    key k;
    memset(&k, 0, sizeof k);
    k.batch = p.batch, k.queries = a->queries, k.dim = a->dim;
    k.heads = a->heads / a->groups * p.groups, k.groups = p.groups;
    k.all_heads = a->heads, k.q_stride = a->q_stride, k.kv_stride = a->kv_stride;
    k.dtype = a->q.dtype;
    k.windowed = a->window > 0 && a->window < a->queries;
    k.documents = a->documents;
    k.backward = backward;
    return k;
}

/* A graph that is being built. */
typedef struct maker {
    plan *p;
    hil_graph *g;
    cudnnDataType_t type;
    hil_graph_tensor place[PLACES];
} maker;

/* (B, heads, T, D) where memory has (B, T, heads, D) with `stride` numbers from one T to the next.
 */
static hil_graph_shape vectors(const key *k, int64_t heads, int64_t stride)
{
    return {{k->batch, heads, k->queries, k->dim}, {k->queries * stride, k->dim, stride, 1}};
}

static hil_graph_shape transposed(const hil_graph_shape *s)
{
    return {{s->dim[0], s->dim[1], s->dim[3], s->dim[2]},
            {s->stride[0], s->stride[1], s->stride[3], s->stride[2]}};
}

/* (B, heads, rows, cols) without gaps. */
static hil_graph_shape packed(const key *k, int64_t rows, int64_t cols)
{
    return {{k->batch, k->heads, rows, cols}, {k->heads * rows * cols, rows * cols, cols, 1}};
}

static void place(maker *m, int at, cudnnDataType_t type, const hil_graph_shape *shape)
{
    m->place[at] = hil_graph_add(m->g, HIL_GRAPH_REAL, type, shape);
    m->p->number[at] = m->place[at].number;
}

static void place_scalar(maker *m, int at)
{
    hil_graph_shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    m->place[at] = hil_graph_add(m->g, HIL_GRAPH_SCALAR, CUDNN_DATA_FLOAT, &one);
    m->p->number[at] = m->place[at].number;
}

static void place_inputs(maker *m)
{
    const key *k = &m->p->key;
    hil_graph_shape q = vectors(k, k->heads, k->q_stride);
    hil_graph_shape kv = vectors(k, k->groups, k->kv_stride), turned = transposed(&kv);
    hil_graph_shape out = vectors(k, k->heads, k->all_heads * k->dim);
    hil_graph_shape row = {{k->batch, k->heads, k->queries, 1},
                           {k->all_heads * k->queries, k->queries, 1, 1}};
    place(m, Q, m->type, &q);
    place(m, K, m->type, &turned);
    place(m, V, m->type, k->backward ? &turned : &kv);
    place(m, OUT, m->type, &out);
    place(m, LSE, CUDNN_DATA_FLOAT, &row);
    place_scalar(m, SCALE);
    place_scalar(m, LOWEST);
    if (k->windowed || k->documents) place_scalar(m, FAR);
    if (k->windowed) place_scalar(m, WINDOW);
    if (!k->documents) return;
    hil_graph_shape first = {{k->batch, 1, k->queries, 1}, {k->queries, k->queries, 1, 1}};
    place(m, FIRST, CUDNN_DATA_INT32, &first);
}

/* Sets masked scores to a very low number. */
static hil_graph_tensor mask(maker *m, hil_graph_tensor x)
{
    hil_graph *g = m->g;
    hil_graph_tensor row, col, seen;
    if (m->p->key.documents) { /* forward is slower with the causal mask before this one */
        col = hil_graph_index(g, &x, 3, CUDNN_DATA_INT32);
        seen = hil_graph_pointwise(g, CUDNN_POINTWISE_CMP_GE, &col, &m->place[FIRST], NULL);
        x = hil_graph_select(g, &x, &m->place[FAR], &seen);
    }
    row = hil_graph_index(g, &x, 2, CUDNN_DATA_INT32);
    col = hil_graph_index(g, &x, 3, CUDNN_DATA_INT32);
    seen = hil_graph_pointwise(g, CUDNN_POINTWISE_CMP_GE, &row, &col, NULL);
    x = hil_graph_select(g, &x, &m->place[LOWEST], &seen);
    if (!m->p->key.windowed) return x;
    row = hil_graph_index(g, &x, 2, CUDNN_DATA_FLOAT);
    col = hil_graph_index(g, &x, 3, CUDNN_DATA_FLOAT);
    col = hil_graph_pointwise(g, CUDNN_POINTWISE_ADD, &col, &m->place[WINDOW], NULL);
    seen = hil_graph_pointwise(g, CUDNN_POINTWISE_CMP_GT, &col, &row, NULL);
    return hil_graph_select(g, &x, &m->place[FAR], &seen);
}

/* q k^T scale */
static hil_graph_tensor scores(maker *m)
{
    const key *k = &m->p->key;
    hil_graph_shape square = packed(k, k->queries, k->queries);
    hil_graph_tensor x = hil_graph_add(m->g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &square);
    hil_graph_multiply(m->g, &m->place[Q], &m->place[K], &x);
    return hil_graph_pointwise(m->g, CUDNN_POINTWISE_MUL, &x, &m->place[SCALE], NULL);
}

static void make_forward(maker *m)
{
    const key *k = &m->p->key;
    hil_graph *g = m->g;
    hil_graph_shape row = packed(k, k->queries, 1), square = packed(k, k->queries, k->queries);
    place_inputs(m);
    hil_graph_tensor s = mask(m, scores(m));
    hil_graph_tensor most = hil_graph_add(g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &row);
    hil_graph_tensor sum = hil_graph_add(g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &row);
    hil_graph_tensor p = hil_graph_add(g, HIL_GRAPH_INSIDE, m->type, &square);
    hil_graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, &s, &most);
    hil_graph_tensor less = hil_graph_pointwise(g, CUDNN_POINTWISE_SUB, &s, &most, NULL);
    hil_graph_tensor e = hil_graph_pointwise(g, CUDNN_POINTWISE_EXP, &less, NULL, NULL);
    hil_graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, &e, &sum);
    hil_graph_tensor log = hil_graph_pointwise(g, CUDNN_POINTWISE_LOG, &sum, NULL, NULL);
    hil_graph_pointwise(g, CUDNN_POINTWISE_ADD, &most, &log, &m->place[LSE]);
    hil_graph_pointwise(g, CUDNN_POINTWISE_DIV, &e, &sum, &p);
    hil_graph_multiply(g, &p, &m->place[V], &m->place[OUT]);
}

/* out = x^T * y summed over the heads of each group, where x is (T, T). */
static void multiply_back(maker *m, const hil_graph_tensor *x, const hil_graph_tensor *y, int out)
{
    const key *k = &m->p->key;
    hil_graph_shape turned = transposed(&x->shape), whole = packed(k, k->queries, k->dim);
    hil_graph_tensor back = hil_graph_add(m->g, HIL_GRAPH_INSIDE, m->type, &turned);
    hil_graph_reshape(m->g, x, &back);
    if (k->heads == k->groups) {
        hil_graph_multiply(m->g, &back, y, &m->place[out]);
        return;
    }
    hil_graph_tensor each = hil_graph_add(m->g, HIL_GRAPH_INSIDE, m->type, &whole);
    hil_graph_multiply(m->g, &back, y, &each);
    hil_graph_reduce(m->g, CUDNN_REDUCE_TENSOR_ADD, &each, &m->place[out]);
}

/* delta = sum of dout * out over D */
static void make_delta(maker *m)
{
    const key *k = &m->p->key;
    hil_graph_shape row = packed(k, k->queries, 1);
    hil_graph_shape vector = {
        {k->batch, k->heads, k->queries, k->dim},
        {k->heads * k->queries * k->dim, k->queries * k->dim, k->heads * k->dim, 1}};
    hil_graph_tensor both = hil_graph_add(m->g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &vector);
    hil_graph_tensor sum = hil_graph_add(m->g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &row);
    hil_graph_pointwise(m->g, CUDNN_POINTWISE_MUL, &m->place[DOUT], &m->place[OUT], &both);
    hil_graph_reduce(m->g, CUDNN_REDUCE_TENSOR_ADD, &both, &sum);
    hil_graph_pointwise(m->g, CUDNN_POINTWISE_MUL, &sum, &m->place[ONE], &m->place[DELTA]);
}

static void make_backward(maker *m)
{
    const key *k = &m->p->key;
    hil_graph *g = m->g;
    hil_graph_shape q = vectors(k, k->heads, k->q_stride);
    hil_graph_shape kv = vectors(k, k->groups, k->kv_stride);
    hil_graph_shape row = packed(k, k->queries, 1), square = packed(k, k->queries, k->queries);
    place_inputs(m);
    place(m, DOUT, m->type, &m->place[OUT].shape);
    place(m, DQ, m->type, &q);
    place(m, DK, m->type, &kv);
    place(m, DV, m->type, &kv);
    place(m, DELTA, CUDNN_DATA_FLOAT, &row);
    place_scalar(m, ONE);
    make_delta(m);
    hil_graph_tensor s = scores(m);
    s = hil_graph_pointwise(g, CUDNN_POINTWISE_SUB, &s, &m->place[LSE], NULL);
    s = mask(m, s);
    hil_graph_tensor p = hil_graph_pointwise(g, CUDNN_POINTWISE_EXP, &s, NULL, NULL);
    multiply_back(m, &p, &m->place[DOUT], DV);
    hil_graph_tensor dp = hil_graph_add(g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &square);
    hil_graph_multiply(g, &m->place[DOUT], &m->place[V], &dp);
    dp = hil_graph_pointwise(g, CUDNN_POINTWISE_SUB, &dp, &m->place[DELTA], NULL);
    dp = hil_graph_pointwise(g, CUDNN_POINTWISE_MUL, &dp, &p, NULL);
    hil_graph_tensor ds = hil_graph_pointwise(g, CUDNN_POINTWISE_MUL, &dp, &m->place[SCALE], NULL);
    multiply_back(m, &ds, &m->place[Q], DK);
    hil_graph_tensor keys = hil_graph_add(g, HIL_GRAPH_INSIDE, m->type, &kv);
    hil_graph_reshape(g, &m->place[K], &keys);
    hil_graph_multiply(g, &ds, &keys, &m->place[DQ]);
}

/* Keeps a plan that cannot be made too, with a graph without configs. */
static hil_status find_plan(hil_device *device, const hil_cuda_attention *a, bool backward,
                            plan **out)
{
    plans *all = (plans *)hil_cuda_of(device)->attention.data;
    if (!all) {
        HIL_TRY(HIL_ALLOC(1, &all));
        hil_cuda_of(device)->attention = {all, free_plans};
    }
    key k = key_of(a, backward);
    for (size_t i = 0; i < all->count; ++i)
        if (memcmp(&all->plan[i]->key, &k, sizeof k) == 0) {
            *out = all->plan[i];
            return HIL_OK;
        }
    HIL_TRY(HIL_GROW(&all->plan, &all->capacity, all->count + 1));
    plan *p;
    HIL_TRY(HIL_ALLOC(1, &p));
    all->plan[all->count++] = p;
    p->key = k;
    maker m = {.p = p,
               .g = &p->graph,
               .type = a->q.dtype == HIL_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF};
    if (backward)
        make_backward(&m);
    else
        make_forward(&m);
    hil_graph_finish(&p->graph, hil_cuda_of(device)->dnn);
    *out = p;
    return HIL_OK;
}

/* delta is before cuDNN's own workspace. */
static size_t delta_bytes(const key *k)
{
    if (!k->backward) return 0;
    return ((size_t)(k->batch * k->heads * k->queries) * sizeof(float) + 255) & ~(size_t)255;
}

bool hil_attention_dnn_plan(hil_device *device, const hil_cuda_attention *a, bool backward,
                            size_t *workspace)
{
    plan *p;
    *workspace = 0;
    if (a->q.dtype == HIL_F32 || a->drops || a->past || a->dim % 8 || a->dim > 128 ||
        a->batch * a->queries * a->heads == 0)
        return false;
    if (find_plan(device, a, backward, &p) != HIL_OK || !p->graph.configs) return false;
    *workspace = (size_t)p->graph.workspace + delta_bytes(&p->key);
    return true;
}

bool hil_attention_dnn_build(hil_device *device, const hil_cuda_attention *a, bool backward)
{
    plan *p;
    return find_plan(device, a, backward, &p) == HIL_OK &&
           hil_graph_build(&p->graph, hil_cuda_of(device)->dnn);
}

static void *offset(const hil_view *x, int64_t elements)
{
    return (char *)x->data + (size_t)elements * hil_dtype_size(x->dtype);
}

/* One part, which begins at sequence b and group `group`. */
static hil_status run_part(hil_device *device, const hil_cuda_attention *a, const plan *p,
                           int64_t b, int64_t group, void *workspace)
{
    const key *k = &p->key;
    int64_t head = group * (a->heads / a->groups);
    int64_t q = b * a->queries * a->q_stride + head * a->dim;
    int64_t kv = b * a->queries * a->kv_stride + group * a->dim;
    int64_t out = (b * a->queries * a->heads + head) * a->dim;
    float scale = a->scale, lowest = -FLT_MAX, far_away = -0x1p30f, one = 1;
    float window = (float)a->window;
    void *memory = (char *)workspace + delta_bytes(k);
    void *data[PLACES] = {};
    data[Q] = offset(&a->q, q), data[K] = offset(&a->k, kv), data[V] = offset(&a->v, kv);
    data[OUT] = offset(&a->out, out), data[LSE] = a->lse + (b * a->heads + head) * a->queries;
    data[SCALE] = &scale, data[LOWEST] = &lowest, data[FAR] = &far_away, data[WINDOW] = &window;
    data[ONE] = &one, data[DELTA] = workspace;
    data[FIRST] = (void *)(a->first + b * a->queries);
    if (k->backward) {
        data[DOUT] = offset(&a->dout, out), data[DQ] = offset(&a->dq, q);
        data[DK] = offset(&a->dk, kv), data[DV] = offset(&a->dv, kv);
    }
    int64_t number[PLACES];
    void *pointer[PLACES];
    int count = 0;
    for (int i = 0; i < PLACES; ++i) {
        if (!p->number[i]) continue;
        number[count] = p->number[i];
        pointer[count++] = data[i];
    }
    return hil_cudnn_check(
        device, hil_graph_run(&p->graph, hil_cuda_of(device)->dnn, number, pointer, count, memory),
        "run cuDNN's attention");
}

static hil_status run(hil_device *device, const hil_cuda_attention *a, bool backward,
                      void *workspace)
{
    plan *p;
    HIL_TRY(find_plan(device, a, backward, &p));
    for (int64_t b = 0; b < a->batch; b += p->key.batch)
        for (int64_t group = 0; group < a->groups; group += p->key.groups)
            HIL_TRY(run_part(device, a, p, b, group, workspace));
    return HIL_OK;
}

hil_status hil_attention_dnn_forward(hil_device *device, const hil_cuda_attention *a,
                                     void *workspace)
{
    return run(device, a, false, workspace);
}

hil_status hil_attention_dnn_backward(hil_device *device, const hil_cuda_attention *a,
                                      void *workspace)
{
    return run(device, a, true, workspace);
}
