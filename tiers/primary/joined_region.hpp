#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/primary/region_memory.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"
#include "kv_offload/tiers/primary_view.hpp"
#include "kv_offload/tiers/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload {

/// A region of another process, mapped here. Nothing of it is mapped before everything about it was checked, and an
/// error leaves neither mapping nor descriptor nor lock. The name of a file goes when its last rank has mapped it.
class JoinedRegion {
 public:
  struct Who {
    std::uint32_t rank = 0;
    RegionExpectation expected = {};
  };
  /// What came with a descriptor.
  struct Handed {
    UniqueFd fd;
    RegionRecord record = {};  ///< must be what the region says of itself, but for its revision
    bool is_sealed = true;     ///< memory without a name: must be sealed against shrinking
  };
  static Expected<std::unique_ptr<JoinedRegion>> adopt(Handed handed, const Who& who);

  struct Named {
    std::string path = {};
    Duration patience =
        std::chrono::seconds(60);  ///< until a living owner's file is there, and ready
    std::function<MonotonicTime()> now = {};
    /// Waits that long; false: give up. Empty: sleeps.
    std::function<bool(Duration)> wait = {};
  };
  /// Of a file; holds the lock of its rank for its life.
  static Expected<std::unique_ptr<JoinedRegion>> find(const Named& named, const Who& who);

  ~JoinedRegion();
  JoinedRegion(const JoinedRegion&) = delete;
  JoinedRegion& operator=(const JoinedRegion&) = delete;

  /// Without use counts: the owner counts.
  [[nodiscard]] PrimaryView view() const;
  [[nodiscard]] const RegionRecord& record() const { return record_; }
  [[nodiscard]] std::uint64_t mapped_bytes() const { return mapping_.bytes(); }
  /// Makes this rank's slot of every row resident, and says that the rank has joined. `advise` as in touch_pages.
  Expected<Ok> populate(std::uint64_t slot_offset, std::uint64_t slot_bytes,
                        Madvise advise = nullptr);
  /// Stays mapped for the rest of the process: a copy may still run.
  void leak() { mapping_.leak(); }

 private:
  JoinedRegion() = default;
  static Expected<std::unique_ptr<JoinedRegion>> map(int fd, const RegionHeader& header,
                                                     bool is_sealed, const Who& who);

  std::uint32_t rank_ = 0;
  RegionRecord record_;
  std::string path_;
  UniqueFd file_;  // named: holds the rank's lock
  std::byte* rows_ = nullptr;
  MappedMemory mapping_;
};

}  // namespace kv_offload
