/* Data from Parquet files: the windows are those of JSONL files with the same rows, in every format
   of records; what is refused names the file, and the column or the row. */
#include "data/fixture.h"
#include "data/record.h"

#define GOLDEN HIL_TESTS "/golden/parquet/"

enum { SEQ = 64, LONG = 256 };

static hil_dataset_options options_for(hil_record_format format, bool chat)
{
    hil_dataset_options options = fixture_options(SEQ);
    options.format = format;
    if (chat) options.chat = fixture_folder;
    return options;
}

static hil_dataset *open_golden(const char *name, const hil_dataset_options *options)
{
    char path[512];
    const char *given = path;
    hil_dataset *dataset;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    CHECK_OK(hil_dataset_open(&dataset, &given, 1, options));
    return dataset;
}

/* Tokens, targets, positions and documents of all windows are the same. */
static void check_same(const char *set, hil_record_format format, bool chat)
{
    hil_dataset_options options = options_for(format, chat);
    if (strcmp(set, "alpaca") == 0) options.seq = LONG; /* Stanford's prompt is long */
    char name[64];
    snprintf(name, sizeof name, "records_%s.parquet", set);
    hil_dataset *table = open_golden(name, &options);
    snprintf(name, sizeof name, "records_%s.jsonl", set);
    hil_dataset *lines = open_golden(name, &options);
    int64_t count = hil_dataset_windows(table);
    CHECK(count > 0);
    CHECK_INT(count, hil_dataset_windows(lines));
    CHECK_INT(hil_dataset_tokens(table), hil_dataset_tokens(lines));
    for (int64_t w = 0; w < count; ++w) {
        int32_t a[4][LONG] = {0}, b[4][LONG] = {0};
        CHECK_OK(hil_dataset_window(table, w, &(hil_window){a[0], a[1], a[2], a[3]}));
        CHECK_OK(hil_dataset_window(lines, w, &(hil_window){b[0], b[1], b[2], b[3]}));
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
    hil_dataset_close(table);
    hil_dataset_close(lines);
}

static void check_refused(const char *name, hil_record_format format, const char *words)
{
    hil_dataset_options options = options_for(format, true);
    hil_dataset *dataset;
    char path[512];
    const char *given = path;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    CHECK_FAILS(hil_dataset_open(&dataset, &given, 1, &options), HIL_ERR_INPUT, words);
    CHECK(strstr(hil_status_message(), name) != NULL);
}

static void check_formats(void)
{
    for (int chat = 0; chat < 2; ++chat) {
        check_same("text", HIL_FORMAT_AUTO, chat);
        check_same("text", HIL_FORMAT_TEXT, chat);
        check_same("completion", HIL_FORMAT_AUTO, chat);
        check_same("alpaca", HIL_FORMAT_AUTO, chat);
        check_same("strings", HIL_FORMAT_PREFERENCE, chat);
    }
    check_same("messages", HIL_FORMAT_AUTO, true);
    check_same("messages", HIL_FORMAT_MESSAGES, true);
    check_same("sharegpt", HIL_FORMAT_AUTO, true);
    check_same("pairs", HIL_FORMAT_PREFERENCE, true);
}

static void check_refusals(void)
{
    check_refused("records_strings.parquet", HIL_FORMAT_AUTO, "is for --loss dpo");
    check_refused("records_text.parquet", HIL_FORMAT_PREFERENCE,
                  "records_text.parquet: expected \"chosen\" and \"rejected\", found \"text\", ");
    check_refused("kinds-none-v1.parquet", HIL_FORMAT_AUTO, "pandas renames columns");
    check_refused("texts-none-v1.parquet", HIL_FORMAT_AUTO,
                  "texts-none-v1.parquet row 8: expected either \"text\" or both \"prompt\" and "
                  "\"completion\", found \"text\" (null)");
    check_refused("chats-none-v1.parquet", HIL_FORMAT_AUTO,
                  "row 2: expected \"messages\", found \"messages\" (null)");
    check_refused("empty-a.parquet", HIL_FORMAT_AUTO, "is empty: no tokens to train on");
    check_refused("bad_brotli.parquet", HIL_FORMAT_AUTO,
                  "column \"text\" is compressed with BROTLI");
}

int main(void)
{
    fixture_create();
    fixture_text("chat_template.jinja",
                 "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
                 "{% if add_generation_prompt %}a:{% endif %}");
    check_formats();
    check_refusals();
    return 0;
}
