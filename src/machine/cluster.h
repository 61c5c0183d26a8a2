/* cluster.h - a described machine, of one node or many, to plan for. */
#ifndef HIL_MACHINE_CLUSTER_H
#define HIL_MACHINE_CLUSTER_H

#include "hilbert/probe.h"

#include "base/text.h"
#include "machine/gpus.h"
#include "machine/probe.h"
#include "tier/fence.h"

/* What each rank has a copy of, instead of its part. */
typedef enum hil_replicated {
    HIL_REPLICATED_NONE,
    HIL_REPLICATED_WEIGHTS,
    HIL_REPLICATED_ALL,
    HIL_REPLICATED_KINDS
} hil_replicated;

#define HIL_CLUSTER_RAM_PART 0.7 /* of the RAM's bandwidth that the update reaches */

/* ZeRO-Infinity's layout instead of hilbert's: see plan/layout.h. */
#define HIL_CLUSTER_ANY (-1) /* instead of a tier: the fastest that fits */
typedef struct hil_cluster_layout {
    bool given;
    int weights, optimizer, activations; /* a hil_tier or HIL_CLUSTER_ANY */
    hil_replicated replicated;
    int64_t model_parallel; /* ranks that divide a layer's arithmetic */
    int64_t tiles;          /* of the largest operator: less working memory */
    bool overlap;           /* transfers with computing */
    double efficiency;      /* part of the GPU's speed that computing a layer reaches; up to 1 */
} hil_cluster_layout;

/* All nodes are alike, and so are the GPUs of a node; each GPU has one rank. Bytes per second are
   those that programs reach, not those of data sheets, except of the GPU's own numbers. */
typedef struct hil_cluster {
    char name[128], gpu_name[64];
    int64_t nodes, gpus;  /* gpus: of a node */
    hil_gpu gpu;          /* its name is `gpu_name`; all 0 where the CPU computes */
    double attention;     /* TFLOP/s that the GPU reaches in bf16; 0: in proportion to products */
    double call;          /* microseconds of overhead of an operation on the GPU; 0: usual */
    hil_speeds cpu;       /* what the processor of a node without GPUs reaches; else all 0 */
    double bus;           /* bytes per second to, and from, all GPUs of a node at once */
    uint64_t ram;         /* bytes of a node */
    double ram_speed;     /* bytes per second of a node */
    int64_t drives;       /* of a node; 0: none */
    uint64_t drive_bytes; /* of each */
    double drive_read, drive_write; /* bytes per second of each */
    double drive_mixed, drive_call; /* both at once; seconds of a small transfer */
    double inside;  /* network: bytes per second that a GPU receives from its node */
    double between; /* bytes per second that a node receives from the others */
    double inside_latency, between_latency; /* seconds of an empty message */
    hil_cluster_layout layout;
} hil_cluster;

/* What one change would bring: parts that hil_cluster_double makes twice as large or fast. */
typedef enum hil_cluster_part {
    HIL_CLUSTER_GPU_MEMORY,
    HIL_CLUSTER_GPU_SPEED,
    HIL_CLUSTER_BUS,
    HIL_CLUSTER_RAM,
    HIL_CLUSTER_DRIVES,
    HIL_CLUSTER_NETWORK,
    HIL_CLUSTER_PARTS
} hil_cluster_part;

/* Whether the CPU of a node computes. */
static inline bool hil_cluster_on_cpu(const hil_cluster *cluster)
{
    return cluster->cpu.gemm[0] > 0;
}

/* Speeds of a CPU as descriptions name them: value = number x unit. */
typedef struct hil_cluster_cpu_field {
    const char *key;
    size_t offset; /* in hil_speeds */
    double unit, least;
} hil_cluster_cpu_field;
enum { HIL_CLUSTER_CPU_FIELDS = 20 };
extern const hil_cluster_cpu_field hil_cluster_cpu_fields[HIL_CLUSTER_CPU_FIELDS];
/* That number of `speeds`. */
double *hil_cluster_cpu_speed(hil_speeds *speeds, const hil_cluster_cpu_field *field);

/* Reads a description; docs/scale.md says what is in it. */
hil_status hil_cluster_read(hil_cluster *cluster, const char *path);
hil_status hil_cluster_parse(hil_cluster *cluster, const char *text, size_t size, const char *what);
/* Describes this machine: the device of the options with its measured speeds, RAM and `disks`, of
   which those are measured that `effort` allows. */
hil_status hil_cluster_here(const hil_probe_options *options, const hil_effort *effort,
                            const hil_observer *observer, hil_cluster *out);
/* Prints the description that hil_cluster_read reads. */
hil_status hil_cluster_print(const hil_cluster *cluster, FILE *out);
/* Sets the speeds of one rank while all ranks work, and the name. */
void hil_cluster_speeds(const hil_cluster *cluster, hil_machine *machine);
/* Copies the cluster with a part doubled. */
void hil_cluster_double(const hil_cluster *cluster, hil_cluster_part part, hil_cluster *out);
const char *hil_cluster_part_name(hil_cluster_part part);
/* As descriptions name it: "gpu", "ram" or "drives". */
const char *hil_cluster_tier_name(hil_tier tier);

#endif
