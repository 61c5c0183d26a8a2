# The CUDA backend: src/*/*.cu as the library hil_cuda and the module hilbert_cuda.so, where nvcc,
# cuBLASLt and cuDNN are here.
# HIL_CUDA_ARCHITECTURES names the GPUs; the newest also comes as PTX for what follows it.
# Multiply-adds are fused only where they are written so: CPU and GPU then give the same bits.
# Off unless asked for: it takes longer to build than everything else.
option(HIL_CUDA "Build the CUDA backend where its compiler and libraries are found" OFF)
set(architectures 80 86 89 90)
if(DEFINED ENV{CUDAARCHS})
  set(architectures $ENV{CUDAARCHS})
endif()
set(HIL_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to build for")

set(HIL_HAS_CUDA OFF)
set(why)
if(NOT HIL_CUDA)
  set(why "it takes minutes to build and was not asked for (make CUDA=ON)")
elseif(HIL_SANITIZE OR HIL_FUZZ)
  set(why "sanitizers do not see into it")
else()
  find_program(HIL_NVCC nvcc PATHS /usr/local/cuda/bin)
  find_path(HIL_CUDNN_INCLUDE cudnn_graph.h PATHS /usr/local/cuda/include)
  find_library(HIL_CUDNN cudnn PATHS /usr/local/cuda/lib64)
  find_library(HIL_CUBLASLT cublasLt PATHS /usr/local/cuda/lib64)
  foreach(part HIL_NVCC:nvcc HIL_CUBLASLT:cuBLASLt HIL_CUDNN:cuDNN HIL_CUDNN_INCLUDE:cudnn_graph.h)
    string(REPLACE ":" ";" part ${part})
    list(GET part 0 found)
    list(GET part 1 name)
    if(NOT ${found} AND NOT why)
      set(why "${name} was not found")
    endif()
  endforeach()
endif()

if(why)
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "CUDA: left out, ${why}")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${HIL_NVCC})
set(CMAKE_CUDA_ARCHITECTURES)
set(newest)
foreach(architecture ${HIL_CUDA_ARCHITECTURES})
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
  set(newest ${architecture}-virtual)
endforeach()
list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest})
if(CMAKE_C_COMPILER_ID STREQUAL Clang AND NOT CMAKE_CUDA_HOST_COMPILER)
  find_program(HIL_CLANGXX clang++)
  if(HIL_CLANGXX)
    set(CMAKE_CUDA_HOST_COMPILER ${HIL_CLANGXX})
  endif()
endif()
enable_language(CUDA)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
find_package(CUDAToolkit REQUIRED)
set(HIL_HAS_CUDA ON)

file(GLOB cuda_sources CONFIGURE_DEPENDS src/*/*.cu)
add_library(hil_cuda STATIC ${cuda_sources})
set_target_properties(hil_cuda PROPERTIES OUTPUT_NAME hilbert_cuda POSITION_INDEPENDENT_CODE ON
  CUDA_VISIBILITY_PRESET hidden)
target_include_directories(hil_cuda SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS} ${HIL_CUDNN_INCLUDE})
# nvcc hands headers over as part of the file, so that their unused functions look like its own.
set(host -Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers,-Wno-unused-function,-ffp-contract=off)
# Without exceptions and guards nothing needs a C++ library. GPU code shrinks to a fifth.
string(APPEND host ,-fno-exceptions,-fno-threadsafe-statics)
target_compile_options(hil_cuda PRIVATE -std=c++20 -fmad=false -compress-mode=size --threads 2
  -Xcompiler=${host})
if(HIL_WERROR)
  target_compile_options(hil_cuda PRIVATE -Werror all-warnings -Xcompiler=-Werror)
endif()
target_link_libraries(hil_cuda PUBLIC hil CUDA::cudart_static ${HIL_CUBLASLT} ${HIL_CUDNN})

# The module that the program loads where a GPU computes, with its own copies of what it needs.
add_library(hilbert_cuda MODULE src/train/cuda_module.c $<TARGET_OBJECTS:hil_cuda>)
set_target_properties(hilbert_cuda PROPERTIES PREFIX "" LINKER_LANGUAGE C)
target_link_libraries(hilbert_cuda PRIVATE hil CUDA::cudart_static ${HIL_CUBLASLT} ${HIL_CUDNN})
target_link_options(hilbert_cuda PRIVATE -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,--no-undefined)
add_dependencies(hilbert hilbert_cuda)
install(TARGETS hilbert_cuda LIBRARY DESTINATION lib/hilbert)
string(REPLACE ";" " " names "${HIL_CUDA_ARCHITECTURES}")
set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY
  "CUDA: yes, ${CUDAToolkit_VERSION} for ${names} and PTX")
