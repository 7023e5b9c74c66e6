#include "kv_offload/bench/sim_workload.hpp"

#include "kv_offload/bench/sim_latency.hpp"
#include "kv_offload/bench/sim_tokens.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv_offload::bench {
namespace {

/// Sessions whose every prompt is the last one, its answer, and something new. `concurrency` of them
/// have a request open; which one asks next is drawn. A session beyond the longest context is replaced.
class MultiTurn final : public SimWorkload {
 public:
  MultiTurn(ConfigReader& reader, const SimWorkloadParts& parts)
      : random_(parts.seed), contents_(parts.tokens_per_chunk) {
    concurrency_ = read_count(reader, "concurrency", 16);
    const std::size_t sessions = read_count(reader, "sessions", 32);
    system_tokens_ =
        static_cast<std::uint64_t>(reader.number("system_tokens", 0, 0, kSimTokensMax));
    first_ = read_tokens(reader, "first_tokens", 2000);
    turn_ = read_tokens(reader, "turn_tokens", 1000);
    output_ = read_tokens(reader, "output_tokens", 300);
    context_max_ = reader.number("context_max_tokens", 32'000, 1, kSimTokensMax);
    requests_left_ = read_count(reader, "requests", 0);
    bounded_ = requests_left_ > 0;
    mid_life_ = reader.boolean("mid_life", true);
    if (sessions < concurrency_)
      reader.fail(reader.path_of("sessions") + ": expected at least concurrency");
    contents_.extend(system_, system_tokens_);
    const std::size_t count = std::max<std::size_t>(sessions, 1);
    for (std::size_t i = 0; i < count; ++i) {
      sessions_.emplace_back(random_.next());
      // Spread evenly over the life of a session, so that the first minute is like any other.
      const double part = (static_cast<double>(i) + uniform(random_)) / static_cast<double>(count);
      begin(sessions_.back(), mid_life_ ? part : 0);
    }
  }
  [[nodiscard]] std::size_t clients() const override { return concurrency_; }
  std::optional<SimRequest> next() override {
    if (bounded_ && requests_left_-- == 0) {
      requests_left_ = 0;
      return std::nullopt;
    }
    std::vector<std::size_t> idle;
    for (std::size_t i = 0; i < sessions_.size(); ++i)
      if (!sessions_[i].busy) idle.push_back(i);
    if (idle.empty()) return std::nullopt;
    const std::size_t at = idle[random_.below(idle.size())];
    Session& session = sessions_[at];
    session.tokens += session.fresh ? 0 : turn_.draw(session.random);
    session.fresh = false;
    session.busy = true;
    SimRequest request;
    request.session = at;
    request.prompt_tokens = session.tokens;
    request.output_tokens = std::max<std::uint64_t>(output_.draw(session.random), 1);
    contents_.extend(session.chunks, session.tokens + request.output_tokens);
    request.chunks = session.chunks;
    session.tokens += request.output_tokens;
    return request;
  }
  void finished(const SimRequest& request) override {
    Session& session = sessions_[request.session];
    session.busy = false;
    if (static_cast<double>(session.tokens) > context_max_) begin(session, 0);
  }

 private:
  /// Draws from a stream of its own: what it says does not depend on how fast the others are served.
  struct Session {
    explicit Session(std::uint64_t seed) : random(seed) {}
    Random random;
    std::vector<std::uint64_t> chunks;
    std::uint64_t tokens = 0;
    bool busy = false;
    bool fresh = true;
  };
  /// `life`: how much of the way to the longest context it has come already.
  void begin(Session& session, double life) {
    session.chunks = system_;
    session.fresh = true;
    session.tokens = system_tokens_ + first_.draw(session.random);
    if (static_cast<double>(session.tokens) < context_max_)
      session.tokens +=
          static_cast<std::uint64_t>(life * (context_max_ - static_cast<double>(session.tokens)));
    contents_.extend(session.chunks, session.tokens);
  }

  Random random_;
  SimContents contents_;
  std::size_t concurrency_ = 0;
  std::uint64_t system_tokens_ = 0;
  SimTokens first_, turn_, output_;
  double context_max_ = 0;
  std::size_t requests_left_ = 0;
  bool bounded_ = false, mid_life_ = true;
  std::vector<std::uint64_t> system_;
  std::vector<Session> sessions_;
};

/// Long contexts asked one after the other, over and over: each is used again only when all others have
/// been, which is the worst order for any cache that keeps the latest.
class RoundRobin final : public SimWorkload {
 public:
  RoundRobin(ConfigReader& reader, const SimWorkloadParts& parts)
      : random_(parts.seed), contents_(parts.tokens_per_chunk) {
    concurrency_ = read_count(reader, "concurrency", 50);
    context_ = read_tokens(reader, "context_tokens", 32'000);
    question_ = read_tokens(reader, "question_tokens", 200);
    output_ = read_tokens(reader, "output_tokens", 100);
    const std::size_t contexts = read_count(reader, "contexts", 100);
    left_ = contexts * read_count(reader, "rounds", 3);
    contexts_.resize(std::max<std::size_t>(contexts, 1));
    for (auto& context : contexts_) {
      context.tokens = context_.draw(random_);
      contents_.extend(context.chunks, context.tokens);
    }
  }
  [[nodiscard]] std::size_t clients() const override { return concurrency_; }
  std::optional<SimRequest> next() override {
    if (left_ == 0) return std::nullopt;
    --left_;
    const auto& context = contexts_[at_++ % contexts_.size()];
    SimRequest request;
    request.prompt_tokens = context.tokens + question_.draw(random_);
    request.output_tokens = std::max<std::uint64_t>(output_.draw(random_), 1);
    request.chunks = context.chunks;
    contents_.extend(request.chunks, request.prompt_tokens + request.output_tokens);
    return request;
  }

 private:
  struct Context {
    std::vector<std::uint64_t> chunks;
    std::uint64_t tokens = 0;
  };
  Random random_;
  SimContents contents_;
  std::size_t concurrency_ = 0, left_ = 0, at_ = 0;
  SimTokens context_, question_, output_;
  std::vector<Context> contexts_;
};

/// Every prompt is new. Asked by clients, or at random times of a given rate.
class NoReuse final : public SimWorkload {
 public:
  NoReuse(ConfigReader& reader, const SimWorkloadParts& parts)
      : random_(parts.seed), contents_(parts.tokens_per_chunk) {
    concurrency_ = read_count(reader, "concurrency", 0);
    rate_ = reader.number("requests_per_s", concurrency_ > 0 ? 0 : 1, 0, 1e6);
    prompt_ = read_tokens(reader, "prompt_tokens", 4000);
    output_ = read_tokens(reader, "output_tokens", 300);
    left_ = read_count(reader, "requests", 500);
    if (concurrency_ == 0 && rate_ == 0)
      reader.fail(reader.path_of("concurrency") + ": expected either it or requests_per_s above 0");
  }
  [[nodiscard]] std::size_t clients() const override { return concurrency_; }
  std::optional<SimRequest> next() override {
    if (left_ == 0) return std::nullopt;
    --left_;
    SimRequest request;
    if (concurrency_ == 0) now_s_ += exponential(random_, 1 / rate_);
    request.arrival_s = now_s_;
    request.prompt_tokens = std::max<std::uint64_t>(prompt_.draw(random_), 1);
    request.output_tokens = std::max<std::uint64_t>(output_.draw(random_), 1);
    contents_.extend(request.chunks, request.prompt_tokens);
    return request;
  }

 private:
  Random random_;
  SimContents contents_;
  std::size_t concurrency_ = 0, left_ = 0;
  double rate_ = 0, now_s_ = 0;
  SimTokens prompt_, output_;
};

/// Many requests at nearly the same time that begin with one long prefix, which only the tiers have.
class Storm final : public SimWorkload {
 public:
  Storm(ConfigReader& reader, const SimWorkloadParts& parts)
      : random_(parts.seed), contents_(parts.tokens_per_chunk) {
    left_ = read_count(reader, "requests", 200);
    prefix_tokens_ =
        static_cast<std::uint64_t>(reader.number("prefix_tokens", 65'536, 1, kSimTokensMax));
    suffix_ = read_tokens(reader, "suffix_tokens", 200);
    output_ = read_tokens(reader, "output_tokens", 100);
    spread_s_ = reader.number("spread_s", 0, 0, 1e6);
    contents_.extend(prefix_, prefix_tokens_);
    step_s_ = left_ > 1 ? spread_s_ / static_cast<double>(left_ - 1) : 0;
  }
  std::optional<SimRequest> next() override {
    if (left_ == 0) return std::nullopt;
    --left_;
    SimRequest request;
    request.arrival_s = now_s_;
    now_s_ += step_s_;
    request.prompt_tokens = prefix_tokens_ + std::max<std::uint64_t>(suffix_.draw(random_), 1);
    request.output_tokens = std::max<std::uint64_t>(output_.draw(random_), 1);
    request.chunks = prefix_;
    contents_.extend(request.chunks, request.prompt_tokens);
    return request;
  }
  [[nodiscard]] std::vector<std::uint64_t> preloaded() const override { return prefix_; }

 private:
  Random random_;
  SimContents contents_;
  std::size_t left_ = 0;
  std::uint64_t prefix_tokens_ = 0;
  SimTokens suffix_, output_;
  double spread_s_ = 0, step_s_ = 0, now_s_ = 0;
  std::vector<std::uint64_t> prefix_;
};

/// A recorded trace: at its own times (divided by `speed`), or as fast as so many clients can.
class TraceWorkload final : public SimWorkload {
 public:
  TraceWorkload(ConfigReader& reader, const SimWorkloadParts& parts)
      : trace_(*parts.trace), parts_(parts) {
    concurrency_ = read_count(reader, "concurrency", 0);
    speed_ = reader.number("speed", 1, 0, 1e6, true);
    const std::size_t wanted = read_count(reader, "requests", 0);
    end_ = trace_.size();
    for (const std::size_t bound : {wanted, parts.requests_max})
      if (bound > 0) end_ = std::min(end_, bound);
  }
  [[nodiscard]] std::size_t clients() const override { return concurrency_; }
  std::optional<SimRequest> next() override {
    if (at_ == end_) return std::nullopt;
    const TraceRequest& from = trace_[at_++];
    SimRequest request;
    request.arrival_s = from.timestamp_ms / 1e3 / speed_;
    request.prompt_tokens = std::max<std::uint64_t>(from.input_length, 1);
    request.output_tokens = std::max<std::uint64_t>(from.output_length, 1);
    // The last chunk of a trace's prompt is rarely full; nobody else can use it.
    const auto full = std::min<std::uint64_t>(from.chunks.size(),
                                              request.prompt_tokens / parts_.tokens_per_chunk);
    request.chunks.assign(from.chunks.begin(),
                          from.chunks.begin() + static_cast<std::ptrdiff_t>(full));
    return request;
  }

 private:
  const Trace& trace_;
  const SimWorkloadParts parts_;
  std::size_t concurrency_ = 0, at_ = 0, end_ = 0;
  double speed_ = 1;
};

}  // namespace

std::unique_ptr<SimWorkload> read_workload(ConfigReader& reader, const SimWorkloadParts& parts) {
  const auto kind =
      reader.choice("kind", "trace", {"trace", "multi_turn", "round_robin", "no_reuse", "storm"});
  std::unique_ptr<SimWorkload> workload;
  if (kind == "multi_turn") workload = std::make_unique<MultiTurn>(reader, parts);
  if (kind == "round_robin") workload = std::make_unique<RoundRobin>(reader, parts);
  if (kind == "no_reuse") workload = std::make_unique<NoReuse>(reader, parts);
  if (kind == "storm") workload = std::make_unique<Storm>(reader, parts);
  if (kind == "trace") {
    if (parts.trace == nullptr) {
      reader.fail(reader.path_of("kind") + ": \"trace\" needs --trace FILE");
      return nullptr;
    }
    workload = std::make_unique<TraceWorkload>(reader, parts);
  }
  return workload;
}

}  // namespace kv_offload::bench
