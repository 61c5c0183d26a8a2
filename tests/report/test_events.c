/* Event files have the framing, the checksums and the messages that TensorBoard reads. */
#include "report/events.h"
#include "base/text.h"
#include "check.h"
#include "io/file.h"

#include <dirent.h>
#include <unistd.h>

/* CRC-32C bit by bit, as its definition has it. */
static uint32_t crc(const unsigned char *data, size_t size)
{
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; ++i) {
        c ^= data[i];
        for (int bit = 0; bit < 8; ++bit) c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    }
    c = ~c;
    return (c >> 15 | c << 17) + 0xA282EAD8u;
}

static uint32_t u32(const unsigned char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* The next record of the file: checks its sums, returns its message. */
static const unsigned char *next(const hil_bytes *file, size_t *at, size_t *size)
{
    const unsigned char *p = (const unsigned char *)file->data + *at;
    uint64_t length;
    memcpy(&length, p, sizeof length);
    CHECK_INT(u32(p + 8), crc(p, 8));
    CHECK_INT(u32(p + 12 + length), crc(p + 12, length));
    *size = length;
    *at += 16 + length;
    return p + 12;
}

/* The value of `tag` in a message: a string, then the key of field 2 (fixed32), then the float. */
static float value(const unsigned char *message, size_t size, const char *tag)
{
    size_t length = strlen(tag);
    const unsigned char *found = memmem(message, size, tag, length);
    float v;
    CHECK(found && found[-1] == length && found[-2] == (1 << 3 | 2));
    CHECK_INT(found[length], 2 << 3 | 5);
    memcpy(&v, found + length + 1, sizeof v);
    return v;
}

static void read_only_file(const char *folder, hil_bytes *out)
{
    char path[HIL_PATH_MAX];
    DIR *dir = opendir(folder);
    struct dirent *entry;
    CHECK(dir);
    while ((entry = readdir(dir)) && entry->d_name[0] == '.') {
    }
    CHECK(entry && strncmp(entry->d_name, "events.out.tfevents.", 20) == 0);
    CHECK_OK(hil_path_join(path, folder, entry->d_name));
    closedir(dir);
    CHECK_OK(hil_bytes_read(out, path));
}

int main(void)
{
    char root[] = "/tmp/test_events.XXXXXX", folder[HIL_PATH_MAX];
    hil_events *events;
    hil_bytes file;
    size_t at = 0, size;
    const unsigned char nine[] = "123456789";
    uint32_t plain = crc(nine, 9) - 0xA282EAD8u;
    CHECK_INT(plain << 15 | plain >> 17, 0xE3069283u); /* the check value of CRC-32C */
    CHECK(mkdtemp(root));
    CHECK_OK(hil_path_join(folder, root, "runs"));
    CHECK_OK(hil_events_open(&events, folder, 300));
    json_t *line = json_loads("{\"step\": 301, \"loss\": 2.5, \"device_peak\": 1024, "
                              "\"wait_seconds\": {\"weights\": 0.25}, \"grad_norm\": null}",
                              0, NULL);
    json_t *eval = json_loads("{\"step\": 301, \"eval_loss\": 3.5}", 0, NULL);
    CHECK_OK(hil_events_add(events, line, 301));
    CHECK_OK(hil_events_add(events, eval, 301));
    CHECK_OK(hil_events_flush(events));
    hil_events_close(events);
    json_decref(line);
    json_decref(eval);

    read_only_file(folder, &file);
    const unsigned char *m = next(&file, &at, &size);
    CHECK(memmem(m, size, "brain.Event:2", 13));
    m = next(&file, &at, &size); /* the session starts at step 301: field 2, then field 7 */
    CHECK(m[9] == 2 << 3 && m[10] == (301 & 127) + 128 && m[11] == 301 >> 7);
    CHECK(m[12] == (7 << 3 | 2) && m[13] == 2 && m[14] == 1 << 3 && m[15] == 1 && size == 16);
    m = next(&file, &at, &size);
    CHECK(value(m, size, "train/loss") == 2.5f);
    CHECK(value(m, size, "memory/device_peak") == 1024);
    CHECK(value(m, size, "waiting/weights") == 0.25f);
    CHECK(!memmem(m, size, "grad_norm", 9));
    m = next(&file, &at, &size);
    CHECK(value(m, size, "eval/loss") == 3.5f);
    CHECK_INT(at, file.size);
    hil_bytes_free(&file);
    CHECK_OK(hil_file_remove_tree(root));
    return 0;
}
