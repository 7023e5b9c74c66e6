#pragma once

#include "kv_offload/actors/c_api/kv_offload.h"
#include "kv_offload/actors/offload_engine.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace kv_offload::c_api {

/// Marks the current thread as inside a callback of the host.
class CallbackScope {
 public:
  CallbackScope() { ++depth(); }
  ~CallbackScope() { --depth(); }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  static bool active() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
};

/// Between the engine's threads and the host's functions. Outlives the engine with whoever still holds it; after
/// close() it calls nobody.
class HostGate {
 public:
  HostGate(kvo_log_callback log, void* user) : log_(log), user_(user) {}

  /// One line to the host, one at a time. Lines that the callback itself causes on its own thread are dropped.
  void line(const std::string& level, const std::string& text) noexcept;
  /// Returns when no log callback runs and none will any more.
  void close();

  void call_begins() { calls_.fetch_add(1); }
  void call_ended() {
    if (calls_.fetch_sub(1) == 1) calls_.notify_all();
  }
  /// Waits until every callback of an asynchronous call has returned: the engine has answered them all when it ended.
  void await_calls() const {
    for (auto open = calls_.load(); open != 0; open = calls_.load()) calls_.wait(open);
  }

 private:
  std::mutex mutex_;
  kvo_log_callback log_;  // null: closed
  void* const user_;
  std::atomic<std::uint32_t> calls_{0};
};

}  // namespace kv_offload::c_api

/// What the host holds. `facade` lives as long as this; it is not touched in a child of fork.
struct kvo_engine {
  std::unique_ptr<kv_offload::OffloadEngine> facade;
  std::shared_ptr<kv_offload::c_api::HostGate> gate;
  std::uint32_t born_in = 0;                       ///< fork_generation() of its process
  mutable std::atomic<std::uint32_t> inside{0};    ///< calls that use the facade now
  std::atomic<bool> closing{false};                ///< kvo_destroy has begun
  std::atomic<bool> ended{false};                  ///< chunk addresses are no longer handed out
};

namespace kv_offload::c_api {

/// Counts a call as inside. Its last access to the engine is the decrement: kvo_destroy may free right after it.
class Inside {
 public:
  explicit Inside(const kvo_engine& engine) : engine_(engine) {
    engine_.inside.fetch_add(1);  // in one order with `closing`, as seen by kvo_destroy
    admitted_ = !engine_.closing.load();
  }
  ~Inside() { engine_.inside.fetch_sub(1); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] bool admitted() const { return admitted_; }

 private:
  const kvo_engine& engine_;
  bool admitted_;
};

}  // namespace kv_offload::c_api
