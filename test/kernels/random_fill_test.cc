#include "kernels/random_fill.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

constexpr uint64_t kKey = 0x123456789abcdef0;

std::vector<float> Normals(uint64_t first, int64_t n) {
  std::vector<float> values(n);
  FillNormal(kKey, first, n, 0.5f, values.data());
  return values;
}

std::vector<float> Uniforms(uint64_t first, int64_t n) {
  std::vector<float> values(n);
  FillUniform(kKey, first, n, 3, values.data());
  return values;
}

TEST(RandomFillTest, ValuesAreThoseOfTheFormulas) {
  constexpr int64_t kCount = 100000;
  for (const uint64_t first : {uint64_t{0}, (uint64_t{1} << 33) - 7}) {
    const std::vector<float> normals = Normals(first, kCount), uniforms = Uniforms(first, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      const double u = ToUniform(RandomBits(kKey, 0, 2 * (first + i)));
      const double v = ToUniform(RandomBits(kKey, 0, 2 * (first + i) + 1));
      const double z = std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v);
      ASSERT_NEAR(normals[i], 0.5 * z, 5e-7) << first << " + " << i;
      const float uniform = ToUniform(RandomBits(kKey, 0, first + i)) * 2 - 1;
      ASSERT_EQ(uniforms[i], uniform * 3.0f) << first << " + " << i;
    }
  }
}

TEST(RandomFillTest, ValuesDoNotDependOnWhereACallBeginsOrEnds) {
  constexpr int64_t kCount = 300;
  const std::vector<float> normals = Normals(0, kCount), uniforms = Uniforms(0, kCount);
  for (int64_t first = 0; first < 70; ++first) {
    for (const int64_t n : {0, 1, 2, 15, 16, 17, 33, 200}) {
      const std::vector<float> some = Normals(first, n), others = Uniforms(first, n);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(some[i], normals[first + i]) << first << " + " << i << " of " << n;
        ASSERT_EQ(others[i], uniforms[first + i]) << first << " + " << i << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
