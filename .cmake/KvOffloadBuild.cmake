# Language level, warnings, packages and the one include path of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Compiled once, for the archive and for the shared library; messages/export.hpp marks what the latter shows.
# Under AddressSanitizer there is no shared library, and one kind of code for all lets all share what is precompiled.
if(NOT KV_OFFLOAD_SANITIZE STREQUAL "address")
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# ccache, where it is installed. The sloppiness is what precompiled headers need to be cached at all.
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()

# Headers are spelled "kv_offload/<room>/<file>.hpp": <build>/include/kv_offload links to the source root.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/include")
file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_BINARY_DIR}/include/kv_offload" SYMBOLIC)

# A macro: packages set variables that the caller needs.
macro(kv_offload_require_package name debian_package)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "kv_offload needs ${name}: install the Debian package ${debian_package}")
  endif()
endmacro()
function(kv_offload_require_module target module debian_package)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "kv_offload needs ${module}: install the Debian package ${debian_package}")
  endif()
endfunction()

find_package(Threads REQUIRED)
kv_offload_require_package(PkgConfig pkg-config)
kv_offload_require_package(CAF libcaf-dev)
kv_offload_require_package(prometheus-cpp prometheus-cpp-dev CONFIG)
kv_offload_require_package(nlohmann_json nlohmann-json3-dev CONFIG)
kv_offload_require_package(spdlog libspdlog-dev CONFIG)
kv_offload_require_package(absl libabsl-dev CONFIG)
kv_offload_require_package(OpenSSL libssl-dev)
kv_offload_require_package(CURL libcurl4-openssl-dev 7.85)
kv_offload_require_package(pugixml libpugixml-dev CONFIG)
find_path(KV_OFFLOAD_ASIO asio/io_context.hpp)
mark_as_advanced(KV_OFFLOAD_ASIO)
if(NOT KV_OFFLOAD_ASIO)
  message(FATAL_ERROR "kv_offload needs Asio's headers: install the Debian package libasio-dev")
endif()
kv_offload_require_module(LIBURING liburing liburing-dev)
kv_offload_require_module(XXHASH libxxhash libxxhash-dev)
kv_offload_require_module(HWLOC hwloc libhwloc-dev)

add_library(kv_offload_options INTERFACE)
target_include_directories(kv_offload_options INTERFACE "${CMAKE_BINARY_DIR}/include")
target_compile_options(kv_offload_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast)
# Asio 1.22 looks for std::aligned_alloc before it includes any header of the library that would say so: without the
# last one, files that include Asio first free with delete what others took with aligned_alloc.
target_compile_definitions(kv_offload_options INTERFACE
  CAF_ENABLE_TYPE_ID_CHECKS ASIO_STANDALONE ASIO_HAS_STD_ALIGNED_ALLOC)
target_link_libraries(kv_offload_options INTERFACE Threads::Threads)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # ccache can reuse what was compiled with a precompiled header only if GCC names that header in its output.
  target_compile_options(kv_offload_options INTERFACE -fpch-preprocess)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(kv_offload_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")  # the same for clang
  # What GCC's -Wconversion leaves out, and what libstdc++ does itself in std::stable_sort.
  target_compile_options(kv_offload_options INTERFACE -Wno-sign-conversion -Wno-deprecated-declarations)
  # Asio 1.22 looks for the coroutines of C++20 under the names they had before.
  target_compile_definitions(kv_offload_options INTERFACE ASIO_HAS_CO_AWAIT ASIO_HAS_STD_COROUTINE)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12's flow analysis finds faults in libstdc++ that are none, at -O1 and with sanitizers; at -O2 it stays on.
  target_compile_options(kv_offload_options INTERFACE
    $<$<CONFIG:Debug>:-Wno-array-bounds> $<$<CONFIG:Debug>:-Wno-maybe-uninitialized>
    $<$<CONFIG:Debug>:-Wno-restrict> $<$<CONFIG:Debug>:-Wno-stringop-overflow>)
endif()
if(KV_OFFLOAD_WERROR)
  target_compile_options(kv_offload_options INTERFACE -Werror)
endif()
if(KV_OFFLOAD_TEST_FAULTS)
  target_compile_definitions(kv_offload_options INTERFACE KV_OFFLOAD_TEST_FAULTS)
endif()
