/* Documents that share a window do not see each other, in any architecture: the logits and the
   gradients of each are those that it has in a window of its own. */
#include "model_golden.h"

enum { T = GOLDEN_SEQ, CUT = 13, REST = T - CUT };

/* Two documents in one window, and each at the beginning of one; nothing else is predicted. */
typedef struct windows {
    int32_t token[3 * T], target[3 * T], position[3 * T], first[3 * T];
} windows;

static windows make(const int32_t *tokens)
{
    windows w;
    for (int i = 0; i < T; ++i) {
        int begin = i < CUT ? 0 : CUT, end = i < CUT ? CUT : T;
        w.token[i] = tokens[i];
        w.target[i] = i + 1 < end ? tokens[i + 1] : -1;
        w.position[i] = i - begin;
        w.first[i] = begin;
        w.token[T + i] = tokens[i];
        w.token[2 * T + i] = tokens[(CUT + i) % T];
        w.target[T + i] = i + 1 < CUT ? tokens[i + 1] : -1;
        w.target[2 * T + i] = i + 1 < REST ? tokens[CUT + i + 1] : -1;
        w.position[T + i] = w.position[2 * T + i] = i;
        w.first[T + i] = w.first[2 * T + i] = 0;
    }
    return w;
}

static hil_batch batch_of(const windows *w, int64_t first, int64_t count)
{
    int64_t at = first * T;
    return (hil_batch){.sequences = count,
                       .length = T,
                       .token = w->token + at,
                       .target = w->target + at,
                       .position = w->position + at,
                       .first = w->first + at};
}

static double check_logits(golden_run *run, const windows *w)
{
    int64_t vocab = hil_engine_vocab(run->trainer->engine);
    hil_batch batch = batch_of(w, 0, 3);
    float *logits;
    CHECK_OK(HIL_ALLOC(3 * T * vocab, &logits));
    CHECK_OK(hil_trainer_logits(run->trainer, &batch, logits));
    double one = golden_error(logits, logits + T * vocab, CUT * vocab);
    double other = golden_error(logits + CUT * vocab, logits + 2 * T * vocab, REST * vocab);
    hil_free(logits);
    return fmax(one, other);
}

/* The difference of the gradients' norms. */
static double check_gradients(const char *name, const hil_trainer_options *options,
                              const windows *w)
{
    hil_step_result result[2];
    for (int i = 0; i < 2; ++i) {
        golden_run run = golden_start(name, options);
        hil_batch batch = batch_of(w, i, i + 1);
        CHECK_OK(hil_trainer_step(run.trainer, &batch, i + 1, 1e-3, &result[i]));
        CHECK_INT(result[i].tokens, T - 2);
        golden_stop(&run);
    }
    CHECK_NEAR(result[0].loss, result[1].loss, 1e-5);
    return fabs(result[0].grad_norm / result[1].grad_norm - 1);
}

int main(void)
{
    static const char *const models[] = {GOLDEN_MODELS, GOLDEN_FAMILIES};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 2;
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        golden_run run = golden_start(models[i], &options);
        int64_t count;
        int32_t *tokens = golden_ints(run.golden, "tokens", &count);
        windows w = make(tokens);
        double logits = check_logits(&run, &w), gradients = 0;
        /* The auxiliary loss of a mixture is taken over what follows a document, too. */
        if (!run.mixture) gradients = check_gradients(models[i], &options, &w);
        printf("%s: logits %.2g, gradients %.2g\n", models[i], logits, gradients);
        CHECK(logits < 1e-5 && gradients < 1e-5);
        hil_free(tokens);
        golden_stop(&run);
    }
    return 0;
}
