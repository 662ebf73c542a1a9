// What edges with a policy compute: addends as rows, orthonormal columns, and rows as levels of few bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/logical_runs.h"
#include "kernels/cpu/normals.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

namespace oneflow::cpu {
namespace {

// A rank with one row has its own addend there; one with all rows has the whole sum in the first.
const char* Addends(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  if (y.count == 0) return nullptr;
  std::memcpy(y.data, x.data, static_cast<size_t>(x.count) * sizeof(float));
  std::fill(y.as<float>() + x.count, y.as<float>() + y.count, 0.0f);
  return nullptr;
}

// Gram-Schmidt on columns [n, r], row by row of memory: one pass makes the products of a column with itself and all
// later ones, the next makes it a unit and takes it from the later ones.
class GramSchmidt {
 public:
  GramSchmidt(float* q, int64_t n, int64_t r) : q_(q), n_(n), r_(r), products_(static_cast<size_t>(r)) {}

  // Columns whose squared length was `before` and is now at most `least` of that become zeros. Null: compare with 1.
  void Orthonormalize(const double* before, double least) {
    for (int64_t i = 0; i < r_; ++i) {
      Multiply(i);
      const double square = products_[i];
      const bool depends = !(square > least * (before == nullptr ? 1 : before[i]));
      Take(i, depends ? 0 : 1 / std::sqrt(square));
    }
  }

  std::vector<double> Squares() const {
    std::vector<double> squares(static_cast<size_t>(r_));
    for (int64_t row = 0; row < n_; ++row) {
      for (int64_t j = 0; j < r_; ++j) squares[j] += static_cast<double>(q_[row * r_ + j]) * q_[row * r_ + j];
    }
    return squares;
  }

 private:
  void Multiply(int64_t i) {
    std::fill(products_.begin() + i, products_.end(), 0.0);
    for (int64_t row = 0; row < n_; ++row) {
      const float* const x = q_ + row * r_;
      const double own = x[i];
      for (int64_t j = i; j < r_; ++j) products_[j] += own * x[j];
    }
  }

  void Take(int64_t i, double inverse) {
    for (int64_t row = 0; row < n_; ++row) {
      float* const x = q_ + row * r_;
      const double unit = x[i] * inverse;
      x[i] = static_cast<float>(unit);
      for (int64_t j = i + 1; j < r_; ++j) x[j] = static_cast<float>(x[j] - products_[j] * inverse * unit);
    }
  }

  float* const q_;
  const int64_t n_, r_;
  std::vector<double> products_;  // of the column with itself and those behind it
};

// Two sweeps make columns orthogonal to rounding. A column that keeps a millionth of its length in the first, or not
// half of it in the second, was a combination of those before it, and what is left of it is rounding.
const char* Orthonormalize(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &q = args.out[0];
  if (q.count == 0) return nullptr;
  std::memcpy(q.data, x.data, static_cast<size_t>(x.count) * sizeof(float));
  GramSchmidt columns(q.as<float>(), x.dims[0], x.dims[1]);
  columns.Orthonormalize(columns.Squares().data(), 1e-12);
  columns.Orthonormalize(nullptr, 0.25);
  return nullptr;
}

// How a row is cut into levels. With a unit of zero, or none, all levels are 0.
struct Range {
  float least, unit;
};

// Of NaNs for a row that is not finite.
Range RangeOf(const float* x, int64_t c, int levels) {
  F32s least = Splat(x[0]), largest = least, lost = Splat(0);
  VecLoop(c, [&](int64_t i, auto lanes) OF_INLINED {
    const F32s v = Load(x + i, lanes, x[0]);
    least = Min(least, v);
    largest = Max(largest, v);
    lost += v - v;
  });
  const auto smaller = [](F32s a, F32s b) OF_INLINED { return Min(a, b); };
  const float from = Fold(least, smaller), none = Sum(lost);  // 0 or NaN
  return {from + none, (MaxOf(largest) - from) / static_cast<float>(levels) + none};
}

// Eight levels as kBits bytes, the first in the lowest bits.
template <int kBits>
OF_INLINE void Pack(const int32_t* levels, uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<uint64_t>(levels[i]) << (kBits * i);
  std::memcpy(bytes, &word, kBits);
}

template <int kBits>
OF_INLINE void Unpack(const uint8_t* bytes, int32_t* levels) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, kBits);
  for (int i = 0; i < 8; ++i) levels[i] = static_cast<int32_t>(word >> (kBits * i) & ((1 << kBits) - 1));
}

// x as codes, a piece at a time that fits the cache. shift(i, lanes): what is added before a level is cut off.
template <int kBits, typename Shift>
OF_INLINE void Levels(const float* x, int64_t c, Range range, uint8_t* codes, Shift shift) {
  constexpr int64_t kPiece = kPhiloxGroup;
  alignas(64) int32_t levels[kPiece + kLanes];
  for (int64_t first = 0; first < c; first += kPiece) {
    const int64_t n = std::min(kPiece, c - first);
    VecLoop(n, [&](int64_t i, auto lanes) OF_INLINED {
      const F32s at = (Load(x + first + i, lanes) - range.least) / range.unit + shift(first + i, lanes);
      const I32s level = __builtin_convertvector(Min(at, Splat((1 << kBits) - 1)), I32s);
      std::memcpy(levels + i, &level, sizeof(level));
    });
    for (int64_t i = 0; i < n; i += 8) Pack<kBits>(levels + i, codes + (first + i) / 8 * kBits);
  }
}

template <int kBits>
const char* QuantizeTo(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  const int64_t c = x.dims[x.rank - 1], bytes = c / 8 * kBits, room = c / 8 * args.attrs->Int("bits");
  const bool stochastic = args.attrs->Bool("stochastic", false);
  const uint64_t key = stochastic ? RandomStream(args).key : 0, step = static_cast<uint64_t>(args.step);
  const LogicalRuns runs(x, args.micro_batch);
  ParallelFor(x.count / c, Grain(c * (stochastic ? 16 : 4) * sizeof(float)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = x.as<const float>() + row * c;
      uint8_t* const codes = args.out[0].as<uint8_t>() + row * room;
      std::memset(codes + bytes, 0, static_cast<size_t>(room - bytes));
      const Range range = RangeOf(from, c, (1 << kBits) - 1);
      std::memcpy(args.out[1].as<float>() + 2 * row, &range, sizeof(range));
      if (!(range.unit > 0)) {
        std::memset(codes, 0, static_cast<size_t>(bytes));
      } else if (!stochastic) {
        Levels<kBits>(from, c, range, codes, [](int64_t, auto) OF_INLINED { return Splat(0.5f); });
      } else {
        const uint64_t index = runs.IndexOf(row * c);
        alignas(64) uint32_t bits[kPhiloxGroup + kLanes];
        Levels<kBits>(from, c, range, codes, [&](int64_t i, auto) OF_INLINED {
          if (i % kPhiloxGroup == 0) GroupBits(key, step, index + i, bits);
          U32s drawn;
          std::memcpy(&drawn, bits + i % kPhiloxGroup, sizeof(drawn));
          return ToUniform(drawn);
        });
      }
    }
  });
  return nullptr;
}

template <int kBits>
const char* DequantizeFrom(const KernelArgs& args) {
  const TensorArg& x = args.out[0];
  const int64_t c = x.dims[x.rank - 1], room = c / 8 * args.attrs->Int("bits");
  ParallelFor(x.count / c, Grain(c * 2 * sizeof(float)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* const codes = args.in[0].as<const uint8_t>() + row * room;
      float* const to = x.as<float>() + row * c;
      Range range;
      std::memcpy(&range, args.in[1].as<const float>() + 2 * row, sizeof(range));
      for (int64_t i = 0; i < c; i += 8) {
        int32_t levels[8];
        Unpack<kBits>(codes + i / 8 * kBits, levels);
        for (int j = 0; j < 8; ++j) to[i + j] = range.least + static_cast<float>(levels[j]) * range.unit;
      }
    }
  });
  return nullptr;
}

// Those that operand `used` says, if it is there. A number from elsewhere may be any.
int64_t UsedBits(const KernelArgs& args, size_t used) {
  const int64_t room = args.attrs->Int("bits");
  return args.in.size() > used ? std::clamp<int64_t>(*args.in[used].as<const int32_t>(), 1, room) : room;
}

template <size_t... kBits>
const char* WithBits(const KernelArgs& args, bool quantizes, std::index_sequence<kBits...>) {
  constexpr KernelFn kQuantize[] = {QuantizeTo<kBits + 1>...}, kDequantize[] = {DequantizeFrom<kBits + 1>...};
  const int64_t bits = UsedBits(args, quantizes ? 1 : 2);
  return (quantizes ? kQuantize : kDequantize)[bits - 1](args);
}

const char* Quantize(const KernelArgs& args) { return WithBits(args, true, std::make_index_sequence<8>()); }
const char* Dequantize(const KernelArgs& args) { return WithBits(args, false, std::make_index_sequence<8>()); }

}  // namespace

KernelList CodecKernels() {
  return {{"addends", DType::kFloat32, Addends},
          {"orthonormalize", DType::kFloat32, Orthonormalize},
          {"quantize", DType::kFloat32, Quantize},
          {"dequantize", DType::kUInt8, Dequantize}};
}

}  // namespace oneflow::cpu
