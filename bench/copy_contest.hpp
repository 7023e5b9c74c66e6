#pragma once

#include "kv_offload/bench/copy.hpp"
#include "kv_offload/bench/copy_device.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload::bench {

enum class CopyWho : std::uint8_t {
  worker,  ///< a DeviceWorker, jobs of several chunks
  plain,   ///< memcpy, or what the device has in its place
  digest,  ///< copied and digested on the way, as a store or a load of the host does it
};

/// One shape of copies over one set of memory: `chunks` rows, and device blocks of `page_bytes`
/// that they are made of.
class CopyContest {
 public:
  /// `page_bytes` divides chunk_bytes. If there are several to a chunk they lie scattered over the
  /// device.
  static Expected<std::unique_ptr<CopyContest>> open(const CopyBenchOptions& options,
                                                     CopyDevice& device, const PrimaryView& rows,
                                                     std::uint64_t page_bytes);
  /// Passes over all chunks for options.seconds, at least one. The targets of some chunks are
  /// spoilt before, and compared afterwards: `wrong` counts those that differ.
  /// @return GiB per second
  Expected<double> measure(CopyWho who, bool is_load);
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }
  [[nodiscard]] std::uint64_t compared() const { return compared_; }

 private:
  CopyContest(const CopyBenchOptions& options, CopyDevice& device, const PrimaryView& rows,
              std::uint64_t page_bytes)
      : options_(options), device_(device), rows_(rows), page_bytes_(page_bytes) {}
  Expected<Ok> prepare();
  Expected<Ok> pass(CopyWho who, bool is_load);
  Expected<Ok> pass_of_worker(bool is_load);
  void pass_with_digest(bool is_load);
  /// Of every eighth chunk, beginning with another one each time.
  Expected<Ok> spoil_sample(bool is_load);
  Expected<Ok> compare_sample(bool is_load);
  [[nodiscard]] std::uint64_t pages_per_chunk() const { return options_.chunk_bytes / page_bytes_; }

  const CopyBenchOptions& options_;
  CopyDevice& device_;
  PrimaryView rows_;
  std::uint64_t page_bytes_;
  std::vector<std::uint32_t> blocks_;       // of the device, chunk after chunk
  std::vector<CopyFragment> fragments_[2];  // stores, loads: what the worker makes of its jobs
  std::unique_ptr<DeviceWorker> worker_;
  struct Ends;
  std::shared_ptr<Ends> ends_;
  std::uint64_t next_job_ = 1;
  std::uint32_t next_sample_ = 0;
  std::uint64_t wrong_ = 0, compared_ = 0;
};

}  // namespace kv_offload::bench
