#pragma once

#include "kv_offload/bench/options.hpp"

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

namespace kv_offload::bench {

struct InspectOptions {
  std::string path;  ///< root directory of a file tier, or the file of an extent tier
  bool verify = false;
  bool purge_quarantined = false;
  std::size_t limit = 20;  ///< damaged chunks named at most; all are counted
  /// The engine's document: an extent file does not hold the namespace that its digests are made with.
  std::optional<std::string> config_file;
  OutputOptions output;
};

/// Says what a tier left at `path`, without changing any of it (but for `purge_quarantined`), also while an
/// engine has it. Exit status: damage found is a failed check.
int run_inspect(const InspectOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
