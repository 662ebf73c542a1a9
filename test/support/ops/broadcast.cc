// What tests know of sum_to and broadcast_to, each the other's gradient.
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::BroadcastOps {
namespace {

Tensors SumTo(RefCall& c) {
  const RefTensor& x = c.in[0];
  RefTensor y = Zeros(c.attrs.Ints("shape"), x.dtype);
  for (int64_t i = 0; i < x.count(); ++i) {
    const Dims at = Unravel(x.dims, i);
    Dims mine(y.dims.size());
    for (size_t d = 0; d < mine.size(); ++d) mine[d] = y.dims[d] == 1 ? 0 : at[at.size() - mine.size() + d];
    y.values[Ravel(y.dims, mine)] += x.values[i];
  }
  return {y};
}

Tensors BroadcastTo(RefCall& c) {
  RefTensor y = Zeros(c.attrs.Ints("shape"), c.in[0].dtype);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] = Broadcast(c.in[0], Unravel(y.dims, i));
  return {y};
}

constexpr const char kTypes[] = R"(
sum_to(f32[2,3,4]) {shape=[3,1]} = f32[3,1]
sum_to(f32[2,3]) {shape=[]} = f32[]
sum_to(bf16[2,3]) {out_dtype=f32 shape=[3]} = f32[3]
sum_to(f32[2,3]) {shape=[2]} ! attribute 'shape': [2] does not broadcast to [2,3]
sum_to(f32[1,3]) {shape=[2,3]} ! attribute 'shape': [2,3] does not broadcast to [1,3]
broadcast_to(f32[3,1]) {shape=[2,3,4]} = f32[2,3,4]
broadcast_to(f32[]) {shape=[2]} = f32[2]
broadcast_to(f32[2]) {shape=[3]} ! attribute 'shape': [2] does not broadcast to [3]
broadcast_to(f32[2,3]) {shape=[3]} ! attribute 'shape': [2,3] does not broadcast to [3]
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& shape : {Dims{5, 3}, Dims{5, 1}, Dims{7, 1, 3}, Dims{}}) {
    cases.push_back({"sum_to", "small", {{"shape", shape}}, {r.Uniform({7, 5, 3})}});
    cases.push_back({"broadcast_to", "small", {{"shape", Dims{7, 5, 3}}}, {r.Uniform(shape)}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  const std::pair<Dims, Dims> shapes[] = {{{4, 5, 37}, {5, 37}},    {{4, 5, 37}, {37}},       {{4, 5, 37}, {5, 1}},
                                          {{4, 5, 37}, {4, 1, 37}}, {{4, 5, 37}, {}},         {{5, 1}, {5, 1}},
                                          {{0, 37}, {37}},          {{200, 20, 37}, {20, 37}}};
  for (const auto& [from, to] : shapes) cases.push_back({"sum_to", "shapes", {{"shape", to}}, {r.Uniform(from)}, 1e-5});
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"broadcast_to", "dtypes", {{"shape", Dims{3, 4, 5}}}, {r.Small({4, 1}, dtype)}, 0});
  }
  for (const DType dtype : kAllDTypes) {
    cases.push_back(
        {"broadcast_to", "to all pixels", {{"shape", Dims{2, 32, 3, 5}}}, {r.Small({2, 32, 1, 1}, dtype)}, 0});
  }
  cases.push_back({"broadcast_to", "from a scalar", {{"shape", Dims{37}}}, {r.Uniform({})}, 0});
  cases.push_back({"broadcast_to", "inner dimension", {{"shape", Dims{6, 37}}}, {r.Uniform({6, 1})}, 0});
  cases.push_back({"broadcast_to", "empty", {{"shape", Dims{0, 37}}}, {r.Uniform({37})}, 0});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"sum_to", SumTo}, {"broadcast_to", BroadcastTo}};
  facts.dsl = {{[](Operands d) { return BroadcastTo(d.F32({2, 3}), {4, 2, 3}); }, "broadcast_to", "f32[4,2,3]"}};
  return facts;
}

}  // namespace oneflow::testing::BroadcastOps
