#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/obj_core.hpp"
#include "kv_offload/tiers/obj/s3_failure.hpp"

#include <functional>
#include <string>

namespace kv_offload {

/// Whether the tier can work: reads, writes, reads back and removes an object of its own, within `request_timeout_ms`, and
/// says in one line what is wrong and what would help. Lane thread.
class ObjStartCheck {
 public:
  /// `is_outage`: the store may be right again later; nothing that was configured is known to be wrong.
  using Done = std::function<void(Expected<Ok>, bool is_outage)>;

  /// `origin`: whose credentials they are; outlives the check.
  ObjStartCheck(ObjCore& core, const std::string& origin) : core_(core), origin_(origin) {}
  void run(Done done);

  [[nodiscard]] static OffloadError explain(const ObjConfig& config, const S3Reply& reply, const char* doing,
                                            const std::string& origin);

 private:
  void read();
  void write();
  void read_back();
  void remove();
  [[nodiscard]] S3Call call(S3Op op) const;
  void end(const S3Reply& reply, const char* doing);

  ObjCore& core_;
  const std::string& origin_;
  MonotonicTime deadline_{};
  Done done_;
};

}  // namespace kv_offload
