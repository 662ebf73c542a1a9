// Ranks that are outlined, priced and played once for all that are alike. That the times come out right is a law
// (test/laws/folding_law_test.cc).
#include "tools/study/sim/priced_ranks.h"

#include <map>
#include <set>

#include "compiler/lower/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/compiler/plan/random_job.h"
#include "test/support/status_matchers.h"
#include "tools/study/sim/folded_plan.h"
#include "tools/study/sim/played_ranks.h"

namespace oneflow {
namespace {

// Two kinds of hosts, whose devices and cards differ.
std::vector<HostGroup> UnevenHosts(int ranks, std::mt19937& random) {
  std::vector<HostGroup> hosts(2);
  for (HostGroup& host : hosts) {
    host.devices = 4;
    host.count = (ranks + 7) / 8;
    host.nics = {*NicsOfClass("infiniband")};
    host.nics[0].count = 1 << random() % 3;
    host.device.f32_flops /= static_cast<double>(1 + random() % 3);
  }
  return hosts;
}

std::tuple<int64_t, int64_t, int> Figures(const PredictedAct& act) {
  return {act.ns, act.link_ns, act.devices_of_card};
}

TEST(PricedRanksTest, ActsOfOneKindCostTheSame) {
  int alike = 0, acts = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    RandomJob job = MakeRandomJob(seed);
    if (random() % 2 == 0) job.options.device = DeviceKind::kCuda;
    job.options.ranks_per_process = 1 << random() % 3;
    job.options.hosts = UnevenHosts(16, random);
    absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set);
    ASSERT_OK_AND_ASSIGN(Topology topology, Topology::Create(16, job.options.ranks_per_process, job.options.hosts));
    ASSERT_OK_AND_ASSIGN(const PartPrograms programs, PartPrograms::Of(*set));
    const RankCosts costs = PredictedRankCosts(std::move(topology), Ops());
    PricedRanks priced(*set, programs, 0, costs);
    const InstanceIds ids(set->plans(0), programs.reader());
    std::map<int, std::tuple<int64_t, int64_t, int>> of_kind;
    for (int rank = 0; rank < 16; ++rank) {
      ASSERT_OK_AND_ASSIGN(const PricedRank it, priced.Of(rank));
      pb::Program part;  // every rank by itself
      ASSERT_OK(programs.Spell({rank}, part));
      const std::vector<PredictedAct> predicted = costs.acts(part, 0);
      std::map<int, PredictedAct> by_id;
      for (int a = 0; a < part.plans(0).actors_size(); ++a) by_id[part.plans(0).actors(a).id()] = predicted[a];
      for (const OutlinedActor& actor : it.outline.actors) {
        const auto figures = Figures(by_id.at(ids.OfActor({actor.actor, rank})));
        const auto [known, is_new] = of_kind.try_emplace(actor.kind, figures);
        ASSERT_EQ(known->second, figures) << set->plans(0).actors(actor.actor).name() << " on rank " << rank;
        alike += !is_new;
        ++acts;
      }
    }
  }
  EXPECT_GT(alike, acts / 3) << "of " << acts;
}

struct Played {
  int spelled = 0;
  PlayedRanks ranks;
};

absl::StatusOr<Played> Play(const StepShape& shape, const std::vector<int>& alone = {}) {
  const CompileOptions options = OptionsFor(shape);
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set,
                      CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, options, Ops()));
  OF_ASSIGN_OR_RETURN(const PartPrograms programs, PartPrograms::Of(set));
  const int ranks = shape.stages * shape.data;
  PricedRanks priced(set, programs, 0, PredictedRankCosts(OneHost(ranks, options.ranks_per_process), Ops()));
  Played played;
  OF_ASSIGN_OR_RETURN(played.ranks, FindPlayedRanks(priced, alone));
  played.spelled = priced.num_spelled();
  return played;
}

TEST(PricedRanksTest, NoMoreAreSpelledOutHoweverManyRanksThereAre) {
  ASSERT_OK_AND_ASSIGN(const Played few, Play({2, 2, 4}));
  ASSERT_OK_AND_ASSIGN(const Played many, Play({2, 8, 4}));
  EXPECT_LE(few.spelled, 6);
  EXPECT_EQ(many.spelled, few.spelled);
  EXPECT_EQ(many.ranks.played.size(), few.ranks.played.size());
}

TEST(PlayedRanksTest, StandForThoseThatDoTheSameAtTheSameTimes) {
  ASSERT_OK_AND_ASSIGN(const Played it, Play({2, 4, 2}));
  EXPECT_EQ(it.ranks.stands_for.size(), 8u);
  for (const int rank : it.ranks.played) EXPECT_EQ(it.ranks.stands_for[rank], rank);
  for (const int rank : it.ranks.stands_for) {
    EXPECT_EQ(std::count(it.ranks.played.begin(), it.ranks.played.end(), rank), 1);
  }
  EXPECT_LT(it.ranks.played.size(), 8u);
}

TEST(PlayedRanksTest, WhoIsToBePlayedAloneIsUnlikeAllWhomItMeets) {
  ASSERT_OK_AND_ASSIGN(const Played usual, Play({1, 8, 1}));
  ASSERT_OK_AND_ASSIGN(const Played it, Play({1, 8, 1}, {5}));
  EXPECT_EQ(it.ranks.stands_for[5], 5);
  EXPECT_EQ(std::count(it.ranks.stands_for.begin(), it.ranks.stands_for.end(), 5), 1);
  EXPECT_EQ(it.ranks.played.size(), usual.ranks.played.size() + 1);
}

TEST(FoldedPlanTest, HasThePlayedRanksAloneAndIsClosed) {
  const StepShape shape{2, 4, 2};
  const CompileOptions options = OptionsFor(shape);
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{TrainingStep(shape), 2}}, options, Ops()));
  ASSERT_OK_AND_ASSIGN(const PartPrograms programs, PartPrograms::Of(set));
  PricedRanks priced(set, programs, 0, PredictedRankCosts(OneHost(8, options.ranks_per_process), Ops()));
  ASSERT_OK_AND_ASSIGN(const PlayedRanks ranks, FindPlayedRanks(priced, {}));
  ASSERT_OK_AND_ASSIGN(const FoldedPlan folded, FoldedPlan::Make(priced, ranks, "hash"));
  const pb::Plan& plan = folded.program().plans(0);
  EXPECT_EQ(folded.program().plan_hash(), "hash");
  std::set<int> here;
  for (const pb::Actor& actor : plan.actors()) here.insert(actor.rank());
  EXPECT_EQ(std::vector<int>(here.begin(), here.end()), ranks.played);
  for (const pb::Register& reg : plan.registers()) {
    EXPECT_LT(reg.producer(), plan.actors_size());
    EXPECT_GT(reg.consumers_size(), 0);
  }
  // A rank that is not there cannot stand for another.
  PlayedRanks wrong = PlayAll(8);
  wrong.played = {0};
  wrong.stands_for.assign(8, 0);
  EXPECT_THAT(FoldedPlan::Make(priced, wrong, ""),
              testing::StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("stands for others, but")));
}

}  // namespace
}  // namespace oneflow
