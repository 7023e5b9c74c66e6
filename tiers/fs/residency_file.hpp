#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/fs/fs_residency.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

/// The record of a chunk directory: what an engine knew of its files, so that the next one need not look
/// at each of them. Format: README.md beside this file.
inline constexpr const char* kResidencyFile = "residency.state";

/// What stands before the chunks.
struct ResidencyHeader {
  bool is_clean = false;          ///< nothing was stored or removed after it was written
  std::uint64_t fingerprint = 0;  ///< of the namespace
  std::uint64_t row_bytes = 0;
  std::vector<std::string> revisions;  ///< others whose chunks count, oldest first
};

struct ResidencyEntry {
  OffloadKey key;
  std::uint64_t bytes = 0;
  std::uint64_t last_use = 0;
  bool is_quarantined = false;
};

[[nodiscard]] std::uint64_t residency_fingerprint(const std::string& digest_namespace);

/// The bytes of a record, piece by piece, so that a lane can write it between its turns. Chunks that
/// come and go meanwhile may be missing or named in vain. One owner.
class ResidencyImage {
 public:
  /// `residency` outlives the image.
  ResidencyImage(const FsResidency& residency, const ResidencyHeader& header,
                 const std::vector<ResidencyEntry>& quarantined);
  ~ResidencyImage();
  ResidencyImage(const ResidencyImage&) = delete;
  ResidencyImage& operator=(const ResidencyImage&) = delete;

  /// Fills `out`, whose size is a multiple of 4096; the bytes used, a multiple of 4096; 0 after the end.
  std::size_t next(std::span<std::byte> out);

 private:
  struct Check;
  void put(const void* data, std::size_t size);
  void put(const ResidencyEntry& entry);
  void finish();

  const FsResidency& residency_;
  std::unique_ptr<Check> check_;
  std::vector<std::byte> pending_;
  ChunkId slot_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t count_ = 0;
  bool is_finished_ = false;
};

/// Writes `image` to a temporary file and renames it to `path`. 0 or errno.
int write_residency(ResidencyImage& image, const std::string& path);

/// Reads a record front to back. What next() gave counts only if is_sound() after the last one: the
/// check is at the end.
class ResidencyReader {
 public:
  /// nullopt if there is no file; an error names what is wrong with it.
  static Expected<std::optional<ResidencyReader>> open(const std::string& path);
  ResidencyReader(ResidencyReader&& other) noexcept;
  ~ResidencyReader();

  [[nodiscard]] const ResidencyHeader& header() const { return header_; }
  /// As many entries as the file says it has, and its length allows.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// False after the last one, or where the bytes make no sense.
  bool next(ResidencyEntry& entry);
  [[nodiscard]] bool is_sound();

 private:
  struct State;
  explicit ResidencyReader(std::unique_ptr<State> state);
  std::optional<std::string> read_header();

  std::unique_ptr<State> state_;
  ResidencyHeader header_;
  std::uint64_t count_ = 0;
  std::uint64_t given_ = 0;
  bool is_broken_ = false;
};

}  // namespace kv_offload
