#include "kernels/cpu/packed_product.h"

#include <cstring>

#include "kernels/cpu/half.h"
#include "oneflow_core/packed.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kPanelVectors = kPanelColumns / kLanes;
static_assert(kPanelColumns % kLanes == 0 && kPanelRows % (kLanes * kPairedRows) == 0);

OF_INLINE U32s Bits(F32s x) { return __builtin_convertvector(Narrow(x, static_cast<BFloat16*>(nullptr)), U32s); }

// Rows of w are rows of panels: two of them are woven into one.
template <typename From>
void PackRows(const From* w, int64_t k, int64_t n, int64_t panel, uint32_t* packed) {
  for (int64_t i = 0; i < k; i += kPairedRows) {
    const From* const row = w + i * n + panel * kPanelColumns;
    for (int64_t v = 0; v < kPanelVectors; ++v, packed += kLanes) {
      const U32s pairs = Bits(Load(row + v * kLanes)) | Bits(Load(row + n + v * kLanes)) << 16;
      std::memcpy(packed, &pairs, sizeof(pairs));
    }
  }
}

// Rows of w are columns of panels: tiles of as many rows as a vector has lanes, and as many pairs, are transposed.
template <typename From>
void PackColumns(const From* w, int64_t k, int64_t panel, uint32_t* packed) {
  for (int64_t i = 0; i < k; i += kLanes * kPairedRows, packed += kPanelColumns * kLanes) {
    for (int64_t v = 0; v < kPanelVectors; ++v) {
      const From* const rows = w + (panel * kPanelColumns + v * kLanes) * k + i;
      F32s tile[kLanes];
      for (int64_t r = 0; r < kLanes; ++r) {
        BFloat16 pairs[kLanes * kPairedRows];
        Store(pairs, Load(rows + r * k));
        Store(pairs + kLanes, Load(rows + r * k + kLanes));
        std::memcpy(&tile[r], pairs, sizeof(pairs));
      }
      Transpose(tile);
      for (int64_t r = 0; r < kLanes; ++r) {
        std::memcpy(packed + r * kPanelColumns + v * kLanes, &tile[r], sizeof(tile[r]));
      }
    }
  }
}

template <typename From>
void Pack(const KernelArgs& args) {
  const TensorArg &w = args.in[0], &packed = args.out[0];
  const bool transposed = args.attrs->Bool("transpose");
  const int64_t panels = packed.dims[0], k = packed.dims[1] * kPairedRows, n = panels * kPanelColumns;
  const int64_t pairs = packed.count / kPairedRows / std::max<int64_t>(1, panels);  // of a panel
  ParallelFor(panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      uint32_t* const at = packed.as<uint32_t>() + panel * pairs;
      if (transposed) {
        PackColumns(w.as<const From>(), k, panel, at);
      } else {
        PackRows(w.as<const From>(), k, n, panel, at);
      }
    }
  });
}

}  // namespace

const char* PackWeight(const KernelArgs& args) {
  if (args.in[0].dtype == DType::kFloat32) {
    Pack<float>(args);
  } else {
    Pack<BFloat16>(args);
  }
  return nullptr;
}

void UnpackWeight(const void* packed, int64_t k, int64_t n, float* wide) {
  const auto* const pairs = static_cast<const U32s*>(packed);
  ParallelFor(k / kPairedRows, Grain(n * 3 * static_cast<int64_t>(sizeof(float))), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t v = 0; v < n / kLanes; ++v) {
        const int64_t panel = v / kPanelVectors;
        const U32s bits = pairs[(panel * (k / kPairedRows) + i) * kPanelVectors + v % kPanelVectors];
        Store(wide + i * kPairedRows * n + v * kLanes, (F32s)(bits << 16));
        Store(wide + (i * kPairedRows + 1) * n + v * kLanes, (F32s)(bits & 0xffff0000u));
      }
    }
  });
}

}  // namespace oneflow::cpu
