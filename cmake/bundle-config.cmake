# find_package(hilbert) in an unpacked bundle: the libraries lie in its lib/ and need nothing else.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
get_filename_component(HILBERT_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hilbert::hilbert)
  add_library(hilbert::hilbert STATIC IMPORTED)
  add_library(hilbert::shared SHARED IMPORTED)
  set_target_properties(hilbert::hilbert PROPERTIES
    IMPORTED_LOCATION "${HILBERT_PREFIX}/lib/libhilbert.a"
    INTERFACE_INCLUDE_DIRECTORIES "${HILBERT_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")
  set_target_properties(hilbert::shared PROPERTIES
    IMPORTED_LOCATION "${HILBERT_PREFIX}/lib/libhilbert.so"
    INTERFACE_INCLUDE_DIRECTORIES "${HILBERT_PREFIX}/include")
endif()
