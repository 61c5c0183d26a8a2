# An emulated GPU for tests: src/**/*.cu, translated to C++, with a CUDA runtime that runs kernels on
# the CPU, where CUDA's headers are here. The program with it is emulated/hilbert.
set(HIL_HAS_EMULATOR OFF)
find_path(HIL_CUDA_HEADERS cuda_fp8.h HINTS /usr/local/cuda/include)
find_path(HIL_CUDNN_HEADERS cudnn_graph.h HINTS /usr/local/cuda/include)
find_program(HIL_PYTHON3 python3)
set(why)
if(HIL_SANITIZE OR HIL_FUZZ)
  set(why "sanitizers do not know its fibers")
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(why "without optimisation it is too slow")
elseif(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(why "its fibers are for x86-64")
elseif(NOT HIL_CUDA_HEADERS OR NOT HIL_CUDNN_HEADERS)
  set(why "CUDA's and cuDNN's headers were not found")
elseif(NOT HIL_PYTHON3)
  set(why "python3 was not found")
else()
  include(CheckLanguage)
  check_language(CXX)
  if(NOT CMAKE_CXX_COMPILER)
    set(why "there is no C++ compiler")
  endif()
endif()
if(why)
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "emulated GPU for tests: left out, ${why}")
  return()
endif()
enable_language(CXX)
set(HIL_HAS_EMULATOR ON)
set(emulated ${CMAKE_BINARY_DIR}/emulated)

file(GLOB_RECURSE from CONFIGURE_DEPENDS src/*.cu src/*cuda*.h)
list(FILTER from EXCLUDE REGEX "hopper") # instructions that are not emulated
set(to)
foreach(file ${from})
  string(REGEX REPLACE "^${CMAKE_SOURCE_DIR}/src/" "${emulated}/src/" file ${file})
  string(REGEX REPLACE "\\.cu$" ".cpp" file ${file})
  list(APPEND to ${file})
endforeach()
set(translator ${CMAKE_SOURCE_DIR}/tests/emulator/translate.py)
add_custom_command(OUTPUT ${emulated}/translated BYPRODUCTS ${to}
  COMMAND ${HIL_PYTHON3} ${translator} ${CMAKE_SOURCE_DIR}/src ${emulated}/src ${from}
  COMMAND ${CMAKE_COMMAND} -E touch ${emulated}/translated DEPENDS ${from} ${translator})
add_custom_target(hil_translated DEPENDS ${emulated}/translated)

# CUDA's runtime, cuBLASLt and cuDNN in one library, under all names that the program looks for.
file(GLOB runtime CONFIGURE_DEPENDS tests/emulator/*.cpp)
list(FILTER runtime EXCLUDE REGEX "/hopper\\.cpp$")
add_library(hil_emulator SHARED ${runtime})
set_target_properties(hil_emulator PROPERTIES OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${emulated})
foreach(name libcublasLt.so.13 libcudnn.so.9)
  add_custom_command(TARGET hil_emulator POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink libcuda.so.1 ${emulated}/${name})
endforeach()

list(FILTER to INCLUDE REGEX "\\.cpp$")
add_library(hil_emulated STATIC ${to} tests/emulator/hopper.cpp)
add_dependencies(hil_emulated hil_translated)
set_target_properties(hil_emulated PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(hil_emulated BEFORE PUBLIC ${CMAKE_SOURCE_DIR}/tests/emulator/include
  ${emulated}/src)
include(CheckCSourceRuns) # it runs where it was built; without them fmaf is a call
check_c_source_runs("int main(void) { return !__builtin_cpu_supports(\"avx2\") || !__builtin_cpu_supports(\"fma\"); }"
  HIL_EMULATOR_FMA)
foreach(target hil_emulator hil_emulated)
  target_include_directories(${target} SYSTEM PUBLIC ${HIL_CUDA_HEADERS} ${HIL_CUDNN_HEADERS})
  # As for GPUs: multiply-adds are fused only where they are written so. nvcc accepts a member with
  # the name of its type, and a kernel as a pointer to data.
  target_compile_options(${target} PRIVATE -std=c++20 -O3 -ffp-contract=off -fno-strict-aliasing
    -fpermissive -w -include ${CMAKE_SOURCE_DIR}/tests/emulator/emulator.h
    $<$<BOOL:${HIL_EMULATOR_FMA}>:-mavx2;-mfma>)
endforeach()
target_link_libraries(hil_emulated PUBLIC hil hil_emulator)

add_library(hilbert_emulated MODULE src/machine/cuda_module.c $<TARGET_OBJECTS:hil_emulated>)
set_target_properties(hilbert_emulated PROPERTIES PREFIX "" OUTPUT_NAME hilbert_cuda
  LIBRARY_OUTPUT_DIRECTORY ${emulated} LINKER_LANGUAGE CXX)
target_link_libraries(hilbert_emulated PRIVATE hil hil_emulator)
add_custom_command(TARGET hilbert_emulated POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:hilbert> ${emulated}/hilbert)
add_dependencies(hilbert_emulated hilbert)
set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "emulated GPU for tests: yes")
