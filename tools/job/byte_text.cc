#include "tools/job/byte_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace oneflow {
namespace {

constexpr struct {
  absl::string_view name;
  double bytes;
} kUnits[] = {{"GiB", 1024.0 * 1024 * 1024},
              {"MiB", 1024.0 * 1024},
              {"KiB", 1024.0},
              {"GB", 1e9},
              {"MB", 1e6},
              {"kB", 1e3},
              {"B", 1}};

}  // namespace

absl::StatusOr<int64_t> BytesOfText(absl::string_view text) {
  absl::string_view number = text;
  double unit = 1;
  for (const auto& [name, bytes] : kUnits) {
    if (!absl::ConsumeSuffix(&number, name)) continue;
    unit = bytes;
    break;
  }
  number = absl::StripAsciiWhitespace(number);
  double value = 0;
  constexpr double kMost = 4.6e18;
  const bool is_number = !number.empty() && absl::ascii_isdigit(static_cast<unsigned char>(number.front())) &&
                         absl::SimpleAtod(number, &value);
  if (is_number && value * unit >= 1 && value * unit < kMost) return static_cast<int64_t>(value * unit);
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no size of memory, such as \"18GB\", \"1.5GiB\", \"900MB\" or \"4096\""));
}

}  // namespace oneflow
