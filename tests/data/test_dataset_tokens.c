/* Rows of token ids: the window is the batch that TRL makes of the same rows, from JSONL and from
   Parquet; padding is removed; what contradicts itself is refused with its line. */
#include "data/fixture.h"
#include "data/token_row.h"
#include "io/file.h"

#include "base/json.h"

#define GOLDEN HIL_TESTS "/golden/tokens/"

enum { SEQ = 32 };

static hil_dataset_options options_of(int64_t seq)
{
    hil_dataset_options options = fixture_options(seq);
    options.vocab = 64;
    options.eot = 0;
    return options;
}

static int number(const json_t *batch, const char *key, size_t index)
{
    return (int)json_integer_value(json_array_get(json_object_get(batch, key), index));
}

/* All rows lie in one window, in their order, as in TRL's batch without padding. */
static void check_batch(const char *path, const json_t *batch)
{
    hil_dataset_options options = options_of(SEQ);
    hil_dataset *dataset;
    int32_t token[SEQ], target[SEQ], position[SEQ], first[SEQ];
    size_t size = json_array_size(json_object_get(batch, "input_ids"));
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_windows(dataset), 1);
    CHECK_INT(hil_dataset_tokens(dataset), size);
    CHECK_OK(hil_dataset_window(dataset, 0, &(hil_window){token, target, position, first}));
    for (size_t i = 0; i < size; ++i) {
        CHECK_INT(token[i], number(batch, "input_ids", i));
        CHECK_INT(position[i], number(batch, "position_ids", i));
        CHECK_INT(first[i], (int)i - position[i]);
        int label = i + 1 < size ? number(batch, "labels", i + 1) : -100;
        CHECK_INT(target[i], label == -100 ? -1 : label);
    }
    for (size_t i = size; i < SEQ; ++i) CHECK_INT(target[i], -1);
    hil_dataset_close(dataset);
}

static void check_batches(void)
{
    hil_bytes bytes;
    json_t *all;
    const json_t *batch;
    const char *name;
    size_t count = 0;
    CHECK_OK(hil_bytes_read(&bytes, GOLDEN "batches.json"));
    CHECK_OK(hil_json_parse(bytes.data, bytes.size, "batches.json", &all));
    json_object_foreach(all, name, batch)
    {
        char path[512];
        snprintf(path, sizeof path, GOLDEN "%s.jsonl", name);
        check_batch(path, batch);
        snprintf(path, sizeof path, GOLDEN "%s.parquet", name);
        check_batch(path, batch);
        ++count;
    }
    CHECK_INT(count, 6);
    json_decref(all);
    hil_bytes_free(&bytes);
}

/* The first window of one line of JSONL. */
static const char *window_of(const char *line, const hil_dataset_options *options)
{
    const char *path = fixture_text("row.jsonl", line);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, options));
    const char *window = fixture_window(dataset, options->seq, 0);
    hil_dataset_close(dataset);
    return window;
}

static void check_padding(void)
{
    hil_dataset_options options = options_of(4);
    CHECK_TEXT(window_of("{\"input_ids\":[0,0,5,6,7,0],\"attention_mask\":[0,0,1,1,1,0],"
                         "\"labels\":[-100,-100,5,6,7,0]}",
                         &options),
               "5>6@0/0 6>7@1/0 7>-1@2/0 0>-1@0/3");
    CHECK_TEXT(window_of("{\"input_ids\":[5,6,7,8,9],\"labels\":[-100,-100,7,8,9]}", &options),
               "5>-1@0/0 6>7@1/0 7>8@2/0 8>-1@3/0"); /* the end is cut off */
    CHECK_TEXT(
        window_of("{\"input_ids\":[5,6,7],\"position_ids\":[0,1,0],\"labels\":null}", &options),
        "5>6@0/0 6>-1@1/0 7>-1@0/2 0>-1@0/3");
    CHECK_TEXT(window_of("{\"input_ids\":[5,6],\"completion_mask\":[false,true]}", &options),
               "5>6@0/0 6>-1@1/0 0>-1@0/2 0>-1@1/2");
    CHECK_TEXT(window_of("{\"hash\":18446744073709551615,\"input_ids\":[5,6],\"labels\":[-100,6],"
                         "\"attention_mask\":[1,1],\"position_ids\":[0,1],\"seq_lengths\":[2]}",
                         &options),
               "5>6@0/0 6>-1@1/0 0>-1@0/2 0>-1@1/2"); /* no number of a token row is that long */
    options.answers = HIL_ANSWERS_ALL;
    CHECK_TEXT(window_of("{\"input_ids\":[5,6,7,8],\"labels\":[-100,-100,-100,8],"
                         "\"seq_lengths\":[3,1]}",
                         &options),
               "5>6@0/0 6>7@1/0 7>-1@2/0 8>-1@0/3");
}

static void check_refused(const char *line, const char *words)
{
    hil_dataset_options options = options_of(4);
    const char *path = fixture_text("refused.jsonl", line);
    hil_dataset *dataset;
    CHECK_FAILS(hil_dataset_open(&dataset, &path, 1, &options), HIL_ERR_INPUT, words);
    CHECK(strstr(hil_status_message(), "refused.jsonl") != NULL);
}

static void check_refusals(void)
{
    check_refused("{\"input_ids\":[1]}\n{\"input_ids\":[1,64]}",
                  "refused.jsonl line 2: token id 64 is outside the vocabulary of 64");
    check_refused("{\"input_ids\":[1,-1]}", "number 2 of \"input_ids\" is no token id: -1");
    check_refused("{\"input_ids\":[1,1073741824]}", "is no token id: 1073741824");
    check_refused("{\"input_ids\":[1,2.0]}", "must be a list of integers: number 2 is none");
    check_refused("{\"input_ids\":[[1,2]]}", "must be a list of integers: number 1 is none");
    check_refused("{\"input_ids\":[1,99999999999999999999]}", "list of integers");
    check_refused("{\"input_ids\":\"1 2\"}", "\"input_ids\" must be a list of integers");
    check_refused("{\"input_ids\":null}", "found \"input_ids\" (null)");
    check_refused("{\"input_ids\":[1,2],\"labels\":[1]}", "\"labels\" has 1 numbers for 2 tokens");
    check_refused("{\"input_ids\":[1,2],\"labels\":[1,3]}",
                  "number 2 of \"labels\" is 3, where the token is 2: it must be the token itself");
    check_refused("{\"input_ids\":[1,2],\"labels\":[1,-1]}", "-100 to learn nothing there");
    check_refused("{\"input_ids\":[1,2],\"completion_mask\":[1,2]}", "list of 0 and 1: number 2");
    check_refused("{\"input_ids\":[1,2,3],\"attention_mask\":[1,0,1]}",
                  "leaves out token 2, between others");
    check_refused("{\"input_ids\":[1,2],\"seq_lengths\":[1]}",
                  "\"seq_lengths\" are of 1 tokens, \"input_ids\" has 2");
    check_refused("{\"input_ids\":[1,2],\"seq_lengths\":[1,2]}", "is 2, where 1 tokens are left");
    check_refused("{\"input_ids\":[1,2],\"seq_lengths\":[0,2]}", "is 0, where 2 tokens are left");
    check_refused("{\"input_ids\":[1,2],\"position_ids\":[1,2]}", "number 1 is 1");
    check_refused("{\"input_ids\":[1,2],\"position_ids\":[0,2]}", "number 2 is 2");
    check_refused("{\"text\":\"\\t\"}\n{\"input_ids\":[1]}", "found \"input_ids\"");
    check_refused("{\"input_ids\":[1],\"labels\":[-100]}", "has no token to learn");
    check_refused("{\"input_ids\":[]}", "has no token to learn");
}

static hil_status read_row(void)
{
    hil_token_row row = {0};
    json_t *object = json_pack("{s:[i,i,i]}", "input_ids", 1, 2, 3);
    hil_status status = hil_token_row_read(object, &row);
    json_decref(object);
    hil_token_row_free(&row);
    return status;
}

int main(void)
{
    fixture_create();
    check_batches();
    check_padding();
    check_refusals();
    CHECK_MEMORY(read_row());
    return 0;
}
