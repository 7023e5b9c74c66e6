#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/obj_core.hpp"

#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace kv_offload {

/// Gives the client its credentials and keeps them good: temporary ones are renewed before they end, a shared file
/// is read again when the store does not accept what it said before. Lane thread.
class ObjCredentials {
 public:
  using Done = std::function<void(Expected<Ok>)>;

  ObjCredentials(ObjCore& core, Environment environment);

  /// The first ones. `done` is called from the loop or inside the call.
  void acquire(Done done);
  /// There are none yet: tries again after a while.
  void renew_later();
  /// The store refused a signature.
  void refused();
  /// "profile "x" of FILE", for messages.
  [[nodiscard]] const std::string& origin() const { return origin_; }
  void stop();

 private:
  void exchange(const WebIdentity& identity, Done done);
  [[nodiscard]] Expected<AwsCredentials> of_response(const HttpResponse& response) const;
  void renew_before(std::chrono::sys_seconds expires);
  void renew_after(Duration wait);

  ObjCore& core_;
  const Environment environment_;
  std::string origin_ = "nobody";
  std::string form_;
  std::uint32_t attempts_ = 0;  // of this exchange
  bool exchanging_ = false;
  bool stopped_ = false;
  MonotonicTime looked_at_{};
  asio::steady_timer timer_;
};

}  // namespace kv_offload
