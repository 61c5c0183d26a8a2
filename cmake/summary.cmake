# What this build has and what it left out. Optional parts append a line to HIL_SUMMARY.
get_property(lines GLOBAL PROPERTY HIL_SUMMARY)
message(STATUS "hilbert ${PROJECT_VERSION}: ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
if(HIL_SANITIZE)
  message(STATUS "  sanitizers: ${HIL_SANITIZE}")
endif()
foreach(line ${lines})
  message(STATUS "  ${line}")
endforeach()
