/* cluster.c - reads the description of a cluster, and what a rank gets of it. */
#include "machine/cluster.h"

#include "autograd/cost.h"
#include "base/json.h"
#include "io/file.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#define GB 1e9
#define TERA 1e12
#define MICRO 1e-6
#define MOST 1e8 /* of any number in a description */
#define DRIVES_MOST 1000
#define DRIVES_GB 1e9 /* of all drives of a node */
#define GIB ((uint64_t)1 << 30)
#define RAM_SPEED 100.0 /* GB/s, where the description has none */

typedef struct number_field {
    const char *key;
    double *value;
    double least; /* smaller numbers are refused; a missing key is, too, where it is above 0 */
} number_field;

static hil_status read_numbers(const json_t *object, const char *what, const char *part,
                               const number_field *field, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        const number_field *f = &field[i];
        HIL_TRY(hil_json_real(object, f->key, what, f->value));
        if (!(*f->value >= f->least) || *f->value > MOST)
            return hil_fail(HIL_ERR_INPUT, "%s: %s%s%s must be a number from %g to %g", what, part,
                            *part ? "." : "", f->key, f->least, MOST);
    }
    return HIL_OK;
}

/* Refuses keys that mean nothing here, so that a misspelt one is not taken for missing. */
static hil_status check_keys(json_t *object, const char *what, const char *const *known,
                             size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(key, known[i]) != 0) ++i;
        if (i < count) continue;
        const char *near = hil_text_nearest(key, known, count);
        return hil_fail(HIL_ERR_INPUT, "%s: unknown key \"%s\"%s%s%s", what, key,
                        near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    return HIL_OK;
}

/* *out: the object of this key, or NULL. */
static hil_status find_part(const json_t *root, const char *key, const char *what, json_t **out)
{
    *out = json_object_get(root, key);
    if (*out && !json_is_object(*out))
        return hil_fail(HIL_ERR_INPUT, "%s: %s must be an object", what, key);
    return HIL_OK;
}

static const char *const tiers[HIL_TIERS] = {"gpu", "ram", "drives"};
static const char *const copied[HIL_REPLICATED_KINDS] = {"nothing", "weights", "all"};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

/* A name of the table of GPUs, or an object with the numbers of another. */
static hil_status read_gpu(hil_cluster *c, json_t *value, const char *what)
{
    static const char *const known[] = {"name",        "memory_gib",       "tensor_tflops",
                                        "fp32_tflops", "memory_gb_s",      "bus_gb_s",
                                        "fp8_tflops",  "attention_tflops", "call_us"};
    double gib = 0;
    const char *name = NULL;
    if (json_is_string(value)) {
        const hil_gpu *gpu;
        HIL_TRY(hil_gpu_find(json_string_value(value), &gpu));
        c->gpu = *gpu;
        name = gpu->name;
    } else if (json_is_object(value)) {
        const number_field field[] = {{"memory_gib", &gib, 1},
                                      {"tensor_tflops", &c->gpu.bf16, 1e-3},
                                      {"fp32_tflops", &c->gpu.fp32, 1e-3},
                                      {"memory_gb_s", &c->gpu.memory, 1e-3},
                                      {"bus_gb_s", &c->gpu.bus, 1e-3},
                                      {"fp8_tflops", &c->gpu.fp8, 0},
                                      {"attention_tflops", &c->attention, 0},
                                      {"call_us", &c->call, 0}};
        HIL_TRY(check_keys(value, what, known, LENGTH(known)));
        HIL_TRY(read_numbers(value, what, "gpu", field, LENGTH(field)));
        HIL_TRY(hil_json_string(value, "name", what, &name));
        c->gpu.mib = (uint64_t)(gib * 1024);
    } else {
        return hil_fail(HIL_ERR_INPUT, "%s: gpu must be the name of one, or an object", what);
    }
    snprintf(c->gpu_name, sizeof c->gpu_name, "%s", name ? name : "GPU");
    c->gpu.name = c->gpu_name;
    return HIL_OK;
}

#define CPU_SPEED(key, name, unit, least)                                                          \
    {                                                                                              \
        (key), offsetof(hil_speeds, name), unit, least                                             \
    }

const hil_cluster_cpu_field hil_cluster_cpu_fields[HIL_CLUSTER_CPU_FIELDS] = {
    CPU_SPEED("fp32_tflops", gemm[HIL_F32], 1e12, 1e-6),
    CPU_SPEED("bf16_tflops", gemm[HIL_BF16], 1e12, 1e-6),
    CPU_SPEED("fp16_tflops", gemm[HIL_F16], 1e12, 0),
    CPU_SPEED("attention_tflops", attention[HIL_F32], 1e12, 1e-6),
    CPU_SPEED("attention_bf16_tflops", attention[HIL_BF16], 1e12, 0),
    CPU_SPEED("attention_fp16_tflops", attention[HIL_F16], 1e12, 0),
    CPU_SPEED("memory_gb_s", memory, GB, 1e-3),
    CPU_SPEED("call_us", op_call, 1e-6, 0),
    CPU_SPEED("cores", cpus, 1, 0),
    CPU_SPEED("threads", threads, 1, 0),
    CPU_SPEED("start_us", pool_run, 1e-6, 0),
    CPU_SPEED("cached_gb_s", cached, GB, 0),
    CPU_SPEED("loops_fp32_gflops", vector[HIL_F32], 1e9, 0),
    CPU_SPEED("loops_bf16_gflops", vector[HIL_BF16], 1e9, 0),
    CPU_SPEED("loops_fp16_gflops", vector[HIL_F16], 1e9, 0),
    CPU_SPEED("packed_fp32_g_s", pack[HIL_F32], 1e9, 0),
    CPU_SPEED("packed_bf16_g_s", pack[HIL_BF16], 1e9, 0),
    CPU_SPEED("packed_fp16_g_s", pack[HIL_F16], 1e9, 0),
    CPU_SPEED("update_8bit_g_s", update_8bit, 1e9, 0),
    CPU_SPEED("alone", alone, 1, 0),
};

double *hil_cluster_cpu_speed(hil_speeds *speeds, const hil_cluster_cpu_field *field)
{
    return (double *)(void *)((char *)speeds + field->offset);
}

/* What is missing follows from what is there. */
static hil_status complete_cpu(hil_speeds *cpu, const char *what)
{
    if (!(cpu->gemm[HIL_F16] > 0)) cpu->gemm[HIL_F16] = cpu->gemm[HIL_BF16];
    for (int d = HIL_BF16; d <= HIL_F16; ++d)
        if (!(cpu->attention[d] > 0)) cpu->attention[d] = cpu->attention[HIL_F32];
    if (!(cpu->threads > 0)) cpu->threads = cpu->cpus;
    if (!(cpu->cpus > 0)) cpu->cpus = cpu->threads;
    if (cpu->cpus != floor(cpu->cpus) || cpu->threads != floor(cpu->threads))
        return hil_fail(HIL_ERR_INPUT, "%s: cpu.cores and cpu.threads must be whole", what);
    if (HIL_COST_RUNS * cpu->pool_run > cpu->op_call)
        return hil_fail(HIL_ERR_INPUT, "%s: cpu.call_us includes %d x cpu.start_us, so it is more",
                        what, HIL_COST_RUNS);
    if (cpu->cpus > 0 || !(cpu->cached > 0)) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: cpu.cached_gb_s needs cpu.cores", what);
}

/* Instead of a GPU. */
static hil_status read_cpu(hil_cluster *c, json_t *value, const char *what)
{
    const char *known[HIL_CLUSTER_CPU_FIELDS + 1] = {"name"}, *name = "CPU";
    number_field field[HIL_CLUSTER_CPU_FIELDS];
    for (int i = 0; i < HIL_CLUSTER_CPU_FIELDS; ++i) {
        const hil_cluster_cpu_field *f = &hil_cluster_cpu_fields[i];
        known[i + 1] = f->key;
        field[i] = (number_field){f->key, hil_cluster_cpu_speed(&c->cpu, f), f->least};
    }
    HIL_TRY(check_keys(value, what, known, LENGTH(known)));
    HIL_TRY(read_numbers(value, what, "cpu", field, LENGTH(field)));
    HIL_TRY(hil_json_string(value, "name", what, &name));
    snprintf(c->gpu_name, sizeof c->gpu_name, "%s", name);
    for (int i = 0; i < HIL_CLUSTER_CPU_FIELDS; ++i)
        *field[i].value *= hil_cluster_cpu_fields[i].unit;
    return complete_cpu(&c->cpu, what);
}

static hil_status read_processor(hil_cluster *c, const json_t *root, const char *what)
{
    json_t *cpu, *gpu = json_object_get(root, "gpu");
    HIL_TRY(find_part(root, "cpu", what, &cpu));
    if (!cpu) return read_gpu(c, gpu, what);
    if (gpu || json_object_get(root, "layout"))
        return hil_fail(HIL_ERR_INPUT, "%s: with cpu there is no gpu, and no layout", what);
    if (c->gpus != 1)
        return hil_fail(HIL_ERR_INPUT, "%s: gpus must be 1 where a cpu computes", what);
    return read_cpu(c, cpu, what);
}

static hil_status read_drives(hil_cluster *c, json_t *drives, const char *what)
{
    static const char *const known[] = {"count",      "gb",         "read_gb_s",
                                        "write_gb_s", "mixed_gb_s", "call_us"};
    double count = 0, gb = 0;
    const number_field field[] = {{"count", &count, 1},
                                  {"gb", &gb, 1e-3},
                                  {"read_gb_s", &c->drive_read, 1e-6},
                                  {"write_gb_s", &c->drive_write, 1e-6},
                                  {"mixed_gb_s", &c->drive_mixed, 0},
                                  {"call_us", &c->drive_call, 0}};
    if (!drives) return HIL_OK;
    HIL_TRY(check_keys(drives, what, known, LENGTH(known)));
    HIL_TRY(read_numbers(drives, what, "drives", field, LENGTH(field)));
    if (count > DRIVES_MOST || count != floor(count))
        return hil_fail(HIL_ERR_INPUT, "%s: drives.count must be whole, at most %d", what,
                        DRIVES_MOST);
    if (count * gb > DRIVES_GB)
        return hil_fail(HIL_ERR_INPUT, "%s: drives of %g GB in all are more than %g", what,
                        count * gb, DRIVES_GB);
    c->drives = (int64_t)count;
    c->drive_bytes = (uint64_t)(gb * GB);
    c->drive_read *= GB;
    c->drive_write *= GB;
    c->drive_mixed *= GB;
    if (!(c->drive_mixed > 0)) c->drive_mixed = (c->drive_read + c->drive_write) / 2;
    c->drive_call *= 1e-6;
    return HIL_OK;
}

static hil_status read_network(hil_cluster *c, json_t *network, const char *what)
{
    static const char *const known[] = {"inside_gb_s", "between_gb_s", "inside_us", "between_us"};
    const number_field field[] = {{"inside_gb_s", &c->inside, c->gpus > 1 ? 1e-6 : 0},
                                  {"between_gb_s", &c->between, c->nodes > 1 ? 1e-6 : 0},
                                  {"inside_us", &c->inside_latency, 0},
                                  {"between_us", &c->between_latency, 0}};
    if (network) HIL_TRY(check_keys(network, what, known, LENGTH(known)));
    HIL_TRY(read_numbers(network, what, "network", field, LENGTH(field)));
    c->inside *= GB;
    c->between *= GB;
    c->inside_latency *= 1e-6;
    c->between_latency *= 1e-6;
    return HIL_OK;
}

/* One of `count` words; a missing key leaves *out. */
static hil_status read_word(const json_t *object, const char *key, const char *what,
                            const char *const *word, int count, int *out)
{
    const char *value = NULL;
    HIL_TRY(hil_json_string(object, key, what, &value));
    if (!value) return HIL_OK;
    for (int i = 0; i < count; ++i)
        if (strcmp(value, word[i]) == 0) {
            *out = i;
            return HIL_OK;
        }
    return hil_fail(HIL_ERR_INPUT, "%s: layout.%s is \"%s\", but may be \"%s\" to \"%s\"", what,
                    key, value, word[0], word[count - 1]);
}

static hil_status read_layout(hil_cluster *c, json_t *layout, const char *what)
{
    static const char *const known[] = {"weights",        "optimizer", "activations", "replicated",
                                        "model_parallel", "tiles",     "overlap",     "efficiency"};
    hil_cluster_layout *l = &c->layout;
    double parallel = 1, tiles = 1;
    int replicated = HIL_REPLICATED_NONE;
    const number_field field[] = {{"model_parallel", &parallel, 1},
                                  {"tiles", &tiles, 1},
                                  {"efficiency", &l->efficiency, 0.01}};
    *l = (hil_cluster_layout){.weights = HIL_CLUSTER_ANY,
                              .optimizer = HIL_CLUSTER_ANY,
                              .activations = HIL_CLUSTER_ANY,
                              .overlap = true,
                              .efficiency = 1};
    if (!layout) return HIL_OK;
    HIL_TRY(check_keys(layout, what, known, LENGTH(known)));
    HIL_TRY(read_numbers(layout, what, "layout", field, LENGTH(field)));
    HIL_TRY(read_word(layout, "weights", what, tiers, HIL_TIERS, &l->weights));
    HIL_TRY(read_word(layout, "optimizer", what, tiers, HIL_TIERS, &l->optimizer));
    HIL_TRY(read_word(layout, "activations", what, tiers, HIL_DISK, &l->activations));
    HIL_TRY(read_word(layout, "replicated", what, copied, HIL_REPLICATED_KINDS, &replicated));
    HIL_TRY(hil_json_bool(layout, "overlap", what, &l->overlap));
    if (parallel != floor(parallel) || fmod((double)c->gpus, parallel) != 0)
        return hil_fail(HIL_ERR_INPUT, "%s: layout.model_parallel must divide the GPUs of a node",
                        what);
    if (l->efficiency > 1)
        return hil_fail(HIL_ERR_INPUT, "%s: layout.efficiency is a part: at most 1", what);
    l->given = true;
    l->replicated = (hil_replicated)replicated;
    l->model_parallel = (int64_t)parallel;
    l->tiles = (int64_t)tiles;
    return HIL_OK;
}

static hil_status fill(hil_cluster *c, json_t *root, const char *what)
{
    static const char *const known[] = {"name",   "about",    "nodes",   "gpus",
                                        "gpu",    "bus_gb_s", "ram_gib", "ram_gb_s",
                                        "drives", "network",  "layout",  "cpu"};
    double nodes = 1, gpus = 1, ram = 0, ram_speed = RAM_SPEED, bus = 0;
    const number_field field[] = {{"nodes", &nodes, 1},
                                  {"gpus", &gpus, 1},
                                  {"ram_gib", &ram, 1e-3},
                                  {"ram_gb_s", &ram_speed, 1e-3},
                                  {"bus_gb_s", &bus, 0}};
    const char *name = what;
    json_t *part;
    if (!json_is_object(root)) return hil_fail(HIL_ERR_INPUT, "%s is not a JSON object", what);
    HIL_TRY(check_keys(root, what, known, LENGTH(known)));
    HIL_TRY(read_numbers(root, what, "", field, LENGTH(field)));
    HIL_TRY(hil_json_string(root, "name", what, &name));
    if (nodes != floor(nodes) || gpus != floor(gpus) || nodes * gpus > 1e6)
        return hil_fail(HIL_ERR_INPUT, "%s: nodes x gpus must be whole, at most 1,000,000", what);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->nodes = (int64_t)nodes;
    c->gpus = (int64_t)gpus;
    HIL_TRY(read_processor(c, root, what));
    c->ram = (uint64_t)(ram * (double)GIB);
    c->ram_speed = ram_speed * GB;
    c->bus = bus > 0 ? bus * GB : (c->gpu.mib ? c->gpu.bus * GB : c->cpu.memory / 2) * gpus;
    HIL_TRY(find_part(root, "drives", what, &part));
    HIL_TRY(read_drives(c, part, what));
    HIL_TRY(find_part(root, "network", what, &part));
    HIL_TRY(read_network(c, part, what));
    HIL_TRY(find_part(root, "layout", what, &part));
    return read_layout(c, part, what);
}

hil_status hil_cluster_parse(hil_cluster *c, const char *text, size_t size, const char *what)
{
    json_t *root;
    *c = (hil_cluster){0};
    HIL_TRY(hil_json_parse(text, size, what, &root));
    hil_status status = fill(c, root, what);
    json_decref(root);
    return status;
}

hil_status hil_cluster_read(hil_cluster *c, const char *path)
{
    hil_bytes content;
    HIL_TRY(hil_bytes_read(&content, path));
    hil_status status = hil_cluster_parse(c, content.data, content.size, path);
    hil_bytes_free(&content);
    return status;
}

/* [Note: cluster speeds] All ranks do the same at the same time, so each has its part of what the
   GPUs of a node share: bus, RAM and drives. A rank that gathers receives from the GPUs of its own
   node and from other nodes; what comes from other nodes comes once to a node, and its GPUs pass it
   on. So the slower of the two links sets the pace. Before the first byte, messages pass along a
   binary tree over the nodes, and one over the GPUs of each. */
static double call_seconds(const hil_cluster *c)
{
    return ceil(log2((double)c->gpus)) * c->inside_latency +
           ceil(log2((double)c->nodes)) * c->between_latency;
}

static void set_cpu_speeds(const hil_speeds *cpu, hil_speeds *s)
{
    hil_speeds own = *cpu;
    for (int i = 0; i < HIL_CLUSTER_CPU_FIELDS; ++i) {
        const hil_cluster_cpu_field *f = &hil_cluster_cpu_fields[i];
        *hil_cluster_cpu_speed(s, f) = *hil_cluster_cpu_speed(&own, f);
    }
    s->to_device = s->to_host = INFINITY;
    s->update_device = 0;
}

static void set_gpu_speeds(const hil_cluster *c, hil_speeds *s)
{
    hil_gpu_speeds(&c->gpu, s);
    if (c->attention > 0) s->attention[HIL_BF16] = s->attention[HIL_F16] = c->attention * TERA;
    if (c->call > 0) s->op_call = c->call * MICRO;
}

void hil_cluster_speeds(const hil_cluster *c, hil_machine *machine)
{
    hil_speeds *s = &machine->speeds;
    double gpus = (double)c->gpus, drives = (double)c->drives / gpus;
    if (hil_cluster_on_cpu(c))
        set_cpu_speeds(&c->cpu, s);
    else
        set_gpu_speeds(c, s);
    s->to_device = s->to_host = fmin(s->to_device, c->bus / gpus);
    s->update = HIL_CLUSTER_RAM_PART * c->ram_speed / HIL_UPDATE_BYTES / gpus;
    s->disk_read = drives * c->drive_read;
    s->disk_write = drives * c->drive_write;
    s->disk_mixed = drives * c->drive_mixed;
    s->disk_call = c->drive_call;
    machine->drive[0] = (hil_drive_speed){
        .read = s->disk_read, .write = s->disk_write, .mixed = s->disk_mixed, .call = s->disk_call};
    if (c->nodes > 1)
        s->network = c->gpus > 1 ? fmin(c->inside, c->between) : c->between;
    else if (c->gpus > 1)
        s->network = c->inside;
    s->network_call = call_seconds(c);
    snprintf(machine->name, sizeof machine->name, "%s", c->name);
}

static void double_cpu(hil_speeds *cpu)
{
    for (int d = HIL_F32; d <= HIL_F16; ++d) {
        cpu->gemm[d] *= 2;
        cpu->attention[d] *= 2;
        cpu->vector[d] *= 2;
        cpu->pack[d] *= 2;
    }
    cpu->memory *= 2;
    cpu->cached *= 2;
    cpu->update_8bit *= 2; /* most of it is arithmetic */
}

void hil_cluster_double(const hil_cluster *c, hil_cluster_part part, hil_cluster *out)
{
    *out = *c;
    switch (part) {
    case HIL_CLUSTER_GPU_MEMORY:
        out->gpu.mib *= 2;
        break;
    case HIL_CLUSTER_GPU_SPEED:
        out->gpu.bf16 *= 2;
        out->gpu.fp8 *= 2;
        out->gpu.fp32 *= 2;
        out->gpu.memory *= 2;
        out->attention *= 2;
        double_cpu(&out->cpu);
        break;
    case HIL_CLUSTER_BUS:
        out->bus *= 2;
        out->gpu.bus *= 2;
        break;
    case HIL_CLUSTER_RAM:
        out->ram *= 2;
        out->ram_speed *= 2;
        break;
    case HIL_CLUSTER_DRIVES:
        out->drives *= 2;
        break;
    default:
        out->inside *= 2;
        out->between *= 2;
    }
}

const char *hil_cluster_part_name(hil_cluster_part part)
{
    static const char *const name[HIL_CLUSTER_PARTS] = {
        "GPU memory", "computing speed", "bus between RAM and GPUs", "RAM", "drives", "network"};
    return name[part];
}

const char *hil_cluster_tier_name(hil_tier tier)
{
    return tiers[tier];
}
