#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <memory>

namespace kv_offload::bench {

/// The tier alone, driven as its actor drives it. Files go to new subdirectories of `dir`, which must
/// outlive it; they stay until `dir` goes, because creating files right after deleting many is slow.
std::unique_ptr<IoContestant> io_tier(const IoShape& shape, const WorkDir& dir);

/// The tier behind a whole engine: stored and looked up as a serving process does.
std::unique_ptr<IoContestant> io_engine(const IoShape& shape, const WorkDir& dir);

/// New directory for one store of `who`.
Expected<std::filesystem::path> io_directory(const WorkDir& dir, const std::string& who);

}  // namespace kv_offload::bench
