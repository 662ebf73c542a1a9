#include "compiler/passes/edges/coding.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/parameter_groups.h"

namespace oneflow {
namespace {

constexpr double kFactor = 1.2;  // between candidates of a number that is not whole

struct MatrixSize {
  double n, m;
};

MatrixSize SizeOf(const Shape& shape) {
  const double n = static_cast<double>(shape[0]);
  return {n, static_cast<double>(shape.count()) / n};
}

// From `low` to `high` times the usual one, and it.
std::vector<double> NumbersAround(double usual, const ChoiceOptions& choice, const Codec& codec) {
  std::vector<double> numbers = {usual};
  if (codec.is_whole) {
    const double most = std::min(codec.most, std::ceil(choice.high * usual));
    for (double x = std::max(codec.least, std::floor(choice.low * usual)); x <= most; ++x) numbers.push_back(x);
  } else {
    for (double x = usual / kFactor; x >= choice.low * usual * (1 - 1e-9); x /= kFactor) numbers.push_back(x);
    for (double x = usual * kFactor; x <= choice.high * usual * (1 + 1e-9); x *= kFactor) numbers.push_back(x);
  }
  const auto is_no_number = [&](double x) { return x < codec.least || x > codec.most; };
  numbers.erase(std::remove_if(numbers.begin(), numbers.end(), is_no_number), numbers.end());
  return numbers;
}

}  // namespace

const CompressGroup* Coding::GroupOf(const std::string& variable) const {
  for (const CompressGroup& group : options_.groups) {
    if (MatchesPattern(group.match, variable)) return &group;
  }
  return nullptr;
}

CompressOptions Coding::OptionsOf(const std::string& variable) const {
  CompressOptions options = options_;
  const CompressGroup* const group = GroupOf(variable);
  if (group != nullptr && group->parameter != 0) options.parameter = group->parameter;
  return options;
}

double Coding::BytesOf(double n, double m, const CompressOptions& options) const {
  const double share = options.participants == 0 ? 1 : static_cast<double>(options.participants) / ranks_;
  return codec_.bytes(n, m, ranks_, options) * share;
}

bool Coding::IsCoded(const std::string& variable, const Shape& shape) const {
  const CompressGroup* const group = GroupOf(variable);
  if (shape.rank() < 2 || shape.count() == 0 || (group != nullptr && group->exact)) return false;
  const auto [n, m] = SizeOf(shape);
  return BytesOf(n, m, OptionsOf(variable)) < 4 * n * m;
}

CodeCounts Coding::CountsOf(const std::string& variable, const Shape& shape) const {
  CompressOptions options = OptionsOf(variable);
  const auto [n, m] = SizeOf(shape);
  const int64_t usual = codec_.count(n, m, options);
  std::map<int64_t, double> bytes;
  for (const double number : NumbersAround(options.parameter, *options.choice, codec_)) {
    options.parameter = number;
    const double of_number = codec_.bytes(n, m, ranks_, options);
    if (of_number < 4 * n * m) bytes.emplace(codec_.count(n, m, options), of_number);
  }
  CodeCounts counts;
  for (const auto& [count, of_count] : bytes) {
    if (count == usual) counts.usual = static_cast<int>(counts.counts.size());
    counts.counts.push_back(count);
    counts.bytes.push_back(of_count);
  }
  return counts;
}

}  // namespace oneflow
