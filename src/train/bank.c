/* bank.c - creates a bank, registers and places parameters; reads and writes their states. */
#include "train/bank.h"

#include "base/alloc.h"
#include "hilbert/trainer.h"
#include "train/account.h"
#include "base/sized.h"
#include "store/state.h"
#include "store/store.h"

#include <string.h>

void hil_bank_defaults_sized(hil_bank_options *options, size_t size)
{
    hil_trainer_options trainer;
    hil_trainer_defaults(&trainer);
    const hil_bank_options defaults = {
        .dtype = trainer.dtype,
        .optimizer = trainer.optimizer,
        .weight_decay = trainer.weight_decay,
        .clip = trainer.clip,
        .beta1 = trainer.beta1,
        .beta2 = trainer.beta2,
        .eps = trainer.eps,
        .tile_size = trainer.tile_size,
    };
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status copy_drives(hil_bank *bank, const hil_bank_options *options)
{
    const hil_memory_options *memory = &options->memory;
    if (memory->disk_count > HIL_DRIVES)
        return hil_fail(HIL_ERR_USAGE, "%zu disks are too many: at most %d", memory->disk_count,
                        HIL_DRIVES);
    for (size_t d = 0; d < memory->disk_count; ++d) {
        const hil_disk_budget *drive = &memory->disks[d];
        double speed = options->disk_speeds ? options->disk_speeds[d] : 1;
        if (!drive->path || drive->bytes < HIL_IO_ALIGN || !(speed > 0))
            return hil_fail(HIL_ERR_USAGE, "disk %zu needs a path, some bytes and a speed above 0",
                            d);
        HIL_TRY(hil_text_copy(drive->path, &bank->path[d]));
        bank->drive[d] = (hil_drive){bank->path[d], drive->bytes, speed};
        bank->budget.disk += drive->bytes / HIL_IO_ALIGN * HIL_IO_ALIGN;
        ++bank->drive_count;
    }
    return HIL_OK;
}

hil_status hil_bank_create(hil_bank **out, const hil_bank_options *options)
{
    *out = NULL;
    hil_dtype dtype;
    const hil_rule *rule;
    hil_bank_options own;
    hil_bank *bank = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_bank, &own, options));
    options = &own;
    HIL_TRY_DONE(hil_dtype_parse(options->dtype, &dtype));
    HIL_TRY_DONE(hil_rule_find(options->optimizer, &rule));
    HIL_TRY_DONE(HIL_ALLOC(1, &bank));
    bank->dtype = dtype;
    bank->budget = (hil_budget){options->memory.device, options->memory.host, 0};
    bank->window = options->window;
    bank->io = options->memory.io;
    bank->tile_size = options->tile_size;
    bank->scaling = hil_scaling_begin(dtype);
    bank->optimizer = (hil_optimizer){.rule = rule,
                                      .beta1 = options->beta1,
                                      .beta2 = options->beta2 < 0 ? rule->beta2 : options->beta2,
                                      .eps = options->eps,
                                      .weight_decay = options->weight_decay,
                                      .clip = options->clip};
    HIL_TRY_DONE(copy_drives(bank, options));
    HIL_TRY_DONE(hil_store_create(&bank->store));
    HIL_TRY_DONE(hil_pool_create(&bank->pool, options->threads));
    HIL_TRY_DONE(hil_pool_create(&bank->update, options->threads));
    *out = bank;
    bank = NULL;
done:
    hil_bank_destroy(bank);
    return status;
}

void hil_bank_destroy(hil_bank *bank)
{
    if (!bank) return;
    if (bank->store) hil_store_close(bank->store);
    hil_tiers_close(&bank->tiers);
    hil_store_destroy(bank->store);
    hil_pool_destroy(bank->pool);
    hil_pool_destroy(bank->update);
    hil_plan_free(&bank->plan);
    hil_free(bank->unit);
    for (size_t i = 0; i < bank->params; ++i) {
        hil_free(bank->param[i]->pins);
        hil_free(bank->param[i]);
    }
    hil_free(bank->param);
    hil_free(bank->group);
    for (int d = 0; d < HIL_DRIVES; ++d) hil_free(bank->path[d]);
    hil_free(bank);
}

static hil_status find_group(hil_bank *bank, int number, size_t *out)
{
    for (*out = 0; *out < bank->groups; ++*out)
        if (bank->group[*out].number == number) return HIL_OK;
    HIL_TRY(HIL_GROW(&bank->group, &bank->groups_room, bank->groups + 1));
    bank->group[bank->groups++] = (hil_bank_group){.number = number};
    return HIL_OK;
}

hil_status hil_bank_add(hil_bank *bank, const char *name, const hil_bank_form *form,
                        hil_bank_param **out)
{
    *out = NULL;
    if (bank->phase != HIL_BANK_NEW)
        return hil_fail(HIL_ERR_USAGE, "%s comes too late: add it before hil_bank_place", name);
    if (form->rows < 0 || form->cols < 1 || form->group < 0)
        return hil_fail(HIL_ERR_USAGE, "parameter %s: %lld x %lld in group %d is invalid", name,
                        (long long)form->rows, (long long)form->cols, form->group);
    hil_param_spec spec = {.name = name,
                           .shape = {.ndim = 1, .dim = {form->cols}},
                           .no_decay = form->no_decay,
                           .group = form->group};
    if (form->rows) spec.shape = (hil_shape){.ndim = 2, .dim = {form->rows, form->cols}};
    HIL_TRY(HIL_GROW(&bank->param, &bank->params_room, bank->params + 1));
    hil_bank_param *p;
    HIL_TRY(HIL_ALLOC(1, &p));
    p->bank = bank;
    bank->param[bank->params++] = p;
    hil_status status = hil_store_add(bank->store, &spec, &p->param);
    if (status == HIL_OK) status = find_group(bank, form->group, &p->group);
    if (status != HIL_OK) {
        hil_free(p);
        --bank->params;
        return status;
    }
    if (form->frozen) hil_param_freeze(p->param);
    *out = p;
    return HIL_OK;
}

hil_bank_param *hil_bank_find(const hil_bank *bank, const char *name)
{
    for (size_t i = 0; i < bank->params; ++i)
        if (strcmp(hil_param_spec_of(bank->param[i]->param)->name, name) == 0)
            return bank->param[i];
    return NULL;
}

/* Cuts the parameters into units. A trainable parameter has one gradient, in its group. */
static hil_status cut(hil_bank *bank)
{
    const hil_rule *rule = bank->optimizer.rule;
    hil_store_options options = {.compute = bank->dtype,
                                 .training = true,
                                 .tile_size = bank->tile_size,
                                 .moments = rule->moments,
                                 .codec = rule->codec};
    HIL_TRY(hil_store_arrange(bank->store, &options));
    for (size_t i = 0; i < bank->params; ++i) {
        hil_bank_param *p = bank->param[i];
        int64_t rows = hil_shape_rows(&hil_param_spec_of(p->param)->shape);
        p->tiles = (rows + hil_param_tile_rows(p->param) - 1) / hil_param_tile_rows(p->param);
        HIL_TRY(HIL_ALLOC(2 * p->tiles, &p->pins));
        p->sum_pins = p->pins + p->tiles;
        if (hil_param_trainable(p->param))
            HIL_TRY(hil_store_declare_use(bank->store, p->param, bank->group[p->group].number));
    }
    return HIL_OK;
}

hil_status hil_bank_place(hil_bank *bank)
{
    if (bank->phase != HIL_BANK_NEW)
        return hil_fail(HIL_ERR_USAGE, "hil_bank_place was called already");
    bank->phase = HIL_BANK_BROKEN;
    uint64_t drive_bytes[HIL_DRIVES] = {0};
    HIL_TRY(cut(bank));
    HIL_TRY(hil_bank_plan(bank, drive_bytes));
    hil_tiers_options tiers = {.device_bytes = bank->budget.device,
                               .host_bytes = bank->budget.host,
                               .drives = bank->drive,
                               .drive_count = bank->drive_count,
                               .drive_bytes = drive_bytes,
                               .io = bank->io};
    HIL_TRY(hil_tiers_open(&bank->tiers, &tiers));
    hil_store_opening opening = {
        .tiers = &bank->tiers, .plan = &bank->plan, .pool = bank->pool, .update = bank->update};
    HIL_TRY(hil_store_open(bank->store, &opening));
    bank->phase = HIL_BANK_IDLE;
    return HIL_OK;
}

hil_bank_bytes hil_bank_placed(const hil_bank *bank)
{
    hil_plan_table table;
    uint64_t sum[HIL_TIERS] = {0};
    hil_plan_count(&bank->outline, &bank->plan, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        for (int t = 0; t < HIL_TIERS; ++t) sum[t] += table.bytes[s][t];
    return (hil_bank_bytes){sum[HIL_DEVICE], sum[HIL_HOST], sum[HIL_DISK]};
}

int64_t hil_bank_tiles(const hil_bank_param *param)
{
    return param->tiles;
}

int64_t hil_bank_tile_rows(const hil_bank_param *param)
{
    return hil_param_tile_rows(param->param);
}

static hil_status check_range(const hil_bank *bank, const hil_bank_param *p, hil_bank_state state,
                              int64_t first, int64_t count)
{
    const char *name = hil_param_spec_of(p->param)->name;
    int64_t elements = hil_param_elements(p->param);
    assert(p->bank == bank);
    if (bank->phase != HIL_BANK_IDLE)
        return hil_fail(HIL_ERR_USAGE, "%s can be read and written between steps only", name);
    if (state < HIL_BANK_WEIGHT || state > HIL_BANK_MOMENT2 ||
        !hil_param_has(p->param, (hil_state)state))
        return hil_fail(HIL_ERR_USAGE, "%s has no state %d", name, (int)state);
    if (first < 0 || count < 0 || first > elements || count > elements - first)
        return hil_fail(HIL_ERR_USAGE, "%s has %lld elements: cannot access %lld from element %lld",
                        name, (long long)elements, (long long)count, (long long)first);
    return HIL_OK;
}

_Static_assert((int)HIL_BANK_WEIGHT == HIL_MASTER && (int)HIL_BANK_MOMENT1 == HIL_MOMENT1 &&
                   (int)HIL_BANK_MOMENT2 == HIL_MOMENT2,
               "the store's states under their public names");

hil_status hil_bank_read(hil_bank *bank, hil_bank_param *param, hil_bank_state state, int64_t first,
                         int64_t count, float *out)
{
    HIL_TRY(check_range(bank, param, state, first, count));
    return hil_store_read(bank->store, param->param, (hil_state)state, first, count, out);
}

hil_status hil_bank_write(hil_bank *bank, hil_bank_param *param, hil_bank_state state,
                          int64_t first, int64_t count, const float *in)
{
    HIL_TRY(check_range(bank, param, state, first, count));
    return hil_store_write(bank->store, param->param, (hil_state)state, first, count, in);
}

hil_bank_progress hil_bank_get_progress(const hil_bank *bank)
{
    return (hil_bank_progress){bank->updates, bank->scaling.scale, bank->scaling.good};
}

hil_status hil_bank_set_progress(hil_bank *bank, const hil_bank_progress *progress)
{
    bool scaled = bank->dtype == HIL_F16;
    if (progress->updates < 0 || progress->since < 0 || progress->loss_scale < 1 ||
        progress->loss_scale > (scaled ? HIL_SCALING_MOST : 1))
        return hil_fail(HIL_ERR_INPUT, "%lld updates with a loss scale of %lld are invalid",
                        (long long)progress->updates, (long long)progress->loss_scale);
    bank->updates = progress->updates;
    bank->scaling.scale = progress->loss_scale;
    bank->scaling.good = progress->since;
    return HIL_OK;
}

void hil_bank_account(hil_bank *bank, hil_step_account *out)
{
    *out = (hil_step_account){0};
    if (bank->phase < HIL_BANK_IDLE) return;
    uint64_t peak[HIL_TIERS];
    hil_plan spent = {0};
    hil_account_take(bank->tiers.links, out, &spent);
    hil_store_peaks(bank->store, peak);
    out->device_peak = peak[HIL_DEVICE];
    out->host_peak = peak[HIL_HOST];
    out->disk_peak = peak[HIL_DISK];
}
