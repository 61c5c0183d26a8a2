/* text_check.c - finds magic bytes and NULs, counts invalid UTF-8. */
#include "data/text_check.h"

#include "data/file_type.h"
#include "text/unicode/unicode.h"

#include <string.h>

#define NAMED(suffix) "if it is text inside, its name must end with " suffix
#define NO_TEXT "name text, JSONL or .npy files"

static const struct magic {
    size_t offset, size;
    const char *bytes, *what, *advice;
} magics[] = {
    {0, 2, "\x1F\x8B", "gzip", NAMED(".gz")},
    {0, 4, "\x28\xB5\x2F\xFD", "zstd", NAMED(".zst")},
    {0, 6,
     "\xFD"
     "7zXZ",
     "xz", "decompress it first (xz -d)"},
    {4, 6, "1AY&SY", "bzip2", "decompress it first (bzip2 -d)"},
    {0, 4, "\x04\x22\x4D\x18", "LZ4", "decompress it first (lz4 -d)"},
    {0, 6, "7z\xBC\xAF\x27\x1C", "a 7-Zip archive", "unpack it first"},
    {0, 6, "Rar!\x1A\x07", "a RAR archive", "unpack it first"},
    {0, 4, "PK\x03\x04", "a zip archive (or .docx, .xlsx, .npz, a PyTorch file)", NO_TEXT},
    {257, 5, "ustar", "a tar archive", "unpack it (tar xf) and name the folder"},
    {0, 4, "PAR1", "Parquet", "its name must end with .parquet"},
    {0, 6, "ARROW1", "Arrow", "its name must end with .arrow"},
    {0, 4, "Obj\x01", "Avro", NO_TEXT},
    {0, 4,
     "\x7F"
     "ELF",
     "a program", NO_TEXT},
    {0, 5, "%PDF-", "PDF", "export its text first"},
    {0, 16, "SQLite format 3", "an SQLite database", NO_TEXT},
    {0, 4, "\x89PNG", "a PNG image", NO_TEXT},
    {0, 3, "\xFF\xD8\xFF", "a JPEG image", NO_TEXT},
    {0, 4, "GIF8", "a GIF image", NO_TEXT},
    {0, 6, "\x93NUMPY", "a NumPy array", "token ids must have a name that ends with .npy"},
    {0, 8, "\x89HDF\r\n\x1A\n", "HDF5", NO_TEXT},
    {0, 4, "GGUF", "GGUF", NO_TEXT},
    {0, 2, "\x80\x02", "a pickle", NO_TEXT},
    {0, 2, "\x80\x03", "a pickle", NO_TEXT},
    {0, 2, "\x80\x04", "a pickle", NO_TEXT},
    {0, 2, "\x80\x05", "a pickle", NO_TEXT},
    {0, 2, "\xFF\xFE", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8"},
    {0, 2, "\xFE\xFF", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8"},
};

/* Eight bytes of size, of which the last three are 0, then a header of JSON. */
static bool is_safetensors(const char *bytes, size_t size)
{
    return size > 10 && bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0 && bytes[8] == '{' &&
           (bytes[9] == '"' || bytes[9] == '}' || bytes[9] == ' ');
}

static hil_status check_head(const char *path, const char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; ++i) {
        const struct magic *magic = &magics[i];
        if (size < magic->offset + magic->size) continue;
        if (memcmp(bytes + magic->offset, magic->bytes, magic->size) != 0) continue;
        return hil_fail(HIL_ERR_INPUT, "%s holds %s, not text: %s", path, magic->what,
                        magic->advice);
    }
    if (is_safetensors(bytes, size))
        return hil_fail(HIL_ERR_INPUT, "%s holds safetensors, not text: " NO_TEXT, path);
    return HIL_OK;
}

static hil_status fail_bad(const hil_text_check *content)
{
    return hil_fail(HIL_ERR_INPUT,
                    "%s: %llu of %llu bytes are not UTF-8, more than 1%% of the file; convert it "
                    "first, for example with iconv -f LATIN1 -t UTF-8",
                    content->path, (unsigned long long)content->bad,
                    (unsigned long long)content->seen);
}

/* Counts invalid UTF-8 in at least the first `least` bytes; returns where it stopped, at the latest
   before an incomplete character. */
static size_t count_bad(hil_text_check *content, const char *bytes, size_t size, size_t least)
{
    size_t at = 0;
    while (at < least) {
        size_t bad;
        at += hil_utf8_check(bytes + at, size - at, &bad);
        if (at == size || bad == 0) break;
        content->bad += bad;
        at += bad;
    }
    return at;
}

static void count_piece(hil_text_check *content, const char *bytes, size_t size)
{
    size_t held = content->tail_size, start = 0;
    if (held) {
        char seam[8];
        size_t more = size < 4 ? size : 4;
        memcpy(seam, content->tail, held);
        memcpy(seam + held, bytes, more);
        size_t end = count_bad(content, seam, held + more, held);
        if (end < held) { /* the character is still incomplete */
            content->tail_size = held + more - end;
            memmove(content->tail, seam + end, content->tail_size);
            return;
        }
        start = end - held;
    }
    size_t end = start + count_bad(content, bytes + start, size - start, size - start);
    content->tail_size = size - end;
    memcpy(content->tail, bytes + end, content->tail_size);
}

hil_status hil_text_check_add(hil_text_check *content, const char *bytes, size_t size)
{
    if (size == 0) return HIL_OK;
    if (content->seen == 0) HIL_TRY(check_head(content->path, bytes, size));
    const char *nul = memchr(bytes, 0, size);
    if (nul)
        return hil_fail(HIL_ERR_INPUT,
                        "%s is not text: byte %llu is NUL; UTF-16 must be converted first (iconv "
                        "-f UTF-16 -t UTF-8), token ids must have a name that ends with .npy",
                        content->path, (unsigned long long)content->seen + (uint64_t)(nul - bytes));
    count_piece(content, bytes, size);
    content->seen += size;
    return content->most_bad && content->bad > content->most_bad ? fail_bad(content) : HIL_OK;
}

hil_status hil_text_check_end(hil_text_check *content)
{
    content->bad += content->tail_size;
    content->tail_size = 0;
    return content->bad > content->seen / 100 ? fail_bad(content) : HIL_OK;
}
