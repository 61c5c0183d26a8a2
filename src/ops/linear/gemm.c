/* gemm.c - the matrix product: blocks, threads, edges. */
#include "ops/linear/gemm.h"

#include "ops/linear/gemm_kernel.h"

/* Most bytes of packed B per pass. */
#define PASS_BYTES ((size_t)16 << 20)
#define PASS_COLUMNS 1024
/* Most rows of a task where c is not fp32: the sums of the pass share the second-level cache with
   the packed block of A. */
#define BLOCK_ROWS_ROUNDED 144
/* A block of k is a multiple of this, and so of every kernel's k_unit. */
#define DEPTH_UNIT 32
/* Panels of B that one task packs. */
#define PACK_PANELS 4

typedef struct product {
    const hil_gemm *g;
    const hil_gemm_kernel *kernel;
    hil_pool *pool;
    int64_t padded_k;
    int64_t depth;        /* of every block of k but the last */
    int64_t pass_columns; /* of every pass but the last; a multiple of nr */
    int64_t n0, columns;  /* of this pass */
    int64_t row_blocks, column_blocks;
    char *b;     /* packed columns of this pass, shared: panels of [padded_k][nr] */
    float *bias; /* of this pass, padded to a multiple of nr; NULL for none */
    size_t a_bytes;
} product;

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const void *at(const hil_matrix *m, int64_t i, int64_t j)
{
    int64_t offset = i * m->row_stride + j * m->col_stride;
    return (const char *)m->data + (size_t)offset * hil_dtype_size(m->dtype);
}

/* The matrix that the product is added to, or NULL. */
static const void *base_of(const hil_gemm *g)
{
    return g->add ? g->c : g->base;
}

static void pack_columns(void *context, int64_t i, int thread)
{
    (void)thread;
    const product *job = context;
    const hil_gemm *g = job->g;
    int64_t width = PACK_PANELS * job->kernel->nr, column = i * width;
    hil_strip strip = {.data = at(&g->b, 0, job->n0 + column),
                       .dtype = g->b.dtype,
                       .stride = g->b.col_stride,
                       .k_stride = g->b.row_stride,
                       .count = smaller(width, job->columns - column),
                       .depth = g->k};
    job->kernel->pack_b(job->b + (size_t)(job->padded_k * column) * job->kernel->element, &strip);
}

static void pack_rows(const product *job, char *panels, int64_t m0, int64_t m1, int64_t k0)
{
    const hil_gemm *g = job->g;
    hil_strip strip = {.data = at(&g->a, m0, k0),
                       .dtype = g->a.dtype,
                       .stride = g->a.row_stride,
                       .k_stride = g->a.col_stride,
                       .count = m1 - m0,
                       .depth = smaller(job->depth, g->k - k0)};
    job->kernel->pack_a(panels, &strip);
}

/* The part of a full tile that is inside c. */
static void edge_tile(const hil_gemm_kernel *kernel, const hil_tile *tile, int64_t rows,
                      int64_t columns)
{
    float whole[HIL_GEMM_TILE_MAX] __attribute__((aligned(64)));
    hil_tile inner = *tile;
    inner.c = whole;
    inner.c_stride = kernel->nr;
    inner.bias = NULL;
    inner.base = NULL;
    kernel->tile(&inner);
    for (int64_t i = 0; i < rows; ++i)
        kernel->store(&(hil_gemm_row){.from = whole + i * kernel->nr,
                                      .bias = tile->bias,
                                      .to = tile->c + i * tile->c_stride,
                                      .dtype = HIL_F32,
                                      .count = columns,
                                      .base = tile->base ? tile->base + i * tile->c_stride : NULL});
}

/* Where a task's results are summed: c itself when it is fp32, otherwise whole tiles of scratch. */
typedef struct target {
    float *c;
    const float *base; /* what the first block of k is added to; with c's stride; or NULL */
    int64_t stride;
    int64_t first_column; /* in the pass */
    int64_t rows, columns;
    bool whole_tiles;
} target;

#define LINE_BYTES 64

/* A panel of B while the one before it is multiplied: each tile asks for a part, so that it is in
   the second-level cache when its turn comes. */
typedef struct upcoming {
    const char *at;
    int64_t lines; /* for each tile */
} upcoming;

static upcoming upcoming_panel(const char *panel, int64_t bytes, int64_t tiles)
{
    int64_t lines = (bytes + LINE_BYTES - 1) / LINE_BYTES;
    return (upcoming){panel, (lines + tiles - 1) / tiles};
}

static void ask_for_part(upcoming *next)
{
    for (int64_t i = 0; i < next->lines; ++i, next->at += LINE_BYTES)
        __builtin_prefetch(next->at, 0, 2);
}

static void multiply_block(const product *job, const char *a, int64_t k0, const target *to)
{
    const hil_gemm_kernel *kernel = job->kernel;
    int mr = kernel->mr, nr = kernel->nr;
    int64_t depth = round_up(smaller(job->depth, job->g->k - k0), kernel->k_unit);
    size_t a_bytes = (size_t)(depth * mr) * kernel->element;
    size_t b_bytes = (size_t)(job->padded_k * nr) * kernel->element;
    const char *b =
        job->b + (size_t)(to->first_column / nr) * b_bytes + (size_t)(k0 * nr) * kernel->element;
    bool last = k0 + job->depth >= job->g->k;
    const float *base = k0 > 0 ? to->c : to->base;
    for (int64_t j = 0; j < to->columns; j += nr) {
        hil_tile tile = {.b = b + (size_t)(j / nr) * b_bytes,
                         .a_by_rows = job->g->a.col_stride == 1,
                         .depth = depth,
                         .c_stride = to->stride};
        if (last && job->bias && !to->whole_tiles) tile.bias = job->bias + to->first_column + j;
        upcoming next = {0};
        if (j + nr < to->columns)
            next = upcoming_panel((const char *)tile.b + b_bytes,
                                  depth * nr * (int64_t)kernel->element, (to->rows + mr - 1) / mr);
        for (int64_t i = 0; i < to->rows; i += mr) {
            ask_for_part(&next);
            tile.a = a + (size_t)(i / mr) * a_bytes;
            tile.c = to->c + i * to->stride + j;
            tile.base = base ? base + i * to->stride + j : NULL;
            if (to->whole_tiles || (i + mr <= to->rows && j + nr <= to->columns))
                kernel->tile(&tile);
            else
                edge_tile(kernel, &tile, smaller(mr, to->rows - i), smaller(nr, to->columns - j));
        }
    }
}

static void store_rows(const product *job, const target *from, int64_t m0)
{
    const hil_gemm *g = job->g;
    size_t size = hil_dtype_size(g->c_dtype);
    int64_t column = job->n0 + from->first_column;
    const char *base = base_of(g);
    for (int64_t i = 0; i < from->rows; ++i) {
        size_t at = (size_t)((m0 + i) * g->c_stride + column) * size;
        job->kernel->store(
            &(hil_gemm_row){.from = from->c + i * from->stride,
                            .bias = job->bias ? job->bias + from->first_column : NULL,
                            .to = (char *)g->c + at,
                            .dtype = g->c_dtype,
                            .count = from->columns,
                            .base = base ? base + at : NULL});
    }
}

/* The i-th of `parts` even cuts of the panels that cover `count`, in rows or columns. */
static int64_t cut(int64_t count, int width, int64_t parts, int64_t i)
{
    int64_t panels = (count + width - 1) / width;
    return smaller(count, panels * i / parts * width);
}

static void multiply(void *context, int64_t i, int thread)
{
    const product *job = context;
    const hil_gemm *g = job->g;
    int mr = job->kernel->mr, nr = job->kernel->nr;
    int64_t row_block = i / job->column_blocks, column_block = i % job->column_blocks;
    int64_t m0 = cut(g->m, mr, job->row_blocks, row_block);
    int64_t m1 = cut(g->m, mr, job->row_blocks, row_block + 1);
    int64_t n0 = cut(job->columns, nr, job->column_blocks, column_block);
    int64_t n1 = cut(job->columns, nr, job->column_blocks, column_block + 1);
    char *a = hil_pool_scratch(job->pool, thread);
    target to = {.rows = m1 - m0, .columns = n1 - n0, .first_column = n0};
    if (g->c_dtype == HIL_F32) {
        const float *base = base_of(g);
        int64_t first = m0 * g->c_stride + job->n0 + n0;
        to.c = (float *)g->c + first;
        to.base = base ? base + first : NULL;
        to.stride = g->c_stride;
    } else {
        to.c = (float *)(void *)(a + job->a_bytes);
        to.stride = round_up(to.columns, nr);
        to.whole_tiles = true;
    }
    int64_t k0 = 0;
    do {
        pack_rows(job, a, m0, m1, k0);
        multiply_block(job, a, k0, &to);
        k0 += job->depth;
    } while (k0 < g->k);
    if (to.whole_tiles) store_rows(job, &to, m0);
}

static void convert_bias(const product *job)
{
    const hil_gemm *g = job->g;
    size_t offset = (size_t)job->n0 * hil_dtype_size(g->bias_dtype);
    hil_dtype_to_f32(job->bias, (const char *)g->bias + offset, g->bias_dtype, job->columns);
    for (int64_t j = job->columns; j < round_up(job->columns, job->kernel->nr); ++j)
        job->bias[j] = 0;
}

/* Equal blocks, rounded up to DEPTH_UNIT; the last one is shorter. */
static int64_t block_depth(int64_t k)
{
    int64_t blocks = (k + HIL_GEMM_DEPTH - 1) / HIL_GEMM_DEPTH;
    return blocks ? round_up((k + blocks - 1) / blocks, DEPTH_UNIT) : DEPTH_UNIT;
}

/* Cuts the product into passes over columns and tasks of a pass. */
static void divide(product *job, int threads)
{
    const hil_gemm *g = job->g;
    const hil_gemm_kernel *kernel = job->kernel;
    int mr = kernel->mr, nr = kernel->nr;
    job->padded_k = round_up(g->k, kernel->k_unit);
    job->depth = block_depth(g->k);
    size_t panel_bytes = (size_t)(job->padded_k * nr) * kernel->element;
    int64_t fit = panel_bytes ? (int64_t)(PASS_BYTES / panel_bytes) * nr : PASS_COLUMNS;
    job->pass_columns = smaller(smaller(PASS_COLUMNS / nr * nr, round_up(g->n, nr)), fit);
    if (job->pass_columns < 4 * nr) job->pass_columns = smaller(4 * nr, round_up(g->n, nr));
    int64_t block =
        g->c_dtype == HIL_F32 ? kernel->rows : smaller(kernel->rows, BLOCK_ROWS_ROUNDED);
    job->row_blocks = (g->m + block - 1) / block;
    if (job->row_blocks > 1)
        job->row_blocks = smaller(round_up(job->row_blocks, threads), (g->m + mr - 1) / mr);
    job->column_blocks = 1;
    if (job->row_blocks < 2 * threads)
        job->column_blocks =
            smaller((4 * threads + job->row_blocks - 1) / job->row_blocks, job->pass_columns / nr);
}

/* Rows and columns of the largest task, in whole panels. */
static int64_t task_rows(const product *job)
{
    int64_t panels = (job->g->m + job->kernel->mr - 1) / job->kernel->mr;
    return (panels + job->row_blocks - 1) / job->row_blocks * job->kernel->mr;
}

static int64_t task_columns(const product *job, int64_t panels)
{
    return (panels + job->column_blocks - 1) / job->column_blocks * job->kernel->nr;
}

/* Thread 0's scratch holds its own part and then what all threads share. */
static hil_status plan(product *job)
{
    const hil_gemm *g = job->g;
    const hil_gemm_kernel *kernel = job->kernel;
    int nr = kernel->nr;
    divide(job, hil_pool_threads(job->pool));
    size_t panel_bytes = (size_t)(job->padded_k * nr) * kernel->element;
    int64_t rows = task_rows(job), columns = task_columns(job, job->pass_columns / nr);
    job->a_bytes = (size_t)round_up(rows * job->depth * (int64_t)kernel->element, 64);
    size_t c_bytes = g->c_dtype == HIL_F32 ? 0 : (size_t)round_up(rows * columns * 4, 64);
    size_t own = job->a_bytes + c_bytes;
    size_t b_bytes = (size_t)round_up((int64_t)panel_bytes * (job->pass_columns / nr), 64);
    size_t bias_bytes = g->bias ? (size_t)job->pass_columns * sizeof(float) : 0;
    HIL_TRY(hil_pool_reserve(job->pool, own + b_bytes + bias_bytes));
    job->b = (char *)hil_pool_scratch(job->pool, 0) + own;
    job->bias = g->bias ? (float *)(void *)(job->b + b_bytes) : NULL;
    return HIL_OK;
}

/* Begins the pass at n0; returns its panels of B. */
static int64_t begin_pass(product *job)
{
    job->columns = smaller(job->pass_columns, job->g->n - job->n0);
    int64_t panels = (job->columns + job->kernel->nr - 1) / job->kernel->nr;
    job->column_blocks = smaller(job->column_blocks, panels);
    return panels;
}

static hil_status run_packed(hil_pool *pool, const hil_gemm *g, const hil_gemm_kernel *kernel)
{
    product job = {.g = g, .kernel = kernel, .pool = pool};
    HIL_TRY(plan(&job));
    for (job.n0 = 0; job.n0 < g->n; job.n0 += job.pass_columns) {
        int64_t panels = begin_pass(&job);
        if (job.bias) convert_bias(&job);
        hil_pool_run(pool, pack_columns, &job, (panels + PACK_PANELS - 1) / PACK_PANELS);
        hil_pool_run(pool, multiply, &job, job.row_blocks * job.column_blocks);
    }
    return HIL_OK;
}

#define FEW_COLUMNS 64

static void multiply_few(void *context, int64_t i, int thread)
{
    const product *job = context;
    const hil_gemm *g = job->g;
    int64_t n0 = i * FEW_COLUMNS;
    float *sum = hil_pool_scratch(job->pool, thread);
    hil_few few = {.a = (const float *)(const void *)job->b,
                   .m = g->m,
                   .k = g->k,
                   .b = at(&g->b, 0, n0),
                   .b_dtype = g->b.dtype,
                   .b_stride = g->b.col_stride,
                   .columns = smaller(FEW_COLUMNS, g->n - n0),
                   .c = sum,
                   .c_stride = FEW_COLUMNS};
    job->kernel->few(&few);
    target from = {.c = sum, .stride = FEW_COLUMNS, .first_column = n0};
    from.rows = g->m;
    from.columns = few.columns;
    store_rows(job, &from, 0);
}

static hil_status run_few(hil_pool *pool, const hil_gemm *g, const hil_gemm_kernel *kernel)
{
    product job = {.g = g, .kernel = kernel, .pool = pool, .columns = g->n};
    size_t own = HIL_GEMM_FEW * FEW_COLUMNS * sizeof(float);
    size_t a_bytes = (size_t)round_up(g->m * g->k * (int64_t)sizeof(float), 64);
    size_t bias_bytes = g->bias ? (size_t)round_up(g->n, kernel->nr) * sizeof(float) : 0;
    HIL_TRY(hil_pool_reserve(pool, own + a_bytes + bias_bytes));
    job.b = (char *)hil_pool_scratch(pool, 0) + own;
    float *a = (float *)(void *)job.b;
    for (int64_t i = 0; i < g->m; ++i)
        if (g->a.col_stride == 1)
            hil_dtype_to_f32(a + i * g->k, at(&g->a, i, 0), g->a.dtype, g->k);
        else
            for (int64_t k = 0; k < g->k; ++k)
                hil_dtype_to_f32(a + i * g->k + k, at(&g->a, i, k), g->a.dtype, 1);
    if (g->bias) {
        job.bias = (float *)(void *)(job.b + a_bytes);
        convert_bias(&job);
    }
    hil_pool_run(pool, multiply_few, &job, (g->n + FEW_COLUMNS - 1) / FEW_COLUMNS);
    return HIL_OK;
}

static bool is_few(const hil_gemm *g)
{
    return g->m <= HIL_GEMM_FEW && g->b.row_stride == 1;
}

void hil_gemm_divide(const hil_gemm *g, int threads, hil_gemm_division *out)
{
    product job = {.g = g, .kernel = hil_gemm_choose(g->a.dtype, g->b.dtype)};
    *out = (hil_gemm_division){.stretch = 1};
    if (g->m == 0 || g->n == 0) return;
    if (is_few(g)) {
        int64_t tasks = (g->n + FEW_COLUMNS - 1) / FEW_COLUMNS;
        out->runs = tasks > 1;
        out->stretch = hil_pool_stretch(tasks, threads);
        return;
    }
    divide(&job, threads);
    double area = 0, packed_a = 0, packed_b = 0, rows = (double)task_rows(&job);
    for (job.n0 = 0; job.n0 < g->n; job.n0 += job.pass_columns) {
        int64_t panels = begin_pass(&job), tasks = job.row_blocks * job.column_blocks;
        int64_t packs = (panels + PACK_PANELS - 1) / PACK_PANELS;
        double turns = (double)tasks * hil_pool_stretch(tasks, threads);
        out->runs += (packs > 1) + (tasks > 1);
        area += turns * rows * (double)task_columns(&job, panels);
        packed_a += turns * rows;
        packed_b += (double)job.columns * hil_pool_stretch(packs, threads);
    }
    out->stretch = area / ((double)g->m * (double)g->n);
    if (g->k) out->stretch *= (double)job.padded_k / (double)g->k;
    out->packs_a = packed_a / (double)g->m;
    out->packs_b = packed_b / (double)g->n;
}

hil_status hil_gemm_run(hil_pool *pool, const hil_gemm *g)
{
    assert(g->a.row_stride == 1 || g->a.col_stride == 1);
    assert(g->b.row_stride == 1 || g->b.col_stride == 1);
    assert(!g->add || !g->base);
    if (g->m == 0 || g->n == 0 || hil_pool_is_dry(pool)) return HIL_OK;
    const hil_gemm_kernel *kernel = hil_gemm_choose(g->a.dtype, g->b.dtype);
    if (is_few(g)) return run_few(pool, g, kernel);
    return run_packed(pool, g, kernel);
}
