/* model_adapter.c - the adapter of a model folder: from options or a PEFT folder. */
#include "run/model_source.h"

#include "base/note.h"
#include "format/peft_experts.h"
#include "format/quantized.h"
#include "format/stacked.h"
#include "format/weights.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_RANK 16

/* The name of an option that describes a new adapter and was given; NULL: none. */
static const char *given(const hil_adapter_choice *c)
{
    const struct {
        const char *name;
        bool set;
    } option[] = {{"rank", c->rank != 0},
                  {"alpha", c->alpha != 0},
                  {"adapter-dropout", c->dropout >= 0},
                  {"targets", c->targets > 0},
                  {"modules-to-save", c->saves > 0},
                  {"rslora", c->rslora},
                  {"dora", c->dora}};
    for (size_t i = 0; i < sizeof option / sizeof *option; ++i)
        if (option[i].set) return option[i].name;
    return NULL;
}

static hil_status describe_new(hil_source *s, const hil_adapter_choice *c)
{
    bool all = c->targets == 1 && strcmp(c->target[0], "all") == 0;
    hil_peft_values values = {.base = s->folder,
                              .rank = c->rank ? c->rank : DEFAULT_RANK,
                              .alpha = c->alpha,
                              .dropout = c->dropout > 0 ? c->dropout : 0,
                              .rslora = c->rslora,
                              .dora = c->dora,
                              .target = c->target,
                              .targets = all ? 0 : c->targets,
                              .save = c->save,
                              .saves = c->saves};
    if (!(values.alpha > 0)) values.alpha = 2 * (double)values.rank;
    return hil_peft_create(&s->adapter, &values);
}

hil_status hil_source_adapt_folder(hil_source *s, const char *folder)
{
    s->adapter_folder = folder;
    return folder ? hil_peft_open(&s->adapter, folder) : HIL_OK;
}

/* Fails with advice if the folder is missing and its name that of another kind of adapter. */
static hil_status refuse_method(const char *source)
{
    bool quantized = strcasecmp(source, "qlora") == 0, dora = strcasecmp(source, "dora") == 0;
    if (hil_file_exists(source) || !(quantized || dora)) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--adapter %s: give --adapter lora %s", source,
                    dora ? "--dora" : "--base-dtype nf4");
}

hil_status hil_source_adapt(hil_source *s, const hil_adapter_choice *c)
{
    const char *option = given(c);
    if (!c->source && option)
        return hil_fail(HIL_ERR_USAGE, "--%s describes an adapter: give --adapter lora too",
                        option);
    if (!c->source) return HIL_OK;
    if (strcmp(c->source, "lora") == 0) return describe_new(s, c);
    HIL_TRY(refuse_method(c->source));
    if (option)
        return hil_fail(HIL_ERR_USAGE, "--%s: the adapter in %s says that itself", option,
                        c->source);
    return hil_source_adapt_folder(s, c->source);
}

/* Weights that the folder has in few bits are kept so. */
static hil_status mark_quantized(const hil_source *s, hil_model *model)
{
    hil_safetensors *file;
    HIL_TRY(hil_stacked_open(&file, s->folder, &s->config));
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        hil_param *p = hil_store_at(model->store, i);
        hil_quant quant = hil_quantized_find(file, p);
        if (quant) hil_param_quantize(p, quant);
    }
    hil_safetensors_close(file);
    return HIL_OK;
}

hil_status hil_source_build(hil_source *s, hil_model **out)
{
    HIL_TRY(hil_build_model(out, &s->config));
    hil_status status = HIL_OK;
    if (s->config.quant && !s->bare) status = mark_quantized(s, *out);
    if (status == HIL_OK && s->adapter.root && !s->adapter_folder)
        status = hil_lora_check(*out, &s->config, &s->adapter);
    if (status == HIL_OK && s->adapter.root)
        status = hil_lora_attach(*out, &s->config, &s->adapter, &s->adapted);
    if (status != HIL_OK) {
        hil_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

static hil_status load_folder(const hil_source *s, hil_store *store, hil_pool *pool)
{
    hil_safetensors *file;
    HIL_TRY(hil_peft_experts_open(&file, s->adapter_folder, &s->adapter, &s->config, store));
    hil_status status = hil_weights_load_adapter(store, pool, &s->adapter, file);
    hil_safetensors_close(file);
    return status;
}

hil_status hil_source_fill_adapter(const hil_source *s, hil_trainer *t, uint64_t seed)
{
    hil_store *store = t->model->store;
    if (!s->adapter.root) return HIL_OK;
    if (s->adapter_folder) return load_folder(s, store, t->pool);
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        if (hil_param_spec_of(p)->adapter) HIL_TRY(hil_param_initialise(p, seed));
    }
    return hil_lora_fill_magnitudes(t->model, t->options.comm);
}

hil_status hil_source_keep_adapter(hil_source *s)
{
    hil_bytes *file = &s->files.file[HIL_SIDECAR_ADAPTER];
    hil_text text = {0};
    hil_bytes_free(file);
    if (!s->adapter.root) return HIL_OK;
    hil_status status = hil_peft_write(&s->adapter, &text);
    if (status == HIL_OK) status = hil_text_copy(text.data, &file->data);
    file->size = text.size;
    hil_text_free(&text);
    return status;
}

void hil_source_note_adapter(const hil_source *s, const hil_model *model,
                             const hil_observer *observer)
{
    const hil_lora *l = &s->adapted;
    uint64_t trained = 0, all = 0;
    char rank[64], layers[64], count[32];
    if (!s->adapter.root) return;
    for (size_t i = 0; i < hil_store_count(model->store); ++i) {
        const hil_param *p = hil_store_at(model->store, i);
        uint64_t elements = (uint64_t)hil_param_elements(p);
        if (hil_param_trainable(p)) trained += elements;
        if (!hil_param_spec_of(p)->adapter) all += elements;
    }
    if (l->least_rank == l->most_rank)
        snprintf(rank, sizeof rank, "rank %lld", (long long)l->most_rank);
    else
        snprintf(rank, sizeof rank, "ranks %lld to %lld", (long long)l->least_rank,
                 (long long)l->most_rank);
    bool all_blocks = l->blocks + 2 == model->count; /* beside embedding and head */
    if (l->matrices % l->blocks == 0 && all_blocks)
        snprintf(layers, sizeof layers, "%zu matri%s per block", l->matrices / l->blocks,
                 l->matrices == l->blocks ? "x" : "ces");
    else
        snprintf(layers, sizeof layers, "%zu matri%s in %zu block%s", l->matrices,
                 l->matrices == 1 ? "x" : "ces", l->blocks, l->blocks == 1 ? "" : "s");
    hil_note(observer, "%s %s on %s: %.2g%% of %s parameters trained",
             s->adapter.dora     ? "DoRA"
             : s->adapter.rslora ? "rsLoRA"
                                 : "LoRA",
             rank, layers, 100 * (double)trained / (double)all, hil_text_count(count, all));
}
