// Division by multiplication, against the processor's own.
#include "kernels/cuda/division.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace oneflow::cuda {
namespace {

constexpr uint64_t kSeed = 1994;

template <typename Index>
class DivisionTest : public ::testing::Test {
 public:
  static constexpr Index kLargest = static_cast<Index>(~Index{0}) / 2;

  // Near powers of two, at both ends, and random ones of every length: all within what a Divisor takes.
  static std::vector<Index> Numbers() {
    std::vector<Index> numbers = {0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 641, 1000, kLargest - 1, kLargest};
    for (size_t bit = 2; bit + 1 < 8 * sizeof(Index); ++bit) {
      for (const int64_t near : {-1, 0, 1}) numbers.push_back((Index{1} << bit) + near);
    }
    std::mt19937_64 engine(kSeed);
    for (int i = 0; i < 500; ++i) numbers.push_back(static_cast<Index>(engine() & kLargest) >> i % 30);
    return numbers;
  }

  static void ExpectQuotient(const Divisor<Index>& divisor, Index n, Index d) {
    const auto [quotient, remainder] = divisor.Divide(n);
    ASSERT_EQ(quotient, n / d) << n << " / " << d;
    ASSERT_EQ(remainder, n % d) << n << " % " << d;
  }
};

using Indices = ::testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(DivisionTest, Indices);

TYPED_TEST(DivisionTest, IsThatOfTheProcessor) {
  const std::vector<TypeParam> numbers = TestFixture::Numbers();
  for (const TypeParam d : numbers) {
    if (d == 0) continue;
    const Divisor<TypeParam> divisor(static_cast<int64_t>(d));
    for (const TypeParam n : numbers) ASSERT_NO_FATAL_FAILURE(this->ExpectQuotient(divisor, n, d));
  }
}

// Quotients change at multiples: a factor that is a little too large or too small is seen there first.
TYPED_TEST(DivisionTest, ChangesItsQuotientAtMultiples) {
  constexpr TypeParam kLargest = TestFixture::kLargest;
  for (const TypeParam d : TestFixture::Numbers()) {
    if (d == 0) continue;
    const Divisor<TypeParam> divisor(static_cast<int64_t>(d));
    const TypeParam last = kLargest / d * d;
    for (const TypeParam multiple : {d, last / 2 / d * d, last - last / d / 3 * d, last}) {
      ASSERT_NO_FATAL_FAILURE(this->ExpectQuotient(divisor, multiple, d));
      const TypeParam before = multiple == 0 ? 0 : multiple - 1;
      ASSERT_NO_FATAL_FAILURE(this->ExpectQuotient(divisor, before, d));
    }
  }
}

// As kernels' parameters are made of tensors that no kernel then runs on.
TYPED_TEST(DivisionTest, MayBePreparedForWhatCannotDivide) {
  for (const int64_t extent : {int64_t{0}, int64_t{1} << 31, int64_t{1} << 32, INT64_MAX}) {
    EXPECT_EQ(Divisor<TypeParam>(extent).Divide(0).quotient, TypeParam{0});
  }
  EXPECT_EQ(Divisor<TypeParam>().Divide(7).quotient, TypeParam{7});
  EXPECT_EQ(Divisor<TypeParam>().Divide(7).remainder, TypeParam{0});
}

TEST(IndexTest, Has64BitsOnlyWhere32DoNotSuffice) {
  const auto bits = [](int64_t count) { return WithIndex(count, [](auto index) { return 8 * sizeof index; }); };
  EXPECT_EQ(bits(0), 32);
  EXPECT_EQ(bits(INT32_MAX), 32);
  EXPECT_EQ(bits(int64_t{INT32_MAX} + 1), 64);
}

}  // namespace
}  // namespace oneflow::cuda
