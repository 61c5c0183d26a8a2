# What moves data between GPUs is a library of its own, built where CUDA and NCCL are: the program
# needs neither.
list(FILTER sources EXCLUDE REGEX "/comm/comm_nccl\\.c$")
find_path(HIL_NCCL_INCLUDE nccl.h HINTS /usr/local/cuda/include)
find_path(HIL_CUDA_INCLUDE cuda_runtime.h HINTS /usr/local/cuda/include)
if(HIL_NCCL_INCLUDE AND HIL_CUDA_INCLUDE)
  add_library(hil_nccl STATIC src/comm/comm_nccl.c)
  target_include_directories(hil_nccl PRIVATE include src)
  target_include_directories(hil_nccl SYSTEM PRIVATE ${HIL_NCCL_INCLUDE} ${HIL_CUDA_INCLUDE})
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "NCCL: yes, as libhil_nccl.a, which no program uses yet")
else()
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "NCCL: left out, nccl.h or cuda_runtime.h was not found")
endif()
