# Kernels for one instruction set live in files whose suffix names it. Such a file is compiled with
# the flags of its set, and HIL_WITH_<SET> is defined for the whole library; what the target or the
# compiler cannot have is dropped from `sources`, and the summary says so.
include(CheckCCompilerFlag)

set(flags_avx2 -mavx2 -mfma -mf16c)
set(flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq ${flags_avx2})
set(flags_avx512bf16 -mavx512bf16 ${flags_avx512})
set(flags_amx -mamx-tile -mamx-bf16 ${flags_avx512})

if(HIL_SANITIZE AND NOT HIL_FUZZ)
  file(GLOB portable CONFIGURE_DEPENDS src/*/*_portable.c src/*/*/*_portable.c)
  set_source_files_properties(${portable} PROPERTIES COMPILE_OPTIONS -O3)
endif()
foreach(set avx2 avx512 avx512bf16 amx)
  set(files ${sources})
  list(FILTER files INCLUDE REGEX "_${set}\\.c$")
  if(NOT files)
    continue()
  endif()
  string(TOUPPER ${set} name)
  string(REPLACE ";" " " flags "${flags_${set}}")
  set(why "the target is ${CMAKE_SYSTEM_PROCESSOR}")
  set(HIL_CC_HAS_${name} OFF)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    unset(HIL_CC_HAS_${name})
    check_c_compiler_flag("${flags}" HIL_CC_HAS_${name})
    set(why "the compiler does not know ${flags}")
  endif()
  if(HIL_CC_HAS_${name})
    if(HIL_FUZZ) # no fuzzer reaches a kernel
      list(APPEND flags_${set} -fno-sanitize=all)
    elseif(HIL_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL GNU)
      # Sums in arrays must become registers, or kernels take most of the time of all tests. An
      # index that leaves such an array is still found.
      list(APPEND flags_${set} -O2 --param=asan-stack=0
        -fno-sanitize=alignment,null,object-size,pointer-overflow)
    endif()
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${flags_${set}}")
    add_compile_definitions(HIL_WITH_${name}=1)
    set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "${name} kernels: yes, chosen at run time")
  else()
    list(REMOVE_ITEM sources ${files})
    set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "${name} kernels: left out, ${why}")
  endif()
endforeach()
