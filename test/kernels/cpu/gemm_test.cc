// Products of floats within larger matrices, in all the ways there are of dividing them: against sums in double.
#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/panel_gemm.h"

namespace oneflow::cpu {
namespace {

class GemmTest : public ::testing::Test {
 protected:
  ~GemmTest() override { omp_set_num_threads(omp_get_num_procs()); }

  std::vector<float> Uniform(int64_t count) {
    std::uniform_real_distribution<float> uniform(-2, 2);
    std::vector<float> x(count);
    for (float& value : x) value = uniform(random_);
    return x;
  }

  // Rows lie apart: what is between them stays as it is. Returns c.
  std::vector<float> Check(ProductShape s, int threads, bool has_bias) {
    SCOPED_TRACE(absl::StrCat("[", s.m, ",", s.k, "] [", s.k, ",", s.n, "]", s.transpose_a ? " a transposed" : "",
                              s.transpose_b ? " b transposed" : "", s.accumulate ? " added" : "",
                              has_bias ? " with a bias" : "", ", ", threads, " threads"));
    s.row_a = (s.transpose_a ? s.m : s.k) + 3;
    s.row_b = (s.transpose_b ? s.k : s.n) + 5;
    s.row_c = s.n + 7;
    s.parts = PartsOfRows(s, threads);
    const std::vector<float> a = Uniform((s.transpose_a ? s.k : s.m) * s.row_a),
                             b = Uniform((s.transpose_b ? s.n : s.k) * s.row_b), bias = Uniform(s.n);
    std::vector<float> c(s.m * s.row_c, 0.5f), workspace(GemmWorkspace(s) + 1, 77.0f);
    omp_set_num_threads(threads);
    EXPECT_EQ(Gemm(s, a.data(), b.data(), c.data(), workspace.data(), has_bias ? bias.data() : nullptr), nullptr);
    EXPECT_EQ(workspace.back(), 77.0f) << "written beyond the workspace";
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.row_c; ++j) {
        double want = j < s.n && !s.accumulate ? 0 : 0.5;
        if (j < s.n && has_bias) want += bias[j];
        for (int64_t p = 0; j < s.n && p < s.k; ++p) {
          want += double{a[s.transpose_a ? p * s.row_a + i : i * s.row_a + p]} *
                  b[s.transpose_b ? j * s.row_b + p : p * s.row_b + j];
        }
        if (std::abs(c[i * s.row_c + j] - want) > 1e-5 * static_cast<double>(s.k + 1)) {
          ADD_FAILURE() << c[i * s.row_c + j] << " at " << i << "," << j << ", not " << want;
          return c;
        }
      }
    }
    return c;
  }

  std::mt19937 random_{12};
};

// Few threads and many rows or columns, so that each has a part: columns, rows, and neither; a small b for many rows,
// with rows and columns that fill no tile; none; sums of many rows and of none.
TEST_F(GemmTest, GivesTheSumsOfProductsHoweverTheyAreDivided) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{40, 1100, 33},
                                                                   {2300, 130, 20},
                                                                   {600, 1031, 5},
                                                                   {9, 30, 700},
                                                                   {1037, 48, 80},
                                                                   {1025, 16, 16},
                                                                   {24, 40, 1700},
                                                                   {7, 3, 0}}) {
    for (int way = 0; way < 24; ++way) {
      const bool transpose_a = way % 2 == 1, transpose_b = way / 2 % 2 == 1, accumulate = way / 4 % 2 == 1;
      const int threads = 1 + way / 8;
      for (const bool has_bias : {false, true}) {
        if (has_bias && accumulate) continue;
        Check({.batch = 1,
               .m = m,
               .n = n,
               .k = k,
               .transpose_a = transpose_a,
               .transpose_b = transpose_b,
               .accumulate = accumulate},
              threads, has_bias);
      }
    }
  }
}

TEST_F(GemmTest, MultipliesManyRowsByASmallMatrixInPanels) {
  const auto floats = [](int64_t m, int64_t n, int64_t k, bool transpose_b) {
    return GemmWorkspace({1, m, n, k, false, transpose_b});
  };
  EXPECT_EQ(floats(512, 48, 80, true), 48 * 80);
  EXPECT_EQ(floats(1024, 48, 80, false), 48 * 80);
  EXPECT_EQ(floats(4096, 512, 256, false), 512 * 256);
  EXPECT_EQ(floats(4096, 512, 272, true), 0) << "more than 512 KiB";
  EXPECT_EQ(floats(511, 48, 80, true), 0) << "few rows";
  EXPECT_EQ(floats(1023, 48, 80, false), 0) << "few rows";
  EXPECT_EQ(floats(1024, 48, 81, true), 0) << "no whole lines of k";
  EXPECT_EQ(floats(1024, 40, 80, true), 0) << "no whole lines of columns";
  const ProductShape s = {1, 512, 48, 80, false, true};
  const std::vector<float> a(s.m * s.k, 1.0f), b(s.n * s.k, 2.0f);
  std::vector<float> c(s.m * s.n), workspace(GemmWorkspace(s));
  ASSERT_EQ(Gemm(s, a.data(), b.data(), c.data(), workspace.data()), nullptr);
  EXPECT_EQ(workspace, std::vector<float>(s.n * s.k, 2.0f));
}

// A row's sums do not depend on which thread computes them, nor on the rows beside it.
TEST_F(GemmTest, PanelsGiveTheSameBitsWithAnyNumberOfThreads) {
  const ProductShape s = {1, 1037, 48, 80, false, false};
  const std::vector<float> a = Uniform(s.m * s.k), b = Uniform(s.k * s.n);
  ASSERT_TRUE(SuitsPanels(s));
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    std::vector<float>& c = results.emplace_back(s.m * s.n);
    std::vector<float> workspace(GemmWorkspace(s));
    ASSERT_EQ(Gemm(s, a.data(), b.data(), c.data(), workspace.data()), nullptr);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(GemmTest, SumsManyRowsInAPartForEachThread) {
  const auto parts = [](int64_t m, int64_t n, int64_t rows, int threads, bool transpose_a = true) {
    return PartsOfRows({1, m, n, rows, transpose_a, false}, threads);
  };
  EXPECT_EQ(parts(128, 512, 4096, 2), 2);
  EXPECT_EQ(parts(128, 512, 4096, 16), 8) << "512 rows each";
  EXPECT_EQ(parts(128, 512, 1023, 2), 1) << "few rows";
  EXPECT_EQ(parts(512, 512, 4096, 2), 1) << "many sums";
  EXPECT_EQ(parts(128, 512, 4096, 2, /*transpose_a=*/false), 1);
  EXPECT_EQ(parts(128, 512, 0, 0), 1);
}

}  // namespace
}  // namespace oneflow::cpu
