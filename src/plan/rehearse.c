/* rehearse.c - runs engine, store and tiers as in a real run, on a virtual clock. */
#include "plan/rehearse.h"

#include "autograd/visit.h"
#include "base/alloc.h"
#include "plan/outline.h"
#include "store/order.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/update.h"

#include <stdio.h>
#include <string.h>

/* Address space that is never touched; more than any machine's memory. */
#define ENDLESS ((size_t)1 << 52)

/* [Note: periods] Of a step with many groups of micro-batches only a few periods are rehearsed: the
   first, some in the middle, and the last, which gives the gradients and may be short. At the
   renewal between two periods ([Note: renewal]) the engine holds nothing and nothing is prefetched.
   So if a period in the middle leaves the store as it found it, the periods left out would repeat
   it: they add its bytes and seconds, and no new peak. Otherwise the next one is rehearsed, up to
   all. The order of use has one period in the middle, which is repeated. A step overlaps the update
   of the step before, of which only the last period is rehearsed. */
#define FEW_PERIODS 3

/* A renewal. */
typedef struct boundary {
    hil_pass_state store;
    hil_account account; /* since the step began */
    double clock;
} boundary;

typedef struct stage {
    const hil_rehearsal *r;
    hil_plan *plan;
    hil_tiers tiers;
    hil_pool *pool;
    hil_engine *engine;
    bool limited;          /* tensors fail if they exceed the plan's budgets */
    int64_t head, skipped; /* micro-batches before those left out, and number of those left out */
    bool kinds;            /* one micro-batch of each kind: see [Note: order of use] */
    hil_micro *micro;
    int64_t micros;
    int64_t periods;          /* of the step; 0: not known */
    int64_t left_out;         /* of these, not rehearsed */
    int64_t renewals;         /* in this step so far */
    bool stopped;             /* at a renewal: the plan exceeds its budgets */
    boundary at[2];           /* the last two renewals */
    hil_pass_state middle[2]; /* start and end of the period in the middle */
    hil_pass_state last; /* at the start of the last period; no uses: there is only one period */
    hil_account account;
    uint64_t unused; /* bytes of the window */
} stage;

static int64_t micros_of(const hil_rehearsal *r)
{
    return (r->sequences + r->micro_batch - 1) / r->micro_batch;
}

static int64_t group_of(const hil_rehearsal *r, const hil_plan *plan)
{
    return plan->group ? plan->group : micros_of(r);
}

/* Micro-batches of a period: whole groups. */
static int64_t period_of(const hil_rehearsal *r, const hil_plan *plan)
{
    int64_t group = group_of(r, plan);
    return (hil_engine_period(r->model->count) + group - 1) / group * group;
}

static hil_status list_micros(stage *s)
{
    const hil_rehearsal *r = s->r;
    s->micros = micros_of(r) - s->skipped;
    HIL_TRY(HIL_ALLOC(s->micros, &s->micro));
    for (int64_t i = 0; i < s->micros; ++i) {
        int64_t m = i < s->head ? i : i + s->skipped;
        int64_t rest = r->sequences - m * r->micro_batch;
        s->micro[i] = (hil_micro){.sequences = rest < r->micro_batch ? rest : r->micro_batch,
                                  .length = r->length,
                                  .sequence = m * r->micro_batch};
    }
    return HIL_OK;
}

/* sum += times * more */
static void add_account(hil_account *sum, const hil_account *more, int64_t times)
{
    uint64_t n = (uint64_t)times;
    for (int i = 0; i < HIL_LINKS; ++i) sum->bytes[i] += n * more->bytes[i];
    for (int i = 0; i < HIL_LINKS; ++i) sum->busy[i] += (double)times * more->busy[i];
    for (int i = 0; i < HIL_WAITS; ++i) sum->wait[i] += (double)times * more->wait[i];
    sum->disk_read += n * more->disk_read;
    sum->disk_written += n * more->disk_written;
    sum->to_device += n * more->to_device;
    sum->to_host += n * more->to_host;
}

static void collect_account(stage *s)
{
    hil_account more;
    hil_links_take_account(s->tiers.links, &more);
    add_account(&s->account, &more, 1);
}

/* Bytes that the layers kept which others stand for. */
static size_t kept_represented(const stage *s, hil_tier tier)
{
    uint64_t kept[HIL_TIERS];
    hil_engine_kept(s->engine, kept);
    return s->r->layers > 1 ? (size_t)((s->r->layers - 1) * (double)kept[tier]) : 0;
}

/* Records what tensors needed so far in the plan. */
static void note_tensors(stage *s)
{
    s->plan->work = hil_engine_work(s->engine);
    s->plan->expanded = hil_engine_expanded(s->engine);
    s->plan->offloaded = hil_engine_offloaded(s->engine);
    s->plan->work += kept_represented(s, HIL_DEVICE);
    s->plan->offloaded += kept_represented(s, HIL_HOST);
}

/* `seconds` without the stalls of the account. */
static double computing(const stage *s, double seconds)
{
    for (int w = 0; w < HIL_WAITS; ++w) seconds -= s->account.wait[w];
    return seconds;
}

/* Records in the plan what was needed so far. */
static void note_needs(stage *s)
{
    hil_plan *plan = s->plan;
    const hil_store *store = s->r->model->store;
    note_tensors(s);
    plan->spilled = hil_store_spill_extent(store);
    hil_store_peaks(store, plan->peak);
    s->unused = plan->window - hil_store_window_peak(store);
    plan->peak[HIL_DEVICE] += plan->work;
    plan->peak[HIL_HOST] += plan->offloaded;
    plan->peak[HIL_DISK] += kept_represented(s, HIL_DISK);
    memset(plan->drive_bytes, 0, sizeof plan->drive_bytes);
    if (s->tiers.disk) hil_disk_extent(s->tiers.disk, plan->drive_bytes);
}

/* The same, and transfers and times of the last step. */
static void note(stage *s, double seconds)
{
    hil_plan *plan = s->plan;
    const hil_account *account = &s->account;
    note_needs(s);
    hil_plan_take_account(plan, account);
    plan->step_seconds = seconds;
    plan->compute_seconds = computing(s, seconds);
    hil_plan_grow(plan, s->r->growth);
}

/* Whether the plan exceeds its budgets. Peaks are the same in every step, so the rest is skipped.
   The window is reserved as a whole. */
static bool is_over(const stage *s)
{
    const hil_plan *plan = s->plan;
    uint64_t device = plan->peak[HIL_DEVICE] + s->unused;
    return plan->device_budget &&
           (device > plan->device_budget || plan->peak[HIL_HOST] > plan->host_budget ||
            plan->peak[HIL_DISK] > plan->disk_budget);
}

/* Repeats the period in the middle until it leaves the store as it found it. */
static hil_status note_renewal(void *context, bool *again)
{
    stage *s = context;
    boundary *at = s->at;
    int64_t n = ++s->renewals;
    if (s->periods <= FEW_PERIODS) return HIL_OK;
    note_needs(s);
    if (is_over(s)) {
        s->stopped = true;
        return hil_fail(HIL_ERR_BUDGET, "the plan exceeds its budgets");
    }
    collect_account(s);
    at[0] = at[1];
    at[1].account = s->account;
    at[1].clock = hil_links_now(s->tiers.links);
    hil_store_pass_state(s->r->model->store, &at[1].store);
    if (n <= 2) s->middle[n - 1] = at[1].store;
    if (n == 1) return HIL_OK;
    if (at[0].store.digest == at[1].store.digest) s->left_out = s->periods - n - 1;
    *again = n + s->left_out + 1 < s->periods;
    return HIL_OK;
}

/* [Note: order of use] In which order a pass uses what follows from the micro-batches and from what
   they keep, not from the places of states. What a visit uses depends on its segment and direction,
   on whether its tape is kept, lean or not kept, and on the size of the micro-batch. So the store
   learns from one micro-batch of each kind, with all states on the device; the order of a step is
   composed of their visits. Where gradients are given tile by tile, the step has one micro-batch,
   from which the store learns. */
enum { KINDS = HIL_KEEP_TAPE + 1 };

/* Micro-batches of each kind: one, and the step's last one if that is smaller. */
static int64_t sizes_of(const hil_rehearsal *r)
{
    return r->sequences % r->micro_batch ? 2 : 1;
}

/* One group that keeps first tapes, then lean ones, then nothing. */
static hil_status list_kinds(stage *s)
{
    const hil_rehearsal *r = s->r;
    int64_t sizes = sizes_of(r);
    s->micros = KINDS * sizes;
    HIL_TRY(HIL_ALLOC(s->micros, &s->micro));
    for (int64_t i = 0; i < s->micros; ++i)
        s->micro[i] =
            (hil_micro){.sequences = i % sizes ? r->sequences % r->micro_batch : r->micro_batch,
                        .length = r->length};
    return HIL_OK;
}

static hil_status open_stage(stage *s)
{
    const hil_rehearsal *r = s->r;
    hil_plan *plan = s->plan;
    HIL_TRY(s->kinds ? list_kinds(s) : list_micros(s));
    HIL_TRY(hil_pool_create_dry(&s->pool));
    hil_tiers_options tiers = {.device_bytes = ENDLESS,
                               .host_bytes = ENDLESS,
                               .drives = r->drives,
                               .drive_count = r->drive_count,
                               .speeds = r->speeds,
                               .device = r->device};
    HIL_TRY(hil_tiers_open(&s->tiers, &tiers));
    plan->work = plan->offloaded = plan->spilled = ENDLESS / 8;
    if (s->limited) plan->work = plan->device_budget;
    if (s->limited) plan->offloaded = plan->host_budget;
    hil_store_opening opening = {
        .tiers = &s->tiers, .plan = plan, .pool = s->pool, .update = s->pool, .speeds = r->speeds};
    HIL_TRY(hil_store_open(r->model->store, &opening));
    hil_engine_options engine = {.pool = s->pool,
                                 .compute = r->compute,
                                 .group = plan->group,
                                 .segment = plan->segment,
                                 .tiers = &s->tiers,
                                 .work = plan->work,
                                 .expanded = plan->expanded,
                                 .ring = hil_store_ring(r->model->store),
                                 .offloaded = plan->offloaded,
                                 .prefetch = plan->prefetch,
                                 .speeds = r->speeds,
                                 .share = r->share,
                                 .preference = r->preference,
                                 .renewed = note_renewal,
                                 .context = s};
    return hil_engine_create(&s->engine, r->model, &engine);
}

static void close_stage(stage *s)
{
    hil_engine_destroy(s->engine);
    hil_store_close(s->r->model->store);
    hil_tiers_close(&s->tiers);
    hil_pool_destroy(s->pool);
    hil_free(s->micro);
}

static void no_update(const void *rule, const hil_block *block)
{
    (void)rule;
    (void)block;
}

/* Runs a prompt and one token after it. */
static hil_status generate(stage *s)
{
    int64_t length = s->r->length, positions = s->r->cache;
    hil_micro micro = {.sequences = 1, .length = length < positions ? length : positions};
    HIL_TRY(hil_engine_cache_begin(s->engine, positions));
    HIL_TRY(hil_engine_extend(s->engine, &micro, NULL));
    micro.length = 1;
    return positions > length ? hil_engine_extend(s->engine, &micro, NULL) : HIL_OK;
}

/* Samples of text between steps use the memory of tensors, which is free then. */
static hil_status take_sample(stage *s)
{
    if (!s->r->training || !s->r->cache) return HIL_OK;
    hil_status status = generate(s);
    hil_engine_cache_end(s->engine);
    return status;
}

static hil_status pass(stage *s)
{
    double loss;
    if (s->r->cache && !s->r->training) return generate(s);
    if (!s->r->training) return hil_engine_loss(s->engine, &s->micro[0], &loss);
    hil_step step = {.micro = s->micro, .count = s->micros, .scale = 1};
    return hil_engine_train(s->engine, &step, &loss);
}

static hil_status take_step(stage *s)
{
    double norm;
    hil_store *store = s->r->model->store;
    s->account = (hil_account){0};
    s->renewals = 0;
    HIL_TRY(pass(s));
    if (!s->r->training) return HIL_OK;
    HIL_TRY(hil_store_norm(store, &norm));
    HIL_TRY(hil_store_update(store, no_update, "", 1));
    hil_store_step_end(store);
    return HIL_OK;
}

static double left_out_seconds(const stage *s)
{
    return s->left_out ? (double)s->left_out * (s->at[1].clock - s->at[0].clock) : 0;
}

/* Adds the transfers of the periods left out. */
static void add_left_out(stage *s)
{
    hil_account period = s->at[1].account;
    if (!s->left_out) return;
    add_account(&period, &s->at[0].account, -1);
    add_account(&s->account, &period, s->left_out);
}

/* Runs the step before the measured one; only its last period if there are several. */
static hil_status take_first_step(stage *s)
{
    hil_store *store = s->r->model->store;
    int64_t period = period_of(s->r, s->plan), before = (s->micros - 1) / period * period;
    stage last = *s;
    if (!s->last.uses) return take_step(s);
    last.micro += before;
    last.micros -= before;
    HIL_TRY(hil_store_pass_cut(store, &s->last));
    HIL_TRY(take_step(&last));
    return hil_store_pass_restore(store);
}

static void set_timeline(stage *s, hil_timeline *timeline)
{
    hil_engine_set_timeline(s->engine, timeline);
    hil_links_set_timeline(s->tiers.links, timeline);
}

/* One span for the periods left out, so that the timeline is as long as the step. */
static void add_left_out_span(const stage *s, hil_timeline *timeline)
{
    char name[64];
    double now = hil_links_now(s->tiers.links);
    if (!s->left_out) return;
    snprintf(name, sizeof name, "%lld more like these, left out", (long long)s->left_out);
    hil_timeline_add(timeline, HIL_TRACK_COMPUTE, name, now, now + left_out_seconds(s), 0);
}

/* Takes the measured step, and writes its timeline if that was asked for. */
static hil_status take_measured_step(stage *s, double began)
{
    hil_timeline *timeline = NULL;
    if (!s->r->trace) return take_step(s);
    HIL_TRY(hil_timeline_open(&timeline, s->r->trace, began));
    set_timeline(s, timeline);
    hil_status status = take_step(s);
    set_timeline(s, NULL);
    if (status == HIL_OK) {
        add_left_out_span(s, timeline);
        status = hil_timeline_flush(timeline);
    }
    hil_timeline_close(timeline);
    return status;
}

static hil_status run(stage *s)
{
    hil_status status;
    HIL_TRY_DONE(open_stage(s));
    HIL_TRY_DONE(take_first_step(s));
    collect_account(s);
    double began = hil_links_now(s->tiers.links);
    note(s, began);
    if (is_over(s)) goto done;
    status = take_measured_step(s, began);
    if (s->stopped) {
        status = HIL_OK;
        goto done;
    }
    HIL_TRY_DONE(status);
    collect_account(s);
    double seconds = hil_links_now(s->tiers.links) - began;
    add_left_out(s);
    note(s, seconds + left_out_seconds(s));
    HIL_TRY_DONE(take_sample(s));
    note_needs(s);
done:
    close_stage(s);
    return status;
}

/* Number of the segment's first visit in the pass that was learned. A mark follows each segment's
   backward, then the uses that give its gradients. */
static int64_t first_visit(const stage *s, int segment, bool back)
{
    int64_t kinds = KINDS * sizes_of(s->r), last = (int64_t)s->plan->segments - 1;
    return back ? last * kinds + (last - segment) * (kinds + 1) : segment * kinds;
}

/* The visit of the same kind in the pass that was learned. */
static int64_t like(const stage *s, const hil_visit *v, int64_t count, bool smaller)
{
    hil_keep keep = hil_visit_keep(&s->plan->segment[v->segment], v->slot, count);
    return first_visit(s, v->segment, v->back) + (HIL_KEEP_TAPE - keep) * sizes_of(s->r) + smaller;
}

/* Lists the visits of a group of `count` micro-batches; returns their end. */
static int32_t *list_group(const stage *s, int64_t count, bool last, int32_t *out)
{
    size_t segments = s->plan->segments;
    int64_t visits = (2 * (int64_t)segments - 1) * count, sizes = sizes_of(s->r);
    for (int64_t i = 0; i < visits; ++i) {
        hil_visit v = hil_visit_at(segments, count, i);
        bool ends = v.slot + 1 == count;
        *out++ = (int32_t)like(s, &v, count, ends && last && sizes > 1);
        if (!v.back || !ends) continue;
        int64_t giving = first_visit(s, v.segment, true) + KINDS * sizes;
        *out++ = last ? (int32_t)giving : HIL_ORDER_EMPTY;
    }
    return out;
}

/* Composes the order of the micro-batches that are rehearsed. */
static hil_status compose_order(stage *s)
{
    int64_t group = group_of(s->r, s->plan), period = period_of(s->r, s->plan);
    int64_t micros = micros_of(s->r) - s->skipped;
    size_t segments = s->plan->segments;
    int32_t *visits;
    /* two for each micro-batch; a mark for each group; renewals */
    size_t most = segments * (2 * (size_t)micros + (size_t)(micros / group) + 1) + (size_t)micros;
    HIL_TRY(HIL_ALLOC(most, &visits));
    int32_t *end = visits;
    for (int64_t at = 0; at < micros; at += group) {
        int64_t count = micros - at < group ? micros - at : group;
        if (at && at % period == 0) *end++ = HIL_ORDER_RENEWAL;
        end = list_group(s, count, at + count == micros, end);
    }
    hil_status status =
        hil_store_pass_compose(s->r->model->store, visits, (size_t)(end - visits), &s->last);
    hil_free(visits);
    return status;
}

static hil_status learn_order(stage *of)
{
    stage s = *of;
    hil_plan plan = *of->plan;
    hil_status status = HIL_OK;
    plan.unit = NULL;
    plan.segment = NULL;
    plan.window = ENDLESS / 8;
    plan.device_slots = 0;
    s.plan = &plan;
    HIL_TRY_DONE(HIL_ALLOC(plan.units, &plan.unit));
    HIL_TRY_DONE(HIL_ALLOC(plan.segments, &plan.segment));
    for (size_t i = 0; i < plan.segments; ++i) plan.segment[i] = of->plan->segment[i];
    bool composed = s.r->training && !plan.by_tile;
    if (composed) {
        plan.group = 0;
        s.kinds = true;
        for (size_t i = 0; i < plan.segments; ++i)
            plan.segment[i] = (hil_segment_place){
                .keep = sizes_of(s.r), .lean = sizes_of(s.r), .thin = of->plan->segment[i].thin};
    }
    HIL_TRY_DONE(open_stage(&s));
    HIL_TRY_DONE(pass(&s));
    if (composed) HIL_TRY_DONE(compose_order(of));
done:
    close_stage(&s);
    hil_free(plan.unit);
    hil_free(plan.segment);
    return status;
}

static hil_status rehearse(const hil_rehearsal *r, hil_plan *plan, stage *s)
{
    int64_t period = period_of(r, plan);
    *s = (stage){.r = r, .plan = plan};
    if (r->training) s->periods = (micros_of(r) + period - 1) / period;
    s->head = (FEW_PERIODS - 1) * period;
    if (s->periods > FEW_PERIODS) s->skipped = (s->periods - FEW_PERIODS) * period;
    hil_store_forget(r->model->store); /* the result must not depend on earlier plans */
    HIL_TRY(learn_order(s));
    return run(s);
}

hil_status hil_rehearse_trial(const hil_rehearsal *r, hil_plan *plan)
{
    stage s;
    return rehearse(r, plan, &s);
}

hil_status hil_rehearse(const hil_rehearsal *r, hil_plan *plan)
{
    stage s;
    HIL_TRY(rehearse(r, plan, &s));
    if (!s.renewals || !s.skipped || s.stopped) return HIL_OK;
    return hil_store_pass_repeat(r->model->store, s.middle, s.periods - FEW_PERIODS);
}

/* Estimates the memory of tensors that did not fit: what is kept for backward grows with each visit
   of forward. */
static size_t guess_work(const stage *s, int64_t group)
{
    double forward = (double)group * (double)s->r->model->count;
    double grown = forward / (double)hil_engine_visits(s->engine);
    return (size_t)((double)s->plan->device_budget * (grown > 1 ? grown : 1)) + 1;
}

hil_status hil_rehearse_tensors(const hil_rehearsal *r, hil_plan *plan, bool limited)
{
    int64_t group = group_of(r, plan), groups = (micros_of(r) + group - 1) / group;
    stage s = {.r = r, .plan = plan, .head = group, .limited = limited};
    bool alike = r->sequences % (group * r->micro_batch) == 0;
    if (groups > 1) s.skipped = (groups - (alike ? 1 : 2)) * group;
    hil_status status = HIL_OK;
    hil_store_forget(r->model->store);
    HIL_TRY_DONE(open_stage(&s));
    status = pass(&s);
    double seconds = hil_links_now(s.tiers.links);
    collect_account(&s);
    if (status == HIL_OK) status = take_sample(&s);
    note_tensors(&s);
    plan->peak[HIL_DISK] = s.tiers.disk ? hil_disk_peak(s.tiers.disk) : 0;
    plan->peak[HIL_DISK] += kept_represented(&s, HIL_DISK);
    if (status == HIL_ERR_BUDGET && limited) {
        plan->work = guess_work(&s, group);
        status = HIL_OK;
        goto done;
    }
    HIL_TRY_DONE(status);
    int64_t done = s.micros * r->micro_batch; /* sequences, or more than there were */
    double all = r->sequences < done ? 1 : (double)r->sequences / (double)done;
    if (r->growth > 1) all *= r->growth;
    plan->compute_seconds = all * computing(&s, seconds);
done:
    close_stage(&s);
    return status;
}
