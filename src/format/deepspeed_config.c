/* deepspeed_config.c - reads ds_config.json. */
#include "format/deepspeed_keys.h"

#include "base/json.h"
#include "base/sized.h"
#include "base/text.h"
#include "io/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_MOST = 256 };
#define SCHEDULER(key) "scheduler.params." key
#define ZERO(key) "zero_optimization." key

/* What a configuration borrows its strings from. */
struct owner {
    json_t *root;
    hil_text notes;
};

typedef struct hil_deepspeed_reading {
    const char *name; /* of the file */
    json_t *root;
    hil_deepspeed_config *config;
    hil_text harmless, notes;
} reading;

static hil_status refuse(const reading *r, const char *path, const json_t *value, const char *why)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    hil_status status = hil_fail(HIL_ERR_USAGE, "%s: %s %.60s is not supported%s%s", r->name, path,
                                 text ? text : "", why ? ": " : "", why ? why : "");
    free(text);
    return status;
}

static hil_status wrong(const reading *r, const char *path, const char *expected,
                        const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    hil_status status = hil_fail(HIL_ERR_USAGE, "%s: %s must be %s, not %.60s", r->name, path,
                                 expected, text ? text : "");
    free(text);
    return status;
}

static bool is_auto(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

static hil_status read_number(const reading *r, const hil_deepspeed_key *key, const json_t *value)
{
    hil_deepspeed_number *out = (void *)((char *)r->config + key->offset);
    if (is_auto(value)) {
        *out = (hil_deepspeed_number){NAN, HIL_DEEPSPEED_AUTO};
        return HIL_OK;
    }
    if (!json_is_number(value)) return wrong(r, key->path, "a number or \"auto\"", value);
    double number = json_number_value(value);
    if (!(number >= key->low && number <= key->high))
        return hil_fail(HIL_ERR_USAGE, "%s: %s must be from %g to %g, not %g", r->name, key->path,
                        key->low, key->high, number);
    *out = (hil_deepspeed_number){number, HIL_DEEPSPEED_GIVEN};
    return HIL_OK;
}

/* Finds a value in it that switches something on; appends its name to `path`. */
static const json_t *find_enabled(const json_t *value, char path[PATH_MOST])
{
    const char *name;
    json_t *member;
    size_t size = strlen(path);
    if (json_is_true(value)) return value;
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        if (strcmp(name, "enabled") != 0 && !json_is_object(member)) continue;
        snprintf(path + size, PATH_MOST - size, ".%s", name);
        const json_t *found = find_enabled(member, path);
        if (found) return found;
        path[size] = 0;
    }
    return NULL;
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_object(value) && !json_object_size(value));
}

static hil_status note_harmless(reading *r, const char *path)
{
    return hil_text_print(&r->harmless, "%s%s", r->harmless.size ? ", " : "", path);
}

/* `path` is the key's with room to name a part of its value. */
static hil_status take(reading *r, const hil_deepspeed_key *key, const json_t *value,
                       char path[PATH_MOST])
{
    bool open = json_is_null(value) || is_auto(value);
    const json_t *enabled;
    switch (key->use) {
    case HIL_DEEPSPEED_NUMBER:
        return json_is_null(value) ? HIL_OK : read_number(r, key, value);
    case HIL_DEEPSPEED_READ:
        return HIL_OK;
    case HIL_DEEPSPEED_HARMLESS:
        return note_harmless(r, path);
    case HIL_DEEPSPEED_TRUE:
        return open || json_is_true(value) ? HIL_OK : refuse(r, path, value, key->why);
    case HIL_DEEPSPEED_FALSE:
        if (open || is_empty(value)) return HIL_OK;
        if (!json_is_object(value)) return refuse(r, path, value, key->why);
        enabled = find_enabled(value, path);
        return enabled ? refuse(r, path, enabled, key->why) : HIL_OK;
    case HIL_DEEPSPEED_NONE:
        return is_empty(value) ? HIL_OK : refuse(r, path, value, key->why);
    case HIL_DEEPSPEED_SINGLE:
        if (open || (json_is_number(value) && json_number_value(value) <= 1)) return HIL_OK;
        return refuse(r, path, value, key->why);
    }
    return HIL_OK;
}

/* Whether some key begins with `path` and a dot. */
static bool is_group(const char *path)
{
    size_t size = strlen(path);
    for (size_t i = 0; i < hil_deepspeed_key_count; ++i) {
        const char *known = hil_deepspeed_keys[i].path;
        if (strncmp(known, path, size) == 0 && known[size] == '.') return true;
    }
    return false;
}

static const hil_deepspeed_key *find_key(const char *path)
{
    for (size_t i = 0; i < hil_deepspeed_key_count; ++i)
        if (strcmp(hil_deepspeed_keys[i].path, path) == 0) return &hil_deepspeed_keys[i];
    return NULL;
}

/* The length of as many of its names as `path` has. */
static size_t same_depth(const char *known, const char *path)
{
    size_t size = strcspn(known, ".");
    for (; (path = strchr(path, '.')) && known[size]; ++path)
        size += 1 + strcspn(known + size + 1, ".");
    return size;
}

static hil_status unknown(const reading *r, const char *path)
{
    enum { MOST = 256 };
    char name[MOST][64];
    const char *names[MOST];
    assert(hil_deepspeed_key_count <= MOST);
    for (size_t i = 0; i < hil_deepspeed_key_count; ++i) {
        const char *known = hil_deepspeed_keys[i].path;
        snprintf(name[i], sizeof name[i], "%.*s", (int)same_depth(known, path), known);
        names[i] = name[i];
    }
    const char *near = hil_text_nearest(path, names, hil_deepspeed_key_count);
    return hil_fail(HIL_ERR_USAGE, "%s: unknown key %.80s%s%s%s", r->name, path,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Takes what an object holds; `path` is the name of the object, "" for the file. */
static hil_status walk(reading *r, const json_t *object, const char *path)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        char inner[PATH_MOST];
        if (*name == '_' || strncmp(name, "//", 2) == 0) continue; /* a comment */
        snprintf(inner, sizeof inner, "%s%s%.100s", path, *path ? "." : "", name);
        const hil_deepspeed_key *key = find_key(inner);
        if (key) {
            HIL_TRY(take(r, key, value, inner));
        } else if (!is_group(inner)) {
            return unknown(r, inner);
        } else if (json_is_object(value)) {
            HIL_TRY(walk(r, value, inner));
        } else if (!is_empty(value) && strcmp(inner, "zero_optimization") != 0) {
            return wrong(r, inner, "an object", value);
        }
    }
    return HIL_OK;
}

/* The value at a path of two or three names; NULL: none, or null. */
static const json_t *get(const reading *r, const char *path)
{
    const json_t *value = r->root;
    for (const char *rest = path; value && *rest;) {
        char name[64];
        size_t size = strcspn(rest, ".");
        snprintf(name, sizeof name, "%.*s", (int)size, rest);
        value = json_object_get(value, name);
        rest += size + (rest[size] == '.');
    }
    return json_is_null(value) ? NULL : value;
}

/* A word of the file; "auto" and nothing leave *out as it is. */
static hil_status read_word(const reading *r, const char *path, const char **out)
{
    const json_t *value = get(r, path);
    if (!value || is_auto(value)) return HIL_OK;
    if (!json_is_string(value)) return wrong(r, path, "a string", value);
    *out = json_string_value(value);
    return HIL_OK;
}

static hil_status read_flag(const reading *r, const char *path, bool *out)
{
    const json_t *value = get(r, path);
    if (!value || is_auto(value)) return HIL_OK;
    if (!json_is_boolean(value)) return wrong(r, path, "true, false or \"auto\"", value);
    *out = json_is_true(value);
    return HIL_OK;
}

static hil_status read_whole(const reading *r, const char *path, int64_t low, int64_t high,
                             int64_t *out)
{
    const json_t *value = get(r, path);
    if (!value || is_auto(value)) return HIL_OK;
    double number = json_is_number(value) ? json_number_value(value) : 0.5;
    if (number != floor(number)) return wrong(r, path, "a whole number", value);
    if (!(number >= (double)low && number <= (double)high))
        return hil_fail(HIL_ERR_USAGE, "%s: %s must be from %lld to %lld, not %g", r->name, path,
                        (long long)low, (long long)high, number);
    *out = (int64_t)number;
    return HIL_OK;
}

static void set_default(hil_deepspeed_number *number, double value)
{
    if (number->origin == HIL_DEEPSPEED_ABSENT) number->value = value;
}

static hil_status read_betas(const reading *r)
{
    static const char path[] = "optimizer.params.betas";
    hil_deepspeed_number *beta[2] = {&r->config->beta1, &r->config->beta2};
    const json_t *value = get(r, path);
    if (!value) return HIL_OK;
    for (size_t i = 0; i < 2; ++i) {
        const json_t *item = is_auto(value) ? value : json_array_get(value, i);
        double number = json_number_value(item);
        bool open = is_auto(item);
        if (!open &&
            !(json_array_size(value) == 2 && json_is_number(item) && number >= 0 && number < 1))
            return wrong(r, path, "two numbers from 0 to less than 1", value);
        *beta[i] = open ? (hil_deepspeed_number){NAN, HIL_DEEPSPEED_AUTO}
                        : (hil_deepspeed_number){number, HIL_DEEPSPEED_GIVEN};
    }
    return HIL_OK;
}

/* "Adam" is AdamW in DeepSpeed unless adam_w_mode is false; without decay both are the same. */
static hil_status read_optimizer(const reading *r)
{
    hil_deepspeed_config *c = r->config;
    const char *type = "";
    bool torch_adam = false, decoupled = true;
    HIL_TRY(read_word(r, "optimizer.type", &type));
    HIL_TRY(read_betas(r));
    if (!get(r, "optimizer")) return HIL_OK;
    bool lion = strcasecmp(type, "lion") == 0, adam = strcasecmp(type, "adam") == 0;
    HIL_TRY(read_flag(r, "optimizer.params.torch_adam", &torch_adam));
    HIL_TRY(read_flag(r, "optimizer.params.adam_w_mode", &decoupled));
    set_default(&c->weight_decay, torch_adam ? 0.01 : 0);
    if (adam && !decoupled && !(c->weight_decay.value == 0))
        return hil_fail(HIL_ERR_USAGE,
                        "%s: optimizer.params.adam_w_mode false with a weight_decay is not "
                        "supported: hilbert's decay is decoupled",
                        r->name);
    c->optimizer = lion ? "lion" : "adamw";
    set_default(&c->lr, lion ? 1e-4 : 1e-3);
    set_default(&c->beta1, 0.9);
    set_default(&c->beta2, lion ? 0.99 : 0.999);
    set_default(&c->eps, 1e-8);
    return HIL_OK;
}

/* Before the keys, since those of other optimizers are unknown. */
static hil_status check_optimizer(const reading *r)
{
    static const char *const known[] = {"adam", "adamw", "lion"};
    const char *type = NULL;
    HIL_TRY(read_word(r, "optimizer.type", &type));
    if (!get(r, "optimizer")) return HIL_OK;
    if (!type) return hil_fail(HIL_ERR_USAGE, "%s: optimizer has no type", r->name);
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (strcasecmp(type, known[i]) == 0) return HIL_OK;
    return refuse(r, "optimizer.type", get(r, "optimizer.type"),
                  "hilbert has Adam, AdamW and Lion");
}

static hil_status check_scheduler(const reading *r, hil_curve_kind *kind)
{
    static const char *const known[] = {"", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
    const char *type = NULL;
    HIL_TRY(read_word(r, "scheduler.type", &type));
    if (!get(r, "scheduler")) return HIL_OK;
    if (!type) return hil_fail(HIL_ERR_USAGE, "%s: scheduler has no type", r->name);
    for (int i = 1; i < 4; ++i)
        if (strcmp(type, known[i]) == 0) *kind = (hil_curve_kind)i;
    if (*kind) return HIL_OK;
    return refuse(r, "scheduler.type", get(r, "scheduler.type"),
                  "hilbert has WarmupLR, WarmupDecayLR and WarmupCosineLR");
}

/* A parameter of another scheduler than the file names. */
static hil_status check_params(const reading *r, const char *type, const char *const *refused)
{
    for (; *refused; ++refused)
        if (get(r, *refused))
            return hil_fail(HIL_ERR_USAGE, "%s: %s is not a parameter of %s", r->name, *refused,
                            type);
    return HIL_OK;
}

static hil_status read_scheduler(const reading *r)
{
    static const char *const none_of[][4] = {
        {NULL},
        {SCHEDULER("total_num_steps"), SCHEDULER("warmup_min_ratio"), SCHEDULER("cos_min_ratio")},
        {SCHEDULER("warmup_min_ratio"), SCHEDULER("cos_min_ratio")},
        {SCHEDULER("warmup_min_lr"), SCHEDULER("warmup_max_lr")}};
    hil_deepspeed_config *c = r->config;
    const char *type = "", *shape = "log";
    HIL_TRY(read_word(r, "scheduler.type", &type));
    HIL_TRY(read_word(r, SCHEDULER("warmup_type"), &shape));
    if (!c->scheduler) return HIL_OK;
    HIL_TRY(check_params(r, type, none_of[c->scheduler]));
    c->warmup_linear = strcmp(shape, "linear") == 0;
    if (!c->warmup_linear && strcmp(shape, "log") != 0)
        return wrong(r, SCHEDULER("warmup_type"), "\"log\" or \"linear\"",
                     get(r, SCHEDULER("warmup_type")));
    if (c->scheduler != HIL_CURVE_WARMUP && c->total.origin == HIL_DEEPSPEED_ABSENT)
        return hil_fail(HIL_ERR_USAGE, "%s: %s needs %s", r->name, type,
                        SCHEDULER("total_num_steps"));
    set_default(&c->warmup_low, 0);
    if (c->scheduler == HIL_CURVE_WARMUP_DECAY) set_default(&c->warmup_high, 0.001);
    set_default(&c->warmup, 1000);
    set_default(&c->cosine_end, 0.0001);
    return HIL_OK;
}

/* Whether a section is enabled; HIL_DEEPSPEED_AUTO: the caller decides. */
static hil_status read_enabled(const reading *r, const char *path, bool *on, bool *open)
{
    *open |= is_auto(get(r, path));
    return read_flag(r, path, on);
}

static hil_status read_dtype(const reading *r)
{
    hil_deepspeed_config *c = r->config;
    bool fp16 = false, bf16 = false, open = false, refill = false;
    int64_t power = 16, fixed = 0;
    hil_loss_scale s = {.window = 1000, .least = 1, .hysteresis = 2};
    HIL_TRY(read_enabled(r, "fp16.enabled", &fp16, &open));
    HIL_TRY(read_enabled(r, "bfloat16.enabled", &bf16, &open));
    HIL_TRY(read_enabled(r, "bf16.enabled", &bf16, &open));
    if (fp16 && bf16)
        return hil_fail(HIL_ERR_USAGE, "%s: fp16.enabled and bf16.enabled contradict each other",
                        r->name);
    c->dtype = fp16 ? "fp16" : bf16 ? "bf16" : "fp32";
    c->dtype_origin = fp16 || bf16 ? HIL_DEEPSPEED_GIVEN
                      : open       ? HIL_DEEPSPEED_AUTO
                                   : HIL_DEEPSPEED_ABSENT;
    HIL_TRY(read_whole(r, "fp16.loss_scale", 0, INT64_C(1) << 40, &fixed));
    HIL_TRY(read_whole(r, "fp16.initial_scale_power", 0, 60, &power));
    HIL_TRY(read_whole(r, "fp16.loss_scale_window", 1, INT64_C(1) << 40, &s.window));
    HIL_TRY(read_whole(r, "fp16.min_loss_scale", 1, INT64_C(1) << 40, &s.least));
    HIL_TRY(read_whole(r, "fp16.hysteresis", 1, 1 << 20, &s.hysteresis));
    HIL_TRY(read_flag(r, "fp16.consecutive_hysteresis", &refill));
    s.start = fixed ? fixed : INT64_C(1) << power;
    s.fixed = fixed > 0;
    s.refill = refill;
    if (s.start < s.least) s.start = s.least;
    c->loss_scale = s;
    return HIL_OK;
}

/* Where a part is offloaded to; adds the folder of "nvme". */
static hil_status read_offload(const reading *r, const char *section, const char *old,
                               const char **device)
{
    hil_deepspeed_config *c = r->config;
    char path[PATH_MOST];
    const char *folder = NULL;
    bool cpu = false;
    HIL_TRY(read_flag(r, old, &cpu));
    *device = cpu ? "cpu" : "none";
    snprintf(path, sizeof path, "%s.device", section);
    HIL_TRY(read_word(r, path, device));
    bool nvme = strcmp(*device, "nvme") == 0;
    if (!nvme && strcmp(*device, "none") != 0 && strcmp(*device, "cpu") != 0)
        return wrong(r, path, "none, cpu or nvme", get(r, path));
    snprintf(path, sizeof path, "%s.nvme_path", section);
    HIL_TRY(read_word(r, path, &folder));
    if (!nvme) return HIL_OK;
    if (!folder || !*folder)
        return hil_fail(HIL_ERR_USAGE, "%s: %s.device nvme needs %s", r->name, section, path);
    if (c->disks && strcmp(c->disk[0], folder) == 0) return HIL_OK;
    c->disk[c->disks++] = folder;
    return HIL_OK;
}

static hil_status read_zero(const reading *r)
{
    hil_deepspeed_config *c = r->config;
    const json_t *zero = get(r, "zero_optimization");
    if (json_is_boolean(zero)) /* an old form */
        c->stage = (hil_deepspeed_number){json_is_true(zero), HIL_DEEPSPEED_GIVEN};
    else if (zero && !json_is_object(zero))
        return wrong(r, "zero_optimization", "an object", zero);
    set_default(&c->stage, 0);
    HIL_TRY(read_offload(r, ZERO("offload_optimizer"), ZERO("cpu_offload"), &c->optimizer_device));
    return read_offload(r, ZERO("offload_param"), ZERO("cpu_offload_param"), &c->weights_device);
}

/* Keys with one value that is honoured. */
static hil_status read_words(const reading *r)
{
    const char *sum = "mean", *dtype = "fp32";
    HIL_TRY(read_word(r, "gradient_allreduce_op", &sum));
    if (strcasecmp(sum, "mean") != 0)
        return refuse(r, "gradient_allreduce_op", get(r, "gradient_allreduce_op"),
                      "hilbert's gradients are means over the ranks");
    HIL_TRY(read_word(r, "data_types.grad_accum_dtype", &dtype));
    if (strcmp(dtype, "fp32") != 0)
        return refuse(r, "data_types.grad_accum_dtype", get(r, "data_types.grad_accum_dtype"),
                      "hilbert sums gradients in fp32");
    return HIL_OK;
}

static hil_status write_notes(reading *r)
{
    if (!r->harmless.size) return HIL_OK;
    return hil_text_print(&r->notes, "%s: without effect here: %s", r->name, r->harmless.data);
}

static hil_status read_all(reading *r)
{
    hil_deepspeed_config *c = r->config;
    if (!json_is_object(r->root)) return wrong(r, "the file", "a JSON object", r->root);
    HIL_TRY(check_optimizer(r));
    HIL_TRY(check_scheduler(r, &c->scheduler));
    HIL_TRY(walk(r, r->root, ""));
    HIL_TRY(read_optimizer(r));
    HIL_TRY(read_scheduler(r));
    HIL_TRY(read_dtype(r));
    HIL_TRY(read_zero(r));
    HIL_TRY(read_words(r));
    set_default(&c->clip, 1);
    return write_notes(r);
}

static hil_deepspeed_config blank(void)
{
    hil_deepspeed_config c = {.notes = ""};
    hil_deepspeed_number *const numbers[] = {
        &c.batch,  &c.micro_batch, &c.accumulation, &c.lr,           &c.beta1,
        &c.beta2,  &c.eps,         &c.clip,         &c.weight_decay, &c.warmup_low,
        &c.warmup, &c.total,       &c.cosine_end,   &c.stage,        &c.warmup_high};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) numbers[i]->value = NAN;
    return c;
}

hil_status hil_deepspeed_parse(const char *text, size_t bytes, const char *name,
                               hil_deepspeed_config *out)
{
    hil_deepspeed_config own = blank();
    reading r = {.name = name, .config = &own};
    struct owner *owner = NULL;
    size_t size = out->size;
    hil_status status;
    if (size < offsetof(hil_deepspeed_config, batch))
        return hil_fail(HIL_ERR_USAGE, "hil_deepspeed_config has no size: set it to its sizeof");
    HIL_TRY_DONE(HIL_ALLOC(1, &owner));
    HIL_TRY_DONE(hil_json_parse(text, bytes, name, &r.root));
    HIL_TRY_DONE(read_all(&r));
    *owner = (struct owner){r.root, r.notes};
    if (r.notes.size) own.notes = r.notes.data;
    own.owner = owner;
    hil_sized_fill(out, size, &own, sizeof own);
done:
    hil_text_free(&r.harmless);
    if (status == HIL_OK) return status;
    hil_text_free(&r.notes);
    json_decref(r.root);
    hil_free(owner);
    return status;
}

hil_status hil_deepspeed_read(const char *path, hil_deepspeed_config *out)
{
    hil_bytes bytes;
    HIL_TRY(hil_bytes_read(&bytes, path));
    hil_status status = hil_deepspeed_parse(bytes.data, bytes.size, path, out);
    hil_bytes_free(&bytes);
    return status;
}

void hil_deepspeed_free(hil_deepspeed_config *config)
{
    struct owner *owner = config->owner;
    if (!owner) return;
    json_decref(owner->root);
    hil_text_free(&owner->notes);
    hil_free(owner);
    config->owner = NULL;
}
