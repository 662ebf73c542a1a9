// What tests know of the ops that pass tensors on and keep state. `accumulate` is the sum of one micro-batch.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::PlumbingOps {
namespace {

constexpr const char kTypes[] = R"(
to(f32[2]) = f32[2]
to(u8[2]) = u8[2]
to() ! takes 1 inputs (x) but is given 0
stop_gradient(f32[2,3]) = f32[2,3]
stop_gradient() ! takes 1 inputs (x) but is given 0
step_mean(f32[] f32[]) = f32[]
step_mean(f32[1] f32[]) ! total is f32[1] but must have 0 dimensions
boxing(i32[2]) = i32[2]
boxing(i32[2] i32[2]) ! takes 1 inputs (x) but is given 2
from_tier(f32[2]) {tier=disk} = f32[2]
from_tier(f32[2]) ! attribute 'tier' is missing
to_tier(bf16[2]) {tier=host} = bf16[2]
to_tier(bf16[2]) {tier=tape} ! attribute 'tier' is 'tape', which is no tier
store_in_tier(f32[2] f32[2]) {tier=disk} = bool[0]
store_in_tier(f32[2] f32[3]) {tier=disk} ! v is f32[2], x is f32[3]; they must be the same
accumulate(f32[2,3]) = f32[2,3]
accumulate(bool[2]) ! x is bool[2] but must be floating, i32 or i64
fetch(i32[]) {name=token} =
fetch(f32[]) ! attribute 'name' is missing
fetch(f32[]) {name=''} ! attribute 'name' is empty
assign(f32[2] f32[2]) =
assign(f32[2] f32[3]) ! v is f32[2], x is f32[3]; they must be the same
assign(f32[2] bf16[2]) ! v is f32[2], x is bf16[2]; they must be the same
increment(i64[]) =
increment(i64[] f32[]) =
increment(i32[]) ! v is i32[] but must be i64
increment(i64[] f32[1]) ! scale is f32[1] but must have 0 dimensions
increment(i64[] f32[] f32[]) ! takes 1 inputs (v) but is given 3
)";

constexpr const char kSignatures[] = R"(
accumulate(f32[8,4]) | S(0)->S(0) S(1)->S(1) P->P | - | - | acc_op.cpp | over micro-batches
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"to", "small", {}, {r.Uniform({7, 5})}});
  cases.push_back({"stop_gradient", "small", {}, {r.Uniform({7, 5})}});
  cases.push_back({"step_mean", "small", {}, {Scalar(3), Scalar(4)}});
  cases.push_back({"accumulate", "small", {}, {r.Uniform({7, 5})}});
  cases.push_back({"accumulate", "integers", {}, {r.Integers({7, 5}, 100)}, 0});
  cases.push_back({"assign", "small", {}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
  cases.push_back({"assign", "integers", {}, {r.Integers({7, 5}, 100), r.Integers({7, 5}, 100)}, 0});
  cases.push_back({"increment", "small", {}, {r.Integers({}, 100, DType::kInt64)}, 0});
  cases.push_back({"increment", "with a scale", {}, {r.Integers({}, 100, DType::kInt64), Scalar(0.5)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  cases.push_back({"step_mean", "of none", {}, {Scalar(3), Scalar(0)}, 0});
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"assign", "dtypes", {}, {r.Small({3, 7}, dtype), r.Small({3, 7}, dtype)}, 0});
  }
  cases.push_back({"increment", "large", {}, {r.Integers({}, 1 << 30, DType::kInt64)}, 0});
  cases.push_back({"increment", "skipped", {}, {r.Integers({}, 100, DType::kInt64), Scalar(kNan)}, 0});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32, DType::kInt64}) {
    cases.push_back({"accumulate", "first micro-batch", {}, {r.Small({3, 7}, dtype)}, 0});
    cases.push_back({"accumulate", "images", {}, {r.Small({2, 16, 3, 5}, dtype)}, 0});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"to", [](RefCall& c) { return Tensors{c.in[0]}; }},
                     {"stop_gradient", [](RefCall& c) { return Tensors{c.in[0]}; }},
                     {"step_mean",
                      [](RefCall& c) {
                        RefTensor y = c.in[0];
                        y.values[0] = c.in[1].values[0] == 0 ? 0 : y.values[0] / c.in[1].values[0];
                        return Tensors{y};
                      }},
                     {"accumulate", [](RefCall& c) { return Tensors{c.in[0]}; }},
                     {"assign",
                      [](RefCall& c) {
                        c.in[0].values = c.in[1].values;
                        return Tensors{};
                      }},
                     {"increment", [](RefCall& c) {
                        if (c.in.size() > 1 && std::isnan(c.in[1].values[0])) return Tensors{};
                        for (double& v : c.in[0].values) v += 1;
                        return Tensors{};
                      }}};
  facts.dsl = {{[](Operands d) {
                  return StopGradient(d.F32({2, 3}));
                },
                "stop_gradient", "f32[2,3]"},
               {[](Operands d) { return StepMean(d.F32({}), d.F32({})); }, "step_mean", "f32[]"}};
  facts.without_gradient = {{"stop_gradient", "ends it"},
                            {"boxing", "only the compiler adds it"},
                            {"from_tier", "only the compiler adds it"},
                            {"to_tier", "only the compiler adds it"},
                            {"store_in_tier", "only the compiler adds it"},
                            {"accumulate", "only the compiler adds it"},
                            {"fetch", "a sink"},
                            {"assign", "a sink"},
                            {"increment", "a sink"}};
  return facts;
}

}  // namespace oneflow::testing::PlumbingOps
