// What training by groups costs in loss: a model of the next byte from sixteen, of 111,000 weights, on the text of the
// C++ library's headers, of which each of four groups reads a quarter of its own. Exact steps, LocalSGD and CO2 with
// and without its penalty see as many samples.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/status.h"
#include "tools/bench/bench_case.h"
#include "tools/bench/plot.h"

namespace oneflow {

// A difference of validation losses, or a loss, with its bar.
struct QualityRow {
  std::string what;
  double value = 0;
  bool at_most = true;
  double bar = 0;

  bool holds() const { return at_most ? value <= bar : value >= bar; }
};

struct Co2Quality {
  std::vector<std::pair<std::string, double>> losses;  // by method, means over seeds
  std::vector<QualityRow> rows;
  std::vector<PlotSeries> by_bytes;  // training losses of the first seed by the megabytes that a rank has sent
};

// Takes some minutes. NotFound without the headers; errors as of MakeJob and RunToEnd.
absl::StatusOr<Co2Quality> MeasureCo2Quality(const BenchContext& context);

}  // namespace oneflow
