// What was predicted of published runs, and how far off it is, for people.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/published.h"

namespace oneflow {

// One figure of a set: predicted and published, in `unit`. Of runs that could not be predicted there is an error.
struct PredictedFigure {
  std::string name;
  double predicted = 0, published = 0;
  std::string error;

  double deviation() const { return predicted / published - 1; }
};

struct PredictedSet {
  std::string title, unit;
  double bar = 0;  // on the mean deviation, either way
  std::vector<PredictedFigure> figures;

  // Mean and most of |deviation|, of those that were predicted.
  double mean() const;
  double most() const;
  int num_predicted() const;
  bool holds() const { return num_predicted() == static_cast<int>(figures.size()) && mean() <= bar; }
};

// TFLOP/s of a device in each run of an order; negative: it could not be predicted.
struct PredictedOrder {
  std::string name, what;
  PublishedOrder::Claim claim = PublishedOrder::Claim::kFalls;
  std::vector<std::string> runs;
  std::vector<double> teraflops;

  bool holds() const;
};

std::string SetText(const PredictedSet& set);
std::string OrderText(const PredictedOrder& order);

}  // namespace oneflow
