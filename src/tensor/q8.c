/* q8.c - the values of 8-bit codes, and whole runs of groups. */
#include "tensor/q8.h"

#include <pthread.h>
#include <string.h>

static float signed_values[256], unsigned_values[256];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill_values(void)
{
    for (int i = 1; i < 128; ++i) {
        signed_values[i] = hil_q8_value(i, 1);
        signed_values[256 - i] = -signed_values[i];
    }
    for (int i = 1; i < 255; ++i) unsigned_values[i] = hil_q8_value(i, 2);
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
