// Metrics of one scrape, as Prometheus reads them: families of values with labels, in its text format.
//
// Names follow its rules: a unit at the end (_seconds, _bytes), _total for what only grows.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"

namespace oneflow {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;  // names and values

class Families {
 public:
  // A value of the family `name`, which the first one describes. REQUIRES: a family is of one kind.
  void Counter(const std::string& name, const std::string& help, const MetricLabels& labels, double value);
  void Gauge(const std::string& name, const std::string& help, const MetricLabels& labels, double value);
  void Histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                 const prometheus::Histogram& histogram);

  std::string Text() const;

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                const MetricLabels& labels, prometheus::ClientMetric metric = {});

  std::vector<prometheus::MetricFamily> families_;
  std::map<std::string, size_t> index_;  // by name
};

// Of what takes from tenths of milliseconds to minutes, three to a power of ten.
prometheus::Histogram::BucketBoundaries SecondsBuckets();

}  // namespace oneflow
