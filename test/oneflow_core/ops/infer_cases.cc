#include "test/oneflow_core/ops/infer_cases.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "oneflow_core/status.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {
namespace {

absl::StatusOr<std::vector<TensorType>> ParseTypes(absl::string_view text) {
  std::vector<TensorType> types;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    OF_ASSIGN_OR_RETURN(TensorType type, TensorType::Parse(word));
    types.push_back(std::move(type));
  }
  return types;
}

// true, 12, 1e-5, [1,2], 'text' or text.
Attr ParseAttr(absl::string_view text) {
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false") return text == "true";
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtod(text, &number)) return number;
  if (absl::ConsumePrefix(&text, "[") && absl::ConsumeSuffix(&text, "]")) {
    std::vector<int64_t> list;
    for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      if (absl::SimpleAtoi(item, &integer)) list.push_back(integer);
    }
    return list;
  }
  absl::ConsumePrefix(&text, "'");
  absl::ConsumeSuffix(&text, "'");
  return std::string(text);
}

absl::StatusOr<InferCase> ParseCase(absl::string_view line) {
  InferCase result;
  result.line = std::string(line);
  const absl::Status malformed = absl::InvalidArgumentError(absl::StrCat("malformed case: ", line));
  // The first mark after the closing parenthesis divides the call from the answer; error texts may hold any character.
  const size_t mark = std::min(line.find(" = "), line.find(" ! "));
  const bool no_outputs = mark == absl::string_view::npos && absl::ConsumeSuffix(&line, " =");
  if (mark == absl::string_view::npos && !no_outputs) return malformed;
  absl::string_view call = line.substr(0, mark);
  absl::string_view answer = no_outputs ? "" : line.substr(mark + 3);
  if (!no_outputs && line[mark + 1] == '!') result.error = std::string(answer);
  if (result.error.empty()) {
    OF_ASSIGN_OR_RETURN(result.outputs, ParseTypes(answer));
  }
  if (absl::ConsumeSuffix(&call, "}")) {
    const size_t brace = call.rfind(" {");
    if (brace == absl::string_view::npos) return malformed;
    for (absl::string_view item : absl::StrSplit(call.substr(brace + 2), ' ')) {
      const std::pair<absl::string_view, absl::string_view> attr = absl::StrSplit(item, absl::MaxSplits('=', 1));
      result.attrs.Set(std::string(attr.first), ParseAttr(attr.second));
    }
    call = call.substr(0, brace);
  }
  const size_t open = call.find('(');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&call, ")")) return malformed;
  result.op = std::string(call.substr(0, open));
  OF_ASSIGN_OR_RETURN(result.inputs, ParseTypes(call.substr(open + 1)));
  return result;
}

}  // namespace

absl::StatusOr<std::vector<InferCase>> InferCases() {
  std::vector<InferCase> cases;
  for (const OpFacts& facts : AllOpFacts()) {
    for (const std::string& line : FactLines(facts.types)) {
      OF_ASSIGN_OR_RETURN(InferCase parsed, ParseCase(line));
      cases.push_back(std::move(parsed));
    }
  }
  return cases;
}

}  // namespace oneflow::testing
