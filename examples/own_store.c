/* own_store.c - a regression with a gradient by hand, in less memory than its parameters need.

   cc own_store.c $(pkg-config --cflags --libs hilbert) -o own_store && ./own_store

   y = sum over h of out[h] * relu(in[h] . x + bias[h]) learns a smooth function. The matrix `in`
   with its gradient and its two moments takes several times what the program may use of memory, so
   most of it is on disk, in the current folder. Nothing below says what is where. */
#include <hilbert/store.h>

#include <math.h>
#include <stdio.h>

enum { INPUTS = 128, HIDDEN = 4096, BATCH = 16, STEPS = 25 };
enum { MATRIX, VECTORS }; /* groups */

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        hil_status status_ = (expr);                                                               \
        if (status_ != HIL_OK) return status_;                                                     \
    } while (0)

typedef struct net {
    hil_param_store *store;
    hil_stored_param *in, *bias, *out;
    float x[BATCH][INPUTS], goal[BATCH];
    float y[BATCH], slope[BATCH]; /* what comes out, and the loss's derivative by it */
} net;

/* A number in [-1, 1) that depends on i alone. */
static float noise(unsigned i)
{
    i = (i ^ (i >> 16)) * 0x45d9f3bu;
    i = (i ^ (i >> 16)) * 0x45d9f3bu;
    return (float)(i >> 8 & 0xffff) / 32768.0f - 1;
}

/* Fills the matrix a few rows at a time, so that it is never in memory as a whole. */
static hil_status fill(net *n)
{
    enum { PIECE = HIDDEN / 16 };
    static float piece[PIECE * INPUTS];
    float out[HIDDEN];
    for (int first = 0; first < HIDDEN * INPUTS; first += PIECE * INPUTS) {
        for (int i = 0; i < PIECE * INPUTS; ++i) piece[i] = noise((unsigned)(first + i)) / 8;
        TRY(hil_param_store_write(n->store, n->in, HIL_PARAM_STORE_WEIGHT, first, PIECE * INPUTS,
                                  piece));
    }
    for (int h = 0; h < HIDDEN; ++h) out[h] = noise((unsigned)(HIDDEN * INPUTS + h)) / 64;
    return hil_param_store_write(n->store, n->out, HIL_PARAM_STORE_WEIGHT, 0, HIDDEN, out);
}

static void draw(net *n, int step)
{
    for (int b = 0; b < BATCH; ++b) {
        float s = 0;
        for (int i = 0; i < INPUTS; ++i) {
            n->x[b][i] = noise((unsigned)((step * BATCH + b) * INPUTS + i) + 99999999u);
            s += n->x[b][i] * noise((unsigned)i + 77777777u);
        }
        n->goal[b] = tanhf(s / 4);
    }
}

static float activate(const float *row, const float *x, float bias)
{
    float sum = bias;
    for (int i = 0; i < INPUTS; ++i) sum += row[i] * x[i];
    return sum > 0 ? sum : 0;
}

/* Rows [first, first + count) of the matrix are at `in`. */
typedef struct rows {
    const float *in, *bias, *out;
    int64_t first, count;
} rows;

static void forward_rows(net *n, const rows *r)
{
    for (int64_t h = 0; h < r->count; ++h)
        for (int b = 0; b < BATCH; ++b)
            n->y[b] +=
                r->out[r->first + h] * activate(r->in + h * INPUTS, n->x[b], r->bias[r->first + h]);
}

/* The activations are computed again; keeping them would need memory. */
static void backward_rows(const net *n, const rows *r, float *in, float *bias, float *out)
{
    for (int64_t h = 0; h < r->count; ++h)
        for (int b = 0; b < BATCH; ++b) {
            float a = activate(r->in + h * INPUTS, n->x[b], r->bias[r->first + h]);
            if (a <= 0) continue;
            float slope = n->slope[b] * r->out[r->first + h];
            out[r->first + h] += n->slope[b] * a;
            bias[r->first + h] += slope;
            for (int i = 0; i < INPUTS; ++i) in[h * INPUTS + i] += slope * n->x[b][i];
        }
}

static hil_status acquire_rows(net *n, int64_t tile, rows *r)
{
    int64_t all = hil_param_store_tile_rows(n->in);
    r->first = tile * all;
    r->count = HIDDEN - r->first < all ? HIDDEN - r->first : all;
    return hil_param_store_acquire(n->store, n->in, tile, (const void **)&r->in);
}

static hil_status forward(net *n, rows *r)
{
    for (int b = 0; b < BATCH; ++b) n->y[b] = 0;
    for (int64_t t = 0; t < hil_param_store_tiles(n->in); ++t) {
        TRY(acquire_rows(n, t, r));
        forward_rows(n, r);
        hil_param_store_release(n->store, n->in, t);
    }
    return HIL_OK;
}

static hil_status backward(net *n, rows *r)
{
    float *in, *bias, *out;
    TRY(hil_param_store_gradient_acquire(n->store, n->bias, 0, &bias));
    TRY(hil_param_store_gradient_acquire(n->store, n->out, 0, &out));
    for (int64_t t = hil_param_store_tiles(n->in) - 1; t >= 0; --t) {
        TRY(acquire_rows(n, t, r));
        TRY(hil_param_store_gradient_acquire(n->store, n->in, t, &in));
        backward_rows(n, r, in, bias, out);
        hil_param_store_gradient_release(n->store, n->in, t);
        hil_param_store_release(n->store, n->in, t);
    }
    hil_param_store_gradient_release(n->store, n->bias, 0);
    hil_param_store_gradient_release(n->store, n->out, 0);
    TRY(hil_param_store_give_gradients(n->store, MATRIX));
    return hil_param_store_give_gradients(n->store, VECTORS);
}

/* The vectors are held for the whole step, the matrix one tile at a time. */
static hil_status step(net *n, double *loss, double *norm)
{
    rows r;
    TRY(hil_param_store_begin(n->store, HIL_PARAM_STORE_TRAIN));
    TRY(hil_param_store_acquire(n->store, n->bias, 0, (const void **)&r.bias));
    TRY(hil_param_store_acquire(n->store, n->out, 0, (const void **)&r.out));
    TRY(forward(n, &r));
    *loss = 0;
    for (int b = 0; b < BATCH; ++b) {
        double error = (double)n->y[b] - (double)n->goal[b];
        *loss += error * error / BATCH;
        n->slope[b] = (float)(2 * error / BATCH);
    }
    TRY(backward(n, &r));
    hil_param_store_release(n->store, n->bias, 0);
    hil_param_store_release(n->store, n->out, 0);
    TRY(hil_param_store_step(n->store, 1e-3, norm));
    return hil_param_store_end(n->store);
}

static hil_status create(net *n, const hil_param_store_options *options)
{
    TRY(hil_param_store_create(&n->store, options));
    const hil_param_store_form in = {.rows = HIDDEN, .cols = INPUTS, .group = MATRIX};
    const hil_param_store_form vector = {.cols = HIDDEN, .group = VECTORS, .no_decay = true};
    TRY(hil_param_store_add(n->store, "in", &in, &n->in));
    TRY(hil_param_store_add(n->store, "bias", &vector, &n->bias));
    TRY(hil_param_store_add(n->store, "out", &vector, &n->out));
    TRY(hil_param_store_place(n->store));
    hil_param_store_bytes at = hil_param_store_placed(n->store);
    printf("state: %.1f MB on the device, %.1f MB in host memory, %.1f MB on disk\n",
           (double)at.device / 1e6, (double)at.host / 1e6, (double)at.disk / 1e6);
    return fill(n);
}

static void print_tier(const char *name, uint64_t peak, uint64_t budget)
{
    printf("%-6s  peak %5.2f MB  budget %5.2f MB\n", name, (double)peak / 1e6,
           (double)budget / 1e6);
}

static hil_status learn(net *n, const hil_param_store_options *options, int *good)
{
    double first = 0, last = 0, norm;
    hil_step_account account;
    for (int s = 1; s <= STEPS; ++s) {
        double loss;
        draw(n, s);
        TRY(step(n, &loss, &norm));
        if (s <= 5) first += loss / 5;
        if (s > STEPS - 5) last += loss / 5;
        if (s == 1 || s % 5 == 0) printf("step %3d  loss %.4f  norm %.2f\n", s, loss, norm);
    }
    TRY(hil_param_store_wait(n->store));
    hil_param_store_account(n->store, &account);
    print_tier("device", account.device_peak, options->memory.device);
    print_tier("host", account.host_peak, options->memory.host);
    print_tier("disk", account.disk_peak, options->memory.disks[0].bytes);
    printf("%.1f MB read and %.1f MB written by each step\n",
           (double)account.disk_read_bytes / STEPS / 1e6,
           (double)account.disk_written_bytes / STEPS / 1e6);
    *good = last < 0.5 * first && account.device_peak <= options->memory.device &&
            account.host_peak <= options->memory.host;
    return HIL_OK;
}

int main(void)
{
    static net n;
    int good = 0;
    const hil_disk_budget disk = {.path = ".", .bytes = 16 << 20};
    hil_param_store_options options;
    hil_param_store_defaults(&options);
    options.dtype = "fp32";
    options.memory.device = 1 << 20;
    options.memory.host = 2 << 20;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    options.tile_size = 128 << 10;
    options.weight_decay = 0;
    hil_status status = create(&n, &options);
    if (status == HIL_OK) status = learn(&n, &options, &good);
    if (status != HIL_OK) fprintf(stderr, "own_store: %s\n", hil_status_message());
    hil_param_store_destroy(n.store);
    if (status != HIL_OK) return 1;
    if (!good) {
        fprintf(stderr, "own_store: the loss did not fall, or a budget did not hold\n");
        return 1;
    }
    return 0;
}
