#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/unique_fd.hpp"
#include "kv_offload/tiers/workers/wire_socket.hpp"

#include <utility>

namespace kv_offload {

/// The engine's listening socket. A path is ours while we listen; what is found there is removed only if it is a
/// socket at which nobody listens.
class HubListener {
 public:
  explicit HubListener(SocketAddress address) : address_(std::move(address)) {}
  ~HubListener() { close(); }
  HubListener(const HubListener&) = delete;
  HubListener& operator=(const HubListener&) = delete;

  /// Errors: another engine listens there, something else stands there, the system refuses. Idempotent.
  Expected<Ok> open();
  /// With its path. Idempotent.
  void close();
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const SocketAddress& address() const { return address_; }
  /// The next who waits; none with errno.
  UniqueFd accept();

 private:
  const SocketAddress address_;
  UniqueFd fd_;
  unsigned long long inode_ = 0;  // of our path
};

}  // namespace kv_offload
