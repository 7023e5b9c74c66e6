#include "kv_offload/actors/c_api/c_api_entry.hpp"

#include "kv_offload/actors/fork_generation.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

namespace kv_offload::c_api {
namespace {

constexpr std::size_t kErrorTextBytes = 512;

char* error_text() {
  thread_local char text[kErrorTextBytes] = "";
  return text;
}

kvo_log_level level_of(const std::string& level) {
  if (level == "debug") return KVO_LOG_DEBUG;
  if (level == "warn") return KVO_LOG_WARN;
  return level == "error" ? KVO_LOG_ERROR : KVO_LOG_INFO;
}

}  // namespace

int fail(int code, std::string_view text) noexcept {
  const auto n = std::min(text.size(), kErrorTextBytes - 1);
  std::memcpy(error_text(), text.data(), n);
  error_text()[n] = '\0';
  return code;
}

int fail_by_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(KVO_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(KVO_INTERNAL, error.what());
  } catch (...) {
    return fail(KVO_INTERNAL, "an exception without a text");
  }
}

int code_of(OffloadErrc code) noexcept { return static_cast<int>(code); }
static_assert(static_cast<int>(OffloadErrc::invalid_argument) == KVO_INVALID_ARGUMENT &&
              static_cast<int>(OffloadErrc::duplicate_request) == KVO_DUPLICATE_REQUEST &&
              static_cast<int>(OffloadErrc::no_space) == KVO_NO_SPACE &&
              static_cast<int>(OffloadErrc::deadline) == KVO_DEADLINE &&
              static_cast<int>(OffloadErrc::shutting_down) == KVO_SHUTTING_DOWN &&
              static_cast<int>(OffloadErrc::unsupported) == KVO_UNSUPPORTED);

int not_allowed(const char* name, std::string_view got, std::string_view allowed) {
  return fail(KVO_INVALID_ARGUMENT, std::string(name) + ": " + std::string(got) +
                                        " is not allowed; expected " + std::string(allowed));
}

int refusal(const kvo_engine* engine, Waits waits) noexcept {
  if (engine == nullptr)
    return fail(KVO_INVALID_ARGUMENT, "engine: NULL is not allowed; expected what kvo_start made");
  if (engine->born_in != fork_generation()) return fail(KVO_FORKED, kForkedText);
  if (waits == Waits::yes && CallbackScope::active())
    return fail(KVO_IN_CALLBACK, "this call waits, and callbacks run on the threads that it would wait for");
  return KVO_OK;
}

void HostGate::line(const std::string& level, const std::string& text) noexcept {
  if (CallbackScope::active()) return;
  try {
    const std::scoped_lock lock(mutex_);
    if (log_ == nullptr) return;
    const CallbackScope scope;
    log_(user_, level_of(level), text.c_str());
  } catch (...) {  // a host's callback threw: nobody is there to catch it
  }
}

void HostGate::close() {
  const std::scoped_lock lock(mutex_);
  log_ = nullptr;
}

}  // namespace kv_offload::c_api

using namespace kv_offload;

const char* kvo_error_text(void) { return c_api::error_text(); }

const char* kvo_code_name(int code) {
  switch (code) {
    case KVO_OK: return "ok";
    case KVO_OUT_OF_MEMORY: return "out_of_memory";
    case KVO_INTERNAL: return "internal";
    case KVO_FORKED: return "forked";
    case KVO_IN_CALLBACK: return "in_callback";
    case KVO_UNCLEAN: return "unclean";
    default: break;
  }
  // Literals: their ends are there.
  return code >= KVO_INVALID_ARGUMENT && code <= KVO_UNSUPPORTED ? to_string(static_cast<OffloadErrc>(code)).data()
                                                                  : "unknown";
}
