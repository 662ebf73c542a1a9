// Numbers as text, with commas between, for the attribute `values` of the op `literal`: attributes hold no lists of
// doubles. Standard library only, so that CUDA sources may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace oneflow {

// The shortest text that reads back to the same numbers.
std::string LiteralText(const std::vector<double>& values);
// The inverse; nothing if `text` is no such list. "inf" and "nan" are numbers.
std::optional<std::vector<double>> ParseLiteral(const std::string& text);

}  // namespace oneflow
