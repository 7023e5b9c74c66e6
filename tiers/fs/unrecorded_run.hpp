#pragma once

#include "kv_offload/tiers/fs/run_marker.hpp"

#include <string>

namespace kv_offload {

/// An engine without a capacity at work in a chunk directory. What it stores is in no record: there is none
/// when it begins and none when it ends, and who writes one meanwhile sees the marker and lets the next
/// start look at the files. A directory where nothing can be created gets none: nothing is stored there.
class UnrecordedRun {
 public:
  explicit UnrecordedRun(std::string chunk_dir);
  /// Nothing is stored any more. Without it the marker stays, as after a crash.
  void end();

 private:
  void remove_record() const;

  const std::string chunk_dir_;
  RunMarker marker_;
};

}  // namespace kv_offload
