// What tests know of dropout. All that it shares with the kernels is the definition of the random numbers.
#include "kernels/random.h"
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::DropoutOps {
namespace {

Tensors Dropout(RefCall& c) {
  RefTensor y = c.in[0];
  const double rate = c.attrs.Double("rate");
  const uint64_t key = RandomKey(c.attrs.Int("seed"), c.attrs.Int("key"));
  for (int64_t i = 0; i < y.count(); ++i) {
    const float u = ToUniform(RandomBits(key, c.context.step, c.context.micro_batch * y.count() + i));
    y.values[i] = u >= static_cast<float>(rate) ? y.values[i] / (1 - rate) : 0;
  }
  return {y};
}

constexpr const char kTypes[] = R"(
dropout(f32[2,3]) {rate=0.1} = f32[2,3]
dropout(f32[2,3]) {rate=0 key=drop} = f32[2,3]
dropout(f32[2,3]) {rate=0.1 key=-42 seed=7} = f32[2,3]
dropout(f32[2]) ! attribute 'rate' is missing
dropout(f32[2]) {rate=1.0} ! attribute 'rate' is 1 but must be in [0, 1)
dropout(f32[2]) {rate=-0.5} ! attribute 'rate' is -0.5 but must be in [0, 1)
dropout(f32[2]) {rate=0.1 key=0.5} ! attribute 'key' is a number but must be a string
)";

constexpr const char kSignatures[] = R"(
dropout(f32[8,4]) {rate=0.5} | S(0)->S(0) S(1)->S(1) | P->P | - | dropout_op.cpp | the mask is a function of the logical
    index
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& dims : {Dims{7, 5}, Dims{3, 7, 9}}) {
    cases.push_back(
        {"dropout", "small", {{"rate", 0.4}, {"seed", int64_t{3}}, {"key", int64_t{8}}}, {r.Uniform(dims)}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const AttrMap attrs = {{"rate", rate}, {"seed", int64_t{7}}, {"key", int64_t{-1234567890123}}};
    cases.push_back({"dropout", "odd size", attrs, {r.Uniform({3, 67})}, 2e-6, {5, 3}, 0});
    cases.push_back({"dropout", "several threads", attrs, {r.Uniform({211, 301})}, 2e-6, {1LL << 40, 0}});
    cases.push_back({"dropout", "empty", attrs, {r.Uniform({0, 4})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"dropout", Dropout}};
  facts.dsl = {{[](Operands d) { return Dropout(d.F32({2, 3}), 0.5); }, "dropout", "f32[2,3]"}};
  return facts;
}

}  // namespace oneflow::testing::DropoutOps
