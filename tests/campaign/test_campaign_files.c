/* Models, tokenizers, data, plans, options and checkpoints with a few changed bytes or values. A
   command that reads one runs, or refuses it in one line; no crash, no hang, no files left. */
/* soak: --full */
#include "campaign/training.h"
#include "mutate.h"

#include <unistd.h>

enum { RAN, REFUSED, INTERRUPTED }; /* outcomes */

typedef size_t (*mutator)(uint8_t *bytes, size_t size, size_t most, uint64_t seed);

/* A file of work/base, how it is changed, and command lines that read it. */
typedef struct target {
    const char *file;
    mutator mutate;
    const char *commands[6]; /* NULL after the last */
} target;

#define TRAIN "train --out=new --seq 16 --batch 2 --steps 2 --threads 1 "
#define EVAL "eval --seq 16 --threads 1 "
#define MODEL "--model=model "
#define TOKENS "--data=model/tokens.npy "
#define SHARDED "--model=sharded "
#define GENERATE "generate --tokenizer bytes --prompt=! --max-tokens=4 --threads 1 "

static const target targets[] = {
    {"model/config.json",
     mutate_json,
     {TRAIN MODEL TOKENS, EVAL MODEL TOKENS, GENERATE MODEL, "plan --seq 16 " MODEL,
      "inspect model"}},
    {"model/generation_config.json", mutate_json, {GENERATE MODEL, TRAIN MODEL TOKENS}},
    {"model/model.safetensors",
     mutate_safetensors,
     {TRAIN MODEL TOKENS, EVAL MODEL TOKENS, GENERATE MODEL, "inspect model"}},
    {"model/tokens.npy", mutate_npy, {TRAIN MODEL TOKENS, EVAL MODEL TOKENS}},
    {"sharded/model.safetensors.index.json",
     mutate_json,
     {TRAIN SHARDED "--data=sharded/tokens.npy", "inspect sharded", GENERATE SHARDED}},
    {"sharded/model-00002-of-00003.safetensors",
     mutate_safetensors,
     {"inspect sharded", GENERATE SHARDED}},
    {"bare/tokenizer.json",
     mutate_json,
     {"tokenize --model=bare --file=text.txt", TRAIN "--model=bare/config.json --data=text.txt"}},
    {"llama2/tokenizer.json", mutate_json, {"tokenize --model=llama2 --file=text.txt"}},
    {"data.jsonl",
     mutate_jsonl,
     {TRAIN MODEL "--tokenizer bytes --data=data.jsonl",
      EVAL MODEL "--tokenizer bytes --data=data.jsonl"}},
    {"text.txt", mutate_bytes, {TRAIN MODEL "--tokenizer bytes --data=text.txt"}},
    {"text.txt.gz", mutate_bytes, {TRAIN MODEL "--tokenizer bytes --data=text.txt.gz"}},
    {"data.jsonl.gz", mutate_bytes, {EVAL MODEL "--tokenizer bytes --data=data.jsonl.gz"}},
    {"plan.json",
     mutate_json,
     {TRAIN MODEL TOKENS "--plan=plan.json", "plan --seq 16 --plan=plan.json " MODEL}},
    {"options.json", mutate_json, {TRAIN MODEL TOKENS "--config=options.json"}},
    {"run/checkpoints/step-2/manifest.json",
     mutate_json,
     {"verify run", "inspect run/checkpoints/step-2", "export run/checkpoints/step-2 new",
      "train --out=run --seq 16 --batch 2 --steps 3 --threads 1 --resume " MODEL TOKENS}},
    {"run/checkpoints/step-2/master.safetensors",
     mutate_safetensors,
     {"verify run", "inspect run/checkpoints/step-2", "export run/checkpoints/step-2 new"}},
    {"run/checkpoints/latest", mutate_bytes, {"verify run", "inspect run"}},
    {"run/metrics.jsonl",
     mutate_jsonl,
     {"train --out=run --seq 16 --batch 2 --steps 3 --threads 1 --resume " MODEL TOKENS,
      "inspect run"}},
};

static void copy_golden(campaign_case *c, const char *name, const char *to)
{
    char from[CAMPAIGN_PATH], path[CAMPAIGN_PATH];
    campaign_tool(c, "cp", "-r", campaign_golden(name, from), campaign_path(c->folder, to, path),
                  (char *)NULL);
}

static void must_run(campaign_case *c, const char *words)
{
    campaign_command command;
    command_begin(&command, NULL);
    command_words(&command, words);
    int code = campaign_run(c, &command, TRAINING_SECONDS);
    if (code != 0) campaign_wrong(c, "%s gives %d: %s", words, code, campaign_said(c));
    command_free(&command);
}

/* Makes the undamaged files in work/base. */
static void prepare(campaign_case *c)
{
    static const char text[] = "words and other words, and more of them, \xC3\xA9 1234 we'll.\n"
                               "Some lines more are needed, or there is not enough of them.\n";
    static const char lines[] =
        "{\"text\": \"words and words and words and words\"}\n"
        "{\"prompt\": \"what?\", \"completion\": \"words and words and words\"}\n"
        "{\"text\": \"caf\\u00e9 and more words, until there are enough\"}\n";
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 421, \"n_positions\": 64, "
        "\"n_embd\": 16, \"n_layer\": 1, \"n_head\": 2}";
    static const char options[] =
        "{\"lr\": 1e-3, \"seq\": 16, \"steps\": 2, \"freeze\": [\"*norm*\"], \"dtype\": \"fp32\"}";
    char path[CAMPAIGN_PATH], to[CAMPAIGN_PATH];
    campaign_tool(c, "mkdir", campaign_path(c->work, "base", path), (char *)NULL);
    snprintf(c->folder, sizeof c->folder, "%.500s/base", c->work);
    copy_golden(c, "models/llama", "model");
    copy_golden(c, "models/qwen2_window_sharded", "sharded");
    copy_golden(c, "models/qwen2_window/tokens.npy", "sharded/tokens.npy");
    campaign_tool(c, "mkdir", campaign_path(c->folder, "bare", path), (char *)NULL);
    campaign_write(c, campaign_path(c->folder, "bare/config.json", path), config,
                   sizeof config - 1);
    copy_golden(c, "tokenizers/gpt2/tokenizer.json", "bare/tokenizer.json");
    copy_golden(c, "models/llama", "llama2");
    copy_golden(c, "tokenizers/llama2/tokenizer.json", "llama2/tokenizer.json");
    campaign_write(c, campaign_path(c->folder, "text.txt", path), text, sizeof text - 1);
    campaign_tool(c, "gzip", "-kn", path, (char *)NULL);
    campaign_write(c, campaign_path(c->folder, "data.jsonl", path), lines, sizeof lines - 1);
    campaign_tool(c, "gzip", "-kn", path, (char *)NULL);
    campaign_write(c, campaign_path(c->folder, "options.json", path), options, sizeof options - 1);
    must_run(c, "plan --json --seq 16 --batch 2 --threads 1 --device-memory 64M --host-memory 64M "
                "--model=model");
    campaign_tool(c, "mv", campaign_path(c->folder, "out", path),
                  campaign_path(c->folder, "plan.json", to), (char *)NULL);
    must_run(c, "train --out=run --seq 16 --batch 2 --steps 2 --threads 1 --model=model "
                "--data=model/tokens.npy");
}

static void mutate(campaign_case *c, const target *t)
{
    char path[CAMPAIGN_PATH];
    size_t size = 0;
    campaign_path(c->folder, t->file, path);
    char *bytes = campaign_read(path, &size);
    if (!bytes) campaign_wrong(c, "there is no %s", t->file);
    size_t most = size + 65536;
    bytes = realloc(bytes, most + 1);
    CHECK(bytes != NULL);
    for (uint64_t i = 1 + campaign_random(c, 2); i > 0; --i)
        size = t->mutate((uint8_t *)bytes, size, most, campaign_random(c, UINT64_MAX));
    campaign_write(c, path, bytes, size);
    free(bytes);
}

/* A fresh copy of work/base as the case's folder. */
static void copy_base(campaign_case *c)
{
    char from[CAMPAIGN_PATH];
    campaign_tool(c, "rm", "-rf", c->folder, (char *)NULL);
    campaign_tool(c, "cp", "-r", campaign_path(c->work, "base", from), c->folder, (char *)NULL);
}

static int run(campaign_case *c)
{
    const target *t = &targets[(size_t)c->index % (sizeof targets / sizeof *targets)];
    campaign_command command;
    bool interrupted = false;
    uint64_t count = 0;
    copy_base(c);
    while (t->commands[count]) ++count;
    const char *words = t->commands[campaign_random(c, count)];
    snprintf(c->details, sizeof c->details, "%s changed, %.300s", t->file, words);
    if (campaign_random(c, 8) == 0) { /* the undamaged file must work */
        must_run(c, words);
        copy_base(c);
    }
    mutate(c, t);
    command_begin(&command, NULL);
    command_words(&command, words);
    command.limited = true;
    int code = campaign_try(c, &command, 20, &interrupted);
    command_free(&command);
    campaign_check_left(c);
    if (code == 1 || code == 2) return REFUSED;
    return interrupted ? INTERRUPTED : RAN;
}

int main(int argc, char **argv)
{
    static const char *const outcomes[] = {"ran", "refused in one line", "were interrupted", NULL};
    static const campaign files = {"bad files", "wrong ends", outcomes, 400, 36, prepare, run};
    return campaign_main(&files, argc, argv);
}
