/* Greedy text with a cache is the likeliest token of the whole sequence's logits, again and again;
   generation ends at end-of-text and at the last position; a seed repeats its choices. */
#include "copy.h"
#include "job.h"

/* A model in fp32 that generates. */
static golden_run start(const char *model)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    return golden_start(model, &options);
}

typedef struct stream {
    unsigned char byte[256];
    size_t size;
} stream;

static int take(void *context, const char *text, size_t size)
{
    stream *all = context;
    if (all->size + size > sizeof all->byte) return 1;
    memcpy(all->byte + all->size, text, size);
    all->size += size;
    return 0;
}

static const char prompt[] = "\x05\x11 hi";

static hil_generate_options generating(const char *folder, stream *all)
{
    hil_generate_options options;
    hil_generate_defaults(&options);
    options.model = folder;
    options.prompt = prompt;
    options.tokenizer = "bytes";
    options.max_tokens = 24;
    options.temperature = 0;
    options.dtype = "fp32";
    options.threads = 2;
    options.write = take;
    options.write_context = all;
    all->size = 0;
    return options;
}

/* Greedy ids from logits of the whole sequence, without a cache. Ids above 255 have no byte. */
static int64_t expect(const char *model, int64_t most, stream *all)
{
    golden_run run = start(model);
    int64_t vocab = hil_engine_vocab(run.trainer->engine), count = 0, length = sizeof prompt - 1;
    int32_t token[128];
    float *logits;
    CHECK_OK(HIL_ALLOC(128 * vocab, &logits));
    for (int64_t i = 0; i < length; ++i) token[i] = (unsigned char)prompt[i];
    all->size = 0;
    while (count < most) {
        hil_batch batch = {.sequences = 1, .length = length, .token = token};
        CHECK_OK(hil_trainer_logits(run.trainer, &batch, logits));
        const float *last = logits + (length - 1) * vocab;
        int32_t best = 0;
        for (int32_t i = 1; i < vocab; ++i)
            if (last[i] > last[best]) best = i;
        if (best == 256) break;
        token[length++] = best;
        ++count;
        if (best < 256) all->byte[all->size++] = (unsigned char)best;
    }
    hil_free(logits);
    golden_stop(&run);
    return count;
}

/* Logits of each position, with the ones before it in the cache, are PyTorch's. */
static void check_cache(const char *model)
{
    golden_run run = start(model);
    hil_engine *engine = run.trainer->engine;
    int64_t vocab = hil_engine_vocab(engine), count, tokens_count;
    float *expected = golden_floats(run.golden, "logits", &count), *logits;
    int32_t *tokens = golden_ints(run.golden, "tokens", &tokens_count), position[GOLDEN_SEQ];
    CHECK_OK(HIL_ALLOC(vocab, &logits));
    CHECK_OK(hil_engine_cache_begin(engine, GOLDEN_SEQ));
    for (int32_t i = 0; i < GOLDEN_SEQ; ++i) position[i] = i;
    for (int64_t at = 0, length; at < GOLDEN_SEQ; at += length) {
        length = at == 0 ? 5 : at == 12 ? 4 : 1; /* a prompt, single tokens, a few at once */
        hil_micro micro = {
            .sequences = 1, .length = length, .token = tokens + at, .position = position + at};
        CHECK_OK(hil_engine_extend(engine, &micro, logits));
        double error = golden_error(logits, expected + (at + length - 1) * vocab, vocab);
        if (!(error < 1e-5)) printf("%s: position %d off by %.2g\n", model, (int)at, error);
        CHECK(error < 1e-5);
    }
    hil_free(logits);
    hil_free(expected);
    hil_free(tokens);
    golden_stop(&run);
}

/* Fails before segment `at` of the pass. */
static hil_status fail_at(void *context, int segment, int segments)
{
    int at = *(int *)context;
    CHECK(segments > 2);
    return segment == at ? hil_fail(HIL_ERR_INTERRUPTED, "stopped") : HIL_OK;
}

/* Passes that are stopped before any segment leave no trace: the logits after them are those of
   passes that nobody stopped, to the bit, while weights are streamed. */
static void check_stopped(const char *model, size_t device)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    options.length = 5;
    options.cache = 12;
    options.memory.device = device;
    float *logits[2];
    int32_t position[12], tokens[12];
    for (int32_t i = 0; i < 12; ++i) position[i] = i, tokens[i] = 7 * i % 50;
    for (int stops = 0; stops < 2; ++stops) {
        golden_run run = golden_start(model, &options);
        hil_engine *engine = run.trainer->engine;
        CHECK_OK(HIL_ALLOC(hil_engine_vocab(engine), &logits[stops]));
        CHECK_OK(hil_engine_cache_begin(engine, 12));
        for (int64_t at = 0, length = 5; at < 12; at += length, length = 1) {
            hil_micro micro = {
                .sequences = 1, .length = length, .token = tokens + at, .position = position + at};
            for (int s = 0; stops && s < 4; ++s) {
                hil_engine_set_watch(engine, fail_at, &s);
                CHECK_FAILS(hil_engine_extend(engine, &micro, logits[1]), HIL_ERR_INTERRUPTED,
                            "stopped");
                hil_engine_set_watch(engine, NULL, NULL);
            }
            CHECK_OK(hil_engine_extend(engine, &micro, logits[stops]));
        }
        if (stops)
            CHECK(memcmp(logits[0], logits[1], (size_t)hil_engine_vocab(engine) * sizeof(float)) ==
                  0);
        golden_stop(&run);
    }
    hil_free(logits[0]);
    hil_free(logits[1]);
}

static void check_greedy(const char *model)
{
    stream expected, got;
    char *folder = golden_path(model, NULL);
    hil_generate_options options = generating(folder, &got);
    hil_generate_result result;
    int64_t count = expect(model, options.max_tokens, &expected);
    CHECK_OK(hil_generate(&options, &result));
    CHECK_INT(result.prompt_tokens, sizeof prompt - 1);
    CHECK_INT(result.tokens, count);
    CHECK_INT(got.size, expected.size);
    CHECK(memcmp(got.byte, expected.byte, got.size) == 0);
    printf("%s: %d tokens as expected\n", model, (int)count);
    hil_free(folder);
}

/* gpt2 has 40 positions and this prompt takes five. */
static void check_ends(void)
{
    stream got;
    hil_generate_result result;
    char *folder = golden_path("gpt2", NULL);
    hil_generate_options options = generating(folder, &got);
    options.max_tokens = 1000;
    options.temperature = 1;
    options.top_k = 2;
    CHECK_OK(hil_generate(&options, &result));
    CHECK(result.tokens <= 35);
    bool reached = false;
    for (options.seed = 0; options.seed < 8 && !reached; ++options.seed) {
        got.size = 0;
        CHECK_OK(hil_generate(&options, &result));
        reached = result.tokens == 35;
    }
    CHECK(reached);
    options.max_tokens = 0;
    got.size = 0;
    CHECK_OK(hil_generate(&options, &result));
    CHECK(result.tokens == 0 && got.size == 0);
    char text[64];
    memset(text, 'a', sizeof text);
    text[41] = 0;
    options.prompt = text;
    CHECK_FAILS(hil_generate(&options, &result), HIL_ERR_USAGE, "41 tokens");
    text[40] = 0;
    CHECK_OK(hil_generate(&options, &result));
    CHECK_INT(result.tokens, 0);
    hil_free(folder);
}

static void check_sampling(void)
{
    stream first, again, other;
    hil_generate_result result;
    char *folder = golden_path("qwen3", NULL);
    hil_generate_options options = generating(folder, &first);
    options.temperature = 1;
    options.top_p = 0.9;
    options.seed = 3;
    CHECK_OK(hil_generate(&options, &result));
    options.write_context = &again;
    again.size = 0;
    options.threads = 1;
    CHECK_OK(hil_generate(&options, &result));
    CHECK(first.size == again.size && memcmp(first.byte, again.byte, first.size) == 0);
    options.write_context = &other;
    other.size = 0;
    options.seed = 4;
    CHECK_OK(hil_generate(&options, &result));
    CHECK(first.size != other.size || memcmp(first.byte, other.byte, first.size) != 0);
    /* With one candidate the choice is greedy. */
    stream greedy;
    hil_generate_options best = generating(folder, &greedy);
    CHECK_OK(hil_generate(&best, &result));
    best.temperature = 0.7;
    best.top_k = 1;
    best.write_context = &again;
    again.size = 0;
    CHECK_OK(hil_generate(&best, &result));
    CHECK(greedy.size == again.size && memcmp(greedy.byte, again.byte, greedy.size) == 0);
    hil_free(folder);
}

/* A head whose row for id 256 (end-of-text) wins at once. */
static void check_end_of_text(job_place *place)
{
    char folder[JOB_PATH], path[JOB_PATH];
    stream got;
    hil_generate_result result;
    CHECK_OK(hil_dir_create(job_path(place, folder, "eos")));
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 257, \"n_positions\": 16, \"n_embd\": 4, "
        "\"n_layer\": 1, \"n_head\": 1, \"tie_word_embeddings\": false}";
    CHECK_OK(hil_file_write(job_path(place, path, "eos.json"), config, sizeof config - 1));
    hil_train_options options = job_options(place, "gpt2", folder);
    options.model = path;
    options.seq = 8;
    options.steps = 1;
    options.lr = 0;
    options.overwrite = true;
    job_train(&options);
    hil_safetensors *file;
    char weights[JOB_PATH];
    CHECK_OK(hil_safetensors_open(&file, job_path(place, weights, "eos/model.safetensors")));
    const hil_entry *bias = hil_safetensors_find(file, "transformer.ln_f.bias");
    const hil_entry *head = hil_safetensors_find(file, "lm_head.weight");
    CHECK(bias && head);
    hil_bytes map;
    CHECK_OK(hil_bytes_read(&map, weights));
    float one = 1000;
    memcpy(map.data + bias->offset, &one, 4);
    memcpy(map.data + head->offset + (size_t)256 * 4 * 4, &one, 4);
    CHECK_OK(hil_file_write(weights, map.data, map.size));
    hil_bytes_free(&map);
    hil_safetensors_close(file);
    hil_generate_options generate = generating(folder, &got);
    CHECK_OK(hil_generate(&generate, &result));
    CHECK(result.tokens == 0 && got.size == 0);
}

/* The text that greedy decoding of `ids` gives. */
static void expect_text(const char *folder, const int32_t *ids, int64_t count, hil_text *text)
{
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    int32_t token[16];
    float *logits;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    options.sequences = 1;
    options.length = 16;
    CHECK_OK(hil_source_open(&source, folder));
    CHECK_OK(hil_source_load(&source, &options, NULL, &model, &trainer));
    int64_t vocab = source.config.vocab, length = count;
    CHECK_OK(HIL_ALLOC(16 * vocab, &logits));
    memcpy(token, ids, (size_t)count * sizeof *ids);
    for (; length < 16; ++length) {
        hil_batch batch = {.sequences = 1, .length = length, .token = token};
        CHECK_OK(hil_trainer_logits(trainer, &batch, logits));
        const float *last = logits + (length - 1) * vocab;
        token[length] = 0;
        for (int32_t i = 1; i < vocab; ++i)
            if (last[i] > last[token[length]]) token[length] = i;
    }
    hil_text before = {0};
    CHECK_OK(
        hil_tokenizer_decode(source.tokenizer, token, (size_t)count, HIL_SPECIAL_NONE, &before));
    CHECK_OK(hil_tokenizer_decode(source.tokenizer, token, 16, HIL_SPECIAL_NONE, text));
    text->size -= before.size; /* what follows the prompt, with the space that it begins with */
    memmove(text->data, text->data + before.size, text->size);
    hil_text_free(&before);
    hil_free(logits);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    hil_source_close(&source);
}

/* Greedy generation continues the first tokens of the stream as PyTorch does. */
static void check_generated(const char *model)
{
    enum { PROMPT = 8 };
    golden_run run = start(model);
    hil_engine *engine = run.trainer->engine;
    int64_t vocab = hil_engine_vocab(engine), count, tokens_count;
    int32_t *expected = golden_ints(run.golden, "generated", &count);
    int32_t *tokens = golden_ints(run.golden, "tokens", &tokens_count), next = 0;
    float *logits;
    CHECK_INT(count, 64);
    CHECK_OK(HIL_ALLOC(vocab, &logits));
    CHECK_OK(hil_engine_cache_begin(engine, PROMPT + count));
    for (int32_t i = 0; i < PROMPT + count - 1; ++i) {
        int32_t token = i < PROMPT ? tokens[i] : next;
        hil_micro micro = {.sequences = 1, .length = 1, .token = &token, .position = &i};
        CHECK_OK(hil_engine_extend(engine, &micro, logits));
        next = 0;
        for (int32_t k = 1; k < vocab; ++k)
            if (logits[k] > logits[next]) next = k;
        if (i >= PROMPT - 1) CHECK_INT(next, expected[i - PROMPT + 1]);
    }
    hil_free(logits);
    hil_free(expected);
    hil_free(tokens);
    golden_stop(&run);
}

/* A prompt begins with the template's BOS; its EOS would end the text before it is continued. */
static void check_template(job_place *place)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 1000, \"n_positions\": 16, \"n_embd\": 32, "
        "\"n_layer\": 1, \"n_head\": 1, \"initializer_range\": 0.5}";
    char source[JOB_PATH], folder[JOB_PATH], path[JOB_PATH];
    stream got;
    hil_text expected = {0};
    hil_generate_result result;
    CHECK_OK(hil_dir_create(job_path(place, source, "source")));
    CHECK_OK(
        hil_file_write(job_path(place, path, "source/config.json"), config, sizeof config - 1));
    hil_train_options options = job_options(place, "gpt2", job_path(place, folder, "template"));
    options.model = path;
    options.seq = 8;
    options.steps = 1;
    options.lr = 0;
    options.seed = 2;
    job_train(&options);
    CHECK_OK(copy_file(HIL_TESTS "/golden/tokenizers/llama2/tokenizer.json",
                       job_path(place, path, "template/tokenizer.json")));
    hil_generate_options generate = generating(folder, &got);
    generate.tokenizer = NULL;
    generate.prompt = "a";
    CHECK_OK(hil_generate(&generate, &result));
    CHECK_INT(result.prompt_tokens, 3);
    CHECK_INT(result.tokens, 13);
    /* Hugging Face gives these ids for the prompt, and a 2 after them. */
    expect_text(folder, (int32_t[]){1, 325, 295}, 3, &expected);
    CHECK(got.size == expected.size && memcmp(got.byte, expected.data, got.size) == 0);
    CHECK(got.byte[0] == ' '); /* by choice of the seed: it belongs to the text */
    hil_text_free(&expected);
    generate.prompt = "";
    CHECK_OK(hil_generate(&generate, &result));
    CHECK_INT(result.prompt_tokens, 1);
}

int main(void)
{
    static const char *const models[] = {GOLDEN_MODELS};
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        check_cache(models[i]);
        if (i < 6) check_greedy(models[i]); /* the others have fewer ids than bytes */
    }
    static const char *const families[] = {GOLDEN_FAMILIES};
    for (size_t i = 0; i < sizeof families / sizeof *families; ++i) {
        check_cache(families[i]);
        check_generated(families[i]);
    }
    check_stopped("llama", 0);
    check_stopped("llama", 100000);
    check_stopped("gpt2", 100000);
    check_ends();
    check_sampling();
    job_place place;
    job_begin(&place);
    check_template(&place);
    check_end_of_text(&place);
    job_end(&place);
    return 0;
}
