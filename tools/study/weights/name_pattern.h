// Names with numbers in them: "h{i}/attn/q/weight" matches "h11/attn/q/weight" with i = 11, and "h.{i}.attn.weight" is
// then "h.11.attn.weight"; "{i-1}" and "{i+2}" are the number less 1 and more 2.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

using NameNumbers = std::map<std::string, int64_t>;

class NamePattern {
 public:
  // InvalidArgument, naming the pattern, if braces do not match, a placeholder has no name of letters or no number
  // behind its sign, or a placeholder is followed by a digit or another one, so that a name could match in two ways.
  static absl::StatusOr<NamePattern> Parse(const std::string& text);

  const std::string& text() const { return text_; }
  // Whether a placeholder adds something to its number. Such a pattern only fills in.
  bool has_offsets() const;
  // Whether all placeholders are in `other` too.
  bool UsesOnly(const NamePattern& other) const;

  // The numbers with which the pattern is `name`; nothing: it is not. Numbers have no leading zeros and at most 9
  // digits. REQUIRES: !has_offsets().
  std::optional<NameNumbers> Match(absl::string_view name) const;
  // The name. REQUIRES: all placeholders have a number.
  std::string Fill(const NameNumbers& numbers) const;

 private:
  // A text, and behind it, unless it is the last, a placeholder.
  struct Piece {
    std::string text;
    std::string name;  // empty: none
    int64_t offset = 0;
  };

  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace oneflow
