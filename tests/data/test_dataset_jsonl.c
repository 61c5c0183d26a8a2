/* JSONL and JSON arrays: what is a document and what is refused, for any split into fragments. */
#include "data/fixture.h"
#include "data/jsonl.h"

/* Each document as "[prompt|text]", NUL as '0'. */
static hil_status list_record(void *context, const hil_record *record, int64_t line)
{
    (void)line;
    hil_text *list = context;
    HIL_TRY(hil_text_print(list, "["));
    HIL_TRY(hil_text_add(list, record->prompt, record->prompt_size));
    HIL_TRY(hil_text_print(list, "|"));
    HIL_TRY(hil_text_add(list, record->text, record->text_size));
    for (size_t i = 0; i < list->size; ++i)
        if (!list->data[i]) list->data[i] = '0';
    return hil_text_print(list, "]");
}

static hil_jsonl_layout layout;

static hil_status feed(hil_text *list, const char *bytes, size_t piece, size_t line_max)
{
    hil_jsonl jsonl = {.path = layout == HIL_JSONL_LINES ? "x.jsonl" : "x.json",
                       .line_max = line_max,
                       .take = list_record,
                       .context = list,
                       .layout = layout};
    hil_status status = HIL_OK;
    for (size_t i = 0, size = strlen(bytes); i < size && status == HIL_OK; i += piece)
        status = hil_jsonl_add(&jsonl, bytes + i, piece < size - i ? piece : size - i);
    if (status == HIL_OK) status = hil_jsonl_end(&jsonl);
    hil_jsonl_free(&jsonl);
    return status;
}

static void check_documents(const char *bytes, const char *expected)
{
    for (size_t piece = 1; piece <= strlen(bytes) + 1; ++piece) {
        hil_text list = {0};
        CHECK_OK(hil_text_print(&list, "."));
        CHECK_OK(feed(&list, bytes, piece, 1000));
        CHECK_TEXT(list.data + 1, expected);
        hil_text_free(&list);
    }
}

static void check_refused(const char *bytes, const char *words)
{
    for (size_t piece = 1; piece <= strlen(bytes); ++piece) {
        hil_text list = {0};
        CHECK_FAILS(feed(&list, bytes, piece, 100), HIL_ERR_INPUT, words);
        hil_text_free(&list);
    }
}

static void check_lines(void)
{
    check_documents("", "");
    check_documents("\n\r\n \t\n", "");
    check_documents("{\"text\": \"a\"}", "[|a]");
    check_documents("{\"text\": \"a\"}\n", "[|a]");
    check_documents("{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\\n\"}\r\n", "[|a][|b\n]");
    check_documents("  {\"id\": 123456789012345678901234567890, \"text\": \"a\", \"n\": null}  ",
                    "[|a]");
    check_documents("\xEF\xBB\xBF{\"text\": \"\"}\n", "[|]");
    check_documents("{\"completion\": \"c\", \"prompt\": \"p\"}\n{\"text\":\"t\"}", "[p|c][|t]");
    check_documents("{\"text\": \"\xC3\xA9\\u00e9\\ud83d\\ude00\xF0\x9F\x98\x80\"}",
                    "[|\xC3\xA9\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80]");
    check_documents("{\"text\": \"a\\u0000b\"}", "[|a0b]");
    /* null is what is missing, as in tables of records of several kinds */
    check_documents("{\"messages\": null, \"text\": \"a\", \"prompt\": null}\n"
                    "{\"text\": null, \"prompt\": \"p\", \"completion\": \"c\"}",
                    "[|a][p|c]");
}

static void check_refusals(void)
{
    check_refused("{\"text\": \"a\"}\n\n{\"text\": \"b\"\n", "x.jsonl line 3: not valid JSON");
    check_refused("{\"text\": \"a\"} {\"text\": \"b\"}", "line 1: not valid JSON at column");
    check_refused("[\"a\"]\n", "x.jsonl line 1: not a JSON object");
    check_refused("7", "line 1: not a JSON object");
    check_refused("{\"text\": \"a\"}\n{\"text\": 7}\n", "line 2: \"text\" must be a string");
    check_refused("{\"text\": null}", "\"prompt\" and \"completion\", found \"text\" (null)");
    check_refused("{\"prompt\": \"a\", \"completion\": []}",
                  "\"completion\" must be a list of messages");
    check_refused("{\"prompt\": {}, \"completion\": \"\"}", "\"prompt\" must be a string");
    check_refused("{}", "either \"text\" or both \"prompt\" and \"completion\", found no keys");
    check_refused("{\"body\": \"a\"}", "found \"body\"");
    check_refused("{\"prompt\": \"a\"}", "found \"prompt\"");
    check_refused("{\"completion\": \"a\"}", "found \"completion\"");
    check_refused("{\"text\": \"a\", \"prompt\": \"b\"}", "found");
    check_refused("{\"text\": \"a\", \"text\": \"b\"}", "line 1: not valid JSON");
    check_refused("{\"text\": \"\xFF\"}", "line 1: not valid JSON");
    check_refused("{\"text\": \"\\ud800\"}", "line 1: not valid JSON");
    char line[128];
    memset(line, 'a', sizeof line);
    memcpy(line, "\n{\"text\":\"", 10);
    line[127] = 0;
    check_refused(line, "x.jsonl line 2: longer than 100 B");
}

/* A .json file: an array of records, or records in a row, over any lines. */
static void check_values(void)
{
    layout = HIL_JSONL_VALUES;
    check_documents("", "");
    check_documents("[]", "");
    check_documents(" \n[\r\n]\n", "");
    check_documents("[{\"text\": \"a\"}]", "[|a]");
    check_refused("\xEF[{\"text\": \"a\"}]", "x.json line 1: expected an array");
    check_refused("\xEF\xBB", "x.json line 1: expected an array");
    check_refused("\xEF \xBB\xBF{\"text\": \"a\"}", "x.json line 1: expected an array");
    check_documents("\xEF\xBB\xBF[\n  {\n    \"text\": \"a\"\n  },\n  {\"text\": \"b\"}\n]\n",
                    "[|a][|b]");
    check_documents("{\"text\": \"a\"}\n{\"text\":\n\"b\"} {\"text\": \"c\"}", "[|a][|b][|c]");
    check_documents("[{\"text\": \"]}\\\"{\\\\\", \"n\": [{}, [1]]}]", "[|]}\"{\\]");
    check_refused("[{\"text\": \"a\"},\n{\"text\":\n7 x}]", "x.json line 3: not valid JSON");
    check_refused("[{\"text\": \"a\"},\n\n{\"text\":\n7}]", "line 3: \"text\" must be a string");
    check_refused("[{\"text\": \"a\"}", "line 1: the file ends within its array");
    check_refused("[{\"text\": \"a\"},", "the file ends within its array");
    check_refused("[\n{\"text\": \"a", "line 2: the file ends within this record");
    check_refused("[{\"text\": \"a\"}]\n{}", "line 2: more text follows the array");
    check_refused("[{\"text\": \"a\"} {\"text\": \"b\"}]", "line 1: expected an array");
    check_refused("[,]", "expected an array of JSON objects");
    check_refused("[{\"text\": \"a\"},]", "expected an array of JSON objects");
    check_refused("{\"text\": \"a\"},{}", "expected an array of JSON objects");
    check_refused("[[{\"text\": \"a\"}]]", "expected an array of JSON objects");
    check_refused("7", "line 1: expected an array of JSON objects");
    check_refused("{\"data\": []}", "line 1: expected \"messages\"");
    char text[128];
    memset(text, 'a', sizeof text);
    memcpy(text, "[\n{\"text\":\"", 11);
    text[127] = 0;
    check_refused(text, "x.json line 2: longer than 100 B");
    layout = HIL_JSONL_LINES;
}

/* Lines far longer than the pieces in which a file is read. */
static void check_huge_line(void)
{
    const size_t size = (size_t)5 << 20;
    hil_text text = {0};
    for (int line = 0; line < 2; ++line) {
        CHECK_OK(hil_text_print(&text, "{\"text\": \""));
        for (size_t i = 0; i < size; ++i) CHECK_OK(hil_text_add(&text, &"abcdefg"[i % 7], 1));
        CHECK_OK(hil_text_print(&text, "\"}\n"));
    }
    const char *path = fixture_bytes("huge.jsonl", text.data, text.size);
    hil_text_free(&text);
    hil_dataset_options options = fixture_options((int64_t)size + 1);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 2 * size + 1);
    hil_window window;
    int32_t **field[] = {&window.token, &window.target, &window.position, &window.first};
    for (int i = 0; i < 4; ++i) CHECK_OK(HIL_ALLOC(size + 1, field[i]));
    CHECK_OK(hil_dataset_window(dataset, 0, &window));
    for (size_t i = 0; i < size; ++i) {
        CHECK_INT(window.token[i], 'a' + i % 7);
        CHECK_INT(window.position[i], i);
    }
    CHECK_INT(window.token[size], 256);
    for (int i = 0; i < 4; ++i) hil_free(*field[i]);
    hil_dataset_close(dataset);
}

static void check_file_errors(void)
{
    hil_dataset *dataset;
    hil_dataset_options options = fixture_options(1);
    const char *paths[] = {
        fixture_text("good.jsonl", "{\"text\": \"good\"}\n"),
        fixture_text("bad.jsonl", "{\"text\": \"good\"}\n\n{\"text\": \"bad}\n")};
    CHECK_FAILS(hil_dataset_open(&dataset, paths, 2, &options), HIL_ERR_INPUT,
                "bad.jsonl line 3: not valid JSON");
    CHECK(!hil_file_exists(options.cache_dir));
    paths[1] = fixture_text("blank.jsonl", "\n\n");
    CHECK_FAILS(hil_dataset_open(&dataset, paths + 1, 1, &options), HIL_ERR_INPUT,
                "blank.jsonl is empty");
}

int main(void)
{
    fixture_create();
    check_lines();
    check_refusals();
    check_values();
    check_file_errors();
    check_huge_line();
    return 0;
}
