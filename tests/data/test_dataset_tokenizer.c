/* Text through a tokenizer small enough to encode by hand. */
#include "base/hash.h"
#include "data/fixture.h"

#define TOKENIZER                                                                                  \
    "{\"added_tokens\": [{\"id\": 5, \"content\": \"<eot>\", \"single_word\": false,"              \
    " \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}],"           \
    " \"normalizer\": null,"                                                                       \
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false,"                   \
    " \"trim_offsets\": true, \"use_regex\": true},"                                               \
    " \"post_processor\": {\"type\": \"TemplateProcessing\","                                      \
    " \"single\": [{\"SpecialToken\": {\"id\": \"<eot>\", \"type_id\": 0}},"                       \
    " {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],"                                           \
    " \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}},"                                 \
    " {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],"                                           \
    " \"special_tokens\": {\"<eot>\": {\"id\": \"<eot>\", \"ids\": [5],"                           \
    " \"tokens\": [\"<eot>\"]}}},"                                                                 \
    " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true,"                          \
    " \"trim_offsets\": true, \"use_regex\": true},"                                               \
    " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null,"                      \
    " \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false,"     \
    " \"byte_fallback\": false, \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"\xC4\xA0\": 3,"        \
    " \"ab\": 4}, \"merges\": [\"a b\"]}}"

static hil_dataset_options open_tokenizer(hil_tokenizer **tokenizer, int64_t seq)
{
    hil_dataset_options options = fixture_options(seq);
    const char *path = fixture_path("tokenizer.json");
    hil_bytes file;
    CHECK_OK(hil_tokenizer_open(tokenizer, path));
    CHECK_OK(hil_bytes_read(&file, path));
    options.tokenizer_key = hil_hash(0, file.data, file.size);
    hil_bytes_free(&file);
    options.tokenizer = *tokenizer;
    options.vocab = 6;
    options.eot = 5;
    return options;
}

static void check_documents(void)
{
    hil_tokenizer *tokenizer;
    hil_dataset_options options = open_tokenizer(&tokenizer, 5);
    const char *paths[] = {fixture_text("a.txt", "abc ab"),
                           fixture_text("b.jsonl", "{\"text\": \"ab<eot>\"}")};
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, paths, 2, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 7);
    CHECK_TEXT(fixture_window(dataset, 5, 0), "4>2@0/0 2>3@1/0 3>4@2/0 4>5@3/0 5>-1@4/0");
    hil_dataset_close(dataset);
    options.seq = 7;
    CHECK_TEXT(fixture_tokens(paths, 2, &options), "4 2 3 4 5 4 5");
    options.vocab = 5;
    options.eot = -1;
    CHECK_FAILS(hil_dataset_open(&dataset, paths + 1, 1, &options), HIL_ERR_INPUT,
                "b.jsonl: token id 5 at position 1 is outside the vocabulary of 5");
    hil_tokenizer_close(tokenizer);
}

/* The post-processor's <eot> (5) begins each example once, and another one ends it once.
   "c" and " ab" give the ids of "c ab"; "ca" and "ba" do not give those of "caba" (2 4 0). */
static void check_pairs(void)
{
    hil_tokenizer *tokenizer;
    hil_dataset_options options = open_tokenizer(&tokenizer, 14);
    const char *path =
        fixture_text("pairs.jsonl", "{\"prompt\": \"c\", \"completion\": \" ab\"}\n"
                                    "{\"prompt\": \"\", \"completion\": \"c\"}\n"
                                    "{\"prompt\": \"ca\", \"completion\": \"ba\"}\n");
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_TEXT(fixture_window(dataset, 14, 0),
               "5>-1@0/0 2>3@1/0 3>4@2/0 4>5@3/0 5>-1@4/0 5>2@0/5 2>5@1/5 5>-1@2/5 "
               "5>-1@0/8 2>-1@1/8 0>1@2/8 1>0@3/8 0>5@4/8 5>-1@5/8");
    hil_dataset_close(dataset);
    hil_tokenizer_close(tokenizer);
}

/* A tokenizer with a prefix space adds none before a completion. */
static void check_prefix_space(void)
{
    char spaced[] = TOKENIZER;
    memcpy(strstr(spaced, "prefix_space\": false"), "prefix_space\": true ", 20);
    fixture_text("tokenizer.json", spaced);
    hil_tokenizer *tokenizer;
    hil_dataset_options options = open_tokenizer(&tokenizer, 6);
    const char *path = fixture_text("s.jsonl", "{\"prompt\": \"b\", \"completion\": \" c\"}");
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_TEXT(fixture_window(dataset, 6, 0), "5>-1@0/0 3>-1@1/0 1>3@2/0 3>2@3/0 2>5@4/0 5>-1@5/0");
    hil_dataset_close(dataset);
    path = fixture_text("t.jsonl", "{\"prompt\": \"c\", \"completion\": \"c\"}");
    options.seq = 5;
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "5 3 2 2 5");
    hil_tokenizer_close(tokenizer);
}

/* A token crosses the end of the first MiB, where one read ends and the next begins. */
static void check_pieces(void)
{
    hil_text text = {0};
    for (int i = 0; i < (1 << 19) - 1; ++i) CHECK_OK(hil_text_add(&text, "c ", 2));
    CHECK_OK(hil_text_add(&text, "cab", 3));
    const char *path = fixture_bytes("pieces.txt", text.data, text.size);
    hil_text_free(&text);
    hil_tokenizer *tokenizer;
    hil_dataset_options options = open_tokenizer(&tokenizer, 4);
    hil_dataset *dataset;
    CHECK_OK(hil_dataset_open(&dataset, &path, 1, &options));
    CHECK_INT(hil_dataset_tokens(dataset), 1 << 20);
    CHECK_TEXT(fixture_window(dataset, 4, 0), "2>3@0/0 3>2@1/0 2>3@2/0 3>-1@3/0");
    CHECK_TEXT(fixture_window(dataset, 4, (1 << 18) - 1), "2>3@0/0 3>2@1/0 2>4@2/0 4>-1@3/0");
    hil_dataset_close(dataset);
    hil_tokenizer_close(tokenizer);
}

/* A tokenizer with other content at the same path makes the cache stale. */
static void check_other_tokenizer(void)
{
    hil_tokenizer *tokenizer;
    const char *path = fixture_text("c.txt", "cab");
    fixture_text("tokenizer.json", TOKENIZER);
    hil_dataset_options options = open_tokenizer(&tokenizer, 1);
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "2 4");
    hil_tokenizer_close(tokenizer);
    char other[] = TOKENIZER;
    memcpy(strstr(other, "\"a\": 0"), "\"a\": 2", 6);
    memcpy(strstr(other, "\"c\": 2"), "\"c\": 0", 6);
    fixture_text("tokenizer.json", other);
    options = open_tokenizer(&tokenizer, 1);
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "0 4");
    hil_tokenizer_close(tokenizer);
}

static void check_allocations(void)
{
    hil_tokenizer *tokenizer;
    hil_dataset_options options = open_tokenizer(&tokenizer, 9);
    const char *path = fixture_text("d.jsonl", "{\"prompt\": \"ca b\", \"completion\": \"ab a\"}");
    long n = 0;
    for (hil_status status = HIL_ERR_MEMORY; status != HIL_OK;) {
        hil_dataset *dataset;
        hil_alloc_fail_at(++n);
        status = hil_dataset_open(&dataset, &path, 1, &options);
        hil_alloc_fail_at(0);
        if (status != HIL_OK) CHECK_FAILS(status, HIL_ERR_MEMORY, "out of memory");
        hil_dataset_close(dataset);
    }
    CHECK_TEXT(fixture_tokens(&path, 1, &options), "5 2 0 3 1 4 3 0 5");
    hil_tokenizer_close(tokenizer);
}

int main(void)
{
    fixture_create();
    fixture_text("tokenizer.json", TOKENIZER);
    check_documents();
    check_pairs();
    check_pieces();
    check_allocations();
    check_other_tokenizer();
    check_prefix_space();
    return 0;
}
