/* cluster_here.c - this machine as a description. */
#include "machine/cluster.h"

#include "base/memory.h"
#include "io/file.h"
#include "machine/devices.h"
#include "tensor/tensor.h"

#include <stdlib.h>

#define GB 1e9
#define GIB ((double)((uint64_t)1 << 30))
#define DIGITS 6
#define UNKNOWN_RAM ((uint64_t)4 << 30) /* if the system does not tell */

static void describe_device(const hil_device *device, const hil_machine *machine, hil_cluster *c)
{
    const hil_speeds *s = &machine->speeds;
    c->bus = s->to_device;
    c->ram_speed = s->update * HIL_UPDATE_BYTES / HIL_CLUSTER_RAM_PART;
    if (device) {
        snprintf(c->gpu_name, sizeof c->gpu_name, "%s", device->name);
        hil_gpu_measured(s, device->memory, &c->gpu);
        c->attention = s->attention[HIL_BF16] * 1e-12;
        c->call = s->op_call * 1e6;
        return;
    }
    snprintf(c->gpu_name, sizeof c->gpu_name, "%.63s", machine->name);
    c->cpu = *s;
}

/* As many drives, all alike: with the mean of their bytes and speeds. */
static hil_status describe_drives(const hil_memory_options *memory, const hil_machine *machine,
                                  hil_cluster *c)
{
    double count = (double)memory->disk_count;
    c->drives = (int64_t)memory->disk_count;
    for (size_t i = 0; i < memory->disk_count; ++i) {
        uint64_t bytes = memory->disks[i].bytes;
        if (!bytes) HIL_TRY(hil_dir_free_bytes(memory->disks[i].path, &bytes));
        c->drive_bytes += (uint64_t)((double)bytes / count);
        c->drive_read += machine->drive[i].read / count;
        c->drive_write += machine->drive[i].write / count;
        c->drive_mixed += machine->drive[i].mixed / count;
        c->drive_call += machine->drive[i].call / count;
    }
    return HIL_OK;
}

hil_status hil_cluster_here(const hil_probe_options *options, const hil_effort *effort,
                            const hil_observer *observer, hil_cluster *out)
{
    hil_device *device = NULL;
    hil_machine machine;
    bool limited;
    hil_status status = HIL_OK;
    *out = (hil_cluster){.name = "this machine", .nodes = 1, .gpus = 1};
    out->ram = hil_memory_most(&limited);
    if (out->ram == UINT64_MAX) out->ram = UNKNOWN_RAM;
    HIL_TRY_DONE(hil_devices_open(&options->device, NULL, observer, &device));
    HIL_TRY_DONE(hil_machine_find(options, device, effort, observer, &machine));
    describe_device(device, &machine, out);
    status = describe_drives(&options->memory, &machine, out);
done:
    hil_devices_close(device);
    out->gpu.name = out->gpu_name;
    return status;
}

static json_t *write_cpu(const hil_cluster *c)
{
    json_t *object = json_pack("{s:s}", "name", c->gpu_name);
    hil_speeds cpu = c->cpu;
    for (int i = 0; i < HIL_CLUSTER_CPU_FIELDS; ++i) {
        const hil_cluster_cpu_field *f = &hil_cluster_cpu_fields[i];
        double number = *hil_cluster_cpu_speed(&cpu, f) / f->unit;
        json_t *value = f->unit == 1 ? json_integer((json_int_t)number) : json_real(number);
        if (number > 0)
            json_object_set_new(object, f->key, value);
        else
            json_decref(value);
    }
    return object;
}

/* NULL for 0. */
static json_t *if_known(double number)
{
    return number > 0 ? json_real(number) : NULL;
}

static json_t *write_processor(const hil_cluster *c)
{
    if (hil_cluster_on_cpu(c)) return write_cpu(c);
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:o*, s:o*, s:o*}", "name", c->gpu_name,
                     "memory_gib", (double)c->gpu.mib / 1024, "tensor_tflops", c->gpu.bf16,
                     "fp32_tflops", c->gpu.fp32, "memory_gb_s", c->gpu.memory, "bus_gb_s",
                     c->gpu.bus, "fp8_tflops", if_known(c->gpu.fp8), "attention_tflops",
                     if_known(c->attention), "call_us", if_known(c->call));
}

hil_status hil_cluster_print(const hil_cluster *c, FILE *out)
{
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:o, s:f, s:f, s:f}", "name", c->name, "nodes", (json_int_t)c->nodes,
        "gpus", (json_int_t)c->gpus, hil_cluster_on_cpu(c) ? "cpu" : "gpu", write_processor(c),
        "bus_gb_s", c->bus / GB, "ram_gib", (double)c->ram / GIB, "ram_gb_s", c->ram_speed / GB);
    if (c->drives)
        json_object_set_new(object, "drives",
                            json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count",
                                      (json_int_t)c->drives, "gb", (double)c->drive_bytes / GB,
                                      "read_gb_s", c->drive_read / GB, "write_gb_s",
                                      c->drive_write / GB, "mixed_gb_s", c->drive_mixed / GB,
                                      "call_us", c->drive_call * 1e6));
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(object);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for the description of this machine");
    fprintf(out, "%s\n", text);
    free(text);
    return HIL_OK;
}
