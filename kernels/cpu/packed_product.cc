#include "kernels/cpu/packed_product.h"

#include <cstring>

#include "kernels/cpu/half.h"
#include "oneflow_core/packed.h"

namespace oneflow::cpu {
namespace {

constexpr int64_t kPanelVectors = kPanelColumns / kLanes;
static_assert(kPanelColumns % kLanes == 0 && kPanelRows % (kLanes * kPairedRows) == 0);

// Rows of w that are packed in one go, from their first column to their last: few enough to be read as streams, and a
// cache line of columns of panels.
constexpr int64_t kStrip = kLine;
static_assert(kPanelRows % kStrip == 0 && kPanelColumns % kStrip == 0);
constexpr int64_t kStripPairs = kStrip / kPairedRows;

// Panels of more bytes pass the caches by: the product that reads them would not find them in a second cache.
constexpr int64_t kMostCachedBytes = 512 << 10;

OF_INLINE U32s Bits(F32s x) { return __builtin_convertvector(Narrow(x, static_cast<BFloat16*>(nullptr)), U32s); }

template <bool kPast>
OF_INLINE void Put(uint32_t* to, F32s pairs) {
  float* const place = reinterpret_cast<float*>(to);
  if constexpr (kPast && kLanes == kLine) {  // parts of lines would be written one by one
    StorePastCaches(place, pairs);
  } else {
    Store(place, pairs);
  }
}

// A strip of rows of w, `stride` apart, in a panel whose rows they are: two of them are woven into one.
template <bool kPast, typename From>
void PackRows(const From* w, int64_t stride, uint32_t* packed) {
  for (int64_t i = 0; i < kStripPairs; ++i, w += kPairedRows * stride) {
    for (int64_t v = 0; v < kPanelVectors; ++v, packed += kLanes) {
      Put<kPast>(packed, (F32s)(Bits(Load(w + v * kLanes)) | Bits(Load(w + stride + v * kLanes)) << 16));
    }
  }
}

// The same where they are a panel's columns: tiles of as many rows as a vector has lanes, and as many pairs, are
// transposed, until `count` columns of w are packed.
template <bool kPast, typename From>
void PackColumns(const From* w, int64_t stride, int64_t count, uint32_t* packed) {
  for (int64_t i = 0; i < count; i += kLanes * kPairedRows, packed += kPanelColumns * kLanes) {
    for (int64_t first = 0; first < kStrip; first += kLanes) {
      F32s tile[kLanes];
      for (int64_t r = 0; r < kLanes; ++r) {
        const From* const row = w + (first + r) * stride + i;
        BFloat16 pairs[kLanes * kPairedRows];
        Store(pairs, Load(row));
        Store(pairs + kLanes, Load(row + kLanes));
        std::memcpy(&tile[r], pairs, sizeof(pairs));
      }
      Transpose(tile);
      for (int64_t r = 0; r < kLanes; ++r) Put<kPast>(packed + r * kPanelColumns + first, tile[r]);
    }
  }
}

// Where the panels of w[rows, columns] go whose rows are w's, and those whose columns are; null: nowhere.
struct PackedPlaces {
  uint32_t *of_rows, *of_columns;
};

template <bool kPast, typename From>
void PackStrips(const From* w, int64_t rows, int64_t columns, PackedPlaces to) {
  const int64_t bytes = kStrip * columns * static_cast<int64_t>(sizeof(From) + sizeof(BFloat16));
  const int64_t step = to.of_rows == nullptr ? kPanelRows : kPanelColumns;
  ParallelFor(rows / kStrip, Grain(bytes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kStrip; row < end * kStrip; row += kStrip) {
      for (int64_t column = 0; column < columns; column += step) {
        const From* const from = w + row * columns + column;
        if (to.of_rows != nullptr)
          PackRows<kPast>(from, columns, to.of_rows + column * (rows / 2) + row / 2 * kPanelColumns);
        if (to.of_columns == nullptr) continue;
        const int64_t panel = row / kPanelColumns;
        PackColumns<kPast>(from, columns, step,
                           to.of_columns + (panel * (columns / 2) + column / 2) * kPanelColumns + row % kPanelColumns);
      }
    }
    if (kPast) FinishStores();
  });
}

void Pack(const TensorArg& w, PackedPlaces to) {
  const int64_t rows = w.dims[0], columns = w.dims[1];
  const bool past = rows * columns * static_cast<int64_t>(sizeof(BFloat16)) > kMostCachedBytes;
  const auto pack = [&]<typename From>() {
    if (past) {
      PackStrips<true>(w.as<const From>(), rows, columns, to);
    } else {
      PackStrips<false>(w.as<const From>(), rows, columns, to);
    }
  };
  if (w.dtype == DType::kFloat32) {
    pack.template operator()<float>();
  } else {
    pack.template operator()<BFloat16>();
  }
}

}  // namespace

const char* PackWeight(const KernelArgs& args) {
  uint32_t* const packed = args.out[0].as<uint32_t>();
  const bool transposed = args.attrs->Bool("transpose");
  Pack(args.in[0], {transposed ? nullptr : packed, transposed ? packed : nullptr});
  return nullptr;
}

const char* PackWeightBothWays(const KernelArgs& args) {
  Pack(args.in[0], {args.out[0].as<uint32_t>(), args.out[1].as<uint32_t>()});
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
