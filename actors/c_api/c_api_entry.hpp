#pragma once

// What every entry point begins and ends with.
#include "kv_offload/actors/c_api/c_api_engine.hpp"
#include "kv_offload/actors/c_api/kv_offload.h"
#include "kv_offload/messages/expected.hpp"

#include <string>
#include <string_view>

namespace kv_offload::c_api {

/// Keeps the text for kvo_error_text of this thread, cut to 511 bytes, and answers the code. Never throws.
int fail(int code, std::string_view text) noexcept;
/// The same for the exception in flight: call it in a catch block.
int fail_by_exception() noexcept;

int code_of(OffloadErrc code) noexcept;
inline int fail(const OffloadError& error) { return fail(code_of(error.code), to_string(error)); }
template <class T>
int code_of(const Expected<T>& answer) {
  return answer ? KVO_OK : fail(answer.error());
}

/// "<name>: <got> is not allowed; expected <allowed>".
int not_allowed(const char* name, std::string_view got, std::string_view allowed);

enum class Waits : bool { no, yes };

/// Whether a call may come in at all: KVO_OK or the refusal. Takes no lock and allocates nothing, so that it is
/// safe in a child of fork.
int refusal(const kvo_engine* engine, Waits waits) noexcept;

/// Runs `body(facade)` for a caller that may come in, counted as inside, so that kvo_destroy waits for it.
template <class Body>
int enter(const kvo_engine* engine, Waits waits, Body body) noexcept {
  if (const int refused = refusal(engine, waits)) return refused;
  const Inside inside(*engine);
  if (!inside.admitted()) return fail(KVO_SHUTTING_DOWN, "the engine is being destroyed");
  try {
    return body(*engine->facade);
  } catch (...) {
    return fail_by_exception();
  }
}

}  // namespace kv_offload::c_api
