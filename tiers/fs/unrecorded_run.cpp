#include "kv_offload/tiers/fs/unrecorded_run.hpp"

#include "kv_offload/tiers/fs/residency_file.hpp"

#include <unistd.h>
#include <utility>

namespace kv_offload {

UnrecordedRun::UnrecordedRun(std::string chunk_dir) : chunk_dir_(std::move(chunk_dir)) {
  RunMarker::find_others(chunk_dir_);
  marker_.create(chunk_dir_);
  remove_record();
}

void UnrecordedRun::end() {
  remove_record();
  if (marker_.has_others(chunk_dir_)) marker_.leave();
  marker_.remove();
}

void UnrecordedRun::remove_record() const { ::unlink((chunk_dir_ + '/' + kResidencyFile).c_str()); }

}  // namespace kv_offload
