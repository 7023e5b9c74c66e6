#pragma once

#include "kv_offload/bench/report.hpp"

#include <string>

namespace kv_offload::bench {

struct SimVerdict {
  double left = 0, right = 0;
  bool held = false;
};

/// Evaluates one inequality such as `adaptive.throughput_tokens_s >= 0.98 * off.throughput_tokens_s`:
/// numbers, `<run>.<figure>` (members of the run's JSON object, separated by dots), + - * / ( ),
/// min(a, b, …), max(a, b, …), and one of <= >= < > ==. A refusal reason that never occurred is 0.
/// `runs` maps each run's name to its JSON object. Errors are one line.
Expected<SimVerdict> evaluate(const std::string& inequality, const Json& runs);

}  // namespace kv_offload::bench
