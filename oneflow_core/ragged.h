// Ragged values: tensors with one dimension, the rows, that is filled to a length known only at run time. The lengths
// are themselves a value of the graph, the counts: i32, one for each index of the dimensions before the rows.
//
//   x       f32[8,64~,32]    room for 64 rows in each of 8 groups (experts, samples, ranks that fill it)
//   counts  i32[8]           rows 0 .. counts[g]-1 of group g are filled; the others are unspecified
//
// A node that reads ragged values by its op's rule has their counts as its last input. So counts are laid out, boxed
// and waited for like any other value. If groups are split over ranks, every rank has the counts of its own groups:
//
//   matmul     x f32[8,64~,32], w f32[32,16], counts i32[8]    ->  f32[8,64~,16]     "...k,kn->...n": rows stay rows
//   reduce_sum x f32[8,64~,32], counts i32[8]                  ->  f32[32]           a sum of the filled rows
//   accumulate x f32[8,64~,32], counts i32[8]                  ->  f32[8,64,32]      each micro-batch has its counts
//
// All ragged operands of a node have the same counts. keep_rows makes a value ragged, pad_rows makes it dense again.
#pragma once

#include <optional>
#include <vector>

#include "oneflow_core/factor_rule.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// The type without its mark.
TensorType Dense(const TensorType& type);
// Of the counts of values of a ragged type: "f32[8,64~,32]" has i32[8].
TensorType CountsType(const TensorType& type);
bool AnyRagged(absl::Span<const TensorType> types);

// Whether a node of this op has the counts of its ragged inputs as a last input that the op itself does not know.
bool TakesCounts(const OpDef& op, absl::Span<const TensorType> inputs);
// The counts of a ragged value: the last input of the node that made it, laid out as the value is.
ValueId CountsOf(const Graph& graph, ValueId value);

// What a node reads that reads this value alone, by its rule: it, and its counts if it is ragged.
std::vector<ValueId> WithCounts(const Graph& graph, ValueId value);

// The inputs that the op knows: all, but for the counts of ragged ones that it takes by its rule.
absl::Span<const ValueId> InputsOfOp(const Graph& graph, const Node& node, const OpRegistry& ops);

// How the counts of a value lie: split with their groups, copied along all other axes.
DistType CountsDist(const TensorType& type, const DistType& dist);

// How an op's rule meets ragged operands.
struct RaggedRule {
  FactorRule rule;
  std::vector<int> groups;  // the letters of the dimensions before the rows, in order: those of the counts
  int rows = -1;            // the letter of the rows
  // Rows are summed, in a way that zeros do not change. Else every output has these rows, and there is one.
  bool sums = false;
  // Of such a sum: it is one of what groups give by themselves, so that what is filled is all that it has to read. Else
  // its operands are to be padded.
  bool by_groups = false;
  std::vector<bool> kept;   // by groups: which of the groups' letters its outputs have
  bool keeps_rows = false;  // by groups: outputs have the rows, too; behind those that are filled are zeros
};

// Whether the part of an operand that belongs to a group is a run of its memory: its first dimensions are groups, then
// the rows, if it has them, of all groups; and none of these are behind.
bool LiesByGroups(const RaggedRule& rule, const std::vector<int>& letters);
// How many of its first dimensions are groups, or have size 1 for everyone. REQUIRES: it lies by groups.
int NumGroupDims(const RaggedRule& rule, const std::vector<int>& letters);

// Of an op whose inputs are those of `context`, without the counts. InvalidArgument, naming operands, if the op has no
// rule or no outputs, if its ragged operands differ in what their rows are, if it works along the rows, or if an output
// has them elsewhere; else as `op.infer`.
absl::StatusOr<RaggedRule> RaggedRuleOf(const OpDef& op, const InferContext& context);

// The output types of a node: `op.infer`, where `op` knows what it is given; else, of a node that takes counts, what
// `infer` gives on dense operands, marked as ragged by the rule unless it sums rows. InvalidArgument as both, if the
// last input is not of the counts' type, or operands are to be padded; and, naming the operand, if one has more than
// kMaxDims dimensions.
absl::StatusOr<std::vector<TensorType>> InferTypes(const OpDef& op, const InferContext& context);

}  // namespace oneflow
