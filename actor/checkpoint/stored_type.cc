#include "actor/checkpoint/stored_type.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

struct Row {
  const char* name;
  int bits;
  std::optional<DType> ours = std::nullopt;
};

constexpr Row kTypes[] = {
    {"F32", 32, DType::kFloat32},
    {"BF16", 16, DType::kBFloat16},
    {"F16", 16, DType::kFloat16},
    {"I32", 32, DType::kInt32},
    {"I64", 64, DType::kInt64},
    {"U8", 8, DType::kUInt8},
    {"BOOL", 8, DType::kBool},
    {"F64", 64},
    {"C64", 64},
    {"U64", 64},
    {"U32", 32},
    {"U16", 16},
    {"I16", 16},
    {"I8", 8},
    {"F8_E5M2FNUZ", 8},
    {"F8_E4M3FNUZ", 8},
    {"F8_E8M0", 8},
    {"F8_E4M3", 8},
    {"F8_E5M2", 8},
    {"F6_E3M2", 6},
    {"F6_E2M3", 6},
    {"F4", 4},
};

}  // namespace

StoredDType::StoredDType(DType dtype)
    : row_(static_cast<int>(
          std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Row& row) { return row.ours == dtype; }) -
          std::begin(kTypes))) {}

std::optional<StoredDType> StoredDType::Find(absl::string_view name) {
  for (int row = 0; row < static_cast<int>(std::size(kTypes)); ++row) {
    if (name == kTypes[row].name) return StoredDType(row, 0);
  }
  return std::nullopt;
}

const char* StoredDType::name() const { return kTypes[row_].name; }

int StoredDType::bits() const { return kTypes[row_].bits; }

std::optional<DType> StoredDType::ours() const { return kTypes[row_].ours; }

bool StoredDType::is_floating() const {
  return (ours().has_value() && IsFloating(*ours())) || absl::string_view(name()) == "F64";
}

int64_t StoredType::num_bytes() const {
  const int64_t bits = dtype.bits();
  return bits % 8 == 0 ? shape.count() * (bits / 8) : shape.count() * bits / 8;
}

std::string StoredType::ToString() const { return absl::StrCat(absl::AsciiStrToLower(dtype.name()), shape.ToString()); }

std::optional<TensorType> StoredType::ours() const {
  if (!dtype.ours().has_value()) return std::nullopt;
  return TensorType{*dtype.ours(), shape};
}

}  // namespace oneflow
