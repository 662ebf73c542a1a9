// What tests know of dropout and of random tensors. All that they share with the kernels is the definition of the
// random numbers.
#include <cmath>

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

double Number(const RefCall& c, int64_t index) {
  return ToUniform(RandomBits(RandomKey(c.attrs.Int("seed"), c.attrs.Int("key")), c.context.step, index));
}

Tensors UniformLike(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t first = c.context.micro_batch * y.count();
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] = Number(c, first + i);
  return {y};
}

Tensors NormalLike(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t first = c.context.micro_batch * y.count();
  for (int64_t i = 0; i < y.count(); ++i) {
    const double u = Number(c, 2 * (first + i)), v = Number(c, 2 * (first + i) + 1);
    y.values[i] = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
  }
  return {y};
}

constexpr const char kTypes[] = R"(
uniform_like(f32[2,3]) = f32[2,3]
uniform_like(f32[0]) {key=noise} = f32[0]
uniform_like(i32[2]) ! x is i32[2] but must be f32
normal_like(f32[]) {key=3 seed=4} = f32[]
normal_like(bf16[2]) ! x is bf16[2] but must be f32
normal_like(f32[2]) {key=true} ! attribute 'key' is a bool but must be a string
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
uniform_like(f32[8,4]) | - | S(0)->S(0) S(1)->S(1) | - | - | a number is a function of the logical index
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const Dims& dims : {Dims{7, 5}, Dims{3, 7, 9}}) {
    cases.push_back(
        {"dropout", "small", {{"rate", 0.4}, {"seed", int64_t{3}}, {"key", int64_t{8}}}, {r.Uniform(dims)}});
    for (const char* op : {"uniform_like", "normal_like"}) {
      cases.push_back({op, "small", {{"seed", int64_t{3}}, {"key", int64_t{8}}}, {r.Uniform(dims)}});
    }
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const AttrMap attrs = {{"rate", rate}, {"seed", int64_t{7}}, {"key", int64_t{-1234567890123}}};
    cases.push_back({"dropout", "odd size", attrs, {r.Uniform({3, 67})}, 2e-6, {5, 3}, 0});
    cases.push_back({"dropout", "several threads", attrs, {r.Uniform({211, 301})}, 2e-6, {1LL << 40, 0}});
    cases.push_back({"dropout", "empty", attrs, {r.Uniform({0, 4})}});
  }
  for (const char* op : {"uniform_like", "normal_like"}) {
    const AttrMap attrs = {{"seed", int64_t{7}}, {"key", int64_t{-1234567890123}}};
    cases.push_back({op, "odd size", attrs, {r.Uniform({3, 67})}, 2e-6, {5, 3}, 0});
    cases.push_back({op, "several threads", attrs, {r.Uniform({211, 301})}, 2e-6, {1LL << 40, 0}});
    cases.push_back({op, "empty", attrs, {r.Uniform({0, 4})}});
    cases.push_back({op, "no dimension", attrs, {r.Uniform({})}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"dropout", Dropout}, {"uniform_like", UniformLike}, {"normal_like", NormalLike}};
  facts.dsl = {{[](Operands d) {
                  return Dropout(d.F32({2, 3}), 0.5);
                },
                "dropout", "f32[2,3]"},
               {[](Operands d) {
                  return UniformLike(d.F32({2, 3}));
                },
                "uniform_like", "f32[2,3]"},
               {[](Operands d) {
                  return NormalLike(d.F32({2, 3}));
                },
                "normal_like", "f32[2,3]"}};
  facts.without_gradient = {{"uniform_like", "reads no values"}, {"normal_like", "reads no values"}};
  return facts;
}

}  // namespace oneflow::testing::DropoutOps
