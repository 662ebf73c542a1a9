// Calls of standard ops as text, "pad(f32[8,4]) {before=[0,1], after=[0,2]}", for tables that people read and tests
// check. Attributes are true or false, integers, numbers with a '.' or an 'e', strings in double quotes, and lists of
// integers.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "oneflow_core/ops/ops.h"
#include "test/sbp/signature_texts.h"

namespace oneflow::testing {

// The parts of a list at commas that are in no brackets, without spaces around them.
inline std::vector<std::string> PartsOf(absl::string_view list) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(std::move(part));
      part.clear();
    } else if (c != ' ') {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

inline Attr AttrOf(absl::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (absl::ConsumePrefix(&text, "\"")) return std::string(absl::StripSuffix(text, "\""));
  if (absl::ConsumePrefix(&text, "[")) {
    std::vector<int64_t> ints;
    for (const std::string& part : PartsOf(absl::StripSuffix(text, "]"))) {
      ints.emplace_back();
      EXPECT_TRUE(absl::SimpleAtoi(part, &ints.back())) << part;
    }
    return ints;
  }
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  double number = 0;
  EXPECT_TRUE(absl::SimpleAtod(text, &number)) << "no attribute: " << text;
  return number;
}

struct Call {
  const OpDef* op;
  std::vector<TensorType> inputs, outputs;
  AttrMap attrs;
};

// REQUIRES: `ops` outlives the result.
inline absl::StatusOr<Call> ParseCall(const OpRegistry& ops, const std::string& text) {
  const size_t open = text.find('('), close = text.find(')'), brace = text.find('{');
  if (open == std::string::npos || close == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no call"));
  }
  Call call;
  OF_ASSIGN_OR_RETURN(call.op, ops.Get(text.substr(0, open)));
  for (const std::string& type : PartsOf(text.substr(open + 1, close - open - 1))) {
    OF_ASSIGN_OR_RETURN(call.inputs.emplace_back(), TensorType::Parse(type));
  }
  if (brace != std::string::npos) {
    for (const std::string& item : PartsOf(text.substr(brace + 1, text.rfind('}') - brace - 1))) {
      const size_t equals = item.find('=');
      call.attrs.Set(item.substr(0, equals), AttrOf(item.substr(equals + 1)));
    }
  }
  OF_ASSIGN_OR_RETURN_AT(call.outputs, call.op->infer({call.inputs, call.attrs}), text);
  return call;
}

// "S(0),B->S(0)" back to a signature.
inline absl::StatusOr<Signature> ParseSignature(absl::string_view text) {
  const std::vector<std::string> sides = absl::StrSplit(text, "->");
  if (sides.size() != 2) return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no signature"));
  Signature signature;
  for (const std::string& sbp : PartsOf(sides[0])) {
    OF_ASSIGN_OR_RETURN(signature.inputs.emplace_back(), Sbp::Parse(sbp));
  }
  for (const std::string& sbp : PartsOf(sides[1])) {
    OF_ASSIGN_OR_RETURN(signature.outputs.emplace_back(), Sbp::Parse(sbp));
  }
  return signature;
}

}  // namespace oneflow::testing
