/* probe_print.c - hilbert probe: prints speeds as a table or a JSON object. */
#include "machine/cluster.h"
#include "machine/devices.h"
#include "machine/probe.h"
#include "base/sized.h"

#include <string.h>

static hil_status print_json(const hil_probe_options *options, const hil_machine *machine,
                             FILE *out)
{
    json_t *object = json_object(), *drives = json_array();
    json_object_set_new(object, "machine", json_string(machine->name));
    json_object_set_new(object, "speeds", hil_speeds_write(&machine->speeds));
    for (size_t i = 0; i < options->memory.disk_count; ++i) {
        const hil_drive_speed *speed = &machine->drive[i];
        json_t *drive = json_object();
        json_object_set_new(drive, "path", json_string(options->memory.disks[i].path));
        json_object_set_new(drive, "read", json_real(speed->read));
        json_object_set_new(drive, "write", json_real(speed->write));
        json_object_set_new(drive, "mixed", json_real(speed->mixed));
        json_object_set_new(drive, "direct", json_boolean(speed->direct));
        json_object_set_new(drive, "call", json_real(speed->call));
        json_array_append_new(drives, drive);
    }
    json_object_set_new(object, "drives", drives);
    char *text = json_dumps(object, JSON_REAL_PRECISION(6));
    json_decref(object);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for the measured speeds");
    fprintf(out, "%s\n", text);
    free(text);
    return HIL_OK;
}

static void print_table(const hil_probe_options *options, const hil_machine *machine, FILE *out)
{
    const hil_speeds *s = &machine->speeds;
    static const char *const product[3] = {"matrix products, fp32", "matrix products, bf16",
                                           "matrix products, fp16"};
    fprintf(out, "%s\n\n", machine->name);
    for (int i = 0; i < 3; ++i)
        fprintf(out, "%-28s %9.2f GFLOP/s, attention %9.2f GFLOP/s\n", product[i],
                s->gemm[i] * 1e-9, s->attention[i] * 1e-9);
    if (s->gemm_fp8 > 0)
        fprintf(out, "%-28s %9.2f GFLOP/s\n", "matrix products, fp8", s->gemm_fp8 * 1e-9);
    fprintf(out, "%-28s %9.2f GB/s\n", "memory bandwidth", s->memory * 1e-9);
    fprintf(out, "%-28s %9.2f GB/s\n", "host to device", s->to_device * 1e-9);
    fprintf(out, "%-28s %9.2f GB/s\n", "device to host", s->to_host * 1e-9);
    if (s->one_way > 0) fprintf(out, "%-28s %9.2f GB/s\n", "one way at a time", s->one_way * 1e-9);
    fprintf(out, "%-28s %9.2f G parameters/s\n", "AdamW update on the CPU", s->update * 1e-9);
    if (s->update_device > 0)
        fprintf(out, "%-28s %9.2f G parameters/s\n", "AdamW update on the device",
                s->update_device * 1e-9);
    fprintf(out, "%-28s %9.2f microseconds\n", "overhead of an operation", s->op_call * 1e6);
    for (size_t i = 0; i < options->memory.disk_count; ++i) {
        const hil_drive_speed *d = &machine->drive[i];
        fprintf(out,
                "%s: read %.2f, write %.2f, both at once %.2f GB/s; small transfers %.0f "
                "microseconds%s\n",
                options->memory.disks[i].path, d->read * 1e-9, d->write * 1e-9, d->mixed * 1e-9,
                d->call * 1e6, d->direct ? "" : "; through the page cache");
    }
}

void hil_probe_defaults_sized(hil_probe_options *options, size_t size)
{
    const hil_probe_options defaults = {.device = {.name = "auto"}};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status measure(const hil_probe_options *options, const hil_observer *observer,
                          hil_machine *out)
{
    hil_device *device;
    if (options->memory.disk_count > HIL_DISKS_MAX)
        return hil_fail(HIL_ERR_USAGE, "at most %d drives", HIL_DISKS_MAX);
    HIL_TRY(hil_devices_open(&options->device, NULL, observer, &device));
    hil_effort effort = {.thorough = true, .drives = true};
    hil_status status = hil_machine_find(options, device, &effort, observer, out);
    hil_devices_close(device);
    return status;
}

hil_status hil_probe_measure(const hil_probe_options *options, const hil_observer *observer,
                             hil_machine *out)
{
    hil_probe_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_probe, &own, options));
    return measure(&own, observer, out);
}

static hil_status describe(const hil_probe_options *options, const hil_observer *observer,
                           FILE *out)
{
    hil_effort effort = {.thorough = true, .drives = true};
    hil_cluster cluster;
    HIL_TRY(hil_cluster_here(options, &effort, observer, &cluster));
    return hil_cluster_print(&cluster, out);
}

hil_status hil_probe(const hil_probe_options *options, const hil_observer *observer, FILE *out)
{
    hil_probe_options own;
    hil_machine machine;
    HIL_TRY(HIL_SIZED_TAKE(hil_probe, &own, options));
    if (own.describe) return describe(&own, observer, out);
    HIL_TRY(measure(&own, observer, &machine));
    if (own.json) return print_json(&own, &machine, out);
    print_table(&own, &machine, out);
    return HIL_OK;
}
