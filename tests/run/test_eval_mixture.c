/* eval gives the loss of a mixture of experts that transformers gives for one forward, with the
   auxiliary loss over the sequences of a micro-batch, and that loss alone beside it. */
#include "job.h"

#define HEADER 118 /* so that the tokens begin at a multiple of 64 */

/* The first tokens of a model's stream as an array of their own. */
static void write_tokens(const char *to, const int32_t *token, int count)
{
    FILE *file = fopen(to, "wb");
    uint16_t value;
    char header[HEADER + 1];
    CHECK(file != NULL);
    int size = snprintf(header, sizeof header,
                        "{'descr': '<u2', 'fortran_order': False, 'shape': (%d,), }", count);
    memset(header + size, ' ', (size_t)(HEADER - size));
    header[HEADER - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fwrite((const unsigned char[]){HEADER, 0}, 1, 2, file);
    fwrite(header, 1, HEADER, file);
    for (int i = 0; i < count; ++i) {
        value = (uint16_t)token[i];
        fwrite(&value, sizeof value, 1, file);
    }
    CHECK(fclose(file) == 0);
}

static hil_eval_result evaluate(const char *folder, const char *data, int64_t micro_batch)
{
    hil_eval_options options;
    hil_eval_result result;
    hil_eval_defaults(&options);
    options.model = folder;
    options.data = &data;
    options.data_count = 1;
    options.seq = GOLDEN_SEQ;
    options.micro_batch = micro_batch;
    options.threads = 2;
    CHECK_OK(hil_eval(&options, NULL, &result));
    return result;
}

static void check(job_place *place, const char *model)
{
    char data[JOB_PATH], *folder = golden_path(model, NULL);
    int64_t count;
    hil_safetensors *golden = golden_open(model);
    int32_t *tokens = golden_ints(golden, "tokens", &count);
    float *loss = golden_floats(golden, "loss_fp32", &count);
    float *auxiliary = golden_floats(golden, "aux_loss", &count);
    write_tokens(job_path(place, data, "first.npy"), tokens, GOLDEN_BATCH * GOLDEN_SEQ);
    hil_eval_result result = evaluate(folder, data, GOLDEN_BATCH);
    CHECK_INT(result.tokens, GOLDEN_BATCH * (GOLDEN_SEQ - 1));
    CHECK_NEAR(result.loss, (double)loss[0], 1e-5);
    CHECK_NEAR(result.aux_loss, (double)auxiliary[0], 1e-5);
    /* That of one sequence is another one: few tokens are never spread evenly. */
    hil_eval_result alone = evaluate(folder, data, 1);
    CHECK(alone.aux_loss > result.aux_loss && alone.loss > result.loss);
    hil_free(auxiliary);
    hil_free(loss);
    hil_free(tokens);
    hil_safetensors_close(golden);
    hil_free(folder);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check(&place, "mixtral");
    check(&place, "qwen3_moe");
    check(&place, "granitemoe");
    job_end(&place);
    return 0;
}
