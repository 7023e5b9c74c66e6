#pragma once

#include <iosfwd>

namespace kv_offload::bench {

/// Parses the command line and runs its subcommand. Answers the exit status; usage errors are one line
/// on `err` and status 2.
int run_command_line(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
