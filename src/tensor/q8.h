/* q8.h - numbers in 8 bits with a common scale per group.

   [Note: q8] A group of HIL_Q8_GROUP numbers is a fp32 scale, the largest magnitude in it, and one
   byte per number, whose value times the scale is the number. The values are dense near 1 and reach
   down to 1e-6: each decade from 1e-6 to 1 has twice as many as the one below it, evenly spaced,
   its upper end among them. Signed bytes are 0 and plus or minus 1 + 2 + ... + 64 values, unsigned
   ones 0 and 2 + 4 + ... + 128. A number is rounded to its nearest value; but an unsigned number
   above zero never becomes zero, because updates divide by second moments. A group whose scale is
   below 2^-100 becomes zero. Encoding decoded values gives the same bytes. */
#ifndef HIL_TENSOR_Q8_H
#define HIL_TENSOR_Q8_H

#include "tensor/tensor.h"

#define HIL_Q8_GROUP 256
#define HIL_Q8_GROUP_BYTES (4 + HIL_Q8_GROUP)
#define HIL_Q8_LEAST 0x1p-100f

typedef enum hil_q8_kind { HIL_Q8_SIGNED, HIL_Q8_UNSIGNED } hil_q8_kind;

/* The value of each byte. */
const float *hil_q8_values(hil_q8_kind kind);

/* Convert `count` numbers from and to groups; the last group is padded with zeros. */
void hil_q8_decode(float *out, const void *in, hil_q8_kind kind, int64_t count);
void hil_q8_encode(void *out, const float *in, hil_q8_kind kind, int64_t count);

/* The group's numbers, for kernels that are compiled per instruction set. */
static inline void hil_q8_decode_group(float out[HIL_Q8_GROUP], const unsigned char *in,
                                       const float *values)
{
    float scale;
    __builtin_memcpy(&scale, in, 4);
    for (int i = 0; i < HIL_Q8_GROUP; ++i) out[i] = values[in[4 + i]] * scale;
}

/* Value number `rank` (1, 2, ...) of those above zero; the lowest decade has `width` of them. */
static inline HIL_BOTH float hil_q8_value(int rank, int width)
{
    const double end[] = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int d = 0;
    while (rank > width << d) rank -= width << d++;
    int count = width << d;
    return rank == count ? (float)end[d + 1]
                         : (float)(end[d] + (end[d + 1] - end[d]) * rank / count);
}

/* The nearest of the values 0, 1, 2, ... (without their sign) to a number of 0 to 1. `width` is how
   many the lowest decade has. */
static inline HIL_BOTH uint32_t hil_q8_nearest(float x, float width)
{
#define HIL_Q8_DECADE(below, above, count)                                                         \
    low = x > below ? below : low;                                                                 \
    per = x > below ? (float)(count / ((double)above - (double)below)) : per;                      \
    first = x > below ? count - 1 : first;
    float low = 0, per = 1e6f, first = 0;
    HIL_Q8_DECADE(1e-6f, 1e-5f, 2)
    HIL_Q8_DECADE(1e-5f, 1e-4f, 4)
    HIL_Q8_DECADE(1e-4f, 1e-3f, 8)
    HIL_Q8_DECADE(1e-3f, 1e-2f, 16)
    HIL_Q8_DECADE(1e-2f, 1e-1f, 32)
    HIL_Q8_DECADE(1e-1f, 1.0f, 64)
#undef HIL_Q8_DECADE
    /* Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits. */
    float at = (first + (x - low) * per) * width;
    return hil_bits(at + 0x1.8p23f) - 0x4b400000u;
}

/* The byte of a number in a group of this scale, whose inverse is 0 where the scale is. */
static inline HIL_BOTH unsigned char hil_q8_code(float number, float scale, float inverse,
                                                 hil_q8_kind kind)
{
    float x = hil_float(hil_bits(number) & 0x7fffffffu) * inverse;
    if (kind == HIL_Q8_SIGNED) {
        uint32_t code = hil_q8_nearest(x, 1);
        return (unsigned char)(hil_bits(number) >> 31 ? 0u - code : code);
    }
    uint32_t code = hil_q8_nearest(x, 2);
    return (unsigned char)(code == 0 && number > 0 && scale > 0 ? 1 : code);
}

static inline void hil_q8_encode_group(unsigned char *out, const float in[HIL_Q8_GROUP],
                                       hil_q8_kind kind)
{
    uint32_t most = 0; /* magnitudes are in the order of their bits */
    for (int i = 0; i < HIL_Q8_GROUP; ++i) {
        uint32_t size = hil_bits(in[i]) & 0x7fffffffu;
        most = size > most ? size : most;
    }
    float scale = hil_float(most) < HIL_Q8_LEAST ? 0 : hil_float(most);
    float inverse = scale > 0 ? 1 / scale : 0;
    __builtin_memcpy(out, &scale, 4);
    for (int i = 0; i < HIL_Q8_GROUP; ++i) out[4 + i] = hil_q8_code(in[i], scale, inverse, kind);
}

#endif
