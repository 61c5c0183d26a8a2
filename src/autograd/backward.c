/* backward.c - runs the backwards of a tape's operations in reverse order. */
#include "autograd/tape.h"

static void drop_gradient(hil_tape *tape, hil_value *value)
{
    hil_gradient *g = value->gradient;
    value->gradient = NULL;
    if (g && --g->holders == 0) hil_buffers_give(tape->context->buffers, g->data);
}

/* Takes over the memory of `data`, also on failure. */
static hil_status new_gradient(hil_tape *tape, hil_value *value, void *data)
{
    hil_gradient *g;
    hil_status status = HIL_ARENA_NEW(&tape->arena, 1, &g);
    if (status != HIL_OK) {
        hil_buffers_give(tape->context->buffers, data);
        return status;
    }
    g->data = data;
    g->holders = 1;
    value->gradient = g;
    return HIL_OK;
}

/* Copies a shared gradient, so that adding to it does not change that of other values. */
static hil_status own_gradient(hil_tape *tape, hil_value *value)
{
    hil_gradient *shared = value->gradient;
    if (shared->holders == 1) return HIL_OK;
    void *copy;
    size_t bytes = hil_tensor_bytes(&value->tensor);
    HIL_TRY(hil_buffers_take(tape->context->buffers, bytes, &copy));
    HIL_TRY(new_gradient(tape, value, copy));
    --shared->holders;
    hil_tensor from = value->tensor, to = value->tensor;
    from.data = shared->data;
    to.data = copy;
    return hil_op_convert(tape->context->device, tape->context->pool, &to, &from, false);
}

hil_status hil_tape_add(const hil_context *context, const hil_tensor *tensor, void *to, void *from)
{
    hil_tensor sum = *tensor, more = *tensor;
    sum.data = to;
    more.data = from;
    return hil_op_convert(context->device, context->pool, &sum, &more, true);
}

hil_status hil_tape_seed(hil_tape *tape, hil_value *value, void *data)
{
    hil_value *root = value->root;
    if (!root->gradient) return new_gradient(tape, root, data);
    hil_status status = own_gradient(tape, root);
    if (status == HIL_OK)
        status = hil_tape_add(tape->context, &root->tensor, root->gradient->data, data);
    hil_buffers_give(tape->context->buffers, data);
    return status;
}

/* Passes the gradient of `output` to `input` unchanged: shares it if `input` has none yet,
   otherwise adds it, in the input's dtype. */
static hil_status forward_gradient(hil_tape *tape, hil_value *output, hil_value *input)
{
    hil_tensor *to = &input->tensor;
    if (!input->gradient && to->dtype == output->tensor.dtype) {
        input->gradient = output->gradient;
        ++output->gradient->holders;
        return HIL_OK;
    }
    bool add = input->gradient != NULL;
    if (add) {
        HIL_TRY(own_gradient(tape, input));
    } else {
        void *data;
        HIL_TRY(hil_buffers_take(tape->context->buffers, hil_tensor_bytes(to), &data));
        HIL_TRY(new_gradient(tape, input, data));
    }
    hil_tensor arrived = output->tensor, sum = input->tensor;
    arrived.data = output->gradient->data;
    sum.data = input->gradient->data;
    return hil_op_convert(tape->context->device, tape->context->pool, &sum, &arrived, add);
}

/* Whether the gradient of input i may be written over that of output 0, which nothing reads after
   this operation; the operation reads a row of it before it writes that row. */
static bool can_reuse(const hil_node *node, int i)
{
    const hil_value *in = node->in[i]->root, *out = node->out[0]->root;
    if (!(node->op->reuse >> i & 1) || !out->gradient || out->gradient->holders > 1) return false;
    for (int k = 0; k < node->ins; ++k)
        if (k != i && node->in[k]->root == in) return false;
    return in->tensor.dtype == out->tensor.dtype &&
           hil_tensor_bytes(&in->tensor) == hil_tensor_bytes(&out->tensor);
}

static hil_status prepare_input(hil_tape *tape, const hil_node *node, int i, hil_op_call *call)
{
    hil_value *v = node->in[i]->root;
    call->din[i] = node->in[i]->tensor;
    call->din[i].data = NULL;
    if (!v->wants || (node->op->pass >> i & 1)) return HIL_OK;
    if (v->gradient) {
        HIL_TRY(own_gradient(tape, v));
        call->din_add[i] = true;
    } else if (can_reuse(node, i)) {
        v->gradient = node->out[0]->root->gradient;
        ++v->gradient->holders;
    } else {
        void *data;
        HIL_TRY(hil_buffers_take(tape->context->buffers, hil_tensor_bytes(&v->tensor), &data));
        HIL_TRY(new_gradient(tape, v, data));
    }
    call->din[i].data = v->gradient->data;
    return HIL_OK;
}

static bool uses(const hil_node *node, const hil_param *param)
{
    size_t index = hil_param_index(param), members = node->series ? (size_t)node->series : 1;
    for (int i = 0; i < node->params; ++i) {
        size_t first = hil_param_index(node->param[i]);
        if (index >= first && index < first + members) return true;
    }
    return false;
}

/* Whether an operation before this one, whose backward is still to come, uses the parameter. */
static bool is_used_before(const hil_node *node, const hil_param *param)
{
    for (const hil_node *n = node->previous; n; n = n->previous)
        if (uses(n, param)) return true;
    return false;
}

static hil_status run_backward(hil_tape *tape, hil_node *node)
{
    hil_buffers *buffers = tape->context->buffers;
    hil_request request = {.tape = tape, .node = node};
    for (int i = 0; i < node->params && tape->context->last && node->op->once; ++i)
        request.completes[i] = !is_used_before(node, node->param[i]);
    hil_op_call call;
    for (int i = 0; i < node->ins; ++i)
        if (node->keep_in >> i & 1) HIL_TRY(hil_value_make(tape, node->in[i]));
    for (int i = 0; i < node->outs; ++i)
        if (node->op->keep_out >> i & 1) HIL_TRY(hil_value_make(tape, node->out[i]));
    hil_tape_prepare(&request, &call);
    call.saveds = node->saveds;
    for (int i = 0; i < node->saveds; ++i) call.saved[i] = node->saved[i];
    for (int i = 0; i < node->outs; ++i) {
        call.out[i] = call.dout[i] = node->out[i]->tensor;
        hil_gradient *g = node->out[i]->root->gradient;
        call.dout[i].data = g ? g->data : NULL;
    }
    for (int i = 0; i < node->ins; ++i) HIL_TRY(prepare_input(tape, node, i, &call));
    if (node->backward_scratch)
        HIL_TRY(hil_buffers_take(buffers, node->backward_scratch, &call.scratch));
    double began = hil_spans_operation_begin(tape->context->spans);
    hil_status status = hil_op_backward(&call);
    if (status == HIL_OK) status = request.given;
    hil_tape_spend(tape, &call, true);
    hil_spans_operation_end(tape->context->spans, call.op->name, true, began);
    hil_buffers_give(buffers, call.scratch);
    return status;
}

/* Whether backward has something to do: some output has a gradient, or it is a loss, which makes
   its own. */
static bool is_reached(const hil_node *node)
{
    if (!node->wants) return false;
    if (node->op->loss) return true;
    for (int i = 0; i < node->outs; ++i)
        if (node->out[i]->root->gradient) return true;
    return false;
}

static void finish_node(hil_tape *tape, hil_node *node)
{
    hil_node_drop_saved(tape, node);
    for (int i = 0; i < node->outs; ++i) {
        drop_gradient(tape, node->out[i]);
        hil_value_drop(tape, node->out[i]);
    }
    for (int i = 0; i < node->ins && node->wants; ++i) {
        hil_value *v = node->in[i]->root;
        if ((node->keep_in >> i & 1) && --v->readers == 0) hil_value_drop(tape, v);
    }
}

hil_status hil_tape_backward(hil_tape *tape)
{
    for (hil_node *node = tape->last; node; node = node->previous) {
        if (is_reached(node)) {
            if (node->op->backward) HIL_TRY(run_backward(tape, node));
            for (int i = 0; i < node->ins; ++i)
                if ((node->op->pass >> i & 1) && node->in[i]->root->wants)
                    HIL_TRY(forward_gradient(tape, node->out[0]->root, node->in[i]->root));
        }
        finish_node(tape, node);
    }
    return HIL_OK;
}

hil_status hil_tape_take_gradient(hil_tape *tape, hil_value *value, void **data)
{
    *data = NULL;
    if (!value->gradient) return HIL_OK;
    HIL_TRY(own_gradient(tape, value));
    *data = value->gradient->data;
    value->gradient = NULL;
    return HIL_OK;
}
