/* checkpoint_options.c - a run's options in its checkpoints, so that resuming cannot silently mix
 * two runs. */
#include "run/checkpoint_options.h"

#include "base/hash.h"
#include "run/model_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_TOKENS "tokens of the data" /* a name in checkpoints: it stays as it is */

/* What is said of the adapter: its main options by name, the rest by a checksum. */
static json_t *adapter_options(const hil_train_options *o, const hil_run_state *run)
{
    const hil_peft *a = run->adapter;
    uint64_t key;
    char config[17], base[17];
    if (hil_peft_key(a, &key) != HIL_OK) return NULL;
    snprintf(config, sizeof config, "%016llx", (unsigned long long)key);
    snprintf(base, sizeof base, "%016llx", (unsigned long long)run->base_key);
    return json_pack(
        "{s:s, s:s, s:I, s:f, s:f, s:O, s:b, s:b, s:s, s:s}", "adapter", "lora", "base-dtype",
        o->base_dtype ? o->base_dtype : o->dtype, "rank", (json_int_t)a->rank, "alpha", a->alpha,
        "adapter-dropout", a->dropout, "targets", a->targets, "rslora", a->rslora, "dora", a->dora,
        "an adapter_config.json of checksum", config, "a base model of checksum", base);
}

/* What --loss says, if it compares answers. */
static json_t *loss_options(const hil_run_state *run)
{
    const hil_preference_loss *l = &run->preference;
    char reference[17];
    if (l->kind == HIL_PREFER_NONE) return json_object();
    snprintf(reference, sizeof reference, "%016llx", (unsigned long long)run->reference_key);
    return json_pack(
        "{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:s*}", "loss", hil_source_loss_word(l->kind), "beta",
        l->beta, "label-smoothing", l->label_smoothing, "margin", l->margin, "nll-weight",
        l->nll_weight, "desirable-weight", l->desirable_weight, "undesirable-weight",
        l->undesirable_weight, "a reference of checksum", l->precomputed ? reference : NULL);
}

/* Options that decide the numbers of every run. */
static json_t *common_options(const hil_train_options *o, const hil_run_state *run)
{
    static const char *const schedule[] = {"cosine", "linear", "constant"};
    char content[17], config[17];
    snprintf(content, sizeof content, "%016llx", (unsigned long long)run->data_content);
    snprintf(config, sizeof config, "%016llx", (unsigned long long)run->config_key);
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:I, s:s, s:I, s:b, s:f, "
        "s:I, s:s, s:I, s:s, s:s}",
        "optimizer", o->optimizer, "freeze", hil_json_words(o->freeze, o->freeze_count), "seq",
        (json_int_t)run->seq, "batch", (json_int_t)o->batch, "micro-batch",
        (json_int_t)run->micro_batch, "lr", o->lr, "weight-decay", o->weight_decay, "clip", o->clip,
        "beta1", o->beta1, "beta2", run->beta2, "eps", o->eps, "schedule", schedule[o->schedule],
        "warmup", (json_int_t)o->warmup, "dtype", o->dtype, "seed", (json_int_t)o->seed,
        "no-shuffle", !o->shuffle, "eval-fraction", o->eval_fraction, "tile-size",
        (json_int_t)o->tile_size, "train-on", o->train_on, DATA_TOKENS,
        (json_int_t)run->data_tokens, "data of checksum", content, "a config.json of checksum",
        config);
}

/* What a ds_config.json adds, if there was one. */
static json_t *deepspeed_options(const hil_train_options *o)
{
    const hil_curve *c = &o->curve;
    const hil_loss_scale *s = &o->loss_scale;
    json_t *all = json_object();
    bool whole = all != NULL;
    if (whole && c->kind)
        whole = json_object_set_new(all, "a scheduler of",
                                    json_pack("[iifffII]", (int)c->kind, (int)c->linear, c->low,
                                              c->high, c->end, (json_int_t)c->warmup,
                                              (json_int_t)c->total)) == 0;
    if (whole && s->start)
        whole =
            json_object_set_new(all, "a loss scale of",
                                json_pack("[IIIIii]", (json_int_t)s->start, (json_int_t)s->window,
                                          (json_int_t)s->least, (json_int_t)s->hysteresis,
                                          (int)s->refill, (int)s->fixed)) == 0;
    if (whole) return all;
    json_decref(all);
    return NULL;
}

/* Adds the members of `more`, of which it takes ownership. */
static bool add_options(json_t *all, json_t *more)
{
    bool added = all && more && json_object_update(all, more) == 0;
    json_decref(more);
    return added;
}

/* Options that may change on resume (how long, how often, how fast) are left out. */
static json_t *decisive_options(const hil_train_options *o, const hil_run_state *run)
{
    json_t *all = common_options(o, run);
    if ((!run->adapter || add_options(all, adapter_options(o, run))) &&
        (!(o->min_lr > 0) || add_options(all, json_pack("{s:f}", "min-lr", o->min_lr))) &&
        (!(o->router_z_loss > 0) ||
         add_options(all, json_pack("{s:f}", "router-z-loss", o->router_z_loss))) &&
        add_options(all, loss_options(run)) && add_options(all, deepspeed_options(o)))
        return all;
    json_decref(all);
    return NULL;
}

hil_status hil_run_state_write(const hil_train_options *options, const hil_run_state *run,
                               json_t **out)
{
    const hil_scaling *s = &run->scaling;
    *out = json_pack("{s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:o*}", "step", (json_int_t)run->step,
                     "tokens", (json_int_t)run->tokens, "ranks", (json_int_t)run->ranks,
                     "instructions", run->isa, "loss_scale", (json_int_t)s->scale, "good_steps",
                     (json_int_t)s->good, "skipped", (json_int_t)s->skipped, "options",
                     decisive_options(options, run));
    bool made = *out != NULL;
    if (made && s->left) made = json_object_set_new(*out, "overflows", json_integer(s->left)) == 0;
    if (made && run->best_step >= 0)
        made = json_object_set_new(*out, "best_step", json_integer(run->best_step)) == 0 &&
               json_object_set_new(*out, "best_loss", json_real(run->best_loss)) == 0 &&
               json_object_set_new(*out, "stale", json_integer(run->stale)) == 0;
    return made ? HIL_OK : hil_fail(HIL_ERR_MEMORY, "out of memory: the run's state");
}

struct whole {
    const char *name;
    int64_t value;
};

hil_status hil_run_state_facts(const hil_train_options *o, const hil_run_state *run, int64_t steps,
                               uint64_t held_out, hil_facts *facts)
{
    json_t *options = decisive_options(o, run), *value;
    hil_status status = HIL_OK;
    char label[64];
    const char *name;
    if (!options) HIL_TRY_DONE(hil_fail(HIL_ERR_MEMORY, "out of memory: the run's options"));
    json_object_foreach(options, name, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        snprintf(label, sizeof label, "%s%s", strchr(name, ' ') ? "" : "--", name);
        status = text ? hil_facts_add(facts, label, "%s", text)
                      : hil_fail(HIL_ERR_MEMORY, "out of memory: the run's options");
        free(text);
        HIL_TRY_DONE(status);
    }
    const struct whole wholes[] = {{"steps", steps},
                                   {"--save-every", o->save_every},
                                   {"--eval-every", o->eval_every},
                                   {"--keep", o->keep},
                                   {"--keep-best", o->keep_best},
                                   {"--patience", o->patience},
                                   {"--resume", o->resume},
                                   {"--sample-every", o->sample_every}};
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; ++i)
        HIL_TRY_DONE(hil_facts_add(facts, wholes[i].name, "%lld", (long long)wholes[i].value));
    const char *prompt = o->sample_prompt ? o->sample_prompt : "";
    HIL_TRY_DONE(hil_facts_add(facts, "a --sample-prompt of checksum", "%016llx",
                               (unsigned long long)hil_hash(0, prompt, strlen(prompt))));
    HIL_TRY_DONE(hil_facts_add(facts, "evaluation data of checksum", "%016llx",
                               (unsigned long long)held_out));
done:
    json_decref(options);
    return status;
}

static hil_status contradiction(const char *name, const json_t *saved, const json_t *now)
{
    size_t how = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15); /* 0.1, not 0.10000000000000001 */
    char *a = json_dumps(saved, how), *b = json_dumps(now, how);
    hil_status status;
    if (strcmp(name, DATA_TOKENS) == 0)
        status = hil_fail(HIL_ERR_USAGE,
                          "cannot resume: the run was started with data of %s tokens; the data has "
                          "%s",
                          a ? a : "other", b ? b : "others");
    else
        status = hil_fail(HIL_ERR_USAGE, "cannot resume: the run was started with %s%s %s, not %s",
                          strchr(name, ' ') ? "" : "--", name, a ? a : "none", b ? b : "none");
    free(a);
    free(b);
    return status;
}

/* The micro-batch must be the same only if `exact`. */
static hil_status compare_options(const json_t *saved, json_t *now, bool exact)
{
    const char *name;
    json_t *value;
    json_object_foreach(now, name, value)
    {
        const json_t *before = json_object_get(saved, name);
        if (!exact && strcmp(name, "micro-batch") == 0) continue;
        if (!before || !json_equal(before, value)) return contradiction(name, before, value);
    }
    json_object_foreach((json_t *)(uintptr_t)saved, name, value)
    {
        if (!json_object_get(now, name)) return contradiction(name, value, NULL);
    }
    return HIL_OK;
}

hil_status hil_run_state_read(const json_t *state, const hil_train_options *options,
                              hil_run_state *run)
{
    HIL_TRY(hil_json_int(state, "step", "checkpoint", &run->step));
    HIL_TRY(hil_json_int(state, "tokens", "checkpoint", &run->tokens));
    int64_t ranks = run->ranks;
    run->ranks = 1;
    HIL_TRY(hil_json_int(state, "ranks", "checkpoint", &run->ranks));
    HIL_TRY(hil_json_int(state, "best_step", "checkpoint", &run->best_step));
    HIL_TRY(hil_json_real(state, "best_loss", "checkpoint", &run->best_loss));
    HIL_TRY(hil_json_int(state, "stale", "checkpoint", &run->stale));
    if (run->best_step > run->step || run->stale < 0)
        return hil_fail(HIL_ERR_INPUT, "checkpoint: its best evaluation makes no sense");
    hil_scaling *s = &run->scaling;
    HIL_TRY(hil_json_int(state, "loss_scale", "checkpoint", &s->scale));
    HIL_TRY(hil_json_int(state, "good_steps", "checkpoint", &s->good));
    HIL_TRY(hil_json_int(state, "skipped", "checkpoint", &s->skipped));
    HIL_TRY(hil_json_int(state, "overflows", "checkpoint", &s->left));
    if (s->scale < 1 || s->good < -1 || s->left < 0 || s->skipped < 0 || s->skipped > run->step)
        return hil_fail(HIL_ERR_INPUT, "checkpoint: its loss scale makes no sense");
    const json_t *saved = json_object_get(state, "options");
    json_t *now = decisive_options(options, run);
    if (!now) return hil_fail(HIL_ERR_MEMORY, "out of memory: the run's state");
    hil_status status = compare_options(saved, now, run->ranks == ranks);
    json_decref(now);
    return status;
}
