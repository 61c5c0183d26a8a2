/* matmul.cu - products through cuBLASLt: one plan for each shape, kept with the device. */
#include "ops/linear/matmul_cuda.h"

#include <string.h>

/* The key of a plan. Zeroed before it is filled, because keys are compared as bytes. */
typedef struct key {
    int64_t m, n, k, a_stride, b_stride, c_stride;
    int32_t dtype, c_dtype;
    uint32_t a_align, b_align, base_align, c_align;
    bool a_transposed, b_transposed, bias, add, a_e5m2;
} key;

typedef struct plan {
    key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result; /* in cuBLAS' column-major view: b, a, c */
    cublasLtMatmulAlgo_t algorithm;
} plan;

typedef struct plans {
    plan *plan;
    size_t count, capacity;
} plans;

static void drop_plan(plan *p)
{
    if (p->operation) cublasLtMatmulDescDestroy(p->operation);
    if (p->first) cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) cublasLtMatrixLayoutDestroy(p->result);
}

static void free_plans(void *data)
{
    plans *all = (plans *)data;
    for (size_t i = 0; i < all->count; ++i) drop_plan(&all->plan[i]);
    hil_free(all->plan);
    hil_free(all);
}

static cudaDataType_t type_of(int32_t dtype)
{
    if (dtype == HIL_E4M3) return CUDA_R_8F_E4M3;
    return dtype == HIL_F32 ? CUDA_R_32F : dtype == HIL_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static uint32_t alignment(const void *data)
{
    uintptr_t low = (uintptr_t)data & 15;
    return low == 0 ? 16 : (uint32_t)(low & -low);
}

/* The matrix that the product is added to, if it is. */
static const void *base_of(const hil_cuda_matmul *m)
{
    return m->base ? m->base : m->c;
}

static key key_of(const hil_cuda_matmul *m)
{
    key k;
    memset(&k, 0, sizeof k);
    k.m = m->m, k.n = m->n, k.k = m->k;
    k.a_stride = m->a.stride, k.b_stride = m->b.stride, k.c_stride = m->c_stride;
    k.dtype = m->dtype, k.c_dtype = m->c_dtype;
    k.a_align = alignment(m->a.data), k.b_align = alignment(m->b.data);
    k.base_align = alignment(base_of(m)), k.c_align = alignment(m->c);
    k.a_transposed = m->a.transposed, k.b_transposed = m->b.transposed;
    k.bias = m->bias != NULL, k.add = m->add || m->base;
    k.a_e5m2 = m->a_e5m2;
    return k;
}

static cublasStatus_t describe(plan *p)
{
    const key *k = &p->key;
    cudaDataType_t type = type_of(k->dtype), result = type_of(k->c_dtype);
    cudaDataType_t a_type = k->a_e5m2 ? CUDA_R_8F_E5M2 : type;
    cublasOperation_t first = k->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = k->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = k->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t bad = cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!bad)
        bad = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                             sizeof first);
    if (!bad)
        bad = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                             sizeof second);
    if (!bad)
        bad = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                             sizeof epilogue);
    if (!bad)
        bad = cublasLtMatrixLayoutCreate(&p->first, type, (uint64_t)(k->b_transposed ? k->k : k->n),
                                         (uint64_t)(k->b_transposed ? k->n : k->k), k->b_stride);
    if (!bad)
        bad = cublasLtMatrixLayoutCreate(&p->second, a_type,
                                         (uint64_t)(k->a_transposed ? k->m : k->k),
                                         (uint64_t)(k->a_transposed ? k->k : k->m), k->a_stride);
    if (!bad)
        bad = cublasLtMatrixLayoutCreate(&p->result, result, (uint64_t)k->n, (uint64_t)k->m,
                                         k->c_stride);
    return bad;
}

static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, const key *k)
{
    size_t workspace = HIL_CUDA_WORKSPACE;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->b_align, sizeof k->b_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->a_align, sizeof k->a_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->base_align, sizeof k->base_align},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->c_align, sizeof k->c_align},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i) {
        cublasStatus_t bad = cublasLtMatmulPreferenceSetAttribute(
            preference, settings[i].name, settings[i].value, settings[i].size);
        if (bad) return bad;
    }
    return CUBLAS_STATUS_SUCCESS;
}

#define CHOICES 8
#define WAVES 5        /* of tiles over all multiprocessors */
#define WAVES_LONG 7   /* the same for long sums in fp32 */
#define SHORT_SUM 6144 /* products of a sum */

static bool has_small_tiles(const cublasLtMatmulAlgo_t *algorithm)
{
    uint32_t tile = 0, parts = 0;
    size_t written;
    if (cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                             sizeof tile, &written) ||
        cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                             sizeof parts, &written))
        return false;
    return parts == 1 &&
           (tile == CUBLASLT_MATMUL_TILE_128x128 || tile == CUBLASLT_MATMUL_TILE_128x160 ||
            tile == CUBLASLT_MATMUL_TILE_160x128 || tile == CUBLASLT_MATMUL_TILE_168x128 ||
            tile == CUBLASLT_MATMUL_TILE_176x128);
}

/* See [Note: algorithms by rule]. */
static int pick(const hil_device *device, const key *k,
                const cublasLtMatmulHeuristicResult_t *found, int count)
{
    int major = 0;
    bool is_short = k->k <= SHORT_SUM;
    if (k->dtype == HIL_E4M3 || (!is_short && k->dtype == HIL_F32)) return 0;
    float waves = !is_short && k->c_dtype == HIL_F32 ? WAVES_LONG : WAVES;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, hil_cuda_of(device)->index);
    for (int i = 0; i < count && major == 9; ++i)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].wavesCount >= waves &&
            has_small_tiles(&found[i].algo))
            return i;
    return 0;
}

static cublasStatus_t choose(const hil_device *device, plan *p)
{
    cublasLtMatmulPreference_t preference;
    cublasStatus_t bad = cublasLtMatmulPreferenceCreate(&preference);
    if (bad) return bad;
    bad = set_preference(preference, &p->key);
    cublasLtMatmulHeuristicResult_t found[CHOICES];
    int count = 0;
    if (!bad)
        bad = cublasLtMatmulAlgoGetHeuristic(hil_cuda_of(device)->blas, p->operation, p->first,
                                             p->second, p->result, p->result, preference, CHOICES,
                                             found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (!bad && count == 0) bad = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!bad) p->algorithm = found[pick(device, &p->key, found, count)].algo;
    return bad;
}

static cublasStatus_t set_pointer(const plan *p, cublasLtMatmulDescAttributes_t name,
                                  const void *value)
{
    if (!value) return CUBLAS_STATUS_SUCCESS;
    return cublasLtMatmulDescSetAttribute(p->operation, name, &value, sizeof value);
}

static cublasStatus_t set_scales(const plan *p, const hil_cuda_matmul *m)
{
    cublasStatus_t bad = set_pointer(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, m->b_scale);
    return bad ? bad : set_pointer(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, m->a_scale);
}

static hil_status find_plan(hil_device *device, const hil_cuda_matmul *m, plan **out)
{
    plans *all = (plans *)hil_cuda_of(device)->matmul.data;
    if (!all) {
        HIL_TRY(HIL_ALLOC(1, &all));
        hil_cuda_of(device)->matmul = {all, free_plans};
    }
    key k = key_of(m);
    for (size_t i = 0; i < all->count; ++i)
        if (memcmp(&all->plan[i].key, &k, sizeof k) == 0) {
            *out = &all->plan[i];
            return HIL_OK;
        }
    HIL_TRY(HIL_GROW(&all->plan, &all->capacity, all->count + 1));
    plan *p = &all->plan[all->count];
    memset(p, 0, sizeof *p);
    p->key = k;
    cublasStatus_t bad = describe(p);
    if (!bad) bad = set_scales(p, m); /* algorithms are chosen for products with scales */
    if (!bad) bad = choose(device, p);
    if (bad) {
        drop_plan(p);
        return hil_cublas_check(device, bad, "plan a matrix product");
    }
    ++all->count;
    *out = p;
    return HIL_OK;
}

/* k is 0: c is unchanged, or becomes `base` or zero. */
static hil_status run_empty(hil_device *device, const hil_cuda_matmul *m)
{
    if (m->m == 0 || m->n == 0 || m->add) return HIL_OK;
    size_t size = hil_dtype_size(m->c_dtype), stride = (size_t)m->c_stride * size;
    size_t width = (size_t)m->n * size, height = (size_t)m->m;
    cudaStream_t stream = hil_cuda_of(device)->stream;
    cudaError_t bad = m->base ? cudaMemcpy2DAsync(m->c, stride, m->base, stride, width, height,
                                                  cudaMemcpyDeviceToDevice, stream)
                              : cudaMemset2DAsync(m->c, stride, 0, width, height, stream);
    return hil_cuda_check(device, bad, "write a matrix");
}

hil_status hil_cuda_matmul_run(hil_device *device, const hil_cuda_matmul *m)
{
    if (m->m == 0 || m->n == 0 || m->k == 0) return run_empty(device, m);
    plan *p = NULL;
    HIL_TRY(find_plan(device, m, &p));
    cublasStatus_t bad = set_pointer(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, m->bias);
    if (!bad) bad = set_scales(p, m);
    HIL_TRY(hil_cublas_check(device, bad, "prepare a matrix product"));
    float one = 1, beta = p->key.add ? 1 : 0;
    return hil_cublas_check(device,
                            cublasLtMatmul(hil_cuda_of(device)->blas, p->operation, &one, m->b.data,
                                           p->first, m->a.data, p->second, &beta, base_of(m),
                                           p->result, m->c, p->result, &p->algorithm,
                                           hil_cuda_of(device)->workspace, HIL_CUDA_WORKSPACE,
                                           hil_cuda_of(device)->stream),
                            "multiply matrices");
}
