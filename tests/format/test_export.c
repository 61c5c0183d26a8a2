/* Weights are written in as many shards as their size needs, and replace earlier ones. */
#include "format/export.h"
#include "format/sidecar_files.h"
#include "format/model_folder.h"
#include "check.h"
#include "same_bytes.h"

static char folder[] = "/tmp/hil-export-XXXXXX", other[] = "/tmp/hil-export-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[HIL_PATH_MAX];
    CHECK_OK(hil_path_join(path, folder, name));
    return path;
}

static const hil_export_tensor tensors[] = {
    {"b", HIL_BF16, {2, {3, 100}}}, /* 600 bytes */
    {"a", HIL_F32, {1, {50}}},      /* 200 bytes */
    {"c", HIL_F16, {1, {0}}},
    {"big", HIL_F32, {2, {1500, 1000}}}, /* 6 MB: more than one piece */
    {"d", HIL_F32, {1, {25}}},           /* 100 bytes */
};
static size_t fail_after;

#define GOLDEN HIL_TESTS "/golden/formats/sharded"
static hil_safetensors *golden;

/* Byte k of tensor i is a function of both. */
static unsigned char byte_of(size_t i, size_t k)
{
    return (unsigned char)(i * 77 + k * 31 + k / 256 + k / 65536 * 7);
}

/* Returns fewer bytes than asked for, which is allowed. */
static hil_status read_bytes(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    CHECK(context == &fail_after);
    CHECK(*size <= HIL_EXPORT_PIECE);
    if (*size > 1000000) *size = 999996;
    if (fail_after && --fail_after == 0) return hil_fail(HIL_ERR_IO, "the drive is gone");
    for (size_t k = 0; k < *size; ++k) ((unsigned char *)out)[k] = byte_of(i, offset + k);
    return HIL_OK;
}

static uint64_t file_size(const char *name)
{
    hil_bytes map;
    if (!hil_file_exists(in_folder(name))) return 0;
    CHECK_OK(hil_bytes_read(&map, in_folder(name)));
    uint64_t size = map.size;
    hil_bytes_free(&map);
    return size;
}

static uint64_t all_sizes(void)
{
    char name[64];
    uint64_t sum = file_size("model.safetensors") + file_size("model.safetensors.index.json");
    for (int total = 2; total < 6; ++total)
        for (int i = 1; i <= total; ++i) {
            snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, total);
            sum += file_size(name);
        }
    return sum;
}

static void check_content(void)
{
    hil_safetensors *file;
    CHECK_OK(hil_safetensors_open_folder(&file, folder));
    CHECK_INT(hil_safetensors_count(file), 5);
    for (size_t i = 0; i < 5; ++i) {
        const hil_entry *entry = hil_safetensors_find(file, tensors[i].name);
        hil_dtype dtype;
        hil_shape shape;
        CHECK_OK(hil_entry_dtype(entry, &dtype));
        CHECK_OK(hil_entry_shape(entry, &shape));
        CHECK_INT(dtype, tensors[i].dtype);
        CHECK(hil_shape_equal(&shape, &tensors[i].shape));
        for (size_t k = 0; k < entry->bytes; ++k) {
            unsigned char byte;
            CHECK_OK(hil_entry_read(entry, k, &byte, 1));
            CHECK_INT(byte, byte_of(i, k));
        }
    }
    hil_safetensors_close(file);
}

/* Writes with at most `most` bytes in a file, and expects `last` as the last file. */
static void check_write(size_t most, const char *last)
{
    hil_export export = {tensors, 5, most, NULL, read_bytes, &fail_after};
    uint64_t promised;
    CHECK_OK(hil_install_remove(folder, HIL_NAMES_WRITTEN));
    CHECK_OK(hil_export_bytes(&export, &promised));
    CHECK_OK(hil_export_write(&export, folder));
    check_content();
    CHECK_INT(all_sizes(), promised); /* and no file of an earlier export is left */
    CHECK(hil_file_exists(in_folder(last)));
}

/* A write that fails at any piece or allocation leaves whole files or none. */
static void check_failures(void)
{
    hil_export shards = {tensors, 5, 800, NULL, read_bytes, &fail_after};
    hil_safetensors *file;
    uint64_t size = 0;
    CHECK_OK(hil_install_remove(folder, HIL_NAMES_WRITTEN));
    for (size_t n = 1; n < 5; ++n) {
        fail_after = n;
        CHECK_FAILS(hil_export_write(&shards, folder), HIL_ERR_IO, "the drive is gone");
        CHECK_FAILS(hil_safetensors_open_folder(&file, folder), HIL_ERR_INPUT, "no weights");
    }
    fail_after = 0;
    for (long n = 1;; ++n) {
        hil_alloc_fail_at(n);
        hil_status status = hil_export_write(&shards, folder);
        if (status == HIL_OK) status = hil_export_bytes(&shards, &size);
        hil_alloc_fail_at(0);
        if (status == HIL_OK) break;
        CHECK_INT(status, HIL_ERR_MEMORY);
        CHECK(n < 1000);
    }
    check_content();
    CHECK_INT(all_sizes(), size);
}

static void check_copy(void)
{
    char path[HIL_PATH_MAX];
    CHECK_OK(hil_file_write(in_folder("tokenizer.json"), "one", 3));
    CHECK_OK(hil_file_write(in_folder("merges.txt"), "", 0));
    CHECK_OK(hil_file_write(in_folder("config.json"), "{}", 2));
    hil_sidecar_files files = {0};
    CHECK_OK(hil_sidecar_files_read(&files, folder));
    CHECK_INT(hil_sidecar_files_bytes(&files), 5);
    CHECK_OK(hil_file_write(in_folder("tokenizer.json"), "another", 7)); /* too late */
    CHECK_OK(hil_file_remove_tree(in_folder("merges.txt")));
    CHECK_OK(hil_sidecar_files_write(&files, other));
    hil_sidecar_files_free(&files);
    CHECK_OK(hil_path_join(path, other, "tokenizer.json"));
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, path));
    CHECK_INT(map.size, 3);
    hil_bytes_free(&map);
    CHECK_OK(hil_path_join(path, other, "merges.txt"));
    CHECK(hil_file_exists(path));
    CHECK_OK(hil_path_join(path, other, "config.json"));
    CHECK(!hil_file_exists(path));
    CHECK_OK(hil_path_join(path, other, "model.safetensors.index.json"));
    CHECK(!hil_file_exists(path));
}

/* The weights of a folder written by transformers get the same index. */
static hil_status read_golden(void *context, size_t i, size_t offset, size_t *size, void *out)
{
    const hil_export_tensor *tensor = &((hil_export_tensor *)context)[i];
    return hil_entry_read(hil_safetensors_find(golden, tensor->name), offset, out, *size);
}

static void check_index(void)
{
    static const char *const block[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
        "mlp.down_proj",    "input_layernorm",  "post_attention_layernorm"};
    hil_export_tensor list[21];
    char name[21][80] = {"model.embed_tokens.weight"};
    for (int i = 0; i < 18; ++i)
        snprintf(name[1 + i], 80, "model.layers.%d.%s.weight", i / 9, block[i % 9]);
    snprintf(name[19], 80, "model.norm.weight");
    snprintf(name[20], 80, "lm_head.weight");
    CHECK_OK(hil_safetensors_open_folder(&golden, GOLDEN));
    for (int i = 0; i < 21; ++i) {
        const hil_entry *entry = hil_safetensors_find(golden, name[i]);
        list[i].name = name[i];
        CHECK_OK(hil_entry_dtype(entry, &list[i].dtype));
        CHECK_OK(hil_entry_shape(entry, &list[i].shape));
    }
    hil_export export = {list, 21, 2000, NULL, read_golden, list};
    CHECK_OK(hil_export_write(&export, other));
    static const char *const files[] = {
        "model.safetensors.index.json", "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"};
    for (int i = 0; i < 4; ++i) {
        char ours[HIL_PATH_MAX], theirs[HIL_PATH_MAX];
        CHECK_OK(hil_path_join(ours, other, files[i]));
        CHECK_OK(hil_path_join(theirs, GOLDEN, files[i]));
        check_same_bytes(ours, theirs);
    }
    hil_safetensors_close(golden);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL && mkdtemp(other) != NULL);
    check_write(0, "model.safetensors");
    check_write(800, "model-00003-of-00003.safetensors");
    check_write(799, "model-00004-of-00004.safetensors");
    check_write(7000000, "model.safetensors");
    check_failures();
    check_copy();
    check_index();
    CHECK_OK(hil_file_remove_tree(folder));
    CHECK_OK(hil_file_remove_tree(other));
    return 0;
}
