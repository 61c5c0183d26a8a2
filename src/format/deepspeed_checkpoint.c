/* deepspeed_checkpoint.c - see [Note: zero files]. */
#include "format/deepspeed_checkpoint.h"

#include "base/alloc.h"
#include "base/text.h"
#include "format/deepspeed_files.h"

#include <math.h>
#include <string.h>

/* Parts of several files, one after the other. */
typedef struct hil_deepspeed_flat {
    hil_torch_tensor *part;
    size_t parts;
    int64_t elements;
} flat;

typedef struct hil_deepspeed_param {
    const char *name;
    int64_t elements;
    int64_t dim[HIL_DIMS];
    int ndim;
    bool frozen;
    size_t flat;    /* index of the vector that holds it */
    int64_t first;  /* its first element there */
    int64_t stride; /* stage 3: its elements in the vector of each rank; 0: all are in one vector */
} param;

struct hil_deepspeed_checkpoint {
    hil_deepspeed_files files;
    param *param;
    size_t params;
    flat *
        flat[HIL_STATES]; /* of a group (stages 1 and 2) or a rank (stage 3), then of frozen ones */
    size_t flats;
    hil_deepspeed_progress progress;
    struct view {
        const hil_deepspeed_checkpoint *checkpoint;
        hil_state state;
        hil_safetensors *file;
    } view[HIL_STATES];
};

static const char *const moment_name[HIL_STATES] = {NULL, "exp_avg", "exp_avg_sq"};

static hil_status damaged(const hil_deepspeed_checkpoint *c, const char *why)
{
    return hil_fail(HIL_ERR_INPUT, "%s cannot be read: %s", c->files.path, why);
}

static hil_status read_flat(const flat *f, int64_t first, int64_t count, float *out)
{
    for (size_t i = 0; count > 0; ++i) {
        assert(i < f->parts);
        int64_t rest = f->part[i].elements - first;
        if (rest > 0) {
            int64_t some = rest < count ? rest : count;
            HIL_TRY(hil_torch_read(&f->part[i], first, some, out));
            out += some;
            count -= some;
            first += some;
        }
        first -= f->part[i].elements;
    }
    return HIL_OK;
}

static hil_status read_param(const hil_deepspeed_checkpoint *c, const param *p, hil_state state,
                             int64_t first, int64_t count, float *out)
{
    const flat *f = &c->flat[state][p->flat];
    if (!p->stride) return read_flat(f, p->first + first, count, out);
    while (count > 0) {
        int64_t at = first % p->stride, rest = p->stride - at, some = rest < count ? rest : count;
        HIL_TRY(read_flat(&f[first / p->stride], p->first + at, some, out));
        out += some;
        first += some;
        count -= some;
    }
    return HIL_OK;
}

static hil_status read_view(const void *context, const hil_entry *entry, size_t first, void *out,
                            size_t size)
{
    const struct view *v = context;
    return read_param(v->checkpoint, &v->checkpoint->param[entry->offset], v->state,
                      (int64_t)(first / 4), (int64_t)(size / 4), out);
}

static hil_status read_shape(const hil_deepspeed_checkpoint *c, const hil_pickle_value *shape,
                             param *p)
{
    p->elements = 1;
    p->ndim = shape && shape->kind == HIL_PICKLE_LIST ? (int)shape->count : HIL_DIMS + 1;
    if (p->ndim > HIL_DIMS)
        return hil_fail(HIL_ERR_INPUT, "%s: the shape of %s is not supported", c->files.path,
                        p->name);
    for (int i = 0; i < p->ndim; ++i) {
        int64_t dim;
        if (!hil_pickle_whole(shape->item[i], &dim) || dim < 1 ||
            p->elements > (INT64_C(1) << 40) / dim)
            return hil_fail(HIL_ERR_INPUT, "%s: the shape of %s makes no sense", c->files.path,
                            p->name);
        p->dim[i] = dim;
        p->elements *= dim;
    }
    return HIL_OK;
}

/* A parameter of a dictionary of shapes. */
static hil_status add_param(hil_deepspeed_checkpoint *c, const hil_pickle_value *shapes, size_t i,
                            param **out)
{
    const hil_pickle_value *name = shapes->item[2 * i];
    if (name->kind != HIL_PICKLE_TEXT) return damaged(c, "a parameter has no name");
    param *p = &c->param[c->params];
    p->name = name->text;
    HIL_TRY(read_shape(c, shapes->item[2 * i + 1], p));
    ++c->params;
    *out = p;
    return HIL_OK;
}

static size_t dict_count(const hil_pickle_value *dict)
{
    return dict && dict->kind == HIL_PICKLE_DICT ? dict->count / 2 : 0;
}

/* The dictionary of a group's shapes; older versions have only one. */
static const hil_pickle_value *group_shapes(const hil_deepspeed_checkpoint *c, size_t group)
{
    const hil_pickle_value *all = hil_pickle_get(hil_torch_root(c->files.model[0]), "param_shapes");
    if (all && all->kind == HIL_PICKLE_DICT) return group ? NULL : all;
    const hil_pickle_value *shapes = hil_pickle_at(all, group);
    return shapes && shapes->kind == HIL_PICKLE_DICT ? shapes : NULL;
}

static const hil_pickle_value *frozen_shapes(const hil_deepspeed_checkpoint *c)
{
    return hil_pickle_get(hil_torch_root(c->files.model[0]), "frozen_param_shapes");
}

/* Elements that DeepSpeed left free after a parameter. */
static int64_t padding_after(const hil_deepspeed_checkpoint *c, size_t group, size_t i)
{
    int64_t n;
    const hil_pickle_value *all = hil_deepspeed_files_optimizer(&c->files, 0);
    all = hil_pickle_at(hil_pickle_get(all, "param_alignment_paddings"), group);
    return hil_pickle_whole(hil_pickle_at(all, i), &n) && n > 0 && n < INT64_C(1) << 40 ? n : 0;
}

/* Places the trained parameters; *used has the elements of each vector. */
static hil_status place_trained(hil_deepspeed_checkpoint *c, int64_t *used)
{
    const hil_pickle_value *shapes;
    int64_t ranks = (int64_t)c->files.ranks;
    bool whole = c->files.stage < 3;
    for (size_t g = 0; (shapes = group_shapes(c, g)) != NULL; ++g)
        for (size_t i = 0; i < dict_count(shapes); ++i) {
            param *p;
            HIL_TRY(add_param(c, shapes, i, &p));
            if (used[whole ? g : 0] > INT64_C(1) << 50) return damaged(c, "it is too large");
            p->flat = whole ? g : 0;
            p->first = used[p->flat];
            p->stride = whole ? 0 : (p->elements + ranks - 1) / ranks;
            used[p->flat] += whole ? p->elements + padding_after(c, g, i) : p->stride;
        }
    return HIL_OK;
}

static size_t count_groups(const hil_deepspeed_checkpoint *c, size_t *params)
{
    size_t groups = 0;
    *params = dict_count(frozen_shapes(c));
    for (; group_shapes(c, groups); ++groups) *params += dict_count(group_shapes(c, groups));
    return groups;
}

static hil_status add_part(flat *f, const hil_torch *file, const hil_pickle_value *tensor)
{
    hil_torch_tensor part;
    HIL_TRY(hil_torch_find_floats(file, tensor, &part));
    f->part[f->parts++] = part;
    f->elements += part.elements;
    return HIL_OK;
}

/* The state of a rank's n-th vector; NULL: none. */
static const hil_pickle_value *find_state(const hil_deepspeed_checkpoint *c, size_t rank, size_t n,
                                          hil_state state)
{
    const hil_pickle_value *all = hil_deepspeed_files_optimizer(&c->files, rank);
    bool third = c->files.stage == 3;
    if (state == HIL_MASTER)
        return hil_pickle_at(
            hil_pickle_get(all, third ? "fp32_flat_groups" : "single_partition_of_fp32_groups"), n);
    all = hil_pickle_get(all, third ? "optimizer_state_dict" : "base_optimizer_state");
    const hil_pickle_value *own = hil_pickle_at(all, n); /* with elastic_checkpoint */
    if (!own) own = hil_pickle_get_index(hil_pickle_get(all, "state"), (int64_t)n);
    return hil_pickle_get(own, moment_name[state]);
}

static size_t count_vectors(const hil_deepspeed_checkpoint *c)
{
    size_t n = 0;
    while (find_state(c, 0, n, HIL_MASTER)) ++n;
    return n;
}

/* Stages 1 and 2: a vector over the ranks for each group; stage 3: one over the sub-groups for each
   rank. A moment that is missing anywhere is missing everywhere. */
static hil_status open_flats(hil_deepspeed_checkpoint *c, hil_state state, size_t vectors)
{
    bool third = c->files.stage == 3;
    size_t outer = third ? c->files.ranks : vectors, inner = third ? vectors : c->files.ranks;
    for (size_t i = 0; i < outer; ++i) {
        flat *f = &c->flat[state][i];
        HIL_TRY(HIL_ALLOC(inner, &f->part));
        for (size_t k = 0; k < inner; ++k) {
            size_t rank = third ? i : k, n = third ? k : i;
            const hil_pickle_value *tensor = find_state(c, rank, n, state);
            if (!tensor && state != HIL_MASTER) continue;
            HIL_TRY(add_part(f, c->files.optimizer[rank], tensor));
        }
    }
    return HIL_OK;
}

static hil_status check_flats(const hil_deepspeed_checkpoint *c, hil_state state, size_t vectors,
                              const int64_t *used)
{
    bool third = c->files.stage == 3;
    for (size_t i = 0; i < vectors; ++i)
        if (c->flat[state][i].elements < used[third ? 0 : i])
            return damaged(c, "its vectors are shorter than its parameters");
    return HIL_OK;
}

/* Frozen parameters: whole in stages 1 and 2, in stage 3 in parts of the ranks. */
static hil_status open_frozen(hil_deepspeed_checkpoint *c, size_t first)
{
    const hil_pickle_value *shapes = frozen_shapes(c);
    for (size_t i = 0; i < dict_count(shapes); ++i) {
        param *p;
        flat *f = &c->flat[HIL_MASTER][first + i];
        HIL_TRY(add_param(c, shapes, i, &p));
        p->frozen = true;
        p->flat = first + i;
        HIL_TRY(HIL_ALLOC(c->files.models, &f->part));
        for (size_t k = 0; k < (c->files.stage == 3 ? c->files.models : 1); ++k) {
            const hil_torch *file = c->files.model[k];
            HIL_TRY(add_part(
                f, file,
                hil_pickle_get(hil_pickle_get(hil_torch_root(file), "frozen_param_fragments"),
                               p->name)));
        }
        if (f->elements < p->elements) return damaged(c, "a frozen parameter is too short");
    }
    return HIL_OK;
}

/* A state exists if the checkpoint has it of every vector. */
static bool has_state(const hil_deepspeed_checkpoint *c, hil_state state, size_t vectors)
{
    for (size_t rank = 0; rank < c->files.ranks; ++rank)
        for (size_t n = 0; n < vectors; ++n)
            if (!find_state(c, rank, n, state)) return false;
    return true;
}

static hil_status open_view(hil_deepspeed_checkpoint *c, hil_state state, bool present)
{
    struct view *v = &c->view[state];
    hil_entry *entry = NULL;
    size_t count = 0;
    *v = (struct view){c, state, NULL};
    HIL_TRY(HIL_ALLOC(c->params, &entry));
    for (size_t i = 0; present && i < c->params; ++i) {
        const param *p = &c->param[i];
        if (p->frozen && state != HIL_MASTER) continue;
        entry[count++] = (hil_entry){.name = p->name,
                                     .dtype = "F32",
                                     .ndim = p->ndim,
                                     .dim = p->dim,
                                     .offset = i,
                                     .bytes = (size_t)p->elements * 4};
    }
    hil_status status =
        hil_safetensors_view(&v->file, entry, count, &(hil_safetensors_source){read_view, v});
    hil_free(entry);
    return status;
}

static hil_status read_updates(const hil_deepspeed_checkpoint *c, int64_t *out)
{
    const hil_pickle_value *all = hil_deepspeed_files_optimizer(&c->files, 0);
    all =
        hil_pickle_get(all, c->files.stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
    const hil_pickle_value *own = hil_pickle_at(all, 0);
    if (!own) own = hil_pickle_get_index(hil_pickle_get(all, "state"), 0);
    const hil_pickle_value *step = hil_pickle_get(own, "step");
    if (!step) step = hil_pickle_get(hil_pickle_at(hil_pickle_get(all, "param_groups"), 0), "step");
    if (!step || hil_pickle_whole(step, out)) return HIL_OK;
    hil_torch_tensor tensor;
    float number;
    HIL_TRY(hil_torch_find_floats(c->files.optimizer[0], step, &tensor));
    if (tensor.elements != 1) return damaged(c, "its step makes no sense");
    HIL_TRY(hil_torch_read(&tensor, 0, 1, &number));
    if (number >= 0 && number < 1e15f) *out = (int64_t)number;
    return HIL_OK;
}

static hil_status read_progress(hil_deepspeed_checkpoint *c)
{
    const hil_pickle_value *root = hil_torch_root(c->files.model[0]), *scale;
    hil_deepspeed_progress *p = &c->progress;
    int64_t skipped = 0;
    *p = (hil_deepspeed_progress){.stage = c->files.stage, .ranks = (int)c->files.ranks};
    if (!hil_pickle_whole(hil_pickle_get(root, "global_steps"), &p->steps) || p->steps < 0)
        return damaged(c, "it does not say its step");
    (void)hil_pickle_whole(hil_pickle_get(root, "skipped_steps"), &skipped);
    (void)hil_pickle_whole(hil_pickle_get(root, "global_samples"), &p->samples);
    p->updates = p->steps - skipped;
    HIL_TRY(read_updates(c, &p->updates));
    if (p->updates < 0 || p->updates > p->steps || p->samples < 0)
        return damaged(c, "its step makes no sense");
    scale = hil_pickle_get(hil_deepspeed_files_optimizer(&c->files, 0), "loss_scaler");
    scale = scale ? hil_pickle_get(scale->state, "cur_scale") : NULL;
    if (scale && (scale->kind == HIL_PICKLE_REAL || scale->kind == HIL_PICKLE_INT))
        p->loss_scale = scale->real;
    return HIL_OK;
}

static hil_status open_all(hil_deepspeed_checkpoint *c, const char *path)
{
    HIL_TRY(hil_deepspeed_files_open(&c->files, path));
    HIL_TRY(read_progress(c));
    size_t params, groups = count_groups(c, &params), vectors = count_vectors(c);
    bool third = c->files.stage == 3;
    size_t trained = third ? c->files.ranks : groups;
    int64_t *used = NULL;
    if (!groups || !vectors || (!third && vectors != groups))
        return damaged(c, "its parameters are not listed");
    c->flats = trained + dict_count(frozen_shapes(c));
    HIL_TRY(HIL_ALLOC(params, &c->param));
    for (int s = 0; s < HIL_STATES; ++s) HIL_TRY(HIL_ALLOC(c->flats, &c->flat[s]));
    HIL_TRY(HIL_ALLOC(groups, &used));
    hil_status status = place_trained(c, used);
    for (int s = 0; s < HIL_STATES && status == HIL_OK; ++s) {
        bool present = s == HIL_MASTER || has_state(c, (hil_state)s, vectors);
        if (present) status = open_flats(c, (hil_state)s, vectors);
        if (present && status == HIL_OK) status = check_flats(c, (hil_state)s, trained, used);
        if (s == HIL_MASTER && status == HIL_OK) status = open_frozen(c, trained);
        if (status == HIL_OK) status = open_view(c, (hil_state)s, present);
    }
    hil_free(used);
    return status;
}

hil_status hil_deepspeed_checkpoint_open(hil_deepspeed_checkpoint **out, const char *path)
{
    hil_deepspeed_checkpoint *c;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &c));
    hil_status status = open_all(c, path);
    if (status == HIL_OK)
        *out = c;
    else
        hil_deepspeed_checkpoint_close(c);
    return status;
}

void hil_deepspeed_checkpoint_close(hil_deepspeed_checkpoint *c)
{
    if (!c) return;
    for (int s = 0; s < HIL_STATES; ++s) {
        hil_safetensors_close(c->view[s].file);
        for (size_t i = 0; c->flat[s] && i < c->flats; ++i) hil_free(c->flat[s][i].part);
        hil_free(c->flat[s]);
    }
    hil_free(c->param);
    hil_deepspeed_files_close(&c->files);
    hil_free(c);
}

hil_deepspeed_progress hil_deepspeed_checkpoint_progress(const hil_deepspeed_checkpoint *c)
{
    return c->progress;
}

const hil_safetensors *hil_deepspeed_checkpoint_state(const hil_deepspeed_checkpoint *c,
                                                      hil_state state)
{
    return c->view[state].file;
}
