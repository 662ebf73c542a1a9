// What the type inference of all ops shares: checks of operands and attributes whose errors name both values.
//
//   OF_RETURN_IF_ERROR(CheckOperands(c, {{"a", kFloat, AtLeast(1)}, {"w", kFloat, Exactly(2)}}));
//   OF_ASSIGN_OR_RETURN(const int64_t axis, IntAttr(c.attrs, "axis", 0, c.inputs[0].shape.rank() - 1));
//   ...
//   return Outputs({{c.inputs[0].dtype, shape}});
//
// Graphs may come from untrusted text, so nothing here trusts a size or an attribute. All errors are InvalidArgument.
#pragma once

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "oneflow_core/op.h"

namespace oneflow::ops {

using Types = std::vector<TensorType>;

// The element types an operand may have.
enum Elements {
  kAny,      // whatever
  kNumber,   // floating, i32 or i64
  kFloat,    // floating; all kFloat operands of a node have the same dtype
  kFloat32,  // f32: statistics, optimizer state
  kIndex,    // i32
  kCounter,  // i64
  kBool,     // bool
};

// How many dimensions an operand may have.
struct RankRange {
  int min = 0;
  int max = std::numeric_limits<int>::max();
};
constexpr RankRange Exactly(int rank) { return {rank, rank}; }
constexpr RankRange AtLeast(int rank) { return {rank}; }

struct Operand {
  absl::string_view name;  // as in the table of ops: "a", "w"
  Elements elements = kAny;
  RankRange rank = {};
};

// The inputs are as many as `operands`, and each is what its operand says.
absl::Status CheckOperands(const InferContext& c, absl::Span<const Operand> operands);
// The same for an op with any number (at least one) of inputs like `operand`.
absl::Status CheckEveryOperand(const InferContext& c, const Operand& operand);

// `type` is `expected`: "gamma is f32[3] but x, which is f32[2,4], needs f32[4]". `because` says what needs it.
absl::Status CheckType(absl::string_view name, const TensorType& type, const TensorType& expected,
                       absl::string_view because);
// Both are the same: "a is f32[3], b is f32[4]; they must be the same".
absl::Status CheckSame(absl::string_view a_name, const TensorType& a, absl::string_view b_name, const TensorType& b);
// Both have the same elements: "dtypes differ: a is f32[3], b is i32[3]".
absl::Status CheckSameDType(absl::string_view a_name, const TensorType& a, absl::string_view b_name,
                            const TensorType& b);

// Attributes. An absent attribute is `fallback` where there is one and otherwise an error, as is one of another kind or
// outside [min, max].
inline constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
absl::StatusOr<int64_t> IntAttr(const AttrMap& attrs, const std::string& name, int64_t min, int64_t max = kMaxInt);
absl::StatusOr<int64_t> IntAttrOr(const AttrMap& attrs, const std::string& name, int64_t fallback, int64_t min,
                                  int64_t max = kMaxInt);
absl::StatusOr<double> NumberAttr(const AttrMap& attrs, const std::string& name);
absl::StatusOr<double> NumberAttrOr(const AttrMap& attrs, const std::string& name, double fallback);
// A number >= 0.
absl::Status CheckNotNegative(const AttrMap& attrs, const std::string& name);
absl::StatusOr<std::string> StringAttr(const AttrMap& attrs, const std::string& name);
absl::StatusOr<bool> BoolAttrOr(const AttrMap& attrs, const std::string& name, bool fallback);
absl::StatusOr<std::vector<int64_t>> IntsAttr(const AttrMap& attrs, const std::string& name);
// A list of sizes >= 0.
absl::StatusOr<Shape> ShapeAttr(const AttrMap& attrs, const std::string& name);
absl::StatusOr<DType> DTypeAttr(const AttrMap& attrs, const std::string& name);
// The attribute `out_dtype`, a floating type; absent: `natural`. Of a product: that of its operands, or f32.
absl::StatusOr<DType> OutDType(const AttrMap& attrs, DType natural);
absl::StatusOr<DType> ProductDType(const AttrMap& attrs, DType operands);
// Of a random op: absent, the user's string, or the integer that the compiler made of it.
absl::Status CheckKeyAttr(const AttrMap& attrs);

// The attribute `tier` names one.
absl::Status CheckTier(const AttrMap& attrs);

// The result of inference. Fails if a type has more elements than a 64-bit offset can safely address.
absl::StatusOr<Types> Outputs(Types types);

// An `infer` for ops that return the type of their only input.
template <Elements elements>
absl::StatusOr<Types> InferSame(const InferContext& c) {
  OF_RETURN_IF_ERROR(CheckOperands(c, {{"x", elements}}));
  return Outputs({c.inputs[0]});
}

// A `shard_attrs` for ops whose attribute `shape` is that of output 0.
AttrMap ShapeOfShard(const AttrMap& attrs, absl::Span<const ShardType> inputs, absl::Span<const ShardType> outputs);
// `attrs` with the attribute `name` replaced.
AttrMap With(AttrMap attrs, const std::string& name, Attr value);
// `attrs` of an op that sums numbers of a type: `out_dtype` is f32 where that is narrow, so that nothing is rounded.
AttrMap Unrounded(AttrMap attrs, DType dtype);

// A `blocks` for ops that work element by element: operands of one shape lie alike, beside them are only scalars.
std::vector<int> BlocksByElement(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                 const AttrMap& attrs);
// A `blocks` for ops that leave samples and channels where they are: all operands [n,c,...] of four dimensions lie
// alike; others are numbers of channels.
std::vector<int> BlocksByChannel(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                                 const AttrMap& attrs);

// A `flops` for ops that read much and write little: one per element of input 0.
double FlopsOfInput(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap& attrs);
// One for products of the rows of input 0 by a matrix: two per row, output column and number summed.
double FlopsOfProduct(absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs, const AttrMap& attrs);

}  // namespace oneflow::ops
