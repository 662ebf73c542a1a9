#include "compiler/lower/program.h"

#include <map>
#include <random>
#include <set>

#include "compiler/lower/compile.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program_text.h"
#include "compiler/lower/wait_graph.h"
#include "test/compiler/plan/random_job.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Takes one token away. False if there is none.
bool TakeToken(pb::ClassPlan& plan, std::mt19937& random) {
  std::vector<int> tokens;
  for (int r = 0; r < plan.registers_size(); ++r) {
    if (plan.registers(r).initially_filled() > 0) tokens.push_back(r);
  }
  if (tokens.empty()) return false;
  plan.mutable_registers(tokens[random() % tokens.size()])->set_initially_filled(0);
  return true;
}

// Exchanges two neighbouring calls of one class. False if none has two.
bool ExchangeCalls(pb::ClassPlan& plan, std::mt19937& random) {
  if (plan.orders().empty()) return false;
  auto& order = *plan.mutable_orders(static_cast<int>(random() % plan.orders_size()))->mutable_actors();
  if (order.size() < 2) return false;
  const int at = static_cast<int>(random() % (order.size() - 1));
  order.SwapElements(at, at + 1);
  return true;
}

TEST(ProgramTest, ProofsOnClassesAndWithEveryRankSpelledOutAgree) {
  int live = 0, dead = 0, stricter = 0;
  for (uint32_t seed = 0; live + dead < 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    RandomJob job = MakeRandomJob(seed);
    if (random() % 2 == 0) job.options.device = DeviceKind::kCuda;
    absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set);
    const unsigned damage = random() % 4;
    if (damage == 1) TakeToken(*set->mutable_plans(0), random);
    const bool exchanged = damage == 2 && ExchangeCalls(*set->mutable_plans(0), random);
    const absl::Status on_classes = CheckPlanLive(set->plans(0));
    const absl::Status on_ranks = CheckSpelledOutLive(SpelledOut(*set).plans(0));
    if (exchanged && on_ranks.ok() && !on_classes.ok()) {
      // On classes the calls of one actor are one event; on ranks they may be those of groups that have no rank in
      // common.
      ++stricter;
      continue;
    }
    ASSERT_EQ(on_classes.code(), on_ranks.code()) << on_classes << "\n" << on_ranks;
    (on_classes.ok() ? live : dead) += 1;
  }
  EXPECT_GT(live, 500);
  EXPECT_GT(dead, 200);
  EXPECT_LT(stricter, 100) << "of some 200 with exchanged calls";
}

// By id: what an actor is, without the numbers that hold within one program only.
std::map<int, std::string> Acts(const pb::Program& program, bool whole) {
  std::map<int, std::string> acts;
  for (const pb::Actor& actor : program.plans(0).actors()) {
    if (!whole && program.ranks(actor.rank()).process() != program.process()) continue;
    pb::Actor copy = actor;
    const auto rename = [&](auto& x) {
      if (x.register_() >= 0) x.set_register_(program.plans(0).registers(x.register_()).id());
    };
    for (pb::Port& port : *copy.mutable_inputs()) rename(port);
    for (pb::Port& port : *copy.mutable_outputs()) rename(port);
    for (pb::Instruction& instruction : *copy.mutable_instructions()) {
      for (pb::Operand& x : *instruction.mutable_inputs()) rename(x);
      for (pb::Operand& x : *instruction.mutable_outputs()) rename(x);
      if (instruction.kind() == pb::Instruction::COLLECTIVE) {
        for (const int rank : program.communicators(instruction.communicator()).ranks()) {
          instruction.add_transfers()->set_peer(rank);
        }
        instruction.clear_communicator();
      }
    }
    acts[actor.id()] = copy.DebugString();
  }
  return acts;
}

TEST(ProgramTest, TheProgramsOfAllProcessesTogetherAreTheWhole) {
  int messages = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomJob job = MakeRandomJob(seed);
    if (seed % 2 == 0) job.options.device = DeviceKind::kCuda;
    absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set);
    const std::map<int, std::string> whole = Acts(SpelledOut(*set), true);
    std::map<int, std::string> parts;
    std::map<int, std::set<int>> consumers;  // of registers, by ids, as their producers' programs have them
    std::map<int, std::set<int>> readers;    // as the readers' programs have them
    for (int process = 0; process < 16 / job.options.ranks_per_process; ++process) {
      ASSERT_OK_AND_ASSIGN(const pb::Program part, ProgramOf(*set, process, "hash"));
      EXPECT_EQ(part.plan_hash(), "hash");
      for (auto& [id, text] : Acts(part, false)) EXPECT_TRUE(parts.emplace(id, text).second);
      for (const pb::Register& reg : part.plans(0).registers()) {
        const pb::Actor& producer = part.plans(0).actors(reg.producer());
        const bool ours = part.ranks(producer.rank()).process() == process;
        for (const int consumer : reg.consumers()) {
          const pb::Actor& reader = part.plans(0).actors(consumer);
          if (ours) consumers[reg.id()].insert(reader.id());
          if (part.ranks(reader.rank()).process() == process) readers[reg.id()].insert(reader.id());
          messages += !ours;
        }
      }
    }
    EXPECT_EQ(parts, whole);
    EXPECT_EQ(consumers, readers);
  }
  EXPECT_GT(messages, 100);
}

TEST(ProgramTest, AWorkersProgramDoesNotGrowWithTheRanksOfTheJob) {
  const auto size_of = [](int data) -> size_t {
    const StepShape shape{2, data, 4};
    const absl::StatusOr<pb::PlanSet> set = CompileBoxed({{TrainingStep(shape), 4}}, OptionsFor(shape), Ops());
    EXPECT_TRUE(set.ok()) << set.status();
    absl::StatusOr<pb::Program> program = ProgramOf(*set, 0, "");
    EXPECT_TRUE(program.ok()) << program.status();
    program->clear_ranks();
    return program->ByteSizeLong();
  };
  // Along dp a rank reads all others' parts of a gradient: pieces grow, actors and registers of others do not multiply.
  EXPECT_LT(size_of(16), 4 * size_of(8));
}

TEST(ProgramTest, RefusesPlansThatDoNotMakeSense) {
  const StepShape shape{2, 2, 4};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet good, CompileBoxed({{TrainingStep(shape), 4}}, OptionsFor(shape), Ops()));
  const struct {
    std::function<void(pb::PlanSet&)> spoil;
    std::string error;
  } kCases[] = {
      {[](pb::PlanSet& s) { s.set_version(1); }, "plan set: version is 1, this reader knows 10"},
      {[](pb::PlanSet& s) { s.mutable_hosts()->set_num_ranks(5); }, "hosts"},
      {[](pb::PlanSet& s) { s.mutable_hosts()->set_device("tpu"); }, "hosts: device 'tpu'"},
      {[](pb::PlanSet& s) { s.mutable_classes(0)->clear_ranks(); }, "rank 0 is in no class"},
      {[](pb::PlanSet& s) { s.mutable_grids(0)->set_first(3); }, "grid 0: rank 5 is not one of 4"},
      {[](pb::PlanSet& s) { s.mutable_grids(0)->set_sizes(0, 1 << 30); }, "grid 0: more than 4 ranks"},
      {[](pb::PlanSet& s) {
         for (int i = 0; i < 2000; ++i) *s.add_grids() = s.grids(0);
       },
       "at most each of 4 is in 256"},
      {[](pb::PlanSet& s) { s.mutable_tensors(0)->set_sbp("(S(9))"); }, "tensor 0: "},
      {[](pb::PlanSet& s) { s.mutable_tensors(0)->set_grid(77); }, "tensor 0: grid 77 is not one of "},
      {[](pb::PlanSet& s) { s.mutable_variables(0)->set_tensor(-1); }, "variable 's0/w': tensor -1 is not one of "},
      {[](pb::PlanSet& s) { s.mutable_plans(0)->mutable_registers(0)->set_producer(99); },
       "producer 99 is not one of "},
      {[](pb::PlanSet& s) { s.mutable_plans(0)->mutable_actors(0)->set_grid(-2); }, "grid -2 is not one of "},
      {[](pb::PlanSet& s) { s.mutable_plans(0)->set_mesh(99); }, "plan 'train': grid 99 is not one of "},
      {[](pb::PlanSet& s) { s.mutable_plans(0)->clear_memory(); }, "memory of 0 classes, there are 2"},
      {[](pb::PlanSet& s) {
         for (pb::ClassActor& actor : *s.mutable_plans(0)->mutable_actors()) {
           for (pb::ClassInstruction& x : *actor.mutable_instructions()) {
             if (x.op() == "boxing") x.clear_outputs();
           }
         }
       },
       "a boxing has one input and one output, not 1 and 0"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.error);
    pb::PlanSet set = good;
    c.spoil(set);
    EXPECT_THAT(ProgramOf(set, 0, ""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
  EXPECT_THAT(ProgramOf(good, 4, ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the plan has no rank in process 4")));
}

}  // namespace
}  // namespace oneflow
