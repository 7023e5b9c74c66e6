#pragma once

#include "kv_offload/tiers/io/scripted_backend.hpp"
#include "kv_offload/tiers/io/thread_backend.hpp"
#include "kv_offload/tiers/io/uring_backend.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

namespace kv_offload::test {

/// What the tiers of the tests do their I/O with: $KV_OFFLOAD_TEST_IO, "uring" (the default) or "threads".
/// ctest runs each test that cares under both.
inline IoMode test_io() {
  const char* name = std::getenv("KV_OFFLOAD_TEST_IO");
  return name != nullptr && std::string_view(name) == "threads" ? IoMode::threads : IoMode::uring;
}

/// Ends a test case where the kernel forbids the io_uring that it would use. Catch2 v2 has no skip: the
/// reason is a warning.
#define KV_OFFLOAD_NEEDS_URING()                                                             \
  if (const std::string why = ::kv_offload::test::test_io() == ::kv_offload::IoMode::threads \
                                  ? std::string()                                            \
                                  : ::kv_offload::why_no_uring();                            \
      !why.empty()) {                                                                        \
    WARN("skipped: " << why);                                                                \
    return;                                                                                  \
  }

/// The device of a lane's tests, which does what a script says. With threads the script decides the same
/// results and lengths, but not when and in which order: what depends on that is tagged [scripted] and runs
/// on the scripted backend alone.
inline std::unique_ptr<IoBackend> scripted_device(ScriptedBackend::Script script,
                                                  const ScriptedBackend::Options& device) {
  if (test_io() != IoMode::threads)
    return std::make_unique<ScriptedBackend>(std::move(script), device);
  struct Shared {
    ScriptedBackend::Script script;
    std::mutex mutex;
    std::uint64_t ordinal = 0;
  };
  auto shared = std::make_shared<Shared>();
  shared->script = std::move(script);
  ThreadOptions options;
  options.name = "1:lane";
  options.queue_depth = device.queue_depth;
  options.perform = [shared](const IoRequest& request) -> std::int32_t {
    ScriptedResult plan;
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->script) plan = shared->script(request, shared->ordinal++);
    }
    if (plan.result) return *plan.result;
    IoRequest shorter = request;
    shorter.length = std::min(request.length, plan.length_max.value_or(request.length));
    return perform_io(shorter);
  };
  return std::make_unique<ThreadBackend>(std::move(options));
}

}  // namespace kv_offload::test
