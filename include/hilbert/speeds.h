/* speeds.h - what a machine can do, as `hilbert probe` measures it. Pure data. */
#ifndef HILBERT_SPEEDS_H
#define HILBERT_SPEEDS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes, floating-point operations or parameters per second. */
typedef struct hil_speeds {
    double disk_read, disk_write, disk_mixed; /* all drives together; mixed: both ways, summed */
    double to_device, to_host;                /* copies by one link */
    double network;                           /* bytes that a rank receives when all gather */
    double memory;                            /* streaming reads and writes by all cores */
    double gemm[3];                           /* fp32, bf16, fp16: large products */
    double attention[3];
    double update;        /* parameters per second through AdamW on the CPU, in memory */
    double update_device; /* the same on the device; 0: there is none but the CPU */
    double op_call;       /* seconds that an operation costs besides its work */
} hil_speeds;

/* Of a drive, in bytes per second. */
typedef struct hil_drive_speed {
    double read, write, mixed; /* mixed: both ways at once, summed */
    bool direct;               /* past the page cache */
} hil_drive_speed;

#ifdef __cplusplus
}
#endif
#endif
