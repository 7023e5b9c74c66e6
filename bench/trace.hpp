#pragma once

#include "kv_offload/messages/expected.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// One request of a trace: which chunks its prompt consists of, in prefix order.
struct TraceRequest {
  double timestamp_ms = 0;            ///< arrival, from the start of the trace
  std::uint64_t input_length = 0;     ///< tokens
  std::uint64_t output_length = 0;    ///< tokens
  std::vector<std::uint64_t> chunks;  ///< `hash_ids`: equal numbers are equal contents
};
using Trace = std::vector<TraceRequest>;

/// Reads JSON lines with `timestamp`, `input_length`, `output_length`, `hash_ids` (the format of the
/// public Mooncake traces); other members are ignored, empty lines too. Stops after `requests_max`.
/// Errors are one line, `file:line: expected …`.
Expected<Trace> read_trace(const std::string& file, std::size_t requests_max);
/// As read_trace; `name` stands for the file in messages.
Expected<Trace> parse_trace(std::istream& in, const std::string& name, std::size_t requests_max);

}  // namespace kv_offload::bench
