/* In bf16 the loss curves are about as close to the fp32 reference as PyTorch's bf16 curves: within
   1.5 times their distance over all models, within 2 times for each, a curve of few steps. */
#include "model_golden.h"

/* Root mean square distance of two curves. */
static double distance(const double *a, const float *b)
{
    double sum = 0;
    for (int s = 0; s < GOLDEN_STEPS; ++s) sum += (a[s] - (double)b[s]) * (a[s] - (double)b[s]);
    return sqrt(sum / GOLDEN_STEPS);
}

static double largest(const double *a, const float *b)
{
    double most = 0;
    for (int s = 0; s < GOLDEN_STEPS; ++s) most = fmax(most, fabs(a[s] - (double)b[s]));
    return most;
}

int main(void)
{
    static const char *const models[] = {GOLDEN_MODELS, GOLDEN_FAMILIES};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    double all = 0, all_theirs = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        int64_t count;
        golden_run run = golden_start(models[i], &options);
        int32_t *tokens = golden_ints(run.golden, "tokens", &count);
        float *exact = golden_floats(run.golden, "loss_fp32", &count);
        float *torch = golden_floats(run.golden, "loss_bf16", &count);
        double ours[GOLDEN_STEPS], theirs[GOLDEN_STEPS];
        for (int s = 0; s < GOLDEN_STEPS; ++s) {
            hil_batch batch = golden_batch(tokens, s);
            hil_step_result result;
            CHECK_OK(hil_trainer_step(run.trainer, &batch, GOLDEN_BATCH, 1e-3, &result));
            ours[s] = result.loss;
            theirs[s] = (double)torch[s];
        }
        double far = distance(ours, exact), torch_far = distance(theirs, exact);
        printf("%s: distance %.2g, PyTorch's %.2g; largest %.2g, PyTorch's %.2g\n", models[i], far,
               torch_far, largest(ours, exact), largest(theirs, exact));
        CHECK(far <= 2 * torch_far);
        all += far * far;
        all_theirs += torch_far * torch_far;
        hil_free(tokens);
        hil_free(exact);
        hil_free(torch);
        golden_stop(&run);
    }
    CHECK(sqrt(all) <= 1.5 * sqrt(all_theirs));
    return 0;
}
