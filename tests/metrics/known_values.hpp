#pragma once

#include <map>
#include <string>

namespace kv_offload::test {

/// By sample as written on the page.
using Values = std::map<std::string, double>;

/// What known_stats() must read as: every sample of the page, written down by hand.
Values expected_values();

}  // namespace kv_offload::test
