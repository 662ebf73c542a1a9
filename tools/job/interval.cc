#include "tools/job/interval.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace oneflow {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

// "10000", "0.1", "2^18", "inf".
bool ParseEnd(absl::string_view text, long double& end) {
  text = absl::StripAsciiWhitespace(text);
  int exponent = 0;
  if (absl::ConsumePrefix(&text, "2^")) {
    if (!absl::SimpleAtoi(text, &exponent)) return false;
    end = std::ldexp(1.0L, exponent);
    return true;
  }
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || std::isnan(value)) return false;
  end = value;
  return true;
}

std::string EndText(long double end) {
  constexpr long double kLargestInteger = 9'007'199'254'740'992;  // that a double holds exactly
  if (std::floor(end) == end && std::abs(end) <= kLargestInteger) return absl::StrCat(static_cast<int64_t>(end));
  return absl::StrCat(static_cast<double>(end));
}

}  // namespace

absl::StatusOr<Interval> Interval::Parse(absl::string_view text) {
  const auto error = [&] { return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no interval")); };
  if (text == "any") return Interval{-kInfinity, kInfinity, true, true};
  if (text.size() < 2) return error();
  Interval interval;
  interval.low_open = text.front() == '(';
  interval.high_open = text.back() == ')';
  if ((!interval.low_open && text.front() != '[') || (!interval.high_open && text.back() != ']')) return error();
  const std::vector<absl::string_view> ends = absl::StrSplit(text.substr(1, text.size() - 2), ',');
  if (ends.size() != 2 || !ParseEnd(ends[0], interval.low) || !ParseEnd(ends[1], interval.high)) return error();
  const bool is_empty =
      interval.low > interval.high || (interval.low == interval.high && (interval.low_open || interval.high_open));
  if (is_empty || (std::isinf(interval.high) && !interval.high_open)) return error();
  return interval;
}

bool Interval::Contains(long double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

bool Interval::is_bounded() const { return !std::isinf(low) && !std::isinf(high); }

std::string Interval::ToString() const {
  if (std::isinf(low) && std::isinf(high)) return "any";
  return absl::StrCat(low_open ? "(" : "[", EndText(low), ", ", EndText(high), high_open ? ")" : "]");
}

std::string Interval::Complaint(bool is_integer) const {
  if (is_bounded()) return absl::StrCat("is not in ", ToString());
  if (is_integer && low == 0 && !low_open) return "is negative";
  if (is_integer && low == 1 && !low_open) return "is not positive";
  if (std::isinf(low)) return "is not a finite number";
  return absl::StrCat("is not a finite number ", low_open ? "> " : ">= ", EndText(low));
}

}  // namespace oneflow
