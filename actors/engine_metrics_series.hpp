#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/metric_definition.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// The words that the tables of the engine's series are written in. A row names a member of the
// totals; what turns it into labelled values is here, once.
namespace kv_offload {

/// One value of a series.
struct MetricPoint {
  std::vector<std::string> label_values;  ///< co-indexed with MetricDefinition::label_names
  double value = 0;                       ///< counters and gauges
  const Histogram* histogram = nullptr;   ///< histograms; part of the stats that were read
};

/// Reads all values of a series. Totals that were not published yet read as 0, with all their
/// labels.
using ReadPoints = std::function<std::vector<MetricPoint>(const EngineStats&)>;

struct EngineSeries {
  MetricDefinition definition;
  ReadPoints read;
  /// Null: every engine has the series. Else only those whose configuration gives it a meaning.
  bool (*is_shown)(const EngineConfig&) = nullptr;
};
/// The row, for such configurations alone.
inline EngineSeries only_if(bool (*is_shown)(const EngineConfig&), EngineSeries row) {
  row.is_shown = is_shown;
  return row;
}

/// The engine's whole table, in the order of the page.
const std::vector<EngineSeries>& engine_series();
/// How many series were left out of the page; its value is known to the page alone.
const MetricDefinition& left_out_definition();

// Parts of the table.
std::vector<EngineSeries> reference_series();  ///< under the reference's names, prefix "vllm:"
std::vector<EngineSeries> tier_series();       ///< ours, by tier
std::vector<EngineSeries> primary_series();    ///< ours, of the primary tier
std::vector<EngineSeries> worker_series();     ///< copies by the engine's workers
std::vector<EngineSeries> domain_series();     ///< NUMA domains
std::vector<EngineSeries> work_series();       ///< ours, of requests, jobs, admission and actors

// -- rows ----------------------------------------------------------------------------------------

/// `help` says what and in which unit; `when` at which moment it is counted or observed. The
/// labels are added to the text.
EngineSeries counter(std::string name, std::string help, std::string when,
                     std::vector<std::string> labels, ReadPoints read);
EngineSeries gauge(std::string name, std::string help, std::vector<std::string> labels,
                   ReadPoints read);
EngineSeries histogram(std::string name, std::string help, std::string when,
                       std::vector<std::string> labels, std::vector<double> buckets,
                       ReadPoints read);

// -- where totals are found ----------------------------------------------------------------------

inline std::size_t num_secondary_tiers(const EngineStats& stats) {
  return stats.tier_labels.empty() ? 0 : stats.tier_labels.size() - 1;
}

template <class T>
const T& at_or_zero(const std::vector<T>& totals, std::size_t i) {
  static const T kZero{};
  return i < totals.size() ? totals[i] : kZero;
}

template <class Totals>
const Totals& totals_of(const EngineStats& stats);
template <>
inline const SchedulerTotals& totals_of(const EngineStats& s) {
  return s.scheduler;
}
template <>
inline const TrackerTotals& totals_of(const EngineStats& s) {
  return s.tracker;
}
template <>
inline const PrimaryTotals& totals_of(const EngineStats& s) {
  return s.primary;
}
template <>
inline const AdmissionActorTotals& totals_of(const EngineStats& s) {
  return s.admission;
}

/// Of secondary tier `tier`.
template <class Totals>
const Totals& totals_of(const EngineStats& stats, std::size_t tier);
template <>
inline const OfferTotals& totals_of(const EngineStats& s, std::size_t tier) {
  return at_or_zero(s.scheduler.offers, tier);
}
template <>
inline const TransferTotals& totals_of(const EngineStats& s, std::size_t tier) {
  return at_or_zero(s.tracker.tiers, tier);
}
template <>
inline const AdmissionTierTotals& totals_of(const EngineStats& s, std::size_t tier) {
  return at_or_zero(s.admission.tiers, tier);
}
template <>
inline const TierActorTotals& totals_of(const EngineStats& s, std::size_t tier) {
  return at_or_zero(s.tiers, tier);
}

// -- readers -------------------------------------------------------------------------------------

inline void set(MetricPoint& point, const Histogram& h) { point.histogram = &h; }
inline void set(MetricPoint& point, const Amount& amount) {
  point.value = static_cast<double>(amount.chunks);
}
template <class Number>
void set(MetricPoint& point, const Number& number) {
  point.value = static_cast<double>(number);
}

/// No label. `what` is a member or a function of `Totals`.
template <class Totals, class What>
ReadPoints one(What what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points(1);
    set(points[0], std::invoke(what, totals_of<Totals>(stats)));
    return points;
  };
}
template <class Totals, class Member>
ReadPoints one(Member Totals::*member) {
  return one<Totals, Member Totals::*>(member);
}

/// By "tier", secondary tiers.
template <class Totals, class What>
ReadPoints each_tier(What what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points(num_secondary_tiers(stats));
    for (std::size_t t = 0; t < points.size(); ++t) {
      points[t].label_values = {stats.tier_labels[t + 1]};
      set(points[t], std::invoke(what, totals_of<Totals>(stats, t)));
    }
    return points;
  };
}
template <class Totals, class Member>
ReadPoints each_tier(Member Totals::*member) {
  return each_tier<Totals, Member Totals::*>(member);
}

/// By "tier", the primary tier included; those that only secondary tiers can have start at 1.
template <class Member>
ReadPoints each_lookup(Member LookupTotals::*member, std::size_t first = 0) {
  return [member, first](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t i = first; i < stats.tier_labels.size(); ++i) {
      points.push_back({{stats.tier_labels[i]}, 0, nullptr});
      set(points.back(), at_or_zero(stats.scheduler.lookups, i).*member);
    }
    return points;
  };
}

/// By "tier" and "direction".
template <class Totals, class Member>
ReadPoints each_direction(Member Totals::*cascade, Member Totals::*promotion) {
  return [cascade, promotion](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t t = 0; t < num_secondary_tiers(stats); ++t)
      for (const bool is_promotion : {false, true}) {
        points.push_back(
            {{stats.tier_labels[t + 1], is_promotion ? "promotion" : "cascade"}, 0, nullptr});
        set(points.back(), totals_of<Totals>(stats, t).*(is_promotion ? promotion : cascade));
      }
    return points;
  };
}

/// By "tier", "direction" and "reason". Reasons below `first` are no reasons ("none").
template <class Reason, class Totals, std::size_t N>
ReadPoints each_reason(std::size_t first, std::array<Amount, N> Totals::*cascade,
                       std::array<Amount, N> Totals::*promotion) {
  return [=](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t t = 0; t < num_secondary_tiers(stats); ++t)
      for (const bool is_promotion : {false, true})
        for (std::size_t r = first; r < N; ++r) {
          points.push_back({{stats.tier_labels[t + 1], is_promotion ? "promotion" : "cascade",
                             std::string(to_string(static_cast<Reason>(r)))},
                            0,
                            nullptr});
          set(points.back(),
              (totals_of<Totals>(stats, t).*(is_promotion ? promotion : cascade))[r]);
        }
    return points;
  };
}

}  // namespace kv_offload
