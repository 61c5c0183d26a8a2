/* cublas.cpp - matrix products of cuBLASLt for the emulated GPU. What the documentation of
   cublasLtMatmul forbids is refused: types that do not go together, alignments and, of 8 bits,
   layouts. Sums are exact to one rounding. */
#include "emulator.h"

#include <cublasLt.h>
#include <cuda_fp8.h>
#include <vector>

namespace
{

struct description {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    const float *a_scale, *b_scale;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t stride;
};

struct preference {
    uint32_t align[4]; /* of a, b, c and d */
};

const description *of(cublasLtMatmulDesc_t handle)
{
    return (const description *)handle;
}

const layout *of(cublasLtMatrixLayout_t handle)
{
    return (const layout *)handle;
}

bool is_fp8(cudaDataType_t type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

size_t size_of(cudaDataType_t type)
{
    return is_fp8(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
}

float read(cudaDataType_t type, const void *data, size_t at)
{
    switch ((int)type) {
    case CUDA_R_32F:
        return ((const float *)data)[at];
    case CUDA_R_16BF:
        return __bfloat162float(((const __nv_bfloat16 *)data)[at]);
    case CUDA_R_16F:
        return __half2float(((const __half *)data)[at]);
    case CUDA_R_8F_E4M3:
        return (float)((const __nv_fp8_e4m3 *)data)[at];
    default:
        return (float)((const __nv_fp8_e5m2 *)data)[at];
    }
}

void write(cudaDataType_t type, void *data, size_t at, float x)
{
    if (type == CUDA_R_32F)
        ((float *)data)[at] = x;
    else if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)data)[at] = __float2bfloat16_rn(x);
    else
        ((__half *)data)[at] = __float2half_rn(x);
}

/* Where number k of row i of op(a), or of column i of op(b), is. */
uint64_t place(const layout *x, bool depth_first, uint64_t i, uint64_t k)
{
    return depth_first ? k + i * (uint64_t)x->stride : i + k * (uint64_t)x->stride;
}

#define TILE_ROWS 16
#define TILE_COLS 4

/* Vectors by name: left alone, compilers make short ones of the loops. */
typedef float floats __attribute__((vector_size(32), aligned(4)));
typedef double doubles __attribute__((vector_size(64)));
union tile_row {
    float one[TILE_ROWS];
    floats part[2];
};

/* Sums of a tile of results; a (depth x TILE_ROWS) and b (n x depth) begin at the tile. */
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) void
multiply_tile(const tile_row *a, const float *b, uint64_t depth, tile_row out[TILE_COLS])
{
    doubles sum[TILE_COLS][2] = {};
    for (uint64_t k = 0; k < depth; ++k)
        for (int i = 0; i < 2; ++i) {
            doubles x = __builtin_convertvector(a[k].part[i], doubles);
            for (int j = 0; j < TILE_COLS; ++j) sum[j][i] += x * (double)b[(uint64_t)j * depth + k];
        }
    for (int j = 0; j < TILE_COLS; ++j)
        for (int i = 0; i < 2; ++i) out[j].part[i] = __builtin_convertvector(sum[j][i], floats);
}

struct product {
    description how;
    layout a, b, c, d;
    float alpha, beta;
    const void *a_data, *b_data, *c_data;
    void *d_data;
};

uint64_t whole(uint64_t count, uint64_t tile)
{
    return (count + tile - 1) / tile * tile;
}

/* One result from its sum. */
void finish(const product &p, float scale, uint64_t i, uint64_t j, float sum)
{
    float x = scale * sum;
    if (p.beta != 0) x += p.beta * read(p.c.type, p.c_data, i + j * (uint64_t)p.c.stride);
    if (p.how.epilogue == CUBLASLT_EPILOGUE_BIAS) x += read(p.d.type, p.how.bias, i);
    write(p.d.type, p.d_data, i + j * (uint64_t)p.d.stride, x);
}

void run(const product &p)
{
    bool turned = p.how.a == CUBLAS_OP_T;
    uint64_t m = p.d.rows, n = p.d.cols, depth = turned ? p.a.rows : p.a.cols;
    std::vector<tile_row> a(whole(m, TILE_ROWS) / TILE_ROWS * depth);
    std::vector<float> b(whole(n, TILE_COLS) * depth);
    for (uint64_t i = 0; i < m; ++i)
        for (uint64_t k = 0; k < depth; ++k)
            a[i / TILE_ROWS * depth + k].one[i % TILE_ROWS] =
                read(p.a.type, p.a_data, place(&p.a, turned, i, k));
    for (uint64_t j = 0; j < n; ++j)
        for (uint64_t k = 0; k < depth; ++k)
            b[j * depth + k] = read(p.b.type, p.b_data, place(&p.b, p.how.b == CUBLAS_OP_N, j, k));
    float scale = p.alpha;
    if (p.how.a_scale) scale *= *p.how.a_scale;
    if (p.how.b_scale) scale *= *p.how.b_scale;
    for (uint64_t j = 0; j < n; j += TILE_COLS)
        for (uint64_t i = 0; i < m; i += TILE_ROWS) {
            tile_row sum[TILE_COLS];
            multiply_tile(&a[i / TILE_ROWS * depth], &b[j * depth], depth, sum);
            for (uint64_t c = 0; c < TILE_COLS && j + c < n; ++c)
                for (uint64_t r = 0; r < TILE_ROWS && i + r < m; ++r)
                    finish(p, scale, i + r, j + c, sum[c].one[r]);
        }
}

bool aligned(const layout *x, uint32_t align, uint32_t need)
{
    return align % need == 0 && (size_t)x->stride * size_of(x->type) % need == 0;
}

bool allowed(const description *how, const layout *a, const layout *b, const layout *c,
             const layout *d, const preference *p)
{
    if (c->type != d->type || c->stride != d->stride) return false;
    if (is_fp8(a->type) != is_fp8(b->type)) return false;
    if (!is_fp8(a->type))
        return a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F);
    if (a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2) return false;
    if (how->a != CUBLAS_OP_T || how->b != CUBLAS_OP_N) return false;
    if (how->epilogue == CUBLASLT_EPILOGUE_BIAS && d->type == CUDA_R_32F) return false;
    if (!how->a_scale || !how->b_scale) return false;
    if (a->rows % 16 || a->cols % 16 || b->cols % 16) return false;
    return aligned(a, p->align[0], 16) && aligned(b, p->align[1], 16) &&
           aligned(d, p->align[3], 16);
}

} // namespace

extern "C" {

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported by the emulated GPU" : "an error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = (cublasLtHandle_t) new char;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete (char *)handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = (cublasLtMatmulDesc_t) new description();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how)
{
    delete (description *)how;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes)
{
    description *how = (description *)handle;
    void *to = name == CUBLASLT_MATMUL_DESC_TRANSA            ? (void *)&how->a
               : name == CUBLASLT_MATMUL_DESC_TRANSB          ? (void *)&how->b
               : name == CUBLASLT_MATMUL_DESC_EPILOGUE        ? (void *)&how->epilogue
               : name == CUBLASLT_MATMUL_DESC_BIAS_POINTER    ? (void *)&how->bias
               : name == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER ? (void *)&how->a_scale
               : name == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER ? (void *)&how->b_scale
                                                              : NULL;
    if (!to) return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t stride)
{
    if (stride < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    *out = (cublasLtMatrixLayout_t) new layout{type, rows, cols, stride};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t x)
{
    delete (layout *)x;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = (cublasLtMatmulPreference_t) new preference{{16, 16, 16, 16}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete (preference *)p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t bytes)
{
    int at = name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES   ? 0
             : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ? 1
             : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES ? 2
             : name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES ? 3
                                                                  : -1;
    if (at >= 0) memcpy(&((preference *)p)->align[at], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int,
                                              cublasLtMatmulHeuristicResult_t *out, int *count)
{
    *count = 0;
    if (!allowed(of(how), of(a), of(b), of(c), of(d), (const preference *)p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *,
                                                    cublasLtMatmulAlgoConfigAttributes_t, void *,
                                                    size_t, size_t *)
{
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *, void *,
                              size_t, cudaStream_t stream)
{
    product p = {*of(how),
                 *of(a_layout),
                 *of(b_layout),
                 *of(c_layout),
                 *of(d_layout),
                 *(const float *)alpha,
                 *(const float *)beta,
                 a,
                 b,
                 c,
                 d};
    emulator::queue_call(stream, [p] { run(p); });
    return CUBLAS_STATUS_SUCCESS;
}
}
