/* Logits, every gradient and twenty AdamW steps agree with PyTorch, for every architecture. */
#include "model_golden.h"
#include "store/state.h"

static void check_logits(golden_run *run, const char *name)
{
    int64_t count, tokens_count;
    float *expected = golden_floats(run->golden, "logits", &count);
    int32_t *tokens = golden_ints(run->golden, "tokens", &tokens_count);
    int64_t vocab = hil_engine_vocab(run->trainer->engine);
    hil_batch batch = {
        .sequences = count / vocab / GOLDEN_SEQ, .length = GOLDEN_SEQ, .token = tokens};
    float *logits;
    CHECK_OK(HIL_ALLOC(count, &logits));
    CHECK_OK(hil_trainer_logits(run->trainer, &batch, logits));
    double error = golden_error(logits, expected, count);
    printf("%s: logits %.2g", name, error);
    CHECK(error < 1e-5);
    hil_free(logits);
    hil_free(tokens);
    hil_free(expected);
}

/* Reads the first moments in the layout that files give the parameter. */
static void read_as_file(hil_store *store, hil_param *p, float *out)
{
    const hil_param_spec *spec = hil_param_spec_of(p);
    int64_t rows = hil_shape_rows(&spec->shape), cols = hil_shape_cols(&spec->shape);
    float *own;
    CHECK_OK(HIL_ALLOC(rows * cols, &own));
    CHECK_OK(hil_store_read(store, p, HIL_MOMENT1, 0, rows * cols, own));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            out[spec->transposed ? c * rows + r : r * cols + c] = own[r * cols + c];
    hil_free(own);
}

/* The error of a gradient. A bias of keys that do not turn moves all scores of a query alike: its
   gradient is 0 but for rounding, in both. */
static double gradient_error(const float *got, const float *expected, int64_t count)
{
    double largest[2] = {0, 0};
    for (int64_t i = 0; i < count; ++i) {
        largest[0] = fmax(largest[0], fabs((double)got[i]));
        largest[1] = fmax(largest[1], fabs((double)expected[i]));
    }
    bool rounding = largest[0] < 1e-8 && largest[1] < 1e-8;
    return rounding ? 0 : golden_error(got, expected, count);
}

/* Compares the gradients of the first step, before any update: of micro-batches of one sequence,
   or of one with all, over which the auxiliary loss of a mixture is taken. */
static void check_gradients(golden_run *run, const int32_t *tokens, int64_t micro)
{
    hil_store *store = run->model->store;
    hil_batch batch = golden_batch(tokens, 0);
    hil_step_result result;
    run->trainer->optimizer.clip = 0;
    double worst = 0;
    /* A step with learning rate 0 keeps the weights and leaves the gradients in the first moment.
     */
    CHECK_OK(hil_trainer_step(run->trainer, &batch, micro, 0, &result));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        char name[300];
        if (!hil_param_trainable(p)) continue;
        snprintf(name, sizeof name, "grad.%s", hil_param_spec_of(p)->name);
        int64_t count;
        float *expected = golden_floats(run->golden, name, &count), *got;
        CHECK_INT(count, hil_param_elements(p));
        CHECK_OK(HIL_ALLOC(count, &got));
        read_as_file(store, p, got);
        for (int64_t k = 0; k < count; ++k) got[k] /= 1.0f - 0.9f;
        double error = gradient_error(got, expected, count);
        if (error > 1e-4) printf("\n%s: %g\n", name, error);
        CHECK(error <= 1e-4);
        if (error > worst) worst = error;
        hil_free(got);
        hil_free(expected);
    }
    printf(", gradients %.2g", worst);
}

static double check_curve(golden_run *run, const int32_t *tokens, const char *curve)
{
    int64_t count;
    float *expected = golden_floats(run->golden, curve, &count);
    double worst = 0;
    for (int s = 0; s < GOLDEN_STEPS; ++s) {
        hil_batch batch = golden_batch(tokens, s);
        hil_step_result result;
        CHECK_OK(hil_trainer_step(run->trainer, &batch, GOLDEN_BATCH, 1e-3, &result));
        double error = fabs(result.loss - (double)expected[s]);
        if (error > worst) worst = error;
    }
    hil_free(expected);
    return worst;
}

int main(void)
{
    static const char *const models[] = {GOLDEN_MODELS, GOLDEN_FAMILIES, "phi3_long"};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 2;
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        int64_t count;
        golden_run run = golden_start(models[i], &options);
        int32_t *tokens = golden_ints(run.golden, "tokens", &count);
        check_logits(&run, models[i]);
        check_gradients(&run, tokens, run.mixture ? GOLDEN_BATCH : 1);
        golden_stop(&run);
        run = golden_start(models[i], &options);
        double worst = check_curve(&run, tokens, "loss_fp32");
        printf(", losses %.2g\n", worst);
        CHECK(worst < 1e-4);
        golden_stop(&run);
        hil_free(tokens);
    }
    return 0;
}
