/* quant.h - weights in few bits: what the bytes of one tile of a quantized matrix mean.

   [Note: quant] A quantized matrix is cut into tiles of whole rows, as any matrix is. The bytes of
   a tile have everything that its expansion needs: tables, scales and codes, each from a multiple
   of HIL_QUANT_ALIGN bytes on. Every number is expanded in fp32 and rounded once, to nearest even.

   nf4: 4 bits. Blocks of 64 elements, counted over the matrix row by row, have a common scale, the
   largest magnitude of the block: a number is table[code] * scale. The first of two numbers is in
   the high half of its byte. The scales are in 8 bits themselves: nested_table[code] * nested scale
   + offset, a nested scale for 256 blocks, an offset for the matrix. All of it is as bitsandbytes
   has it. A tile also has the tables, so the codes of any of its folders keep their meaning.
   nf4-plain: the same with scales in fp32, as bitsandbytes writes without double quantization.
   int8: code * scale / 127, a scale (the largest magnitude) for each row. The numbers are rounded
   to fp16 before they are quantized, as bitsandbytes does it. fp8: e4m3 times the scale of its
   square of 128 rows and columns. bf16: the number's upper 16 bits. */
#ifndef HIL_TENSOR_QUANT_H
#define HIL_TENSOR_QUANT_H

#include "tensor/tensor.h"

typedef enum hil_quant {
    HIL_QUANT_NONE, /* weights in the compute dtype */
    HIL_QUANT_NF4,
    HIL_QUANT_NF4_PLAIN,
    HIL_QUANT_INT8,
    HIL_QUANT_FP8,
    HIL_QUANT_BF16,
} hil_quant;

/* How files of GPTQ and AWQ keep weights, which are expanded when they are read: format/coded.h. */
typedef struct hil_quant_packing {
    enum { HIL_PACKING_NONE, HIL_PACKING_GPTQ, HIL_PACKING_AWQ } method;
    int bits;      /* 2, 4 or 8; of AWQ 4 */
    int64_t group; /* inputs that share a scale; -1: all */
    bool less_one; /* how zeros are kept */
} hil_quant_packing;

#define HIL_QUANT_ALIGN 16
#define HIL_QUANT_BLOCK 64   /* elements of a block of nf4 */
#define HIL_QUANT_NESTED 256 /* blocks with a common nested scale */
#define HIL_QUANT_SQUARE 128 /* rows and columns of a square of fp8 */
#define HIL_QUANT_NEST_TABLE 256

/* "nf4", "int8", "fp8", "bf16"; nf4-plain is found in folders only. NULL, or bf16 where that is the
   dtype of the computation, is HIL_QUANT_NONE. */
hil_status hil_quant_parse(const char *name, hil_dtype compute, hil_quant *out);
const char *hil_quant_name(hil_quant quant);

/* One tile: `rows` whole rows of the matrix, from `row` on. The offsets are those of the parts in
   its bytes. */
typedef struct hil_quant_tile {
    hil_quant quant;
    int64_t row, rows, cols;
    int64_t blocks;      /* of nf4 in this tile */
    size_t nested_table; /* nf4: fp32 (256), and the fp32 offset behind it */
    size_t nested;       /* nf4: fp32, of the nested blocks that the tile touches */
    size_t scales;       /* nf4: bytes; otherwise fp32 */
    size_t codes;
    size_t bytes;
} hil_quant_tile;
/* The tile's size follows from quant, rows and columns; `row` only moves its nested blocks. */
void hil_quant_place(hil_quant_tile *out, hil_quant quant, int64_t row, int64_t rows, int64_t cols);
/* Tiles of more than one are cut at multiples of these rows. */
int64_t hil_quant_rows(hil_quant quant);

/* The first block of the tile, counted from the last beginning of a nested block. */
static inline HIL_BOTH int64_t hil_quant_phase(const hil_quant_tile *tile)
{
    return tile->row * tile->cols / HIL_QUANT_BLOCK % HIL_QUANT_NESTED;
}

/* The numbers of elements [first, first + count) of the tile, `first` a multiple of
   HIL_QUANT_BLOCK. `out` gets element `first` first. */
void hil_quant_expand(const hil_quant_tile *tile, const void *bytes, int64_t first, int64_t count,
                      const hil_tensor *out);

/* Quantizes whole rows of a tile, from row `row` of the tile on; with fp8 from a multiple of
   HIL_QUANT_SQUARE on, and with nf4 any part that begins with a block, all but the last of whole
   blocks. `codes` are those of these elements; scale[] has one for each block (of nf4), row, or
   square (all squares of a row of them). bf16 has no scales. `codes` NULL: only the scales. */
typedef struct hil_quant_part {
    hil_quant quant;
    int64_t count, cols; /* elements; of a row */
    const float *in;
    unsigned char *codes;
    float *scale;
} hil_quant_part;
void hil_quant_encode(const hil_quant_part *part);
/* Numbers [first, first + count) of the stream (key, high) of base/normal.h, times `scale`, in nf4:
   codes and scales of their blocks. `first` is a multiple of 4. */
typedef struct hil_quant_draw {
    uint64_t key, high;
    float scale;
    int64_t first, count;
    unsigned char *codes; /* aligned to 8 bytes */
    float *scales;
} hil_quant_draw;
/* Bytes of the codes of `count` elements. */
size_t hil_quant_codes(hil_quant quant, int64_t count);

/* The second step of nf4, when the scales of the whole matrix are known. */
float hil_quant_mean(const float *scale, int64_t blocks);
/* Codes of the scales of one nested block (at most HIL_QUANT_NESTED); returns its nested scale.
 */
float hil_quant_nest(const float *scale, int64_t blocks, float offset, unsigned char *codes);
/* The tables of nf4 as bitsandbytes has them. */
extern const float hil_quant_nf4_table[16], hil_quant_nest_table[HIL_QUANT_NEST_TABLE];

/* The code of a number in 8 bits, of which `low` are mantissa, to nearest even. The exponent 0 of
   subnormal numbers is `base` in fp32; numbers from the bits `most` on become the code `top`. */
static inline HIL_BOTH unsigned hil_quant_round_8(float x, unsigned low, unsigned base,
                                                  uint32_t most, unsigned top)
{
    uint32_t bits = hil_bits(x), size = bits & 0x7fffffffu, sign = bits >> 24 & 0x80u;
    const unsigned drop = 23 - low;
    if (size > 0x7f800000u) return sign | 0x7fu;
    if (size >= most) return sign | top;
    if (size < (base + 1) << 23) /* rounded by an addition */
        return sign | (unsigned)(hil_bits(hil_float(size) + hil_float((base + drop + 1) << 23)) &
                                 ((2u << low) - 1));
    size += (1u << (drop - 1)) - 1 + (size >> drop & 1u);
    return sign | (unsigned)((size >> drop) - (base << low));
}

/* e4m3: 4 bits of exponent, 3 of mantissa, no infinities; beyond 448 rounds to 448. */
#define HIL_QUANT_E4M3_MOST 448.0f
static inline HIL_BOTH float hil_quant_e4m3_load(unsigned code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, exponent = code >> 3 & 15u, low = code & 7u;
    if ((code & 0x7fu) == 0x7fu) return hil_float(sign | 0x7fc00000u);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * ((float)low * 0x1p-9f);
    return hil_float(sign | (exponent + 120u) << 23 | low << 20);
}
static inline HIL_BOTH unsigned hil_quant_e4m3_round(float x)
{
    return hil_quant_round_8(x, 3, 120, 0x43e00000u, 0x7eu); /* 448 */
}

/* 1 / 127 in fp32, as bitsandbytes multiplies by it. */
#define HIL_QUANT_INT8_STEP 0.007874015718698502f
static inline HIL_BOTH float hil_quant_int8_load(int code, float scale)
{
    return (float)code * scale * HIL_QUANT_INT8_STEP;
}

/* The code of a number in [-1, 1]: how many borders between the values of the table are below it.
 */
static inline HIL_BOTH unsigned hil_quant_nf4_code(float x)
{
    const float border[15] = {-0.8480964004993439f,   -0.6106329262256622f,  -0.4599952697753906f,
                              -0.33967943489551544f,  -0.23460740596055984f, -0.13791173323988914f,
                              -0.045525018125772476f, 0.03979014977812767f,  0.1202552504837513f,
                              0.2035212516784668f,    0.2920137718319893f,   0.3893125355243683f,
                              0.5016634166240692f,    0.6427869200706482f,   0.8614784181118011f};
    unsigned code = 0;
    for (int i = 0; i < 15; ++i) code += x > border[i];
    return code;
}

/* bitsandbytes multiplies whole blocks by the inverse of the largest magnitude, and divides a last
   block that is not whole. A block of zeros gets the code of 0. */
static inline HIL_BOTH float hil_quant_nf4_bound(float most)
{
    return most < 1e-38f ? 1e-38f : most;
}
static inline HIL_BOTH unsigned hil_quant_nf4_scaled(float x, float bounded, bool whole)
{
    float scaled = whole ? x * (1.0f / bounded) : x / bounded;
    return hil_quant_nf4_code(scaled > 1 ? 1 : scaled < -1 ? -1 : scaled);
}

#endif
