// The law of folding: a plan of which only the played ranks are there, who stand for the others, gives every act of
// theirs the times that it has in the play of all ranks. Held over random models, meshes, schedules, hosts and slow
// ranks. ONEFLOW_FOLDED_PLANS says how many, ONEFLOW_RANDOM_SEED which is the first.
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/lower/compile.h"
#include "compiler/schedule/named_schedule.h"
#include "gtest/gtest.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/ops/ops.h"
#include "test/laws/random_model.h"
#include "test/support/status_matchers.h"
#include "tools/study/sim/folded_plan.h"

namespace oneflow {
namespace {

constexpr int64_t kPlayedSteps = 3;

// Everything about a case that a seed decides.
class RandomCase {
 public:
  RandomCase(const OpRegistry& ops, int seed) : ops_(ops), seed_(seed), random_(seed) {}

  absl::StatusOr<pb::PlanSet> Compile() {
    static constexpr int kMeshes[][3] = {{1, 4, 1}, {1, 8, 1}, {1, 2, 2}, {1, 1, 4}, {2, 2, 2}, {2, 4, 1},
                                         {1, 4, 2}, {4, 1, 2}, {2, 3, 2}, {3, 2, 2}, {1, 6, 2}, {4, 3, 1}};
    const auto& sizes = kMeshes[Draw(std::size(kMeshes))];
    std::vector<Axis> axes;
    int ranks = 1;
    for (int i = 0; i < 3; ++i) {
      if (sizes[i] > 1) axes.push_back({i == 0 ? "pp" : i == 1 ? "dp" : "tp", sizes[i]});
      ranks *= sizes[i];
    }
    CompileOptions options;
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(axes)));
    options.job = "folding";
    options.micro_batches = 1 << Draw(4);
    options.device = Draw(2) == 0 ? DeviceKind::kCpu : DeviceKind::kCuda;
    options.ranks_per_process = sizes[2] % 2 == 0 ? 1 + Draw(2) : 1;
    options.optimizer.clip_norm = Draw(2);
    Lay(ranks, options.ranks_per_process);
    options.hosts = hosts_;
    OF_ASSIGN_OR_RETURN(topology_, Topology::Create(ranks, options.ranks_per_process, hosts_));
    Program program;
    if (Draw(3) == 0) {
      OF_ASSIGN_OR_RETURN(Graph graph, RandomModel(ops_, seed_).Make());
      program.push_back(std::move(graph));
    } else {
      const GptConfig config{.vocabulary = 8 << Draw(2), .layers = 4, .width = 48, .heads = 4, .context = 8};
      OF_ASSIGN_OR_RETURN(program, GptProgram(config, {.path = "text"}, {.train = 12 + Draw(2)}, std::nullopt, ops_));
      static constexpr const char* kSchedules[] = {"", "gpipe", "1f1b", "zb-h1", "interleaved"};
      ScheduleRequest request{.name = kSchedules[Draw(std::size(kSchedules))]};
      request.num_ranks = sizes[0];
      request.num_micro_batches = options.micro_batches;
      if (!request.name.empty() && options.micro_batches >= sizes[0]) {
        OF_ASSIGN_OR_RETURN(options.pipeline, MakeSchedule(request));
      }
    }
    return oneflow::Compile(program, options, ops_);
  }

  // REQUIRES: Compile() was called.
  RankCosts Costs() {
    RankCosts costs = PredictedRankCosts(topology_, ops_);
    if (Draw(4) == 0) costs.slow = {{Draw(topology_.num_ranks()), 1.5}};
    return costs;
  }

  std::string Text() const {
    std::string text = absl::StrCat("ONEFLOW_RANDOM_SEED=", seed_, ", ", topology_.num_ranks(), " ranks on hosts of");
    for (const HostGroup& host : topology_.groups()) {
      absl::StrAppend(&text, " ", host.count, "x", host.devices, " with ", host.nics[0].count, " cards");
    }
    return text;
  }

 private:
  int Draw(size_t n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void Lay(int ranks, int per_process) {
    const int groups = 1 + Draw(3) / 2;
    for (int left = ranks; left > 0;) {
      HostGroup host;
      host.devices = per_process * (1 + Draw(4));
      host.count = static_cast<int>(hosts_.size()) + 1 == groups ? (left + host.devices - 1) / host.devices : 1;
      Nics nics = *NicsOfClass("infiniband");
      nics.count = 1 << Draw(3);
      host.nics = {nics};
      if (Draw(2) == 0) host.device.f32_flops /= 2;
      left -= static_cast<int>(host.count * host.devices);
      hosts_.push_back(std::move(host));
    }
  }

  const OpRegistry& ops_;
  const int seed_;
  std::mt19937 random_;
  std::vector<HostGroup> hosts_;
  Topology topology_;
};

// By number of the actor in the job and of the act: begin and end.
using Times = std::map<std::pair<int, int64_t>, std::pair<int64_t, int64_t>>;

absl::StatusOr<Times> TimesOf(const FoldedPlan& folded) {
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(folded.program(), 0, kPlayedSteps, folded.Costs()));
  Times times;
  for (const TracedAct& act : simulation.trace.acts) {
    times[{folded.IdOf(act.actor), act.act}] = {act.begin_ns, act.end_ns};
  }
  return times;
}

// Of all ranks, each spelled out and priced by itself. Counts what is sent with messages.
absl::StatusOr<Times> TimesOfAll(const pb::PlanSet& set, const RankCosts& costs, int64_t& shipments) {
  OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(set, std::nullopt, ""));
  const std::vector<PredictedAct> acts = costs.acts(program, 0);
  SimulatedCosts simulated;
  const auto rank_of = [&program](int32_t actor) { return program.plans(0).actors(actor).rank(); };
  simulated.act = [&](int32_t actor, int64_t) { return costs.OnRank(acts[actor], rank_of(actor)); };
  simulated.message_ns = [&](int32_t from, int64_t, int32_t to, int32_t) {
    return costs.MessageNs(rank_of(from), rank_of(to));
  };
  simulated.shipment_ns = [&](int32_t from, int64_t, int32_t to, int32_t register_id) -> int64_t {
    for (const pb::Landing& landing : program.plans(0).actors(to).landings()) {
      if (landing.register_() != register_id) continue;
      ++shipments;
      return costs.ShipmentNs(rank_of(from), rank_of(to), landing.slot_bytes());
    }
    return 0;
  };
  simulated.shipment_link = [&](int32_t from, int32_t to, int32_t) {
    return costs.SenderLink(rank_of(from), rank_of(to), rank_of(from));
  };
  OF_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, 0, kPlayedSteps, simulated));
  Times times;
  for (const TracedAct& act : simulation.trace.acts) {
    times[{program.plans(0).actors(act.actor).id(), act.act}] = {act.begin_ns, act.end_ns};
  }
  return times;
}

TEST(FoldingLawTest, PlayedRanksActAsInThePlayOfAll) {
  const int count = FromEnvironment("ONEFLOW_FOLDED_PLANS", 130), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const OpRegistry ops = StandardOps();
  int folded_plans = 0, saved_ranks = 0, whole_plans = 0;
  int64_t shipments = 0;
  for (int seed = first; seed < first + count; ++seed) {
    RandomCase it(ops, seed);
    const absl::StatusOr<pb::PlanSet> set = it.Compile();
    SCOPED_TRACE(it.Text());
    ASSERT_OK(set.status());
    const RankCosts costs = it.Costs();
    ASSERT_OK_AND_ASSIGN(const PartPrograms programs, PartPrograms::Of(*set));
    PricedRanks priced(*set, programs, 0, costs);
    ASSERT_OK_AND_ASSIGN(PlayedRanks ranks, FindPlayedRanks(priced, {}));
    const int all = programs.reader().num_ranks(), saved = all - static_cast<int>(ranks.played.size());
    ++(saved > 0 ? folded_plans : whole_plans);
    saved_ranks += saved;
    if (saved == 0) continue;
    ASSERT_OK_AND_ASSIGN(const FoldedPlan folded, FoldedPlan::Make(priced, std::move(ranks), ""));
    ASSERT_OK_AND_ASSIGN(const Times expected, TimesOfAll(*set, costs, shipments));
    ASSERT_OK_AND_ASSIGN(const Times times, TimesOf(folded));
    ASSERT_GT(times.size(), 0u);
    for (const auto& [act, when] : times) {
      const auto other = expected.find(act);
      ASSERT_TRUE(other != expected.end()) << "actor " << act.first;
      ASSERT_EQ(when, other->second) << "act " << act.second << " of actor " << act.first;
    }
  }
  if (count < 130) return;
  EXPECT_GT(folded_plans, count / 4);
  EXPECT_GT(whole_plans, 0) << "some have nothing in common";
  EXPECT_GT(saved_ranks, count / 2);
  EXPECT_GT(shipments, count);
}

}  // namespace
}  // namespace oneflow
