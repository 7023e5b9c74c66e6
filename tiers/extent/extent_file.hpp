#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/extent/extent_format.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

/// The file of an extent tier: opened, locked against other processes, and of the right shape. Closing
/// it releases the lock.
class ExtentFile {
 public:
  struct Wanted {
    std::string path;
    std::uint64_t capacity_bytes = 0;
    std::uint64_t segment_bytes = 0;  ///< 0: derived
    std::uint64_t row_bytes = 0;
    std::array<std::uint64_t, 2> fingerprint{};
    std::string model;
    bool sync_name = false;  ///< durability: full
  };

  ExtentFile() = default;
  ~ExtentFile();
  ExtentFile(ExtentFile&& other) noexcept;
  ExtentFile& operator=(ExtentFile&& other) noexcept;

  /// Opens the file, or creates, preallocates and formats it. One-line errors; a file that is not ours
  /// is left as it is.
  static Expected<ExtentFile> open(const Wanted& wanted);

  /// Opens a file that is there, to look at it: without its lock and without changing anything, also while an
  /// engine has it. A file that is shorter than it says is an error.
  static Expected<ExtentFile> open_read_only(const std::string& path);
  /// Another process has the file now.
  [[nodiscard]] bool is_in_use() const;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const ExtentGeometry& geometry() const { return geometry_; }
  [[nodiscard]] const Superblock& superblock() const { return superblock_; }
  /// What the operator should know of this start, a line each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// open_read_only found one of the two superblocks damaged.
  [[nodiscard]] bool has_damaged_superblock() const { return has_damaged_superblock_; }
  [[nodiscard]] bool is_new() const { return is_new_; }
  [[nodiscard]] bool is_direct() const { return is_direct_; }

  /// All of it, blocking; buffer, offset and length aligned. 0 or errno; what lies behind the end of the
  /// file reads as zeros.
  [[nodiscard]] int read(std::span<std::byte> buffer, std::uint64_t offset) const;
  [[nodiscard]] int write(std::span<const std::byte> buffer, std::uint64_t offset) const;

 private:
  Expected<Ok> open_descriptor(const Wanted& wanted);
  Expected<Ok> lock() const;
  enum class Found : std::uint8_t { nothing, both, one };  ///< superblocks
  Expected<Found> read_superblocks();
  Expected<Ok> adopt(const Wanted& wanted);
  Expected<Ok> format(const Wanted& wanted);
  Expected<Ok> check_same(const Wanted& wanted) const;
  Expected<Ok> reserve_space();
  Expected<Ok> write_superblocks() const;
  Expected<Ok> try_direct();
  [[nodiscard]] OffloadError failed(const std::string& what, int error) const;

  std::string path_;
  int fd_ = -1;
  bool is_new_ = false;
  bool was_created_ = false;  // by this open: removed again if it fails
  bool is_direct_ = true;
  ExtentGeometry geometry_;
  Superblock superblock_;
  std::vector<std::string> notes_;
  bool has_damaged_superblock_ = false;
};

}  // namespace kv_offload
