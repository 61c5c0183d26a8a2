/* Compressed text and JSONL give the tokens of their content; damage is an error. */
#include "data/fixture.h"

#include <zlib.h>
#include <zstd.h>

#define ROOM ((size_t)8 << 20)

static char *packed; /* ROOM bytes */

static size_t pack_gzip(char *out, const char *text, size_t size)
{
    z_stream stream = {0};
    CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)out;
    stream.avail_out = (uInt)ROOM;
    CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    size_t done = stream.total_out;
    deflateEnd(&stream);
    return done;
}

static size_t pack_zstd_with(char *out, const char *text, size_t size, int window)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    CHECK(context != NULL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    if (window) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
    ZSTD_outBuffer to = {out, ROOM, 0};
    ZSTD_inBuffer from = {text, size, 0};
    CHECK(!ZSTD_isError(ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue)));
    CHECK(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end) == 0);
    ZSTD_freeCCtx(context);
    return to.pos;
}

static size_t pack_zstd(char *out, const char *text, size_t size)
{
    return pack_zstd_with(out, text, size, 0);
}

static const struct format {
    const char *suffix, *wrong_name;
    size_t (*pack)(char *out, const char *text, size_t size);
} formats[] = {{".gz", "not gzip", pack_gzip}, {".zst", "not zstd", pack_zstd}};

static const char *name_of(const char *stem, const struct format *format)
{
    static char name[64];
    snprintf(name, sizeof name, "%s%s", stem, format->suffix);
    return name;
}

static uint64_t content_of(const char *path)
{
    hil_dataset_options options = fixture_options(2);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    uint64_t content = hil_dataset_content(dataset);
    hil_dataset_close(dataset);
    return content;
}

static void check_refused(const char *path, const char *words)
{
    hil_dataset_options options = fixture_options(2);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
}

/* Lines that repeat only after a while, so that the compressed data is not tiny. */
static char *make_text(size_t size, const char *form)
{
    size_t used = 0;
    char *text = malloc(size + 100);
    CHECK(text != NULL);
    for (unsigned i = 0; used < size; ++i)
        used += (size_t)snprintf(text + used, 100, form, i * 2654435761u, i * 2654435761u % 1000);
    return text;
}

static void check_same(const struct format *format)
{
    char *text = make_text((size_t)3 << 20, "line %u of %u in a file\n");
    char *lines = make_text((size_t)3 << 20, "{\"prompt\": \"%u\", \"completion\": \"%u\"}\n");
    uint64_t plain = content_of(fixture_text("a.txt", text));
    size_t size = format->pack(packed, text, strlen(text));
    CHECK_INT(content_of(fixture_bytes(name_of("a.txt", format), packed, size)) == plain, 1);
    CHECK_INT(content_of(fixture_bytes(name_of("a", format), packed, size)) == plain, 1);
    /* Several concatenated streams, one of them empty. */
    size_t half = strlen(text) / 2 + 1;
    size = format->pack(packed, text, half);
    size += format->pack(packed + size, "", 0);
    size += format->pack(packed + size, text + half, strlen(text) - half);
    CHECK_INT(content_of(fixture_bytes(name_of("b.txt", format), packed, size)) == plain, 1);
    plain = content_of(fixture_text("a.jsonl", lines));
    size = format->pack(packed, lines, strlen(lines));
    CHECK_INT(content_of(fixture_bytes(name_of("a.jsonl", format), packed, size)) == plain, 1);
    free(text);
    free(lines);
}

static void check_damage(const struct format *format)
{
    char *text = make_text((size_t)100 << 10, "line %u of %u in a file\n");
    const char *name = name_of("d.txt", format);
    size_t size = format->pack(packed, text, strlen(text));
    for (size_t cut = 1; cut < size; cut += cut < 16 ? 1 : size / 5)
        check_refused(fixture_bytes(name, packed, size - cut), "cut off");
    for (size_t keep = 1; keep < 20; ++keep)
        check_refused(fixture_bytes(name, packed, keep), "cut off");
    for (size_t at = 0; at < size; at += size / 11) {
        packed[at] = (char)(packed[at] ^ 0x55);
        check_refused(fixture_bytes(name, packed, size), name);
        packed[at] = (char)(packed[at] ^ 0x55);
    }
    memcpy(packed + size, "something else, and longer", 26);
    check_refused(fixture_bytes(name, packed, size + 26), "follows the compressed data");
    check_refused(fixture_bytes(name, packed, size + 1), name);
    check_refused(fixture_bytes(name, "", 0), "cut off");
    check_refused(fixture_bytes(name, text, strlen(text)), format->wrong_name);
    check_refused(fixture_bytes("d.txt", packed, size), format->suffix);
    /* The content must be text. */
    size = format->pack(packed, "PAR1 and so on", 14);
    check_refused(fixture_bytes(name, packed, size), "Parquet");
    size = format->pack(packed, "nothing\0else", 12);
    check_refused(fixture_bytes(name, packed, size), "byte 7 is NUL");
    size = format->pack(packed,
                        "Stra\xDF"
                        "e nach K\xF6ln",
                        15);
    check_refused(fixture_bytes(name, packed, size), "not UTF-8");
    free(text);
}

static void check_window(void)
{
    char *text = make_text((size_t)1 << 20, "line %u of %u in a file\n");
    uint64_t plain = content_of(fixture_text("w.txt", text));
    size_t size = pack_zstd_with(packed, text, strlen(text), 23);
    CHECK_INT(content_of(fixture_bytes("w.txt.zst", packed, size)) == plain, 1);
    size = pack_zstd_with(packed, text, strlen(text), 24);
    check_refused(fixture_bytes("w.txt.zst", packed, size), "zstd -dc --long=31");
    free(text);
}

/* Some builds of the library read legacy formats, whose windows have no limit. */
static void check_old(void)
{
    static const char frame[] = "\x27\xb5\x2f\xfd\x04\x41\x48\x00\x00";
    check_refused(fixture_bytes("o.txt.zst", frame, sizeof frame - 1), "not zstd");
    size_t size = pack_zstd(packed, "some text and more of it", 24);
    memcpy(packed + size, frame, sizeof frame - 1);
    check_refused(fixture_bytes("o.txt.zst", packed, size + sizeof frame - 1), "follows");
}

typedef struct progress {
    uint64_t done, total;
    int calls;
} progress;

static hil_status watch(void *context, uint64_t done, uint64_t total)
{
    progress *p = context;
    CHECK(done >= p->done && done <= total);
    *p = (progress){done, total, p->calls + 1};
    return HIL_OK;
}

/* Progress counts bytes on disk. */
static void check_stream(const struct format *format)
{
    size_t size = (size_t)24 << 20;
    char *text = malloc(size);
    CHECK(text != NULL);
    for (size_t i = 0; i < size; ++i) text[i] = "hilbert "[i % 8];
    size_t bytes = format->pack(packed, text, size);
    const char *path = fixture_bytes(name_of("s.txt", format), packed, bytes);
    free(text);
    progress p = {0};
    hil_dataset_options options = fixture_options(2);
    options.progress = watch;
    options.context = &p;
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), size);
    hil_dataset_close(dataset);
    CHECK(p.calls > 20 && p.done == p.total && p.total == bytes);
}

int main(void)
{
    fixture_create();
    packed = malloc(ROOM);
    CHECK(packed != NULL);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
        check_same(&formats[i]);
        check_damage(&formats[i]);
        check_stream(&formats[i]);
    }
    check_window();
    check_old();
    free(packed);
    return 0;
}
