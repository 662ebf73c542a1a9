#include "actor/collective_check.h"

#include <functional>
#include <map>
#include <mutex>

#include "actor/engine.h"
#include "actor/program_check.h"
#include "gmock/gmock.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/host_collectives.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Per rank: source -> call -> sink with a fetch. Actors 3r, 3r+1, 3r+2. Two ranks of one process.
pb::Program TwoRanks(const std::string& collective, int in, int out) {
  TestPlan plan({0, 0});
  for (int rank = 0; rank < 2; ++rank) {
    const int source = plan.Actor(rank, "source"), call = plan.Actor(rank, "call"), sink = plan.Actor(rank, "sink");
    const int x = plan.Register("x", {source}, {{call}}, 1, in), y = plan.Register("y", {call}, {{sink}}, 1, out);
    plan.Compute(source, "position", {}, {x});
    plan.Instruct(call, pb::Instruction::COLLECTIVE, "boxing", {x}, {y})->set_collective(collective);
    plan.Fetch(sink, y, absl::StrCat("rank", rank));
    pb::QueueOrder* order = plan.plan().add_orders();
    order->set_rank(rank);
    order->set_queue(kCommunicationQueue);
    order->add_actors(call);
  }
  pb::Communicator* both = plan.set().add_communicators();
  both->add_ranks(0);
  both->add_ranks(1);
  return plan.set();
}

pb::Instruction* CallOf(pb::Program& set, int rank, int call = 0) {
  return set.mutable_plans(0)->mutable_actors(3 * rank + 1)->mutable_instructions(call);
}

// Two sums of the same three elements, which are one launch; what the second makes nobody reads.
pb::Program TwoCalls() {
  pb::Program set = TwoRanks("all-reduce", 3, 3);
  for (int rank = 0; rank < 2; ++rank) {
    pb::Plan& plan = *set.mutable_plans(0);
    pb::Register& other = *plan.add_registers();
    other = plan.registers(CallOf(set, rank)->outputs(0).register_());
    other.clear_consumers();
    other.set_id(plan.registers_size() - 1);
    other.set_offset(BytesOfZone(set.ranks(rank), kSharedZone));
    MutableZone(*set.mutable_ranks(rank), kSharedZone).set_bytes(other.offset() + 64);
    TestPlan::AddPort(plan.mutable_actors(3 * rank + 1)->add_outputs(), other.id(), 1);
    pb::Instruction& second = *plan.mutable_actors(3 * rank + 1)->add_instructions();
    second = *CallOf(set, rank);
    second.mutable_outputs(0)->set_register_(other.id());
    for (const int call : {0, 1}) CallOf(set, rank, call)->set_group(1);
  }
  return set;
}

// Rank 0 sends its last three elements to rank 1, which sends its first back.
pb::Program Exchange() {
  pb::Program set = TwoRanks("exchange", 4, 3);
  for (int rank = 0; rank < 2; ++rank) {
    pb::Transfer* transfer = CallOf(set, rank)->add_transfers();
    transfer->set_peer(1 - rank);
    transfer->set_send_offset(rank == 0 ? 1 : 0);
    transfer->set_send_count(rank == 0 ? 3 : 1);
    transfer->set_receive_offset(rank == 0 ? 2 : 0);
    transfer->set_receive_count(rank == 0 ? 1 : 3);
  }
  return set;
}

// The same of ragged rows of one element, in one group.
pb::Program ExchangeByCounts() {
  pb::Program set = Exchange();
  for (int rank = 0; rank < 2; ++rank) {
    pb::Instruction& call = *CallOf(set, rank);
    call.set_by_counts(true);
    for (int i = 0; i < 2; ++i) {
      pb::Operand& counts = *call.add_inputs();
      counts.set_register_(-1);
      counts.set_zone(kSharedZone);
      counts.set_dtype(pb::I32);
      counts.add_dims(1);
      counts.add_logical_dims(1);
      counts.add_start(0);
    }
    pb::Transfer& transfer = *call.mutable_transfers(0);
    const auto write = [](int64_t count, pb::Rows& rows) {
      rows.add_start(0);
      rows.add_extent(1);
      rows.set_rows(count);
      rows.set_row_elements(1);
    };
    write(transfer.send_count(), *transfer.mutable_send_rows());
    write(transfer.receive_count(), *transfer.mutable_receive_rows());
  }
  return set;
}

pb::Program Changed(pb::Program set, const std::function<void(pb::Program&)>& change) {
  change(set);
  return set;
}

// What each rank fetched from one step.
std::map<std::string, std::vector<double>> Fetch(const pb::Program& set) {
  HostCollectives collectives(set);
  std::map<std::string, std::vector<double>> fetched;
  std::mutex mu;
  EngineOptions options;
  options.collectives = &collectives;
  options.ops = &testing::TestOps();
  options.open_device = TestDevice::Open;
  options.on_fetch = [&](Fetched value) {
    std::lock_guard<std::mutex> lock(mu);
    fetched[value.name] = value.values;
  };
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(set, std::move(options));
  EXPECT_OK(engine.status());
  if (!engine.ok()) return {};
  EXPECT_OK((*engine)->Run("p", 0, 1));
  return fetched;
}

TEST(CollectiveCheckTest, CallsMoveWhatTheyAreNamedFor) {
  EXPECT_THAT(Fetch(TwoRanks("all-reduce", 3, 3))["rank1"], ElementsAre(0, 2, 4));
  EXPECT_THAT(Fetch(TwoRanks("reduce-scatter", 4, 2))["rank1"], ElementsAre(4, 6));
  EXPECT_THAT(Fetch(TwoRanks("all-gather", 2, 4))["rank0"], ElementsAre(0, 1, 0, 1));
  std::map<std::string, std::vector<double>> exchanged = Fetch(Exchange());
  EXPECT_THAT(exchanged["rank1"], ElementsAre(1, 2, 3));
  EXPECT_EQ(exchanged["rank0"][2], 0);
}

TEST(CollectiveCheckTest, ABroadcastComesFromTheFirstMember) {
  pb::Program set = TwoRanks("broadcast", 3, 3);
  EXPECT_THAT(CheckProgram(set, 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("comes from member 0")));
  CallOf(set, 1)->clear_inputs();
  EXPECT_THAT(Fetch(set)["rank1"], ElementsAre(0, 1, 2));
}

TEST(CollectiveCheckTest, KernelsOfOrderedActorsAreNoCalls) {
  pb::Program set = TwoRanks("all-reduce", 3, 3);
  pb::Plan& plan = *set.mutable_plans(0);
  pb::Instruction& adds = *plan.mutable_actors(0)->mutable_instructions(0);
  adds.set_kind(pb::Instruction::COMPUTE);
  *adds.add_inputs() = adds.outputs(0);
  adds.mutable_inputs(0)->set_offset(64);
  *adds.add_inputs() = adds.outputs(0);  // in the place of its second operand, as an order that frees early may have it
  pb::QueueOrder& order = *plan.add_orders();
  order.set_queue(kComputeQueue);
  order.add_actors(0);
  EXPECT_OK(CheckCollectives(set, plan));
}

const struct {
  const char* error;
  std::function<pb::Program()> plan;
} kMisfits[] = {
    {"'all-gather' among 2 ranks of 2 elements to 3", [] { return TwoRanks("all-gather", 2, 3); }},
    {"collective 'gossip' is unknown", [] { return TwoRanks("gossip", 2, 2); }},
    {"communicator 0, call 0: rank 0 has 'n/boxing' (all-reduce, dtype 0, reduction 0, 3 elements), rank 1 has "
     "'other'",
     [] {
       pb::Program set = TwoRanks("all-reduce", 3, 3);
       CallOf(set, 1)->set_node("other");
       return set;
     }},
    {"reduction 1",
     [] {
       pb::Program set = TwoRanks("all-reduce", 3, 3);
       CallOf(set, 1)->set_reduce(pb::MAX);
       return set;
     }},
    {"communicator 0: rank 0 makes 1 calls per step, rank 1 makes 0",
     [] {
       pb::Program set = TwoRanks("all-reduce", 3, 3);
       set.mutable_plans(0)->mutable_actors(4)->clear_instructions();
       set.mutable_plans(0)->mutable_orders()->RemoveLast();
       return set;
     }},
    {"actor 4 'call': it acts 1 times per step, with collectives, and is ordered 0 times",
     [] {
       pb::Program set = TwoRanks("all-reduce", 3, 3);
       set.mutable_plans(0)->mutable_orders()->RemoveLast();
       return set;
     }},
    {"rank 0 sends 2 elements to rank 1, which expects 3",
     [] {
       pb::Program set = Exchange();
       CallOf(set, 0)->mutable_transfers(0)->set_send_count(2);
       return set;
     }},
    {"a call by counts has 2 inputs, not 3",
     [] {
       return Changed(ExchangeByCounts(), [](pb::Program& set) { CallOf(set, 1)->mutable_inputs()->RemoveLast(); });
     }},
    {"its counts are of dtype 0",
     [] {
       return Changed(ExchangeByCounts(),
                      [](pb::Program& set) { CallOf(set, 1)->mutable_inputs(2)->set_dtype(pb::F32); });
     }},
    {"transfer 0: rows start: 0 extent: 1 rows: 2 row_elements: 1 are not 3 elements whose counts are",
     [] {
       return Changed(ExchangeByCounts(),
                      [](pb::Program& set) { CallOf(set, 0)->mutable_transfers(0)->mutable_send_rows()->set_rows(2); });
     }},
    {"transfer 0: rows start: 1 extent: 1",
     [] {
       return Changed(ExchangeByCounts(), [](pb::Program& set) {
         CallOf(set, 0)->mutable_transfers(0)->mutable_send_rows()->set_start(0, 1);
       });
     }},
    {"rank 0 sends [0+1] rows 0+3 of 1 elements to rank 1, which expects [0+1] rows 2+3 of 1 elements",
     [] {
       return Changed(ExchangeByCounts(), [](pb::Program& set) {
         CallOf(set, 1)->mutable_transfers(0)->mutable_receive_rows()->set_first_row(2);
       });
     }},
    {"reduction 0, 0 elements, by counts), rank 1 has",
     [] {
       return Changed(ExchangeByCounts(), [](pb::Program& set) {
         CallOf(set, 1)->set_by_counts(false);
         CallOf(set, 1)->mutable_inputs()->DeleteSubrange(1, 2);
       });
     }},
    {"only an exchange goes by counts",
     [] {
       pb::Program set = TwoRanks("all-reduce", 3, 3);
       CallOf(set, 0)->set_by_counts(true);
       return set;
     }},
    {"transfer 0: sends 3 elements at 2 of 4",
     [] {
       pb::Program set = Exchange();
       CallOf(set, 0)->mutable_transfers(0)->set_send_offset(2);
       return set;
     }},
    {"rank 0 has 'n/boxing' (all-reduce, dtype 0, reduction 0, 3 elements, launched with 1 before it), rank 1 has "
     "'n/boxing' (all-reduce, dtype 0, reduction 0, 3 elements)",
     [] {
       pb::Program set = TwoCalls();
       for (const int call : {0, 1}) CallOf(set, 1, call)->set_group(0);
       return set;
     }},
    {"'n/boxing': group 1 of calls overwrites its own operands or results",
     [] {
       pb::Program set = TwoCalls();
       for (const int rank : {0, 1}) *CallOf(set, rank, 1)->mutable_outputs() = CallOf(set, rank, 0)->outputs();
       return set;
     }},
    {"'n/boxing': group 1 of calls reads its own results",
     [] {
       pb::Program set = TwoCalls();
       for (const int rank : {0, 1}) *CallOf(set, rank, 1)->mutable_inputs() = CallOf(set, rank, 0)->outputs();
       return set;
     }},
    {"group 1 of calls is interrupted",
     [] {
       pb::Program set = TwoCalls();
       for (const int rank : {0, 1}) {
         auto& calls = *set.mutable_plans(0)->mutable_actors(3 * rank + 1)->mutable_instructions();
         *calls.Add() = calls[1];
         calls[1].set_group(0);
       }
       return set;
     }},
    {"group 1 of calls has an instruction that is no call",
     [] {
       pb::Program set = TwoCalls();
       set.mutable_plans(0)->mutable_actors(1)->mutable_instructions(0)->set_kind(pb::Instruction::COPY);
       return set;
     }},
    {"transfer 0: peer 0 is itself",
     [] {
       pb::Program set = Exchange();
       CallOf(set, 0)->mutable_transfers(0)->set_peer(0);
       return set;
     }},
};

TEST(CollectiveCheckTest, CallsThatDoNotFitTogetherAreRefused) {
  EXPECT_OK(CheckProgram(Exchange(), 1));
  EXPECT_OK(CheckProgram(TwoCalls(), 1));
  EXPECT_OK(CheckProgram(ExchangeByCounts(), 1));
  for (const auto& c : kMisfits) {
    EXPECT_THAT(CheckProgram(c.plan(), 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

}  // namespace
}  // namespace oneflow
