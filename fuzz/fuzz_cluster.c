/* fuzz_cluster.c - any text as the description of a cluster: what is accepted has ranks, memory and
   speeds above zero. */
#include "machine/cluster.h"

#include "mutate.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_json)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_cluster cluster;
    if (hil_cluster_parse(&cluster, (const char *)bytes, size, "cluster") != HIL_OK) return 0;
    hil_machine machine = {0};
    hil_cluster_speeds(&cluster, &machine);
    assert(cluster.nodes >= 1 && cluster.gpus >= 1 && cluster.nodes * cluster.gpus <= 1000000);
    assert(cluster.gpu.mib > 0 || cluster.ram > 0);
    assert(machine.speeds.to_device > 0 && machine.speeds.update > 0);
    assert(cluster.nodes * cluster.gpus == 1 || machine.speeds.network > 0);
    assert(!cluster.drives || machine.speeds.disk_read > 0);
    return 0;
}
