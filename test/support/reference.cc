#include "test/support/reference.h"

#include <cmath>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "kernels/float16.h"
#include "test/support/op_facts.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing {
namespace {

// By op.
const std::map<std::string, ReferenceFn>& Table() {
  static const auto* const table = [] {
    auto* const all = new std::map<std::string, ReferenceFn>;
    for (const OpFacts& facts : AllOpFacts()) all->insert(facts.reference.begin(), facts.reference.end());
    return all;
  }();
  return *table;
}

// bf16 is the upper half of an f32, rounded to nearest even: by hand, so that it does not share code with the kernels.
float ThroughBFloat16(float x) {
  if (std::isnan(x)) return x;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t lower = bits & 0xffff, upper = bits >> 16;
  const bool up = lower > 0x8000 || (lower == 0x8000 && (upper & 1) == 1);
  bits = (upper + up) << 16;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

}  // namespace

RefTensor Zeros(std::vector<int64_t> dims, DType dtype) {
  RefTensor x{std::move(dims), {}, dtype};
  x.values.resize(Count(x.dims));
  return x;
}

RefTensor Rounded(RefTensor x) {
  for (double& v : x.values) {
    switch (x.dtype) {
      case DType::kFloat32:
        v = static_cast<float>(v);
        break;
      case DType::kBFloat16:
        v = ThroughBFloat16(static_cast<float>(v));
        break;
      case DType::kFloat16:
        v = static_cast<double>(static_cast<NativeFloat16>(v));
        break;
      case DType::kBool:
        v = v != 0;
        break;
      default:
        v = std::trunc(v);
    }
  }
  return x;
}

RefTensor Cut(const RefTensor& x, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) {
  RefTensor part = Zeros(extent, x.dtype);
  part.ragged = x.ragged;
  for (int64_t i = 0; i < part.count(); ++i) {
    Dims at = Unravel(extent, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] += start[d];
    part.values[i] = x.values[Ravel(x.dims, at)];
  }
  return part;
}

void Paste(const RefTensor& part, const std::vector<int64_t>& start, RefTensor* x) {
  for (int64_t i = 0; i < part.count(); ++i) {
    Dims at = Unravel(part.dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] += start[d];
    x->values[Ravel(x->dims, at)] = part.values[i];
  }
}

absl::StatusOr<std::vector<RefTensor>> Reference(const std::string& op, const AttrMap& attrs,
                                                 std::vector<RefTensor>& inputs, const RefContext& context) {
  const auto it = Table().find(op);
  if (it == Table().end()) return absl::UnimplementedError(absl::StrCat("op '", op, "' has no reference"));
  RefCall call{attrs, inputs, context};
  return it->second(call);
}

std::vector<std::string> ReferenceOps() {
  std::vector<std::string> names;
  for (const auto& [name, function] : Table()) names.push_back(name);
  return names;
}

}  // namespace oneflow::testing
