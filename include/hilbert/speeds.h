/* speeds.h - speeds of a machine, as `hilbert probe` measures them. Pure data. */
#ifndef HILBERT_SPEEDS_H
#define HILBERT_SPEEDS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Per second: bytes, for products and attention floating-point operations. */
typedef struct hil_speeds {
    double disk_read, disk_write, disk_mixed; /* sum over drives; mixed: read and write at once */
    double to_device, to_host;                /* copies by one link */
    double network;                           /* received by each rank in an all-gather */
    double memory;                            /* streaming reads and writes by all cores */
    double gemm[3];                           /* large matrix products in fp32, bf16, fp16 */
    double attention[3];
    double update;        /* parameters per second through AdamW on the CPU, in memory */
    double update_device; /* the same on the device; 0: the CPU is the device */
    double op_call;       /* fixed overhead of an operation, in seconds */
    double one_way;       /* copies to or from a device while none go the other way; 0: as fast as
                             to_device and to_host, which are those of both at once */
    double network_call;  /* fixed overhead of a gather or reduction over ranks, in seconds */
    double cached;        /* as memory, but what the cores' caches hold; 0: not known */
    double pool_run;      /* to start all threads of the CPU and to wait for them, in seconds */
    double threads, cpus; /* of the CPU that computes, and what they run on; 0: not known */
    double gemm_fp8;      /* products in 8 bits; 0: they are computed in bf16 */
    double disk_call;     /* least time of a transfer from or to a drive, in seconds */
    /* Of the CPU beside products, in fp32, bf16 and fp16; 0: derived from gemm[0]. */
    double vector[3];   /* operations of loops over elements */
    double pack[3];     /* numbers that are packed for a product */
    double update_8bit; /* as update, with moments in 8 bits; 0: derived from update */
    double
        alone; /* how many times as fast one thread is while all others are idle; 0: not faster */
} hil_speeds;

/* Speeds of a drive in bytes per second. */
typedef struct hil_drive_speed {
    double read, write, mixed; /* mixed: reads and writes at once, summed */
    bool direct;               /* measured with direct I/O, bypassing the page cache */
    double call;               /* seconds of a small read or write alone */
} hil_drive_speed;

#ifdef __cplusplus
}
#endif
#endif
