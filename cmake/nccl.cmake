# NCCL connects GPUs of several ranks: a part of the module for GPUs, which loads the library when
# it is used and only needs its header here.
list(FILTER sources EXCLUDE REGEX "/comm/device_comm_nccl\\.c$")
find_path(HIL_NCCL_INCLUDE nccl.h HINTS /usr/local/cuda/include)
find_path(HIL_CUDA_INCLUDE cuda_runtime.h HINTS /usr/local/cuda/include)
if(HIL_NCCL_INCLUDE AND HIL_CUDA_INCLUDE)
  add_library(hil_nccl OBJECT src/comm/device_comm_nccl.c)
  set_target_properties(hil_nccl PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(hil_nccl PRIVATE include src)
  target_include_directories(hil_nccl SYSTEM PRIVATE ${HIL_NCCL_INCLUDE} ${HIL_CUDA_INCLUDE})
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "NCCL: yes, loaded when every rank has a GPU of its own")
else()
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "NCCL: left out, nccl.h or cuda_runtime.h was not found")
endif()
