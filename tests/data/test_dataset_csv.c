/* Data from CSV: rows are those that Python's csv module reads, however the text arrives; the
   windows are those of JSONL files with the same rows; what is refused names file and line. */
#include "base/json.h"
#include "data/separated.h"
#include "data/fixture.h"

#define GOLDEN HIL_TESTS "/golden/csv/"

enum { SEQ = 256 };

static const char *const forms[] = {"lf.csv",   "crlf.csv", "cr.csv",   "all.csv",  "words.csv",
                                    "tabs.tsv", "mark.csv", "open.csv", "blank.csv"};

static json_t *read_lines(const char *name)
{
    char path[512];
    hil_bytes bytes;
    json_t *rows = json_array();
    snprintf(path, sizeof path, GOLDEN "%s.jsonl", name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    for (char *line = bytes.data, *end; (end = strchr(line, '\n')); line = end + 1)
        CHECK(json_array_append_new(rows, json_loadb(line, (size_t)(end - line), 0, NULL)) == 0);
    hil_bytes_free(&bytes);
    return rows;
}

/* All columns of all rows. */
static void check_rows(const char *name, size_t piece, const json_t *wanted)
{
    static const char *const keys[] = {"id", "text"};
    char path[512];
    hil_bytes bytes;
    hil_separated *csv;
    json_t *row;
    int64_t line = 1;
    size_t count = 0;
    snprintf(path, sizeof path, GOLDEN "text-%s", name);
    CHECK_OK(hil_bytes_read(&bytes, path));
    const hil_separated_text text = {bytes.data, bytes.size, piece, name,
                                     strstr(name, ".tsv") ? '\t' : ','};
    CHECK_OK(hil_separated_parse(&csv, &text));
    CHECK_OK(hil_separated_select(csv, keys, 2, 4096));
    for (;; ++count) {
        CHECK_OK(hil_separated_next(csv, &row));
        if (!row) break;
        CHECK(json_equal(row, json_array_get(wanted, count)));
        CHECK(hil_separated_number(csv) > line);
        line = hil_separated_number(csv);
        json_decref(row);
    }
    CHECK_INT(count, json_array_size(wanted));
    hil_separated_close(csv);
    hil_bytes_free(&bytes);
}

static hil_dataset *open_golden(const char *name, hil_record_format format)
{
    char path[512];
    const char *given = path;
    hil_dataset *dataset;
    hil_dataset_options options = fixture_options(SEQ);
    options.format = format;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    CHECK_OK(hil_dataset_open(&dataset, &given, 1, &options));
    return dataset;
}

static void check_same(const char *name, const char *lines_name, hil_record_format format)
{
    hil_dataset *table = open_golden(name, format), *lines = open_golden(lines_name, format);
    CHECK(hil_dataset_windows(lines) > 0);
    CHECK_INT(hil_dataset_windows(table), hil_dataset_windows(lines));
    CHECK(hil_dataset_content(table) == hil_dataset_content(lines));
    hil_dataset_close(table);
    hil_dataset_close(lines);
}

static void check_windows(void)
{
    char name[64];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        snprintf(name, sizeof name, "text-%s", forms[i]);
        check_same(name, "text.jsonl", HIL_FORMAT_AUTO);
    }
    check_same("text-packed.csv.gz", "text.jsonl", HIL_FORMAT_TEXT);
    check_same("text-packed.csv.zst", "text.jsonl", HIL_FORMAT_AUTO);
    check_same("completion-crlf.csv", "completion.jsonl", HIL_FORMAT_AUTO);
    check_same("completion-tabs.tsv", "completion.jsonl", HIL_FORMAT_PROMPT);
    check_same("alpaca-crlf.csv", "alpaca.jsonl", HIL_FORMAT_AUTO);
    check_same("alpaca-tabs.tsv", "alpaca.jsonl", HIL_FORMAT_ALPACA);
    check_same("pairs-crlf.csv", "pairs.jsonl", HIL_FORMAT_PREFERENCE);
    check_same("pairs-tabs.tsv", "pairs.jsonl", HIL_FORMAT_PREFERENCE);
}

static void check_refused(const char *text, size_t size, const char *words)
{
    hil_dataset_options options = fixture_options(4);
    const char *path = fixture_bytes("table.csv", text, size);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
    CHECK(strstr(hil_status_message(), "table.csv") != NULL);
}

static void check_refusals(void)
{
    static const char nul[] = "text\na\0b\n";
#define REFUSED(text, words) check_refused(text, strlen(text), words)
    REFUSED("a,b\n1,2\n", "found \"a\", \"b\"; give the columns these names in the file's first");
    REFUSED("", "found no keys");
    REFUSED("\n\r\n", "found no keys");
    REFUSED("text,b\n\n1,2\n3\n", "line 4: this row has 1 field, the first line 2: a field with");
    REFUSED("text,b\n1,2,3\n", "line 2: this row has 3 fields");
    REFUSED("text\na, b\n", "a field with commas in it must be in quotes");
    REFUSED("text\n\"a\nb\nc", "line 2: the file ends within quotes of this row");
    REFUSED("text\n\"a\n\"b\n", "line 3: text follows a quoted field");
    REFUSED("text,text\na,b\n", "has two columns \"text\"");
    REFUSED("text,b\na,b\n\xff,c\n", "line 3: \"text\" is not UTF-8");
    REFUSED("gr\xf6\xdf,text\n1,a\n", "line 1: the name of column 1 is not UTF-8; convert");
    REFUSED("\ntext,\"a\nb\xff\"\n1,a\n", "line 2: the name of column 2 is not UTF-8");
    REFUSED("messages\n[]\n", "line 2: ");
    REFUSED("text\n", "is empty: no tokens to train on");
    REFUSED("PAR1\n", "holds Parquet, not text");
    check_refused(nul, sizeof nul - 1, "byte 6 is NUL");
    REFUSED("input_ids\n1 2\n", "must be a list of integers");
}

static hil_status read_all(const char *path)
{
    static const char *const keys[] = {"id", "text"};
    hil_separated *csv;
    json_t *row = NULL;
    HIL_TRY(hil_separated_open(&csv, path));
    hil_status status = hil_separated_select(csv, keys, 2, 4096);
    for (bool more = true; status == HIL_OK && more;) {
        status = hil_separated_next(csv, &row);
        more = row != NULL;
        json_decref(row);
    }
    hil_separated_close(csv);
    return status;
}

int main(void)
{
    fixture_create();
    json_t *rows = read_lines("text");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i)
        for (size_t piece = 1; piece < 9; piece += i + 1) check_rows(forms[i], piece, rows);
    check_rows("lf.csv", 1 << 20, rows);
    json_decref(rows);
    check_windows();
    check_refusals();
    CHECK_MEMORY(read_all(GOLDEN "text-packed.csv.gz"));
    return 0;
}
