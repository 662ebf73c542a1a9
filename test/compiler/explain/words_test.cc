#include "compiler/explain/words.h"

#include <cmath>
#include <limits>

#include "test/compiler/explain/example.h"

namespace oneflow::testing {
namespace {

TEST(WordsTest, BytesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "0.98 KiB");
  EXPECT_EQ(BytesText(1536), "1.50 KiB");
  EXPECT_EQ(BytesText(100 * 1024), "100 KiB");
  EXPECT_EQ(BytesText(1023 * 1024), "1.00 MiB");
  EXPECT_EQ(BytesText(int64_t{3} << 40), "3.00 TiB");
  EXPECT_EQ(BytesText(int64_t{5000} << 40), "5000 TiB");
}

TEST(WordsTest, SecondsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(SecondsText(0), "0 us");
  EXPECT_EQ(SecondsText(850e-9), "850 ns");
  EXPECT_EQ(SecondsText(999.6e-9), "1.00 us");
  EXPECT_EQ(SecondsText(12.34e-6), "12.3 us");
  EXPECT_EQ(SecondsText(0.0045), "4.50 ms");
  EXPECT_EQ(SecondsText(2), "2.00 s");
  EXPECT_EQ(SecondsText(std::numeric_limits<double>::infinity()), "impossible");
}

TEST(WordsTest, DifferencesHaveASign) {
  EXPECT_EQ(DifferenceText(1e-3), "+1.00 ms");
  EXPECT_EQ(DifferenceText(-1e-3), "-1.00 ms");
  EXPECT_EQ(DifferenceText(std::numeric_limits<double>::infinity()), "impossible");
}

TEST(WordsTest, LinksThatNothingCrossesAreLeftOut) {
  EXPECT_EQ(LinksText({}), "nothing");
  EXPECT_EQ(LinksText({2048, 0, 0}), "2.00 KiB within a process");
  EXPECT_EQ(LinksText({1, 2, 3}), "1 B within a process, 2 B between processes, 3 B between hosts");
}

TEST(WordsTest, TheMostThatMovesIsSaidToBeThat) {
  EXPECT_EQ(LinksText({2048, 0, 0, /*at_most=*/true}), "at most 2.00 KiB within a process");
  EXPECT_EQ(LinksText({0, 0, 0, /*at_most=*/true}), "nothing");
}

TEST(WordsTest, PlacementsAreSaidWhereTheyChange) {
  const Placement pair({{"dp", 2}}, {0, 1}), one({}, {0});
  EXPECT_EQ(ChangeText({pair, {Sbp::Split(0)}}, {pair, {Sbp::Broadcast()}}), "(S(0)) -> (B)");
  EXPECT_EQ(ChangeText({pair, {Sbp::Partial()}}, {one, {}}), "[dp=2]{0,1}(P) -> rank 0");
}

TEST(WordsTest, AReduceScatterAndAnAllGatherAreAnAllReduce) {
  const JobFacts job = ExampleFacts();
  const GraphFacts& facts = job.graphs[0];
  for (const BoxingFacts& boxing : facts.boxings) {
    if (boxing.tensor != BoxedValue(facts, "down/matmul")) continue;
    EXPECT_EQ(HowText(facts, boxing), "all-reduce along tp");
    EXPECT_EQ(KindText(facts, boxing), "all-reduce");
    EXPECT_EQ(HowText(facts, boxing.steps[0]), "reduce-scatter along tp");
    return;
  }
  FAIL() << "down/matmul is not boxed";
}

}  // namespace
}  // namespace oneflow::testing
