#include "actor/init.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "actor/element.h"
#include "kernels/random.h"
#include "kernels/random_fill.h"

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

void FillInitial(const Init& init, uint64_t key, int64_t first, int64_t count, DType dtype, void* out, int64_t at) {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  if (init.kind == Init::Kind::kConstant && init.value == 0) {
    std::memset(static_cast<char*>(out) + at * size, 0, static_cast<size_t>(count * size));
    return;
  }
  if (init.kind == Init::Kind::kConstant || init.kind == Init::Kind::kList) {
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(dtype, out, at + i, init.kind == Init::Kind::kList ? init.list[first + i] : init.value);
    }
    return;
  }
  const auto fill = [&](int64_t from, int64_t n, float* to) {
    const auto draw = init.kind == Init::Kind::kNormal ? FillNormal : FillUniform;
    draw(key, static_cast<uint64_t>(from), n, static_cast<float>(init.value), to);
  };
  if (dtype == DType::kFloat32) return fill(first, count, static_cast<float*>(out) + at);
  float values[1024];
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min<int64_t>(count - done, std::size(values));
    fill(first + done, n, values);
    for (int64_t i = 0; i < n; ++i) StoreElement(dtype, out, at + done + i, values[i]);
    done += n;
  }
}

}  // namespace oneflow
