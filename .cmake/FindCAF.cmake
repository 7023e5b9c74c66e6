# Finds CAF's core library: Debian ships no CMake config for it. Defines CAF::core and CAF_VERSION (1706 is 0.17.6).
# CAF_ROOT, a folder with include/ and lib/, goes before the system; a static core is taken where there is one.
find_path(CAF_INCLUDE_DIR caf/all.hpp HINTS "${CAF_ROOT}/include")
find_library(CAF_CORE_LIBRARY NAMES caf_core_static caf_core HINTS "${CAF_ROOT}/lib")
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)
if(CAF_INCLUDE_DIR)
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" _caf_version REGEX "define CAF_VERSION")
  string(REGEX MATCH "[0-9]+" CAF_VERSION "${_caf_version}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "install the Debian package libcaf-dev")
if(CAF_FOUND AND NOT TARGET CAF::core)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
