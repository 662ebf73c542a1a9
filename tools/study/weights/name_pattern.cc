#include "tools/study/weights/name_pattern.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace oneflow {
namespace {

constexpr size_t kMostDigits = 9;

}  // namespace

absl::StatusOr<NamePattern> NamePattern::Parse(const std::string& text) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("name '", text, "': ", what...));
  };
  NamePattern pattern;
  pattern.text_ = text;
  for (size_t at = 0; at <= text.size();) {
    Piece piece;
    const size_t open = text.find_first_of("{}", at);
    piece.text = text.substr(at, open == std::string::npos ? std::string::npos : open - at);
    const bool follows = !pattern.pieces_.empty();
    if (follows && !piece.text.empty() && absl::ascii_isdigit(piece.text[0])) {
      return error("a digit follows '}', so that it is open where the number ends");
    }
    if (open == std::string::npos) {
      pattern.pieces_.push_back(std::move(piece));
      break;
    }
    const size_t close = text.find('}', open);
    if (text[open] == '}' || close == std::string::npos) return error("braces do not match");
    if (follows && piece.text.empty()) return error("two placeholders without anything between them");
    const std::string inner = text.substr(open + 1, close - open - 1);
    const size_t sign = std::min(inner.find_first_of("+-"), inner.size());
    piece.name = inner.substr(0, sign);
    const bool is_name = !piece.name.empty() && std::all_of(piece.name.begin(), piece.name.end(), absl::ascii_isalpha);
    if (!is_name) return error("'{", inner, "}' is no placeholder such as {i} or {i-1}");
    if (sign < inner.size()) {
      if (!absl::SimpleAtoi(inner.substr(sign + 1), &piece.offset) || piece.offset < 1 || piece.offset > 1'000'000) {
        return error("'{", inner, "}' adds no number from 1 to 1000000");
      }
      if (inner[sign] == '-') piece.offset = -piece.offset;
    }
    pattern.pieces_.push_back(std::move(piece));
    at = close + 1;
  }
  return pattern;
}

bool NamePattern::has_offsets() const {
  return std::any_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return piece.offset != 0; });
}

bool NamePattern::UsesOnly(const NamePattern& other) const {
  return std::all_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    return piece.name.empty() || std::any_of(other.pieces_.begin(), other.pieces_.end(),
                                             [&](const Piece& its) { return its.name == piece.name; });
  });
}

std::optional<NameNumbers> NamePattern::Match(absl::string_view name) const {
  NameNumbers numbers;
  for (const Piece& piece : pieces_) {
    if (!absl::ConsumePrefix(&name, piece.text)) return std::nullopt;
    if (piece.name.empty()) continue;
    size_t digits = 0;
    while (digits < name.size() && absl::ascii_isdigit(name[digits])) ++digits;
    int64_t number = 0;
    if (digits == 0 || digits > kMostDigits || (digits > 1 && name[0] == '0')) return std::nullopt;
    if (!absl::SimpleAtoi(name.substr(0, digits), &number)) return std::nullopt;
    name.remove_prefix(digits);
    if (numbers.emplace(piece.name, number).first->second != number) return std::nullopt;
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

std::string NamePattern::Fill(const NameNumbers& numbers) const {
  std::string name;
  for (const Piece& piece : pieces_) {
    name += piece.text;
    if (!piece.name.empty()) absl::StrAppend(&name, numbers.at(piece.name) + piece.offset);
  }
  return name;
}

}  // namespace oneflow
