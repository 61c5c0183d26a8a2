/* fuzz_decompress.c - any bytes as gzip or zstd, by the first of them: the same bytes or refusal in
   pieces of any size. */
#include "data/decompress.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST = 1 << 20 }; /* of decompressed bytes that are looked at */

typedef struct result {
    uint64_t hash, bytes;
    hil_status status;
    bool whole;
} result;

/* `piece` bytes go in and at most `room` come out at a time. */
static result unpack(const hil_decompressor *format, const uint8_t *bytes, size_t size,
                     size_t piece, size_t room)
{
    char out[4096];
    void *engine = NULL;
    result r = {0};
    hil_decompress_io io = {0};
    r.status = format->open(&engine);
    assert(r.status == HIL_OK);
    for (size_t at = 0; at < size && r.status == HIL_OK && r.bytes < MOST; at += piece) {
        io.in = (const char *)bytes + at;
        io.in_left = piece < size - at ? piece : size - at;
        do {
            io.out = out;
            io.out_left = room;
            r.status = format->run(engine, "input", &io, &r.whole);
            size_t got = room - io.out_left;
            for (size_t i = 0; i < got; ++i) r.hash = r.hash * 31 + (unsigned char)out[i];
            r.bytes += got;
        } while (r.status == HIL_OK && r.bytes < MOST && (io.in_left || io.out_left == 0));
    }
    format->close(engine);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) return 0;
    const hil_decompressor *format = bytes[0] & 1 ? &hil_decompress_zstd : &hil_decompress_gzip;
    result whole = unpack(format, bytes + 1, size - 1, size, 4096);
    result pieces = unpack(format, bytes + 1, size - 1, 1 + bytes[0] / 32, 1 + bytes[0] % 64);
    if (whole.bytes >= MOST || pieces.bytes >= MOST) return 0;
    /* A frame that is wrong and cut short may be called either, by where the cut is. */
    bool taken = whole.status == HIL_OK && whole.whole;
    if (taken != (pieces.status == HIL_OK && pieces.whole)) __builtin_trap();
    if (taken && (whole.hash != pieces.hash || whole.bytes != pieces.bytes)) __builtin_trap();
    return 0;
}
