#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/fs/fs_namespace.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// Writes the record of a namespace now and then while its lane works, a piece per request. Seldom
/// enough that records stay below 1 MiB/s on average. Lane thread.
class RecordSaver {
 public:
  explicit RecordSaver(MonotonicTime now) : next_(now + kInterval) {}
  ~RecordSaver() { abandon(); }
  RecordSaver(const RecordSaver&) = delete;
  RecordSaver& operator=(const RecordSaver&) = delete;

  /// The index changed: there is something to write.
  void changed() { is_changed_ = true; }
  [[nodiscard]] bool is_due(MonotonicTime now) const {
    return !is_out_ && (image_ != nullptr || (is_changed_ && now >= next_));
  }
  [[nodiscard]] bool is_writing() const { return image_ != nullptr; }
  /// When it is due, if nothing is under way.
  [[nodiscard]] Duration wait(MonotonicTime now) const;
  /// The next piece. False: nothing to do now.
  bool next_io(FsNamespace& ns, const std::vector<std::string>& revisions, MonotonicTime now,
               OwnIo& io);
  /// The piece is written, or failed.
  void io_over(int error);
  /// The namespace goes. No piece may be out.
  void abandon();
  /// A piece is at the device: its namespace must stay.
  [[nodiscard]] bool is_out() const { return is_out_; }
  /// errno of the last record that could not be written; once.
  [[nodiscard]] int take_error() { return std::exchange(error_, 0); }

  /// What a crash costs: the order of uses since then, and a walk.
  static constexpr Duration kInterval = std::chrono::seconds(60);

 private:
  static constexpr std::uint64_t kPieceBytes = 64U << 10;
  static constexpr std::uint64_t kBytesPerSecond = 1U << 20;

  void begin(FsNamespace& ns, const std::vector<std::string>& revisions);
  void publish();

  bool is_changed_ = false;
  bool is_out_ = false;
  MonotonicTime next_;
  std::unique_ptr<ResidencyImage> image_;
  AlignedBuffer piece_;
  std::string path_;
  std::string temp_path_;
  TempNames temp_names_;
  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::uint64_t piece_size_ = 0;
  int error_ = 0;
};

}  // namespace kv_offload
