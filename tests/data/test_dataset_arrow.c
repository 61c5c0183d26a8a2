/* Data that datasets.save_to_disk left: the windows are those of JSONL with the same rows, of the
   files that state.json names alone. */
#include "data/fixture.h"

#include <sys/stat.h>

#define SAVED HIL_TESTS "/golden/arrow/saved/"

static hil_dataset_options options_of(void)
{
    hil_dataset_options options = fixture_options(32);
    options.chat = fixture_folder;
    return options;
}

static void check_same(const char *path, const char *lines_path)
{
    const hil_dataset_options options = options_of();
    hil_dataset *table, *lines;
    CHECK_OK(hil_dataset_open(&table, &path, 1, &options));
    CHECK_OK(hil_dataset_open(&lines, &lines_path, 1, &options));
    CHECK(hil_dataset_windows(lines) > 0);
    CHECK_INT(hil_dataset_windows(table), hil_dataset_windows(lines));
    CHECK(hil_dataset_content(table) == hil_dataset_content(lines));
    hil_dataset_close(table);
    hil_dataset_close(lines);
}

static void refuse(const char *path, const char *words)
{
    const hil_dataset_options options = options_of();
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
}

int main(void)
{
    fixture_create();
    fixture_text("chat_template.jinja",
                 "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
                 "{% if add_generation_prompt %}a:{% endif %}");
    check_same(SAVED "chat", SAVED "chat.jsonl");
    check_same(SAVED "ids", SAVED "ids.jsonl");
    check_same(SAVED "ids/data-00000-of-00001.arrow", SAVED "ids.jsonl");
    check_same(SAVED "splits/train", SAVED "ids.jsonl");
    refuse(SAVED "splits", "splits holds 2 splits of a dataset: name one, as");
    refuse(HIL_TESTS "/golden/arrow/odd-stream.arrow", "odd-stream.arrow: expected \"messages\", ");
    refuse(HIL_TESTS "/golden/arrow/odd-stream.arrow", "datasets renames columns");
    refuse(HIL_TESTS "/golden/arrow/texts-stream.arrow",
           "texts-stream.arrow row 8: expected either \"text\" or both \"prompt\" and "
           "\"completion\", found \"text\" (null)");
    CHECK(mkdir(fixture_path("saved"), 0777) == 0);
    fixture_text("saved/state.json", "{\"_data_files\": [{\"filename\": \"data.arrow\"}]}");
    refuse(fixture_path("saved"), "data.arrow: missing, although state.json names it");
    fixture_text("saved/state.json", "{\"_data_files\": [{\"filename\": \"../a.txt\"}]}");
    refuse(fixture_path("saved"), "names something that is no file of it");
    fixture_text("saved/state.json", "{\"_data_files\": [7]}");
    refuse(fixture_path("saved"), "names something that is no file of it");
    fixture_text("saved/state.json", "{");
    refuse(fixture_path("saved"), "state.json");
    fixture_text("saved/state.json", "{}"); /* of something else */
    fixture_text("saved/a.txt", "plain text, long enough for a window");
    fixture_text("a.txt", "plain text, long enough for a window");
    check_same(fixture_path("saved"), fixture_path("a.txt"));
    fixture_text("b.arrow", "plain text");
    refuse(fixture_path("b.arrow"), "b.arrow is not an Arrow file");
    return 0;
}
