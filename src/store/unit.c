/* unit.c - cuts parameters into units, which are moved as a whole. The cut depends on shapes,
   dtype, tile size and the number of ranks only, never on budgets. */
#include "base/alloc.h"
#include "store/internal.h"

#include <stdio.h>
#include <string.h>

static int64_t tile_rows(const hil_param *p, size_t tile_size)
{
    int64_t rows = hil_shape_rows(&p->spec.shape);
    int64_t row_bytes = hil_shape_cols(&p->spec.shape) * (int64_t)hil_dtype_size(p->dtype);
    int64_t multiple = hil_quant_rows(p->quant);
    if (multiple < HIL_TILE_MULTIPLE) multiple = HIL_TILE_MULTIPLE;
    if (rows <= multiple || row_bytes == 0) return rows ? rows : 1;
    int64_t fit = (int64_t)(tile_size / (size_t)row_bytes) / multiple * multiple;
    if (fit < multiple) fit = multiple;
    return fit < rows ? fit : rows;
}

static hil_status add_unit(hil_store *store, const hil_param *p, hil_unit **out)
{
    HIL_TRY(HIL_GROW(&store->unit, &store->units_room, store->units + 1));
    *out = &store->unit[store->units++];
    hil_dtype dtype = p->quant ? HIL_U8 : p->dtype;
    **out = (hil_unit){.dtype = dtype, .trainable = p->trainable};
    return HIL_OK;
}

static hil_status add_member(hil_unit *unit, hil_param *p, int64_t first, int64_t count)
{
    size_t room = (size_t)unit->room;
    HIL_TRY(HIL_GROW(&unit->member, &room, unit->members + 1));
    unit->room = (int)room;
    unit->member[unit->members++] =
        (hil_member){.param = p, .offset = unit->elements, .first = first, .count = count};
    unit->elements += hil_pad(count);
    return HIL_OK;
}

static hil_status cut_matrix(hil_store *store, hil_param *p)
{
    int64_t tile = p->stride;
    p->unit = store->units;
    for (int64_t first = 0; first < p->kept || first == 0; first += tile) {
        hil_unit *unit;
        int64_t rest = p->kept - first;
        HIL_TRY(add_unit(store, p, &unit));
        HIL_TRY(add_member(unit, p, first, rest < tile ? rest : tile));
        if (tile == 0) break;
    }
    return HIL_OK;
}

/* A vector joins the unit of its group, if one with the same `trainable` exists. */
static hil_status join_vector(hil_store *store, hil_param *p)
{
    for (size_t i = 0; i < (size_t)p->index; ++i) {
        const hil_param *other = store->params[i];
        if (other->spec.shape.ndim != 1 || other->spec.group != p->spec.group ||
            other->trainable != p->trainable)
            continue;
        p->unit = other->unit;
        p->member = store->unit[p->unit].members;
        return add_member(&store->unit[p->unit], p, 0, p->elements);
    }
    hil_unit *unit;
    p->unit = store->units;
    HIL_TRY(add_unit(store, p, &unit));
    return add_member(unit, p, 0, p->elements);
}

/* A layer's number stands between dots: "model.layers.0.mlp.up_proj.weight". */
bool hil_param_quantizes(const hil_param *p)
{
    if (p->spec.shape.ndim != 2 || p->spec.adapter || p->spec.router) return false;
    for (const char *dot = strchr(p->name, '.'); dot; dot = strchr(dot + 1, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        if (digits && dot[1 + digits] == '.') return true;
    }
    return false;
}

static void choose_quant(const hil_store *store, hil_param *p)
{
    const hil_store_options *o = &store->options;
    if (p->quant || !o->base || !hil_param_quantizes(p)) return;
    if (!o->training || !p->trainable) p->quant = o->base;
}

/* A matrix of a block that is trained: those with more dimensions are not matrices in files. */
static void choose_scope(const hil_store *store, hil_param *p)
{
    const hil_store_options *o = &store->options;
    p->matrix = o->matrix && o->training && p->trainable && p->spec.filed.ndim <= 2 &&
                hil_param_quantizes(p);
}

/* Products in 8 bits read weights in bf16, and there must be some. */
static hil_status check_fp8(const hil_store *store)
{
    bool any = false;
    for (size_t i = 0; i < store->count && store->options.fp8; ++i) {
        const hil_param *p = store->params[i];
        any = any || p->fp8;
        if (p->quant)
            return hil_fail(HIL_ERR_USAGE,
                            "--dtype fp8: %s is kept in %s, and products in fp8 need weights in "
                            "bf16: use --dtype bf16, or a base that is not quantized",
                            p->name, hil_quant_name(p->quant));
    }
    if (any || !store->options.fp8) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "--dtype fp8: the model has no matrix in its blocks (layers "
                                   "whose names have a number); use --dtype bf16");
}

/* How many numbers its units keep. */
static void measure(hil_param *p)
{
    int64_t cols = hil_shape_cols(&p->spec.shape), rows = hil_shape_rows(&p->spec.shape);
    p->stride = p->tile_rows * cols;
    p->kept = p->elements;
    if (!p->quant) return;
    int64_t tiles = (rows + p->tile_rows - 1) / p->tile_rows;
    hil_quant_tile first, last;
    hil_param_quant_tile(p, 0, &first);
    hil_param_quant_tile(p, tiles ? tiles - 1 : 0, &last);
    p->stride = (int64_t)first.bytes;
    p->kept = (tiles ? tiles - 1 : 0) * p->stride + (int64_t)last.bytes;
}

hil_status hil_units_arrange(hil_store *store)
{
    bool quantized = false, matrices = false;
    if (store->options.matrix && store->options.compute == HIL_F16)
        return hil_fail(HIL_ERR_USAGE,
                        "--optimizer muon needs the range of bf16 or fp32: use --dtype bf16");
    for (size_t i = 0; i < store->count; ++i) {
        hil_param *p = store->params[i];
        choose_quant(store, p);
        choose_scope(store, p);
        p->fp8 = store->options.fp8 && hil_param_quantizes(p);
        if (p->quant && p->trainable && store->options.training)
            return hil_fail(HIL_ERR_USAGE,
                            "%s is kept in %s and cannot be trained: train an adapter (--adapter "
                            "lora), or a folder whose weights are not quantized",
                            p->name, hil_quant_name(p->quant));
        p->dtype = p->spec.shape.ndim == 1 ? HIL_F32 : store->options.compute;
        p->tile_rows = tile_rows(p, store->options.tile_size);
        measure(p);
        quantized = quantized || p->quant;
        matrices = matrices || p->matrix;
        HIL_TRY(p->spec.shape.ndim == 1 ? join_vector(store, p) : cut_matrix(store, p));
    }
    HIL_TRY(check_fp8(store));
    if (store->options.base && !quantized)
        return hil_fail(HIL_ERR_USAGE,
                        "--base-dtype %s: the model has no matrix in its blocks that is not "
                        "trained; it is for adapters (--adapter lora), eval and generate",
                        hil_quant_name(store->options.base));
    if (store->options.matrix && store->options.training && !matrices)
        return hil_fail(HIL_ERR_USAGE,
                        "--optimizer muon: no matrix of the blocks is trained (an adapter's and "
                        "routers are not for muon): use --optimizer adamw");
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        unit->slice = hil_pad((unit->elements + store->options.ranks - 1) / store->options.ranks);
        unit->elements = unit->slice * store->options.ranks;
    }
    return HIL_OK;
}

void hil_units_free(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) hil_free(store->unit[u].member);
    hil_free(store->unit);
}

int64_t hil_unit_blocks(const hil_unit *unit)
{
    int64_t blocks = 0;
    for (int i = 0; i < unit->members; ++i) blocks += hil_member_blocks(&unit->member[i]);
    return blocks;
}

int hil_store_ranks(const hil_store *store)
{
    return store->options.ranks;
}

size_t hil_store_units(const hil_store *store)
{
    return store->units;
}

int64_t hil_unit_elements(const hil_store *store, size_t unit)
{
    return store->unit[unit].elements;
}

int64_t hil_unit_slice(const hil_store *store, size_t unit)
{
    return store->unit[unit].slice;
}

bool hil_store_adapted(const hil_store *store)
{
    return store->adapted;
}

hil_quant hil_unit_quant(const hil_store *store, size_t unit)
{
    return store->unit[unit].member[0].param->quant;
}

int hil_unit_uses(const hil_store *store, size_t unit)
{
    return store->unit[unit].uses;
}

const char *hil_unit_name(const hil_store *store, size_t unit, char out[HIL_UNIT_NAME])
{
    const hil_unit *u = &store->unit[unit];
    const hil_param *p = u->member[0].param;
    if (u->members > 1)
        snprintf(out, HIL_UNIT_NAME, "%.100s and %d more", p->name, u->members - 1);
    else if (u->member[0].count < p->kept)
        snprintf(out, HIL_UNIT_NAME, "%.100s[%zu]", p->name, unit - p->unit);
    else
        snprintf(out, HIL_UNIT_NAME, "%.100s", p->name);
    return out;
}
