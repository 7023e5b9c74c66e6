#pragma once

#include <iosfwd>
#include <optional>
#include <string>

namespace kv_offload::bench {

/// `check-config FILE`: validates the document, prints every effective value with unit and origin, what
/// is accepted without effect, and harmful combinations. Starts nothing and writes nothing but
/// `json_out`. Warnings do not change the exit status.
///
/// @return 0, or 2 with one line on `err`: unreadable file, bad configuration, `json_out` not writable
int check_config(const std::string& file, std::optional<std::string> json_out, bool quiet,
                 std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
