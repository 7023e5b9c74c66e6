#include "kv_offload/actors/admission_page.hpp"
#include "kv_offload/actors/admission_page_parts.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using namespace admission_page;

constexpr std::size_t kColumns = 120;
/// Folded decisions shown; the document has them all.
constexpr std::size_t kDecisionLines = 40;

class TextPage {
 public:
  void line(const std::string& text) { text_ += text + "\n"; }
  void heading(const std::string& text) { text_ += (text_.empty() ? "" : "\n") + text + "\n"; }
  /// Breaks at blanks; every line begins `indent` columns in.
  void paragraph(const std::string& text, std::size_t indent) {
    const std::size_t width = kColumns - indent;
    std::string_view rest = text;
    while (!rest.empty()) {
      std::size_t end = rest.size();
      if (end > width) {
        const auto blank = rest.rfind(' ', width);
        end = blank == std::string_view::npos || blank == 0 ? width : blank;
      }
      line(std::string(indent, ' ') + std::string(rest.substr(0, end)));
      rest.remove_prefix(end);
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    }
  }
  /// The first `num_left` columns are left-aligned.
  void table(const std::vector<std::vector<std::string>>& rows, std::size_t num_left) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows) {
      std::string out = " ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths[i] - row[i].size(), ' ');
        out += (i == 0 ? " " : "  ") + (i < num_left ? row[i] + space : space + row[i]);
      }
      line(out.substr(0, out.find_last_not_of(' ') + 1));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string chunks_and_jobs(const JobAmount& a) {
  return std::to_string(a.chunks) + "/" + std::to_string(a.jobs);
}

void add_flows(TextPage& page, const EngineStats& stats) {
  page.heading("Admission, chunks/jobs");
  std::vector<std::vector<std::string>> rows = {{"tier", "direction", "offered", "admitted",
                                                 "refused", "completed", "withdrawn", "erased",
                                                 "in flight"}};
  for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t) {
    const AdmissionTierTotals& tier = stats.admission.tiers[t];
    for (const auto* flow : {&tier.cascades, &tier.promotions})
      rows.push_back({label_of(stats, static_cast<TierIndex>(t)),
                      std::string(direction(flow == &tier.promotions)),
                      chunks_and_jobs(flow->offered), chunks_and_jobs(flow->admitted),
                      chunks_and_jobs(refused_total(*flow)), chunks_and_jobs(flow->completed),
                      chunks_and_jobs(flow->withdrawn), chunks_and_jobs(flow->erased),
                      chunks_and_jobs(flow->in_flight)});
  }
  if (rows.size() == 1) return page.line("  no secondary tier: nothing to admit");
  page.table(rows, 2);
  for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t)
    if (stats.admission.tiers[t].disabled)
      page.line("  " + label_of(stats, static_cast<TierIndex>(t)) +
                " is disabled until the engine starts anew");
  if (!stats.admission.balance_violation.empty())
    page.paragraph("BALANCE BROKEN: " + stats.admission.balance_violation, 2);
}

void add_refusals(TextPage& page, const EngineStats& stats) {
  page.heading("Refused by reason, chunks/jobs");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t) {
    const AdmissionTierTotals& tier = stats.admission.tiers[t];
    for (const auto* flow : {&tier.cascades, &tier.promotions})
      for (std::size_t r = 0; r < kNumRefusalReasons; ++r)
        if (flow->refused[r].chunks > 0)
          rows.push_back({label_of(stats, static_cast<TierIndex>(t)),
                          std::string(direction(flow == &tier.promotions)),
                          std::string(to_string(static_cast<RefusalReason>(r))),
                          chunks_and_jobs(flow->refused[r])});
  }
  if (rows.empty()) return page.line("  nothing was refused");
  page.table(rows, 3);
  page.heading("Refused by policy, chunks/decisions");
  rows.clear();
  for (const RefuserTotals& r : stats.admission.refusers)
    rows.push_back({label_of(stats, r.tier), std::string(direction(r.is_promotion)), r.policy,
                    chunks_and_jobs({r.decisions, r.chunks})});
  page.table(rows, 3);
}

void add_gates(TextPage& page, const EngineStats& stats) {
  page.heading("Gates");
  for (const GateReport& g : stats.admission.gates) {
    page.line("  " + g.tier + " " + g.gate + ", mode " + std::string(to_string(g.mode)) + ": " +
              std::string(meaning(g)));
    page.paragraph(g.text, 6);
  }
  if (stats.admission.gates.empty()) page.line("  none");
}

void add_verdicts(TextPage& page, const EngineStats& stats) {
  page.heading("Verdicts on what tiers claimed");
  std::vector<std::vector<std::string>> rows = {{"verdict"}};
  for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t)
    rows[0].push_back(label_of(stats, static_cast<TierIndex>(t)));
  for (std::size_t v = 0; v < kNumLoadVerdicts; ++v) {
    const auto name = to_string(static_cast<LoadVerdict>(v));
    std::vector<std::string> row = {std::string(name)};
    for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t)
      row.push_back(formatted("%.0f", sample(stats, "kv_offload_payoff_verdicts_total",
                                             label_of(stats, static_cast<TierIndex>(t)), name)));
    rows.push_back(std::move(row));
  }
  page.table(rows, 1);
}

void add_cadences(TextPage& page, const EngineStats& stats) {
  page.heading("Settings that count events, in seconds at the present rates");
  std::vector<std::vector<std::string>> rows = {
      {"tier", "gate", "setting", "events", "per second", "seconds"}};
  for (std::size_t t = 0; t < stats.admission.tiers.size(); ++t)
    for (const GateCadence& c : stats.admission.cadences) {
      const std::string label = label_of(stats, static_cast<TierIndex>(t));
      const double rate = events_per_second(stats, c.gate, label);
      rows.push_back({label, c.gate, c.setting, formatted("%.4g", c.events),
                      formatted("%.3g", rate),
                      rate > 0 ? formatted("%.3g", c.events / rate) : std::string("-")});
    }
  page.table(rows, 3);
}

/// Decisions in a row that differ in nothing but their time and size.
struct Fold {
  const AdmissionDecision* last = nullptr;
  std::uint64_t decisions = 0, chunks = 0;
};

void add_decisions(TextPage& page, const EngineStats& stats, MonotonicTime now) {
  std::vector<Fold> folds;
  for (const AdmissionDecision& d : stats.admission.decisions) {
    const auto* last = folds.empty() ? nullptr : folds.back().last;
    const bool is_same = last != nullptr && last->tier == d.tier &&
                         last->is_promotion == d.is_promotion && last->admitted == d.admitted &&
                         last->reason == d.reason && last->refuser == d.refuser;
    if (!is_same) folds.emplace_back();
    folds.back() = {&d, folds.back().decisions + 1, folds.back().chunks + d.chunks};
  }
  page.heading("Last decisions, newest last; repeated ones in one line");
  if (folds.empty()) return page.line("  none");
  const std::size_t from = folds.size() > kDecisionLines ? folds.size() - kDecisionLines : 0;
  if (from > 0) page.line("  ... " + std::to_string(from) + " lines before");
  for (std::size_t i = from; i < folds.size(); ++i) {
    const AdmissionDecision& d = *folds[i].last;
    std::string text =
        formatted("%9.3f s ago  %4llux  ", to_seconds(now - d.at), count(folds[i].decisions));
    text += label_of(stats, d.tier) + " " + std::string(direction(d.is_promotion)) + ", " +
            std::to_string(folds[i].chunks) + " chunks: ";
    text += d.admitted ? "admitted"
            : d.refuser == to_string(d.reason)
                ? "refused by " + d.refuser
                : "refused by " + d.refuser + " (" + std::string(to_string(d.reason)) + ")";
    text += ", then " + std::to_string(d.in_flight_chunks) + " chunks in flight";
    page.paragraph(text, 2);
    if (d.numbers != nullptr && !d.numbers->empty()) page.paragraph(*d.numbers, 26);
  }
}

}  // namespace

std::string admission_page_text(const EngineStats& stats, MonotonicTime now) {
  TextPage page;
  add_flows(page, stats);
  if (!stats.admission.tiers.empty()) {
    add_refusals(page, stats);
    add_gates(page, stats);
    add_verdicts(page, stats);
    add_cadences(page, stats);
    add_decisions(page, stats, now);
  }
  page.heading("How to read this");
  for (const auto note : kNotes) page.paragraph("- " + std::string(note), 2);
  return page.take();
}

}  // namespace kv_offload
