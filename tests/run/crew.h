/* crew.h - a small model trained by several ranks, each a thread with a store of its own. */
#ifndef HIL_TESTS_CREW_H
#define HIL_TESTS_CREW_H

#include "base/alloc.h"
#include "base/philox.h"
#include "../comm/ranks.h"
#include "model/build.h"
#include "plan/plan_file.h"
#include "train/trainer.h"
#include "store/param.h"

enum { CREW_STEPS = 20, CREW_BATCH = 24, CREW_SEQ = 16, CREW_VOCAB = 300 };

static const char *const crew_models[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 300, \"n_embd\": 48, \"n_head\": 4, \"n_layer\": 2,"
    " \"n_positions\": 64, \"tie_word_embeddings\": true}",
    "{\"model_type\": \"gpt2\", \"vocab_size\": 300, \"n_embd\": 48, \"n_head\": 4, \"n_layer\": 2,"
    " \"n_positions\": 64, \"tie_word_embeddings\": false, \"resid_pdrop\": 0.1,"
    " \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 48,"
    " \"intermediate_size\": 100, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": true}",
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": 48,"
    " \"intermediate_size\": 100, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 2, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": false}",
};
enum { CREW_MODELS = 4 };

/* Large enough that padding does not matter. */
static const char *const crew_large =
    "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": 128,"
    " \"intermediate_size\": 352, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 3, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
    " \"tie_word_embeddings\": false}";

/* The parameters of a run, the same on all ranks. */
typedef struct crew {
    const char *config;
    const char *dtype, *optimizer;
    int ranks; /* 0: alone, without a comm */
    int zero;
    int64_t steps, micro_batch;
    size_t tile_size;
    uint64_t device_memory, host_memory; /* host_memory is of all ranks */
    const hil_disk_budget *disk;
    const char *plan;
    hil_trainer_options *options; /* further options that a test changes; may be NULL */
    void (*inspect)(hil_trainer *trainer, void *context); /* called on every rank at its end */
    void *context;
    /* Results, of rank 0. */
    double loss[CREW_STEPS], norm[CREW_STEPS], held_out;
    hil_step_account account[CREW_STEPS];
    float *weights;
    int64_t count;
} crew;

static inline crew crew_of(int model, int ranks)
{
    return (crew){.config = crew_models[model],
                  .dtype = "fp32",
                  .optimizer = "adamw",
                  .ranks = ranks,
                  .steps = CREW_STEPS,
                  .micro_batch = 3};
}

/* The sequences of a whole step, the same for any number of ranks. Some have document starts, some
   have no targets. */
static inline void crew_tokens(int64_t step, int32_t *token, int32_t *target)
{
    for (int64_t i = 0; i < CREW_BATCH * CREW_SEQ; ++i) {
        uint32_t word[4];
        hil_philox(7, (uint64_t)step, (uint64_t)i, word);
        token[i] = (int32_t)(word[0] % 40 * (word[1] % 7 + 1));
        bool last = i % CREW_SEQ == CREW_SEQ - 1;
        target[i] = last || word[2] % 5 == 0 ? -1 : (int32_t)(word[3] % 60);
    }
}

static inline void crew_read(crew *c, hil_comm *comm, hil_trainer *t)
{
    hil_store *store = t->model->store;
    int64_t all = 0, at = 0;
    for (size_t i = 0; i < hil_store_count(store); ++i)
        all += hil_param_elements(hil_store_at(store, i));
    float *weights;
    CHECK_OK(HIL_ALLOC(all, &weights));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        CHECK_OK(
            hil_trainer_read(t, hil_param_spec_of(p)->name, weights + at, hil_param_elements(p)));
        at += hil_param_elements(p);
    }
    if (hil_comm_rank(comm) == 0) {
        c->weights = weights;
        c->count = all;
    } else {
        hil_free(weights);
    }
}

static inline hil_trainer_options crew_options(const crew *c, hil_comm *comm)
{
    hil_trainer_options o;
    hil_trainer_defaults(&o);
    if (c->options) o = *c->options;
    o.comm = comm;
    o.dtype = c->dtype;
    o.optimizer = c->optimizer;
    o.threads = 1;
    o.seed = 5;
    o.zero = c->zero;
    o.sequences = CREW_BATCH / hil_comm_size(comm);
    o.length = CREW_SEQ;
    o.micro_batch = c->micro_batch;
    if (c->tile_size) o.tile_size = c->tile_size;
    o.memory.device = c->device_memory ? c->device_memory : 16 << 20;
    o.memory.host = c->host_memory ? c->host_memory : (uint64_t)hil_comm_size(comm) * (16 << 20);
    o.memory.disks = c->disk;
    o.memory.disk_count = c->disk ? 1 : 0;
    o.plan = c->plan;
    return o;
}

static inline void crew_steps(crew *c, hil_comm *comm, hil_trainer *t)
{
    static const int64_t n = CREW_BATCH * CREW_SEQ;
    int32_t token[CREW_BATCH * CREW_SEQ], target[CREW_BATCH * CREW_SEQ];
    int64_t sequences = CREW_BATCH / hil_comm_size(comm);
    int64_t begin = n / hil_comm_size(comm) * hil_comm_rank(comm);
    hil_batch batch = {.sequences = sequences,
                       .length = CREW_SEQ,
                       .token = token + begin,
                       .target = target + begin};
    hil_step_result result;
    for (int64_t step = 0; step < c->steps; ++step) {
        crew_tokens(step, token, target);
        CHECK_OK(hil_trainer_step(t, &batch, c->micro_batch, 1e-3, &result));
        if (hil_comm_rank(comm)) continue;
        c->loss[step] = result.loss;
        c->norm[step] = result.grad_norm;
        c->account[step] = result.account;
    }
}

static inline void crew_work(hil_comm *comm, void *context)
{
    crew *c = context;
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    CHECK_OK(hil_config_parse(&config, c->config, strlen(c->config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(c, comm);
    CHECK_OK(hil_trainer_create(&t, model, &options));
    crew_steps(c, comm, t);
    crew_read(c, comm, t);
    if (c->inspect) c->inspect(t, c->context);
    hil_trainer_destroy(t);
    hil_model_destroy(model);
}

static inline void crew_run(crew *c)
{
    if (c->ranks)
        ranks_run(c->ranks, crew_work, c);
    else
        crew_work(NULL, c);
}

static inline void crew_free(crew *c)
{
    hil_free(c->weights);
    c->weights = NULL;
}

/* The plan of a run, on rank 0. */
static inline void crew_copy_plan(hil_trainer *t, void *context)
{
    if (hil_comm_rank(t->options.comm)) return;
    CHECK_OK(hil_plan_write(&t->planned.outline, &t->planned.plan, NULL, context));
}

/* The plan that a run of these ranks would follow, to be edited; released with json_decref. */
static inline json_t *crew_plan(const crew *c)
{
    json_t *plan = NULL;
    crew trial = *c;
    trial.steps = 0;
    trial.inspect = crew_copy_plan;
    trial.context = &plan;
    crew_run(&trial);
    crew_free(&trial);
    CHECK(plan != NULL);
    return plan;
}

/* Bit for bit. */
static inline bool crew_same(const crew *a, const crew *b)
{
    return a->count == b->count && memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(a->weights, b->weights, (size_t)a->count * sizeof *a->weights) == 0;
}

#endif
