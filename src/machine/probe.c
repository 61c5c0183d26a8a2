/* probe.c - finds speeds in the cache file, or measures and caches them. */
#include "machine/probe.h"

#include "base/cpu.h"
#include "io/file.h"
#include "machine/devices.h"
#include "tensor/tensor.h"
#include "base/note.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#define SECONDS_SHORT 0.08
#define SECONDS_FULL 0.3
#define DRIVE_SECONDS_SHORT 0.25
#define DRIVE_SECONDS_FULL 1.0
#define MUCH_LESS 4 /* measured again if this many times more memory is allowed now */

#define SPEED(name) #name, offsetof(hil_speeds, name)

enum { SPEEDS = 31 };
static const struct {
    const char *name;
    size_t offset;
    bool optional; /* may be 0: this machine has none */
} fields[SPEEDS] = {
    {SPEED(disk_read), false},
    {SPEED(disk_write), false},
    {SPEED(disk_mixed), false},
    {SPEED(to_device), false},
    {SPEED(to_host), false},
    {SPEED(network), false},
    {SPEED(memory), false},
    {"gemm_fp32", offsetof(hil_speeds, gemm[0]), false},
    {"gemm_bf16", offsetof(hil_speeds, gemm[1]), false},
    {"gemm_fp16", offsetof(hil_speeds, gemm[2]), false},
    {"attention_fp32", offsetof(hil_speeds, attention[0]), false},
    {"attention_bf16", offsetof(hil_speeds, attention[1]), false},
    {"attention_fp16", offsetof(hil_speeds, attention[2]), false},
    {SPEED(update), false},
    {SPEED(update_device), true},
    {SPEED(op_call), false},
    {SPEED(one_way), true},
    {SPEED(cached), true},
    {SPEED(pool_run), true},
    {SPEED(threads), true},
    {SPEED(cpus), true},
    {SPEED(gemm_fp8), true},
    {SPEED(disk_call), true},
    {"vector_fp32", offsetof(hil_speeds, vector[0]), true},
    {"vector_bf16", offsetof(hil_speeds, vector[1]), true},
    {"vector_fp16", offsetof(hil_speeds, vector[2]), true},
    {"pack_fp32", offsetof(hil_speeds, pack[0]), true},
    {"pack_bf16", offsetof(hil_speeds, pack[1]), true},
    {"pack_fp16", offsetof(hil_speeds, pack[2]), true},
    {SPEED(update_8bit), true},
    {SPEED(alone), true},
};

json_t *hil_speeds_write(const hil_speeds *speeds)
{
    json_t *object = json_object();
    for (int i = 0; i < SPEEDS; ++i)
        json_object_set_new(
            object, fields[i].name,
            json_real(*(const double *)(const void *)((const char *)speeds + fields[i].offset)));
    return object;
}

bool hil_speeds_read(const json_t *object, hil_speeds *out)
{
    for (int i = 0; i < SPEEDS; ++i) {
        const json_t *value = json_object_get(object, fields[i].name);
        double number = json_is_number(value) ? json_number_value(value) : 0;
        bool none = !value && fields[i].optional;
        if (!none && !(number >= 0 && number < 1e30)) return false;
        if (number == 0 && !fields[i].optional) return false;
        *(double *)(void *)((char *)out + fields[i].offset) = number;
    }
    return true;
}

/* Assumed speeds: a few cores, one NVMe drive, a network of 10 Gbit/s. */
static const hil_speeds ordinary = {.disk_read = 2e9,
                                    .disk_write = 1e9,
                                    .disk_mixed = 2e9,
                                    .to_device = 5e9,
                                    .to_host = 5e9,
                                    .network = 1e9,
                                    .memory = 2e10,
                                    .gemm = {1e11, 1e11, 1e11},
                                    .attention = {3e10, 3e10, 3e10},
                                    .update = 5e8,
                                    .op_call = 2e-5};

/* Assumed speeds of a GPU. */
static void assume_device(hil_speeds *speeds)
{
    *speeds = ordinary;
    speeds->to_device = speeds->to_host = 2e10;
    speeds->memory = 1e12;
    speeds->gemm[HIL_F32] = 2e13;
    speeds->gemm[HIL_BF16] = speeds->gemm[HIL_F16] = 1e14;
    speeds->attention[HIL_F32] = 1e13;
    speeds->attention[HIL_BF16] = speeds->attention[HIL_F16] = 5e13;
    speeds->update_device = 4e10;
    speeds->op_call = 5e-6;
}

/* "Intel Xeon ..., 8 threads, avx512", after the device's name if there is a device. */
static void name_machine(char name[256], const hil_device *device, int threads)
{
    char line[256], model[128] = "unknown CPU";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", model) == 1) break;
    if (file) fclose(file);
    snprintf(name, 256, "%s%s%s, %d thread%s, %s", device ? device->name : "",
             device ? " with " : "", model, threads, threads == 1 ? "" : "s",
             hil_cpu_name(hil_cpu_best()));
}

hil_status hil_probe_load(const char *path, json_t **out)
{
    hil_bytes content;
    *out = NULL;
    if (path && hil_file_exists(path) && hil_bytes_read(&content, path) == HIL_OK) {
        if (hil_json_parse(content.data, content.size, path, out) != HIL_OK) *out = NULL;
        hil_bytes_free(&content);
    }
    if (*out && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    if (!*out) *out = json_object();
    return *out ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "no memory for the measured speeds");
}

hil_status hil_probe_save(const char *path, const json_t *known)
{
    char folder[HIL_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = 0;
        HIL_TRY(hil_dir_create(folder));
    }
    char *text = json_dumps(known, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory for the measured speeds");
    hil_status status = hil_file_write(path, text, strlen(text));
    free(text);
    return status;
}

/* One call of hil_machine_find: the cache's contents, and whether they changed. */
typedef struct search {
    const hil_probe_options *options;
    hil_device *device;
    const hil_observer *observer;
    const hil_effort *effort;
    hil_machine *machine;
    json_t *known;
    bool changed;
    uint64_t drive[HIL_DISKS_MAX]; /* block device of each disk */
} search;

#define METHOD 9 /* version of the measurement; entries of older versions are measured again */

static bool good_enough(const search *s, const json_t *entry)
{
    return json_is_object(entry) && !s->options->again &&
           json_integer_value(json_object_get(entry, "method")) == METHOD &&
           (!s->effort->thorough || json_is_true(json_object_get(entry, "thorough"))) &&
           (s->effort->states || !json_is_true(json_object_get(entry, "states")));
}

/* Whether the entry was measured with enough bytes, given that `bytes` are allowed now. */
static bool had_enough(const json_t *entry, const char *name, uint64_t bytes)
{
    json_int_t had = json_integer_value(json_object_get(entry, name));
    return had >= 0 && (uint64_t)had >= bytes / MUCH_LESS;
}

static void remember(search *s, const char *key, json_t *entry)
{
    json_object_set_new(entry, "method", json_integer(METHOD));
    json_object_set_new(entry, "thorough", json_boolean(s->effort->thorough));
    json_object_set_new(s->known, key, entry);
    s->changed = true;
}

static hil_status measure(const search *s, hil_pool *pool, const hil_probe_room *room)
{
    hil_speeds *speeds = &s->machine->speeds;
    *speeds = ordinary; /* for disks and network, which are not measured here */
    if (!s->device) return hil_probe_cpu(pool, room, speeds);
    assume_device(speeds);
    HIL_TRY(hil_probe_update(pool, room, speeds));
    return hil_probe_device(s->device, pool, room, speeds);
}

/* Whether a speed is missing that was not measured when the entry was made. */
static bool lacks_fp8(const search *s)
{
    return hil_devices_gpu(s->device) && s->device->fp8 && !s->effort->states &&
           !(s->machine->speeds.gemm_fp8 > 0);
}

static hil_status find_computer(search *s)
{
    hil_speeds *speeds = &s->machine->speeds;
    hil_probe_room room = {.memory = hil_probe_cpu_room(s->effort->memory),
                           .seconds = s->effort->thorough ? SECONDS_FULL : SECONDS_SHORT,
                           .states = s->effort->states && s->device};
    hil_pool *pool;
    if (s->device) room.device = hil_probe_device_room(s->device, s->effort->device_memory);
    HIL_TRY(hil_pool_create(&pool, s->options->threads));
    name_machine(s->machine->name, s->device, hil_pool_threads(pool));
    const json_t *entry = json_object_get(s->known, s->machine->name);
    hil_status status = HIL_OK;
    if (!good_enough(s, entry) || !had_enough(entry, "memory_bytes", room.memory) ||
        !had_enough(entry, "device_memory_bytes", room.device) || !hil_speeds_read(entry, speeds) ||
        lacks_fp8(s)) {
        hil_note(s->observer, "measuring how fast this machine computes");
        status = measure(s, pool, &room);
        json_t *found = hil_speeds_write(speeds);
        json_object_set_new(found, "memory_bytes", json_integer((json_int_t)room.memory));
        json_object_set_new(found, "device_memory_bytes", json_integer((json_int_t)room.device));
        json_object_set_new(found, "states", json_boolean(room.states));
        if (status == HIL_OK)
            remember(s, s->machine->name, found);
        else
            json_decref(found);
    }
    hil_pool_destroy(pool);
    return status;
}

static bool read_drive(const json_t *entry, hil_drive_speed *out)
{
    const json_t *read = json_object_get(entry, "read"), *write = json_object_get(entry, "write");
    const json_t *mixed = json_object_get(entry, "mixed");
    *out =
        (hil_drive_speed){json_number_value(read), json_number_value(write),
                          json_number_value(mixed), json_is_true(json_object_get(entry, "direct")),
                          json_number_value(json_object_get(entry, "call"))};
    return out->read > 0 && out->read < 1e30 && out->write > 0 && out->write < 1e30 &&
           out->mixed > 0 && out->mixed < 1e30;
}

static json_t *write_drive(const hil_drive_speed *speed)
{
    json_t *entry = json_object();
    json_object_set_new(entry, "read", json_real(speed->read));
    json_object_set_new(entry, "write", json_real(speed->write));
    json_object_set_new(entry, "mixed", json_real(speed->mixed));
    json_object_set_new(entry, "direct", json_boolean(speed->direct));
    json_object_set_new(entry, "call", json_real(speed->call));
    return entry;
}

/* The block device of the folder, and its key in the cache. */
static hil_status identify(const char *path, uint64_t *device, hil_text *key)
{
    struct stat info;
    struct statvfs system;
    if (stat(path, &info) != 0 || statvfs(path, &system) != 0)
        return hil_fail(HIL_ERR_IO, "cannot use %s: %s", path, strerror(errno));
    *device = info.st_dev;
    return hil_text_print(key, "drive %u:%u of file system %lx", major(info.st_dev),
                          minor(info.st_dev), system.f_fsid);
}

static void assume_drive(search *s, size_t i)
{
    s->machine->drive[i] =
        (hil_drive_speed){ordinary.disk_read, ordinary.disk_write, ordinary.disk_mixed, true, 0};
}

static hil_status measure_drive(search *s, size_t i, const hil_drive_room *room, const char *key)
{
    const char *path = s->options->memory.disks[i].path;
    hil_drive_speed *speed = &s->machine->drive[i];
    hil_note(s->observer, "measuring how fast the drive of %s is", path);
    HIL_TRY(hil_probe_drive(path, s->options->memory.io, room, speed));
    json_t *found = write_drive(speed);
    json_object_set_new(found, "file_bytes", json_integer((json_int_t)room->bytes));
    json_object_set_new(found, "request_bytes", json_integer((json_int_t)room->request));
    remember(s, key, found);
    s->machine->drive_known[i] = true;
    return HIL_OK;
}

/* The cache's entry for the drive. If the drive may not be measured, an entry made with another
   device or number of threads counts too: the first `drive` bytes of a key name the drive alone. */
static const json_t *find_entry(const search *s, const char *key, size_t drive)
{
    const json_t *entry = json_object_get(s->known, key);
    const char *other;
    json_t *value;
    if (s->effort->drives || good_enough(s, entry)) return entry;
    json_object_foreach(s->known, other, value) if (strncmp(other, key, drive) == 0 &&
                                                    good_enough(s, value)) return value;
    return entry;
}

/* Takes the speeds of disk i from the cache, or measures its drive. */
static hil_status find_known_drive(search *s, size_t i, const char *key, size_t drive)
{
    const char *path = s->options->memory.disks[i].path;
    const json_t *entry = find_entry(s, key, drive);
    bool known = good_enough(s, entry),
         twice = false; /* twice: measured just now by another path */
    hil_drive_room room = {0};
    for (size_t j = 0; j < i; ++j) twice = twice || s->drive[j] == s->drive[i];
    if (s->effort->drives)
        HIL_TRY(hil_probe_drive_room(path, s->options->memory.disks[i].bytes, s->effort->memory,
                                     &room));
    known = known && had_enough(entry, "file_bytes", room.bytes) &&
            had_enough(entry, "request_bytes", room.bytes ? room.request : 0);
    s->machine->drive_known[i] = (twice || known) && read_drive(entry, &s->machine->drive[i]);
    if (s->machine->drive_known[i]) return HIL_OK;
    assume_drive(s, i);
    if (!s->effort->drives) return HIL_OK;
    room.seconds = s->effort->thorough ? DRIVE_SECONDS_FULL : DRIVE_SECONDS_SHORT;
    if (room.bytes) return measure_drive(s, i, &room, key);
    hil_note(s->observer, "%s has too little room to be measured: its speed is assumed", path);
    return HIL_OK;
}

static hil_status find_drive(search *s, size_t i)
{
    static const char *const engine[] = {"", ", uring", ", threads"};
    hil_text key = {0};
    hil_status status = identify(s->options->memory.disks[i].path, &s->drive[i], &key);
    if (status != HIL_OK && !s->effort->drives) { /* a plan may name disks of another machine */
        s->drive[i] = UINT64_MAX - i;
        assume_drive(s, i);
        status = HIL_OK;
        goto done;
    }
    HIL_TRY_DONE(status);
    HIL_TRY_DONE(hil_text_print(&key, "%s on ", engine[s->options->memory.io]));
    size_t drive = key.size;
    HIL_TRY_DONE(hil_text_print(&key, "%s", s->machine->name));
    HIL_TRY_DONE(find_known_drive(s, i, key.data, drive));
done:
    hil_text_free(&key);
    return status;
}

void hil_machine_join_drives(hil_machine *machine, const uint64_t *device, size_t count)
{
    hil_speeds *speeds = &machine->speeds;
    if (count == 0) return;
    speeds->disk_read = speeds->disk_write = speeds->disk_mixed = speeds->disk_call = 0;
    for (size_t i = 0; i < count; ++i) {
        double sharers = 0;
        for (size_t j = 0; j < count; ++j) sharers += device[j] == device[i];
        hil_drive_speed *speed = &machine->drive[i];
        speed->read /= sharers;
        speed->write /= sharers;
        speed->mixed /= sharers;
        speeds->disk_read += speed->read;
        speeds->disk_write += speed->write;
        speeds->disk_mixed += speed->mixed;
        speeds->disk_call = fmax(speeds->disk_call, speed->call);
    }
}

void hil_machine_assume(const hil_probe_options *options, const hil_device *device,
                        hil_machine *out)
{
    *out = (hil_machine){.name = "an ordinary machine (nothing was measured)", .speeds = ordinary};
    if (device) assume_device(&out->speeds);
    for (size_t i = 0; i < options->memory.disk_count; ++i) {
        double n = (double)options->memory.disk_count;
        out->drive[i] = (hil_drive_speed){ordinary.disk_read / n, ordinary.disk_write / n,
                                          ordinary.disk_mixed / n, true, 0};
    }
}

hil_status hil_machine_find(const hil_probe_options *options, hil_device *device,
                            const hil_effort *effort, const hil_observer *observer,
                            hil_machine *out)
{
    search s = {.options = options,
                .device = device,
                .observer = observer,
                .effort = effort,
                .machine = out};
    assert(options->memory.disk_count <= HIL_DISKS_MAX);
    *out = (hil_machine){.measured = true};
    hil_status status;
    HIL_TRY_DONE(hil_probe_load(options->cache, &s.known));
    HIL_TRY_DONE(find_computer(&s));
    for (size_t i = 0; i < options->memory.disk_count; ++i) HIL_TRY_DONE(find_drive(&s, i));
    hil_machine_join_drives(out, s.drive, options->memory.disk_count);
    if (s.changed && options->cache && hil_probe_save(options->cache, s.known) != HIL_OK)
        hil_note(observer, "the measured speeds are not cached: %s", hil_status_message());
done:
    json_decref(s.known);
    return status;
}
