# Several ranks come with MPI. It lives in a module that the program loads when a launcher started
# it, so that the program itself needs no MPI. Without MPI there is no module.
list(FILTER sources EXCLUDE REGEX "/comm/comm_mpi\\.c$")
find_package(MPI COMPONENTS C)
if(MPI_C_FOUND)
  add_library(hilbert_mpi MODULE src/comm/comm_mpi.c)
  set_target_properties(hilbert_mpi PROPERTIES PREFIX "" INSTALL_RPATH_USE_LINK_PATH ON)
  target_include_directories(hilbert_mpi PRIVATE include src)
  target_link_libraries(hilbert_mpi PRIVATE MPI::MPI_C Threads::Threads)
  install(TARGETS hilbert_mpi LIBRARY DESTINATION lib/hilbert)
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "MPI: yes, loaded when mpirun or srun starts the program")
else()
  set_property(GLOBAL APPEND PROPERTY HIL_SUMMARY "MPI: left out, mpicc was not found")
endif()
