/* cluster.h - a described machine, of one node or many, to plan for. */
#ifndef HIL_MACHINE_CLUSTER_H
#define HIL_MACHINE_CLUSTER_H

#include "hilbert/probe.h"

#include "base/text.h"
#include "machine/gpus.h"

/* All nodes are alike, and so are the GPUs of a node; each GPU has one rank. Bytes per second are
   those that programs reach, not those of data sheets, except of the GPU's own numbers. */
typedef struct hil_cluster {
    char name[128], gpu_name[64];
    int64_t nodes, gpus;            /* gpus: of a node */
    hil_gpu gpu;                    /* its name is `gpu_name` */
    double bus;                     /* bytes per second to, and from, all GPUs of a node at once */
    uint64_t ram;                   /* bytes of a node */
    double ram_speed;               /* bytes per second of a node */
    int64_t drives;                 /* of a node; 0: none */
    uint64_t drive_bytes;           /* of each */
    double drive_read, drive_write; /* bytes per second of each */
    double inside;  /* network: bytes per second that a GPU receives from its node */
    double between; /* bytes per second that a node receives from the others */
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

/* Reads a description; docs/scale.md says what is in it. */
hil_status hil_cluster_read(hil_cluster *cluster, const char *path);
hil_status hil_cluster_parse(hil_cluster *cluster, const char *text, size_t size, const char *what);
/* Sets the speeds of one rank while all ranks work, and the name. */
void hil_cluster_speeds(const hil_cluster *cluster, hil_machine *machine);
/* Copies the cluster with a part doubled. */
void hil_cluster_double(const hil_cluster *cluster, hil_cluster_part part, hil_cluster *out);
const char *hil_cluster_part_name(hil_cluster_part part);

#endif
