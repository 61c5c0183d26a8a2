/* cudnn.cpp - cuDNN for the emulated GPU: it supports no graph, so that kernels of our own compute
   attention. */
#include <cuda_runtime.h>
#include <cudnn.h>

extern "C" {

size_t cudnnGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t)
{
    return "not supported by the emulated GPU";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    *out = (cudnnHandle_t) new char;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete (char *)handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t)
{
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void *)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, int64_t *, void *)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t)
{
    return CUDNN_STATUS_NOT_SUPPORTED;
}
}
