/* Callers of the library whose ranks differ: in an option, in the plan, or in one byte of one
   tensor. All ranks fail with one message that names it, before the first step. */
#include "copy.h"
#include "job.h"
#include "../comm/ranks.h"
#include "format/safetensors.h"
#include "run/model_compare.h"

enum { RANKS = 3, ODD = 2 };

static job_place place;
static char out[JOB_PATH], other[JOB_PATH];
static hil_train_options same, odd;

static void train(hil_comm *comm, void *context)
{
    const char *words = context;
    hil_train_options mine = hil_comm_rank(comm) == ODD ? odd : same;
    hil_train_result result;
    mine.comm = comm;
    CHECK_FAILS(hil_train(&mine, NULL, &result), HIL_ERR_USAGE, words);
    CHECK(strstr(hil_status_message(), "rank 2: ") == hil_status_message());
    CHECK(strstr(hil_status_message(), " on rank 0: ") != NULL);
    CHECK_OK(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, HIL_OK, NULL));
}

/* Tries one field of rank 2 and puts it back. */
#define DIFFERS(field, value, words)                                                               \
    do {                                                                                           \
        odd.field = value;                                                                         \
        ranks_run(RANKS, train, words);                                                            \
        odd.field = same.field;                                                                    \
    } while (0)

static void evaluate(hil_comm *comm, void *context)
{
    (void)context;
    hil_eval_options mine = job_eval_options(&place);
    hil_eval_result result;
    mine.comm = comm;
    mine.seq = hil_comm_rank(comm) == ODD ? 8 : 16;
    CHECK_FAILS(hil_eval(&mine, NULL, &result), HIL_ERR_USAGE, "--seq 8 here, but 16 on rank 0");
}

static void check_options(void)
{
    DIFFERS(lr, 2e-3, "--lr 0.002 here, but 0.001 on rank 0");
    DIFFERS(seed, 7, "--seed 7 here");
    DIFFERS(weight_decay, 0.5, "--weight-decay 0.5 here");
    DIFFERS(clip, 0.5, "--clip 0.5 here");
    DIFFERS(beta1, 0.5, "--beta1 0.5 here");
    DIFFERS(schedule, HIL_SCHEDULE_LINEAR, "--schedule \"linear\" here");
    DIFFERS(warmup, 3, "--warmup 3 here, but 0 on rank 0");
    DIFFERS(shuffle, !same.shuffle, "--no-shuffle ");
    DIFFERS(steps, 5, "steps 5 here");
    DIFFERS(save_every, 3, "--save-every 3 here, but 1 on rank 0");
    DIFFERS(eval_every, 3, "--eval-every 3 here, but 2 on rank 0");
    DIFFERS(keep, 5, "--keep 5 here");
    DIFFERS(eval_fraction, 0.25, "--eval-fraction 0.25 here, but 0.2");
    DIFFERS(zero, 1, "the plan's zero 1 here, but 3 on rank 0");
    DIFFERS(recompute, true, "the plan's work ");
    DIFFERS(prefetch, false, "the plan's prefetch false here, but true on rank 0");
}

/* Ranks that read prompts of several lengths would wait for one another. */
static void check_samples(void)
{
    same.tokenizer = odd.tokenizer = "bytes";
    same.sample_every = odd.sample_every = 1;
    same.sample_prompt = odd.sample_prompt = "ab";
    DIFFERS(sample_every, 2, "--sample-every 2 here, but 1 on rank 0");
    DIFFERS(sample_prompt, "ac", "a --sample-prompt of checksum ");
}

static void compare_models(hil_comm *comm, void *context)
{
    const char *words = context;
    hil_source source;
    CHECK_OK(hil_source_open(&source, hil_comm_rank(comm) == ODD ? other : place.model));
    hil_status status = hil_source_compare(comm, &source);
    if (words) {
        CHECK_FAILS(status, HIL_ERR_USAGE, words);
        CHECK(strstr(hil_status_message(), other) != NULL);
    } else {
        CHECK_OK(status);
    }
    hil_source_close(&source);
}

static void copy_model(void)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    char from[JOB_PATH], to[JOB_PATH];
    CHECK_OK(hil_dir_create(job_path(&place, other, "other")));
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        CHECK_OK(hil_path_join(from, place.model, names[i]));
        CHECK_OK(hil_path_join(to, other, names[i]));
        CHECK_OK(copy_file(from, to));
    }
}

static void flip(FILE *file, long at)
{
    CHECK(fseek(file, at, SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(byte != EOF && fseek(file, at, SEEK_SET) == 0);
    CHECK(fputc(byte ^ 1, file) != EOF && fflush(file) == 0);
}

static void check_weights(void)
{
    char path[JOB_PATH], words[256];
    hil_safetensors *weights;
    copy_model();
    ranks_run(RANKS, compare_models, NULL);
    CHECK_OK(hil_safetensors_open_folder(&weights, place.model));
    CHECK_OK(hil_path_join(path, other, "model.safetensors"));
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL && hil_safetensors_count(weights) > 5);
    for (size_t i = 0; i < hil_safetensors_count(weights); ++i) {
        const hil_entry *entry = hil_safetensors_at(weights, i);
        long at = (long)entry->offset + (i % 2 ? (long)entry->bytes - 1 : 0);
        snprintf(words, sizeof words, "the tensor %s of checksum ", entry->name);
        flip(file, at);
        ranks_run(RANKS, compare_models, words);
        flip(file, at);
    }
    ranks_run(RANKS, compare_models, NULL);
    CHECK(fclose(file) == 0);
    hil_safetensors_close(weights);
}

/* Files that decide which tokens there are. */
static void check_files(void)
{
    static char text[] = "{\"eos_token_id\": 3}", words[] = "a generation_config.json of checksum ";
    char path[JOB_PATH];
    CHECK_OK(hil_path_join(path, other, "generation_config.json"));
    CHECK_OK(hil_file_write(path, text, strlen(text)));
    ranks_run(RANKS, compare_models, words);
    CHECK_OK(hil_file_remove_tree(path));
    ranks_run(RANKS, compare_models, words);
}

int main(void)
{
    job_begin(&place);
    same = job_options(&place, "llama", job_path(&place, out, "run"));
    same.batch = 6;
    same.micro_batch = 1;
    same.steps = 4;
    same.save_every = 1;
    same.lr = 1e-3;
    same.zero = 3;
    same.eval_fraction = 0.2;
    same.eval_every = 2;
    odd = same;
    check_options();
    ranks_run(RANKS, evaluate, NULL);
    check_samples();
    check_weights();
    check_files();
    job_end(&place);
    return 0;
}
