/* Folders and patterns expand to their data files, sorted; other files are counted. */
#include "data/fixture.h"

#include <sys/stat.h>

static char noted[512];

static void note(void *context, const char *line)
{
    (void)context;
    snprintf(noted, sizeof noted, "%s", line);
}

static const char *tokens_of(const char *path)
{
    hil_dataset_options options = fixture_options(1);
    options.eot = -1;
    options.note = note;
    noted[0] = 0;
    return fixture_tokens(&path, 1, &options);
}

static void check_refused(const char *path, hil_status code, const char *words)
{
    hil_dataset_options options = fixture_options(1);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), code, words);
}

static void check_folder(void)
{
    CHECK(mkdir(fixture_path("in"), 0777) == 0 && mkdir(fixture_path("in/b"), 0777) == 0);
    check_refused(fixture_path("in"), HIL_ERR_INPUT, "no data in the folder");
    fixture_text("in/c.txt", "3");
    fixture_text("in/a.txt", "1");
    fixture_text("in/b/z.jsonl", "{\"text\": \"2\"}\n");
    fixture_text("in/B.txt", "0");
    fixture_text("in/.hidden.txt", "9");
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 49 50 51");
    CHECK_TEXT(noted, "");
    CHECK_TEXT(tokens_of(fixture_path("in/")), "48 49 50 51");
    /* With one file more or less the old cache is stale. */
    const char *more = fixture_text("in/d.txt", "4");
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 49 50 51 52");
    CHECK(unlink(more) == 0);
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 49 50 51");
    /* A renamed file makes it stale too. */
    CHECK(rename(fixture_path("in/a.txt"), fixture_path("in/d.txt")) == 0);
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 50 51 49");
    fixture_text("in/README.md", "x");
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 50 51 49");
    CHECK(strstr(noted, "1 file of the data folders skipped, not data by name (") == noted);
    CHECK(strstr(noted, "/in/README.md)") != NULL);
    fixture_text("in/b/table.xlsx", "x");
    CHECK_TEXT(tokens_of(fixture_path("in")), "48 50 51 49");
    CHECK(strstr(noted, "2 files") != NULL && strstr(noted, "/in/b/table.xlsx, ...)") != NULL);
    CHECK(symlink(".", fixture_path("in/b/loop")) == 0);
    check_refused(fixture_path("in"), HIL_ERR_INPUT, "more than");
    CHECK(unlink(fixture_path("in/b/loop")) == 0);
    fixture_text("in/b/bad.txt", "PAR1");
    check_refused(fixture_path("in"), HIL_ERR_INPUT, "in/b/bad.txt holds Parquet");
}

/* The folder with one more file is refused. */
static void check_table(const char *name, const char *text, const char *words)
{
    fixture_text(name, text);
    check_refused(fixture_path("tables"), HIL_ERR_INPUT, words);
}

/* A folder of tables gets the advice for tables. */
static void check_tables(void)
{
    CHECK(mkdir(fixture_path("tables"), 0777) == 0);
    check_table("tables/README.md", "x", "other files there: 1");
    check_table("tables/train.csv", "text\na\n", ".csv or .tsv file must be named itself");
    check_table("tables/train.arrow", "ARROW1", "train.arrow is not an Arrow file");
    CHECK(unlink(fixture_path("tables/train.arrow")) == 0);
    check_table("tables/train.parquet", "PAR1", "train.parquet: damaged: the file is cut");
}

static void check_patterns(void)
{
    CHECK(mkdir(fixture_path("glob"), 0777) == 0);
    fixture_text("glob/10.txt", "a");
    fixture_text("glob/9.txt", "b");
    fixture_text("glob/Z.txt", "c");
    fixture_text("glob/x.xlsx", "d");
    CHECK_TEXT(tokens_of(fixture_path("glob/*.txt")), "97 98 99");
    CHECK_TEXT(tokens_of(fixture_path("glob/?.txt")), "98 99");
    CHECK_TEXT(tokens_of(fixture_path("glob/[0-9]*.txt")), "97 98");
    CHECK_TEXT(tokens_of(fixture_path("gl*b")), "97 98 99");
    check_refused(fixture_path("glob/*.jsonl"), HIL_ERR_INPUT, "no file matches");
    check_refused(fixture_path("glob/*"), HIL_ERR_INPUT, "pandas.read_excel");
    check_refused(fixture_path("glob/none.txt"), HIL_ERR_IO, "No such file");
    /* An existing file is not taken as a pattern. */
    fixture_text("glob/[0-9].txt", "e");
    CHECK_TEXT(tokens_of(fixture_path("glob/[0-9].txt")), "101");
}

int main(void)
{
    fixture_create();
    check_folder();
    check_tables();
    check_patterns();
    return 0;
}
