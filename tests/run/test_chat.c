/* Replies of a chat are greedy continuations of all messages rendered so far, as logits of the
   whole sequence without a cache give them; what a turn shares with the one before is not computed
   again; any of several ids ends a reply; a full context is refused and leaves the conversation as
   it was; a stopped reply stays as far as it was written; every piece of text is whole characters.
 */
#include "chat_model.h"

#include <string.h>

typedef struct stream {
    char text[8192];
    size_t size;
    int pieces, most; /* a write beyond `most` pieces asks to stop */
} stream;

static int take(void *context, const char *text, size_t size)
{
    stream *all = context;
    json_t *whole = json_stringn(text, size); /* NULL: not UTF-8 */
    CHECK(whole != NULL);
    json_decref(whole);
    CHECK(all->size + size < sizeof all->text);
    memcpy(all->text + all->size, text, size);
    all->text[all->size += size] = 0;
    return ++all->pieces == all->most;
}

static hil_generate_options chatting(const char *folder, stream *all)
{
    hil_generate_options options;
    hil_chat_defaults(&options);
    options.model = folder;
    options.temperature = 0;
    options.max_tokens = 12;
    options.threads = 2;
    options.write = take;
    options.write_context = all;
    *all = (stream){0};
    return options;
}

/* The greedy ids after `text`, without a cache, and their text. Ends at id `end`. */
static int64_t expect(const char *folder, const char *text, int64_t most, int32_t end,
                      int32_t *reply, hil_text *out)
{
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_ids ids = {0};
    float *logits;
    int64_t count = 0;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    options.length = 256;
    CHECK_OK(hil_source_open(&source, folder));
    CHECK_OK(hil_source_load(&source, &options, NULL, &model, &trainer));
    int64_t vocab = source.config.vocab;
    CHECK_OK(HIL_ALLOC(256 * vocab, &logits));
    CHECK_OK(hil_tokenizer_encode(source.tokenizer, text, strlen(text), HIL_SPECIAL_NONE, &ids));
    for (; count < most; ++count) {
        hil_batch batch = {.sequences = 1, .length = (int64_t)ids.size, .token = ids.data};
        CHECK_OK(hil_trainer_logits(trainer, &batch, logits));
        const float *last = logits + ((int64_t)ids.size - 1) * vocab;
        int32_t best = 0;
        for (int32_t i = 1; i < vocab; ++i)
            if (last[i] > last[best]) best = i;
        if (best == end) break;
        reply[count] = best;
        CHECK_OK(hil_ids_add(&ids, best));
    }
    out->size = 0;
    CHECK_OK(hil_tokenizer_decode(source.tokenizer, reply, (size_t)count, HIL_SPECIAL_NONE, out));
    hil_free(logits);
    hil_ids_free(&ids);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    hil_source_close(&source);
    return count;
}

static void check_turns(const char *folder)
{
    stream got;
    hil_text expected = {0}, all = {0};
    int32_t reply[64];
    int64_t before = 0;
    hil_chat *chat;
    hil_generate_result result;
    hil_generate_options options = chatting(folder, &got);
    options.system = "be brief";
    CHECK_OK(hil_chat_open(&chat, &options, NULL));
    CHECK_OK(hil_text_print(&all, "[system]be brief\n"));
    static const char *const said[] = {"hello", "and caf\xc3\xa9?", "bye"};
    for (int turn = 0; turn < 3; ++turn) {
        CHECK_OK(hil_text_print(&all, "[user]%s\n[assistant]", said[turn]));
        int64_t count = expect(folder, all.data, options.max_tokens, -1, reply, &expected);
        got.size = 0;
        CHECK_OK(hil_chat_say(chat, said[turn], &result));
        CHECK_INT(result.tokens, count);
        CHECK_INT(result.end, HIL_GENERATE_LENGTH);
        CHECK_TEXT(got.text, expected.data);
        CHECK(result.reused_tokens >= before - 1); /* a reply may be other ids when read */
        before = result.prompt_tokens;
        CHECK_OK(hil_text_print(&all, "%s\n", expected.data));
    }
    /* The same again after a reset, without the earlier turns. */
    CHECK_OK(hil_chat_reset(chat));
    expect(folder, "[system]be brief\n[user]bye\n[assistant]", 12, -1, reply, &expected);
    got.size = 0;
    CHECK_OK(hil_chat_say(chat, "bye", &result));
    CHECK_TEXT(got.text, expected.data);
    CHECK_OK(hil_chat_set_system(chat, ""));
    expect(folder, "[user]bye\n[assistant]", 12, -1, reply, &expected);
    got.size = 0;
    CHECK_OK(hil_chat_say(chat, "bye", &result));
    CHECK_TEXT(got.text, expected.data);
    CHECK_FAILS(hil_chat_say(chat, "\xff", &result), HIL_ERR_INPUT, "not UTF-8");
    hil_chat_close(chat);
    hil_text_free(&expected);
    hil_text_free(&all);
}

/* Both ids of generation_config.json end a reply. */
static void check_ends(const char *folder)
{
    static const char text[] = "[user]hello\n[assistant]";
    int32_t reply[64];
    char path[JOB_PATH], config[100];
    hil_text expected = {0};
    stream got;
    hil_chat *chat;
    hil_generate_result result;
    CHECK_INT(expect(folder, text, 12, -1, reply, &expected), 12);
    CHECK_OK(hil_path_join(path, folder, "generation_config.json"));
    for (int i = 0; i < 2; ++i) {
        int size = snprintf(config, sizeof config, "{\"eos_token_id\": [%d, %d]}",
                            (int)reply[i * 5], (int)reply[4 + i]);
        CHECK_OK(hil_file_write(path, config, (size_t)size));
        int64_t count = 0;
        while (reply[count] != reply[i * 5] && reply[count] != reply[4 + i]) ++count;
        hil_generate_options options = chatting(folder, &got);
        CHECK_OK(hil_chat_open(&chat, &options, NULL));
        CHECK_OK(hil_chat_say(chat, "hello", &result));
        CHECK_INT(result.tokens, count);
        CHECK_INT(result.end, HIL_GENERATE_END);
        hil_chat_close(chat);
    }
    CHECK(unlink(path) == 0);
    hil_text_free(&expected);
}

static void check_context(const char *folder)
{
    stream got;
    hil_chat *chat;
    hil_generate_result first, result;
    hil_generate_options options = chatting(folder, &got);
    options.context = 48;
    options.max_tokens = 100;
    CHECK_OK(hil_chat_open(&chat, &options, NULL));
    CHECK_OK(hil_chat_say(chat, "hello", &first));
    CHECK_INT(first.prompt_tokens + first.tokens, 48);
    char kept[sizeof got.text];
    memcpy(kept, got.text, sizeof kept);
    CHECK_FAILS(hil_chat_say(chat, "again", &result), HIL_ERR_BUDGET,
                "--context (the model has 256)");
    CHECK_OK(hil_chat_reset(chat));
    got.size = 0;
    CHECK_OK(hil_chat_say(chat, "hello", &result));
    CHECK_TEXT(got.text, kept);
    hil_chat_close(chat);
    options.context = 257;
    CHECK_FAILS(hil_chat_open(&chat, &options, NULL), HIL_ERR_USAGE, "256 positions");
    options.context = 0;
    options.top_p = 0;
    CHECK_FAILS(hil_chat_open(&chat, &options, NULL), HIL_ERR_USAGE, "--top-p");
}

/* A stopped reply is part of the next rendering. */
static void check_stop(const char *folder)
{
    stream got;
    hil_text expected = {0}, all = {0};
    int32_t reply[64];
    hil_chat *chat;
    hil_generate_result result;
    hil_generate_options options = chatting(folder, &got);
    CHECK_OK(hil_chat_open(&chat, &options, NULL));
    got.most = 3;
    CHECK_OK(hil_chat_say(chat, "hello", &result));
    CHECK_INT(result.end, HIL_GENERATE_STOPPED);
    CHECK(result.tokens < 12);
    CHECK_OK(hil_text_print(&all, "[user]hello\n[assistant]%s\n[user]on\n[assistant]", got.text));
    expect(folder, all.data, 12, -1, reply, &expected);
    got.most = 0;
    got.size = 0;
    CHECK_OK(hil_chat_say(chat, "on", &result));
    CHECK_TEXT(got.text, expected.data);
    hil_chat_close(chat);
    hil_text_free(&expected);
    hil_text_free(&all);
}

/* Neither budgets nor a device that computes asynchronously change a reply or what it reuses. */
static void check_placements(const char *folder, const char *disk)
{
    static const struct {
        const char *device;
        uint64_t bytes; /* of device memory; 0: enough */
    } place[] = {{"cpu", 0}, {"cpu", 250000}, {"threads", 0}, {"threads", 250000}};
    stream got;
    char kept[sizeof got.text];
    hil_chat *chat;
    hil_generate_result result;
    hil_disk_budget drive = {.path = disk, .bytes = 1 << 20};
    for (size_t i = 0; i < sizeof place / sizeof *place; ++i) {
        hil_generate_options options = chatting(folder, &got);
        options.device.name = place[i].device;
        if (place[i].bytes) {
            options.memory.device = place[i].bytes;
            options.memory.host = 1 << 20;
            options.memory.disks = &drive;
            options.memory.disk_count = 1;
        }
        CHECK_OK(hil_chat_open(&chat, &options, NULL));
        CHECK_OK(hil_chat_say(chat, "hello", &result));
        CHECK_OK(hil_chat_say(chat, "and on", &result));
        CHECK(result.reused_tokens > 0);
        if (i) CHECK_TEXT(got.text, kept);
        memcpy(kept, got.text, sizeof kept);
        hil_chat_close(chat);
    }
}

int main(void)
{
    job_place place;
    char folder[JOB_PATH], disk[JOB_PATH];
    job_begin(&place);
    chat_model_make(&place, "model", 256, folder);
    check_turns(folder);
    check_ends(folder);
    check_context(folder);
    check_stop(folder);
    CHECK_OK(hil_dir_create(job_path(&place, disk, "drive")));
    check_placements(folder, disk);
    job_end(&place);
    return 0;
}
