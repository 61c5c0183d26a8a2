/* fuzz_safetensors.c - any bytes as a file: refused, or every tensor lies inside them. */
#include "format/coded.h"
#include "mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_safetensors)

/* As weights of GPTQ or AWQ: refused, or every matrix can be read. */
static void check_coded(const uint8_t *bytes, size_t size)
{
    hil_safetensors *base, *file;
    const hil_quant_packing form = {size % 2 ? HIL_PACKING_AWQ : HIL_PACKING_GPTQ, 4, 8,
                                    size % 4 < 2};
    if (hil_safetensors_parse(&base, (const char *)bytes, size, "input") != HIL_OK) return;
    if (hil_coded_open(&file, base, &form) != HIL_OK) return;
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        char part[8];
        size_t some = entry->bytes < sizeof part ? entry->bytes : sizeof part;
        hil_status status = hil_entry_read(entry, entry->bytes - some, part, some);
        assert(status == HIL_OK);
    }
    hil_safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_safetensors *file;
    check_coded(bytes, size);
    size_t sum = 0;
    if (hil_safetensors_parse(&file, (const char *)bytes, size, "input") != HIL_OK) return 0;
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        hil_shape shape;
        hil_dtype dtype;
        char text[64];
        assert(entry->offset >= 8 && entry->offset <= size);
        assert(entry->bytes <= size - entry->offset);
        assert(hil_safetensors_find(file, entry->name) == entry);
        assert(strlen(hil_entry_shape_text(entry, text)) < sizeof text);
        if (hil_entry_shape(entry, &shape) == HIL_OK && hil_entry_dtype(entry, &dtype) == HIL_OK)
            assert((size_t)hil_shape_count(&shape) * hil_dtype_size(dtype) == entry->bytes);
        sum += entry->bytes;
    }
    assert(sum <= size - 8);
    hil_safetensors_close(file);
    return 0;
}
