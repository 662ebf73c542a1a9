#include "test/oneflow_core/ops/infer_cases.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "oneflow_core/attr_text.h"
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

// The attributes at the front of `line`, which they are taken from; none if it begins with no brace. Where there are
// strings in double quotes, they are written as in graphs.
absl::StatusOr<AttrMap> TakeAttrs(absl::string_view& line) {
  AttrMap attrs;
  if (!absl::StartsWith(line, " {")) return attrs;
  size_t end = 2;
  for (bool quoted = false; end < line.size() && (quoted || line[end] != '}'); ++end) {
    if (line[end] == '\\')
      ++end;
    else if (line[end] == '"')
      quoted = !quoted;
  }
  if (end >= line.size()) return absl::InvalidArgumentError("attributes do not end");
  const absl::string_view inside = line.substr(2, end - 2);
  LineReader reader(line.substr(1, end));
  line.remove_prefix(end + 1);
  if (absl::StrContains(inside, '"')) return ReadAttrs(reader);
  for (absl::string_view item : absl::StrSplit(inside, ' ', absl::SkipEmpty())) {
    absl::ConsumeSuffix(&item, ",");
    const std::pair<absl::string_view, absl::string_view> attr = absl::StrSplit(item, absl::MaxSplits('=', 1));
    attrs.Set(std::string(attr.first), ParseAttr(attr.second));
  }
  return attrs;
}

absl::StatusOr<InferCase> ParseCase(absl::string_view line) {
  InferCase result;
  result.line = std::string(line);
  const absl::Status malformed = absl::InvalidArgumentError(absl::StrCat("malformed case: ", line));
  const size_t open = line.find('('), close = line.find(')');
  if (open == absl::string_view::npos || close == absl::string_view::npos) return malformed;
  result.op = std::string(line.substr(0, open));
  OF_ASSIGN_OR_RETURN(result.inputs, ParseTypes(line.substr(open + 1, close - open - 1)));
  absl::string_view answer = line.substr(close + 1);
  OF_ASSIGN_OR_RETURN_AT(result.attrs, TakeAttrs(answer), result.line);
  if (absl::ConsumePrefix(&answer, " ! ")) {
    result.error = std::string(answer);
  } else if (absl::ConsumePrefix(&answer, " = ")) {
    OF_ASSIGN_OR_RETURN(result.outputs, ParseTypes(answer));
  } else if (answer != " =") {
    return malformed;
  }
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
