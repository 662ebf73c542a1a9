// The ops whose signatures no rule text can say. Most of them build a FactorRule and are derived from it like any
// other. A file lists its ops at its end; table.cc lists the files.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/factor_rule.h"
#include "oneflow_core/op.h"
#include "sbp/signatures.h"

namespace oneflow {

// One op with concrete operands, along one mesh axis. Types and attributes have passed the op's `infer`.
struct RuleContext {
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
  const AttrMap& attrs;
  int axis_size;
};

// The signatures of an op besides all-B, which every op has, best first; duplicates are removed by the caller.
using RuleFn = absl::StatusOr<std::vector<Signature>> (*)(const RuleContext&);

// What follows from a factor rule: letters at least as large as the axis, then linear sets, then letters that would
// leave some ranks without a single element. P is not offered for types that cannot be added (bool, u8).
std::vector<Signature> FromFactors(const FactorRule& rule, const RuleContext& context);
// The same for a rule text.
absl::StatusOr<std::vector<Signature>> FromText(absl::string_view text, const RuleContext& context);

// A rule with one letter for each dimension of `shape`, no operands yet; and the letters in order.
FactorRule OneLetterPerDimension(const Shape& shape);
std::vector<int> AllLetters(const FactorRule& rule);

namespace rules {

using Result = absl::StatusOr<std::vector<Signature>>;

// What a file of this folder holds: the ops that have a rule there.
struct OpRule {
  absl::string_view op;
  RuleFn rule;
};
using RuleList = absl::Span<const OpRule>;

RuleList Sources();         // sources.cc
RuleList Plumbing();        // plumbing.cc
RuleList Reductions();      // reduce.cc
RuleList Reshapes();        // reshape.cc
RuleList Shapes();          // shape.cc
RuleList BatchNorms();      // batch_norm.cc
RuleList Codecs();          // codec.cc
RuleList Attentions();      // attention.cc
RuleList Indices();         // index.cc
RuleList Replicas();        // replicas.cc
RuleList PackedProducts();  // packed_matmul.cc
RuleList Ragged();          // ragged.cc

}  // namespace rules

// The signatures of an op that is made of others (oneflow_core/fused_form.h): those of its parts that agree on every
// value between them, so that every rank does on its shards what the parts would do there.
absl::StatusOr<std::vector<Signature>> FromParts(const FusedForms& forms, const RuleContext& context);
// Whether signatures of it, one for each axis, may be used together: whether signatures of all its parts may.
// InvalidArgument if not.
absl::Status CheckNdOfParts(const FusedForms& forms, const InferContext& whole, absl::Span<const int> axis_sizes,
                            absl::Span<const Signature> per_axis);

// The op's own rule, or null if its rule text says everything.
RuleFn FindRule(absl::string_view op);
// Those of all files.
std::vector<rules::OpRule> AllRules();

}  // namespace oneflow
