# KV_OFFLOAD_SANITIZE=address (with undefined) or thread, for everything in the build.
# ThreadSanitizer needs a CAF that is built with it too (.ci/build_caf_tsan.sh); without one only the rooms that know
# no CAF can be checked, so actors/, bench/ and their tests are left out.
set(KV_OFFLOAD_SANITIZE "" CACHE STRING "Sanitizer: empty, address or thread")
set_property(CACHE KV_OFFLOAD_SANITIZE PROPERTY STRINGS "" address thread)
set(KV_OFFLOAD_WITHOUT_CAF OFF)

if(KV_OFFLOAD_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(KV_OFFLOAD_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # std::atomic_thread_fence, which CAF's headers use, is not modelled.
  endif()
  add_link_options(-fsanitize=thread)
  if(NOT CAF_ROOT)
    foreach(_cache "$ENV{KV_OFFLOAD_CACHE}" "$ENV{XDG_CACHE_HOME}/kv_offload" "$ENV{HOME}/.cache/kv_offload")
      if(NOT CAF_ROOT AND EXISTS "${_cache}/caf-tsan/stamp")
        set(CAF_ROOT "${_cache}/caf-tsan")
      endif()
    endforeach()
  endif()
  if(CAF_ROOT AND CAF_CORE_LIBRARY AND NOT CAF_CORE_LIBRARY MATCHES "^${CAF_ROOT}/")
    unset(CAF_CORE_LIBRARY CACHE) # Found by an earlier configuration, when there was no other.
    unset(CAF_INCLUDE_DIR CACHE)
  endif()
  if(NOT CAF_ROOT)
    set(KV_OFFLOAD_WITHOUT_CAF ON)
    message(WARNING "No CAF with ThreadSanitizer: actors/ and bench/ are left out. Run .ci/build_caf_tsan.sh once.")
  endif()
elseif(KV_OFFLOAD_SANITIZE)
  message(FATAL_ERROR "KV_OFFLOAD_SANITIZE=${KV_OFFLOAD_SANITIZE}: allowed are address and thread")
endif()

# What GCC says by itself, and clang from version 20: a few tests and time limits ask.
if(KV_OFFLOAD_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20)
  string(TOUPPER "${KV_OFFLOAD_SANITIZE}" _sanitizer)
  add_compile_definitions(__SANITIZE_${_sanitizer}__)
endif()
