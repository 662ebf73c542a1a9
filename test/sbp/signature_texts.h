// Signatures as text, for tables of cases.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "oneflow_core/ops/ops.h"
#include "sbp/signatures.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

// "f32[2,3] f32[3]" to types.
inline std::vector<TensorType> Types(const std::string& text) {
  std::vector<TensorType> types;
  for (absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) types.push_back(*TensorType::Parse(part));
  return types;
}

// Those of an op with a rule text; of the standard op of that name if `rule` is empty.
inline std::vector<std::string> SignatureTexts(const std::string& op, const std::string& rule,
                                               const std::string& inputs, const std::string& outputs, int axis_size,
                                               const AttrMap& attrs = {}) {
  OpDef def;
  if (rule.empty()) {
    def = *StandardOps().Find(op);
  } else {
    def.name = op;
    def.rule = rule;
  }
  const auto signatures = Signatures1d(def, Types(inputs), Types(outputs), attrs, axis_size);
  EXPECT_OK(signatures);
  std::vector<std::string> texts;
  if (!signatures.ok()) return texts;
  for (const Signature& signature : *signatures) texts.push_back(signature.ToString());
  return texts;
}

}  // namespace oneflow::testing
