#include "kv_offload/bench/sim_run.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <ostream>

namespace kv_offload::bench {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double throughput(const SimTotals& t) {
  return t.span_s > 0 ? static_cast<double>(t.prompt_tokens + t.output_tokens) / t.span_s : 0;
}

/// By reason, all tiers together, cascades and promotions.
Json refusals(const EngineStats& stats) {
  Json refused = Json::object();
  for (std::size_t i = 0; i < kNumRefusalReasons; ++i) {
    std::uint64_t chunks = 0;
    for (const auto& offer : stats.scheduler.offers)
      chunks += offer.cascades_refused[i].chunks + offer.promotions_refused[i].chunks;
    if (chunks > 0) refused[std::string(to_string(static_cast<RefusalReason>(i)))] = chunks;
  }
  return refused;
}

struct Moved {
  std::uint64_t read = 0, written = 0, refused = 0;
};
Moved moved(const SimOutcome& outcome) {
  Moved sum;
  for (std::size_t t = 1; t < outcome.tiers.size(); ++t) {
    sum.read += outcome.tiers[t].read_bytes;
    sum.written += outcome.tiers[t].written_bytes;
    sum.refused += outcome.tiers[t].refused;
  }
  return sum;
}

/// Where the prompts' tokens came from.
Json token_shares(const SimOutcome& outcome) {
  const SimTotals& t = outcome.totals;
  Json shares = {{"device", share(t.device_tokens, t.prompt_tokens)}};
  for (std::size_t i = 0; i < outcome.tiers.size(); ++i)
    shares[outcome.tiers[i].label] =
        share(i < t.loaded_tier_tokens.size() ? t.loaded_tier_tokens[i] : 0, t.prompt_tokens);
  std::uint64_t slow = 0;
  for (std::size_t i = 1; i < t.loaded_tier_tokens.size(); ++i) slow += t.loaded_tier_tokens[i];
  shares["slow"] = share(slow, t.prompt_tokens);
  shares["computed"] = share(t.computed_tokens, t.prompt_tokens);
  return shares;
}

std::string percent(double value) { return fixed(value * 100, 2) + " %"; }

}  // namespace

Json to_json(const SimOutcome& outcome) {
  const SimTotals& t = outcome.totals;
  const Moved bytes = moved(outcome);
  Json json;
  json["policy"] = outcome.policy;
  json["requests"] = t.requests;
  json["chunk_references"] = t.chunk_references;
  json["hit_chunks"] = t.hit_chunks;
  json["hit_share"] = share(t.hit_chunks, t.chunk_references);
  json["throughput_tokens_s"] = throughput(t);
  json["ttft_p50_s"] = quantile(t.ttft_s, 0.50);
  json["ttft_p99_s"] = quantile(t.ttft_s, 0.99);
  json["ttft_max_s"] = quantile(t.ttft_s, 1);
  json["ttft_no_tier_p99_s"] = quantile(t.ttft_no_tier_s, 0.99);
  json["read_bytes"] = bytes.read;
  json["written_bytes"] = bytes.written;
  json["thrash_chunks"] = outcome.stats.primary.promoted_evicted_unread;
  json["refused"] = refusals(outcome.stats);
  json["refused_chunks"] = bytes.refused;
  json["span_s"] = t.span_s;
  json["end_s"] = t.end_s;
  json["prompt_tokens"] = t.prompt_tokens;
  json["output_tokens"] = t.output_tokens;
  json["token_share"] = token_shares(outcome);
  json["chunk_bytes"] = outcome.row_bytes;
  json["stalled_s"] = t.stalled_s;
  json["prefill_busy_s"] = t.prefill_busy_s;
  json["lookups"] = t.lookup_s.size();
  json["lookup_p50_s"] = quantile(t.lookup_s, 0.50);
  json["lookup_p99_s"] = quantile(t.lookup_s, 0.99);
  json["lookup_max_s"] = quantile(t.lookup_s, 1);
  json["backlog_share"] = outcome.backlog_share;
  json["recovery_s"] = outcome.recovery_s;
  json["saved_bytes"] = t.saved_bytes;
  json["not_stored_chunks"] = t.not_stored;
  json["lost_before_load"] = t.lost_before_load;
  json["unheld"] = t.unheld;
  json["truncated"] = t.truncated;
  json["gave_up"] = t.gave_up;
  json["never_fit_requests"] = t.never_fit;
  json["tiers"] = to_json(outcome.tiers);
  return json;
}

void print_runs(std::ostream& out, const std::vector<SimOutcome>& outcomes) {
  TextTable table;
  table.row({"policy", "requests", "tokens/s", "", "ttft p50", "ttft p99", "device", "hit share",
             "lookup p99", "read", "written", "thrash", "refused"});
  const double base = outcomes.empty() ? 0 : throughput(outcomes.front().totals);
  for (const auto& outcome : outcomes) {
    const SimTotals& t = outcome.totals;
    const Moved bytes = moved(outcome);
    table.row(
        {outcome.policy, with_commas(t.requests),
         with_commas(static_cast<std::uint64_t>(throughput(t))),
         base > 0 ? (throughput(t) >= base ? "+" : "") + percent(throughput(t) / base - 1) : "",
         human_us(quantile(t.ttft_s, 0.5) * 1e6), human_us(quantile(t.ttft_s, 0.99) * 1e6),
         percent(share(t.device_tokens, t.prompt_tokens)),
         share_text(t.hit_chunks, t.chunk_references), human_us(quantile(t.lookup_s, 0.99) * 1e6),
         human_bytes(static_cast<double>(bytes.read)),
         human_bytes(static_cast<double>(bytes.written)),
         with_commas(outcome.stats.primary.promoted_evicted_unread), with_commas(bytes.refused)});
  }
  table.print(out);
  for (const auto& outcome : outcomes) {
    const Json refused = refusals(outcome.stats);
    if (!refused.empty())
      out << outcome.policy << " refused, chunks by reason: " << refused.dump() << '\n';
    for (std::size_t t = 1; t < outcome.tiers.size(); ++t)
      if (outcome.tiers[t].dropped + outcome.tiers[t].failed > 0)
        out << outcome.policy << ' ' << outcome.tiers[t].label << ": "
            << outcome.tiers[t].reasons.dump() << '\n';
  }
}

}  // namespace kv_offload::bench
