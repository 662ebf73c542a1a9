// The law of liveness for jobs with policies: codes of gradients whose numbers are chosen, groups that train by
// themselves and whose means travel late, and rules with gradients at other points. Of every plan of such a job, the
// proof, a play, the simulator and actor threads say that it is live; where a credit or the order of two acts is taken
// away, they agree on whether it was needed.
//
// ONEFLOW_RANDOM_PLANS says how many plans, ONEFLOW_RANDOM_SEED which job is the first.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/code_choices.h"
#include "compiler/local_training.h"
#include "compiler/points.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "test/laws/mutable_plan.h"
#include "test/laws/random_model.h"
#include "test/support/status_matchers.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

using testing::MutablePlan;
using testing::RandomModel;
using testing::Seen;
using testing::TakeEachAway;

// A job of a random model with one policy or two.
class PolicyJob {
 public:
  // Where groups train by themselves, models have no annotations: along their axis there is no choice.
  PolicyJob(const OpRegistry& ops, int seed) : kind_(seed % 4), model_(ops, seed, "train", kind_ != 0) {}

  absl::StatusOr<Graph> Make() { return model_.Make(); }

  // Behind Make().
  std::string Config() {
    static constexpr const char* kMeshes[] = {"dp: 2", "dp: 3", "dp: 4", "dp: 2 tp: 2", "pp: 2 dp: 2"};
    const std::string mesh = kMeshes[model_.Draw(5)];
    std::string optimizer = model_.Draw(2) == 0 ? "adamw {}" : "sgd { momentum: 0.9 }", policy;
    if (kind_ == 0) {
      policy = Rounds();
    } else if (kind_ == 1) {
      static constexpr const char* kRules[] = {"optimistic {}", "extragradient {}", "masha { probability: 0.3 }"};
      optimizer = kRules[model_.Draw(3)];
      if (model_.Draw(2) == 0) policy = Code(/*steps_alone=*/false);
    } else {
      policy = Code(/*steps_alone=*/true);
    }
    return absl::StrCat("name: 'policies' mesh { ", mesh, " } train { steps: 6 batch_size: 1 optimizer { ", optimizer,
                        model_.Draw(3) == 0 ? " clip_norm: 1" : "", " } schedule { learning_rate: 1e-2 } } ", policy,
                        model_.Draw(3) == 0 ? " cluster { device: 'cuda' }" : "");
  }

 private:
  std::string Rounds() {
    std::string co2 = absl::StrCat("tau: ", 1 + model_.Draw(3), " delay: ", model_.Draw(2));
    if (model_.Draw(2) == 0) absl::StrAppend(&co2, " momentum: 0.2 nesterov: ", model_.Draw(2) == 0);
    if (model_.Draw(2) == 0) absl::StrAppend(&co2, " penalty: 'none'");
    if (model_.Draw(2) == 0) absl::StrAppend(&co2, " clip: 0.1");
    if (model_.Draw(2) == 0) absl::StrAppend(&co2, " warmup_steps: 2");
    return absl::StrCat("sync { axis: 'dp' co2 { ", co2, " } }");
  }
  // `steps_alone`: no other plans take gradients.
  std::string Code(bool steps_alone) {
    static constexpr const char* kCodes[] = {"POWERSGD default: 2",
                                             "TOPK default: 0.2",
                                             "QUANT default: 4 bucket: 8",
                                             "RANDK default: 0.25",
                                             "RANDK default: 0.2 own_seeds: true",
                                             "PERMK default: 0.1"};
    const int code = model_.Draw(6);
    std::string fields = absl::StrCat("family: ", kCodes[code]);
    const bool of_ranks = code == 1 || code > 3;
    if (steps_alone && code < 3 && model_.Draw(2) == 0) {
      absl::StrAppend(&fields, " adaptive { every: 2 window: 1 }");
    } else if (of_ranks && model_.Draw(2) == 0) {
      absl::StrAppend(&fields, " participants: 1");
    }
    if (steps_alone && model_.Draw(3) == 0) absl::StrAppend(&fields, " warmup_steps: 2");
    if (model_.Draw(3) == 0) absl::StrAppend(&fields, " stages { bits: 4 bucket: 32 }");
    if (model_.Draw(3) == 0) absl::StrAppend(&fields, " weights { bits: 4 bucket: 32 }");
    return absl::StrCat("compress { axis: 'dp' ", fields, " }");
  }

  const int kind_;
  RandomModel model_;
};

TEST(PolicyPlansTest, EveryPlanOfAJobIsLiveAndAllAgreeOnWhatItNeeds) {
  const int count = testing::FromEnvironment("ONEFLOW_RANDOM_PLANS", 120);
  const int first = testing::FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const OpRegistry ops = StandardOps();
  Seen seen;
  std::map<std::string, int> plans;  // by name
  int jobs = 0;
  std::vector<std::string> refusals;
  for (int seed = first; seen.live < count && !HasFailure(); ++seed) {
    PolicyJob drawn(ops, seed);
    ASSERT_OK_AND_ASSIGN(const Graph graph, drawn.Make());
    const std::string config = drawn.Config();
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", config, "\n", GraphToText(graph)));
    ASSERT_OK_AND_ASSIGN(SourcedConfig sourced, ParseConfig(config, "law"));
    absl::StatusOr<Job> job = MakeJob(std::move(sourced), {graph});
    absl::StatusOr<pb::PlanSet> set = job.ok() ? CompileJob(*job, ops) : job.status();
    if (absl::IsInvalidArgument(set.status()) || absl::IsUnimplemented(set.status())) {
      refusals.push_back(absl::StrCat(config, ": ", set.status().message()));
      continue;
    }
    ASSERT_OK(set);
    ++jobs;
    for (int i = 0; i < set->plans_size(); ++i) {
      SCOPED_TRACE(absl::StrCat("plan '", set->plans(i).name(), "'"));
      pb::PlanSet alone = *set;
      alone.mutable_plans()->SwapElements(0, i);
      alone.mutable_plans()->DeleteSubrange(1, alone.plans_size() - 1);
      MutablePlan plan(std::move(alone));
      EXPECT_TRUE(plan.IsLive(seed));
      ++seen.live;
      ++plans[set->plans(i).name()];
      if (plan.stricter() == 0) TakeEachAway(plan, seed, seen);
    }
  }
  for (const auto& [name, number] : plans) std::cout << number << " of '" << name << "', ";
  std::cout << seen.live << " live plans of " << jobs << " jobs; of " << seen.credits << " credits "
            << seen.needed_credits << " were needed, of " << seen.turns << " turns " << seen.needed_turns << "\n";
  EXPECT_GT(plans[kOuterPlan], 0);
  EXPECT_GT(plans[kChoicePlan], 0);
  EXPECT_GT(plans[kAnchorPlan] + plans[kHalfPlan], 0);
  EXPECT_GT(seen.needed_credits, count / 2);
  EXPECT_GT(seen.needed_turns, 0);
  // Models without a matrix, or annotations that the policy cannot meet.
  EXPECT_LT(refusals.size(), jobs / 5 + 2u) << absl::StrJoin(refusals, "\n");
}

}  // namespace
}  // namespace oneflow
