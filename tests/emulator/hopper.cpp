/* hopper.cpp - in place of *_hopper.cu, whose instructions are not emulated. */
#include "ops/attention/attention_hopper.h"
#include "ops/mixture/grouped_cuda.h"

bool hil_attention_hopper_can(const hil_device *, const hil_cuda_attention *)
{
    return false;
}

size_t hil_attention_hopper_scratch(const hil_cuda_attention *)
{
    return 0;
}

hil_status hil_attention_hopper_backward(hil_device *, const hil_cuda_attention *, void *)
{
    return hil_fail(HIL_ERR_USAGE, "not emulated");
}

bool hil_grouped_hopper_can(const hil_device *, hil_dtype, int64_t, int64_t)
{
    return false;
}

hil_status hil_grouped_hopper_run(hil_device *, const hil_cuda_grouped *)
{
    return hil_fail(HIL_ERR_USAGE, "not emulated");
}
