// elementwise: a few elementwise ops at once, which the attribute `made_of` lists (oneflow_core/elementwise.h). The
// compiler makes it where layouts are known, of ops that no other fused op takes; models do not name it and no gradient
// flows through it. It gives what its calls give one by one, to the bit.
#include "oneflow_core/elementwise.h"

#include <algorithm>

#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

using Kind = ElementwiseValue::Kind;

// The ops that calls may name, and others of their families.
const OpRegistry& Parts() {
  static const OpRegistry* const parts = [] {
    auto* const ops = new OpRegistry;
    AddUnaryOps(*ops);
    AddBinaryOps(*ops);
    AddCastOps(*ops);
    return ops;
  }();
  return *parts;
}

absl::StatusOr<TensorType> InferCall(const ElementwiseCall& call, const Types& inputs) {
  const OpDef* const op = Parts().Find(call.op);
  if (op == nullptr || !op->is_elementwise) {
    return absl::InvalidArgumentError(absl::StrCat("'", call.op, "' is no elementwise op"));
  }
  if (IsNarrow(inputs[0].dtype) && !ComputesNarrow(*op)) {
    return absl::InvalidArgumentError(absl::StrCat("is computed in f32, but x is ", inputs[0].ToString()));
  }
  OF_ASSIGN_OR_RETURN(const Types outputs, op->infer({inputs, call.attrs}));
  for (const TensorType* const type : {&inputs[0], &outputs[0]}) {
    if (!IsFloating(type->dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(type->ToString(), " must be floating"));
    }
  }
  return outputs[0];
}

// The types that a program has found so far, by value.
struct TypesOfValues {
  Types inputs, outputs, temporaries;
  TensorType& operator[](const ElementwiseValue& value) {
    Types& types = value.kind == Kind::kInput ? inputs : value.kind == Kind::kOutput ? outputs : temporaries;
    return types[value.index];
  }
};

absl::StatusOr<Types> InferProgram(const ElementwiseProgram& program, absl::Span<const TensorType> inputs) {
  const auto by_rank = [](const TensorType& a, const TensorType& b) { return a.shape.rank() < b.shape.rank(); };
  const TensorType& whole = *std::max_element(inputs.begin(), inputs.end(), by_rank);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape.rank() > 0 && (inputs[i].shape != whole.shape || inputs[i].ragged != whole.ragged)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", inputs[i].ToString(),
                                                     " but must be a scalar or as large as ", whole.ToString()));
    }
  }
  TypesOfValues types{{inputs.begin(), inputs.end()}, Types(program.outputs), Types(program.temporaries)};
  for (const ElementwiseCall& call : program.calls) {
    Types of_call;
    for (const ElementwiseValue& value : call.in) of_call.push_back(types[value]);
    OF_ASSIGN_OR_RETURN_AT(types[call.out], InferCall(call, of_call), absl::StrCat("its ", call.op));
    const TensorType& given = types[call.out];
    if (given.shape != whole.shape || given.ragged != whole.ragged) {
      return absl::InvalidArgumentError(
          absl::StrCat("its ", call.op, " gives ", given.ToString(), " but must give all of ", whole.ToString()));
    }
  }
  return types.outputs;
}

absl::StatusOr<Types> InferElementwise(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckEveryOperand(c, {"x", kFloat}));
  OF_ASSIGN_OR_RETURN(const std::string made_of, StringAttr(c.attrs, "made_of"));
  OF_ASSIGN_OR_RETURN_AT(const ElementwiseProgram program, ParseElementwise(made_of), "attribute 'made_of'");
  if (program.inputs != static_cast<int>(c.inputs.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'made_of' reads ", program.inputs, " inputs but is given ", c.inputs.size()));
  }
  return InferProgram(program, c.inputs);
}

// As many outputs as there are, all split as the inputs that are no scalars.
std::string ElementwiseRule(absl::Span<const TensorType> inputs, const AttrMap& attrs) {
  const absl::StatusOr<ElementwiseProgram> program = ParseElementwise(attrs.String("made_of"));
  const bool has_dimensions =
      std::any_of(inputs.begin(), inputs.end(), [](const TensorType& x) { return x.shape.rank() > 0; });
  std::string rule;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_scalar = has_dimensions && inputs[i].shape.rank() == 0;
    absl::StrAppend(&rule, i == 0 ? "" : ",", is_scalar ? "" : "...");
  }
  const int outputs = program.ok() ? program->outputs : 1;
  for (int i = 0; i < outputs; ++i) absl::StrAppend(&rule, i == 0 ? "->" : ",", "...");
  return rule;
}

double ElementwiseFlops(absl::Span<const TensorType>, absl::Span<const TensorType> outputs, const AttrMap& attrs) {
  const absl::StatusOr<ElementwiseProgram> program = ParseElementwise(attrs.String("made_of"));
  const double calls = program.ok() ? static_cast<double>(program->calls.size()) : 1;
  return calls * static_cast<double>(outputs[0].shape.count());
}

// An input that is no longer needed may become any output that is as large.
std::vector<std::pair<int, int>> AnyInPlace() {
  std::vector<std::pair<int, int>> pairs;
  for (int output = 0; output < kMostElementwiseOutputs; ++output) {
    for (int input = 0; input < kMostElementwiseInputs; ++input) pairs.emplace_back(input, output);
  }
  return pairs;
}

}  // namespace

void AddElementwiseOps(OpRegistry& registry) {
  registry.Add({.name = "elementwise",
                .rule_for = ElementwiseRule,
                .infer = InferElementwise,
                .flops = ElementwiseFlops,
                .in_place = AnyInPlace(),
                .precision = Precision::kFollow,
                .blocks = BlocksByElement});
}

}  // namespace oneflow::ops
