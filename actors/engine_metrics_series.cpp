#include "kv_offload/actors/engine_metrics_series.hpp"

#include <iterator>
#include <utility>

namespace kv_offload {
namespace {

std::string labelled(std::string help, const std::vector<std::string>& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    help += (i == 0 ? ", labeled by " : i + 1 == labels.size() ? " and " : ", ") + labels[i];
  return help + ".";
}

EngineSeries row(MetricKind kind, std::string name, std::string help,
                 std::vector<std::string> labels, std::vector<double> buckets, ReadPoints read) {
  MetricDefinition definition;
  definition.name = std::move(name);
  definition.kind = kind;
  definition.help = labelled(std::move(help), labels);
  definition.label_names = std::move(labels);
  definition.buckets = std::move(buckets);
  return {std::move(definition), std::move(read), nullptr};
}

}  // namespace

EngineSeries counter(std::string name, std::string help, std::string when,
                     std::vector<std::string> labels, ReadPoints read) {
  return row(MetricKind::counter, std::move(name), std::move(help) + ", counted when " + when,
             std::move(labels), {}, std::move(read));
}

EngineSeries gauge(std::string name, std::string help, std::vector<std::string> labels,
                   ReadPoints read) {
  return row(MetricKind::gauge, std::move(name), "At present: " + help, std::move(labels), {},
             std::move(read));
}

EngineSeries histogram(std::string name, std::string help, std::string when,
                       std::vector<std::string> labels, std::vector<double> buckets,
                       ReadPoints read) {
  return row(MetricKind::histogram, std::move(name), std::move(help) + ", observed when " + when,
             std::move(labels), std::move(buckets), std::move(read));
}

const std::vector<EngineSeries>& engine_series() {
  static const std::vector<EngineSeries> kTable = [] {
    std::vector<EngineSeries> table;
    for (auto part : {reference_series, tier_series, primary_series, worker_series, domain_series,
                      work_series}) {
      auto rows = part();
      std::move(rows.begin(), rows.end(), std::back_inserter(table));
    }
    return table;
  }();
  return kTable;
}

const MetricDefinition& left_out_definition() {
  static const MetricDefinition kDefinition =
      gauge("kv_offload_metrics_left_out",
            "series missing on this page because their policy or tier emits them without having "
            "declared them like that; stays 0",
            {}, nullptr)
          .definition;
  return kDefinition;
}

}  // namespace kv_offload
