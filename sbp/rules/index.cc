// gather and scatter_add: a dimension of one tensor becomes the dimensions of the indices, or the other way round.
//
//   letter     x      ids     y            for x[p,v,q], ids[i], y[p,i,q] with axis 1
//   p         S(0)    B      S(0)
//   v         S(1)    B       P            each rank gives the rows that it has
//   q         S(2)    B      S(2)
//   i          B     S(0)    S(1)
//
// scatter_add has y and x exchanged: a split i makes addends of x, and a split v leaves y whole. So has the gradient of
// an embedding that is added to something.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

// The letters of the three tensors; `v` is no letter that both x and y have.
struct Letters {
  FactorRule rule;  // without operands
  std::vector<int> x, ids, y;
};

Letters LettersOf(const Shape& x, const Shape& ids, int64_t axis) {
  Letters letters = {OneLetterPerDimension(x), {}, {}, {}};
  letters.x = AllLetters(letters.rule);
  for (int i = 0; i < ids.rank(); ++i) {
    letters.ids.push_back(static_cast<int>(letters.rule.letters.size()));
    letters.rule.letters.push_back({absl::StrCat("i", i)});
  }
  letters.y = letters.x;
  letters.y.erase(letters.y.begin() + axis);
  letters.y.insert(letters.y.begin() + axis, letters.ids.begin(), letters.ids.end());
  return letters;
}

Result Gather(const RuleContext& context) {
  const int64_t axis = context.attrs.Int("axis");
  Letters letters = LettersOf(context.inputs[0].shape, context.inputs[1].shape, axis);
  letters.rule.letters[axis].mark = FactorRule::Mark::kSum;
  letters.rule.inputs = {letters.x, letters.ids};
  letters.rule.outputs = {letters.y};
  letters.rule.linear = {{0}};
  return FromFactors(letters.rule, context);
}

Result ScatterAdd(const RuleContext& context) {
  Letters letters = LettersOf(context.outputs[0].shape, context.inputs[1].shape, context.attrs.Int("axis"));
  for (const int i : letters.ids) letters.rule.letters[i].mark = FactorRule::Mark::kSum;
  letters.rule.inputs = {letters.y, letters.ids};
  letters.rule.outputs = {letters.x};
  letters.rule.linear = {{0}};
  return FromFactors(letters.rule, context);
}

}  // namespace

RuleList Indices() {
  static constexpr OpRule kRules[] = {
      {"gather", Gather},
      {"scatter_add", ScatterAdd},
  };
  return kRules;
}

}  // namespace oneflow::rules
