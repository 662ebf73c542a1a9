// Tiles in memory against the formula of tile.h, and what is packed for tiles and multiplied on them against the
// plainest loops: bit for bit. Compiled for the processor that the tests are compiled for, so that it runs on any.
#include "kernels/cpu/tile.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/bfloat16.h"
#include "kernels/cpu/tile_pack.h"
#include "kernels/cpu/tile_product.h"
#include "oneflow_core/packed.h"

namespace oneflow::cpu {
namespace {

// As tiles have floats: numbers below 2^-126 are zeros of their sign.
float Flushed(float x) { return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
float Fused(float a, float b, float sum) { return Flushed(std::fma(Flushed(a), Flushed(b), Flushed(sum))); }

// c += the products of 32 terms, as one instruction has them.
float Dot(float c, const float* a, const float* b) {
  float even = 0, odd = 0;
  for (int p = 0; p < 16; ++p) {
    even = Fused(a[2 * p], b[2 * p], even);
    odd = Fused(a[2 * p + 1], b[2 * p + 1], odd);
  }
  return Flushed(Flushed(c) + Flushed(even + odd));
}

// A sum of any length, 32 terms at a time, the last beside zeros.
float Sum(const std::vector<float>& a, const std::vector<float>& b, float c = 0) {
  for (size_t i = 0; i < a.size(); i += 32) {
    float x[32] = {}, y[32] = {};
    for (size_t j = i; j < std::min(a.size(), i + 32); ++j) {
      x[j - i] = a[j];
      y[j - i] = b[j];
    }
    c = Dot(c, x, y);
  }
  return c;
}

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}
  std::vector<uint16_t> Normal(int64_t n) {
    std::normal_distribution<float> normal;
    return Make(n, [&] { return ToBFloat16(normal(random_)); });
  }
  // Of exponents up to `most`, so that some products and sums are below 2^-126 if it is great.
  std::vector<uint16_t> OfExponents(int64_t n, int most) {
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-most, most);
    return Make(n, [&] { return ToBFloat16(std::ldexp(normal(random_), exponent(random_))); });
  }
  std::vector<uint16_t> AnyBits(int64_t n) {
    return Make(n, [&] { return static_cast<uint16_t>(random_()); });
  }

 private:
  template <typename F>
  std::vector<uint16_t> Make(int64_t n, F&& f) {
    std::vector<uint16_t> x(n);
    for (uint16_t& value : x) value = f();
    return x;
  }
  std::mt19937 random_;
};

bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void ExpectOneDot(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, const std::vector<float>& c) {
  alignas(64) float sums[256];
  {
    const Tiles::Scope scope;
    Tiles::Load<0>(c.data(), 64);
    Tiles::Load<4>(a.data(), 64);
    Tiles::Load<6>(b.data(), 64);
    Tiles::Dot<0, 4, 6>();
    Tiles::Store<0>(sums, 64);
  }
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column) {
      float x[32], y[32];
      for (int i = 0; i < 32; ++i) {
        x[i] = FromBFloat16(a[row * 32 + i]);
        y[i] = FromBFloat16(b[i / 2 * 32 + column * 2 + i % 2]);
      }
      const float want = Dot(c[row * 16 + column], x, y);
      ASSERT_TRUE(SameBits(sums[row * 16 + column], want))
          << "row " << row << ", column " << column << ": " << sums[row * 16 + column] << " is not " << want;
    }
  }
}

TEST(TileTest, ProductsAreRoundedAsTheFormulaSays) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(kSeed);
  Numbers numbers(kSeed);
  const auto sums = [&](const std::vector<uint16_t>& bits) {
    std::vector<float> c;
    for (int i = 0; i < 256; ++i) c.push_back(FromBFloat16(bits[i]));
    return c;
  };
  for (int trial = 0; trial < 20; ++trial) {
    ExpectOneDot(numbers.Normal(512), numbers.Normal(512), sums(numbers.Normal(256)));
    ExpectOneDot(numbers.OfExponents(512, 20), numbers.OfExponents(512, 20), sums(numbers.OfExponents(256, 20)));
    // Most are below 2^-126, or their products are: zeros of either sign.
    ExpectOneDot(numbers.OfExponents(512, 130), numbers.Normal(512), sums(numbers.OfExponents(256, 130)));
    ExpectOneDot(numbers.AnyBits(512), numbers.AnyBits(512), sums(numbers.AnyBits(256)));
    if (HasFatalFailure()) return;
  }
}

TEST(TileTest, TwoHalvesAreNotAWhole) {
  // 2^24 swallows what is added to it alone, but not the sum of the other terms.
  std::vector<float> a(32, 1), b(32, 1);
  a[0] = 16777216.0f;
  const float whole = Sum(a, b);
  const std::vector<float> first(a.begin(), a.begin() + 16), last(a.begin() + 16, a.end()), ones(16, 1);
  EXPECT_EQ(whole, 16777216.0f + 16);
  EXPECT_EQ(Sum(last, ones, Sum(first, ones)), 16777216.0f + 8 + 16);
}

TEST(TileTest, CountsWhatIsAskedFor) {
  TwinTiles::TakeCounts();
  alignas(64) float sums[256];
  const std::vector<uint16_t> x = Numbers(1).Normal(512);
  {
    const Tiles::Scope scope;
    Tiles::Zero<0>();
    for (int i = 0; i < 3; ++i) {
      Tiles::Load<4>(x.data(), 64);
      Tiles::Load<6>(x.data(), 64);
      Tiles::Dot<0, 4, 6>();
    }
    Tiles::Store<0>(sums, 64);
  }
  const TileCounts counts = TwinTiles::TakeCounts();
  EXPECT_EQ(counts.loads, 6);
  EXPECT_EQ(counts.dots, 3);
  EXPECT_EQ(counts.stores, 1);
  EXPECT_EQ(TwinTiles::TakeCounts().dots, 0) << "they are taken once";
}

TEST(TileTest, ATileThatWasNotLoadedShows) {
  alignas(64) float sums[256];
  const Tiles::Scope scope;
  Tiles::Store<3>(sums, 64);
  EXPECT_TRUE(std::isnan(sums[0]));
}

TEST(TilePackTest, LaysOutAnyPartOfAMatrix) {
  constexpr int64_t kStride = 45;
  const std::vector<uint16_t> bits = Numbers(2).AnyBits(40 * kStride);
  const auto* const x = reinterpret_cast<const BFloat16*>(bits.data());
  const auto at = [&](int64_t row, int64_t column, int64_t rows, int64_t columns) {
    return row < rows && column < columns ? bits[row * kStride + column] : uint16_t{0};
  };
  for (const auto& [rows, columns] : {std::pair(40, 40), std::pair(32, 16), std::pair(7, 3), std::pair(31, 16),
                                      std::pair(16, 32), std::pair(16, 31), std::pair(1, 1), std::pair(0, 5)}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows of " << columns);
    uint16_t woven[512], of_columns[512], transposed[512];
    WeaveTile(x, kStride, rows, columns, reinterpret_cast<uint32_t*>(woven));
    WeaveColumns(x, kStride, rows, columns, reinterpret_cast<uint32_t*>(of_columns));
    TransposeTile(x, kStride, rows, columns, reinterpret_cast<uint32_t*>(transposed));
    for (int64_t i = 0; i < 16; ++i) {
      for (int64_t j = 0; j < 32; ++j) {
        ASSERT_EQ(woven[i * 32 + j], at(2 * i + j % 2, j / 2, rows, columns));
        ASSERT_EQ(of_columns[i * 32 + j], at(j / 2, 2 * i + j % 2, rows, columns));
        ASSERT_EQ(transposed[i * 32 + j], at(j, i, rows, columns));
      }
    }
  }
}

std::vector<char> Workspace(const NarrowProduct& product) { return std::vector<char>(product.WorkspaceBytes() + 64); }
void* Aligned(std::vector<char>& bytes) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
}

std::vector<float> Multiply(const NarrowProduct& product, const std::vector<uint16_t>& a,
                            const std::vector<uint16_t>& b, int64_t sums) {
  std::vector<char> workspace = Workspace(product), out(sums * sizeof(float) + 64);
  auto* const c = static_cast<float*>(Aligned(out));
  EXPECT_EQ(product.Run(a.data(), b.data(), c, Aligned(workspace)), nullptr);
  return {c, c + sums};
}

std::vector<float> Take(const std::vector<uint16_t>& x, int64_t first, int64_t stride, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(FromBFloat16(x[first + i * stride]));
  return values;
}

TEST(TileProductTest, RowsTimesAWeightInPanels) {
  for (const auto& [m, k, n] : {std::tuple(1, 32, 64), std::tuple(37, 96, 128), std::tuple(64, 64, 192),
                                std::tuple(300, 32, 64), std::tuple(70, 800, 64)}) {
    SCOPED_TRACE(::testing::Message() << m << ", " << k << ", " << n);
    Numbers numbers(3);
    const std::vector<uint16_t> a = numbers.Normal(m * k), w = numbers.Normal(k * n);
    std::vector<uint16_t> packed(k * n);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        packed[((j / kPanelColumns * (k / 2) + i / 2) * kPanelColumns + j % kPanelColumns) * 2 + i % 2] = w[i * n + j];
      }
    }
    const ProductShape shape = {1, m, n, k, false, false, /*packed_b=*/true};
    const auto product = MakeTileProduct(shape, DType::kBFloat16, DType::kFloat32, 2);
    ASSERT_NE(product, nullptr);
    const std::vector<float> c = Multiply(*product, a, packed, m * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float want = Sum(Take(a, i * k, 1, k), Take(w, j, n, k));
        ASSERT_TRUE(SameBits(c[i * n + j], want)) << i << ", " << j << ": " << c[i * n + j] << " is not " << want;
      }
    }
  }
}

// Few sums of many rows are cut at multiples of 128 rows, which are those of 32 too: of one thread the bits are those
// of one sum.
TEST(TileProductTest, GradientsOfWeights) {
  for (const auto& [m, k, n] : {std::tuple(32, 1, 64), std::tuple(64, 100, 32), std::tuple(96, 700, 64),
                                std::tuple(320, 40, 256), std::tuple(32, 512, 32)}) {
    SCOPED_TRACE(::testing::Message() << m << ", " << k << ", " << n);
    Numbers numbers(4);
    const std::vector<uint16_t> a = numbers.Normal(k * m), b = numbers.Normal(k * n);
    const ProductShape shape = {1, m, n, k, /*transpose_a=*/true, false};
    const auto product = MakeTileProduct(shape, DType::kBFloat16, DType::kFloat32, 1);
    ASSERT_NE(product, nullptr);
    const std::vector<float> c = Multiply(*product, a, b, m * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float want = Sum(Take(a, i, m, k), Take(b, j, n, k));
        ASSERT_TRUE(SameBits(c[i * n + j], want)) << i << ", " << j << ": " << c[i * n + j] << " is not " << want;
      }
    }
    // Of two threads, each with its own rows, within rounding.
    const auto halves = MakeTileProduct(shape, DType::kBFloat16, DType::kFloat32, 2);
    const std::vector<float> other = Multiply(*halves, a, b, m * n);
    for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(other[i], c[i], 1e-4 * std::sqrt(k));
  }
}

TEST(TileProductTest, LeavesOtherShapesToTheLibrary) {
  const auto make = [](ProductShape s, DType in = DType::kBFloat16) {
    return MakeTileProduct(s, in, DType::kFloat32, 2);
  };
  EXPECT_NE(make({1, 32, 32, 32, true, false}), nullptr);
  EXPECT_EQ(make({1, 32, 32, 32, true, false}, DType::kFloat16), nullptr);
  EXPECT_EQ(make({1, 33, 32, 32, true, false}), nullptr);
  EXPECT_EQ(make({1, 32, 40, 32, true, false}), nullptr);
  EXPECT_EQ(make({2, 32, 32, 32, true, false}), nullptr);
  EXPECT_EQ(make({1, 32, 32, 0, true, false}), nullptr);
  EXPECT_EQ(make({1, 32, 32, 32, false, false}), nullptr);
}

}  // namespace
}  // namespace oneflow::cpu
