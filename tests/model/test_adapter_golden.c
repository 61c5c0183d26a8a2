/* Logits, every gradient and twenty AdamW steps of adapters agree with PEFT. */
#include "adapter_golden.h"

/* Of the last two positions of the first window. */
static double logits_error(adapter_run *r)
{
    int64_t vocab = hil_engine_vocab(r->base.trainer->engine);
    hil_batch batch = {.sequences = 1, .length = GOLDEN_SEQ, .token = r->tokens};
    float *logits;
    CHECK_OK(HIL_ALLOC(vocab * GOLDEN_SEQ, &logits));
    CHECK_OK(hil_trainer_logits(r->base.trainer, &batch, logits));
    double error =
        golden_compare(r->base.golden, "logits", logits + (GOLDEN_SEQ - 2) * vocab, 2 * vocab);
    hil_free(logits);
    return error;
}

static double loss_error(adapter_run *r)
{
    int64_t count;
    float *expected = golden_floats(r->base.golden, "loss", &count);
    double worst = 0;
    CHECK_INT(count, GOLDEN_STEPS);
    for (int s = 0; s < GOLDEN_STEPS; ++s) {
        hil_batch batch = golden_batch(r->tokens, s);
        hil_step_result result;
        CHECK_OK(hil_trainer_step(r->base.trainer, &batch, GOLDEN_BATCH, 1e-3, &result));
        worst = fmax(worst, fabs(result.loss - (double)expected[s]));
    }
    hil_free(expected);
    return worst;
}

int main(void)
{
    static const char *const adapters[] = {"gpt2_lora",
                                           "gpt2_rslora",
                                           "llama_lora",
                                           "llama_rslora",
                                           "qwen2_lora",
                                           "qwen2_rslora",
                                           "qwen3_lora",
                                           "qwen3_rslora",
                                           "gpt2_dora",
                                           "llama_dora",
                                           "qwen2_dora",
                                           "qwen3_dora",
                                           "expression",
                                           "patterns",
                                           "layers",
                                           "saved",
                                           "fused",
                                           "gemma",
                                           "experts",
                                           "experts_all",
                                           "experts_only",
                                           "experts_alternating",
                                           "linear_attention",
                                           "linear_attention_fused",
                                           "linear_attention_all",
                                           "state_space",
                                           "state_space_renamed",
                                           "beside_experts",
                                           "experts_swapped",
                                           "experts_router",
                                           "inputs",
                                           "convolution"};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 2;
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; ++i) {
        adapter_run r = adapter_start(adapters[i], &options);
        hil_batch batch = golden_batch(r.tokens, 0);
        hil_step_result result;
        double logits = logits_error(&r), gradients = adapter_gradients(&r, &batch, &result);
        adapter_stop(&r);
        r = adapter_start(adapters[i], &options);
        double losses = loss_error(&r);
        adapter_stop(&r);
        printf("%s: logits %.2g, gradients %.2g, losses %.2g\n", adapters[i], logits, gradients,
               losses);
        CHECK(logits < 1e-5);
        CHECK(gradients <= 1e-4);
        CHECK(losses <= 1e-4);
    }
    return 0;
}
