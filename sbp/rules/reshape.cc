// reshape keeps the row-major order of elements, so it preserves a split only where equal parts on both sides are the
// same elements. Dimensions of both sides fall into groups of equal products:
//
//   [8,4,6] -> [8,24]      {8}->{8}   {4,6}->{24}
//   [12,5] -> [3,4,5]      {12}->{3,4}   {5}->{5}
//
// Within a group only the leading dimension can be split. If the leading sizes are equal, any split does; if not, both
// must be divisible by the axis, because then every part is the same number of elements; uneven parts of different
// sizes would not begin at the same element.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// Position and size of the next dimension that is not 1 (those order no elements); past the end: size 1.
int64_t Next(const Shape& shape, int& d) {
  while (d < shape.rank() && shape[d] == 1) ++d;
  return d < shape.rank() ? shape[d++] : 1;
}

Result Reshape(const RuleContext& context) {
  const Shape& x = context.inputs[0].shape;
  const Shape& y = context.outputs[0].shape;
  FactorRule rule;
  rule.inputs = {std::vector<int>(x.rank(), FactorRule::kNone)};
  rule.outputs = {std::vector<int>(y.rank(), FactorRule::kNone)};
  rule.linear = {{0}};
  int i = 0, j = 0;
  while (x.count() > 0) {
    const int64_t x_leading = Next(x, i);
    const int64_t y_leading = Next(y, j);
    if (x_leading == 1 && y_leading == 1) break;
    const int x_dim = i - 1, y_dim = j - 1;
    for (int64_t x_product = x_leading, y_product = y_leading; x_product != y_product;) {
      if (x_product < y_product) {
        x_product *= Next(x, i);
      } else {
        y_product *= Next(y, j);
      }
    }
    const int p = context.axis_size;
    if (x_leading != y_leading && (x_leading % p != 0 || y_leading % p != 0)) continue;
    rule.inputs[0][x_dim] = rule.outputs[0][y_dim] = static_cast<int>(rule.letters.size());
    rule.letters.push_back({absl::StrCat("d", x_dim)});
  }
  return FromFactors(rule, context);
}

}  // namespace

RuleList Reshapes() {
  static constexpr OpRule kRules[] = {
      {"reshape", Reshape},
  };
  return kRules;
}

}  // namespace oneflow::rules
