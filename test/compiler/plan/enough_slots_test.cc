#include "compiler/plan/enough_slots.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// Actors of two acts, and registers of one slot between them.
class PlanKit {
 public:
  int Actor() {
    PhysicalActor& actor = plan_.actors.emplace_back();
    actor.name = absl::StrCat("a", plan_.actors.size() - 1);
    actor.acts_per_step = 2;
    return static_cast<int>(plan_.actors.size()) - 1;
  }
  int Register(int from, int to, int64_t slot_bytes) {
    const int id = static_cast<int>(plan_.registers.size());
    PhysicalRegister& reg = plan_.registers.emplace_back();
    reg.producer = from;
    reg.consumers = {to};
    reg.slot_bytes = reg.slot_stride = slot_bytes;
    plan_.actors[from].outputs.push_back({id});
    plan_.actors[to].inputs.push_back({id});
    return id;
  }
  void Order(std::vector<int> actors) { plan_.orders.push_back({0, kComputeQueue, std::move(actors)}); }

  PhysicalPlan& plan() { return plan_; }
  std::vector<int> SlotsGiven() {
    GiveEnoughSlots(plan_);
    std::vector<int> slots;
    for (const PhysicalRegister& reg : plan_.registers) slots.push_back(reg.slots);
    return slots;
  }

 private:
  PhysicalPlan plan_;
};

TEST(EnoughSlotsTest, OneThatIsFilledTwiceBeforeItIsReadGetsTwoSlots) {
  PlanKit kit;
  const int a = kit.Actor(), b = kit.Actor();
  kit.Register(a, b, 64);
  kit.Order({a, a, b, b});
  EXPECT_THAT(kit.SlotsGiven(), ElementsAre(2));
}

TEST(EnoughSlotsTest, OfTwoOnTheWayTheCheaperGetsIt) {
  PlanKit kit;
  const int a = kit.Actor(), copy = kit.Actor(), b = kit.Actor();
  kit.Register(a, copy, 64);
  kit.Register(copy, b, 32);
  kit.Order({a, a, b, b});
  EXPECT_THAT(kit.SlotsGiven(), ElementsAre(1, 1)) << "one slot of each is enough for two on the way";
  PlanKit longer;
  const int c = longer.Actor(), copy2 = longer.Actor(), d = longer.Actor();
  for (const int actor : {c, copy2, d}) longer.plan().actors[actor].acts_per_step = 3;
  longer.Register(c, copy2, 64);
  longer.Register(copy2, d, 32);
  longer.Order({c, c, c, d, d, d});
  EXPECT_THAT(longer.SlotsGiven(), ElementsAre(1, 2));
}

TEST(EnoughSlotsTest, StateIsLeftAsItIs) {
  PlanKit kit;
  const int a = kit.Actor(), b = kit.Actor();
  kit.plan().registers[kit.Register(a, b, 64)].variable = 0;
  kit.Order({a, a, b, b});
  EXPECT_THAT(kit.SlotsGiven(), ElementsAre(1)) << "for the proof to refuse";
}

TEST(EnoughSlotsTest, OrdersThatContradictDataAreLeftForTheProof) {
  PlanKit kit;
  const int a = kit.Actor(), b = kit.Actor();
  kit.Register(a, b, 64);
  kit.Order({b, b, a, a});
  EXPECT_THAT(kit.SlotsGiven(), ElementsAre(1));
}

// A search of the whole plan for each of them would take hours.
TEST(EnoughSlotsTest, FiftyThousandRegistersThatLackASlotTakeOnePlay) {
  constexpr int kPairs = 50'000;
  PlanKit kit;
  std::vector<int> order;
  for (int i = 0; i < kPairs; ++i) {
    const int a = kit.Actor(), b = kit.Actor();
    kit.Register(a, b, 64);
    order.insert(order.end(), {a, a, b, b});
  }
  kit.Order(std::move(order));
  EXPECT_THAT(kit.SlotsGiven(), Each(2));
}

}  // namespace
}  // namespace oneflow
