/* attention_work.h - how much the CPU computes for attention, by blocks of queries and keys. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_WORK_H
#define HIL_OPS_ATTENTION_ATTENTION_WORK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hil_attention_size {
    int64_t batch, queries, heads, groups, dim;
    int64_t past;   /* positions before the queries */
    int64_t window; /* 0: none */
} hil_attention_size;

/* Floating-point operations of all pairs of a query and a key in its mask: two products forward,
   five backward. */
double hil_attention_flops(const hil_attention_size *size, bool backward);
/* Operations that take as long as the CPU's blocks do, at the speed that the probe measures: more
   than hil_attention_flops for short sequences and small heads, less for long and large ones. */
double hil_attention_work(const hil_attention_size *size, bool backward);

/* The same for a GPU, whose probe measures 4096 positions of heads of 128. */
double hil_attention_device_work(const hil_attention_size *size, bool backward);

#endif
