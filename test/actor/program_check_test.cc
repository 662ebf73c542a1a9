#include "actor/program_check.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kSource = 0, kSum = 1, kCopy = 2, kSink = 3;
constexpr int64_t kHuge = int64_t{1} << 62;

// source (rank 0) -> sum, two micro-batches (rank 0) -> copy (rank 1, another process) -> sink with a fetch.
pb::Program Good() {
  TestPlan plan({0, 1}, 2);
  plan.Variable("w", 8, "normal(0.1)", {0, 1});
  const int source = plan.Actor(0, "source", 2), sum = plan.Actor(0, "sum", 2), copy = plan.Actor(1, "copy");
  const int sink = plan.Actor(1, "sink");
  const int x = plan.Register("x", {source}, {{sum}}, 2);
  const int total = plan.Register("total", {sum, 2}, {{copy}}, 2);
  const int here = plan.Register("here", {copy}, {{sink}}, 1);
  plan.Instruct(source, pb::Instruction::READ, "read_data", {}, {x});
  plan.Compute(sum, "accumulate", {x}, {total});
  plan.Copy(copy, {total}, here);
  plan.Fetch(sink, here, "total");
  plan.set().add_communicators()->add_ranks(0);
  return plan.set();
}

TEST(ProgramCheckTest, AcceptsAPlanThatMakesSense) { EXPECT_OK(CheckProgram(Good(), 2)); }

namespace malformed {

const auto actor = [](pb::Program& set, int id) { return set.mutable_plans(0)->mutable_actors(id); };
const auto reg = [](pb::Program& set, int id) { return set.mutable_plans(0)->mutable_registers(id); };
const auto in = [](pb::Program& set, int id) { return actor(set, id)->mutable_instructions(0); };
const auto piece = [](pb::Program& set) { return in(set, kCopy)->mutable_pieces(0); };
const auto shard = [](pb::Program& set, int id) { return set.mutable_variables(0)->mutable_shards(id); };
const struct {
  const char* error;
  std::function<void(pb::Program&)> spoil;
} kCases[] = {
    {"program: version is 11, this runtime reads 10", [](auto& s) { s.set_version(11); }},
    {"program: it has no ranks", [](auto& s) { s.clear_ranks(); }},
    {"rank 1: process 2 is not one of the job's 2", [](auto& s) { s.mutable_ranks(1)->set_process(2); }},
    {"rank 0: ", [](auto& s) { s.mutable_ranks(0)->set_device("tpu:0"); }},
    {"rank 0: a private zone of -1 bytes",
     [](auto& s) { MutableZone(*s.mutable_ranks(0), kPrivateZone).set_bytes(-1); }},
    {"rank 0: variables take 8 bytes of the private zone of 0",
     [](auto& s) { MutableZone(*s.mutable_ranks(0), kPrivateZone).set_variable_bytes(8); }},
    {"rank 0: 5 zones; there are 4", [](auto& s) { MutableZone(*s.mutable_ranks(0), kNumZones); }},
    {"variable '': it has no name", [](auto& s) { s.mutable_variables(0)->clear_name(); }},
    {"variable 'w': the name is used twice", [](auto& s) { *s.add_variables() = s.variables(0); }},
    {"variable 'w': dimensions [-8] are no shape", [](auto& s) { s.mutable_variables(0)->set_dims(0, -8); }},
    {"variable 'w': dtype 77 is unknown",
     [](auto& s) { s.mutable_variables(0)->set_dtype(static_cast<pb::DType>(77)); }},
    {"variable 'w': init 'normal(': ", [](auto& s) { s.mutable_variables(0)->set_init("normal("); }},
    {"variable 'w': shard 1: rank 5 is not one of 2", [](auto& s) { shard(s, 1)->set_rank(5); }},
    {"variable 'w': shard 0: shard [0]+[9] lies outside", [](auto& s) { shard(s, 0)->set_extent(0, 9); }},
    {"variable 'w': shard 0: shard [4611686018427387904]+[8] lies outside",
     [](auto& s) { shard(s, 0)->set_start(0, kHuge); }},
    {"variable 'w': shard 0: shard []+[8] has another rank", [](auto& s) { shard(s, 0)->clear_start(); }},
    {"variable 'w': shard 0: 32 bytes at 4611686018427387904 reach outside the zone",
     [](auto& s) { shard(s, 0)->set_offset(kHuge); }},
    {"variable 'w': shard 1: another owner's shard overlaps it", [](auto& s) { shard(s, 1)->set_owner(true); }},
    {"variable 'w': owners hold 0 of its 8 elements", [](auto& s) { shard(s, 0)->set_owner(false); }},
    {"communicator 0: rank 0 is named twice", [](auto& s) { s.mutable_communicators(0)->add_ranks(0); }},
    {"communicator 0: rank 3 is named twice or not one of 2",
     [](auto& s) { s.mutable_communicators(0)->add_ranks(3); }},
    {"plan 'p': the name is used twice", [](auto& s) { *s.add_plans() = s.plans(0); }},
    {"plan 'p': micro_batches is 0", [](auto& s) { s.mutable_plans(0)->set_micro_batches(0); }},
    {"register 0 'x': producer 9 is not one of 4 actors", [](auto& s) { reg(s, 0)->set_producer(9); }},
    {"register 0 'x': its producer 3 has no such output", [](auto& s) { reg(s, 0)->set_producer(kSink); }},
    {"register 0 'x': 3 of 2 slots are filled", [](auto& s) { reg(s, 0)->set_initially_filled(3); }},
    {"register 0 'x': 0 of 0 slots", [](auto& s) { reg(s, 0)->set_slots(0); }},
    {"register 0 'x': 1048576 slots of 16 bytes, 64 apart", [](auto& s) { reg(s, 0)->set_slots(1 << 20); }},
    {"with the 2147483647 slots of register 'x' there are 2147483647, at most 16777216",
     [](auto& s) { reg(s, 0)->set_slot_bytes(0), reg(s, 0)->set_slots(INT32_MAX); }},
    {"register 0 'x': slots of 16 bytes at a distance of 8", [](auto& s) { reg(s, 0)->set_slot_stride(8); }},
    {"register 0 'x': slots of 4611686018427387904 bytes", [](auto& s) { reg(s, 0)->set_slot_bytes(kHuge); }},
    {"register 0 'x': 2 slots of 16 bytes, 64 apart, at -64", [](auto& s) { reg(s, 0)->set_offset(-64); }},
    {"register 0 'x': zone 5 is unknown", [](auto& s) { reg(s, 0)->set_zone(5); }},
    {"register 0 'x': consumer 1: per step 2 slots are filled, but 1 are freed",
     [](auto& s) { actor(s, kSum)->mutable_inputs(0)->set_acts_per_slot(2); }},
    {"register 1 'total': consumer 2: process 1 cannot read private memory of process 0",
     [](auto& s) {
       reg(s, 1)->set_zone(kPrivateZone);
       MutableZone(*s.mutable_ranks(0), kPrivateZone).set_bytes(1 << 20);
     }},
    {"register 0 'x': consumer 0 is out of order", [](auto& s) { reg(s, 0)->add_consumers(kSource); }},
    {"register 0 'x': consumer 3: it has no such input", [](auto& s) { reg(s, 0)->add_consumers(kSink); }},
    {"register 0 'x': its producer's rank 7 is not one of 2", [](auto& s) { actor(s, kSource)->set_rank(7); }},
    {"actor 4 '': rank -1 is not one of 2", [](auto& s) { s.mutable_plans(0)->add_actors()->set_rank(-1); }},
    {"actor 3 'sink': queue 9 is not one of 8", [](auto& s) { actor(s, 3)->set_queue(9); }},
    {"actor 3 'sink': 5 acts per step; the plan has 2 micro-batches",
     [](auto& s) {
       actor(s, kSink)->set_acts_per_step(5);
       actor(s, kSink)->mutable_inputs(0)->set_acts_per_slot(5);
     }},
    {"actor 1 'sum': inputs: register 44 is not one of 3",
     [](auto& s) { TestPlan::AddPort(actor(s, kSum)->add_inputs(), 44, 1); }},
    {"actor 1 'sum': inputs: register 0 is listed twice",
     [](auto& s) { TestPlan::AddPort(actor(s, kSum)->add_inputs(), 0, 1); }},
    {"actor 3 'sink': inputs: register 0 does not name this actor as its consumer",
     [](auto& s) { TestPlan::AddPort(actor(s, kSink)->add_inputs(), 0, 1); }},
    {"actor 3 'sink': outputs: register 0 does not name this actor as its producer",
     [](auto& s) { TestPlan::AddPort(actor(s, kSink)->add_outputs(), 0, 1); }},
    {"actor 0 'source': outputs: register 0: 0 acts per slot do not divide 2",
     [](auto& s) { actor(s, kSource)->mutable_outputs(0)->set_acts_per_slot(0); }},
    {"actor 1 'sum': instruction 0 'n/accumulate': kind 99 is unknown",
     [](auto& s) { in(s, kSum)->set_kind(static_cast<pb::Instruction::Kind>(99)); }},
    {"instruction 0 'n/accumulate': it names no op", [](auto& s) { in(s, kSum)->clear_op(); }},
    {"instruction 0 'n/accumulate': 8 bytes of scratch memory at 4611686018427387904 reach outside the zone",
     [](auto& s) {
       in(s, kSum)->set_scratch_offset(kHuge);
       in(s, kSum)->set_scratch_bytes(8);
     }},
    {"instruction 0 'n/accumulate': its scratch memory at 8 is not aligned to 64 bytes",
     [](auto& s) {
       MutableZone(*s.mutable_ranks(0), kPrivateZone).set_bytes(64);
       in(s, kSum)->set_scratch_offset(8);
       in(s, kSum)->set_scratch_bytes(8);
     }},
    {"input 0: register 2 is no port of the actor", [](auto& s) { in(s, kSum)->mutable_inputs(0)->set_register_(2); }},
    {"output 0: register 0 is no output of the actor",
     [](auto& s) { in(s, kSum)->mutable_outputs(0)->set_register_(0); }},
    {"input 0: 20 bytes at 0 reach outside the 16 bytes of its slot",
     [](auto& s) {
       in(s, kSum)->mutable_inputs(0)->set_dims(0, 5);
       in(s, kSum)->mutable_inputs(0)->set_logical_dims(0, 5);
     }},
    {"input 0: 16 bytes at 9223372036854775807 reach outside",
     [](auto& s) { in(s, kSum)->mutable_inputs(0)->set_offset(INT64_MAX); }},
    {"input 0: dimensions [4,4611686018427387904,4] are no shape",
     [](auto& s) {
       in(s, kSum)->mutable_inputs(0)->add_dims(kHuge);
       in(s, kSum)->mutable_inputs(0)->add_dims(4);
     }},
    {"input 0: 16 bytes at 1024 reach outside the 0 bytes of its zone",
     [](auto& s) {
       in(s, kSum)->mutable_inputs(0)->set_register_(-1);
       in(s, kSum)->mutable_inputs(0)->set_offset(1024);
     }},
    {"is not aligned to 64 bytes",
     [](auto& s) {
       in(s, kSum)->mutable_inputs(0)->set_dims(0, 1);
       in(s, kSum)->mutable_inputs(0)->set_offset(4);
     }},
    {"piece 0: input 1 is not one of 1", [](auto& s) { piece(s)->set_input(1); }},
    {"piece 0: source: 0 strides for 1 extents", [](auto& s) { piece(s)->clear_source_stride(); }},
    {"piece 0: source: extent [4] at 1 with strides [1] reaches outside [4]",
     [](auto& s) { piece(s)->set_source_offset(1); }},
    {"piece 0: target: extent [4] at 0 with strides [4611686018427387904] reaches outside [4]",
     [](auto& s) { piece(s)->set_target_stride(0, kHuge); }},
    {"piece 0: target: extent [4] at 0 with strides [-1] reaches outside [4]",
     [](auto& s) { piece(s)->set_target_stride(0, -1); }},
    {"piece 0: copies dtype 0 to 3", [](auto& s) { in(s, kCopy)->mutable_outputs(0)->set_dtype(pb::I32); }},
    {"a copy has one output, not 0", [](auto& s) { in(s, kCopy)->clear_outputs(); }},
    {"a fetch has a string attribute 'name'", [](auto& s) { in(s, kSink)->clear_attributes(); }},
    {"a fetch has one input, not 0", [](auto& s) { in(s, kSink)->clear_inputs(); }},
    {"it has no outputs", [](auto& s) { in(s, kSource)->clear_outputs(); }},
    {"actor 1 'sum': it acts 2 times per step, without collectives, and is ordered 1 times",
     [](auto& s) { s.mutable_plans(0)->add_orders()->add_actors(kSum); }},
    {"order on rank 1: actor 1 is not one of that rank",
     [](auto& s) {
       s.mutable_plans(0)->add_orders()->add_actors(kSum);
       s.mutable_plans(0)->mutable_orders(0)->set_rank(1);
     }},
    {"order of queue 0 of rank 7: there are two, or no such queue or rank",
     [](auto& s) { s.mutable_plans(0)->add_orders()->set_rank(7); }},
    {"rank 1 is no member of communicator 0", [](auto& s) { in(s, kCopy)->set_kind(pb::Instruction::COLLECTIVE); }},
    {"communicator 4 is not one of 1",
     [](auto& s) {
       in(s, kSum)->set_kind(pb::Instruction::COLLECTIVE);
       in(s, kSum)->set_communicator(4);
     }},
};

}  // namespace malformed

TEST(ProgramCheckTest, RefusesMalformedPlansSayingWhereAndWhat) {
  for (const auto& c : malformed::kCases) {
    pb::Program set = Good();
    c.spoil(set);
    EXPECT_THAT(CheckProgram(set, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error))) << c.error;
  }
}

// Flips numbers all over the plan: the check must answer, never crash. (Address sanitizer looks on.)
TEST(ProgramCheckTest, SurvivesAnyBytesThatParse) {
  google::protobuf::LogSilencer silencer;  // names that are no UTF-8 any more
  const std::string good = Good().SerializeAsString();
  int parsed = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const unsigned char bits : {0x01, 0x7F, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bits);
      pb::Program set;
      if (!set.ParseFromString(bad)) continue;
      ++parsed;
      CheckProgram(set, 2).IgnoreError();
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace oneflow
