// Both ways of multiplying 16-bit floats, whichever is the fastest here.
#include "kernels/cpu/narrow_product.h"

#include <omp.h>

#include <array>
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

// Few threads and many rows or columns, so that each has a part: columns, rows, and neither; a small b for many rows,
// which is turned around; within larger matrices, and added to what is there.
TEST(GemmTest, PartsOfThreadsAreTheWholeProduct) {
  std::mt19937 random(12);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {40, 1100, 33}, {2300, 130, 20}, {600, 1031, 5}, {9, 30, 700}, {520, 48, 80}}) {
    for (const bool accumulate : {false, true}) {
      for (const int threads : {1, 2, 3}) {
        const ProductShape s = {.batch = 1,
                                .m = m,
                                .n = n,
                                .k = k,
                                .transpose_a = false,
                                .transpose_b = true,
                                .row_a = k + 3,
                                .row_b = k + 5,
                                .row_c = n + 7,
                                .accumulate = accumulate};
        std::vector<float> a(m * s.row_a), b(n * s.row_b), c(m * s.row_c, 0.5f);
        for (std::vector<float>* x : {&a, &b}) {
          for (float& value : *x) value = uniform(random);
        }
        omp_set_num_threads(threads);
        std::vector<float> workspace(GemmWorkspace(s));
        ASSERT_EQ(Gemm(s, a.data(), b.data(), c.data(), workspace.data()), nullptr);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < s.row_c; ++j) {
            double want = j < n && !accumulate ? 0 : 0.5;
            for (int64_t p = 0; j < n && p < k; ++p) want += double{a[i * s.row_a + p]} * b[j * s.row_b + p];
            ASSERT_NEAR(c[i * s.row_c + j], want, 1e-5 * static_cast<double>(k))
                << m << " " << n << " " << k << " at " << i << "," << j;
          }
        }
      }
    }
  }
  omp_set_num_threads(omp_get_num_procs());
}

TEST(GemmTest, TurnsSmallTransposedMatricesAroundForManyRows) {
  const auto floats = [](int64_t m, int64_t n, int64_t k, bool transpose_b) {
    return GemmWorkspace({1, m, n, k, false, transpose_b});
  };
  EXPECT_EQ(floats(512, 48, 80, true), 48 * 80);
  EXPECT_EQ(floats(4096, 512, 256, true), 512 * 256);
  EXPECT_EQ(floats(4096, 512, 256, false), 0);
  EXPECT_EQ(floats(4096, 512, 272, true), 0) << "more than 512 KiB";
  EXPECT_EQ(floats(511, 48, 80, true), 0) << "few rows";
  EXPECT_EQ(floats(512, 48, 81, true), 0) << "no whole tiles";
  const ProductShape s = {1, 512, 48, 80, false, true};
  const std::vector<float> a(s.m * s.k, 1.0f), b(s.n * s.k, 2.0f);
  std::vector<float> c(s.m * s.n), workspace(GemmWorkspace(s));
  ASSERT_EQ(Gemm(s, a.data(), b.data(), c.data(), workspace.data()), nullptr);
  EXPECT_EQ(workspace, std::vector<float>(s.n * s.k, 2.0f));
}

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
