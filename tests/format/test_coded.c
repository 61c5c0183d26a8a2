/* Matrices in the forms of GPTQ and AWQ are the numbers that PyTorch makes of their codes, to the
   bit, however they are read; tensors that do not fit together are refused by name. */
#include "check.h"
#include "format/coded.h"
#include "format/stacked.h"
#include "model/config/config_text.h"

#define GOLDEN HIL_TESTS "/golden/coded/"

/* The tensors of `file` have the bits of those in the folder FORM.plain, in pieces of any size. */
static void check_numbers(const hil_safetensors *file, const char *form)
{
    char plain[512];
    hil_safetensors *golden;
    snprintf(plain, sizeof plain, GOLDEN "%s.plain", form);
    CHECK_OK(hil_safetensors_open_folder(&golden, plain));
    CHECK_INT(hil_safetensors_count(file), hil_safetensors_count(golden));
    for (size_t i = 0; i < hil_safetensors_count(golden); ++i) {
        const hil_entry *wanted = hil_safetensors_at(golden, i);
        const hil_entry *entry = hil_safetensors_find(file, wanted->name);
        char left[2048], right[2048];
        CHECK(entry && wanted->bytes <= sizeof left);
        CHECK_TEXT(entry->dtype, wanted->dtype);
        CHECK_INT(entry->ndim, wanted->ndim);
        for (int k = 0; k < entry->ndim; ++k) CHECK_INT(entry->dim[k], wanted->dim[k]);
        CHECK_OK(hil_entry_read(wanted, 0, left, wanted->bytes));
        for (size_t piece = 1; piece <= wanted->bytes; piece = piece * 5 + 2) {
            memset(right, 0, sizeof right);
            for (size_t at = 0; at < wanted->bytes; at += piece) {
                size_t some = wanted->bytes - at < piece ? wanted->bytes - at : piece;
                CHECK_OK(hil_entry_read(entry, at, right + at, some));
            }
            CHECK(memcmp(left, right, wanted->bytes) == 0);
        }
    }
    hil_safetensors_close(golden);
}

static void check_form(const char *form)
{
    char path[512];
    hil_config config;
    hil_safetensors *file;
    snprintf(path, sizeof path, GOLDEN "%s", form);
    CHECK_OK(hil_config_open(&config, path));
    CHECK(config.packing.method != HIL_PACKING_NONE);
    CHECK_OK(hil_stacked_open(&file, path, &config));
    check_numbers(file, form);
    hil_safetensors_close(file);
}

/* The same weights in a folder with images, whose config.json says of the whole how they are kept.
 */
static void check_whole(void)
{
    hil_config config;
    hil_bytes bytes;
    json_t *text;
    hil_safetensors *file;
    CHECK_OK(hil_bytes_read(&bytes, GOLDEN "awq/config.json"));
    CHECK_OK(hil_json_parse(bytes.data, bytes.size, "awq", &text));
    json_t *form = json_incref(json_object_get(text, "quantization_config"));
    json_object_del(text, "quantization_config");
    json_t *whole = json_pack("{s:s,s:o,s:o}", "model_type", "llava", "text_config", text,
                              "quantization_config", form);
    hil_bytes_free(&bytes);
    bytes.data = json_dumps(whole, 0);
    bytes.size = strlen(bytes.data);
    CHECK_OK(hil_config_parse(&config, bytes.data, bytes.size, "llava"));
    CHECK(config.packing.method == HIL_PACKING_AWQ && config.whole[0]);
    CHECK_OK(hil_stacked_open(&file, GOLDEN "awq", &config));
    check_numbers(file, "awq");
    hil_safetensors_close(file);
    CHECK_OK(hil_config_text_write(&bytes));
    CHECK(!strstr(bytes.data, "quantization_config"));
    hil_bytes_free(&bytes);
    json_object_set_new(form, "bits", json_integer(3));
    char *refused = json_dumps(whole, 0);
    CHECK_FAILS(hil_config_parse(&config, refused, strlen(refused), "llava"), HIL_ERR_INPUT,
                "weights of awq with other than 4 bits");
    free(refused);
    json_decref(whole);
}

/* Group 0 for all inputs is how some files say that the groups are in order. */
static void check_no_order(void)
{
    const hil_quant_packing form = {HIL_PACKING_GPTQ, 4, 8, true};
    hil_safetensors *base, *file;
    hil_bytes bytes;
    size_t cleared = 0;
    CHECK_OK(hil_bytes_read(&bytes, GOLDEN "gptq/model.safetensors"));
    CHECK_OK(hil_safetensors_parse(&base, bytes.data, bytes.size, "memory"));
    for (size_t i = 0; i < hil_safetensors_count(base); ++i) {
        const hil_entry *entry = hil_safetensors_at(base, i);
        if (!strstr(entry->name, ".g_idx")) continue;
        memset(bytes.data + entry->offset, 0, entry->bytes);
        ++cleared;
    }
    CHECK_INT(cleared, 7);
    CHECK_OK(hil_coded_open(&file, base, &form));
    check_numbers(file, "gptq");
    hil_safetensors_close(file);
    hil_bytes_free(&bytes);
}

/* A file with a matrix (16, 16) in 4 bits with groups of 8, and one shape changed. */
static hil_status open_changed(const char *shapes)
{
    char header[1024], bytes[2048] = {0};
    const hil_quant_packing form = {HIL_PACKING_GPTQ, 4, 8, false};
    hil_safetensors *base, *file;
    snprintf(header, sizeof header, "{%s}", shapes);
    size_t size = strlen(header), data = 0;
    for (const char *at = header; (at = strstr(at, "\"data_offsets\":[")); ++at) {
        const char *comma = strchr(at + 16, ',');
        data = strtoul(comma + 1, NULL, 10);
    }
    bytes[0] = (char)(size & 255), bytes[1] = (char)(size >> 8);
    memcpy(bytes + 8, header, size);
    HIL_TRY(hil_safetensors_parse(&base, bytes, 8 + size + data, "memory"));
    hil_status status = hil_coded_open(&file, base, &form);
    hil_safetensors_close(file);
    return status;
}

#define TENSOR(name, dtype, shape, from, to)                                                       \
    "\"a." name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to   \
    "]}"
#define CODES TENSOR("qweight", "I32", "[2,16]", "0", "128") ","
#define ZEROS TENSOR("qzeros", "I32", "[2,2]", "128", "144") ","
#define SCALES TENSOR("scales", "F16", "[2,16]", "144", "208")

static void check_refusals(void)
{
    static const char words[] = "tensor a.qweight and those beside it are no matrix in 4 bits";
    CHECK_OK(open_changed(CODES ZEROS SCALES));
    CHECK_FAILS(open_changed(TENSOR("qweight", "I32", "[16,2]", "0", "128") "," ZEROS SCALES),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(TENSOR("qweight", "F32", "[2,16]", "0", "128") "," ZEROS SCALES),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(TENSOR("qweight", "I32", "[32]", "0", "128") "," ZEROS SCALES),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(CODES TENSOR("qzeros", "I32", "[4,1]", "128", "144") "," SCALES),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(CODES ZEROS TENSOR("scales", "F16", "[1,32]", "144", "208")),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(CODES ZEROS TENSOR("other", "F16", "[2,16]", "144", "208")),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(CODES ZEROS TENSOR("scales", "I16", "[2,16]", "144", "208")),
                HIL_ERR_INPUT, "a.scales\" has dtype I16");
    CHECK_FAILS(open_changed(CODES ZEROS SCALES "," TENSOR("weight", "F16", "[1,1]", "208", "210")),
                HIL_ERR_INPUT, words);
    CHECK_FAILS(open_changed(CODES ZEROS SCALES "," TENSOR("g_idx", "I32", "[2]", "208", "216")),
                HIL_ERR_INPUT, "a.g_idx is not a group for each of 16 inputs");
    CHECK_FAILS(
        open_changed(CODES ZEROS SCALES "," TENSOR("act.scales", "F16", "[1]", "208", "210")),
        HIL_ERR_INPUT, "tensor a.act.scales divides what an activation gives, which is");
    CHECK_FAILS(open_changed(TENSOR("qweight", "I32", "[4611686018427387904,0]", "0",
                                    "0") "," TENSOR("scales", "F16", "[2,16]", "0", "64")),
                HIL_ERR_INPUT, words);
}

int main(void)
{
    static const char *const forms[] = {"gptq", "gptq_order", "gptq_8", "gptq_2", "awq"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) check_form(forms[i]);
    check_whole();
    check_no_order();
    check_refusals();
    CHECK_MEMORY(open_changed(CODES ZEROS SCALES));
    return 0;
}
