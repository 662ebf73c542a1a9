// The factor rule of an op, parsed and fitted to the ranks of concrete operands. The text form is described in
// oneflow_core/op.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/op.h"

namespace oneflow {

struct FactorRule {
  enum class Mark : uint8_t { kFree, kWhole, kSum, kMax, kMin };
  struct Letter {
    std::string name;
    Mark mark = Mark::kFree;  // letters that no output has are kSum unless marked otherwise
  };
  static constexpr int kNone = -1;  // a dimension of size 1 that broadcasts carries no letter

  std::vector<Letter> letters;
  // Per operand, per dimension: index into letters, or kNone.
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> outputs;
  // Sets of inputs such that P in all of them (B in the others) gives P in every output.
  std::vector<std::vector<int>> linear;
};

// Parses `text` and fits it to operands of these types. InvalidArgument, with the position, if the text is malformed or
// has another number of operands or dimensions than the types; InvalidArgument naming letter and both sizes if one
// letter would stand for two sizes.
absl::StatusOr<FactorRule> ParseFactorRule(absl::string_view text, absl::Span<const TensorType> inputs,
                                           absl::Span<const TensorType> outputs);

// The rule of an op on operands that have passed its `infer`; nothing if it has no rule text. Errors of
// ParseFactorRule.
absl::StatusOr<std::optional<FactorRule>> FactorRuleOf(const OpDef& op, absl::Span<const TensorType> inputs,
                                                       absl::Span<const TensorType> outputs, const AttrMap& attrs);

}  // namespace oneflow
