/* delta.cu - the gated delta rule and state spaces on a GPU: gates and lengths of all positions,
   then the scans and products of delta_cuda.h. */
#include "ops/recurrent/delta_cuda.h"

#include <string.h>

#define WARPS 8
#define THREADS (32 * WARPS)
#define PART 2048          /* positions of a part of backward, in whole chunks */
#define PART_CHANNELS 1024 /* likewise by channel, where more states are kept */
#define DECAY_MOST 1e4     /* a state that shrinks by exp of it is 0 */

static __device__ inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static __device__ inline void find_gates(const hil_delta_job &d, int64_t row, int64_t head)
{
    int64_t at = row * d.heads + head;
    if (d.by_channel) {
        d.beta[at] = sigmoid(hil_delta_number(d.b, at));
        return;
    }
    float rate = expf(hil_delta_number(d.rate, head));
    float y = hil_delta_number(d.a, at) + hil_delta_number(d.bias, head);
    float step = y > 20 ? y : log1pf(expf(y)), slope = sigmoid(y);
    if (d.space && (step < d.least || step > d.most)) slope = 0;
    if (d.space) step = fminf(fmaxf(step, d.least), d.most);
    float decay = -rate * step;
    bool begins = hil_delta_is_begin(d, row / d.length, row % d.length);
    d.beta[at] = d.space ? step : d.write * sigmoid(hil_delta_number(d.b, at));
    d.decay[at] = decay;
    d.slope[at] = d.space ? slope : -rate * slope;
    d.keep[at] = begins ? 0 : expf(decay);
}

/* A warp has a group of heads at one position. */
static __global__ void __launch_bounds__(THREADS) prepare(const hil_delta_job d)
{
    int64_t task = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; /* (B, T, K) */
    if (task >= d.batch * d.length * d.key_heads) return;
    int64_t row = task / d.key_heads, group = task % d.key_heads, share = d.heads / d.key_heads;
    hil_delta_head p = hil_delta_head_of(d, row / d.length * d.heads + group * share);
    int64_t at = row * d.width;
    float qq = 0, kk = 0, qk = 0;
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < d.key_dim; col += 32 * HIL_WIDE) {
        int n = hil_wide_count(d.key_dim - col);
        float q[HIL_WIDE], k[HIL_WIDE];
        hil_wide_read(hil_wide_load(d.x, at + p.q + col, n), d.x.dtype, q);
        hil_wide_read(hil_wide_load(d.x, at + p.k + col, n), d.x.dtype, k);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            qq = fmaf(q[i], q[i], qq);
            kk = fmaf(k[i], k[i], kk);
            qk = fmaf(q[i], k[i], qk);
        }
    }
    for (int step = 16; step; step /= 2) {
        qq += __shfl_xor_sync(0xffffffffu, qq, step);
        kk += __shfl_xor_sync(0xffffffffu, kk, step);
        qk += __shfl_xor_sync(0xffffffffu, qk, step);
    }
    float q_scale = 1 / sqrtf(qq + HIL_DELTA_EPS) / sqrtf((float)d.key_dim);
    float k_scale = 1 / sqrtf(kk + HIL_DELTA_EPS);
    if (d.space) q_scale = k_scale = 1;
    if (threadIdx.x % 32 == 0) {
        d.q_scale[task] = q_scale;
        d.k_scale[task] = k_scale;
        d.match[task] = qk * q_scale * k_scale;
    }
    for (int64_t i = threadIdx.x % 32; i < share; i += 32) find_gates(d, row, group * share + i);
    bool begins = hil_delta_is_begin(d, row / d.length, row % d.length);
    for (int64_t c = threadIdx.x % 32; d.by_channel && c < d.key_dim; c += 32)
        d.keep[task * d.key_dim + c] = begins ? 0 : hil_delta_channel_of(d, row, group, c).keep;
}

/* A thread has a chunk of one head. */
static __global__ void __launch_bounds__(THREADS) add_decays(const hil_delta_job d, double *sums)
{
    int64_t task = (int64_t)blockIdx.x * THREADS + threadIdx.x; /* (B, chunks, H) */
    if (task >= d.batch * d.chunks * d.heads) return;
    int64_t head = task % d.heads, chunk = task / d.heads % d.chunks;
    int64_t b = task / d.heads / d.chunks, end = (chunk + 1) * HIL_DELTA_CHUNK;
    double sum = 0;
    for (int64_t t = chunk * HIL_DELTA_CHUNK; t < end && t < d.length; ++t) {
        int64_t at = (b * d.length + t) * d.heads + head;
        sum += fmax((double)d.decay[at], -DECAY_MOST);
        sums[at] = sum;
    }
}

/* Numbers of parameter i. */
static int64_t vector_cols(const hil_delta_job &d, int i)
{
    return i == 1 && d.by_channel ? d.heads * d.key_dim : d.heads;
}

/* Takes the next part of the scratch, or counts it if there is none yet. */
static float *take(const hil_op_call *call, size_t *bytes, int64_t count, size_t size)
{
    size_t at = hil_scratch_add(bytes, count, size);
    return call->scratch ? (float *)hil_scratch_at(call, at) : NULL;
}

static bool is_space(const hil_op_call *call)
{
    return strstr(call->op->name, hil_op_state_space.name) != NULL;
}

static bool is_by_channel(const hil_op_call *call)
{
    return strstr(call->op->name, hil_op_channel_delta.name) != NULL;
}

/* What a state space has beside the rule's numbers, and where its inputs are. */
static void describe_space(const hil_op_call *call, hil_delta_job *d)
{
    const hil_state_space_attr *attr = (const hil_state_space_attr *)call->attr;
    d->space = true;
    d->least = (float)attr->least;
    d->most = (float)attr->most;
    d->a = hil_view_of(&call->in[1]);
}

static hil_delta_job describe(const hil_op_call *call, size_t *bytes)
{
    const hil_delta_attr *attr = (const hil_delta_attr *)call->attr;
    const int64_t *y = call->out[0].shape.dim;
    hil_delta_job d = {.batch = y[0], .length = y[1], .key_heads = attr->key_heads, .heads = y[2]};
    d.key_dim = attr->key_dim;
    d.value_dim = y[3];
    d.width = call->in[0].shape.dim[2];
    d.chunks = hil_delta_chunks(d.length);
    d.x = hil_view_of(&call->in[0]);
    d.b = hil_view_of(&call->in[1]);
    d.a = hil_view_of(&call->in[2]);
    d.write = attr->write > 0 ? (float)attr->write : 1;
    if (is_space(call)) describe_space(call, &d);
    d.by_channel = is_by_channel(call);
    if (d.by_channel) d.floor = (float)((const hil_channel_delta_attr *)call->attr)->floor;
    d.out = hil_view_of(&call->out[0]);
    hil_view *vectors[] = {&d.rate, &d.bias, &d.skip};
    float **by_group[] = {&d.q_scale, &d.k_scale, &d.match};
    float **by_head[] = {&d.beta, &d.slope, &d.decay};
    int64_t channels = d.by_channel ? d.key_dim : 1, gates = d.batch * d.length * d.heads;
    *bytes = 0;
    for (int i = 0; i < call->params; ++i)
        *vectors[i] = {take(call, bytes, d.heads * (i == 1 ? channels : 1), sizeof(float)),
                       call->param[i].dtype};
    for (int i = 0; i < 3; ++i)
        *by_group[i] = take(call, bytes, d.batch * d.length * d.key_heads, sizeof(float));
    for (int i = 0; i < (d.by_channel ? 1 : 3); ++i)
        *by_head[i] = take(call, bytes, gates, sizeof(float));
    d.keep = take(call, bytes, gates * channels, sizeof(float));
    return d;
}

/* Rows of the gradients of vectors, which are added up: chunks, or tiles by channel. */
static int64_t vector_rows(const hil_delta_job &d)
{
    int64_t tiles = (d.length + HIL_DELTA_ROWS - 1) / HIL_DELTA_ROWS;
    return d.batch * (d.by_channel ? tiles : d.chunks);
}

/* What the gradients of channels are made of. */
static void describe_channels(const hil_op_call *call, const hil_delta_job &d, hil_delta_back *g,
                              size_t *bytes)
{
    int64_t tiles = d.batch * d.heads * g->chunks * HIL_DELTA_TILES;
    int64_t numbers = d.batch * g->room * d.heads * d.key_dim;
    float **products[] = {&g->own, &g->by_row, &g->by_column};
    g->begins = take(call, bytes, tiles * d.key_dim * d.value_dim, sizeof(float));
    g->ends = take(call, bytes, tiles * d.key_dim * d.value_dim, sizeof(float));
    g->pairs = take(call, bytes, tiles * 2 * HIL_DELTA_ROWS * HIL_DELTA_ROWS, sizeof(float));
    g->whole = take(call, bytes, tiles * d.key_dim, sizeof(float));
    for (int i = 0; i < 3; ++i) *products[i] = take(call, bytes, numbers, sizeof(float));
}

/* Of chunks that share one decay. */
static void describe_chunks(const hil_op_call *call, const hil_delta_job &d, hil_delta_back *g,
                            size_t *bytes)
{
    int64_t rows = d.batch * g->room * d.heads;
    g->sums = (double *)take(call, bytes, d.batch * d.length * d.heads, sizeof(double));
    g->ends =
        take(call, bytes, g->chunks * d.batch * d.heads * d.key_dim * d.value_dim, sizeof(float));
    g->from_begin = take(call, bytes, rows, sizeof(float));
    g->from_end = take(call, bytes, rows, sizeof(float));
    g->across = take(call, bytes, rows * HIL_DELTA_TILES, sizeof(float));
}

static hil_delta_back describe_back(const hil_op_call *call, const hil_delta_job &d, size_t *bytes)
{
    hil_delta_back g = {.dout = hil_view_of(&call->dout[0]),
                        .dx = hil_view_of(&call->din[0]),
                        .db = hil_view_of(&call->din[1]),
                        .da = hil_view_of(&call->din[d.space ? 1 : 2]),
                        .add_dx = call->din_add[0],
                        .add_db = call->din_add[1],
                        .add_da = call->din_add[d.space ? 1 : 2]};
    if (d.space) g.db.data = NULL;
    int64_t most = d.by_channel ? PART_CHANNELS : PART;
    g.chunks = d.batch ? most / (d.batch * HIL_DELTA_CHUNK) : 1;
    if (g.chunks < 1) g.chunks = 1;
    if (g.chunks > d.chunks) g.chunks = d.chunks;
    g.room = g.chunks * HIL_DELTA_CHUNK < d.length ? g.chunks * HIL_DELTA_CHUNK : d.length;
    int64_t rows = d.batch * g.room * d.heads, states = d.batch * d.heads * d.key_dim * d.value_dim;
    g.wrong = take(call, bytes, d.space ? 0 : rows * d.value_dim, sizeof(float));
    g.dchange = take(call, bytes, rows * d.value_dim, sizeof(float));
    g.carry = take(call, bytes, states, sizeof(float));
    (d.by_channel ? describe_channels : describe_chunks)(call, d, &g, bytes);
    float **partial[] = {&g.drate, &g.dbias, &g.dskip};
    for (int i = 0; i < call->params; ++i)
        *partial[i] = take(call, bytes, vector_rows(d) * vector_cols(d, i), sizeof(float));
    return g;
}

/* Scratch: what hil_delta_job and hil_delta_back hold. */
static hil_status infer(hil_op_call *call)
{
    const hil_delta_attr *attr = (const hil_delta_attr *)call->attr;
    int most = is_by_channel(call) ? HIL_DELTA_CHANNELS : HIL_DELTA_DIM;
    if (attr->key_dim > most)
        return hil_fail(HIL_ERR_USAGE, "%s: keys of %lld numbers, a GPU takes at most %d",
                        call->op->name, (long long)attr->key_dim, most);
    call->scratch = NULL;
    hil_delta_job d = describe(call, &call->forward_scratch);
    call->backward_scratch = call->forward_scratch;
    if (call->op->backward) describe_back(call, d, &call->backward_scratch);
    return HIL_OK;
}

static bool is_empty(const hil_delta_job &d)
{
    return d.batch * d.length == 0;
}

/* Copies the vectors, because only one can be acquired at a time, and computes the gates. */
static hil_status begin(const hil_op_call *call, const hil_delta_job &d)
{
    HIL_TRY(hil_op_cuda_matrix(call, 0, d.rate.data));
    HIL_TRY(hil_op_cuda_matrix(call, 1, d.bias.data));
    if (d.space) HIL_TRY(hil_op_cuda_matrix(call, 2, d.skip.data));
    if (is_empty(d)) return HIL_OK;
    prepare<<<hil_blocks(d.batch * d.length * d.key_heads, WARPS), THREADS, 0,
              hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(d);
    return hil_cuda_launched(call->device, call->op->name);
}

static hil_status forward(hil_op_call *call)
{
    size_t bytes;
    hil_delta_job d = describe(call, &bytes);
    d.first = (const int32_t *)call->in[d.space ? 2 : 3].data;
    if (call->saveds) d.saved = (float *)call->saved[0].data;
    HIL_TRY(begin(call, d));
    return is_empty(d) ? HIL_OK : hil_delta_scan(call->device, d);
}

/* What sums over columns, after the scans. */
static hil_status run_products(hil_device *device, const hil_delta_job &d, const hil_delta_back &g)
{
    if (d.by_channel) return hil_delta_channels(device, d, g);
    HIL_TRY(hil_delta_products(device, d, g));
    return hil_delta_gates(device, d, g);
}

/* Parts from the last to the first; see [Note: scans]. */
static hil_status run_parts(const hil_op_call *call, const hil_delta_job &d, hil_delta_back g)
{
    int64_t each = g.chunks;
    if (!d.by_channel) {
        add_decays<<<hil_blocks(d.batch * d.chunks * d.heads, THREADS), THREADS, 0,
                     hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(d, g.sums);
        HIL_TRY(hil_cuda_launched(call->device, "delta_rule's decays"));
    }
    for (int64_t end = d.chunks; end > 0; end = g.chunk) {
        g.chunk = end > each ? end - each : 0;
        g.chunks = end - g.chunk;
        g.begin = g.chunk * HIL_DELTA_CHUNK;
        g.end = end * HIL_DELTA_CHUNK < d.length ? end * HIL_DELTA_CHUNK : d.length;
        g.last = end == d.chunks;
        if (!d.space) HIL_TRY(hil_delta_scan_again(call->device, d, g));
        HIL_TRY(hil_delta_scan_back(call->device, d, g));
        HIL_TRY(run_products(call->device, d, g));
    }
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    size_t bytes;
    hil_delta_job d = describe(call, &bytes);
    d.first = (const int32_t *)call->in[d.space ? 2 : 3].data;
    d.saved = (float *)call->saved[0].data;
    hil_delta_back g = describe_back(call, d, &bytes);
    HIL_TRY(begin(call, d));
    if (!is_empty(d)) HIL_TRY(run_parts(call, d, g));
    const float *partial[] = {g.drate, g.dbias, g.dskip};
    for (int i = 0; i < call->params; ++i) {
        float *sum;
        bool add;
        if (!call->param[i].trainable) continue;
        HIL_TRY(call->source->gradient_begin(call->owner, i, 0, &sum, &add));
        hil_status status = hil_op_cuda_gather(
            call->device, {sum, partial[i], vector_rows(d), vector_cols(d, i), add});
        call->source->gradient_end(call->owner, i, 0);
        HIL_TRY(status);
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_delta_rule = {
    .op = &hil_op_delta_rule, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_channel_delta = {
    .op = &hil_op_channel_delta, .infer = infer, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_state_space = {
    .op = &hil_op_state_space, .infer = infer, .forward = forward, .backward = backward};

static hil_status forward_cached(hil_op_call *call)
{
    const hil_delta_attr *attr = (const hil_delta_attr *)call->attr;
    size_t bytes;
    hil_delta_job d = describe(call, &bytes);
    if (attr->length > 0) d.state = (const float *)attr->state;
    d.next = (float *)attr->next;
    HIL_TRY(begin(call, d));
    return is_empty(d) ? HIL_OK : hil_delta_scan(call->device, d);
}

const hil_op_kernel hil_cuda_delta_rule_cached = {
    .op = &hil_op_delta_rule_cached, .infer = infer, .forward = forward_cached};
const hil_op_kernel hil_cuda_channel_delta_cached = {
    .op = &hil_op_channel_delta_cached, .infer = infer, .forward = forward_cached};
const hil_op_kernel hil_cuda_state_space_cached = {
    .op = &hil_op_state_space_cached, .infer = infer, .forward = forward_cached};
