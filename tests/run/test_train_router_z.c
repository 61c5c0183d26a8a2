/* --router-z-loss: losses, gradient norms and the loss of the routers are those of PyTorch,
   wherever the experts are kept and however a batch is divided; evaluations do not have it, and
   what has no routers refuses it. */
#include "job.h"

static json_t *golden;

static void compare(const char *out, const char *model, const char *key, double tolerance)
{
    double ours[GOLDEN_STEPS];
    const json_t *theirs = json_object_get(json_object_get(golden, model), key);
    CHECK_INT(job_metrics(out, key, ours, GOLDEN_STEPS), GOLDEN_STEPS);
    for (size_t s = 0; s < GOLDEN_STEPS; ++s) {
        double expected = json_real_value(json_array_get(theirs, s));
        CHECK_NEAR(ours[s], expected, tolerance * expected);
    }
}

static hil_train_options weighed(job_place *place, const char *model, const char *out)
{
    hil_train_options options = job_options(place, model, out);
    options.micro_batch = GOLDEN_BATCH; /* over which an auxiliary loss is taken */
    options.router_z_loss = json_real_value(json_object_get(golden, "coefficient"));
    return options;
}

static void check_losses(job_place *place)
{
    static const char *const models[] = {"mixtral", "gpt_oss", "deepseek_v3"};
    char out[JOB_PATH];
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        hil_train_options options = weighed(place, models[i], job_path(place, out, models[i]));
        job_train(&options);
        compare(out, models[i], "loss", 2e-5);
        compare(out, models[i], "router_z_loss", 2e-5);
        compare(out, models[i], "grad_norm", 1e-3);
    }
}

/* The windows of a stream of tokens, of which window w predicts those from first[w % 4] on. */
static void write_masked(const job_place *place, const char *path)
{
    static const int first[] = {1, 10, 19, 28};
    const int count = GOLDEN_STEPS * GOLDEN_BATCH * GOLDEN_SEQ;
    hil_bytes stream;
    CHECK_OK(hil_bytes_read(&stream, place->tokens));
    const size_t header = 128; /* of a small .npy file */
    CHECK_INT((long long)stream.size, (long long)header + 2 * count);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    for (int i = 0; i < count; ++i) {
        uint16_t token;
        memcpy(&token, stream.data + header + 2 * i, sizeof token);
        fprintf(file, "%s%d", i % GOLDEN_SEQ ? ", " : "{\"input_ids\": [", token);
        if (i % GOLDEN_SEQ < GOLDEN_SEQ - 1) continue;
        fputs("], \"completion_mask\": [", file);
        for (int k = 0; k < GOLDEN_SEQ; ++k)
            fprintf(file, "%s%d", k ? ", " : "", k >= first[i / GOLDEN_SEQ % 4]);
        fputs("]}\n", file);
    }
    CHECK(fclose(file) == 0);
    hil_bytes_free(&stream);
}

/* Targets that sequences have in unequal numbers, computed one sequence after the other and all at
   once. */
static void check_masked(job_place *place)
{
    char out[JOB_PATH], path[JOB_PATH];
    hil_train_options options = weighed(place, "deepseek_v3", job_path(place, out, "masked"));
    write_masked(place, job_path(place, path, "masked.jsonl"));
    place->data[0] = path;
    options.format = "tokens";
    options.overwrite = true;
    for (int i = 1; i <= GOLDEN_BATCH; i += GOLDEN_BATCH - 1) {
        options.micro_batch = i;
        job_train(&options);
        compare(out, "masked", "loss", 2e-5);
        compare(out, "masked", "router_z_loss", 2e-5);
        compare(out, "masked", "grad_norm", 1e-3);
    }
}

/* In small budgets, recomputed, with micro-batches of one sequence. */
static void check_places(job_place *place)
{
    char here[JOB_PATH], there[JOB_PATH];
    const hil_disk_budget disk = {place->folder, 64 << 20};
    hil_train_options options = weighed(place, "deepseek_v3", job_path(place, here, "here"));
    options.micro_batch = 1;
    job_train(&options);
    compare(here, "deepseek_v3", "loss", 2e-5);
    options.out = job_path(place, there, "there");
    options.recompute = true;
    options.memory.device = 450 << 10;
    options.memory.host = 600 << 10;
    options.memory.disks = &disk;
    options.memory.disk_count = 1;
    job_train(&options);
    CHECK(job_same(here, there));
}

static void check_without(job_place *place)
{
    char out[JOB_PATH];
    double values[GOLDEN_STEPS], alone[2];
    const char *sets[1];
    hil_train_options options = weighed(place, "deepseek_v3", job_path(place, out, "evaluated"));
    sets[0] = place->tokens;
    options.eval_sets = sets;
    options.eval_set_count = 1;
    options.steps = 1;
    options.lr = 0;
    job_train(&options);
    CHECK_INT(job_metrics(out, "eval_loss", alone, 1), 1);
    options.overwrite = true;
    options.router_z_loss = 0;
    job_train(&options);
    CHECK_INT(job_metrics(out, "router_z_loss", values, GOLDEN_STEPS), 0);
    CHECK_INT(job_metrics(out, "eval_loss", alone + 1, 1), 1);
    CHECK(alone[0] == alone[1]);
}

/* A mixture by its config, all of whose layers have an MLP. */
static void check_dense(job_place *place)
{
    char out[JOB_PATH], path[JOB_PATH];
    hil_train_result result;
    hil_train_options options = weighed(place, "deepseek_v3", job_path(place, out, "dense"));
    CHECK_OK(hil_path_join(path, place->model, "config.json"));
    json_t *config = json_load_file(path, 0, NULL);
    CHECK(config != NULL);
    json_object_set_new(config, "first_k_dense_replace",
                        json_incref(json_object_get(config, "num_hidden_layers")));
    CHECK(json_dump_file(config, job_path(place, path, "dense.json"), 0) == 0);
    json_decref(config);
    options.model = path;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "no layer of this deepseek_v3 has a router");
}

static void check_refused(job_place *place)
{
    char out[JOB_PATH];
    hil_train_result result;
    hil_train_options options = weighed(place, "llama", job_path(place, out, "refused"));
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "no layer of this llama has");
    check_dense(place);
    options = weighed(place, "mixtral", out);
    options.loss = "dpo";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "not for --loss dpo");
    options = weighed(place, "mixtral", out);
    options.router_z_loss = -1;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "--router-z-loss -1");
    options = weighed(place, "mixtral", job_path(place, out, "mixtral"));
    options.router_z_loss = 0;
    options.resume = true;
    options.steps = GOLDEN_STEPS + 1;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "--router-z-loss 0.05, not none");
}

int main(void)
{
    job_place place;
    json_error_t error;
    golden = json_load_file(HIL_TESTS "/golden/router_z.json", 0, &error);
    CHECK(golden != NULL);
    job_begin(&place);
    check_losses(&place);
    check_places(&place);
    check_masked(&place);
    check_without(&place);
    check_refused(&place);
    job_end(&place);
    json_decref(golden);
    return 0;
}
