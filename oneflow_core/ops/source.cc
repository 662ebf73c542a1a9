// Where tensors come from: variables (state that outlives a step), data readers and constants. They have no inputs,
// hence no gradient, and may be laid out in any way that their rule in sbp/ offers.
#include <cmath>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "oneflow_core/literal.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ops/read_data.h"
#include "oneflow_core/tiers.h"

namespace oneflow::ops {
namespace {

absl::Status InvalidInit(const std::string& init, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("attribute 'init' is '", init, "': ", why));
}

// `init` is one of zeros, ones, constant(v), normal(std), uniform(bound), list(1,2,3), and fits a variable of `type`.
absl::Status CheckInit(const std::string& init, const TensorType& type) {
  if (init == "zeros" || init == "ones") return absl::OkStatus();
  absl::string_view arguments = init;
  if (!absl::ConsumeSuffix(&arguments, ")")) {
    return InvalidInit(init, "must be zeros, ones, constant(v), normal(std), uniform(bound) or list(1,2,3)");
  }
  const bool is_list = absl::ConsumePrefix(&arguments, "list(");
  const bool is_random =
      !is_list && (absl::ConsumePrefix(&arguments, "normal(") || absl::ConsumePrefix(&arguments, "uniform("));
  if (!is_list && !is_random && !absl::ConsumePrefix(&arguments, "constant(")) {
    return InvalidInit(init, "must be zeros, ones, constant(v), normal(std), uniform(bound) or list(1,2,3)");
  }
  if (is_random && !IsFloating(type.dtype)) {
    return InvalidInit(init, absl::StrCat("the variable is ", type.ToString(), " but random values are floating"));
  }
  std::vector<absl::string_view> numbers = absl::StrSplit(arguments, ',');
  if (is_list && arguments.empty()) numbers.clear();
  for (absl::string_view number : numbers) {
    double value = 0;
    if (!absl::SimpleAtod(number, &value) || !std::isfinite(value)) {
      return InvalidInit(init, absl::StrCat("'", number, "' is not a finite number"));
    }
  }
  if (!is_list && numbers.size() != 1) return InvalidInit(init, absl::StrCat("takes 1 number, not ", numbers.size()));
  if (is_list && static_cast<int64_t>(numbers.size()) > type.shape.count()) {
    return InvalidInit(init, absl::StrCat(numbers.size(), " numbers are too many for ", type.ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferVariable(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_ASSIGN_OR_RETURN(const std::string init, StringAttr(c.attrs, "init"));
  OF_ASSIGN_OR_RETURN(const bool trainable, BoolAttrOr(c.attrs, "trainable", false));
  const TensorType type{dtype, shape};
  if (trainable && !IsFloating(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the variable is trainable but ", type.ToString(), "; only floating variables have gradients"));
  }
  if (c.attrs.Has(kTierAttr)) OF_RETURN_IF_ERROR(CheckTier(c.attrs));
  OF_ASSIGN_OR_RETURN(Types outputs, Outputs({type}));
  OF_RETURN_IF_ERROR(CheckInit(init, type));
  return outputs;
}

// `value` is a number that a tensor of `dtype` holds: a whole one, unless it is floating.
absl::Status CheckWhole(absl::string_view name, double value, DType dtype) {
  if (IsFloating(dtype) || value == std::floor(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("attribute '", name, "' is ", value, " but the constant is of integers (", Name(dtype), ")"));
}

absl::StatusOr<Types> InferConstant(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_ASSIGN_OR_RETURN(const double value, NumberAttr(c.attrs, "value"));
  OF_RETURN_IF_ERROR(CheckWhole("value", value, dtype));
  return Outputs({{dtype, shape}});
}

// They are part of the plan, and on some devices a launch takes few of them.
constexpr size_t kMostLiterals = 1 << 16;

// The values are those of the whole tensor, of shards too.
absl::StatusOr<Types> InferLiteral(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_ASSIGN_OR_RETURN(const std::string text, StringAttr(c.attrs, "values"));
  const std::optional<std::vector<double>> values = ParseLiteral(text);
  if (!values.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("attribute 'values' is '", text, "', not numbers with commas"));
  }
  OF_ASSIGN_OR_RETURN(Types outputs, Outputs({{dtype, shape}}));
  const auto count = static_cast<int64_t>(values->size());
  if (c.of_shards ? count < shape.count() : count != shape.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'values' has ", count, " numbers for ", outputs[0].ToString()));
  }
  if (values->size() > kMostLiterals) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'values' has ", count, " numbers but at most ", kMostLiterals, " are allowed"));
  }
  for (const double value : *values) OF_RETURN_IF_ERROR(CheckWhole("values", value, dtype));
  return outputs;
}

absl::StatusOr<Types> InferArange(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {}));
  OF_ASSIGN_OR_RETURN(const DType dtype, DTypeAttr(c.attrs, "dtype"));
  OF_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(c.attrs, "shape"));
  OF_ASSIGN_OR_RETURN(const double start, NumberAttr(c.attrs, "start"));
  OF_ASSIGN_OR_RETURN(const double step, NumberAttr(c.attrs, "step"));
  if (dtype == DType::kUInt8 || dtype == DType::kBool || shape.rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("makes floats, i32 or i64 along 1 dimension, not ", TensorType{dtype, shape}.ToString()));
  }
  OF_RETURN_IF_ERROR(CheckWhole("start", start, dtype));
  OF_RETURN_IF_ERROR(CheckWhole("step", step, dtype));
  return Outputs({{dtype, shape}});
}

}  // namespace

void AddSourceOps(OpRegistry& registry) {
  registry.Add({.name = "variable", .kind = OpKind::kVariable, .infer = InferVariable});
  registry.Add({.name = "read_data", .kind = OpKind::kData, .infer = InferReadData, .shard_attrs = ReadDataOfShard});
  registry.Add({.name = "constant", .kind = OpKind::kConstant, .infer = InferConstant, .shard_attrs = ShapeOfShard});
  registry.Add({.name = "literal", .kind = OpKind::kConstant, .infer = InferLiteral, .shard_attrs = ShapeOfShard});
  registry.Add({.name = "arange", .kind = OpKind::kConstant, .infer = InferArange, .shard_attrs = ShapeOfShard});
}

}  // namespace oneflow::ops
