/* tape.c - records values and nodes, and acquires parameters for the operations that use them. */
#include "autograd/tape.h"

#include "autograd/cost.h"
#include "base/alloc.h"
#include "kernels/kernels.h"
#include "store/pass.h"

#include <string.h>

static hil_status new_value(hil_tape *tape, const hil_tensor *tensor, hil_value **out)
{
    hil_value *v;
    HIL_TRY(HIL_ARENA_NEW(&tape->arena, 1, &v));
    v->tensor = *tensor;
    v->root = v;
    v->boundary = -1;
    v->next = tape->values;
    tape->values = v;
    *out = v;
    return HIL_OK;
}

hil_status hil_tape_begin(hil_tape *tape, hil_context *context, const hil_micro *micro, int segment,
                          bool differentiate)
{
    tape->context = context;
    tape->micro = micro;
    tape->segment = segment;
    tape->differentiate = differentiate;
    tape->again = tape->lean = tape->thin = false;
    tape->sites = 0;
    tape->routings = 0;
    tape->wants = false;
    tape->loss = NULL;
    tape->shared.count = 0;
    const int32_t *const host[4] = {micro->token, micro->target, micro->position, micro->first};
    for (int i = 0; i < 4; ++i) {
        const int32_t *data = host[i];
        if (micro->on_device) data = micro->on_device + i * micro->sequences * micro->length;
        hil_tensor tensor = {
            HIL_I32, {2, {micro->sequences, micro->length}}, (void *)(uintptr_t)data};
        HIL_TRY(hil_tape_borrow(tape, &tensor, false, &tape->batch[i]));
        tape->batch[i]->ids = host[i];
        tape->batch[i]->branches = context->branches;
    }
    return HIL_OK;
}

hil_status hil_tape_borrow(hil_tape *tape, const hil_tensor *tensor, bool wants, hil_value **out)
{
    HIL_TRY(new_value(tape, tensor, out));
    (*out)->wants = wants;
    return HIL_OK;
}

/* [Note: parameters on the tape] An operation asks for a tile when it needs it; the tape passes the
   request to the store. This is the only connection between computation and placement. A quantized
   tile is expanded into a buffer of its own, which the operation gets instead. Where the plan has
   memory for it, the buffer stays until the engine is destroyed, and is filled again only if the
   weight was written. */
static hil_expanded_tile *find_expanded(const hil_context *c, const hil_param *p, int64_t number)
{
    for (size_t i = 0; i < c->expanded_count; ++i)
        if (c->expanded[i].param == p && c->expanded[i].number == number) return &c->expanded[i];
    return NULL;
}

/* Takes memory for an expanded tile: to stay, or until weight_end. */
static hil_status take_expanded(hil_request *r, int param, hil_param *p, int64_t number,
                                size_t bytes, void **out)
{
    hil_context *c = r->tape->context;
    assert(!r->expanded[param]);
    if (!hil_buffers_fits(c->kept, bytes)) {
        HIL_TRY(hil_buffers_take(c->buffers, bytes, out));
        r->expanded[param] = *out;
        return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&c->expanded, &c->expanded_room, c->expanded_count + 1));
    HIL_TRY(hil_buffers_take(c->kept, bytes, out));
    c->expanded[c->expanded_count++] = (hil_expanded_tile){p, number, hil_param_writes(p), *out};
    return HIL_OK;
}

/* Advances the clock of a rehearsal. */
static void spend(const hil_tape *tape, double seconds)
{
    const hil_context *c = tape->context;
    hil_links_compute(c->links, c->share ? c->share[tape->segment] * seconds : seconds);
}

static hil_status expand(hil_request *r, int param, hil_param *p, int64_t number, const void **data)
{
    const hil_context *c = r->tape->context;
    const void *bytes = *data;
    hil_expanded_tile *kept = find_expanded(c, p, number);
    hil_quant_tile tile;
    hil_param_quant_tile(p, number, &tile);
    hil_tensor out = {hil_param_dtype(p), {2, {tile.rows, tile.cols}}, kept ? kept->data : NULL};
    if (!kept) HIL_TRY(take_expanded(r, param, p, number, hil_tensor_bytes(&out), &out.data));
    *data = out.data;
    if (kept && kept->writes == hil_param_writes(p)) return HIL_OK;
    if (kept) kept->writes = hil_param_writes(p);
    if (hil_pool_is_dry(c->pool)) {
        if (c->speeds) spend(r->tape, hil_cost_expand(&tile, hil_tensor_bytes(&out), c->speeds));
        return HIL_OK;
    }
    if (c->device)
        return hil_device_math_of(c->device)->expand(c->device, HIL_STREAM_COMPUTE, &tile, bytes,
                                                     &out);
    hil_kernels_expand(c->pool, &tile, bytes, &out);
    return HIL_OK;
}

/* Turns the number of a tile among those of a series into a parameter and its tile. */
static hil_param *find_param(const hil_request *r, int param, int64_t *tile)
{
    hil_param *first = r->node->param[param];
    if (!r->node->series) return first;
    int64_t rows = hil_shape_rows(&hil_param_spec_of(first)->shape);
    int64_t height = hil_param_tile_rows(first), each = (rows + height - 1) / height;
    int64_t number = *tile / each;
    *tile %= each;
    return hil_store_at(r->tape->context->store, hil_param_index(first) + (size_t)number);
}

/* Whether the series of parameters are experts. */
static bool is_grouped(const hil_node *node)
{
    return node->op == &hil_op_grouped_linear;
}

/* Whether the parameter is an expert without rows: on a GPU, and in a rehearsal, that is not known.
 */
static bool is_idle(const hil_request *r, const hil_param *param)
{
    const hil_context *c = r->tape->context;
    const hil_node *node = r->node;
    if (!is_grouped(node) || c->device || hil_pool_is_dry(c->pool)) return false;
    const int32_t *begin = node->in[1]->tensor.data;
    size_t expert = hil_param_index(param) - hil_param_index(node->param[0]);
    return begin[expert] == begin[expert + 1];
}

static void weight_end(void *owner, int param, int64_t tile)
{
    hil_request *r = owner;
    hil_param *p = find_param(r, param, &tile);
    hil_buffers_give(r->tape->context->buffers, r->expanded[param]);
    r->expanded[param] = NULL;
    hil_store_release(r->tape->context->store, p, tile);
}

static hil_status weight_begin(void *owner, int param, int64_t number, const void **data)
{
    hil_request *r = owner;
    int64_t tile = number;
    hil_param *p = find_param(r, param, &tile);
    bool idle = is_idle(r, p);
    if (!idle) hil_store_need(r->tape->context->store, p, tile);
    HIL_TRY(hil_store_acquire(r->tape->context->store, p, tile, data));
    assert(*data || idle || hil_pool_is_dry(r->tape->context->pool));
    if (!hil_param_quant(p) || !*data) return HIL_OK;
    hil_status status = expand(r, param, p, tile, data);
    if (status != HIL_OK) weight_end(owner, param, number);
    return status;
}

static hil_status gradient_begin(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    hil_request *r = owner;
    hil_param *p = find_param(r, param, &tile);
    HIL_TRY(r->given);
    r->idle = false;
    if (is_idle(r, p))
        HIL_TRY(hil_store_sum_idle(r->tape->context->store, p, r->tape->segment, tile, &r->idle));
    *sum = NULL;
    *add = true;
    if (r->idle) return HIL_OK;
    return hil_store_sum_acquire(r->tape->context->store, p, r->tape->segment, tile, sum, add);
}

static void gradient_end(void *owner, int param, int64_t tile)
{
    hil_request *r = owner;
    hil_store *store = r->tape->context->store;
    hil_param *p = find_param(r, param, &tile);
    if (r->idle) return;
    hil_store_sum_release(store, p, r->tape->segment, tile);
    if (r->completes[param] && r->given == HIL_OK)
        r->given = hil_store_sum_complete(store, p, r->tape->segment, tile);
}

static const hil_op_source source = {weight_begin, weight_end, gradient_begin, gradient_end};

/* Whether the operation sees the series as one matrix. */
static bool is_joined(const hil_node *node)
{
    return node->series && !is_grouped(node);
}

void hil_tape_prepare(hil_request *request, hil_op_call *call)
{
    const hil_tape *tape = request->tape;
    const hil_node *node = request->node;
    const hil_context *c = tape->context;
    *call = (hil_op_call){
        .op = node->op,
        .attr = node->attr,
        .pool = c->pool,
        .compute = c->compute,
        .differentiate = node->wants,
        .loss_scale = c->loss_scale,
        .device = c->device,
        .share = tape->micro->share,
        .random = {c->seed, c->step, tape->micro->sequence, node->site},
        .ins = node->ins,
        .outs = node->outs,
        .saveds = node->saveds,
        .params = node->params,
        .source = &source,
        .owner = request,
    };
    /* A quantized tile is expanded into the only buffer for it. */
    if (node->params && !hil_param_quant(node->param[0])) call->hold = hil_store_hold(c->store);
    for (int i = 0; i < node->ins; ++i) call->in[i] = node->in[i]->tensor;
    for (int i = 0; i < node->params; ++i) {
        const hil_param *p = node->param[i];
        const hil_shape *shape = &hil_param_spec_of(p)->shape;
        call->param[i] = (hil_op_param){
            .dtype = hil_param_dtype(p),
            .rows = hil_shape_rows(shape) * (is_joined(node) ? node->series : 1),
            .cols = hil_shape_cols(shape),
            .tile_rows = hil_param_tile_rows(p),
            .trainable = hil_param_trainable(p),
            .fp8 = hil_param_fp8(p),
        };
    }
}

/* Allocates memory for a tensor, except in a trace. */
static hil_status give_memory(hil_tape *tape, hil_tensor *tensor)
{
    tensor->data = NULL;
    if (tape->context->mode == HIL_MODE_TRACE) return HIL_OK;
    return hil_buffers_take(tape->context->buffers, hil_tensor_bytes(tensor), &tensor->data);
}

void hil_node_drop_saved(hil_tape *tape, hil_node *node)
{
    for (int i = 0; i < node->saveds; ++i) {
        hil_buffers_give(tape->context->buffers, node->saved[i].data);
        node->saved[i].data = NULL;
    }
}

void hil_tape_spend(const hil_tape *tape, const hil_op_call *call, bool backward)
{
    const hil_context *c = tape->context;
    if (!c->speeds || !hil_pool_is_dry(c->pool)) return;
    hil_work work;
    hil_op_work(call, backward, (int)c->speeds->threads, &work);
    spend(tape, hil_cost_seconds(&work, c->speeds, c->compute));
}

static hil_status run_forward(const hil_tape *tape, hil_op_call *call)
{
    hil_buffers *buffers = tape->context->buffers;
    if (call->forward_scratch)
        HIL_TRY(hil_buffers_take(buffers, call->forward_scratch, &call->scratch));
    double began = hil_spans_operation_begin(tape->context->spans);
    hil_status status = hil_op_forward(call);
    hil_tape_spend(tape, call, false);
    hil_spans_operation_end(tape->context->spans, call->op->name, false, began);
    hil_buffers_give(buffers, call->scratch);
    return status;
}

static bool trains_param(const hil_node *node)
{
    for (int i = 0; i < node->params; ++i)
        if (hil_param_trainable(node->param[i])) return true;
    return false;
}

static bool wants_gradient(const hil_node *node)
{
    if (trains_param(node)) return true;
    for (int i = 0; i < node->ins; ++i)
        if (node->in[i]->root->wants) return true;
    return false;
}

/* Marks what backward will read, so that hil_tape_trim does not free it. */
static void keep_value(hil_value *value)
{
    value->kept = true;
    ++value->readers;
}

static void keep_for_backward(hil_node *node)
{
    for (int i = 0; i < node->ins; ++i)
        if (node->keep_in >> i & 1) keep_value(node->in[i]->root);
    for (int i = 0; i < node->outs; ++i)
        if (node->op->keep_out >> i & 1) keep_value(node->out[i]->root);
}

/* hil_node.series of an operation. */
static int64_t count_series(const hil_apply *apply)
{
    if (apply->op == &hil_op_grouped_linear)
        return ((const hil_grouped_attr *)apply->attr)->experts;
    if (apply->op != &hil_op_head_norm || apply->in[0]->tensor.shape.ndim < 2) return 0;
    const hil_shape *shape = &apply->in[0]->tensor.shape;
    bool all = hil_param_elements(apply->param[0]) != hil_shape_cols(shape);
    return all ? 0 : shape->dim[shape->ndim - 2];
}

static hil_status new_node(hil_tape *tape, const hil_apply *apply, hil_node **out)
{
    hil_node *node;
    HIL_TRY(HIL_ARENA_NEW(&tape->arena, 1, &node));
    node->op = apply->op;
    node->site = ((uint64_t)tape->segment << 24) + tape->sites++;
    node->ins = apply->ins;
    node->outs = apply->outs;
    node->params = apply->params;
    node->series = count_series(apply);
    memcpy(node->in, apply->in, sizeof node->in);
    memcpy(node->param, apply->param, sizeof node->param);
    node->keep_in = apply->op->keep_in;
    if (!trains_param(node)) node->keep_in &= ~apply->op->keep_trained;
    bool wants = wants_gradient(node);
    if (wants) tape->wants = true;
    node->wants = wants && tape->differentiate;
    if (apply->attr) {
        void *attr;
        HIL_TRY(hil_arena_alloc(&tape->arena, apply->op->attr_size, &attr));
        memcpy(attr, apply->attr, apply->op->attr_size);
        node->attr = attr;
    }
    *out = node;
    return HIL_OK;
}

static hil_status run_deferred(hil_tape *tape, hil_node *node);

hil_status hil_value_make(hil_tape *tape, const hil_value *value)
{
    hil_node *maker = value->root->maker;
    return maker ? run_deferred(tape, maker) : HIL_OK;
}

/* Number `i` of the parameters that the operation sees as one. */
static hil_param *member_of(const hil_store *store, const hil_node *node, int64_t i)
{
    return hil_store_at(store, hil_param_index(node->param[0]) + (size_t)i);
}

/* Checks on every path: the trace has seen one only. */
static hil_status check_series(const hil_store *store, const hil_node *node)
{
    const hil_param *first = node->param[0];
    const hil_param_spec *spec = hil_param_spec_of(first);
    int64_t left = (int64_t)(hil_store_count(store) - hil_param_index(first));
    for (int64_t i = 0; i < node->series; ++i) {
        const hil_param *p = i < left ? member_of(store, node, i) : NULL;
        if (!p || !hil_shape_equal(&hil_param_spec_of(p)->shape, &spec->shape))
            return hil_fail(HIL_ERR_USAGE, "%s: expected %lld parameters of its shape from it on",
                            spec->name, (long long)node->series);
        if (hil_param_trainable(p) != hil_param_trainable(first))
            return hil_fail(HIL_ERR_USAGE, "%s: train all %s of a layer or none",
                            hil_param_spec_of(p)->name,
                            is_grouped(node) ? "experts" : "norms of heads");
    }
    return HIL_OK;
}

static hil_status declare_uses(const hil_tape *tape, const hil_node *node)
{
    hil_store *store = tape->context->store;
    for (int i = 0; i < node->params; ++i)
        HIL_TRY(hil_store_declare_use(store, node->param[i], tape->segment));
    hil_expert expert = {.segment = tape->segment, .experts = node->series};
    if (is_grouped(node)) {
        expert.routing = node->in[1]->root->routing;
        expert.chosen =
            node->in[0]->tensor.shape.dim[0] / (tape->micro->sequences * tape->micro->length);
    }
    for (; expert.number < node->series; ++expert.number) {
        hil_param *p = member_of(store, node, expert.number);
        HIL_TRY(is_grouped(node) ? hil_store_declare_expert(store, p, &expert)
                                 : hil_store_declare_use(store, p, tape->segment));
    }
    return HIL_OK;
}

/* Tells the store which experts have rows, after hil_op_route has run. */
static hil_status tell_routing(const hil_tape *tape, const hil_node *node)
{
    const hil_context *c = tape->context;
    bool known = !c->device && !hil_pool_is_dry(c->pool);
    const hil_value *begin = node->out[2];
    return hil_store_route(c->store, begin->routing, known ? begin->tensor.data : NULL);
}

/* Allocates the operation's results and saved tensors, and runs it. */
static hil_status run_node(hil_tape *tape, hil_node *node, hil_op_call *call)
{
    for (int i = 0; i < node->ins; ++i) {
        HIL_TRY(hil_value_make(tape, node->in[i]));
        call->in[i].data = node->in[i]->tensor.data;
    }
    for (int i = 0; i < node->outs; ++i) {
        hil_value *v = node->out[i];
        HIL_TRY(give_memory(tape, &call->out[i]));
        v->owned = call->out[i].data != NULL;
        v->tensor.data = call->out[i].data;
        if (v->maker) hil_tape_show(tape, v, v->tensor.data);
        v->maker = NULL;
    }
    for (int i = 0; i < call->saveds; ++i) {
        if (node->saved[i].data) { /* it has run before */
            call->saved[i] = node->saved[i];
            continue;
        }
        HIL_TRY(give_memory(tape, &call->saved[i]));
        node->saved[i] = call->saved[i];
        node->saveds = i + 1;
    }
    if (tape->context->mode == HIL_MODE_TRACE) {
        return declare_uses(tape, node);
    }
    HIL_TRY(run_forward(tape, call));
    if (node->op == &hil_op_route) HIL_TRY(tell_routing(tape, node));
    if (!node->wants) hil_node_drop_saved(tape, node);
    for (int i = 0; i < node->ins; ++i)
        if (node->in[i]->brief && !node->in[i]->kept) hil_value_drop(tape, node->in[i]);
    return HIL_OK;
}

static hil_status run_deferred(hil_tape *tape, hil_node *node)
{
    hil_request request = {.tape = tape, .node = node};
    hil_op_call call;
    hil_tape_prepare(&request, &call);
    HIL_TRY(hil_op_infer(&call));
    return run_node(tape, node, &call);
}

/* Whether the operation can be deferred until its results are read; see [Note: again]. */
static bool can_defer(const hil_tape *tape, const hil_op_call *call)
{
    return tape->again && !call->saveds && !call->op->keep_out;
}

hil_status hil_tape_apply(hil_tape *tape, const hil_apply *apply, hil_value **out)
{
    hil_node *node;
    HIL_TRY(new_node(tape, apply, &node));
    hil_request request = {.tape = tape, .node = node};
    hil_op_call call;
    hil_tape_prepare(&request, &call);
    HIL_TRY(hil_op_infer(&call));
    if (node->series) HIL_TRY(check_series(tape->context->store, node));
    bool defers = can_defer(tape, &call);
    for (int i = 0; i < node->outs; ++i) {
        call.out[i].data = NULL;
        HIL_TRY(new_value(tape, &call.out[i], &node->out[i]));
        node->out[i]->wants = call.out[i].dtype != HIL_I32 && wants_gradient(node);
        node->out[i]->maker = defers ? node : NULL;
        out[i] = node->out[i];
    }
    if (node->op == &hil_op_route) node->out[2]->routing = ++tape->routings;
    node->previous = tape->last;
    tape->last = node;
    if (node->wants) keep_for_backward(node);
    node->backward_scratch = call.backward_scratch;
    if (!defers) return run_node(tape, node, &call);
    for (int i = 0; i < node->ins && node->wants; ++i)
        if (node->keep_in >> i & 1) HIL_TRY(hil_value_make(tape, node->in[i]));
    return HIL_OK;
}

hil_status hil_tape_reshape(hil_tape *tape, hil_value *x, const hil_shape *shape, hil_value **out)
{
    hil_tensor tensor = {x->tensor.dtype, *shape, x->tensor.data};
    HIL_TRY(new_value(tape, &tensor, out));
    (*out)->root = x->root;
    (*out)->ids = x->ids;
    (*out)->branches = x->branches;
    return HIL_OK;
}

void hil_value_drop(hil_tape *tape, hil_value *value)
{
    if (!value->owned) return;
    hil_buffers_give(tape->context->buffers, value->tensor.data);
    value->tensor.data = NULL;
    value->owned = false;
}

/* See [Note: lean]. */
static void trim_results(hil_tape *tape, hil_node *node)
{
    const hil_op *op = node->op;
    if (!node->wants) return;
    for (int i = 0; i < node->outs; ++i) {
        hil_value *v = node->out[i];
        if (!v->owned || !v->kept || v->leaves) continue;
        if (!op->cheap && !(tape->thin && op->light) && !(op->pure && v->bulky)) continue;
        hil_value_drop(tape, v);
        v->maker = node;
    }
}

void hil_tape_trim(hil_tape *tape, const hil_values *out)
{
    for (int i = 0; out && i < out->count; ++i) out->value[i]->root->leaves = true;
    for (hil_value *v = tape->values; v; v = v->next)
        if (!v->kept && !v->leaves) hil_value_drop(tape, v);
    for (hil_node *node = tape->last; node && tape->lean; node = node->previous)
        trim_results(tape, node);
}

void *hil_tape_take_memory(hil_value *value)
{
    hil_value *root = value->root;
    if (!root->owned) return NULL;
    root->owned = false;
    return root->tensor.data;
}

void hil_tape_return_memory(hil_value *value, void *memory)
{
    hil_value *root = value->root;
    assert(!root->owned && root->tensor.data == memory);
    root->owned = memory != NULL;
}

void hil_tape_show(hil_tape *tape, hil_value *root, void *memory)
{
    for (hil_value *v = tape->values; v; v = v->next)
        if (v->root == root) v->tensor.data = memory;
}

void hil_tape_reset(hil_tape *tape)
{
    hil_tape_forget(tape);
    for (hil_value *v = tape->values; v; v = v->next) {
        hil_buffers *buffers = tape->context->buffers;
        if (v->owned) hil_buffers_give(buffers, v->tensor.data);
        if (v->gradient && --v->gradient->holders == 0)
            hil_buffers_give(buffers, v->gradient->data);
    }
    for (hil_node *node = tape->last; node; node = node->previous) hil_node_drop_saved(tape, node);
    tape->values = NULL;
    tape->last = NULL;
    hil_arena_reset(&tape->arena);
}

void hil_tape_free(hil_tape *tape)
{
    hil_tape_reset(tape);
    hil_arena_free(&tape->arena);
}
