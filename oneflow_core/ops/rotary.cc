// rotary: the columns of x [b,t,c] are heads of c / heads, whose first `width` columns are pairs. At position p (an
// index of t) a pair (x0, x1) is turned by the angle a = p * inverse[pair] (rotary.h):
//
//   y0 = x0 cos a - x1 sin a        y1 = x1 cos a + x0 sin a
//
// Pair i is the columns i and i + width/2, or 2i and 2i + 1 if `interleaved`. The gradient turns back.
#include "oneflow_core/rotary.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::ops {
namespace {

absl::Status CheckScaling(const AttrMap& attrs) {
  if (attrs.Has("scaling")) {
    OF_ASSIGN_OR_RETURN(const std::string scaling, StringAttr(attrs, "scaling"));
    if (std::find(kRotaryScalings.begin(), kRotaryScalings.end(), scaling) == kRotaryScalings.end()) {
      return absl::InvalidArgumentError(absl::StrCat("attribute 'scaling' is '", scaling, "' but must be one of ",
                                                     absl::StrJoin(kRotaryScalings, ", ")));
    }
  }
  OF_RETURN_IF_ERROR(IntAttrOr(attrs, "original_context", 1, 1).status());
  for (const char* name : {"theta", "factor", "beta_fast", "beta_slow", "low_frequency", "high_frequency"}) {
    OF_ASSIGN_OR_RETURN(const double value, NumberAttrOr(attrs, name, 1));
    if (!(value > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", value, " but must be positive"));
    }
  }
  OF_RETURN_IF_ERROR(NumberAttrOr(attrs, "attention_factor", 0).status());
  const double low = attrs.Double("low_frequency", 1), high = attrs.Double("high_frequency", 4);
  if (attrs.String("scaling") == "llama3" && !(low < high)) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute 'low_frequency' is ", low, " but must be below high_frequency, ", high));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferRotary(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", kFloat, Exactly(3)}}));
  const TensorType& x = c.inputs[0];
  OF_ASSIGN_OR_RETURN(const int64_t heads, IntAttr(c.attrs, "heads", 1));
  if (x.shape[2] % heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "attribute 'heads' is ", heads, " but must divide the last dimension of x, which is ", x.ToString()));
  }
  OF_ASSIGN_OR_RETURN(const int64_t width, IntAttrOr(c.attrs, "width", x.shape[2] / heads, 0, x.shape[2] / heads));
  if (width % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(width, " columns of a head are turned, but they must be pairs"));
  }
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "interleaved", false).status());
  OF_RETURN_IF_ERROR(BoolAttrOr(c.attrs, "back", false).status());
  OF_RETURN_IF_ERROR(CheckScaling(c.attrs));
  return Outputs({x});
}

AttrMap RotaryOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType>) {
  const ShardType& x = inputs[0];
  const int64_t width = x.logical_dims[2] / attrs.Int("heads");
  if (width == 0) return attrs;
  return With(attrs, "heads", x.dims[2] % width == 0 ? x.dims[2] / width : 0);
}

absl::Status RotaryGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1("rotary", {*c.output_grad(0)}, With(c.attrs(), "back", !c.attrs().Bool("back"))));
  return absl::OkStatus();
}

}  // namespace

void AddRotaryOps(OpRegistry& registry) {
  registry.Add({.name = "rotary",
                .infer = InferRotary,
                .shard_attrs = RotaryOfShard,
                .grad = RotaryGrad,
                .in_place = {{0, 0}},
                .precision = Precision::kFollow});
}

}  // namespace oneflow::ops
