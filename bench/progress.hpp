#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <string>

namespace kv_offload::bench {

/// One line on standard error that overwrites itself, ten times a second; nothing unless that is a
/// terminal. One thread.
class ProgressLine {
 public:
  explicit ProgressLine(bool wanted);
  ~ProgressLine() { finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// True when it is time for another update: a clock read, so callers may ask as often as they like.
  [[nodiscard]] bool due();
  void show(const std::string& text);
  /// Clears the line.
  void finish();

 private:
  bool on_;
  bool drawn_ = false;
  MonotonicTime next_{};
};

/// Set by the first interrupt, hang-up or termination signal: what runs ends soon and cleans up. The second
/// one ends the process at once; which temporary directory stays is told on standard error.
void watch_interrupts();
bool interrupted();

}  // namespace kv_offload::bench
