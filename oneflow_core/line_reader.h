// Reads tokens from the front of one line of text that need not be trusted: what the parser of graphs is made of.
//
//   LineReader line("relu(%0) \"r\"");
//   line.Word("an op");  line.Expect("(", "after the op");  line.ValueName();  line.Expect(")", "after the inputs");
//   line.String("a name");
//
// Spaces between tokens do not matter. A token that is not there leaves the reader where it was; every failure is
// InvalidArgument "expected <what> but found '<the beginning of what is there>'".
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/status.h"

namespace oneflow {

class LineReader {
 public:
  // `line` is borrowed; what is read as a string_view points into it.
  explicit LineReader(absl::string_view line) : rest_(line) { SkipSpaces(); }

  bool AtEnd() const { return rest_.empty(); }
  bool Peek(char c) const { return !rest_.empty() && rest_[0] == c; }
  absl::Status Expected(absl::string_view what) const;

  // Reads `token` if it is next.
  bool Accept(absl::string_view token);
  // The same if the whole next word is `word`.
  bool AcceptWord(absl::string_view word);
  // Fails if `token` is not next; `where` says after what it belongs.
  absl::Status Expect(absl::string_view token, absl::string_view where);

  // A word as IsWord() has it.
  absl::StatusOr<absl::string_view> Word(absl::string_view what);
  // A run of the characters that numbers and dashed names are made of; may be empty.
  absl::string_view Atom();
  template <typename Int>
  absl::StatusOr<Int> Integer(absl::string_view what) {
    const LineReader before = *this;
    Int value = 0;
    if (absl::SimpleAtoi(Atom(), &value)) return value;
    *this = before;
    return Expected(what);
  }
  // "%12".
  absl::StatusOr<ValueId> ValueName();
  // A string in double quotes with C escapes.
  absl::StatusOr<std::string> String(absl::string_view what);
  // The text from here, without spaces, to the bracket that closes the first `open`.
  absl::StatusOr<absl::string_view> Bracketed(char open, char close, absl::string_view what);

 private:
  template <typename Predicate>
  absl::string_view PeekWhile(Predicate predicate) const {
    size_t n = 0;
    while (n < rest_.size() && predicate(rest_[n])) ++n;
    return rest_.substr(0, n);
  }
  absl::string_view PeekWord() const {
    return PeekWhile([](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  }
  void SkipSpaces();

  absl::string_view rest_;
};

}  // namespace oneflow
