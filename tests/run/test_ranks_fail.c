/* A failure on one rank fails all ranks with its message, and no rank hangs. If all ranks fail
   before anything moved, they can continue. */
#include "crew.h"
#include "io/file.h"
#include "io/io_faulty.h"
#include "store/internal.h"

#include <errno.h>
#include <unistd.h>

enum { RANKS = 3 };

typedef struct batch {
    int32_t token[CREW_BATCH * CREW_SEQ], target[CREW_BATCH * CREW_SEQ];
    hil_batch part;
} batch;

static void fill(batch *b, hil_comm *comm, int64_t step)
{
    int64_t share = CREW_BATCH / hil_comm_size(comm), at = share * CREW_SEQ * hil_comm_rank(comm);
    crew_tokens(step, b->token, b->target);
    b->part = (hil_batch){
        .sequences = share, .length = CREW_SEQ, .token = b->token + at, .target = b->target + at};
}

typedef struct trial {
    crew *crew;
    void (*run)(hil_trainer *t, batch *b);
} trial;

static void try_on_rank(hil_comm *comm, void *context)
{
    const trial *now = context;
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    batch b;
    crew *c = now->crew;
    CHECK_OK(hil_config_parse(&config, c->config, strlen(c->config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(c, comm);
    CHECK_OK(hil_trainer_create(&t, model, &options));
    fill(&b, comm, 0);
    now->run(t, &b);
    hil_trainer_destroy(t);
    hil_model_destroy(model);
}

static hil_status step(hil_trainer *t, const batch *b, hil_step_result *result)
{
    return hil_trainer_step(t, &b->part, 3, 1e-3, result);
}

/* A token outside the vocabulary, a batch of another shape, then a step that works. */
static void wrong_batches(hil_trainer *t, batch *b)
{
    hil_comm *comm = t->options.comm;
    int rank = hil_comm_rank(comm);
    hil_step_result result;
    batch bad = *b;
    fill(&bad, comm, 0);
    if (rank == 1) bad.token[bad.part.token - bad.token + 5] = 12345;
    CHECK_FAILS(step(t, &bad, &result), HIL_ERR_INPUT, "rank 1: token id 12345");
    fill(&bad, comm, 0);
    if (rank == 2) --bad.part.sequences;
    CHECK_FAILS(step(t, &bad, &result), HIL_ERR_USAGE, "differ in shape from rank to rank");
    fill(b, comm, 0);
    CHECK_OK(step(t, b, &result));
    CHECK(t->step == 1 && result.loss > 5 && result.loss < 7);
}

/* If only rank 1 has tokens to predict, the step counts those. If no rank has, the step is refused,
   and the next one works. */
static void few_targets(hil_trainer *t, batch *b)
{
    hil_comm *comm = t->options.comm;
    hil_step_result result;
    for (int i = 0; i < CREW_BATCH * CREW_SEQ; ++i) b->target[i] = -1;
    if (hil_comm_rank(comm) == 1) b->target[b->part.target - b->target + 3] = 7;
    if (hil_comm_rank(comm) == 1) b->target[b->part.target - b->target + 9] = 8;
    CHECK_OK(step(t, b, &result));
    CHECK_INT(result.tokens, 2);
    CHECK(result.loss > 4 && result.loss < 7 && result.grad_norm > 0);
    double loss = result.loss;
    CHECK_OK(hil_comm_sum(comm, &loss, 1));
    CHECK_NEAR(loss, RANKS * result.loss, 1e-12);
    for (int i = 0; i < CREW_BATCH * CREW_SEQ; ++i) b->target[i] = -1;
    CHECK_FAILS(step(t, b, &result), HIL_ERR_INPUT, "nothing to learn");
    CHECK_INT(t->step, 1);
    CHECK_OK(hil_trainer_loss(t, &b->part, &result));
    CHECK(isnan(result.loss) && result.tokens == 0);
    fill(b, comm, 1);
    CHECK_OK(step(t, b, &result));
    CHECK_INT(t->step, 2);
}

/* NaN in one rank's slice of a weight makes the step fail on all ranks. */
static void not_a_number(hil_trainer *t, batch *b)
{
    hil_step_result result;
    hil_param *p = hil_store_at(t->model->store, 0);
    float *weights;
    CHECK_OK(HIL_ALLOC(hil_param_elements(p), &weights));
    CHECK_OK(hil_trainer_read(t, hil_param_spec_of(p)->name, weights, hil_param_elements(p)));
    for (int64_t i = 0; i < hil_param_elements(p); ++i) weights[i] = NAN;
    CHECK_OK(hil_trainer_write(t, hil_param_spec_of(p)->name, weights, hil_param_elements(p)));
    hil_free(weights);
    CHECK_FAILS(step(t, b, &result), HIL_ERR_NUMERIC, "the loss is not a finite number");
    CHECK(!strstr(hil_status_message(), "rank"));
}

/* A drive of one rank gives back other bytes than it was given. */
static void damaged_drive(hil_trainer *t, batch *b)
{
    hil_step_result result;
    CHECK_OK(step(t, b, &result));
    CHECK_OK(hil_store_sweep_wait(t->model->store));
    if (hil_comm_rank(t->options.comm) == 2) {
        const hil_store *store = t->model->store;
        for (size_t u = 0; u < store->units; ++u) {
            const hil_home *home = &store->unit[u].home[HIL_WEIGHT];
            CHECK_INT(home->tier, HIL_DISK);
            CHECK_OK(hil_disk_damage(t->tiers.disk, &home->extent, 0, 17));
        }
    }
    hil_status status = HIL_OK;
    for (int i = 0; i < 3 && status == HIL_OK; ++i) status = step(t, b, &result);
    if (hil_comm_rank(t->options.comm) != 2)
        CHECK_FAILS(status, HIL_ERR_IO, "rank 2: checksum error");
    else
        CHECK_FAILS(status, HIL_ERR_IO, "checksum error");
}

/* The same where a parameter is read by its name. */
static void damaged_read(hil_trainer *t, batch *b)
{
    (void)b;
    int rank = hil_comm_rank(t->options.comm);
    hil_param *p = hil_store_at(t->model->store, 0);
    float *weights;
    CHECK_OK(HIL_ALLOC(hil_param_elements(p), &weights));
    const hil_home *home = &t->model->store->unit[p->unit].home[HIL_WEIGHT];
    if (rank == 2) CHECK_OK(hil_disk_damage(t->tiers.disk, &home->extent, 0, 17));
    CHECK_FAILS(hil_trainer_read(t, p->name, weights, hil_param_elements(p)), HIL_ERR_IO,
                rank == 2 ? "checksum error" : "rank 2: checksum error");
    hil_free(weights);
}

/* The first weights do not reach the drive of one rank. */
static void open_full_drive(hil_comm *comm, void *context)
{
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    crew *c = context;
    CHECK_OK(hil_config_parse(&config, c->config, strlen(c->config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(c, comm);
    CHECK_FAILS(hil_trainer_create(&t, model, &options), HIL_ERR_IO, "No space left on device");
    CHECK(t == NULL);
    double one = 1;
    CHECK_OK(hil_comm_sum(comm, &one, 1));
    hil_model_destroy(model);
}

/* One rank cannot even open. */
static void open_without_drive(hil_comm *comm, void *context)
{
    const char *folder = context;
    hil_config config;
    hil_model *model;
    hil_trainer *t;
    crew c = crew_of(0, RANKS);
    hil_disk_budget disk = {hil_comm_rank(comm) == 1 ? "/nowhere" : folder, 1 << 20};
    c.disk = &disk;
    CHECK_OK(hil_config_parse(&config, c.config, strlen(c.config), "crew"));
    CHECK_OK(hil_build_model(&model, &config));
    hil_trainer_options options = crew_options(&c, comm);
    CHECK_FAILS(hil_trainer_create(&t, model, &options), HIL_ERR_IO,
                "rank 1: cannot use /nowhere: there is no such folder");
    hil_model_destroy(model);
}

static void try_all(void (*run)(hil_trainer *t, batch *b), const hil_disk_budget *disk,
                    const char *plan)
{
    crew c = crew_of(2, RANKS);
    c.disk = disk;
    c.plan = plan;
    ranks_run(RANKS, try_on_rank, &(trial){.crew = &c, .run = run});
}

int main(void)
{
    char folder[] = "/tmp/hilbert-ranks-XXXXXX", file[HIL_PATH_MAX];
    CHECK(mkdtemp(folder) != NULL);
    try_all(wrong_batches, NULL, NULL);
    try_all(few_targets, NULL, NULL);
    try_all(not_a_number, NULL, NULL);
    ranks_run(RANKS, open_without_drive, folder);
    hil_disk_budget disk = {folder, 64 << 20};
    crew c = crew_of(2, RANKS);
    c.disk = &disk;
    json_t *plan = crew_plan(&c), *unit;
    size_t i;
    json_array_foreach(json_object_get(plan, "units"), i, unit)
        CHECK(json_object_set_new(unit, "weight", json_string("disk")) == 0);
    CHECK(json_object_set_new(plan, "ring", json_integer(1 << 20)) == 0);
    CHECK_OK(hil_path_join(file, folder, "plan.json"));
    CHECK(json_dump_file(plan, file, JSON_INDENT(1)) == 0);
    json_decref(plan);
    try_all(damaged_drive, &disk, file);
    try_all(damaged_read, &disk, file);
    c.plan = file;
    hil_io_fail_at(5, ENOSPC);
    ranks_run(RANKS, open_full_drive, &c);
    hil_io_fail_at(0, 0);
    CHECK(unlink(file) == 0 && rmdir(folder) == 0);
    return 0;
}
