#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/unique_fd.hpp"

#include <cstdint>

namespace kv_offload {

/// One process, by a descriptor that no later process with its number can be mistaken for. Readable once it is dead:
/// all its threads have ended and given up memory, descriptors and devices.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  /// Who made the connection (or listened for it). Errors: another user, not to be seen from here, gone.
  static Expected<ProcessWatch> of_peer(int socket);
  /// Who owns a region. Errors: not to be seen from here, or that process is gone and its number another's.
  static Expected<ProcessWatch> of_mark(const ProcessMark& mark);

  [[nodiscard]] std::int64_t pid() const { return pid_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  [[nodiscard]] bool is_dead() const;

 private:
  std::int64_t pid_ = 0;
  UniqueFd fd_;
};

}  // namespace kv_offload
