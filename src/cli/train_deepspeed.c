/* train_deepspeed.c - applies ds_config.json to the options of train. */
#include "cli/train_options.h"

#include <math.h>
#include <string.h>

typedef struct hil_command_merge {
    hil_parsed *parsed;
    const char *file;
} merge;

static hil_status contradiction(const merge *m, const char *option, const char *key)
{
    return hil_fail(HIL_ERR_USAGE, "--%s contradicts %s in %s; give one of them, or write \"auto\"",
                    option, key, m->file);
}

static const hil_option *find(const merge *m, const char *name, bool *seen)
{
    const hil_command *command = m->parsed->command;
    size_t i = 0;
    while (i + 1 < command->count && strcmp(command->option[i].name, name) != 0) ++i;
    *seen = m->parsed->seen[i];
    return &command->option[i];
}

static double current(const merge *m, const hil_option *option)
{
    const void *field = (const char *)m->parsed->values + option->offset;
    if (option->kind == HIL_OPTION_REAL) return *(const double *)field;
    return option->width == sizeof(int) ? *(const int *)field : (double)*(const int64_t *)field;
}

/* A number of the file becomes the option, which must not say otherwise. */
static hil_status set(const merge *m, const char *name, const char *key,
                      const hil_deepspeed_number *number)
{
    bool seen;
    char label[HIL_PATH_MAX];
    const hil_option *option = find(m, name, &seen);
    bool given = number->origin == HIL_DEEPSPEED_GIVEN;
    if (isnan(number->value) || (seen && !given)) return HIL_OK;
    if (seen && current(m, option) != number->value) return contradiction(m, name, key);
    snprintf(label, sizeof label, "%s: %s", m->file, key);
    if (option->kind == HIL_OPTION_REAL)
        return hil_option_set_real(m->parsed, option, label, number->value);
    return hil_option_set_whole(m->parsed, option, label, (int64_t)number->value);
}

static hil_status set_word(const merge *m, const char *name, const char *key, const char *word,
                           bool given)
{
    bool seen;
    const hil_option *option = find(m, name, &seen);
    const char **field = (const char **)((char *)m->parsed->values + option->offset);
    if (seen && given && strcmp(*field, word) != 0) return contradiction(m, name, key);
    if (!seen) *field = word;
    return HIL_OK;
}

static hil_status set_disks(const merge *m, const hil_deepspeed_config *c)
{
    bool seen;
    const hil_option *option = find(m, "disk", &seen);
    if (seen && c->disks) return contradiction(m, "disk", "the nvme_path of zero_optimization");
    for (size_t i = 0; i < c->disks; ++i)
        HIL_TRY(hil_option_set_text(m->parsed, option, m->file, c->disk[i]));
    return HIL_OK;
}

/* The batch of the command line takes the place of one that the file leaves open. */
static hil_status set_batch(const merge *m, hil_deepspeed_config *c, int64_t ranks)
{
    const struct {
        const char *option, *key;
        hil_deepspeed_number *number;
    } link[] = {{"batch", "train_batch_size", &c->batch},
                {"micro-batch", "train_micro_batch_size_per_gpu", &c->micro_batch}};
    hil_deepspeed_batches found;
    bool seen;
    for (size_t i = 0; i < 2; ++i) {
        const hil_option *option = find(m, link[i].option, &seen);
        HIL_TRY(set(m, link[i].option, link[i].key, link[i].number));
        if (seen) *link[i].number = (hil_deepspeed_number){current(m, option), HIL_DEEPSPEED_GIVEN};
    }
    bool neither =
        c->batch.origin != HIL_DEEPSPEED_GIVEN && c->micro_batch.origin != HIL_DEEPSPEED_GIVEN;
    if (neither && c->accumulation.origin == HIL_DEEPSPEED_GIVEN)
        c->batch = (hil_deepspeed_number){current(m, find(m, "batch", &seen)), HIL_DEEPSPEED_GIVEN};
    HIL_TRY(hil_deepspeed_complete(c, ranks, &found));
    hil_deepspeed_number batch = {(double)found.batch, HIL_DEEPSPEED_GIVEN};
    hil_deepspeed_number micro = {(double)found.micro_batch, HIL_DEEPSPEED_GIVEN};
    if (found.batch) HIL_TRY(set(m, "batch", "train_batch_size", &batch));
    if (found.micro_batch) HIL_TRY(set(m, "micro-batch", "train_micro_batch_size_per_gpu", &micro));
    return HIL_OK;
}

static hil_status set_optimizer(const merge *m, const hil_deepspeed_config *c)
{
    const struct {
        const char *option, *key;
        const hil_deepspeed_number *number;
    } link[] = {{"lr", "optimizer.params.lr", &c->lr},
                {"beta1", "optimizer.params.betas", &c->beta1},
                {"beta2", "optimizer.params.betas", &c->beta2},
                {"eps", "optimizer.params.eps", &c->eps},
                {"weight-decay", "optimizer.params.weight_decay", &c->weight_decay}};
    if (!c->optimizer) return HIL_OK;
    HIL_TRY(set_word(m, "optimizer", "optimizer.type", c->optimizer, true));
    for (size_t i = 0; i < sizeof link / sizeof *link; ++i)
        HIL_TRY(set(m, link[i].option, link[i].key, link[i].number));
    return HIL_OK;
}

/* Without a scheduler DeepSpeed keeps the rate. */
static hil_status set_schedule(const merge *m, const hil_deepspeed_config *c,
                               hil_train_options *run)
{
    bool schedule, lr;
    find(m, "schedule", &schedule);
    find(m, "lr", &lr);
    if (!c->scheduler) {
        if (!schedule) run->schedule = HIL_SCHEDULE_CONSTANT;
        return HIL_OK;
    }
    if (schedule) return contradiction(m, "schedule", "scheduler.type");
    if (lr) HIL_TRY(set(m, "lr", "scheduler.params.warmup_max_lr", &c->warmup_high));
    HIL_TRY(set(m, "warmup", "scheduler.params.warmup_num_steps", &c->warmup));
    run->curve = hil_deepspeed_curve(c, run->lr, run->warmup);
    return HIL_OK;
}

hil_status hil_train_values_merge(hil_train_values *values, hil_parsed *parsed, int64_t ranks)
{
    hil_deepspeed_config *c = &values->deepspeed;
    const merge m = {parsed, values->deepspeed_file};
    if (!m.file) return HIL_OK;
    c->size = sizeof *c;
    HIL_TRY(hil_deepspeed_read(m.file, c));
    hil_deepspeed_number stage = c->stage;
    if (stage.value < 1) stage.value = 1; /* 0 replicates all states: the same numbers */
    HIL_TRY(set_batch(&m, c, ranks));
    HIL_TRY(set_optimizer(&m, c));
    HIL_TRY(set_schedule(&m, c, &values->run));
    HIL_TRY(set(&m, "clip", "gradient_clipping", &c->clip));
    HIL_TRY(set(&m, "zero", "zero_optimization.stage", &stage));
    if (c->dtype_origin != HIL_DEEPSPEED_AUTO)
        HIL_TRY(set_word(&m, "dtype", "fp16.enabled or bf16.enabled", c->dtype,
                         c->dtype_origin == HIL_DEEPSPEED_GIVEN));
    if (strcmp(values->run.dtype, "fp16") == 0) values->run.loss_scale = c->loss_scale;
    return set_disks(&m, c);
}

void hil_train_values_report(const hil_train_values *values, const hil_observer *observer)
{
    const hil_deepspeed_config *c = &values->deepspeed;
    if (!observer->note || !values->deepspeed_file) return;
    if (c->optimizer && !(c->weight_decay.value == 0)) {
        char text[4096];
        snprintf(text, sizeof text, "%s: weight decay leaves out norms and biases",
                 values->deepspeed_file);
        observer->note(observer->context, text);
    }
    if (c->notes && *c->notes) observer->note(observer->context, c->notes);
}
