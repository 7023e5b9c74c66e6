# cmake --install: both libraries, the public headers (installed_headers.txt), kv-offload-bench, and what finds them:
# a CMake package and pkg-config files. Nothing installed holds an absolute path, so a prefix may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET kv_offload)
  install(TARGETS kv_offload ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET kv_offload_shared)
  install(TARGETS kv_offload_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET kv-offload-bench)
  install(TARGETS kv-offload-bench RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/installed_headers.txt" _patterns REGEX "^[a-z]")
foreach(_pattern ${_patterns})
  file(GLOB _headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${_pattern}")
  foreach(_header ${_headers})
    get_filename_component(_folder "${_header}" DIRECTORY)
    install(FILES "${_header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kv_offload/${_folder}")
  endforeach()
endforeach()

# -- find_package(kv_offload) ------------------------------------------------------------------------------------
set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/kv_offload")
set(_made "${CMAKE_BINARY_DIR}/package")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/kv_offload-config.cmake.in" "${_made}/kv_offload-config.cmake"
  INSTALL_DESTINATION "${_package}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
# Below 1.0 a minor version may break callers.
write_basic_package_version_file("${_made}/kv_offload-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${_made}/kv_offload-config.cmake" "${_made}/kv_offload-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake" DESTINATION "${_package}")

# -- pkg-config: kv_offload, and kv_offload-static for the archive -------------------------------------------------
# What the archive is linked with, as -l words. Requires.private would make a user of the shared library install all
# of the packages: pkg-config reads it for --cflags, too.
execute_process(COMMAND "${PKG_CONFIG_EXECUTABLE}" --libs-only-l absl_flat_hash_map
  OUTPUT_VARIABLE _absl OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(_caf "${CAF_CORE_LIBRARY}" NAME_WE)
string(REGEX REPLACE "^lib" "-l" _caf "${_caf}")
set(KV_OFFLOAD_PC_LIBS "${_caf} -lprometheus-cpp-core -lcivetweb -lz -lspdlog -lfmt ${_absl} -lcrypto -lcurl -lpugixml -luring -lxxhash -lhwloc")
string(APPEND KV_OFFLOAD_PC_LIBS " -lstdc++ -lm -pthread")
file(RELATIVE_PATH KV_OFFLOAD_PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
foreach(_name kv_offload kv_offload-static)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${_name}.pc.in" "${_made}/${_name}.pc" @ONLY)
  install(FILES "${_made}/${_name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
