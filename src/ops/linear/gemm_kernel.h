/* gemm_kernel.h - the functions of the matrix product that each instruction set implements. */
#ifndef HIL_OPS_LINEAR_GEMM_KERNEL_H
#define HIL_OPS_LINEAR_GEMM_KERNEL_H

#include "tensor/tensor.h"

/* The longest block of k; see [Note: order of the sums] in gemm.h. */
#define HIL_GEMM_DEPTH 384
/* Rows of A that count as few. */
#define HIL_GEMM_FEW 8
/* No kernel's tile has more numbers than this. */
#define HIL_GEMM_TILE_MAX 1024

/* Rows of A, or columns of B, over `depth` consecutive k. Packed, they are contiguous panels of mr
   rows (nr columns), padded with zeros to whole panels and to a multiple of k_unit. */
typedef struct hil_strip {
    const void *data; /* of the first row (column) and the first k */
    hil_dtype dtype;
    int64_t stride;   /* from one row (column) to the next; this or k_stride is 1 */
    int64_t k_stride; /* from one k to the next */
    int64_t count;    /* rows (columns) */
    int64_t depth;
} hil_strip;

/* c[mr][nr] = bias + base + panel a * panel b. */
typedef struct hil_tile {
    const void *a;
    const void *b;
    bool a_by_rows; /* k_stride was 1 when A was packed */
    int64_t depth;  /* a multiple of k_unit */
    float *c;
    int64_t c_stride;
    const float *bias; /* nr numbers or NULL */
    const float *base; /* with c's stride, perhaps c itself; or NULL */
} hil_tile;

/* Few rows: c[m][columns] for contiguous fp32 rows of A and columns of B with contiguous k. */
typedef struct hil_few {
    const float *a; /* [m][k] */
    int64_t m, k;
    const void *b; /* first column */
    hil_dtype b_dtype;
    int64_t b_stride;
    int64_t columns;
    float *c; /* [m][c_stride] */
    int64_t c_stride;
} hil_few;

/* One row of fp32 results, to be written to c. */
typedef struct hil_gemm_row {
    const float *from;
    const float *bias; /* or NULL */
    void *to;
    hil_dtype dtype;
    int64_t count;
    const void *base; /* like `to`, perhaps `to` itself; or NULL */
} hil_gemm_row;

typedef struct hil_gemm_kernel {
    const char *name;
    int mr, nr;
    int rows; /* at most of a task: a packed block of A stays in the second-level cache */
    int k_unit;
    size_t element; /* bytes of one number in a panel */
    void (*pack_a)(void *panels, const hil_strip *strip);
    void (*pack_b)(void *panels, const hil_strip *strip);
    void (*tile)(const hil_tile *tile);
    void (*few)(const hil_few *few);
    void (*store)(const hil_gemm_row *store);
} hil_gemm_kernel;

/* The kernel of a file that defines its sizes and functions by these names. */
#define HIL_GEMM_KERNEL(label, unit, type)                                                         \
    {                                                                                              \
        .name = label, .mr = MR, .nr = NR, .rows = BLOCK_ROWS, .k_unit = unit,                     \
        .element = sizeof(type), .pack_a = pack_a, .pack_b = pack_b, .tile = tile, .few = few,     \
        .store = store_row                                                                         \
    }

/* The kernel for inputs of these dtypes on this CPU. */
const hil_gemm_kernel *hil_gemm_choose(hil_dtype a, hil_dtype b);

extern const hil_gemm_kernel hil_gemm_portable;
extern const hil_gemm_kernel hil_gemm_avx2;
extern const hil_gemm_kernel hil_gemm_avx512;
extern const hil_gemm_kernel hil_gemm_avx512bf16;
extern const hil_gemm_kernel hil_gemm_amx;

#endif
