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

/* Pairs of a query and a key in its mask, for one head of one sequence. */
double hil_attention_pairs(const hil_attention_size *size);
/* Floating-point operations of the pairs' products: two forward, five backward. */
double hil_attention_flops(const hil_attention_size *size, bool backward);
/* The same, as many as take the time of the blocks that the CPU computes, at the speed of blocks
   of an ordinary size: short sequences and small heads take longer than their pairs tell. */
double hil_attention_work(const hil_attention_size *size, bool backward);

#endif
