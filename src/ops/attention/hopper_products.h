/* hopper_products.h - instructions of GPUs of compute capability 9.0: asynchronous copies into
   shared memory that signal a barrier (TMA), and asynchronous products of 64 rows that 128 threads
   issue together (WGMMA).

   Operands are in shared memory as TMA writes them: tiles of TILE_COLS columns, 128 bytes wide,
   whose 16-byte parts are permuted within 8 rows. */
#ifndef HIL_OPS_ATTENTION_HOPPER_PRODUCTS_H
#define HIL_OPS_ATTENTION_HOPPER_PRODUCTS_H

#include "device/cuda_device.h"

#include <cuda.h>
#include <stdint.h>

#define TILE_COLS 64
#define TILE_PITCH 128
#define GROUP_BYTES 1024 /* of 8 rows of a tile */

/* The driver's function that describes a tensor for TMA. */
typedef CUresult (*encode_map)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                               const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

hil_status hil_op_cuda_find_encode(const hil_device *device, encode_map *out);

static __device__ inline uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ inline void barrier_wait(uint32_t barrier, uint32_t phase)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over%=;\n"
                 "bra again%=;\n"
                 "over%=:\n"
                 "}\n" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

/* The first of the rows of a head. */
typedef struct corner {
    int head, token, b;
} corner;

/* Rows of a head, TILES tiles side by side. */
template <int TILES>
static __device__ inline void load_tiles(uint32_t to, uint32_t tile_bytes, const CUtensorMap *map,
                                         uint32_t barrier, const corner &c)
{
    for (int i = 0; i < TILES; ++i)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to + i * tile_bytes),
                     "l"(map), "r"(barrier), "r"(i * TILE_COLS), "r"(c.head), "r"(c.token), "r"(c.b)
                     : "memory");
}

static __device__ inline void load_bytes(uint32_t to, const void *from, uint32_t bytes,
                                         uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

static __device__ inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> static __device__ inline void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* The descriptor of an operand in shared memory; `apart` is the distance of tiles of 64 columns,
   used if the product's m or n runs along rows. */
static __device__ inline uint64_t operand(uint32_t address, uint32_t apart)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(apart >> 4) << 16 |
           (uint64_t)(GROUP_BYTES >> 4) << 32 | (uint64_t)1 << 62;
}

#define LIST32                                                                                     \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define LIST64                                                                                     \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "  \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "   \
    "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "   \
    "%56, %57, %58, %59, %60, %61, %62, %63}"
#define LIST128                                                                                    \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
    "%127}"
#define SUMS8(how, d, i)                                                                           \
    how(d[i]), how(d[i + 1]), how(d[i + 2]), how(d[i + 3]), how(d[i + 4]), how(d[i + 5]),          \
        how(d[i + 6]), how(d[i + 7])
#define SUMS32(how, d) SUMS8(how, d, 0), SUMS8(how, d, 8), SUMS8(how, d, 16), SUMS8(how, d, 24)
#define SUMS64(how, d)                                                                             \
    SUMS32(how, d), SUMS8(how, d, 32), SUMS8(how, d, 40), SUMS8(how, d, 48), SUMS8(how, d, 56)
#define SUMS128(how, d)                                                                            \
    SUMS64(how, d), SUMS8(how, d, 64), SUMS8(how, d, 72), SUMS8(how, d, 80), SUMS8(how, d, 88),    \
        SUMS8(how, d, 96), SUMS8(how, d, 104), SUMS8(how, d, 112), SUMS8(how, d, 120)

/* d (64 x 2 * COUNT of a team) = a (64 x 16) * b (16 x 2 * COUNT), both in shared memory.
   TRANSPOSED: rows there run along m or n, not along k. */
template <bool TRANSPOSED>
static __device__ inline void multiply(float (&d)[64], uint64_t a, uint64_t b)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64
                 ", %64, %65, p, 1, 1, %66, %66;\n}\n"
                 : SUMS64("=f", d)
                 : "l"(a), "l"(b), "n"(TRANSPOSED ? 1 : 0));
}

template <bool TRANSPOSED>
static __device__ inline void multiply(float (&d)[32], uint64_t a, uint64_t b)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LIST32
                 ", %32, %33, p, 1, 1, %34, %34;\n}\n"
                 : SUMS32("=f", d)
                 : "l"(a), "l"(b), "n"(TRANSPOSED ? 1 : 0));
}

/* d += a * b */
template <bool TRANSPOSED>
static __device__ inline void multiply_add(float (&d)[64], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64
                 ", %64, %65, 1, 1, 1, %66, %66;\n"
                 : SUMS64("+f", d)
                 : "l"(a), "l"(b), "n"(TRANSPOSED ? 1 : 0));
}

template <bool TRANSPOSED>
static __device__ inline void multiply_add(float (&d)[32], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LIST32
                 ", %32, %33, 1, 1, 1, %34, %34;\n"
                 : SUMS32("+f", d)
                 : "l"(a), "l"(b), "n"(TRANSPOSED ? 1 : 0));
}

/* The same, 256 columns wide; A, B: which operands are transposed. */
template <bool A, bool B>
static __device__ inline void multiply_wide(float (&d)[128], uint64_t a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " LIST128
                 ", %128, %129, 1, 1, 1, %130, %131;\n"
                 : SUMS128("+f", d)
                 : "l"(a), "l"(b), "n"(A ? 1 : 0), "n"(B ? 1 : 0));
}

/* d += a * b with a from registers and b transposed. */
static __device__ inline void multiply_registers(float (&d)[64], const uint32_t *a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64
                 ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
                 : SUMS64("+f", d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

static __device__ inline void multiply_registers(float (&d)[32], const uint32_t *a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LIST32
                 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                 : SUMS32("+f", d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

static __device__ inline uint32_t pack(float low, float high)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&two;
}

static __device__ inline float2 load_two(uint32_t address)
{
    float2 two;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(two.x), "=f"(two.y) : "r"(address));
    return two;
}

static __device__ inline float load_one(uint32_t address)
{
    float one;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(one) : "r"(address));
    return one;
}

static __device__ inline void store_word(uint32_t address, uint32_t word)
{
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

#endif
