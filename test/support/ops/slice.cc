// What tests know of slice and of its gradient.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::SliceOps {
namespace {

Tensors Slice(RefCall& c) {
  Dims start(c.in[0].dims.size(), 0), extent = c.in[0].dims;
  const int64_t axis = Axis(c.attrs, extent.size());
  start[axis] = c.attrs.Int("start");
  extent[axis] = c.attrs.Int("size");
  return {Cut(c.in[0], start, extent)};
}

Tensors SliceGrad(RefCall& c) {
  Dims start(c.in[0].dims.size(), 0), dims = c.in[0].dims;
  const int64_t axis = Axis(c.attrs, dims.size());
  start[axis] = c.attrs.Int("start");
  dims[axis] = c.attrs.Int("size");
  RefTensor dx = Zeros(dims, c.in[0].dtype);
  Paste(c.in[0], start, &dx);
  return {dx};
}

Tensors Flip(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t axis = Axis(c.attrs, y.dims.size());
  for (int64_t i = 0; i < y.count(); ++i) {
    Dims at = Unravel(y.dims, i);
    at[axis] = y.dims[axis] - 1 - at[axis];
    y.values[i] = c.in[0].values[Ravel(y.dims, at)];
  }
  return {y};
}

constexpr const char kTypes[] = R"(
flip(bool[2,5]) {axis=1} = bool[2,5]
flip(f32[2,5]) {axis=0} = f32[2,5]
flip(f32[2,5]) {axis=2} ! attribute 'axis' is 2 but must be in [0, 1]
slice(f32[2,5]) {axis=1 start=1 size=3} = f32[2,3]
slice(u8[5]) {axis=0 start=5 size=0} = u8[0]
slice(f32[2,5]) {axis=1 start=3 size=3} ! 3 from 3 is outside dimension 1 of x, which is f32[2,5]
slice(f32[2,5]) {axis=1 start=9223372036854775807 size=3} ! 3 from 9223372036854775807 is outside dimension 1 of x,
    which is f32[2,5]
slice(f32[2,5]) {axis=2 start=0 size=1} ! attribute 'axis' is 2 but must be in [0, 1]
slice(f32[2,5]) {axis=0 start=-1 size=1} ! attribute 'start' is -1 but must be at least 0
slice(f32[]) {axis=0 start=0 size=1} ! x is f32[] but must have at least 1 dimensions
slice_grad(f32[2,3]) {axis=1 start=1 size=5} = f32[2,5]
slice_grad(f32[2,3]) {axis=1 start=3 size=5} ! dy is f32[2,3]; at 3 of dimension 1 it does not fit into 5
slice_grad(f32[2,3]) {axis=1 start=0 size=2} ! dy is f32[2,3]; at 0 of dimension 1 it does not fit into 2
)";

constexpr const char kSignatures[] = R"(
slice(f32[8,16]) {axis=1, start=4, size=8} | S(0)->S(0) P->P | - | S(1)->P | slice_op.cpp | not S(1)->P, parts among
    zeros: a boxing sends the slice to who reads it, and nothing is added
)";

AttrMap Part(int64_t axis, int64_t start, int64_t size) { return {{"axis", axis}, {"start", start}, {"size", size}}; }

void AddExamples(Random& r, OpCases& cases) {
  for (const int64_t axis : {0, 1}) cases.push_back({"flip", "small", {{"axis", axis}}, {r.Uniform({7, 5, 3})}});
  for (const int64_t axis : {0, 1}) {
    cases.push_back({"slice", "small", Part(axis, 1, 3), {r.Uniform({7, 5, 3})}});
    cases.push_back({"slice_grad", "small", Part(axis, 1, 9), {r.Uniform({7, 5, 3})}});
  }
  cases.push_back({"slice", "integers", Part(1, 2, 3), {r.Integers({7, 5}, 100)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t axis : {0, 1, 2}) {
      cases.push_back({"flip", "dtypes", {{"axis", axis}}, {r.Small({4, 7, 19}, dtype)}, 0});
    }
  }
  for (const Dims& dims : std::vector<Dims>{{0, 3, 4}, {5, 0, 4}, {37, 40, 24}, {1, 1, 129}, {6, 1, 1}}) {
    for (const int64_t axis : {0, 1, 2}) cases.push_back({"flip", "shapes", {{"axis", axis}}, {r.Uniform(dims)}, 0});
  }
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"slice", "dtypes", Part(1, 2, 3), {r.Small({4, 7, 3}, dtype)}, 0});
    cases.push_back({"slice_grad", "dtypes", Part(1, 2, 7), {r.Small({4, 3, 3}, dtype)}, 0});
  }
  for (const int64_t axis : {1, 2, 3}) {
    cases.push_back({"slice", "of an image", Part(axis, 1, 4), {r.Uniform({2, 32, 6, 5})}, 0});
  }
  cases.push_back({"slice", "first dimension", Part(0, 1, 2), {r.Uniform({4, 37})}, 0});
  cases.push_back({"slice", "to nothing", Part(0, 4, 0), {r.Uniform({4, 37})}, 0});
  cases.push_back({"slice_grad", "from nothing", Part(0, 4, 4), {r.Uniform({0, 37})}, 0});
}

void AddExtremes(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    cases.push_back({"slice", "narrow", Part(1, 1, 3), {Of(dtype, r.Uniform({7, 5}))}});
    cases.push_back({"slice_grad", "narrow", Part(1, 1, 9), {Of(dtype, r.Uniform({7, 5}))}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"slice", Slice}, {"slice_grad", SliceGrad}, {"flip", Flip}};
  facts.dsl = {{[](Operands d) {
                  return Slice(d.F32({2, 3}), -1, 1, 2);
                },
                "slice", "f32[2,2]"},
               {[](Operands d) {
                  return Flip(d.F32({2, 3}), -1);
                },
                "flip", "f32[2,3]"}};
  return facts;
}

}  // namespace oneflow::testing::SliceOps
