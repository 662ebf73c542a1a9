#pragma once

#include <vector>

namespace oneflow {

// Of a non-empty list; of an even number of values the mean of the middle two.
double Median(std::vector<double> values);

}  // namespace oneflow
