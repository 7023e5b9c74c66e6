# What is parsed once. A plain build puts CAF in front of the sources that use it, and Catch in front of the tests, and
# nothing else: there each file is compiled with its own includes. A build with AddressSanitizer is a second look at the same
# files, with little optimisation, where half of the time is parsing: all its targets share four wide headers.

set(KV_OFFLOAD_CAF_PRECOMPILED "${PROJECT_SOURCE_DIR}/actors/caf_precompiled.hpp")
# What -ftime-trace shows in most files.
set(KV_OFFLOAD_WIDE_PRECOMPILED
  <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <condition_variable> <cstring> <deque> <filesystem>
  <fstream> <functional> <future> <iostream> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream>
  <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
  <absl/container/flat_hash_map.h> <nlohmann/json.hpp>)

# The library that owns the wide header with CAF and Catch as asked for; made on first use.
function(_kv_offload_wide_header result caf catch)
  set(owner kv_offload_precompiled)
  set(headers ${KV_OFFLOAD_WIDE_PRECOMPILED})
  set(packages kv_offload_options nlohmann_json::nlohmann_json absl::flat_hash_map)
  if(caf)
    string(APPEND owner _caf)
    list(APPEND headers "${KV_OFFLOAD_CAF_PRECOMPILED}")
    list(APPEND packages CAF::core)
  endif()
  if(catch)
    string(APPEND owner _catch)
    list(APPEND headers <catch2/catch.hpp>)
    list(APPEND packages Catch2::Catch2)
  endif()
  if(NOT TARGET ${owner})
    set(source "${PROJECT_BINARY_DIR}/precompiled/${owner}.cpp")
    file(WRITE "${source}.new" "// Owns a precompiled header.\n")
    configure_file("${source}.new" "${source}" COPYONLY)
    add_library(${owner} OBJECT "${source}")
    target_link_libraries(${owner} PRIVATE ${packages})
    target_precompile_headers(${owner} PRIVATE ${headers})
  endif()
  set(${result} ${owner} PARENT_SCOPE)
endfunction()

# kv_offload_precompile(<target> [CAF] [CATCH]): what the target's files have in front of them.
function(kv_offload_precompile target)
  cmake_parse_arguments(ARG "CAF;CATCH" "" "" ${ARGN})
  if(KV_OFFLOAD_SANITIZE STREQUAL "address")
    _kv_offload_wide_header(owner "${ARG_CAF}" "${ARG_CATCH}")
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  if(ARG_CATCH)
    target_precompile_headers(${target} PRIVATE <catch2/catch.hpp>)
  endif()
  if(ARG_CAF)
    target_precompile_headers(${target} PRIVATE "${KV_OFFLOAD_CAF_PRECOMPILED}")
  endif()
endfunction()
