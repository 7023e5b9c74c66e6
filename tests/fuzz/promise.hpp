#pragma once

#include <cstdio>
#include <cstdlib>

namespace kv_offload::fuzz {

/// What must hold for every input. Ends the program where it does not, so that a fuzzer keeps the input.
inline void promise(bool is_kept, const char* what) {
  if (is_kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace kv_offload::fuzz
