/* adapter_golden.h - loads an adapter of tests/golden/adapters with its base into a trainer. */
#ifndef HIL_TESTS_ADAPTER_GOLDEN_H
#define HIL_TESTS_ADAPTER_GOLDEN_H

#include "model_golden.h"
#include "format/peft_experts.h"
#include "format/stacked.h"
#include "lora/lora.h"
#include "store/state.h"

/* The path of a file of an adapter's folder, or of the folder; hil_free it. */
static inline char *adapter_path(const char *adapter, const char *file)
{
    size_t size = sizeof HIL_TESTS + strlen(adapter) + strlen(file) + 32;
    char *path;
    CHECK_OK(HIL_ALLOC(size, &path));
    snprintf(path, size, "%s/golden/adapters/%s/%s", HIL_TESTS, adapter, file);
    return path;
}

typedef struct adapter_run {
    golden_run base; /* `golden` is the adapter's */
    hil_peft peft;
    hil_config config;
    int32_t *tokens;
} adapter_run;

static inline adapter_run adapter_start(const char *name, const hil_trainer_options *options)
{
    adapter_run r = {0};
    hil_lora lora;
    hil_bytes base;
    hil_safetensors *weights, *tokens;
    int64_t count;
    char *folder = adapter_path(name, ""), *path = adapter_path(name, "base");
    CHECK_OK(hil_bytes_read(&base, path));
    base.data[strcspn(base.data, "\n")] = 0;
    hil_free(path);
    path = golden_path(base.data, NULL);
    CHECK_OK(hil_config_open(&r.config, path));
    CHECK_OK(hil_build_model(&r.base.model, &r.config));
    CHECK_OK(hil_peft_open(&r.peft, folder));
    CHECK_OK(hil_lora_attach(r.base.model, &r.config, &r.peft, &lora));
    CHECK_OK(hil_trainer_open(&r.base.trainer, r.base.model, options, NULL));
    CHECK_OK(hil_stacked_open(&weights, path, &r.config));
    CHECK_OK(hil_weights_load(r.base.model->store, r.base.trainer->pool, weights));
    hil_safetensors_close(weights);
    CHECK_OK(hil_peft_experts_open(&weights, folder, &r.peft, &r.config, r.base.model->store));
    CHECK_OK(hil_weights_load_adapter(r.base.model->store, r.base.trainer->pool, &r.peft, weights));
    hil_safetensors_close(weights);
    hil_free(path);
    path = adapter_path(name, "golden.safetensors");
    CHECK_OK(hil_safetensors_open(&r.base.golden, path));
    tokens = golden_open(base.data);
    r.tokens = golden_ints(tokens, "tokens", &count);
    hil_safetensors_close(tokens);
    hil_bytes_free(&base);
    hil_free(path);
    hil_free(folder);
    return r;
}

static inline void adapter_stop(adapter_run *r)
{
    golden_stop(&r->base);
    hil_peft_close(&r->peft);
    hil_free(r->tokens);
}

/* Compares the adapter of an expert of Llama 4, where PEFT's A is (experts, rank, out) and its B
   (in, rank, experts). */
static inline double adapter_compare_swapped(const float *whole, int64_t experts, int64_t e,
                                             const float *got, const hil_shape *shape, bool b)
{
    int64_t rows = shape->dim[0], cols = shape->dim[1];
    double worst = 0;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
            float expected =
                b ? whole[(e * cols + j) * rows + i] : whole[(j * rows + i) * experts + e];
            worst = fmax(worst, fabs((double)got[i * cols + j] - (double)expected));
        }
    return worst;
}

/* Compares the adapter of an expert: by PEFT's code, A is (experts, rank, in) and B (out, rank,
   experts); in gpt-oss the rows of gate and up, in `out`, alternate. */
static inline double adapter_compare_expert(const adapter_run *r, const hil_peft_place *place,
                                            const hil_shape *shape, const char *grad,
                                            const float *got)
{
    int64_t count = hil_shape_count(shape);
    int64_t all, experts = place->members > 1 ? r->config.mixture.experts : 1; /* 1: a router */
    int64_t e = place->index % experts;
    float *whole = golden_floats(r->base.golden, grad, &all);
    bool b = strstr(grad, "lora_B") != NULL;
    double worst = 0;
    CHECK_INT(all, place->members * count);
    if (strcmp(r->config.arch->name, "llama4_text") == 0) {
        worst = adapter_compare_swapped(whole, experts, e, got, shape, !b);
        hil_free(whole);
        return worst;
    }
    int64_t parts = place->members / experts, rank = place->whole.dim[1] / experts;
    bool alternate = parts == 2 && strcmp(r->config.arch->name, "gpt_oss") == 0;
    for (int64_t k = 0; k < count; ++k) {
        int64_t part = place->index / experts, at = part * count + k;
        if (b && alternate) at = (k / rank * 2 + part) * rank + k % rank;
        float expected = b ? whole[at * experts + e] : whole[e * count + k];
        worst = fmax(worst, fabs((double)got[k] - (double)expected));
    }
    hil_free(whole);
    return worst;
}

/* The worst of all trained parameters; as many as PEFT trains. A step with learning rate 0 leaves
   the gradients in the first moment. */
static inline double adapter_gradients(adapter_run *r, const hil_batch *batch,
                                       hil_step_result *result)
{
    hil_store *store = r->base.model->store;
    double worst = 0;
    size_t trained = 0, expected = 0;
    r->base.trainer->optimizer.clip = 0;
    /* The auxiliary loss of a mixture is that of a micro-batch. */
    int64_t micro = r->config.mixture.balance > 0 ? GOLDEN_BATCH : 1;
    CHECK_OK(hil_trainer_step(r->base.trainer, batch, micro, 0, result));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        char name[HIL_PEFT_NAME], grad[HIL_PEFT_NAME + 8];
        if (!hil_param_trainable(p)) continue;
        hil_peft_tensor_name(&r->peft, hil_param_spec_of(p)->name, name);
        snprintf(grad, sizeof grad, "grad.%s", name);
        int64_t count = hil_param_elements(p);
        float *got;
        CHECK_OK(HIL_ALLOC(count, &got));
        CHECK_OK(hil_store_read(store, p, HIL_MOMENT1, 0, count, got));
        for (int64_t k = 0; k < count; ++k) got[k] /= 1.0f - 0.9f;
        hil_peft_place place;
        double error;
        if (hil_peft_place_of(&r->peft, &r->config, hil_param_spec_of(p)->name,
                              &hil_param_spec_of(p)->shape, &place)) {
            snprintf(grad, sizeof grad, "grad.%s", place.tensor);
            error = adapter_compare_expert(r, &place, &hil_param_spec_of(p)->shape, grad, got);
            trained += place.index == 0;
        } else {
            error = golden_compare(r->base.golden, grad, got, count);
            ++trained;
        }
        if (error > 1e-4) printf("%s: %g\n", grad, error);
        worst = fmax(worst, error);
        hil_free(got);
    }
    for (size_t i = 0; i < hil_safetensors_count(r->base.golden); ++i)
        expected += strncmp(hil_safetensors_at(r->base.golden, i)->name, "grad.", 5) == 0;
    CHECK_INT(trained, expected);
    return worst;
}

#endif
