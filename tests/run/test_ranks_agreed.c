/* A run ends with a failure on which the ranks agree: each returns the same message, and the comm
   stays usable. */
#include "job.h"
#include "../comm/ranks.h"

enum { RANKS = 2 };

static job_place place;
static char out[JOB_PATH];
static hil_train_options options;
static char message[RANKS][1024];

static void note(hil_comm *comm)
{
    int rank = hil_comm_rank(comm);
    snprintf(message[rank], sizeof message[rank], "%s", hil_status_message());
    double one = 1;
    CHECK_OK(hil_comm_sum(comm, &one, 1));
    CHECK(one == RANKS);
    CHECK(strcmp(message[0], message[1]) == 0);
}

static void train(hil_comm *comm, void *context)
{
    const hil_status *expected = context;
    hil_train_options mine = options;
    hil_train_result result;
    mine.comm = comm;
    CHECK_INT(hil_train(&mine, NULL, &result), *expected);
    note(comm);
}

static void evaluate(hil_comm *comm, void *context)
{
    hil_eval_options mine = job_eval_options(&place);
    hil_eval_result result;
    mine.comm = comm;
    mine.data = context;
    mine.tokenizer = "bytes";
    CHECK_INT(hil_eval(&mine, NULL, &result), HIL_ERR_INPUT);
    note(comm);
}

static void expect(hil_status status, const char *text)
{
    ranks_run(RANKS, train, &status);
    CHECK(strstr(message[0], text));
}

/* One long prompt: it fills a window, and nothing is left to learn. */
static void check_prompts(void)
{
    char path[JOB_PATH];
    const char *data[1] = {job_path(&place, path, "prompts.jsonl")};
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "{\"prompt\": \"%01000d\", \"completion\": \"\"}\n", 7);
    CHECK(fclose(file) == 0);
    ranks_run(RANKS, evaluate, data);
    CHECK(strstr(message[0], "has no token to learn: in all 1 examples"));
}

int main(void)
{
    char path[JOB_PATH];
    job_begin(&place);
    options = job_options(&place, "llama", job_path(&place, out, "run"));
    options.save_every = 1;
    options.keep = 1;
    options.steps = 3;
    options.lr = 1e30;
    expect(HIL_ERR_NUMERIC, "the last good checkpoint is");
    CHECK_OK(hil_path_join(path, out, "checkpoints/step-1/moment1.safetensors"));
    CHECK(truncate(path, 100) == 0);
    options.lr = 1e-3;
    options.resume = true;
    expect(HIL_ERR_INPUT, "no whole checkpoint in");
    check_prompts();
    job_end(&place);
    return 0;
}
