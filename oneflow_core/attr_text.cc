#include "oneflow_core/attr_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

// The shortest text that reads back to the same double, and that no integer looks like.
std::string DoubleToText(double value) {
  if (std::isnan(value)) return "nan";
  char buffer[32];  // the longest double has 24 characters
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct AttrWriter {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return DoubleToText(value); }
  std::string operator()(const std::string& value) const { return QuotedText(value); }
  std::string operator()(const std::vector<int64_t>& value) const {
    return absl::StrCat("[", absl::StrJoin(value, ","), "]");
  }
};

absl::StatusOr<Attr> ReadNumber(LineReader& line) {
  const LineReader before = line;
  const absl::string_view atom = line.Atom();
  int64_t integer = 0;
  if (absl::SimpleAtoi(atom, &integer)) return Attr(integer);
  double number = 0;
  const char* const end = atom.data() + atom.size();
  const std::from_chars_result result = std::from_chars(atom.data(), end, number);
  // Digits alone that are no int64 are too large an integer; as a double they would silently change their type.
  if (atom.find_first_of(".en") == absl::string_view::npos || result.ec != std::errc() || result.ptr != end) {
    return before.Expected("true, false, a number in range, a string or a list of integers");
  }
  return Attr(number);
}

absl::StatusOr<Attr> ReadAttr(LineReader& line) {
  if (line.AcceptWord("true")) return Attr(true);
  if (line.AcceptWord("false")) return Attr(false);
  if (line.Peek('"')) {
    OF_ASSIGN_OR_RETURN(std::string text, line.String("a string"));
    return Attr(std::move(text));
  }
  if (!line.Accept("[")) return ReadNumber(line);
  std::vector<int64_t> list;
  if (line.Accept("]")) return Attr(std::move(list));
  do {
    OF_ASSIGN_OR_RETURN(const int64_t item, line.Integer<int64_t>("an integer in the list"));
    list.push_back(item);
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect("]", "after the list"));
  return Attr(std::move(list));
}

}  // namespace

std::string QuotedText(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""); }

std::string AttrsToText(const AttrMap& attrs) {
  const auto format = [](std::string* out, const std::pair<const std::string, Attr>& item) {
    absl::StrAppend(out, item.first, "=", std::visit(AttrWriter(), item.second));
  };
  return absl::StrCat("{", absl::StrJoin(attrs.items(), ", ", format), "}");
}

absl::StatusOr<AttrMap> ReadAttrs(LineReader& line) {
  AttrMap attrs;
  if (!line.Accept("{") || line.Accept("}")) return attrs;
  do {
    OF_ASSIGN_OR_RETURN(const absl::string_view word, line.Word("the name of an attribute"));
    const std::string name(word);
    if (attrs.Has(name)) return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is given twice"));
    OF_RETURN_IF_ERROR(line.Expect("=", absl::StrCat("after attribute '", name, "'")));
    OF_ASSIGN_OR_RETURN_AT(Attr value, ReadAttr(line), absl::StrCat("attribute '", name, "'"));
    attrs.Set(name, std::move(value));
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect("}", "after the attributes"));
  return attrs;
}

}  // namespace oneflow
