/* delta_cuda.h - the gated delta rule on a GPU: [Note: gated delta rule] in ops.h; and state
   spaces, as in delta.h.

   [Note: scans] Columns of a state do not depend on each other. So a scan over the positions of a
   head runs in as many blocks as there are pieces of its columns, with the state in registers:
   forward, and in backward from the last position to the first for the gradients of the states and
   of v. All that sums over columns (the gradients of q, k and the gates) needs the state before
   every position, in sums with the state S at the beginning of its chunk, the gradient G of the one
   at its end and what the chunk's positions added:
       S_i = D_i S + sum over j <= i of D_i / D_j k_j change_j'
   where D_i is the product of exp(g) over the chunk's positions up to i. So these gradients are
   matrix products, chunk by chunk, of which many run at once. Backward takes a few chunks at a
   time, so that what the scans leave for the products stays small. With a decay per channel D_i is
   a vector, so only tiles of HIL_DELTA_ROWS positions are taken like chunks; see
   [Note: gradients by channel] in delta_channels.cu. */
#ifndef HIL_OPS_RECURRENT_DELTA_CUDA_H
#define HIL_OPS_RECURRENT_DELTA_CUDA_H

#include "ops/cuda_kernel.h"
extern "C" {
#include "ops/recurrent/delta.h"
}

#define HIL_DELTA_DIM 256      /* numbers of a key, at most */
#define HIL_DELTA_CHANNELS 128 /* likewise, with a decay per channel */
#define HIL_DELTA_TILES 4      /* of a chunk, in products */
#define HIL_DELTA_ROWS (HIL_DELTA_CHUNK / HIL_DELTA_TILES)

/* A call; sizes and inputs as in hil_delta. */
typedef struct hil_delta_job {
    int64_t batch, length, key_heads, heads, key_dim, value_dim, width, chunks;
    bool space;        /* a state space: `a` has the steps, and there is no `b` */
    float least, most; /* of them */
    bool by_channel;   /* a decay per channel: `a`, `bias` and `keep` have D numbers of a head */
    float floor;       /* of them; 0: none */
    float write;       /* a factor of beta; 1 but for the gated delta rule */
    hil_view x, b, a;
    const int32_t *first; /* NULL in generation */
    hil_view rate, bias;  /* A and the bias, (H) each; the bias (H D) by channel */
    hil_view skip;        /* D, (H), of a state space */
    /* Of every position and group of heads, (B, T, K): what q and k are multiplied by, and the
       product of what they become. */
    float *q_scale, *k_scale, *match;
    /* Of every position and head, (B, T, H), as in hil_delta_inputs; `keep`, (B, T, H D) by
       channel, is 0 where a document begins. By channel there is no `slope` and no `decay`. */
    float *beta, *keep, *slope, *decay;
    hil_view out;
    float *saved;       /* (B, H, chunks, D V); NULL: not wanted */
    const float *state; /* (B, H, D V) before the first position; NULL: zeros */
    float *next;        /* after the last one; NULL: not wanted */
} hil_delta_job;

/* Backward. It has chunks [chunk, chunk + chunks), which are positions [begin, end); it has `room`
   positions of each sequence for their numbers. */
typedef struct hil_delta_back {
    int64_t chunk, chunks, begin, end, room;
    bool last;      /* the chunks are those at the end */
    double *sums;   /* (B, T, H): decays added up from the beginning of a chunk */
    float *wrong;   /* (B, room, H, V): v - S'k; not in a state space, where it is v */
    float *dchange; /* (B, room, H, V): the gradient of beta (v - S'k) */
    float *ends;    /* (B, H, chunks, D V): G of each chunk; by channel of each tile */
    float *carry;   /* (B, H, D V): G of the chunk before these */
    /* Terms of the gradients of decays: [Note: gradients in a chunk]. */
    float *from_begin, *from_end; /* (B, room, H): of each D_i and M_end,i */
    float *across;                /* (B, room, H, HIL_DELTA_TILES): of M, by the tile of its row */
    /* By channel: S of each tile, (B, H, tiles, D V), and of [Note: gradients by channel] E and F,
       (B, H, tiles, 2, ROWS, ROWS), the products of G and S, (B, H, tiles, D), those of a state and
       a position, (B, room, H, D). */
    float *begins, *pairs, *whole;
    float *own, *by_row, *by_column;
    hil_view dout, dx, db, da;
    bool add_dx, add_db, add_da;
    float *drate, *dbias, *dskip; /* (B, all chunks, H); by channel (B, all tiles, H), (.., H D) */
} hil_delta_back;

/* Where numbers of a head are: in a row of x, and its group. */
typedef struct hil_delta_head {
    int64_t b, head, group, q, k, v;
} hil_delta_head;
static __device__ inline hil_delta_head hil_delta_head_of(const hil_delta_job &d, int64_t sequence)
{
    hil_delta_head p = {.b = sequence / d.heads, .head = sequence % d.heads};
    p.group = p.head / (d.heads / d.key_heads);
    p.q = p.group * d.key_dim;
    p.k = (d.key_heads + p.group) * d.key_dim;
    p.v = 2 * d.key_heads * d.key_dim + p.head * d.value_dim;
    if (!d.space) return p;
    p.v = p.head * d.value_dim;
    p.k = d.heads * d.value_dim + p.group * d.key_dim;
    p.q = p.k + d.key_heads * d.key_dim;
    return p;
}

static __device__ inline float hil_delta_number(const hil_view x, int64_t at)
{
    float out[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, 1), x.dtype, out);
    return out[0];
}

/* The decay of channel c of a head at a position of all sequences, and its derivatives by `a` and
   by A, as in hil_delta_inputs. */
typedef struct hil_delta_channel {
    float keep, slope, by_rate;
} hil_delta_channel;
static __device__ inline hil_delta_channel hil_delta_channel_of(const hil_delta_job &d, int64_t row,
                                                                int64_t head, int64_t c)
{
    float rate = expf(hil_delta_number(d.rate, head));
    float y = hil_delta_number(d.a, (row * d.heads + head) * d.key_dim + c) +
              hil_delta_number(d.bias, head * d.key_dim + c);
    bool floored = d.floor < 0;
    float s = 1 / (1 + expf(floored ? -rate * y : -y));
    float decay = floored ? d.floor * s : -rate * (y > 20 ? y : log1pf(expf(y)));
    float slope = floored ? decay * (1 - s) * rate : -rate * s;
    return {expf(decay), slope, floored ? slope * y : decay};
}

static __device__ inline bool hil_delta_is_begin(const hil_delta_job &d, int64_t b, int64_t t)
{
    return d.first && d.first[b * d.length + t] == t;
}

/* delta_scan.cu: all positions from the state before them; `wrong` of the chunks at hand, from
   their saved states; their gradients of states and of v, from the last to the first. */
hil_status hil_delta_scan(hil_device *device, const hil_delta_job &d);
hil_status hil_delta_scan_again(hil_device *device, const hil_delta_job &d,
                                const hil_delta_back &g);
hil_status hil_delta_scan_back(hil_device *device, const hil_delta_job &d, const hil_delta_back &g);
/* delta_products.cu: gradients of q and k, and of gates, from what the scans of backward left. */
hil_status hil_delta_products(hil_device *device, const hil_delta_job &d, const hil_delta_back &g);
hil_status hil_delta_gates(hil_device *device, const hil_delta_job &d, const hil_delta_back &g);
/* delta_channels.cu: all of these with a decay per channel. */
hil_status hil_delta_channels(hil_device *device, const hil_delta_job &d, const hil_delta_back &g);

#endif
