/* Speeds are measured once, cached, and shared by paths on one drive. */
#include "check.h"
#include "io/file.h"
#include "machine/devices.h"
#include "machine/probe.h"
#include "tensor/tensor.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int measured;

static void take_note(void *context, const char *line)
{
    (void)context;
    if (strncmp(line, "measuring", 9) == 0) ++measured;
}
static const hil_observer observer = {.note = take_note};
static const hil_effort quick = {.drives = true, .memory = 48 << 20, .device_memory = 64 << 20};

static bool same(const hil_machine *a, const hil_machine *b)
{
    return memcmp(&a->speeds, &b->speeds, sizeof a->speeds) == 0;
}

static void check_plausible(const hil_speeds *s)
{
    /* From a slow virtual core to a large server. */
    for (int i = 0; i < 3; ++i) {
        CHECK(s->gemm[i] > 1e8 && s->gemm[i] < 1e15);
        CHECK(s->attention[i] > 1e7 && s->attention[i] < 1e15);
    }
    CHECK(s->memory > 1e8 && s->memory < 1e13);
    CHECK(s->to_device > 1e8 && s->to_device < 1e13);
    CHECK(s->update > 1e6 && s->update < 1e12);
    CHECK(s->op_call > 0 && s->op_call < 0.1);
    CHECK(s->pool_run >= 0 && 2 * s->pool_run < s->op_call);
    CHECK(s->disk_read > 1e5 && s->disk_write > 1e5 && s->disk_mixed > 1e5);
}

static void check_memory(const char *folder)
{
    char cache[HIL_PATH_MAX], deep[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(deep, folder, "deep/er"));
    CHECK_OK(hil_path_join(cache, deep, "probe.json"));
    hil_disk_budget one = {folder, 32 << 20};
    hil_probe_options options = {
        .memory = {.disks = &one, .disk_count = 1}, .threads = 2, .cache = cache};
    hil_machine first, second, third;
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &first));
    CHECK_INT(measured, 2); /* the machine and the drive */
    check_plausible(&first.speeds);
    for (int i = 0; i < 3; ++i) {
        CHECK(first.speeds.vector[i] > 1e7 && first.speeds.vector[i] < 1e15);
        CHECK(first.speeds.pack[i] > 1e6 && first.speeds.pack[i] < 1e13);
    }
    CHECK(first.speeds.update_8bit > 1e5 && first.speeds.update_8bit < 1e12);
    CHECK(first.speeds.threads == 2 && first.speeds.cpus >= 1 && first.speeds.pool_run > 0);
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &second));
    CHECK_INT(measured, 2);
    CHECK(same(&first, &second));
    CHECK_TEXT(first.name, second.name);
    options.threads = 1; /* other threads, other speeds */
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &second));
    CHECK_INT(measured, 4);
    options.threads = 2;
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &third));
    CHECK_INT(measured, 4);
    CHECK(same(&first, &third));
    /* A damaged cache file is measured again and replaced. */
    static const char *const bad[] = {"[1]", "\xff{"};
    options.memory.disk_count = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        CHECK_OK(hil_file_write(cache, bad[i], strlen(bad[i])));
        measured = 0;
        CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &third));
        CHECK_INT(measured, 1);
    }
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &second));
    CHECK(same(&second, &third));
    CHECK_INT(measured, 1);
    options.again = true;
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &second));
    CHECK_INT(measured, 2);
    /* So are entries of an older method. */
    json_t *known;
    CHECK_OK(hil_probe_load(cache, &known));
    json_t *entry = json_object_get(known, first.name);
    CHECK(entry && json_object_del(entry, "method") == 0);
    CHECK_OK(hil_probe_save(cache, known));
    json_decref(known);
    options.again = false;
    CHECK_OK(hil_machine_find(&options, NULL, &quick, &observer, &second));
    CHECK_INT(measured, 3);
}

/* Measuring stays within its limits, and is repeated when the limits are much larger. */
static void check_limits(const char *folder)
{
    char cache[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(cache, folder, "limits.json"));
    hil_disk_budget disk = {folder, 3 << 20};
    hil_probe_options options = {
        .memory = {.disks = &disk, .disk_count = 1}, .threads = 2, .cache = cache};
    hil_effort little = {.drives = true, .memory = 8 << 20};
    hil_effort blind = {.memory = 8 << 20};
    hil_machine machine;
    hil_drive_room room;
    CHECK(hil_probe_cpu_room(8 << 20) <= 8 << 20);
    CHECK(hil_probe_cpu_room(1) <= 8 << 20); /* the least that works */
    CHECK_OK(hil_probe_drive_room(folder, 3 << 20, 1 << 20, &room));
    CHECK(room.bytes > 0 && room.bytes <= 3 << 20 && 8 * room.request <= 1 << 20);
    CHECK_OK(hil_probe_drive_room(folder, 100 << 10, 1 << 20, &room));
    CHECK_INT((int)room.bytes, 0);
    /* A drive that may not be written to is assumed; so is one that does not exist. */
    measured = 0;
    CHECK_OK(hil_machine_find(&options, NULL, &blind, &observer, &machine));
    CHECK_INT(measured, 1);
    CHECK(!machine.drive_known[0] && machine.drive[0].read > 0);
    disk.path = "/nonexistent/folder";
    CHECK_OK(hil_machine_find(&options, NULL, &blind, &observer, &machine));
    CHECK(!machine.drive_known[0] && machine.drive[0].read > 0);
    CHECK_FAILS(hil_machine_find(&options, NULL, &little, &observer, &machine), HIL_ERR_IO,
                "/nonexistent/folder");
    disk.path = folder;
    /* A file above 3 MiB would not be written. */
    struct rlimit limit = {3 << 20, RLIM_INFINITY};
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_OK(hil_machine_find(&options, NULL, &little, &observer, &machine));
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_INT(measured, 2);
    CHECK(machine.drive_known[0]);
    CHECK_OK(hil_machine_find(&options, NULL, &blind, &observer, &machine));
    CHECK_INT(measured, 2);
    CHECK(machine.drive_known[0]);
    options.threads = 1; /* another machine to a run, the same drive to a plan */
    CHECK_OK(hil_machine_find(&options, NULL, &blind, &observer, &machine));
    CHECK_INT(measured, 3);
    CHECK(machine.drive_known[0]);
    options.threads = 2;
    measured = 2;
    /* Larger budgets: both are measured again; smaller ones then use these results. */
    hil_effort much = {.drives = true, .memory = 256 << 20};
    disk.bytes = 64 << 20;
    CHECK_OK(hil_machine_find(&options, NULL, &much, &observer, &machine));
    CHECK_INT(measured, 4);
    disk.bytes = 3 << 20;
    CHECK_OK(hil_machine_find(&options, NULL, &little, &observer, &machine));
    CHECK_INT(measured, 4);
}

/* The speeds of a device belong to it and to the machine that it is in. */
static void check_device(const char *folder)
{
    char cache[HIL_PATH_MAX];
    hil_device *device;
    hil_machine first, second;
    CHECK_OK(hil_path_join(cache, folder, "devices.json"));
    CHECK_OK(hil_devices_open(&(hil_device_choice){.name = "threads"}, NULL, NULL, &device));
    hil_probe_options options = {.threads = 1, .cache = cache};
    /* A store measures copies and updates only; what plans need besides is measured later. */
    hil_effort states = quick;
    states.states = true;
    hil_machine_assume(&options, device, &second);
    CHECK_OK(hil_machine_find(&options, device, &states, NULL, &first));
    CHECK(first.speeds.gemm[HIL_BF16] == second.speeds.gemm[HIL_BF16]);
    CHECK(first.speeds.to_device != second.speeds.to_device);
    CHECK(first.speeds.update_device != second.speeds.update_device);
    CHECK_OK(hil_machine_find(&options, device, &states, NULL, &second));
    CHECK(memcmp(&first.speeds, &second.speeds, sizeof first.speeds) == 0);
    CHECK_OK(hil_machine_find(&options, device, &quick, NULL, &first));
    CHECK(first.speeds.gemm[HIL_BF16] != second.speeds.gemm[HIL_BF16]);
    CHECK_OK(hil_machine_find(&options, device, &states, NULL, &second)); /* all is known */
    CHECK(memcmp(&first.speeds, &second.speeds, sizeof first.speeds) == 0);
    check_plausible(&first.speeds);
    CHECK(first.speeds.threads == 0 && first.speeds.vector[0] == 0); /* the CPU only updates */
    CHECK(first.speeds.update_8bit > 1e5 && first.speeds.update_8bit < 1e12);
    CHECK(first.speeds.update_device > 1e5 && first.speeds.update_device < 1e13);
    CHECK(first.speeds.one_way > 1e8 && first.speeds.one_way < 1e13);
    CHECK(strstr(first.name, device->name) == first.name);
    CHECK_OK(hil_machine_find(&options, device, &quick, NULL, &second));
    CHECK(same(&first, &second));
    hil_machine_assume(&options, device, &second);
    check_plausible(&second.speeds);
    CHECK(second.speeds.update_device > 0);
    hil_devices_close(device);
    CHECK_OK(hil_machine_find(&options, NULL, &quick, NULL, &second));
    CHECK(second.speeds.update_device == 0);
    CHECK(strcmp(first.name, second.name) != 0);
}

static void check_drives(void)
{
    hil_machine m = {0};
    for (int i = 0; i < 3; ++i) m.drive[i] = (hil_drive_speed){6e9, 4e9, 8e9, true, 1e-4};
    m.drive[2] = (hil_drive_speed){1e9, 5e8, 1e9, true, 3e-4};
    hil_machine_join_drives(&m, (const uint64_t[]){7, 7, 9}, 3);
    CHECK_NEAR(m.speeds.disk_read, 7e9, 1);
    CHECK_NEAR(m.speeds.disk_call, 3e-4, 1e-12); /* of the slowest */
    CHECK_NEAR(m.speeds.disk_write, 4.5e9, 1);
    CHECK_NEAR(m.speeds.disk_mixed, 9e9, 1);
    CHECK_NEAR(m.drive[0].read, 3e9, 1);
    CHECK_NEAR(m.drive[2].read, 1e9, 1);
    hil_disk_budget none = {"/nonexistent/folder", 0};
    hil_probe_options options = {.memory = {.disks = &none, .disk_count = 1}, .threads = 1};
    hil_machine_assume(&options, NULL, &m);
    check_plausible(&m.speeds);
    hil_drive_room room = {8 << 20, 1 << 20, 0.01};
    hil_drive_speed speed;
    CHECK_FAILS(hil_probe_drive("/nonexistent/folder", HIL_IO_THREADS, &room, &speed), HIL_ERR_IO,
                "/nonexistent/folder");
}

/* hil_probe prints what hil_probe_measure returns, and both are cached. */
static void check_data(const char *folder)
{
    char cache[HIL_PATH_MAX], *text = NULL;
    size_t size;
    hil_machine machine;
    hil_probe_options options;
    hil_speeds printed = {0};
    json_t *object;
    CHECK_OK(hil_path_join(cache, folder, "data.json"));
    hil_probe_defaults(&options);
    options.device.name = "cpu";
    options.threads = 1;
    options.cache = cache;
    CHECK_OK(hil_probe_measure(&options, NULL, &machine));
    CHECK(machine.measured && machine.name[0]);
    options.json = true;
    FILE *out = open_memstream(&text, &size);
    measured = 0;
    CHECK_OK(hil_probe(&options, &observer, out));
    CHECK(fclose(out) == 0);
    CHECK_INT(measured, 0);
    CHECK_OK(hil_json_parse(text, size, "output", &object));
    CHECK(hil_speeds_read(json_object_get(object, "speeds"), &printed));
    CHECK_NEAR(printed.memory, machine.speeds.memory, 1e-5 * machine.speeds.memory);
    CHECK_TEXT(json_string_value(json_object_get(object, "machine")), machine.name);
    json_decref(object);
    free(text);
}

static void check_json(void)
{
    hil_machine m;
    hil_speeds back = {0};
    hil_machine_assume(&(hil_probe_options){0}, NULL, &m);
    json_t *object = hil_speeds_write(&m.speeds);
    CHECK(hil_speeds_read(object, &back));
    CHECK(memcmp(&back, &m.speeds, sizeof back) == 0);
    json_object_set_new(object, "memory", json_real(-1));
    CHECK(!hil_speeds_read(object, &back));
    json_object_set_new(object, "memory", json_string("fast"));
    CHECK(!hil_speeds_read(object, &back));
    json_object_del(object, "memory");
    CHECK(!hil_speeds_read(object, &back));
    json_decref(object);
}

int main(void)
{
    char folder[] = "/tmp/hilbert-probe-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    check_json();
    check_drives();
    check_memory(folder);
    check_limits(folder);
    check_device(folder);
    check_data(folder);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
