#include "actor/init.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no finite number"));
  }
  return value;
}

absl::StatusOr<Init> Parse(absl::string_view text, int64_t count) {
  if (text == "zeros") return Init{.value = 0};
  if (text == "ones") return Init{.value = 1};
  const size_t open = text.find('(');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&text, ")")) {
    return absl::InvalidArgumentError("it may be zeros, ones, constant(v), normal(std), uniform(bound) or list(v,...)");
  }
  const absl::string_view name = text.substr(0, open), inside = text.substr(open + 1);
  if (name == "list") {
    Init init{.kind = Init::Kind::kList};
    const std::vector<absl::string_view> items = absl::StrSplit(inside, ',', absl::SkipWhitespace());
    for (const absl::string_view item : items) {
      OF_ASSIGN_OR_RETURN(const double value, ParseNumber(item));
      init.list.push_back(value);
    }
    if (static_cast<int64_t>(init.list.size()) == count) return init;
    return absl::InvalidArgumentError(absl::StrCat(init.list.size(), " values for ", count, " elements"));
  }
  OF_ASSIGN_OR_RETURN(const double value, ParseNumber(inside));
  if (name == "constant") return Init{.kind = Init::Kind::kConstant, .value = value};
  if (name == "normal") return Init{.kind = Init::Kind::kNormal, .value = value};
  if (name == "uniform") return Init{.kind = Init::Kind::kUniform, .value = value};
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no kind of initial value"));
}

}  // namespace

absl::StatusOr<Init> ParseInit(absl::string_view text, int64_t count) {
  absl::StatusOr<Init> init = Parse(text, count);
  if (!init.ok()) return Annotate(init.status(), absl::StrCat("init '", text.substr(0, 60), "'"));
  return init;
}

uint64_t InitKey(uint64_t seed, absl::string_view variable) {
  uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a, 64 bits
  for (const char c : variable) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return RandomKey(seed, hash);
}

double InitialValue(const Init& init, uint64_t key, int64_t index) {
  constexpr float kTwoPi = 6.28318530717958647692f;
  const uint64_t i = static_cast<uint64_t>(index);
  switch (init.kind) {
    case Init::Kind::kConstant:
      return init.value;
    case Init::Kind::kList:
      return init.list[i];
    case Init::Kind::kUniform:
      return init.value * (2.0 * ToUniform(RandomBits(key, 0, i)) - 1.0);
    case Init::Kind::kNormal: {
      // Bits 2i and 2i + 1 come from one block; 1 - u is in (0, 1], where the logarithm is finite.
      const uint64_t first = 2 * i, block = first >> 2;
      const Philox4 bits = Philox(key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0);
      const float radius = std::sqrt(-2.0f * std::log(1.0f - ToUniform(bits.x[first & 3])));
      return init.value * static_cast<double>(radius * std::cos(kTwoPi * ToUniform(bits.x[(first & 3) + 1])));
    }
  }
  return 0;
}

}  // namespace oneflow
