#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <string>

namespace kv_offload {

/// Why admission refused what it refused, or refused nothing: flows by tier, direction and reason,
/// the gates' reports, what the gates measure, the last decisions. As `/admission` serves it; the
/// members are described in README.md. Pure; any thread.
/// @param now  of the engine's clock: decisions are shown by age
[[nodiscard]] std::string admission_page_json(const EngineStats& stats, MonotonicTime now);

/// The same for people: at most 120 columns, the decisions folded where they repeat.
[[nodiscard]] std::string admission_page_text(const EngineStats& stats, MonotonicTime now);

}  // namespace kv_offload
