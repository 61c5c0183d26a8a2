/* attention_graph.cu - a small interface to cuDNN's operation graphs. */
#include "ops/attention/attention_graph.h"

static cudnnBackendDescriptor_t create(hil_graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t out = NULL;
    if (!g->bad && g->owns == HIL_GRAPH_NODES) g->bad = CUDNN_STATUS_INTERNAL_ERROR;
    if (!g->bad) g->bad = cudnnBackendCreateDescriptor(type, &out);
    if (!g->bad) g->owned[g->owns++] = out;
    return out;
}

static void set(hil_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    if (!g->bad) g->bad = cudnnBackendSetAttribute(d, name, type, count, value);
}

static void set_tensor(hil_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                       const hil_graph_tensor *x)
{
    if (x) set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x->descriptor);
}

static void finalize(hil_graph *g, cudnnBackendDescriptor_t d)
{
    if (!g->bad) g->bad = cudnnBackendFinalize(d);
}

static void finish_operation(hil_graph *g, cudnnBackendDescriptor_t d)
{
    finalize(g, d);
    if (!g->bad) g->operation[g->operations++] = d;
}

hil_graph_tensor hil_graph_add(hil_graph *g, hil_graph_kind kind, cudnnDataType_t type,
                               const hil_graph_shape *shape)
{
    hil_graph_tensor out = {create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR), ++g->tensors, *shape};
    int64_t align = type == CUDNN_DATA_INT32 ? 4 : 16;
    bool inside = kind == HIL_GRAPH_INSIDE, scalar = kind == HIL_GRAPH_SCALAR;
    cudnnBackendDescriptor_t d = out.descriptor;
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &out.number);
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &scalar);
    finalize(g, d);
    return out;
}

static cudnnBackendDescriptor_t pointwise(hil_graph *g, cudnnPointwiseMode_t mode,
                                          cudnnDataType_t type, int64_t axis)
{
    cudnnBackendDescriptor_t d = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0) set(g, d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finalize(g, d);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        1, &d);
    return operation;
}

hil_graph_tensor hil_graph_pointwise(hil_graph *g, cudnnPointwiseMode_t mode,
                                     const hil_graph_tensor *x, const hil_graph_tensor *y,
                                     const hil_graph_tensor *out)
{
    bool compares = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE;
    cudnnDataType_t type = compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    hil_graph_tensor result = out ? *out : hil_graph_add(g, HIL_GRAPH_INSIDE, type, &x->shape);
    cudnnBackendDescriptor_t d = pointwise(g, mode, type, -1);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, y);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &result);
    finish_operation(g, d);
    return result;
}

hil_graph_tensor hil_graph_index(hil_graph *g, const hil_graph_tensor *x, int64_t axis,
                                 cudnnDataType_t type)
{
    hil_graph_tensor result = hil_graph_add(g, HIL_GRAPH_INSIDE, type, &x->shape);
    cudnnBackendDescriptor_t d = pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &result);
    finish_operation(g, d);
    return result;
}

hil_graph_tensor hil_graph_select(hil_graph *g, const hil_graph_tensor *x,
                                  const hil_graph_tensor *other, const hil_graph_tensor *mask)
{
    hil_graph_tensor result = hil_graph_add(g, HIL_GRAPH_INSIDE, CUDNN_DATA_FLOAT, &x->shape);
    cudnnBackendDescriptor_t d = pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &result);
    finish_operation(g, d);
    return result;
}

void hil_graph_reduce(hil_graph *g, cudnnReduceTensorOp_t mode, const hil_graph_tensor *x,
                      const hil_graph_tensor *out)
{
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    set(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    finalize(g, d);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
    set_tensor(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_tensor(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
    finish_operation(g, operation);
}

void hil_graph_multiply(hil_graph *g, const hil_graph_tensor *a, const hil_graph_tensor *b,
                        const hil_graph_tensor *out)
{
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d = create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    finalize(g, d);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d);
    set_tensor(g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_tensor(g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_tensor(g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    finish_operation(g, operation);
}

void hil_graph_reshape(hil_graph *g, const hil_graph_tensor *x, const hil_graph_tensor *out)
{
    cudnnBackendDescriptor_t d = create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_tensor(g, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out);
    finish_operation(g, d);
}

/* The plan of one engine's configuration; NULL if it cannot be built. */
static cudnnBackendDescriptor_t try_plan(cudnnHandle_t handle, cudnnBackendDescriptor_t config,
                                         int64_t most)
{
    cudnnBackendDescriptor_t plan = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan)) return NULL;
    int64_t count = 0, workspace = 0;
    if (!cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                  &handle) &&
        !cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) &&
        !cudnnBackendFinalize(plan) &&
        !cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  1, &count, &workspace) &&
        workspace <= most)
        return plan;
    cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

/* Keeps the configurations whose workspace is no larger than the first one's. */
static void keep_configs(hil_graph *g, const cudnnBackendDescriptor_t *config, int64_t count)
{
    for (int64_t i = 0; i < count && i < HIL_GRAPH_CONFIGS; ++i) {
        int64_t got = 0, bytes = 0;
        if (cudnnBackendGetAttribute(config[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &got, &bytes) ||
            (g->configs && bytes > g->workspace))
            continue;
        if (!g->configs) g->workspace = bytes;
        g->config[g->configs++] = config[i];
    }
}

void hil_graph_finish(hil_graph *g, cudnnHandle_t handle)
{
    cudnnBackendDescriptor_t graph = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operations,
        g->operation);
    finalize(g, graph);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t heuristic = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &graph);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(g, heuristic);
    cudnnBackendDescriptor_t config[HIL_GRAPH_CONFIGS] = {};
    for (int i = 0; i < HIL_GRAPH_CONFIGS; ++i)
        config[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    if (!g->bad)
        g->bad = cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, HIL_GRAPH_CONFIGS, &count,
                                          config);
    if (!g->bad) keep_configs(g, config, count);
}

bool hil_graph_build(hil_graph *g, cudnnHandle_t handle)
{
    for (int i = 0; i < g->configs && !g->plan; ++i)
        g->plan = try_plan(handle, g->config[i], g->workspace);
    if (!g->plan) g->configs = 0;
    return g->plan != NULL;
}

void hil_graph_free(hil_graph *g)
{
    if (g->plan) cudnnBackendDestroyDescriptor(g->plan);
    while (g->owns) cudnnBackendDestroyDescriptor(g->owned[--g->owns]);
    *g = {};
}

cudnnStatus_t hil_graph_run(const hil_graph *g, cudnnHandle_t handle, const int64_t *number,
                            void *const *data, int count, void *workspace)
{
    cudnnBackendDescriptor_t pack;
    cudnnStatus_t bad = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (bad) return bad;
    bad = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                   count, number);
    if (!bad)
        bad = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                       CUDNN_TYPE_VOID_PTR, count, data);
    if (!bad)
        bad = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                       1, &workspace);
    if (!bad) bad = cudnnBackendFinalize(pack);
    if (!bad) bad = cudnnBackendExecute(handle, g->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    return bad;
}
