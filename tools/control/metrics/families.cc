#include "tools/control/metrics/families.h"

#include "prometheus/text_serializer.h"

namespace oneflow {

void Families::Counter(const std::string& name, const std::string& help, const MetricLabels& labels, double value) {
  Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void Families::Gauge(const std::string& name, const std::string& help, const MetricLabels& labels, double value) {
  Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void Families::Histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                         const prometheus::Histogram& histogram) {
  Add(name, help, prometheus::MetricType::Histogram, labels, histogram.Collect());
}

prometheus::ClientMetric& Families::Add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                        const MetricLabels& labels, prometheus::ClientMetric metric) {
  const auto [found, is_new] = index_.try_emplace(name, families_.size());
  if (is_new) families_.push_back({.name = name, .help = help, .type = type});
  for (const auto& [label, value] : labels) metric.label.push_back({label, value});
  return families_[found->second].metric.emplace_back(std::move(metric));
}

std::string Families::Text() const { return prometheus::TextSerializer().Serialize(families_); }

prometheus::Histogram::BucketBoundaries SecondsBuckets() {
  return {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5, 10, 25, 50, 100};
}

}  // namespace oneflow
