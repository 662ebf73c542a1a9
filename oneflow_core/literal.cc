#include "oneflow_core/literal.h"

#include <charconv>

namespace oneflow {

std::string LiteralText(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    char buffer[32];  // the longest double has 24 characters
    if (!text.empty()) text += ',';
    text.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  }
  return text;
}

std::optional<std::vector<double>> ParseLiteral(const std::string& text) {
  std::vector<double> values;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && (*next != ',' || next + 1 == end))) return std::nullopt;
    values.push_back(value);
    at = next == end ? end : next + 1;
  }
  return values;
}

}  // namespace oneflow
