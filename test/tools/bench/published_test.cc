#include "tools/bench/published.h"

#include <cmath>

#include "gmock/gmock.h"
#include "test/support/names.h"
#include "tools/bench/predict_report.h"

namespace oneflow {
namespace {

MATCHER(IsWithinAPercent, "") { return std::abs(std::get<0>(arg) / std::get<1>(arg) - 1) < 0.01; }

std::vector<PublishedRun> AllRuns() {
  std::vector<PublishedRun> all;
  const auto add = [&](const std::vector<PublishedRun>& runs) { all.insert(all.end(), runs.begin(), runs.end()); };
  add(SeleneRuns());
  add(TableOneRuns());
  add(ActivationRuns());
  for (const PublishedOrder& order : PublishedOrders()) add(order.runs);
  return all;
}

TEST(PublishedTest, EveryRunDividesEvenly) {
  for (const PublishedRun& run : AllRuns()) {
    SCOPED_TRACE(run.name);
    EXPECT_EQ(run.batch % (run.micro * run.dp), 0);
    EXPECT_GE(run.micro_batches(), 1);
    EXPECT_EQ(run.model.layers % (run.pp * run.chunks), 0);
    EXPECT_EQ(run.model.heads % run.tp, 0);
    EXPECT_EQ(run.model.width % run.model.heads, 0);
  }
}

// The seconds that follow from table 1's operations and rates.
TEST(PublishedTest, StepsOfTableOneFollowFromItsRates) {
  std::vector<double> seconds;
  for (const PublishedRun& run : TableOneRuns()) seconds.push_back(run.seconds);
  EXPECT_THAT(seconds, Pointwise(IsWithinAPercent(), std::vector<double>{3.53, 3.70, 3.70, 9.40, 14.45, 16.06, 24.82,
                                                                         37.61, 54.08, 102.63}));
}

// By the formulas of 2205.05198: 34 sbh + 5 as^2 b of a layer, what of it tensor and sequence parallelism divide, and
// the layers that interleaving adds to those of the first stage.
TEST(PublishedTest, ActivationsAreThoseOfTheFormulas) {
  for (const PublishedRun& run : ActivationRuns()) {
    SCOPED_TRACE(run.name);
    const auto h = static_cast<double>(run.model.width), a = static_cast<double>(run.model.heads);
    const double s = kPublishedContext, t = run.tp, sbh = s * static_cast<double>(run.micro) * h;
    const double layer = run.sequence_parallel ? sbh * 34 / t : sbh * (10 + 24 / t + 5 * a * s / (h * t));
    const double under_way = run.chunks == 1 ? 1 : 1 + (run.pp - 1.0) / (run.pp * run.chunks);
    const double gib = layer * static_cast<double>(run.model.layers) * under_way / std::pow(2, 30);
    EXPECT_NEAR(run.gib, gib, 0.006);
  }
}

PredictedOrder Order(PublishedOrder::Claim claim, std::vector<double> teraflops) {
  return {"figure", "what it says", claim, std::vector<std::string>(teraflops.size(), "run"), std::move(teraflops)};
}

TEST(PredictReportTest, AnOrderHoldsIfTheRatesSaySo) {
  using Claim = PublishedOrder::Claim;
  EXPECT_TRUE(Order(Claim::kFirstIsBest, {3, 1, 2}).holds());
  EXPECT_FALSE(Order(Claim::kFirstIsBest, {3, 1, 3}).holds());
  EXPECT_TRUE(Order(Claim::kFalls, {3, 2, 1}).holds());
  EXPECT_FALSE(Order(Claim::kFalls, {3, 1, 2}).holds());
  EXPECT_TRUE(Order(Claim::kKept, {100, 104, 91, 80}).holds());
  EXPECT_FALSE(Order(Claim::kKept, {100, 89, 95, 80}).holds());
  EXPECT_FALSE(Order(Claim::kKept, {100, 100, 100, 101}).holds()) << "nothing is lost that could be kept";
  EXPECT_FALSE(Order(Claim::kFalls, {3, 2, -1}).holds()) << "one could not be predicted";
}

TEST(PredictReportTest, ASetHoldsIfAllOfItIsPredictedAndNearEnough) {
  PredictedSet set{"steps", "s", 0.04, {{"a", 10.5, 10, ""}, {"b", 19.6, 20, ""}}};
  EXPECT_NEAR(set.mean(), 0.035, 1e-9);
  EXPECT_NEAR(set.most(), 0.05, 1e-9);
  EXPECT_TRUE(set.holds());
  EXPECT_THAT(SetText(set), AllOf(HasSubstr("+5.0%"), HasSubstr("mean 3.5%, at most 5.0%, of 2 of 2; asked for: 4%: "
                                                                "holds")));
  set.figures.push_back({"c", 0, 30, "no such layout"});
  EXPECT_FALSE(set.holds()) << "what could not be predicted is not left out";
  EXPECT_THAT(SetText(set), AllOf(HasSubstr("no such layout"), HasSubstr("of 2 of 3"), HasSubstr("does not hold")));
}

}  // namespace
}  // namespace oneflow
