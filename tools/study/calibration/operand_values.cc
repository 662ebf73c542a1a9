#include "tools/study/calibration/operand_values.h"

#include <algorithm>

#include "actor/element.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

double DrawnValue(DType dtype, uint32_t bits, int64_t limit) {
  if (IsFloating(dtype)) return 0.25 + 0.75 * static_cast<double>(ToUniform(bits));
  if (dtype == DType::kBool) return bits & 1;
  if (dtype == DType::kUInt8) limit = std::min<int64_t>(limit, 256);
  return static_cast<double>(bits % static_cast<uint64_t>(limit));
}

}  // namespace

std::vector<uint8_t> OperandValues(DType dtype, int64_t count, uint64_t seed, int64_t limit) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  const uint64_t key = RandomKey(seed, 0);
  for (int64_t block = 0; 4 * block < count; ++block) {
    const Philox4 bits = Philox(key, static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0);
    for (int64_t i = 4 * block; i < std::min(count, 4 * block + 4); ++i) {
      StoreElement(dtype, bytes.data(), i, DrawnValue(dtype, bits.x[i & 3], limit));
    }
  }
  return bytes;
}

}  // namespace oneflow
