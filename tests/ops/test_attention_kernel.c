/* Attention over many blocks against the formulas in double: groups, windows, documents, dropout,
   dtypes, every instruction set. The same bits for any number of threads, with packed q, k and v,
   and for queries that follow a cached past. */
#include "each_level.h"
#include "ops/attention/attention_kernel.h"

typedef struct shape {
    int64_t batch, queries, heads, groups, dim, window;
    bool documents;
    double dropout;
} shape;

static uint64_t seed = 1;

static float next(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 40) * 0x1p-23 - 1.0);
}

static hil_tensor numbers(hil_dtype dtype, int64_t count)
{
    hil_tensor t = {.dtype = dtype, .data = malloc((size_t)count * 4 + 1)};
    for (int64_t i = 0; i < count; ++i) {
        float x = 2 * next();
        hil_dtype_from_f32((char *)t.data + (size_t)i * hil_dtype_size(dtype), &x, dtype, 1);
    }
    return t;
}

static double get(const hil_tensor *t, int64_t i)
{
    float x;
    hil_dtype_to_f32(&x, (char *)t->data + (size_t)i * hil_dtype_size(t->dtype), t->dtype, 1);
    return x;
}

typedef struct problem {
    hil_attention a;
    hil_attention_gradients g;
    hil_mask mask;
    int32_t *first;
} problem;

static void make(problem *p, const shape *s, hil_dtype dtype)
{
    int64_t q = s->batch * s->queries * s->heads * s->dim;
    int64_t k = s->batch * s->queries * s->groups * s->dim;
    *p = (problem){0};
    p->first = calloc((size_t)(s->batch * s->queries) + 1, 4);
    for (int64_t i = 0; i < s->batch * s->queries; ++i)
        if (s->documents) p->first[i] = (int32_t)(i % s->queries / 37 * 37);
    p->mask = hil_mask_create(&(hil_op_random){7, 3, 5, 11}, s->dropout);
    p->a = (hil_attention){.batch = s->batch,
                           .queries = s->queries,
                           .heads = s->heads,
                           .groups = s->groups,
                           .dim = s->dim,
                           .capacity = s->queries,
                           .q = numbers(dtype, q),
                           .k = numbers(dtype, k),
                           .v = numbers(dtype, k),
                           .q_stride = s->heads * s->dim,
                           .kv_stride = s->groups * s->dim,
                           .first = p->first,
                           .window = s->window,
                           .scale = 0.3f,
                           .mask = s->dropout > 0 ? &p->mask : NULL,
                           .out = numbers(dtype, q)};
    p->a.lse = calloc((size_t)(s->batch * s->queries * s->heads) + 1, 4);
    p->g = (hil_attention_gradients){.dout = numbers(dtype, q),
                                     .dq = numbers(dtype, q),
                                     .dk = numbers(dtype, k),
                                     .dv = numbers(dtype, k)};
}

static void discard(problem *p)
{
    hil_tensor *all[] = {&p->a.q,    &p->a.k,  &p->a.v,  &p->a.out,
                         &p->g.dout, &p->g.dq, &p->g.dk, &p->g.dv};
    for (unsigned i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]->data);
    free(p->a.lse);
    free(p->first);
}

typedef struct expected {
    double *out, *lse, *dq, *dk, *dv;
} expected;

static double *zeros(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

/* One query row of one head: softmax, then its Jacobian. */
static void expect_row(const problem *p, expected *e, int64_t b, int64_t h, int64_t t)
{
    const hil_attention *a = &p->a;
    int64_t d = a->dim, head = h / (a->heads / a->groups), n = a->queries;
    int64_t row = ((b * n + t) * a->heads + h) * d, from = p->first[b * n + t];
    if (a->window > 0 && t + 1 - a->window > from) from = t + 1 - a->window;
    double *w = zeros(n), *dp = zeros(n), total = 0, dot = 0;
    float *factor = malloc((size_t)n * sizeof *factor);
    hil_mask_fill(&p->mask, b, (h * n + t) * n, n, factor);
    for (int64_t s = from; s <= t; ++s) {
        int64_t key = ((b * n + s) * a->groups + head) * d;
        double score = 0;
        for (int64_t i = 0; i < d; ++i) score += get(&a->q, row + i) * get(&a->k, key + i);
        w[s] = exp((double)a->scale * score);
        total += w[s];
    }
    e->lse[(b * a->heads + h) * n + t] = log(total);
    for (int64_t s = from; s <= t; ++s) {
        int64_t key = ((b * n + s) * a->groups + head) * d;
        double f = a->mask ? (double)factor[s] : 1;
        w[s] /= total;
        for (int64_t i = 0; i < d; ++i) {
            e->out[row + i] += w[s] * f * get(&a->v, key + i);
            e->dv[key + i] += w[s] * f * get(&p->g.dout, row + i);
            dp[s] += f * get(&p->g.dout, row + i) * get(&a->v, key + i);
        }
        dot += w[s] * dp[s];
    }
    for (int64_t s = from; s <= t; ++s) {
        int64_t key = ((b * n + s) * a->groups + head) * d;
        double ds = (double)a->scale * w[s] * (dp[s] - dot);
        for (int64_t i = 0; i < d; ++i) {
            e->dq[row + i] += ds * get(&a->k, key + i);
            e->dk[key + i] += ds * get(&a->q, row + i);
        }
    }
    free(w);
    free(dp);
    free(factor);
}

static void check_tensor(const char *what, const hil_tensor *got, const double *want, int64_t count,
                         double tolerance)
{
    double most = 0, error = 0;
    for (int64_t i = 0; i < count; ++i) {
        most = fmax(most, fabs(want[i]));
        error = fmax(error, fabs(get(got, i) - want[i]));
        CHECK(!isnan(get(got, i)));
    }
    if (error <= tolerance * most) return;
    fprintf(stderr, "%s: error %g of %g, %s\n", what, error, most, hil_cpu_name(hil_cpu_best()));
    exit(1);
}

static void check_formulas(hil_pool *pool, const shape *s, hil_dtype dtype)
{
    problem p;
    make(&p, s, dtype);
    int64_t q = s->batch * s->queries * s->heads, k = s->batch * s->queries * s->groups * s->dim;
    expected e = {zeros(q * s->dim), zeros(q), zeros(q * s->dim), zeros(k), zeros(k)};
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t t = 0; t < s->queries; ++t) expect_row(&p, &e, b, h, t);
    double tolerance = dtype == HIL_F32 ? 4e-6 : 2e-2;
    hil_attention_gradients g = p.g;
    CHECK_OK(hil_attention_forward(pool, &p.a));
    CHECK_OK(hil_attention_backward(pool, &p.a, &g));
    check_tensor("out", &p.a.out, e.out, q * s->dim, tolerance);
    check_tensor("lse", &(hil_tensor){.dtype = HIL_F32, .data = p.a.lse}, e.lse, q, 1e-6);
    check_tensor("dq", &g.dq, e.dq, q * s->dim, tolerance);
    check_tensor("dk", &g.dk, e.dk, k, tolerance);
    check_tensor("dv", &g.dv, e.dv, k, tolerance);
    g.add_dq = g.add_dk = g.add_dv = true;
    CHECK_OK(hil_attention_backward(pool, &p.a, &g));
    for (int64_t i = 0; i < q * s->dim; ++i) e.dq[i] *= 2;
    for (int64_t i = 0; i < k; ++i) e.dk[i] *= 2, e.dv[i] *= 2;
    check_tensor("dq twice", &g.dq, e.dq, q * s->dim, tolerance);
    check_tensor("dk twice", &g.dk, e.dk, k, tolerance);
    check_tensor("dv twice", &g.dv, e.dv, k, tolerance);
    free(e.out), free(e.lse), free(e.dq), free(e.dk), free(e.dv);
    discard(&p);
}

static void make_twice(problem *p, problem *other, const shape *s, hil_dtype dtype)
{
    uint64_t before = seed;
    make(p, s, dtype);
    seed = before;
    make(other, s, dtype);
    other->a.mask = p->a.mask;
}

static void check_threads(hil_pool *one, hil_pool *three, const shape *s)
{
    problem p, other;
    make_twice(&p, &other, s, HIL_F32);
    CHECK_OK(hil_attention_forward(one, &p.a));
    CHECK_OK(hil_attention_backward(one, &p.a, &p.g));
    CHECK_OK(hil_attention_forward(three, &other.a));
    CHECK_OK(hil_attention_backward(three, &other.a, &other.g));
    size_t q = (size_t)(s->batch * s->queries * s->heads * s->dim) * 4;
    size_t k = (size_t)(s->batch * s->queries * s->groups * s->dim) * 4;
    CHECK(memcmp(p.a.out.data, other.a.out.data, q) == 0);
    CHECK(memcmp(p.g.dq.data, other.g.dq.data, q) == 0);
    CHECK(memcmp(p.g.dk.data, other.g.dk.data, k) == 0);
    CHECK(memcmp(p.g.dv.data, other.g.dv.data, k) == 0);
    discard(&p);
    discard(&other);
}

/* Copies rows between x (rows, `row`) and a part of `all` (rows, `stride`). */
static void copy_rows(const hil_tensor *x, int64_t rows, int64_t row, const hil_tensor *all,
                      int64_t stride, bool back)
{
    size_t size = hil_dtype_size(x->dtype);
    for (int64_t r = 0; r < rows; ++r) {
        char *here = (char *)x->data + (size_t)(r * row) * size;
        char *there = (char *)all->data + (size_t)(r * stride) * size;
        memcpy(back ? here : there, back ? there : here, (size_t)row * size);
    }
}

/* Packed q, k and v, and their gradients: the same bits. */
static void check_packed(hil_pool *pool, const shape *s, hil_dtype dtype)
{
    problem p, other;
    make_twice(&p, &other, s, dtype);
    int64_t rows = s->batch * s->queries, q = s->heads * s->dim, k = s->groups * s->dim;
    int64_t width[3] = {q, k, k}, at[3] = {0, q, q + k}, stride = q + 2 * k;
    size_t size = hil_dtype_size(dtype);
    hil_tensor all = numbers(dtype, rows * stride), gradient = numbers(dtype, rows * stride);
    hil_attention a = other.a;
    hil_attention_gradients g = other.g;
    hil_tensor *x[3] = {&a.q, &a.k, &a.v}, *dx[3] = {&g.dq, &g.dk, &g.dv};
    for (int i = 0; i < 3; ++i) {
        hil_tensor from = *x[i];
        x[i]->data = (char *)all.data + (size_t)at[i] * size;
        dx[i]->data = (char *)gradient.data + (size_t)at[i] * size;
        copy_rows(&from, rows, width[i], x[i], stride, false);
    }
    a.q_stride = a.kv_stride = stride;
    CHECK_OK(hil_attention_forward(pool, &p.a));
    CHECK_OK(hil_attention_backward(pool, &p.a, &p.g));
    CHECK_OK(hil_attention_forward(pool, &a));
    CHECK_OK(hil_attention_backward(pool, &a, &g));
    CHECK(memcmp(p.a.out.data, a.out.data, (size_t)(rows * q) * size) == 0);
    hil_tensor *want[3] = {&p.g.dq, &p.g.dk, &p.g.dv};
    hil_tensor *got[3] = {&other.g.dq, &other.g.dk, &other.g.dv};
    for (int i = 0; i < 3; ++i) {
        copy_rows(got[i], rows, width[i], dx[i], stride, true);
        CHECK(memcmp(want[i]->data, got[i]->data, (size_t)(rows * width[i]) * size) == 0);
    }
    free(all.data);
    free(gradient.data);
    discard(&p);
    discard(&other);
}

/* Only the last queries, against cached keys. */
static void check_past(hil_pool *pool, const shape *s, hil_dtype dtype, int64_t last)
{
    problem p;
    make(&p, s, dtype);
    p.a.first = NULL;
    CHECK_OK(hil_attention_forward(pool, &p.a));
    int64_t row = s->heads * s->dim, n = s->queries;
    hil_attention tail = p.a;
    tail.queries = last;
    tail.past = n - last;
    tail.lse = NULL;
    tail.q = numbers(dtype, s->batch * last * row);
    tail.out = numbers(dtype, s->batch * last * row);
    size_t size = hil_dtype_size(dtype), bytes = (size_t)(last * row) * size;
    for (int64_t b = 0; b < s->batch; ++b)
        memcpy((char *)tail.q.data + (size_t)b * bytes,
               (char *)p.a.q.data + (size_t)((b * n + n - last) * row) * size, bytes);
    CHECK_OK(hil_attention_forward(pool, &tail));
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t i = 0; i < last * row; ++i)
            CHECK_NEAR(get(&tail.out, b * last * row + i),
                       get(&p.a.out, (b * n + n - last) * row + i), dtype == HIL_F32 ? 5e-6 : 2e-2);
    free(tail.q.data);
    free(tail.out.data);
    discard(&p);
}

static void check(hil_pool *one, hil_pool *three)
{
    static const shape shapes[] = {
        {.batch = 1, .queries = 1, .heads = 1, .groups = 1, .dim = 1},
        {.batch = 1, .queries = 0, .heads = 2, .groups = 1, .dim = 4},
        {.batch = 0, .queries = 4, .heads = 2, .groups = 1, .dim = 4},
        {.batch = 2, .queries = 97, .heads = 2, .groups = 2, .dim = 33},
        {.batch = 1, .queries = 230, .heads = 3, .groups = 1, .dim = 16, .dropout = 0.3},
        {.batch = 1, .queries = 200, .heads = 4, .groups = 2, .dim = 64, .window = 50},
        {.batch = 2, .queries = 170, .heads = 1, .groups = 1, .dim = 8, .documents = true},
        {.batch = 1,
         .queries = 301,
         .heads = 2,
         .groups = 1,
         .dim = 5,
         .window = 100,
         .documents = true,
         .dropout = 0.1},
        {.batch = 1, .queries = 20, .heads = 100, .groups = 1, .dim = 3},
    };
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        check_formulas(three, &shapes[i], HIL_F32);
        if (i % 2) check_formulas(three, &shapes[i], HIL_BF16);
        check_threads(one, three, &shapes[i]);
        check_packed(three, &shapes[i], i % 2 ? HIL_BF16 : HIL_F32);
    }
    for (int64_t last = 1; last < 20; last = last * 3 + 1) {
        check_past(three, &shapes[3], HIL_F32, last);
        check_past(three, &shapes[5], HIL_BF16, last);
    }
}

int main(void)
{
    each_level(check);
    return 0;
}
