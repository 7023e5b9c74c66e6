#pragma once

#include <cstdint>
#include <memory>

namespace caf {
class actor_system;
}

namespace kv_offload {

/// The actor system of one engine, scheduled for calls that pass through several actors in turn
/// (HandoffScheduling), where CAF's own policies wake a worker per hop; a worker yields after 64 messages so
/// that no busy actor starves the others.
class CafSystem {
 public:
  explicit CafSystem(std::uint32_t worker_threads);
  /// Waits for every actor to end: drop all handles first.
  ~CafSystem();
  CafSystem(const CafSystem&) = delete;
  CafSystem& operator=(const CafSystem&) = delete;

  caf::actor_system& system();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
