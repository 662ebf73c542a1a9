// Initial values of variables, as the text that GraphBuilder::Variable takes. Numbers are written so that they read
// back to the same double: a weight starts the same wherever the text travels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oneflow::nn {

std::string Normal(double standard_deviation);         // "normal(0.02)"
std::string Uniform(double bound);                     // "uniform(0.1)": in [-bound, bound)
std::string List(const std::vector<int64_t>& values);  // "list(1,2,3)"

// Uniform with variance 2 / fan_in: keeps the variance of signals through a layer that a ReLU follows (He et al.,
// 2015).
std::string HeUniform(int64_t fan_in);
// Uniform with variance 1 / fan_in: the same for a layer that nothing follows.
std::string LecunUniform(int64_t fan_in);

}  // namespace oneflow::nn
