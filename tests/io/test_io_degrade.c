/* The engine works without optional features of the system, and reports that. */
#include "base/text.h"
#include "io_fixture.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

static void in_child(void (*test)(void))
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        test();
        exit(0);
    }
    int ended;
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK_INT(ended, 0);
}

/* O_DIRECT has no effect on tmpfs: transfers are buffered, and reported as such. */
static void tmpfs_is_buffered(void)
{
    char name[] = "/dev/shm/hilbert-io-XXXXXX";
    struct statfs info; /* in a bare root folder it is no file system of its own */
    if (statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS_MAGIC || !mkdtemp(name)) return;
    hil_io *io = make_io(HIL_IO_AUTO, 4, 64 * KIB);
    hil_io_file *file;
    void *bytes;
    CHECK_OK(hil_io_buffer_alloc(io, MIB, &bytes));
    CHECK_OK(hil_io_open_scratch(io, name, MIB, &file));
    CHECK(!hil_io_is_direct(file));
    fill(bytes, 0, MIB, 1);
    CHECK_OK(hil_io_write(file, 0, bytes, MIB));
    memset(bytes, 0, MIB);
    CHECK_OK(hil_io_read(file, 0, bytes, MIB));
    expect(bytes, 0, MIB, 1);
    CHECK_OK(hil_io_flush(file));
    hil_io_close(file);
    hil_io_destroy(io);
    CHECK_INT(rmdir(name), 0); /* nothing was left in it */
}

/* Makes a system call fail with EPERM on all threads; ends the test if that is impossible. */
static void refuse(unsigned number)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        exit(0);
}

/* A ring that stops working: operations fail after a while, and the engine can be destroyed. */
static void ring_breaks(void)
{
    hil_io_options options;
    hil_io *io;
    hil_io_defaults(&options);
    options.engine = HIL_IO_URING;
    options.buffer_bytes = MIB;
    if (hil_io_create(&io, &options) != HIL_OK) return;
    hil_io_file *file;
    void *bytes;
    CHECK_OK(hil_io_buffer_alloc(io, 64 * KIB, &bytes));
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE | HIL_IO_CREATE, &file));
    fill(bytes, 0, 64 * KIB, 1);
    CHECK_OK(hil_io_write(file, 0, bytes, 64 * KIB));
    refuse(SYS_io_uring_enter);
    alarm(60);
    for (int i = 0; i < 2; ++i)
        CHECK_FAILS(hil_io_read(file, 0, bytes, 64 * KIB), HIL_ERR_IO, "not permitted");
    hil_io_close(file);
    hil_io_destroy(io);
}

/* A sandbox that refuses io_uring_setup, as containers do. */
static void refuse_uring(void)
{
    refuse(SYS_io_uring_setup);
    hil_io_options options;
    hil_io *io;
    int before = open_descriptors();
    hil_io_defaults(&options);
    options.engine = HIL_IO_URING;
    CHECK_FAILS(hil_io_create(&io, &options), HIL_ERR_IO, "io_uring");
    CHECK(io == NULL);
    CHECK_INT(open_descriptors(), before);
    options.engine = HIL_IO_AUTO;
    CHECK_OK(hil_io_create(&io, &options));
    CHECK_TEXT(hil_io_engine(io), "threads");
    CHECK(!hil_io_buffers_registered(io));
    hil_io_file *file;
    static char bytes[8192], back[8192];
    fill(bytes, 0, sizeof bytes, 2);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE | HIL_IO_CREATE, &file));
    CHECK_OK(hil_io_write(file, 0, bytes, sizeof bytes));
    CHECK_OK(hil_io_read(file, 0, back, sizeof back));
    CHECK(memcmp(bytes, back, sizeof bytes) == 0);
    hil_io_close(file);
    hil_io_destroy(io);
}

/* Buffers that may not be locked in memory work unregistered. */
static void no_locked_memory(void)
{
    struct rlimit none = {0, 0};
    CHECK_INT(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return;
    hil_io *io = make_io(HIL_IO_AUTO, 4, 64 * KIB);
    CHECK(!hil_io_buffers_registered(io));
    hil_io_file *file;
    void *bytes;
    CHECK_OK(hil_io_buffer_alloc(io, 100 * KIB, &bytes));
    CHECK_OK(hil_io_open_scratch(io, "/tmp", MIB, &file));
    fill(bytes, 0, 100 * KIB, 3);
    CHECK_OK(hil_io_write(file, 4096, bytes, 100 * KIB));
    memset(bytes, 0, 100 * KIB);
    CHECK_OK(hil_io_read(file, 4096, bytes, 100 * KIB));
    expect(bytes, 0, 100 * KIB, 3);
    hil_io_close(file);
    hil_io_destroy(io);
}

/* A full file system, if the test can create one. */
static void full_disk(hil_io_kind engine)
{
    char small[80], words[200];
    snprintf(small, sizeof small, "%s/small", folder);
    CHECK(mkdir(small, 0700) == 0);
    if (mount("none", small, "tmpfs", 0, "size=1m") != 0) {
        CHECK_INT(rmdir(small), 0);
        return;
    }
    hil_io *io = make_io(engine, 4, 64 * KIB);
    hil_io_file *file;
    void *bytes;
    CHECK_FAILS(hil_io_open_scratch(io, small, 2 * MIB, &file), HIL_ERR_IO,
                "cannot reserve 2.0 MiB in ");
    snprintf(words, sizeof words, "%s/f", small);
    CHECK_OK(hil_io_open(io, words, HIL_IO_WRITE | HIL_IO_CREATE, &file));
    CHECK_OK(hil_io_buffer_alloc(io, 2 * MIB, &bytes));
    CHECK_FAILS(hil_io_write(file, 0, bytes, 2 * MIB), HIL_ERR_IO, ": No space left on device");
    CHECK(strstr(hil_status_message(), words) != NULL);
    hil_io_close(file);
    hil_io_destroy(io);
    CHECK_INT(umount(small), 0);
    CHECK_INT(rmdir(small), 0);
}

static void wrong_use(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 4, 64 * KIB);
    hil_io_file *file;
    hil_io_options options;
    static char bytes[8192];
    void *first, *second;
    make_file(path, 5000, 4);
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ, &file));
    CHECK_FAILS(hil_io_write(file, 0, bytes, 100), HIL_ERR_USAGE, "not opened for that");
    CHECK_FAILS(hil_io_read(file, UINT64_MAX - 10, bytes, 100), HIL_ERR_USAGE, "reaches that far");
    CHECK_FAILS(hil_io_read(file, 0, bytes, 8192), HIL_ERR_IO, "at 4.9 KiB: the file ends there");
    CHECK_FAILS(hil_io_read(file, 9000, bytes, 1), HIL_ERR_IO, "the file ends there");
    CHECK_OK(hil_io_read(file, 0, bytes, 5000));
    expect(bytes, 0, 5000, 4);
    hil_io_close(file);
    CHECK_FAILS(hil_io_open(io, folder, HIL_IO_READ, &file), HIL_ERR_INPUT, "not a regular file");
    CHECK_FAILS(hil_io_open(io, path, 0, &file), HIL_ERR_USAGE, "neither");
    CHECK_FAILS(hil_io_open_scratch(io, "none/such", 1, &file), HIL_ERR_IO, "none/such");
    CHECK_OK(hil_io_buffer_alloc(io, 5 * MIB, &first));
    CHECK_FAILS(hil_io_buffer_alloc(io, 5 * MIB, &second), HIL_ERR_MEMORY, "no room");
    CHECK_OK(hil_io_buffer_alloc(io, 1, &second));
    CHECK((uintptr_t)second % HIL_IO_ALIGN == 0);
    hil_io_buffer_free(io, first);
    CHECK_OK(hil_io_buffer_alloc(io, 5 * MIB - 1, &first));
    hil_io_destroy(io);
    hil_io_defaults(&options);
    options.depth = 0;
    CHECK_FAILS(hil_io_create(&io, &options), HIL_ERR_USAGE, "depth");
    hil_io_defaults(&options);
    options.split = 1000;
    CHECK_FAILS(hil_io_create(&io, &options), HIL_ERR_USAGE, "multiple of 4096");
    hil_io_defaults(&options);
    options.requests = 0;
    CHECK_FAILS(hil_io_create(&io, &options), HIL_ERR_USAGE, "requests");
    hil_io_destroy(NULL);
    hil_io_close(NULL);
}

/* A scratch file is unlinked, has mode 0600, and is preallocated. */
static void scratch_is_private(hil_io_kind engine)
{
    hil_io *io = make_io(engine, 4, 64 * KIB);
    hil_io_file *file, *named;
    struct stat info;
    CHECK_OK(hil_io_open_scratch(io, folder, 3 * MIB + 5, &file));
    CHECK_OK(hil_io_open(io, path, HIL_IO_READ | HIL_IO_WRITE | HIL_IO_CREATE, &named));
    CHECK_INT(hil_io_is_direct(file), hil_io_is_direct(named));
    hil_io_close(named);
    CHECK_INT(fstat(hil_io_descriptor(file), &info), 0);
    CHECK_INT(info.st_nlink, 0);
    CHECK_INT(info.st_mode & 07777, 0600);
    CHECK_INT(info.st_size, 3 * MIB + 5);
    CHECK_INT(hil_io_size(file), 3 * MIB + 5);
    CHECK(info.st_blocks * 512 >= (blkcnt_t)(3 * MIB));
    hil_io_close(file);
    hil_io_destroy(io);
}

int main(void)
{
    fixture_open();
    tmpfs_is_buffered();
    with_engines(wrong_use);
    with_engines(scratch_is_private);
    with_engines(full_disk);
    in_child(ring_breaks);
    in_child(refuse_uring);
    in_child(no_locked_memory);
    fixture_close();
    return 0;
}
