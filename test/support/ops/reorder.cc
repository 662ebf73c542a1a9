// What tests know of reorder: it changes no element. How operands lie is said by those that run it.
#include "test/support/ops/kit.h"

namespace oneflow::testing::ReorderOps {
namespace {

Tensors Reorder(RefCall& c) { return {c.in[0]}; }

constexpr const char kTypes[] = R"(
reorder(f32[2,32,3,5]) = f32[2,32,3,5]
reorder(i32[2,32,3,5]) = i32[2,32,3,5]
reorder(f32[2,32,3]) ! x is f32[2,32,3] but must have 4 dimensions
)";

constexpr const char kSignatures[] = R"(
reorder(f32[4,32,4,4]) | - | S(0)->S(0) S(1)->S(1) S(2)->S(2) S(3)->S(3) P->P | - | - | as what it reads
)";

void AddExamples(Random& r, OpCases& cases) { cases.push_back({"reorder", "small", {}, {r.Uniform({2, 16, 3, 5})}}); }

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32}) {
    for (const Dims& dims : {Dims{2, 48, 3, 5}, Dims{1, 16, 1, 1}, Dims{3, 32, 9, 11}, Dims{0, 16, 2, 2}}) {
      cases.push_back({"reorder", "sizes", {}, {r.Small(dims, dtype)}, 0});
    }
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"reorder", Reorder}};
  facts.without_gradient = {{"reorder", "made after differentiation"}};
  for (const auto& [op, reference] : facts.reference) facts.of_cpu_alone.push_back(op);
  return facts;
}

}  // namespace oneflow::testing::ReorderOps
