/* q8.c - the values of 8-bit codes, and whole runs of groups. */
#include "tensor/q8.h"

#include <pthread.h>
#include <string.h>

#define DECADES 7

static float signed_values[256], unsigned_values[256];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill_values(void)
{
    static const double end[DECADES + 1] = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int plus = 0, plain = 0;
    for (int d = 0; d < DECADES; ++d) {
        double width = end[d + 1] - end[d];
        for (int k = 1; k <= 1 << d; ++k) {
            float value = k == 1 << d ? (float)end[d + 1] : (float)(end[d] + width * k / (1 << d));
            signed_values[++plus] = value;
            signed_values[256 - plus] = -value;
        }
        for (int k = 1; k <= 2 << d; ++k)
            unsigned_values[++plain] =
                k == 2 << d ? (float)end[d + 1] : (float)(end[d] + width * k / (2 << d));
    }
}

const float *hil_q8_values(hil_q8_kind kind)
{
    pthread_once(&filled, fill_values);
    return kind == HIL_Q8_SIGNED ? signed_values : unsigned_values;
}

void hil_q8_decode(float *out, const void *in, hil_q8_kind kind, int64_t count)
{
    const float *values = hil_q8_values(kind);
    const unsigned char *from = in;
    float group[HIL_Q8_GROUP];
    for (int64_t at = 0; at < count; at += HIL_Q8_GROUP, from += HIL_Q8_GROUP_BYTES) {
        int64_t part = count - at < HIL_Q8_GROUP ? count - at : HIL_Q8_GROUP;
        hil_q8_decode_group(group, from, values);
        memcpy(out + at, group, (size_t)part * sizeof *group);
    }
}

void hil_q8_encode(void *out, const float *in, hil_q8_kind kind, int64_t count)
{
    unsigned char *to = out;
    float group[HIL_Q8_GROUP];
    for (int64_t at = 0; at < count; at += HIL_Q8_GROUP, to += HIL_Q8_GROUP_BYTES) {
        int64_t part = count - at < HIL_Q8_GROUP ? count - at : HIL_Q8_GROUP;
        memset(group, 0, sizeof group);
        memcpy(group, in + at, (size_t)part * sizeof *group);
        hil_q8_encode_group(to, group, kind);
    }
}
