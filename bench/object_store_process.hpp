#pragma once

#include "kv_offload/messages/expected.hpp"

#include <memory>
#include <string>
#include <sys/types.h>

namespace kv_offload::bench {

/// An in-memory object store in a process of its own, so that its CPU time is not ours. Ends with this object, and
/// with this process however that ends.
class ObjectStoreProcess {
 public:
  /// To be called while this process has one thread: it forks.
  /// @param discard_bodies  keep lengths only; loads get zeros
  static Expected<std::unique_ptr<ObjectStoreProcess>> start(bool discard_bodies);
  ~ObjectStoreProcess();
  ObjectStoreProcess(const ObjectStoreProcess&) = delete;
  ObjectStoreProcess& operator=(const ObjectStoreProcess&) = delete;

  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  static constexpr const char* kBucket = "kv-cache";

 private:
  ObjectStoreProcess(pid_t pid, std::string endpoint) : pid_(pid), endpoint_(std::move(endpoint)) {}
  const pid_t pid_;
  const std::string endpoint_;
};

}  // namespace kv_offload::bench
