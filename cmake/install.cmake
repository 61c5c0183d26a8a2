# `make install`: program, library, public headers, pkg-config files, CMake package, manual pages,
# descriptions of clusters.
# The descriptions find the prefix from their own place, so that an installed tree can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS hil EXPORT hilbert ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(hil PROPERTIES EXPORT_NAME hilbert)

# The objects of the static library once more: only HIL_API functions are visible. While the major
# version is 0, a minor version may change the API.
if(NOT HIL_SANITIZE AND NOT HIL_FUZZ)
  add_library(hil_shared SHARED $<TARGET_OBJECTS:hil>)
  set_target_properties(hil_shared PROPERTIES OUTPUT_NAME hilbert LINKER_LANGUAGE C EXPORT_NAME shared
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_options(hil_shared PRIVATE -Wl,-z,defs)
  target_include_directories(hil_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(hil_shared PRIVATE PkgConfig::JANSSON PkgConfig::XXHASH PkgConfig::ZLIB PkgConfig::ZSTD
    ${uring_target} Threads::Threads m ${CMAKE_DL_LIBS})
  install(TARGETS hil_shared EXPORT hilbert LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  add_dependencies(hilbert hil_shared) # `make` builds all that `make install` installs
endif()
install(TARGETS hilbert RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/hilbert FILES_MATCHING PATTERN *.json)
install(DIRECTORY include/hilbert DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

set(manual ${CMAKE_BINARY_DIR}/man)
file(GLOB manual_sources CONFIGURE_DEPENDS src/cli/*.c include/hilbert/*.h)
add_custom_command(OUTPUT ${manual}/made
  COMMAND ${CMAKE_SOURCE_DIR}/tools/man_pages.sh ${manual} ${PROJECT_VERSION} COMMAND ${CMAKE_COMMAND} -E touch ${manual}/made
  DEPENDS ${manual_sources} docs/hilbert.1 tools/man_pages.sh tools/man_commands.awk tools/man_header.awk)
add_custom_target(manual DEPENDS ${manual}/made)
add_dependencies(hilbert manual)
install(DIRECTORY ${manual}/man1 ${manual}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})

file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up ${up})
foreach(name hilbert hilbert-static)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hilbert)
write_basic_package_version_file(hilbert-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/hilbert-config.cmake.in hilbert-config.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hilbert-config.cmake ${CMAKE_BINARY_DIR}/hilbert-config-version.cmake
  DESTINATION ${package})
install(EXPORT hilbert NAMESPACE hilbert:: FILE hilbert-targets.cmake DESTINATION ${package})
