/* events.c - writes records of TensorFlow's format (TFRecord) with Event messages of protobuf. */
#include "report/events.h"

#include "io/file.h"
#include "report/history.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct hil_events {
    FILE *file;
    uint32_t table[256];
    hil_text summary, event; /* messages being built */
};

/* CRC-32C: the polynomial of Castagnoli, bits reversed. */
static void fill_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0x82F63B78u : 0);
        table[i] = c;
    }
}

/* The checksum as the format stores it: rotated by 15 bits, plus a constant. */
static uint32_t masked_crc(const uint32_t table[256], const void *data, size_t size)
{
    const unsigned char *byte = data;
    uint32_t c = 0xFFFFFFFFu;
    for (size_t i = 0; i < size; ++i) c = table[(c ^ byte[i]) & 255] ^ (c >> 8);
    c = ~c;
    return (c >> 15 | c << 17) + 0xA282EAD8u;
}

static hil_status write_record(hil_events *e, const void *data, size_t size)
{
    uint64_t length = size; /* all numbers of the format are little-endian, as this machine's */
    uint32_t head = masked_crc(e->table, &length, sizeof length);
    uint32_t tail = masked_crc(e->table, data, size);
    if (fwrite(&length, sizeof length, 1, e->file) == 1 &&
        fwrite(&head, sizeof head, 1, e->file) == 1 && fwrite(data, size, 1, e->file) == 1 &&
        fwrite(&tail, sizeof tail, 1, e->file) == 1)
        return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot write TensorBoard's events: %s", strerror(errno));
}

/* Protobuf: a field's key is its number and the kind of its value. */
enum kind { VARINT, FIXED64, BYTES, FIXED32 = 5 };

static hil_status put_varint(hil_text *out, uint64_t value)
{
    unsigned char byte[10];
    size_t size = 0;
    for (; value >= 128; value >>= 7) byte[size++] = (unsigned char)(value | 128);
    byte[size++] = (unsigned char)value;
    return hil_text_add(out, byte, size);
}

static hil_status put_key(hil_text *out, unsigned field, enum kind kind)
{
    return put_varint(out, field << 3 | kind);
}

static hil_status put_bytes(hil_text *out, unsigned field, const void *data, size_t size)
{
    HIL_TRY(put_key(out, field, BYTES));
    HIL_TRY(put_varint(out, size));
    return hil_text_add(out, data, size);
}

/* Fields of the message Event. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 };

static hil_status write_event(hil_events *e, int64_t step, unsigned field, const void *data,
                              size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    e->event.size = 0;
    HIL_TRY(put_key(&e->event, WALL_TIME, FIXED64));
    HIL_TRY(hil_text_add(&e->event, &seconds, sizeof seconds));
    HIL_TRY(put_key(&e->event, STEP, VARINT));
    HIL_TRY(put_varint(&e->event, (uint64_t)step));
    HIL_TRY(put_bytes(&e->event, field, data, size));
    return write_record(e, e->event.data, e->event.size);
}

/* A number's name with the group under which TensorBoard lists it. */
static void name_tag(char tag[288], const char *name)
{
    static const struct {
        const char *start, *end, *group;
    } rule[] = {{"eval_losses.", "", "eval"},     {"eval_", "", "eval"},
                {"wait_seconds.", "", "waiting"}, {"", "_peak", "memory"},
                {"", "_bytes", "moved"},          {"", "", "train"}};
    size_t i = 0;
    while (strncmp(name, rule[i].start, strlen(rule[i].start)) != 0 ||
           !hil_text_ends_with(name, rule[i].end))
        ++i;
    snprintf(tag, 288, "%s/%s", rule[i].group, name + strlen(rule[i].start));
}

/* Adds a value of a Summary: its tag and its number. */
static hil_status add_value(void *context, const char *name, double value)
{
    hil_events *e = context;
    char tag[288];
    hil_text one = {0};
    float number = (float)value;
    name_tag(tag, name);
    hil_status status = put_bytes(&one, 1, tag, strlen(tag));
    if (status == HIL_OK) status = put_key(&one, 2, FIXED32);
    if (status == HIL_OK) status = hil_text_add(&one, &number, sizeof number);
    if (status == HIL_OK) status = put_bytes(&e->summary, 1, one.data, one.size);
    hil_text_free(&one);
    return status;
}

hil_status hil_events_add(hil_events *e, json_t *object, int64_t step)
{
    e->summary.size = 0;
    HIL_TRY(hil_history_numbers(object, add_value, e));
    return e->summary.size ? write_event(e, step, SUMMARY, e->summary.data, e->summary.size)
                           : HIL_OK;
}

hil_status hil_events_flush(hil_events *e)
{
    if (fflush(e->file) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot write TensorBoard's events: %s", strerror(errno));
}

static hil_status open_file(hil_events *e, const char *folder)
{
    char host[64] = "", name[160], path[HIL_PATH_MAX];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%d", (long long)time(NULL), host,
             (int)getpid());
    HIL_TRY(hil_dir_create(folder));
    HIL_TRY(hil_path_join(path, folder, name));
    e->file = fopen(path, "ae");
    if (!e->file) return hil_fail(HIL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return HIL_OK;
}

hil_status hil_events_open(hil_events **out, const char *folder, int64_t step)
{
    static const char version[] = "brain.Event:2", start[] = {1 << 3 | VARINT, 1};
    hil_events *e;
    HIL_TRY(HIL_ALLOC(1, &e));
    fill_table(e->table);
    hil_status status = open_file(e, folder);
    if (status == HIL_OK) status = write_event(e, 0, FILE_VERSION, version, sizeof version - 1);
    if (status == HIL_OK && step > 0)
        status = write_event(e, step + 1, SESSION_LOG, start, sizeof start);
    if (status == HIL_OK)
        *out = e;
    else
        hil_events_close(e);
    return status;
}

void hil_events_close(hil_events *e)
{
    if (!e) return;
    if (e->file) fclose(e->file);
    hil_text_free(&e->summary);
    hil_text_free(&e->event);
    hil_free(e);
}
