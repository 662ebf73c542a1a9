// What tests know of cumsum: every element is a sum of its own.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CumsumOps {
namespace {

Tensors Cumsum(RefCall& c) {
  RefTensor y = Zeros(c.in[0].dims);
  const int64_t axis = Axis(c.attrs, y.dims.size()), n = y.dims[axis];
  const bool reverse = c.attrs.Bool("reverse"), exclusive = c.attrs.Bool("exclusive");
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t here = Unravel(y.dims, i)[axis];
    Dims at = Unravel(y.dims, i);
    for (int64_t j = 0; j < n; ++j) {
      at[axis] = j;
      if ((reverse ? j > here : j < here) || (!exclusive && j == here))
        y.values[i] += c.in[0].values[Ravel(y.dims, at)];
    }
  }
  return {y};
}

constexpr const char kTypes[] = R"(
cumsum(f32[2,3]) {axis=1} = f32[2,3]
cumsum(f32[2,3]) {axis=0 reverse=true exclusive=true} = f32[2,3]
cumsum(f32[2,3]) {axis=2} ! attribute 'axis' is 2 but must be in [0, 1]
cumsum(f32[2,3]) {axis=1 reverse=1} ! attribute 'reverse' is an integer but must be a bool
cumsum(i32[2]) {axis=0} ! x is i32[2] but must be floating
)";

constexpr const char kSignatures[] = R"(
cumsum(f32[8,4,16]) {axis=1} | S(2)->S(2) | S(0)->S(0) P->P | - | cum_ops.cpp | there only dimensions behind the summed
    one
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const bool reverse : {false, true}) {
    for (const bool exclusive : {false, true}) {
      const int64_t axis = reverse == exclusive ? 0 : 1;
      const AttrMap attrs = {{"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}};
      cases.push_back({"cumsum", "small", attrs, {r.Uniform({7, 5, 3})}});
    }
  }
}

// Single floats would lose the ones between.
void AddLargeTermsThatCancel(OpCases& cases) {
  for (const Dims& dims : std::vector<Dims>{{300}, {300, 1}, {300, 3}}) {
    RefTensor x = Zeros(dims);
    for (double& value : x.values) value = 1;
    for (int64_t i = 0; i < x.count() / 300; ++i) {
      x.values[i] = 1e9;
      x.values[x.count() - 1 - i] = -1e9;
    }
    for (const bool reverse : {false, true}) {
      cases.push_back({"cumsum", "large terms that cancel", {{"axis", int64_t{0}}, {"reverse", reverse}}, {x}, 1e-7});
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  AddLargeTermsThatCancel(cases);
  for (const auto& [dims, axis] : std::vector<std::pair<Dims, int64_t>>{{{37}, 0},
                                                                        {{5, 37}, 1},
                                                                        {{5, 100}, 1},
                                                                        {{5, 37}, 0},
                                                                        {{3, 4, 5}, 1},
                                                                        {{2, 9, 300}, 1},
                                                                        {{0, 4}, 1},
                                                                        {{4, 0}, 1},
                                                                        {{4, 0}, 0},
                                                                        {{200, 500}, 1},
                                                                        {{200, 500}, 0}}) {
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        const AttrMap attrs = {{"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}};
        cases.push_back(InPlace({"cumsum", "axis", attrs, {r.Uniform(dims)}, 2e-6}, 0));
      }
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"cumsum", Cumsum}};
  // Sums do not cross.
  facts.wrong_signatures = {{"cumsum", {2}, {"S(0)->S(0)"}}};
  facts.dsl = {{[](Operands d) { return Cumsum(d.F32({2, 3, 8, 8}), -1); }, "cumsum", "f32[2,3,8,8]"}};
  return facts;
}

}  // namespace oneflow::testing::CumsumOps
