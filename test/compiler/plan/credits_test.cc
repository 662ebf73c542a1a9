#include "compiler/plan/credits.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/queues.h"
#include "proto/plan.pb.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Plays steps of a plan on a clock: every rank executes one act at a time, of its ready actors the one with the highest
// priority. Returns per rank the compute acts in order: "F0 F1 B0 ...".
class Playback {
 public:
  explicit Playback(const pb::Plan& plan, int ranks)
      : plan_(plan), acts_(plan.actors_size()), busy_(ranks, -1), until_(ranks) {
    for (const pb::Register& reg : plan.registers()) {
      filled_.push_back(reg.initially_filled());
      freed_.emplace_back(reg.consumers_size(), 0);
    }
    order_.resize(ranks);
  }

  std::vector<std::string> Run() {
    for (int now = 0;; ++now) {
      for (size_t rank = 0; rank < busy_.size(); ++rank) {
        if (busy_[rank] >= 0 && until_[rank] == now) Finish(static_cast<int>(rank));
      }
      bool working = false;
      for (size_t rank = 0; rank < busy_.size(); ++rank) {
        if (busy_[rank] < 0) Start(static_cast<int>(rank), now);
        working = working || busy_[rank] >= 0;
      }
      if (!working) break;
    }
    for (int a = 0; a < plan_.actors_size(); ++a)
      EXPECT_EQ(acts_[a], plan_.actors(a).acts_per_step()) << plan_.actors(a).name();
    std::vector<std::string> result;
    for (const std::vector<std::string>& acts : order_) result.push_back(absl::StrJoin(acts, " "));
    return result;
  }

 private:
  static bool Is(const pb::Actor& actor, absl::string_view prefix) { return absl::StartsWith(actor.name(), prefix); }

  // A matrix multiplication takes ten ticks, anything else together one.
  static int Duration(const pb::Actor& actor) {
    int ticks = 1;
    for (const pb::Instruction& x : actor.instructions()) ticks += absl::StartsWith(x.op(), "matmul") ? 10 : 0;
    return ticks;
  }

  bool Ready(int id) const {
    const pb::Actor& actor = plan_.actors(id);
    if (acts_[id] == actor.acts_per_step()) return false;
    for (const pb::Port& port : actor.inputs()) {
      if (filled_[port.register_()] <= acts_[id] / port.acts_per_slot()) return false;
    }
    for (const pb::Port& port : actor.outputs()) {
      const pb::Register& reg = plan_.registers(port.register_());
      for (int freed : freed_[port.register_()]) {
        if (filled_[port.register_()] - freed >= reg.slots()) return false;
      }
    }
    return true;
  }

  void Start(int rank, int now) {
    int best = -1;
    for (int a = 0; a < plan_.actors_size(); ++a) {
      if (plan_.actors(a).rank() != rank || !Ready(a)) continue;
      if (best < 0 || plan_.actors(a).priority() > plan_.actors(best).priority()) best = a;
    }
    if (best < 0) return;
    const pb::Actor& actor = plan_.actors(best);
    busy_[rank] = best;
    until_[rank] = now + Duration(actor);
    if (Is(actor, "forward")) order_[rank].push_back(absl::StrCat("F", acts_[best]));
    if (Is(actor, "backward")) order_[rank].push_back(absl::StrCat("B", acts_[best]));
  }

  void Finish(int rank) {
    const int id = busy_[rank];
    const pb::Actor& actor = plan_.actors(id);
    busy_[rank] = -1;
    const int done = ++acts_[id];
    for (const pb::Port& port : actor.inputs()) {
      if (done % port.acts_per_slot() != 0) continue;
      const pb::Register& reg = plan_.registers(port.register_());
      for (int c = 0; c < reg.consumers_size(); ++c) freed_[port.register_()][c] += reg.consumers(c) == id ? 1 : 0;
    }
    for (const pb::Port& port : actor.outputs()) {
      if (done % port.acts_per_slot() == 0) ++filled_[port.register_()];
    }
  }

  const pb::Plan& plan_;
  std::vector<int> acts_, busy_, until_, filled_;
  std::vector<std::vector<int>> freed_;
  std::vector<std::vector<std::string>> order_;
};

TEST(CreditsTest, OneForwardOneBackwardEmergesFromTheCredits) {
  const StepShape shape{3, 1, 6};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{TrainingStep(shape), 6}}, OptionsFor(shape), Ops()));
  const pb::Program program = testing::SpelledOut(set);
  const std::vector<std::string> order = Playback(program.plans(0), 3).Run();
  // The last stage does forward and backward of a micro-batch in one act.
  EXPECT_THAT(order, ElementsAre("F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5", "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
                                 "B0 B1 B2 B3 B4 B5"));
}

TEST(CreditsTest, AStageHoldsAsManyMicroBatchesAsStagesFollow) {
  const StepShape shape{4, 1, 8};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{TrainingStep(shape), 8}}, OptionsFor(shape), Ops()));
  std::map<int, int> most;  // per stage
  const pb::Program program = testing::SpelledOut(set);
  for (const pb::Register& reg : program.plans(0).registers()) {
    int& slots = most[program.plans(0).actors(reg.producer()).rank()];
    slots = std::max(slots, reg.slots());
  }
  EXPECT_EQ(most[0], 4);
  EXPECT_EQ(most[1], 3);
  EXPECT_EQ(most[2], 2);
  EXPECT_EQ(most[3], 2);  // the gradient sent to stage 2: being written while the last one is read
}

TEST(CreditsTest, FewerMicroBatchesThanStagesNeedFewerSlots) {
  const StepShape shape{4, 1, 2};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{TrainingStep(shape), 2}}, OptionsFor(shape), Ops()));
  for (const pb::ClassRegister& reg : set.plans(0).registers())
    EXPECT_LE(reg.slots(), reg.name() == "read" ? 3 : 2) << reg.name();
}

TEST(CreditsTest, WithoutAPipelineOneSlotIsEnoughButForWhatIsReadAhead) {
  const StepShape shape{1, 2, 8};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, CompileBoxed({{TrainingStep(shape), 8}}, OptionsFor(shape), Ops()));
  for (const pb::ClassRegister& reg : set.plans(0).registers())
    EXPECT_EQ(reg.slots(), reg.name() == "read" ? 2 : 1) << reg.name();
}

// What another rank waits for goes before what this one computes; gradients for which only the update waits do not.
TEST(CreditsTest, WhatOthersWaitForIsMostUrgent) {
  const auto chain = [](Chain::Kind kind, StepPart part, bool gradients, int level) {
    Chain made;
    made.kind = kind;
    made.queue = kind == Chain::Kind::kBoxing ? kCommunicationQueue : kComputeQueue;
    made.part = part;
    made.gradients = gradients;
    made.level = level;
    return made;
  };
  constexpr auto kCompute = Chain::Kind::kCompute, kBoxing = Chain::Kind::kBoxing;
  ChainGraph chains;
  chains.chains.push_back(chain(kCompute, StepPart::kUpdate, false, 9));
  const auto priority = [&](Chain::Kind kind, StepPart part, bool gradients, int level) {
    return PriorityOf(chains, chain(kind, part, gradients, level));
  };
  Chain stored = chain(kCompute, StepPart::kUpdate, false, 4);
  stored.is_stored = true;
  const std::vector<int> descending = {
      PublisherPriority(chains),
      priority(kBoxing, StepPart::kForward, false, 1),
      priority(kBoxing, StepPart::kBackward, false, 8),
      PriorityOf(chains, stored),
      priority(kCompute, StepPart::kBackward, false, 2),
      priority(kCompute, StepPart::kBackward, false, 5),
      priority(kCompute, StepPart::kUpdate, false, 0),
      priority(kCompute, StepPart::kForward, false, 0),
      priority(kBoxing, StepPart::kBackward, /*gradients=*/true, 6),
  };
  for (size_t i = 1; i < descending.size(); ++i) EXPECT_GT(descending[i - 1], descending[i]) << i;
}

}  // namespace
}  // namespace oneflow
