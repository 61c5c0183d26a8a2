/* Files of torch.save as weights: every byte of every tensor is that of the safetensors file beside
   it; what is refused says so by name; any damage is refused or changes only numbers. */
#include "check.h"
#include "format/torch_file.h"
#include "format/torch_weights.h"
#include "io/file.h"

#define GOLDEN HIL_TESTS "/golden/torch/"

/* Both files have the same tensors, to the byte. */
static void check_same(const hil_safetensors *file, const hil_safetensors *golden)
{
    CHECK_INT(hil_safetensors_count(file), hil_safetensors_count(golden));
    for (size_t i = 0; i < hil_safetensors_count(golden); ++i) {
        const hil_entry *wanted = hil_safetensors_at(golden, i);
        const hil_entry *entry = hil_safetensors_find(file, wanted->name);
        char left[1024], right[1024];
        CHECK(entry != NULL && wanted->bytes <= sizeof left);
        CHECK_TEXT(entry->dtype, wanted->dtype);
        CHECK_INT(entry->ndim, wanted->ndim);
        for (int k = 0; k < entry->ndim; ++k) CHECK_INT(entry->dim[k], wanted->dim[k]);
        CHECK_INT(entry->bytes, wanted->bytes);
        CHECK_OK(hil_entry_read(wanted, 0, left, wanted->bytes));
        for (size_t first = 0; first < entry->bytes; first += 7) {
            size_t some = entry->bytes - first < 7 ? entry->bytes - first : 7;
            CHECK_OK(hil_entry_read(entry, first, right + first, some));
        }
        CHECK(memcmp(left, right, entry->bytes) == 0);
    }
}

static void check_weights(void)
{
    hil_safetensors *file, *golden;
    CHECK_OK(hil_safetensors_open(&golden, GOLDEN "weights.safetensors"));
    CHECK_OK(hil_torch_weights_open(&file, GOLDEN "weights.bin"));
    check_same(file, golden);
    CHECK_INT(hil_safetensors_find(file, "tied")->offset,
              hil_safetensors_find(file, "float")->offset);
    hil_safetensors_close(file);
    hil_safetensors_close(golden);
}

static void check_folder(void)
{
    hil_safetensors *file, *golden;
    CHECK_OK(hil_safetensors_open_folder(&golden, HIL_TESTS "/golden/formats/sharded"));
    CHECK_OK(hil_safetensors_open_folder(&file, GOLDEN "model"));
    CHECK(hil_safetensors_in_folder(GOLDEN "model") && !hil_safetensors_in_folder(GOLDEN));
    check_same(file, golden);
    hil_safetensors_close(file);
    hil_safetensors_close(golden);
}

static void refuse(const char *name, const char *words)
{
    hil_safetensors *file;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s", name);
    CHECK_FAILS(hil_torch_weights_open(&file, path), HIL_ERR_INPUT, words);
    CHECK(file == NULL && strstr(hil_status_message(), name) != NULL);
}

static void check_refusals(void)
{
    hil_safetensors *file;
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
    refuse("refused-legacy.bin", "PyTorch before 1.6");
    refuse("refused-transposed.bin", "tensor \"turned\": ");
    refuse("refused-transposed.bin", "it is not contiguous");
    refuse("refused-list.bin", "holds no tensors with names");
    refuse("refused-call.bin", "holds no tensors with names");
    refuse("refused-complex.bin", "tensor \"a\": ");
    refuse("refused-complex.bin", "it is of a type that is not known");
    refuse("weights.safetensors", "it is no zip archive");
    CHECK_FAILS(hil_torch_weights_parse(&file, pointer, sizeof pointer - 1, "x"), HIL_ERR_INPUT,
                "x: a Git LFS pointer");
    CHECK_FAILS(hil_torch_weights_parse(&file, "", 0, "x"), HIL_ERR_INPUT, "no zip archive");
}

/* A class may be named by texts that are used again and again, so names are short. */
static hil_status parse_class(unsigned char size)
{
    char bytes[4 + 255 + 6] = {(char)0x80, 2, 'U', (char)size};
    hil_pickle pickle;
    memset(bytes + 4, 'n', size);
    memcpy(bytes + 4 + size, "q\0h\0\x93.", 6);
    HIL_TRY(hil_pickle_parse(&pickle, bytes, (size_t)size + 10, "memory"));
    CHECK(pickle.root->kind == HIL_PICKLE_GLOBAL && strlen(pickle.root->text) == 2u * size + 1);
    hil_pickle_free(&pickle);
    return HIL_OK;
}

static void check_class(void)
{
    CHECK_OK(parse_class(1));
    CHECK_OK(parse_class(200));
    CHECK_FAILS(parse_class(201), HIL_ERR_INPUT, "a class has a name that is too long at byte");
}

/* Cut off anywhere, the file has no directory any more; with any byte changed it is refused, or all
   of its tensors can still be read. */
static void check_damage(void)
{
    hil_bytes bytes;
    hil_safetensors *file;
    char part[1024];
    CHECK_OK(hil_bytes_read(&bytes, GOLDEN "weights.bin"));
    for (size_t size = 0; size < bytes.size; size += CHECK_SLOW ? 97 : 7)
        CHECK(hil_torch_weights_parse(&file, bytes.data, size, "cut") == HIL_ERR_INPUT);
    for (size_t at = 0; at < bytes.size; at += CHECK_SLOW ? 31 : 3) {
        bytes.data[at] ^= 0x55;
        if (hil_torch_weights_parse(&file, bytes.data, bytes.size, "changed") == HIL_OK) {
            for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
                const hil_entry *entry = hil_safetensors_at(file, i);
                CHECK_OK(hil_entry_read(entry, 0, part, entry->bytes < 1024 ? entry->bytes : 1024));
            }
            hil_safetensors_close(file);
        }
        bytes.data[at] ^= 0x55;
    }
    hil_bytes_free(&bytes);
}

static hil_status open_close(const char *path)
{
    hil_safetensors *file;
    hil_status status = hil_torch_weights_open(&file, path);
    hil_safetensors_close(file);
    return status;
}

int main(void)
{
    check_weights();
    check_folder();
    check_refusals();
    check_class();
    check_damage();
    CHECK_MEMORY(open_close(GOLDEN "weights.bin"));
    return 0;
}
