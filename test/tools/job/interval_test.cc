#include "tools/job/interval.h"

#include <cmath>
#include <limits>

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(IntervalTest, HoldsWhatItSays) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::nan("");
  const struct {
    const char* text;
    std::vector<double> in, out;
    const char* complaint;  // of a number that is no integer
  } cases[] = {
      {"[1, 2^18]", {1, 262144}, {0, 262145, kInf, kNan}, "is not in [1, 262144]"},
      {"[0, 1)", {0, 0.999}, {-1e-9, 1, kNan}, "is not in [0, 1)"},
      {"[1, 1e38]", {1, 1e38}, {0.5, 2e38}, "is not in [1, 1e+38]"},
      {"[0.1, 86400]", {0.1}, {0.09}, "is not in [0.1, 86400]"},
      {"(0, inf)", {1e-300, 1e300}, {0, kInf, kNan}, "is not a finite number > 0"},
      {"[0, inf)", {0, 1e300}, {-1, kInf, kNan}, "is not a finite number >= 0"},
      {"any", {-1e300, 0}, {kInf, -kInf, kNan}, "is not a finite number"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    ASSERT_OK_AND_ASSIGN(const Interval interval, Interval::Parse(c.text));
    for (const double value : c.in) EXPECT_TRUE(interval.Contains(value)) << value;
    for (const double value : c.out) EXPECT_FALSE(interval.Contains(value)) << value;
    EXPECT_EQ(interval.Complaint(/*is_integer=*/false), c.complaint);
  }
  EXPECT_EQ(Interval::Parse("[0, inf)")->Complaint(true), "is negative");
  EXPECT_EQ(Interval::Parse("[1, inf)")->Complaint(true), "is not positive");
}

TEST(IntervalTest, AllIntegersAreTold) {
  ASSERT_OK_AND_ASSIGN(const Interval interval, Interval::Parse("[0, 2^62]"));
  EXPECT_TRUE(interval.Contains(static_cast<long double>(int64_t{1} << 62)));
  EXPECT_FALSE(interval.Contains(static_cast<long double>((int64_t{1} << 62) + 1))) << "a double would round it";
}

TEST(IntervalTest, AnythingElseIsNone) {
  for (const char* text :
       {"", "[", "1, 2", "[1]", "[1, 2, 3]", "[2, 1]", "[1, 1)", "[a, 2]", "[0, inf]", "[0, nan]", "[2^x, 3]", "all"}) {
    EXPECT_THAT(Interval::Parse(text),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("is no interval")))
        << text;
  }
}

}  // namespace
}  // namespace oneflow
