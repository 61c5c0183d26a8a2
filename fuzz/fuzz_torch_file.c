/* fuzz_torch_file.c - any bytes as a file of torch.save: refused, or every tensor in it can be
 * read.
 */
#include "base/alloc.h"
#include "format/torch_file.h"
#include "format/torch_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A value may contain itself, so only to a depth, and only so many. */
static void visit(const hil_torch *file, const hil_pickle_value *value, int depth, int *left)
{
    hil_torch_tensor tensor;
    int64_t whole;
    if (!value || depth == 0 || --*left < 0) return;
    (void)hil_pickle_whole(value, &whole);
    (void)hil_pickle_get(value, "step");
    (void)hil_pickle_get_index(value, 0);
    if (hil_torch_find_floats(file, value, &tensor) == HIL_OK && tensor.elements > 0) {
        float number;
        hil_status status = hil_torch_read(&tensor, tensor.elements - 1, 1, &number);
        assert(status == HIL_OK);
    }
    for (size_t i = 0; i < value->count; ++i) visit(file, value->item[i], depth - 1, left);
    visit(file, value->state, depth - 1, left);
}

static void check_pickle(const uint8_t *bytes, size_t size)
{
    hil_pickle pickle;
    if (hil_pickle_parse(&pickle, (const char *)bytes, size, "input") != HIL_OK) return;
    assert(pickle.root);
    hil_pickle_free(&pickle);
}

/* Every tensor of a file of weights has a name of its own, and its last byte can be read. */
static void check_weights(const uint8_t *bytes, size_t size)
{
    hil_safetensors *file;
    char last;
    if (hil_torch_weights_parse(&file, (const char *)bytes, size, "input") != HIL_OK) return;
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        hil_status status = HIL_OK;
        if (entry->bytes) status = hil_entry_read(entry, entry->bytes - 1, &last, 1);
        assert(status == HIL_OK && hil_safetensors_find(file, entry->name) == entry);
    }
    hil_safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_torch *file;
    int left = 2000;
    check_pickle(bytes, size);
    check_weights(bytes, size);
    if (hil_torch_parse(&file, (const char *)bytes, size, "input") != HIL_OK) return 0;
    visit(file, hil_torch_root(file), 6, &left);
    hil_torch_close(file);
    return 0;
}
