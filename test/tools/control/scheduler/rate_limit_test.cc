#include "tools/control/scheduler/rate_limit.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(RateLimitTest, ABurstIsAllowedAndThenARate) {
  RateLimit limit(3, 2);
  const absl::Time start = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take("a", start));
  EXPECT_FALSE(limit.Take("a", start));
  EXPECT_TRUE(limit.Take("b", start)) << "another caller's is another bucket";
  EXPECT_FALSE(limit.Take("a", start + absl::Milliseconds(499)));
  EXPECT_TRUE(limit.Take("a", start + absl::Milliseconds(501)));
  EXPECT_FALSE(limit.Take("a", start + absl::Milliseconds(502)));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take("a", start + absl::Hours(1))) << "no more than the burst is saved";
  EXPECT_FALSE(limit.Take("a", start + absl::Hours(1)));
}

TEST(RateLimitTest, CallersThatAreQuietAreForgotten) {
  RateLimit limit(3, 2);
  for (int i = 0; i < 20'000; ++i) limit.Take(absl::StrCat(i), absl::FromUnixSeconds(1000 + i));
  EXPECT_LE(limit.num_callers(), 4096u);
}

}  // namespace
}  // namespace oneflow
