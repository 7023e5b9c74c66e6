#include "kv_offload/actors/engine_metrics_page.hpp"

#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/engine_metrics_series.hpp"

#include <prometheus/check_names.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace kv_offload {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// What is wrong with a declaration, "" if nothing.
std::string fault_of(const MetricDefinition& d) {
  if (!prometheus::CheckMetricName(d.name)) return "is no metric name";
  for (const auto& label : d.label_names)
    if (!prometheus::CheckLabelName(label)) return "label \"" + label + "\" is no label name";
  if ((d.kind == MetricKind::counter) != d.name.ends_with("_total"))
    return "counters, and only they, end in _total";
  return "";
}

MetricType type_of(MetricKind kind) {
  switch (kind) {
    case MetricKind::counter: return MetricType::Counter;
    case MetricKind::gauge: return MetricType::Gauge;
    case MetricKind::histogram: return MetricType::Histogram;
  }
  return MetricType::Untyped;
}

/// The serializer writes help texts as they are: a line break would end them.
std::string one_line(std::string help) {
  std::replace(help.begin(), help.end(), '\n', ' ');
  std::replace(help.begin(), help.end(), '\\', '/');
  return help;
}

ClientMetric labelled(const MetricDefinition& d, const std::vector<std::string>& values) {
  assert(values.size() == d.label_names.size());
  ClientMetric metric;
  for (std::size_t i = 0; i < values.size(); ++i)
    metric.label.push_back({d.label_names[i], values[i]});
  return metric;
}

/// Per bucket there, cumulative here.
ClientMetric::Histogram cumulative(const std::vector<double>& bounds, const Histogram* histogram) {
  ClientMetric::Histogram out;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    if (histogram != nullptr && i < histogram->counts.size())
      out.sample_count += histogram->counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    out.bucket.push_back({out.sample_count, bound});
  }
  if (histogram != nullptr) out.sample_sum = histogram->sum;
  return out;
}

class PageWriter {
 public:
  explicit PageWriter(const std::vector<MetricDefinition>& definitions) {
    for (const auto& definition : definitions) declare(definition);
  }

  void write(const EngineSeries& series, const EngineStats& stats) {
    const std::string& name = series.definition.name;
    const auto it = declared_.find(name);
    if (it == declared_.end())
      return series.is_shown != nullptr ? void() : leave_out(name, "is not declared");
    Declared& declared = it->second;
    declared.is_engine = true;
    if (declared.definition->label_names != series.definition.label_names ||
        declared.definition->kind != series.definition.kind)
      return leave_out(name, "is declared otherwise");
    for (const MetricPoint& point : series.read(stats)) add(declared, point);
  }

  /// Samples of a policy or a tier. Call after the engine's own series.
  void write(const MetricSample& sample) {
    const auto it = declared_.find(sample.name);
    if (it == declared_.end()) return leave_out(sample.name, "is not declared");
    Declared& declared = it->second;
    const MetricDefinition& d = *declared.definition;
    if (declared.is_engine) return leave_out(sample.name, "belongs to the engine");
    if (d.kind == MetricKind::histogram)
      return leave_out(sample.name, "is declared as a histogram");
    const std::map<std::string, std::string> labels(sample.labels.begin(), sample.labels.end());
    MetricPoint point{{}, sample.value, nullptr};
    for (const auto& name : d.label_names)
      if (const auto label = labels.find(name); label != labels.end())
        point.label_values.push_back(label->second);
    if (point.label_values.size() != d.label_names.size() ||
        sample.labels.size() != d.label_names.size())
      return leave_out(sample.name, "has other labels than declared");
    if (!declared.seen.insert(point.label_values).second)
      return leave_out(sample.name, "appears twice with the same labels");
    add(declared, point);
  }

  MetricsPage take() {
    if (const auto it = declared_.find(left_out_definition().name); it != declared_.end()) {
      const auto num = static_cast<double>(page_.left_out.size());
      page_.families[it->second.family].metric.clear();
      add(it->second, {{}, num, nullptr});
    }
    return std::move(page_);
  }

 private:
  struct Declared {
    const MetricDefinition* definition = nullptr;
    std::size_t family = 0;  ///< index in page_.families
    bool is_engine = false;
    std::set<std::vector<std::string>> seen;
  };

  void declare(const MetricDefinition& definition) {
    if (const auto fault = fault_of(definition); !fault.empty())
      return leave_out(definition.name, fault);
    const bool is_new =
        declared_
            .try_emplace(definition.name, Declared{&definition, page_.families.size(), false, {}})
            .second;
    if (!is_new) return leave_out(definition.name, "is declared twice");
    MetricFamily family;
    family.name = definition.name;
    family.help = one_line(definition.help);
    family.type = type_of(definition.kind);
    page_.families.push_back(std::move(family));
  }

  void add(const Declared& declared, const MetricPoint& point) {
    const MetricDefinition& d = *declared.definition;
    ClientMetric metric = labelled(d, point.label_values);
    switch (d.kind) {
      case MetricKind::counter: metric.counter.value = point.value; break;
      case MetricKind::gauge: metric.gauge.value = point.value; break;
      case MetricKind::histogram:
        if (point.histogram != nullptr && !point.histogram->bounds.empty() &&
            point.histogram->bounds != d.buckets)
          return leave_out(d.name, "has other buckets than declared");
        metric.histogram = cumulative(d.buckets, point.histogram);
        break;
    }
    page_.families[declared.family].metric.push_back(std::move(metric));
  }

  void leave_out(const std::string& name, const std::string& why) {
    page_.left_out.push_back(name + ": " + why);
  }

  MetricsPage page_;
  std::map<std::string, Declared> declared_;
};

}  // namespace

MetricsPage collect_metrics(const EngineStats& stats,
                            const std::vector<MetricDefinition>& definitions) {
  PageWriter page(definitions);
  for (const EngineSeries& series : engine_series()) page.write(series, stats);
  for (const MetricSample& sample : stats.admission.policy_samples) page.write(sample);
  for (const TierActorTotals& tier : stats.tiers)
    for (const MetricSample& sample : tier.samples) page.write(sample);
  return page.take();
}

std::string render_metrics(const EngineStats& stats,
                           const std::vector<MetricDefinition>& definitions) {
  const MetricsPage page = collect_metrics(stats, definitions);
  assert(page.left_out.empty() && "an undeclared metric was emitted, see undeclared_metrics()");
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, page.families);
  return text.str();
}

std::vector<std::string> undeclared_metrics(const EngineStats& stats,
                                            const std::vector<MetricDefinition>& definitions) {
  return collect_metrics(stats, definitions).left_out;
}

}  // namespace kv_offload
