// Both ways of multiplying 16-bit floats, whichever is the fastest here.
#include "kernels/cpu/narrow_product.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/bfloat16.h"
#include "kernels/float16.h"

namespace oneflow::cpu {
namespace {

using Way = NarrowProduct::Way;

struct Operands {
  std::vector<uint16_t> a, b;
  std::vector<double> c;  // their product
};

uint16_t Bits(DType dtype, float x) {
  return dtype == DType::kBFloat16 ? ToBFloat16(x) : std::bit_cast<uint16_t>(static_cast<NativeFloat16>(x));
}
double Value(DType dtype, uint16_t bits) {
  return dtype == DType::kBFloat16 ? FromBFloat16(bits) : static_cast<double>(std::bit_cast<NativeFloat16>(bits));
}

Operands Make(const ProductShape& s, DType dtype) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-2, 2);
  Operands x;
  for (int64_t i = 0; i < s.batch * s.m * s.k; ++i) x.a.push_back(Bits(dtype, uniform(random)));
  for (int64_t i = 0; i < s.batch * s.k * s.n; ++i) x.b.push_back(Bits(dtype, uniform(random)));
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    const uint16_t* const a = x.a.data() + batch * s.m * s.k;
    const uint16_t* const b = x.b.data() + batch * s.k * s.n;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          sum += Value(dtype, a[s.transpose_a ? p * s.m + i : i * s.k + p]) *
                 Value(dtype, b[s.transpose_b ? j * s.k + p : p * s.n + j]);
        }
        x.c.push_back(sum);
      }
    }
  }
  return x;
}

const ProductShape kShapes[] = {{1, 1, 1, 1, false, false},   {1, 37, 19, 70, false, false},
                                {1, 16, 64, 33, true, false}, {1, 5, 48, 128, false, true},
                                {3, 7, 9, 5, true, true},     {2, 4, 4, 0, false, false},
                                {1, 0, 4, 3, false, false}};

TEST(NarrowProductTest, BothWaysGiveTheSumsOfProducts) {
  int library = 0;
  for (const DType in : {DType::kBFloat16, DType::kFloat16}) {
    for (const ProductShape& s : kShapes) {
      const Operands x = Make(s, in);
      for (const Way way : {Way::kLibrary, Way::kWidened}) {
        const auto product = NarrowProduct::Make(s, in, DType::kFloat32, way);
        if (product == nullptr) continue;  // oneDNN has no f16 here, and bf16 not on every processor
        library += way == Way::kLibrary ? 1 : 0;
        std::vector<float> c(x.c.size(), 99);
        std::vector<char> workspace(product->WorkspaceBytes() + 64);
        void* const aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
        ASSERT_EQ(product->Run(x.a.data(), x.b.data(), c.data(), aligned), nullptr);
        for (size_t i = 0; i < c.size(); ++i) {
          ASSERT_NEAR(c[i], x.c[i], 1e-5 * (1 + std::abs(x.c[i])))
              << Name(in) << " [" << s.m << "," << s.k << "] [" << s.k << "," << s.n << "], element " << i;
        }
      }
    }
  }
  RecordProperty("products_by_library", library);
}

TEST(NarrowProductTest, TheLibraryMultipliesNoHalves) {
  EXPECT_EQ(NarrowProduct::Fastest(DType::kFloat16), Way::kWidened);
}

}  // namespace
}  // namespace oneflow::cpu
