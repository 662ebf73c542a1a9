// The proof of plans that anyone may have made: good ones pass, every damage has its error, and no bytes crash it.
#include "compiler/lower/plan_check.h"

#include <google/protobuf/stubs/logging.h>

#include <functional>
#include <random>

#include "compiler/lower/compile.h"
#include "compiler/lower/plan_text.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "test/compiler/plan/graph_kit.h"
#include "test/compiler/plan/random_job.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

pb::PlanSet StepPlan(const StepShape& shape, DeviceKind device = DeviceKind::kCpu) {
  CompileOptions options = OptionsFor(shape);
  options.device = device;
  return *CompileBoxed({{TrainingStep(shape), shape.micro_batches}}, options, Ops());
}

TEST(PlanCheckTest, WhatTheCompilerMakesIsProved) {
  int checked = 0;
  for (uint32_t seed = 0; checked < 200; ++seed) {
    testing::RandomJob job = MakeRandomJob(seed);
    if (seed % 2 == 0) job.options.device = DeviceKind::kCuda;
    const absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set) << "seed " << seed;
    EXPECT_OK(CheckPlanSet(*set)) << "seed " << seed;
    ++checked;
  }
}

TEST(PlanCheckTest, TheTextCountsWhatWasProvedAndNamesWhatWasNot) {
  const pb::PlanSet set = StepPlan({2, 2, 4}, DeviceKind::kCuda);
  ASSERT_OK_AND_ASSIGN(const std::vector<PlanProof> proofs, CheckPlanSet(set));
  ASSERT_EQ(proofs.size(), 1u);
  EXPECT_GT(proofs[0].ordered, 0);
  EXPECT_THAT(ProofText(set, proofs),
              AllOf(HasSubstr("4 ranks in 2 classes"), HasSubstr("acts in order: no deadlock\n"),
                    HasSubstr(absl::StrCat(proofs[0].acts, " acts a step")), HasSubstr("not proved: ")));
}

// One thing wrong each, and what is said of it.
struct Damage {
  std::function<void(pb::PlanSet&)> damage;
  std::string error;
};

// The first register for which `is` holds.
template <typename Is>
pb::ClassRegister& FindRegister(pb::PlanSet& set, Is&& is) {
  for (pb::ClassRegister& reg : *set.mutable_plans(0)->mutable_registers()) {
    if (is(reg)) return reg;
  }
  ADD_FAILURE() << "there is no such register";
  return *set.mutable_plans(0)->mutable_registers(0);
}

bool HasMemory(const pb::ClassRegister& reg) { return reg.variable() < 0 && reg.slot_bytes() > 0; }
bool HasNoMemory(const pb::ClassRegister& reg) { return reg.variable() < 0 && reg.slot_bytes() == 0; }
bool StartsFilled(const pb::ClassRegister& reg) { return reg.initially_filled() > 0; }

pb::ClassActor& FindCall(pb::PlanSet& set) {
  for (pb::ClassActor& actor : *set.mutable_plans(0)->mutable_actors()) {
    if (actor.senders() >= 0) return actor;
  }
  ADD_FAILURE() << "there is no call";
  return *set.mutable_plans(0)->mutable_actors(0);
}

TEST(PlanCheckTest, WhatIsWrongIsNamed) {
  const std::vector<Damage> damages = {
      {[](auto& set) { set.set_version(1); }, "version is 1"},
      {[](auto& set) { set.mutable_classes(0)->add_ranks(99); }, "rank 99"},
      {[](auto& set) { MutableZone(*set.mutable_classes(0), kPrivateZone).set_variable_bytes(1 << 30); },
       "variables of the private zone"},
      {[](auto& set) { set.mutable_variables(0)->mutable_offsets(0)->set_offset(-64); }, "bytes at -64"},
      {[](auto& set) { set.mutable_variables(0)->clear_offsets(); }, "bytes at -1"},
      {[](auto& set) { MutableZone(*set.mutable_plans(0)->mutable_memory(0), kPrivateZone).set_bytes(INT64_MAX); },
       "private region"},
      {[](auto& set) { FindRegister(set, HasMemory).set_offset(int64_t{1} << 40); }, "its slots: "},
      {[](auto& set) { FindRegister(set, HasMemory).set_slots(INT32_MAX); }, "2147483647 slots of "},
      {[](auto& set) { FindRegister(set, HasMemory).set_slot_bytes(1); }, "operand in register"},
      {[](auto& set) { FindRegister(set, StartsFilled).set_slots(2); },
       "2 slots of a register that is overwritten in place"},
      {[](auto& set) { set.mutable_plans(0)->set_micro_batches(3); }, "the plan has 3 micro-batches"},
      {[](auto& set) { set.mutable_plans(0)->mutable_actors(0)->set_first_id(INT32_MAX); }, "have numbers from"},
      {[](auto& set) { set.mutable_plans(0)->mutable_actors(1)->set_first_id(0); }, "have numbers from"},
      {[](auto& set) { set.mutable_plans(0)->mutable_registers(1)->set_first_id(1 << 20); }, "have numbers from"},
      {[](auto& set) { set.mutable_variables(0)->clear_name(); }, "a variable has no name"},
      {[](auto& set) { set.mutable_variables(1)->set_name(set.variables(0).name()); }, "the name is used twice"},
      {[](auto& set) { set.mutable_plans(0)->mutable_registers(0)->clear_consumers(); }, "which does not name it"},
      {[](auto& set) { FindRegister(set, HasMemory).set_others_only(true); }, "is waited for on other ranks only"},
      {[](auto& set) { FindRegister(set, HasNoMemory).set_slot_stride(INT64_MIN); },
       "slots without bytes are -9223372036854775808 bytes apart"},
      {[](auto& set) {
         set.mutable_plans(0)->mutable_actors(0)->mutable_outputs()->Add()->CopyFrom(set.plans(0).actors(0).outputs(0));
       },
       "has output register 'read' twice"},
      {[](auto& set) { FindRegister(set, HasMemory).set_offset(2); }, "begins at 2, which is no multiple of 64"},
      {[](auto& set) { MutableZone(*set.mutable_classes(0), kPrivateZone).set_bytes(INT64_MAX); },
       "private zone: 9223372036854775807"},
      {[](auto& set) {
         pb::ClassInstruction& call = *FindCall(set).mutable_instructions(0);
         call.set_op("add");
         call.set_kind(pb::Instruction::COMPUTE);
       },
       "which only boxings do, not 'add'"},
      {[](auto& set) { FindCall(set).mutable_instructions(0)->clear_op(); }, "it names no op"},
      {[](auto& set) {
         pb::ClassInstruction& read = *set.mutable_plans(0)->mutable_actors(0)->mutable_instructions(0);
         read.set_kind(pb::Instruction::READ);
         read.clear_outputs();
       },
       "it has no outputs"},
      {[](auto& set) { set.mutable_plans(0)->mutable_orders()->RemoveLast(); }, "is in no order of class"},
      {[](auto& set) { *set.mutable_plans(0)->add_orders() = set.plans(0).orders(0); }, "there are two"},
      {[](auto& set) { set.mutable_plans(0)->mutable_orders(0)->set_queue(kHostQueue); }, "is on queue 1"},
      {[](auto& set) { set.mutable_tensors(FindCall(set).instructions(0).inputs(0).tensor())->set_dims(0, 1000); },
       "there is room for"},
      {[](auto& set) { set.mutable_tensors(0)->set_layout(2); }, "tensor 0: layout 2"},
      {[](auto& set) { set.mutable_tensors(0)->set_layout(1); }, "blocks of 16 channels"},
      {[](auto& set) {
         pb::ClassTensor& tensor = *set.mutable_tensors(FindCall(set).instructions(0).inputs(0).tensor());
         tensor.set_layout(1);
         tensor.clear_dims();
         for (const int64_t dim : {1, 64, 1, 1}) tensor.add_dims(dim);
       },
       "must be row-major"},
      {[](auto& set) { FindCall(set).mutable_instructions(0)->set_received_bytes(-1); }, "its received data: -1 bytes"},
      {[](auto& set) { FindCall(set).mutable_instructions(0)->set_scratch_bytes(1 << 30); }, "its scratch memory"},
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    pb::PlanSet set = StepPlan({2, 2, 4}, DeviceKind::kCuda);
    damages[i].damage(set);
    EXPECT_THAT(CheckPlanSet(set), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(damages[i].error)))
        << "damage " << i;
  }
}

TEST(PlanCheckTest, VariablesThatOverlapAreNamed) {
  pb::PlanSet set = StepPlan({1, 1, 1});
  ASSERT_GE(set.variables_size(), 1);
  *set.add_variables() = set.variables(0);
  set.mutable_variables(set.variables_size() - 1)->set_name("twin");
  EXPECT_THAT(CheckPlanSet(set),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("'twin' overlap on ranks of class 0"))));
}

// Law: a register that starts filled orders readers and writer of a variable; without that token nobody can begin.
TEST(PlanCheckTest, WithoutItsTokenAPlanIsDeadAndTheCycleIsNamed) {
  pb::PlanSet set = StepPlan({1, 2, 2});
  FindRegister(set, StartsFilled).set_initially_filled(0);
  EXPECT_THAT(CheckPlanSet(set), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          AllOf(HasSubstr("plan 'train': deadlock: "), HasSubstr("; to break it, "))));
}

// Whoever may trust a proved plan does not fall over it either.
void Use(const pb::PlanSet& set) { (void)PlanText(set); }

TEST(PlanCheckTest, NoBytesCrashIt) {
  const std::string good = *SerializePlan(StepPlan({2, 2, 4}, DeviceKind::kCuda));
  constexpr uint32_t kSeed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const google::protobuf::LogSilencer silent;  // of names that are not text any more
  int parsed = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string bytes = good;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips) bytes[random() % bytes.size()] ^= 1 << random() % 8;
    pb::PlanSet set;
    if (!set.ParseFromString(bytes)) continue;
    ++parsed;
    if (CheckPlanSet(set).ok()) {
      Use(set);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(parsed, 1000);
  EXPECT_GT(refused, parsed / 4);  // many bytes are of names
}

// Numbers of a message and of all below it.
using Field = std::pair<google::protobuf::Message*, const google::protobuf::FieldDescriptor*>;
void NumbersOf(google::protobuf::Message& message, std::vector<Field>& out) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int f = 0; f < type.field_count(); ++f) {
    const google::protobuf::FieldDescriptor* const field = type.field(f);
    const bool is_message = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        NumbersOf(*reflection.MutableRepeatedMessage(&message, field, i), out);
      }
    } else if (is_message) {
      if (reflection.HasField(message, field)) NumbersOf(*reflection.MutableMessage(&message, field), out);
    } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT32 ||
               field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64) {
      if (!field->is_repeated() || reflection.FieldSize(message, field) > 0) out.push_back({&message, field});
    }
  }
}

void SetNumber(const Field& of, int64_t value, std::mt19937& random) {
  const google::protobuf::Reflection& reflection = *of.first->GetReflection();
  const bool is_long = of.second->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64;
  if (of.second->is_repeated()) {
    const int at = static_cast<int>(random() % reflection.FieldSize(*of.first, of.second));
    if (is_long) return reflection.SetRepeatedInt64(of.first, of.second, at, value);
    return reflection.SetRepeatedInt32(of.first, of.second, at, static_cast<int32_t>(value));
  }
  if (is_long) return reflection.SetInt64(of.first, of.second, value);
  reflection.SetInt32(of.first, of.second, static_cast<int32_t>(value));
}

// Flipped bytes mostly break names; this breaks what is counted with.
TEST(PlanCheckTest, NoNumberCrashesIt) {
  const pb::PlanSet good = StepPlan({2, 2, 4}, DeviceKind::kCuda);
  constexpr int64_t kValues[] = {-1, 0, 1, 2, 3, 7, 100, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    pb::PlanSet set = good;
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes) {
      std::vector<Field> numbers;  // anew: a number may take the place of a message
      NumbersOf(set, numbers);
      SetNumber(numbers[random() % numbers.size()], kValues[random() % std::size(kValues)], random);
    }
    if (CheckPlanSet(set).ok()) {
      Use(set);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace oneflow
