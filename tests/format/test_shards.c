/* A model folder is read from one file or from shards; an incomplete folder is refused. */
#include "base/clock.h"
#include "format/safetensors.h"
#include "in_folder.h"

#define GOLDEN HIL_TESTS "/golden/formats/sharded"
#define INDEX "model.safetensors.index.json"

static void put(const char *name, const char *text)
{
    CHECK_OK(hil_file_write(in_folder(name), text, strlen(text)));
}

/* A file with tensors prefix0 .. prefix<count-1> of one fp32 number each, its own index. */
static void put_tensors(const char *file, const char *prefix, int count)
{
    hil_safetensors_writer *writing;
    hil_shape one = {1, {1}};
    char name[64];
    CHECK_OK(hil_safetensors_writer_create(&writing, in_folder(file)));
    for (int i = 0; i < count; ++i) {
        snprintf(name, sizeof name, "%s%d", prefix, i);
        CHECK_OK(hil_safetensors_writer_declare(writing, name, HIL_F32, &one));
    }
    CHECK_OK(hil_safetensors_writer_begin(writing));
    while (hil_safetensors_writer_next(writing)) {
        float value = (float)hil_safetensors_writer_next_index(writing);
        CHECK_OK(hil_safetensors_writer_data(writing, &value, sizeof value));
    }
    CHECK_OK(hil_safetensors_writer_commit(writing));
    hil_safetensors_writer_destroy(writing);
}

static void refuse_index(const char *index, const char *words)
{
    hil_safetensors *file;
    put(INDEX, index);
    CHECK_FAILS(hil_safetensors_open_folder(&file, folder), HIL_ERR_INPUT, words);
    CHECK(file == NULL);
}

/* Written by transformers with a shard size of 2 KB; 5536 is the total_size in its index. */
static void check_golden(void)
{
    hil_safetensors *file;
    size_t bytes = 0;
    hil_shape shape;
    CHECK_OK(hil_safetensors_open_folder(&file, GOLDEN));
    CHECK_INT(hil_safetensors_count(file), 21);
    for (size_t i = 0; i < hil_safetensors_count(file); ++i) {
        const hil_entry *entry = hil_safetensors_at(file, i);
        bytes += entry->bytes;
        CHECK(hil_safetensors_find(file, entry->name) == entry);
    }
    CHECK_INT(bytes, 5536);
    CHECK_OK(
        hil_entry_shape(hil_safetensors_find(file, "model.layers.1.mlp.up_proj.weight"), &shape));
    CHECK_INT(shape.dim[0], 12);
    CHECK_INT(shape.dim[1], 8);
    hil_safetensors_close(file);
}

static void check_bad_folders(void)
{
    hil_safetensors *file;
    CHECK_FAILS(hil_safetensors_open_folder(&file, "/no/such/folder"), HIL_ERR_INPUT, "no such");
    CHECK_FAILS(hil_safetensors_open_folder(&file, folder), HIL_ERR_INPUT, "no weights");
    put("pytorch_model.bin", "");
    CHECK_FAILS(hil_safetensors_open_folder(&file, folder), HIL_ERR_INPUT, "no zip archive");

    put_tensors("one.safetensors", "a", 3);
    refuse_index("{", "not valid JSON");
    refuse_index("[]", "no weight_map");
    refuse_index("{\"weight_map\":{}}", "no weight_map");
    refuse_index("{\"weight_map\":{\"a0\":1}}", "\"a0\" has no file name");
    refuse_index("{\"weight_map\":{\"a0\":\"../one.safetensors\"}}", "not a file of this folder");
    refuse_index("{\"weight_map\":{\"a0\":\"/etc/passwd\"}}", "not a file of this folder");
    refuse_index("{\"weight_map\":{\"a0\":\"..\"}}", "not a file of this folder");
    refuse_index("{\"weight_map\":{\"a0\":\"\"}}", "not a file of this folder");
    refuse_index("{\"weight_map\":{\"a0\":\"one.safetensors\",\"b\":\"two.safetensors\"}}",
                 "two.safetensors: missing");
    refuse_index("{\"weight_map\":{\"a0\":\"one.safetensors\",\"b\":\"one.safetensors\"}}",
                 "\"b\" is not in one.safetensors");
    put("two.safetensors", "12345678");
    refuse_index("{\"weight_map\":{\"a0\":\"one.safetensors\",\"b\":\"two.safetensors\"}}",
                 "two.safetensors: ");
}

/* Only tensors that the index names are visible, shard by shard. */
static void check_order(void)
{
    hil_safetensors *file;
    put_tensors("two.safetensors", "b", 2);
    put(INDEX,
        "{\"metadata\":{},\"weight_map\":{\"b1\":\"two.safetensors\","
        "\"a2\":\"one.safetensors\",\"b0\":\"two.safetensors\",\"a1\":\"one.safetensors\"}}");
    CHECK_MEMORY(hil_safetensors_open_folder(&file, folder));
    static const char *const order[] = {"a1", "a2", "b0", "b1"};
    CHECK_INT(hil_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; ++i) CHECK_TEXT(hil_safetensors_at(file, i)->name, order[i]);
    CHECK(hil_safetensors_find(file, "a0") == NULL);
    hil_safetensors_close(file);

    put_tensors("model.safetensors", "c", 1);
    CHECK_OK(hil_safetensors_open_folder(&file, folder));
    CHECK(hil_safetensors_find(file, "c0") != NULL);
    hil_safetensors_close(file);
}

/* As many tensors as the largest public index has: opening and finding all is fast. */
static void check_many(void)
{
    enum { COUNT = 22213 };
    hil_safetensors *file;
    char name[64];
    put_tensors("model.safetensors", "model.language_model.layers.", COUNT);
    double start = hil_clock_now();
    CHECK_OK(hil_safetensors_open_folder(&file, folder));
    for (int i = 0; i < COUNT; ++i) {
        float value;
        snprintf(name, sizeof name, "model.language_model.layers.%d", i);
        CHECK_OK(hil_entry_read(hil_safetensors_find(file, name), 0, &value, sizeof value));
        CHECK(value == (float)i);
    }
    hil_safetensors_close(file);
    double seconds = hil_clock_now() - start;
    fprintf(stderr, "%d tensors opened and found in %.3f s\n", COUNT, seconds);
    CHECK(seconds < 10);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    check_golden();
    check_bad_folders();
    check_order();
    check_many();
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
