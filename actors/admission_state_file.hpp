#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kv_offload {

/// The file in which admission's state outlives the engine. A thread of its own writes it (beside
/// it, synced, then renamed over it), so that whoever has something to keep never waits for a disk.
///
/// One engine per file: `<file>.lock` is held until close() is done, and by the kernel no longer
/// than the process lives. `<file>.tmp` is what is being written; one that a crash left is removed.
class AdmissionStateFile {
 public:
  /// More is not read: the state takes some hundred bytes.
  static constexpr std::size_t kBytesMax = 1 << 20;

  /// What stands for an empty file in found(); no state looks like it.
  static constexpr std::string_view kEmpty = "empty";

  using Log = std::function<void(std::string_view level, const std::string& line)>;

  /// Takes the file and reads it. Errors are one line for the operator: the directory is missing or
  /// cannot be written, the file cannot be read, another engine has it.
  /// @param log  also called on the writing thread
  static Expected<std::unique_ptr<AdmissionStateFile>> open(std::string path, Log log);
  AdmissionStateFile(const AdmissionStateFile&) = delete;
  AdmissionStateFile& operator=(const AdmissionStateFile&) = delete;
  /// As close() without patience to spare.
  ~AdmissionStateFile();

  /// What it held when it was opened; empty only if there was no file. Not checked: a damaged text
  /// is for AdmissionLedger::restore_state to find.
  [[nodiscard]] const std::string& found() const { return found_; }
  /// What it held cannot be used: the next text that is written replaces it only when it is kept aside, as
  /// `<file>.damaged` (an older one there is replaced). Before the first keep().
  void keep_aside();
  /// The name of the file kept aside.
  [[nodiscard]] static std::string aside(const std::string& path) { return path + ".damaged"; }
  /// Takes the newest text to write; never blocks. One that waits is replaced. Any thread.
  void keep(std::string text);
  /// Writes what waits and ends. False if the disk did not let it by then: the thread, and with it
  /// the lock, stays until it is done. Idempotent.
  bool close(Duration patience);

 private:
  struct Writer;
  AdmissionStateFile(std::shared_ptr<Writer> writer, std::string found);

  std::shared_ptr<Writer> writer_;  // with the thread too, which may outlive this object
  std::string found_;
  std::optional<bool> closed_;  // what close() answered
};

}  // namespace kv_offload
