/* layout_rehearse.c - a step of ZeRO-Infinity's layout on a virtual clock.

   [Note: layout step] A layer's weights are loaded three times: for forward, for recompute and for
   backward. A load reads the rank's slice from its tier and gathers the rest. While a layer
   computes the next load is under way, if the description lets transfers overlap. Gradients are
   reduced in fp16, and each rank's slice goes to the optimizer's tier. The update follows backward;
   its reads, arithmetic and writes overlap in pieces. A model-parallel group adds up activations
   twice for each layer and direction, while it does not compute. Nor does a GPU compute while its
   checkpoint leaves or comes back: copies behind computing would cost next to nothing at a hidden
   size of 2K, where the paper measured a fifth.

   A pass computes the products of the weights, those of attention over all pairs of positions, and
   writes and reads each element of the paper's working memory once; all at the description's
   efficiency. */
#include "plan/layout.h"

#include <math.h>

#define PIECES 64 /* of the update */
#define PASSES 3  /* that need weights: forward, recompute, backward */
#define ADDED 2   /* sums of activations over a model-parallel group in each pass of a layer */
#define TOUCHED 2 /* times that a pass writes or reads an element of the working memory */

/* Bytes and seconds of one layer on one rank. */
typedef struct layer {
    double weight, slice; /* bytes that compute needs, and the part that this rank keeps */
    double gradient;      /* bytes of this rank's slice of gradients */
    double checkpoint;
    double pass; /* seconds of one forward pass; recompute takes one, backward two */
} layer;

typedef struct stage {
    const hil_cluster *cluster;
    hil_layout *layout;
    hil_links *links;
    layer layer;
    double ranks;     /* that divide a layer */
    hil_fence loaded; /* the weights of the next pass */
    hil_fence left;   /* gradients that leave the device */
} stage;

static hil_status submit(stage *s, hil_link link, hil_part_kind kind, double bytes,
                         hil_fence *fence)
{
    static const hil_extent none = {0};
    hil_job job = {.link = link, .after = *fence, .name = "layout", .parts = 1};
    job.part[0] = (hil_part){.kind = kind, .bytes = (size_t)bytes, .disk = &none};
    return hil_links_submit(s->links, &job, fence);
}

static hil_status exchange(stage *s, hil_link link, double bytes, hil_fence *fence)
{
    hil_job job = {.link = link, .after = *fence, .name = "layout", .bytes = (uint64_t)bytes};
    if (s->ranks < 2) return HIL_OK;
    return hil_links_submit(s->links, &job, fence);
}

/* Part of a layer that comes from the other ranks. */
static double others(const stage *s)
{
    return (s->ranks - 1) / s->ranks;
}

static hil_status load(stage *s)
{
    hil_tier tier = s->layout->weights;
    s->loaded = (hil_fence){0};
    if (tier == HIL_DISK)
        HIL_TRY(submit(s, HIL_LINK_FETCH, HIL_PART_READ, s->layer.slice, &s->loaded));
    if (tier != HIL_DEVICE)
        HIL_TRY(submit(s, HIL_LINK_IN, HIL_PART_COPY, s->layer.slice, &s->loaded));
    if (s->cluster->layout.replicated != HIL_REPLICATED_NONE) return HIL_OK;
    return exchange(s, HIL_LINK_GATHER, s->layer.weight * others(s), &s->loaded);
}

/* Without overlap nothing computes while bytes move. */
static hil_status settle(stage *s, const hil_fence *fence, hil_wait_reason why)
{
    return s->cluster->layout.overlap ? HIL_OK : hil_links_wait(s->links, fence, why);
}

/* Waits for the weights, begins the next load, computes `passes` of forward's operations. */
static hil_status compute(stage *s, double passes, bool more)
{
    HIL_TRY(hil_links_wait(s->links, &s->loaded, HIL_WAIT_WEIGHTS));
    if (more && s->cluster->layout.overlap) HIL_TRY(load(s));
    hil_links_compute(s->links, passes * s->layer.pass);
    if (more && !s->cluster->layout.overlap) HIL_TRY(load(s));
    return HIL_OK;
}

static hil_status send_gradient(stage *s)
{
    hil_tier tier = s->layout->optimizer;
    hil_fence done = {0};
    bool whole = s->cluster->layout.replicated == HIL_REPLICATED_ALL;
    HIL_TRY(exchange(s, HIL_LINK_REDUCE, s->layer.weight * others(s) * (whole ? 2 : 1), &done));
    if (tier != HIL_DEVICE)
        HIL_TRY(submit(s, HIL_LINK_OUT, HIL_PART_COPY, s->layer.gradient, &done));
    if (tier == HIL_DISK)
        HIL_TRY(submit(s, HIL_LINK_STASH, HIL_PART_WRITE, s->layer.gradient, &done));
    hil_fence_join(&s->left, &done);
    return settle(s, &done, HIL_WAIT_GRADIENTS);
}

/* Moves a layer's checkpoint to its tier (OUT) or back, and waits for it. */
static hil_status move_checkpoint(stage *s, hil_link link)
{
    hil_fence done = {0};
    if (s->layout->checkpoints == HIL_DEVICE) return HIL_OK;
    HIL_TRY(submit(s, link, HIL_PART_COPY, s->layer.checkpoint, &done));
    return hil_links_wait(s->links, &done, HIL_WAIT_ACTIVATIONS);
}

static hil_status forward(stage *s, int64_t layers)
{
    HIL_TRY(load(s));
    for (int64_t i = 0; i < layers; ++i) {
        HIL_TRY(compute(s, 1, i + 1 < layers));
        HIL_TRY(move_checkpoint(s, HIL_LINK_OUT));
    }
    return HIL_OK;
}

static hil_status backward(stage *s, int64_t layers)
{
    HIL_TRY(load(s));
    for (int64_t i = 0; i < layers; ++i) {
        HIL_TRY(move_checkpoint(s, HIL_LINK_BACK));
        HIL_TRY(compute(s, 1, true));
        HIL_TRY(compute(s, 2, i + 1 < layers));
        HIL_TRY(send_gradient(s));
    }
    return hil_links_wait(s->links, &s->left, HIL_WAIT_GRADIENTS);
}

/* Updates one piece of the rank's states. */
static hil_status update_piece(stage *s, double parameters, const hil_speeds *speeds,
                               hil_fence *ends)
{
    hil_tier tier = s->layout->optimizer;
    hil_fence done = {0};
    hil_job job = {.link = HIL_LINK_UPDATE, .queues = tier == HIL_DEVICE, .name = "layout"};
    job.seconds = parameters / (tier == HIL_DEVICE ? speeds->update_device : speeds->update);
    if (tier == HIL_DISK)
        HIL_TRY(submit(s, HIL_LINK_READ, HIL_PART_READ, HIL_LAYOUT_OPTIMIZER * parameters, &done));
    job.after = done;
    HIL_TRY(hil_links_submit(s->links, &job, &done));
    double written = HIL_LAYOUT_OPTIMIZER; /* the paper counts all 16 bytes, read and written */
    if (s->layout->weights == HIL_DISK) written += HIL_LAYOUT_WEIGHT;
    if (tier == HIL_DISK)
        HIL_TRY(submit(s, HIL_LINK_WRITE, HIL_PART_WRITE, written * parameters, &done));
    if (tier != HIL_DEVICE && s->layout->weights == HIL_DEVICE)
        HIL_TRY(submit(s, HIL_LINK_IN, HIL_PART_COPY, HIL_LAYOUT_WEIGHT * parameters, &done));
    hil_fence_join(ends, &done);
    return HIL_OK;
}

static hil_status update(stage *s, const hil_speeds *speeds)
{
    double parameters = s->layout->bytes.optimizer / HIL_LAYOUT_OPTIMIZER;
    hil_fence done = {0};
    for (int i = 0; i < PIECES; ++i) HIL_TRY(update_piece(s, parameters / PIECES, speeds, &done));
    if (s->cluster->layout.replicated == HIL_REPLICATED_WEIGHTS)
        HIL_TRY(exchange(s, HIL_LINK_GATHER, s->layout->bytes.weights * others(s), &done));
    return hil_links_wait(s->links, &done, HIL_WAIT_UPDATE);
}

/* Seconds of one forward pass of a layer with `size` parameters. */
static double pass_seconds(const hil_cluster_layout *l, const hil_dense *m, double size,
                           const hil_speeds *speeds)
{
    double tokens = m->batch * m->seq;
    hil_dense_memory memory;
    hil_dense_count(m, &memory);
    double seconds = 2 * tokens * size / speeds->gemm[HIL_F16];
    seconds += 4 * tokens * m->seq * m->hidden / speeds->attention[HIL_F16];
    seconds += TOUCHED * memory.activations / m->layers / speeds->memory;
    return seconds / l->efficiency;
}

/* A model-parallel group's ranks are neighbours in a node; groups of a node share its network. */
static void set_stage(stage *s, const hil_dense *m, hil_speeds *speeds)
{
    const hil_cluster *c = s->cluster;
    double parallel = (double)c->layout.model_parallel, batch = m->batch * parallel;
    double ranks = (double)(c->nodes * c->gpus) / parallel, size = m->parameters / m->layers;
    double sum = 2 * (parallel - 1) / parallel * HIL_LAYOUT_WEIGHT * batch * m->seq * m->hidden;
    if (c->nodes > 1 && c->gpus > 1) speeds->network = fmin(c->inside, c->between / parallel);
    s->ranks = ranks;
    s->layer = (layer){.weight = HIL_LAYOUT_WEIGHT * size / parallel,
                       .slice = s->layout->bytes.weights / m->layers,
                       .gradient = s->layout->bytes.gradients / m->layers,
                       .checkpoint = s->layout->bytes.checkpoints / m->layers,
                       .pass = pass_seconds(&c->layout, m, size, speeds)};
    if (parallel > 1) s->layer.pass += ADDED * (sum / c->inside + c->inside_latency);
}

hil_status hil_layout_rehearse(const hil_cluster *c, const hil_dense *m, hil_layout *layout)
{
    hil_machine machine = {0};
    stage s = {.cluster = c, .layout = layout};
    hil_status status = HIL_OK;
    hil_cluster_speeds(c, &machine);
    set_stage(&s, m, &machine.speeds);
    hil_links_options options = {.speeds = &machine.speeds};
    HIL_TRY_DONE(hil_links_create(&s.links, &options));
    HIL_TRY_DONE(forward(&s, (int64_t)m->layers));
    HIL_TRY_DONE(backward(&s, (int64_t)m->layers));
    HIL_TRY_DONE(update(&s, &machine.speeds));
    layout->step = hil_links_now(s.links);
    layout->computing = (PASSES + 1) * m->layers * s.layer.pass;
    hil_links_take_account(s.links, &layout->account);
done:
    hil_links_destroy(s.links);
    return status;
}
