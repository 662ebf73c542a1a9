#include "tools/bench/predict_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

// Whether all rates but the last keep more than half of what the last is below the first.
bool AreKept(const std::vector<double>& rates) {
  const double least = *std::min_element(rates.begin(), rates.end() - 1);
  return rates.back() < rates.front() && rates.front() - least < (rates.front() - rates.back()) / 2;
}

}  // namespace

int PredictedSet::num_predicted() const {
  return static_cast<int>(
      std::count_if(figures.begin(), figures.end(), [](const PredictedFigure& x) { return x.error.empty(); }));
}

double PredictedSet::mean() const {
  double sum = 0;
  for (const PredictedFigure& x : figures) sum += x.error.empty() ? std::abs(x.deviation()) : 0;
  return sum / std::max(1, num_predicted());
}

double PredictedSet::most() const {
  double most = 0;
  for (const PredictedFigure& x : figures) most = std::max(most, x.error.empty() ? std::abs(x.deviation()) : 0);
  return most;
}

bool PredictedOrder::holds() const {
  if (std::any_of(teraflops.begin(), teraflops.end(), [](double rate) { return rate < 0; })) return false;
  const double most = *std::max_element(teraflops.begin(), teraflops.end());
  switch (claim) {
    case PublishedOrder::Claim::kFirstIsBest:
      return std::count(teraflops.begin(), teraflops.end(), most) == 1 && teraflops[0] == most;
    case PublishedOrder::Claim::kFalls:
      return std::is_sorted(teraflops.begin(), teraflops.end(), [](double a, double b) { return a >= b; });
    case PublishedOrder::Claim::kKept:
      return AreKept(teraflops);
  }
  return false;
}

std::string SetText(const PredictedSet& set) {
  std::string text = absl::StrFormat("%-50s %10s %10s %9s\n", absl::StrCat(set.title, ", ", set.unit), "predicted",
                                     "published", "off by");
  for (const PredictedFigure& x : set.figures) {
    if (!x.error.empty()) {
      absl::StrAppendFormat(&text, "  %-48s %10s %10.2f  %s\n", x.name, "-", x.published, x.error);
    } else {
      absl::StrAppendFormat(&text, "  %-48s %10.2f %10.2f %+8.1f%%\n", x.name, x.predicted, x.published,
                            100 * x.deviation());
    }
  }
  return absl::StrCat(text, absl::StrFormat("  mean %.1f%%, at most %.1f%%, of %d of %d; asked for: %.0f%%: %s\n",
                                            100 * set.mean(), 100 * set.most(), set.num_predicted(), set.figures.size(),
                                            100 * set.bar, set.holds() ? "holds" : "does not hold"));
}

std::string OrderText(const PredictedOrder& order) {
  std::string text = absl::StrFormat("%s: %s: %s\n", order.name, order.what, order.holds() ? "holds" : "does not hold");
  for (size_t i = 0; i < order.runs.size(); ++i) {
    absl::StrAppendFormat(&text, "  %-48s %10.1f TFLOP/s of a device\n", order.runs[i], order.teraflops[i]);
  }
  return text;
}

}  // namespace oneflow
