#include "oneflow_core/line_reader.h"

#include "absl/strings/escaping.h"
#include "absl/strings/strip.h"
#include "oneflow_core/verify.h"

namespace oneflow {
namespace {

// The beginning of `text` for an error: enough to find the place, but a hostile line does not flood the message.
std::string Beginning(absl::string_view text) {
  std::string shown;
  for (char c : text.substr(0, 30)) {
    if (absl::ascii_isprint(c)) {
      shown += c;
    } else {
      absl::StrAppend(&shown, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return shown;
}

}  // namespace

absl::Status LineReader::Expected(absl::string_view what) const {
  return absl::InvalidArgumentError(rest_.empty()
                                        ? absl::StrCat("expected ", what, " but the line ends")
                                        : absl::StrCat("expected ", what, " but found '", Beginning(rest_), "'"));
}

bool LineReader::Accept(absl::string_view token) {
  if (!absl::ConsumePrefix(&rest_, token)) return false;
  SkipSpaces();
  return true;
}

bool LineReader::AcceptWord(absl::string_view word) { return PeekWord() == word && Accept(word); }

absl::Status LineReader::Expect(absl::string_view token, absl::string_view where) {
  return Accept(token) ? absl::OkStatus() : Expected(absl::StrCat("'", token, "' ", where));
}

absl::StatusOr<absl::string_view> LineReader::Word(absl::string_view what) {
  const absl::string_view word = PeekWord();
  if (!IsWord(word)) return Expected(what);
  Accept(word);
  return word;
}

absl::string_view LineReader::Atom() {
  const absl::string_view atom =
      PeekWhile([](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '+' || c == '.' || c == '_'; });
  Accept(atom);
  return atom;
}

absl::StatusOr<ValueId> LineReader::ValueName() {
  const LineReader before = *this;
  ValueId id = 0;
  if (Accept("%") && absl::SimpleAtoi(Atom(), &id) && id >= 0) return id;
  *this = before;
  return Expected("a value such as %0");
}

absl::StatusOr<std::string> LineReader::String(absl::string_view what) {
  if (!Peek('"')) return Expected(what);
  size_t end = 1;
  while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
  if (end >= rest_.size()) return Expected(absl::StrCat(what, " that ends with '\"'"));
  std::string text, error;
  if (!absl::CUnescape(rest_.substr(1, end - 1), &text, &error)) return Expected(absl::StrCat(what, " (", error, ")"));
  Accept(rest_.substr(0, end + 1));
  return text;
}

absl::StatusOr<absl::string_view> LineReader::Bracketed(char open, char close, absl::string_view what) {
  int depth = 0;
  for (size_t i = 0; i < rest_.size() && !absl::ascii_isspace(rest_[i]); ++i) {
    if (rest_[i] == open) ++depth;
    if (rest_[i] == close && --depth <= 0) {
      const absl::string_view text = rest_.substr(0, i + 1);
      Accept(text);
      return text;
    }
  }
  return Expected(what);
}

void LineReader::SkipSpaces() {
  rest_.remove_prefix(PeekWhile([](char c) { return c == ' ' || c == '\t' || c == '\r'; }).size());
}

}  // namespace oneflow
