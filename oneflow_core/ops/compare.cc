// Comparisons of two tensors and logical functions of bools, which give bools and end every gradient; and where(a, b,
// condition), which takes an element from a where the condition is true and from b elsewhere. All with NumPy
// broadcasting.
#include "oneflow_core/elementwise_functions.h"
#include "oneflow_core/ops/broadcast.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

template <Elements elements>
absl::StatusOr<Types> InferCompare(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", elements}, {"b", elements}}));
  OF_RETURN_IF_ERROR(CheckSameDType("a", c.inputs[0], "b", c.inputs[1]));
  OF_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(c.inputs[0].shape, c.inputs[1].shape));
  return Outputs({{DType::kBool, std::move(shape)}});
}

absl::StatusOr<Types> InferWhere(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"a"}, {"b"}, {"condition", kBool}}));
  OF_RETURN_IF_ERROR(CheckSameDType("a", c.inputs[0], "b", c.inputs[1]));
  OF_ASSIGN_OR_RETURN(const Shape values, BroadcastShapes(c.inputs[0].shape, c.inputs[1].shape));
  OF_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(c.inputs[2].shape, values));
  return Outputs({{c.inputs[0].dtype, std::move(shape)}});
}

// Each operand gets dy where it was taken and zeros elsewhere, whatever dy is there.
absl::Status WhereGrad(GradContext& c) {
  const Tensor dy = *c.output_grad(0);
  const Tensor zero =
      c.Call1("constant", {},
              {{"dtype", std::string(Name(dy.type().dtype))}, {"shape", std::vector<int64_t>()}, {"value", 0.0}});
  for (const int i : {0, 1}) {
    if (!c.needs_grad(i)) continue;
    const Tensor taken = c.Call1("where", {i == 0 ? dy : zero, i == 0 ? zero : dy, c.input(2)});
    c.SetInputGrad(i, SumTo(c, taken, c.input(i).shape()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddCompareOps(OpRegistry& registry) {
  const auto add = [&](const char* name, decltype(OpDef::infer) infer) {
    registry.Add({.name = name, .rule = "...,...->...", .infer = infer, .precision = Precision::kFollow});
  };
#define OF_ADD(Name, op, ...) add(#op, InferCompare<kAny>);
  ONEFLOW_COMPARISONS(OF_ADD)
#undef OF_ADD
#define OF_ADD(Name, op, ...) add(#op, InferCompare<kBool>);
  ONEFLOW_LOGICAL_FUNCTIONS(OF_ADD)
#undef OF_ADD
  registry.Add({.name = "where",
                .rule = "...,...,...->...; linear 0 1",
                .infer = InferWhere,
                .grad = WhereGrad,
                .in_place = {{0, 0}, {1, 0}},
                .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
