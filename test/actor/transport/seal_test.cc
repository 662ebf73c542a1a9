// What is sealed for a receiver, and what it does not take for that.
#include "actor/transport/seal.h"

#include <random>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

class SealTest : public ::testing::Test {
 protected:
  std::string Seal(absl::string_view beside, std::vector<absl::string_view> pieces) {
    std::string sealed(absl::StrJoin(pieces, "").size() + kSealTagBytes, '\0');
    EXPECT_OK(sealer_.Seal(beside, pieces, sealed.data()));
    return sealed;
  }

  const std::string key_ = *MakeSealKey();
  Sealer sealer_ = *Sealer::Make(key_, 3);
  Opener opener_ = *Opener::Make(key_, 3);
};

TEST_F(SealTest, WhatIsSealedInPiecesIsOpenedAsAWhole) {
  const std::string secret(1000, 's');
  EXPECT_EQ(sealer_.next_number(), 1u);
  const std::string first = Seal("header", {secret, "", " and more"});
  EXPECT_EQ(first.size(), 1009 + kSealTagBytes);
  EXPECT_THAT(first, Not(HasSubstr("sss")));
  EXPECT_EQ(sealer_.next_number(), 2u);
  const std::string again = Seal("header", {secret, "", " and more"});
  EXPECT_NE(first, again) << "with another number";
  const std::string nothing = Seal("", {});
  EXPECT_EQ(*opener_.Open(2, "header", again), secret + " and more") << "the later one first";
  EXPECT_EQ(*opener_.Open(1, "header", first), secret + " and more");
  EXPECT_EQ(*opener_.Open(3, "", nothing), "");
}

TEST_F(SealTest, NothingIsTakenTwice) {
  const std::string sealed = Seal("h", {"text"});
  ASSERT_OK(opener_.Open(1, "h", sealed));
  EXPECT_THAT(opener_.Open(1, "h", sealed).status(), StatusIs(kDenied, HasSubstr("they have come before")));
}

TEST_F(SealTest, WhatIsChangedIsRefused) {
  const std::string sealed = Seal("h", {"text"});
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] ^= 1;
    EXPECT_THAT(opener_.Open(1, "h", changed).status(), StatusIs(kDenied, HasSubstr("process 3 has not sealed them")));
  }
  EXPECT_THAT(opener_.Open(2, "h", sealed).status(), StatusIs(kDenied, HasSubstr("number 2: process 3")));
  EXPECT_THAT(opener_.Open(1, "H", sealed).status().code(), kDenied);
  EXPECT_THAT(opener_.Open(1, "h", "short").status(), StatusIs(kDenied, HasSubstr("they are not sealed")));
  Opener of_another_sender = *Opener::Make(key_, 4), of_another_key = *Opener::Make(*MakeSealKey(), 3);
  EXPECT_THAT(of_another_sender.Open(1, "h", sealed).status().code(), kDenied);
  EXPECT_THAT(of_another_key.Open(1, "h", sealed).status().code(), kDenied);
  EXPECT_OK(opener_.Open(1, "h", sealed)) << "what was refused does not count as come";
}

TEST_F(SealTest, AKeyOfAnotherLengthIsNone) {
  EXPECT_THAT(Sealer::Make("short", 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "a key of 5 bytes; one has 32"));
  EXPECT_THAT(Opener::Make("", 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// Against a list of all numbers, in an order that is not far from theirs.
TEST(SeenNumbersTest, EachCountsOnce) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  SeenNumbers seen;
  std::set<uint64_t> taken;
  EXPECT_FALSE(seen.Take(0));
  uint64_t last = 0;
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t ahead = random() % 1000 == 0 ? random() % 10'000 : random() % 8;
    const uint64_t behind = random() % (random() % 100 == 0 ? 2 * SeenNumbers::kWindow : 16);
    const uint64_t number = random() % 2 == 0 || behind >= last ? last + ahead : last - behind;
    const bool too_late = number + SeenNumbers::kWindow <= last;
    EXPECT_EQ(seen.Take(number), number > 0 && !too_late && taken.insert(number).second) << number << " after " << last;
    last = std::max(last, number);
  }
}

}  // namespace
}  // namespace oneflow
