#pragma once

#include "kv_offload/bench/report.hpp"

#include <string>
#include <vector>

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

/// Whether it is an inequality at all, and names these policies only; before anything runs.
Expected<Ok> check_form(const std::string& inequality, const std::vector<std::string>& policies);

}  // namespace kv_offload::bench
