#include "oneflow_core/nn/initial.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow::nn {
namespace {

std::string Shortest(double value) {
  char buffer[32];  // the longest double has 24 characters
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

// Uniform on [-b, b) has variance b^2 / 3.
std::string UniformOfVariance(double variance) { return Uniform(std::sqrt(3 * variance)); }

}  // namespace

std::string Normal(double standard_deviation) { return absl::StrCat("normal(", Shortest(standard_deviation), ")"); }
std::string Uniform(double bound) { return absl::StrCat("uniform(", Shortest(bound), ")"); }
std::string List(const std::vector<int64_t>& values) { return absl::StrCat("list(", absl::StrJoin(values, ","), ")"); }
std::string HeUniform(int64_t fan_in) { return UniformOfVariance(2.0 / static_cast<double>(fan_in)); }
std::string LecunUniform(int64_t fan_in) { return UniformOfVariance(1.0 / static_cast<double>(fan_in)); }

}  // namespace oneflow::nn
