#include "kv_offload/bench/synthetic.hpp"

#include "kv_offload/bench/random.hpp"

namespace kv_offload::bench {
namespace {

constexpr std::uint64_t kTokensPerChunk = 512;

struct Builder {
  explicit Builder(std::uint64_t seed) : random(seed) {}

  std::vector<std::uint64_t> fresh(std::uint64_t count) {
    std::vector<std::uint64_t> chunks(count);
    for (auto& chunk : chunks) chunk = next_chunk++;
    return chunks;
  }
  void arrive(std::vector<std::uint64_t> chunks) {
    now_ms += static_cast<double>(50 + random.below(200));
    const std::uint64_t input = chunks.size() * kTokensPerChunk - random.below(kTokensPerChunk);
    trace.push_back({now_ms, input, 64 + random.below(448), std::move(chunks)});
  }

  Random random;
  Trace trace;
  std::uint64_t next_chunk = 0;
  double now_ms = 0;
};

void append(std::vector<std::uint64_t>& chunks, const std::vector<std::uint64_t>& more) {
  chunks.insert(chunks.end(), more.begin(), more.end());
}

Trace multi_turn(Builder b) {
  constexpr std::size_t kChats = 30, kTurns = 8, kPrompts = 3;
  struct Chat {
    std::vector<std::uint64_t> history;
    std::size_t turns = 0;
  };
  std::vector<std::vector<std::uint64_t>> prompts;
  for (std::size_t i = 0; i < kPrompts; ++i) prompts.push_back(b.fresh(4));
  std::vector<Chat> open(kChats);
  for (std::size_t i = 0; i < kChats; ++i) open[i].history = prompts[i % kPrompts];
  while (!open.empty()) {
    const std::size_t at = b.random.below(open.size());
    Chat& chat = open[at];
    append(chat.history, b.fresh(4 + b.random.below(7)));
    b.arrive(chat.history);
    if (++chat.turns == kTurns) open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return std::move(b.trace);
}

Trace shared_prefix(Builder b) {
  const auto prefix = b.fresh(32);
  for (int i = 0; i < 200; ++i) {
    auto chunks = prefix;
    append(chunks, b.fresh(2 + b.random.below(7)));
    b.arrive(std::move(chunks));
  }
  return std::move(b.trace);
}

Trace no_reuse(Builder b) {
  for (int i = 0; i < 100; ++i) b.arrive(b.fresh(16));
  return std::move(b.trace);
}

}  // namespace

std::vector<std::string> synthetic_names() { return {"multi-turn", "shared-prefix", "no-reuse"}; }

Expected<Trace> synthetic_trace(const std::string& name, std::uint64_t seed) {
  if (name == "multi-turn") return multi_turn(Builder(seed));
  if (name == "shared-prefix") return shared_prefix(Builder(seed));
  if (name == "no-reuse") return no_reuse(Builder(seed));
  std::string known;
  for (const auto& n : synthetic_names()) known += (known.empty() ? "" : ", ") + n;
  return OffloadError{OffloadErrc::invalid_argument,
                      "--synthetic: \"" + name + "\" is not allowed; expected one of: " + known};
}

}  // namespace kv_offload::bench
