/* print_logits MODEL TOKENS.npy SEQ [ADAPTER] - writes the logits of all windows of SEQ tokens to
   stdout, as fp32 (windows, SEQ, vocabulary). For tools/check_adapter.py. */
#include "job.h"

#include "format/npy.h"

#include <stdlib.h>

int main(int count, char **argument)
{
    hil_source source;
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_npy *npy;
    int32_t *tokens;
    float *logits;
    if (count < 4) check_die("print_logits", __LINE__, "MODEL TOKENS.npy SEQ [ADAPTER]");
    int64_t seq = strtoll(argument[3], NULL, 10);
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    CHECK_OK(hil_source_open(&source, argument[1]));
    if (count > 4) CHECK_OK(hil_source_adapt_folder(&source, argument[4]));
    CHECK_OK(hil_source_load(&source, &options, NULL, &model, &trainer));
    CHECK_OK(hil_npy_open(&npy, argument[2]));
    int64_t windows = hil_npy_count(npy) / seq, vocab = source.config.vocab;
    CHECK_OK(HIL_ALLOC(windows * seq, &tokens));
    CHECK_OK(hil_npy_read(npy, 0, windows * seq, vocab, tokens));
    CHECK_OK(HIL_ALLOC(windows * seq * vocab, &logits));
    hil_batch batch = {.sequences = windows, .length = seq, .token = tokens};
    CHECK_OK(hil_trainer_logits(trainer, &batch, logits));
    size_t all = (size_t)(windows * seq * vocab);
    CHECK(fwrite(logits, sizeof *logits, all, stdout) == all && fflush(stdout) == 0);
    hil_free(logits);
    hil_free(tokens);
    hil_npy_close(npy);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    hil_source_close(&source);
    return 0;
}
