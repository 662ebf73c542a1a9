// Whole models through all passes to plans: that they compile on many meshes, keep the promises of plans, and quickly.
#include <ctime>
#include <map>
#include <set>

#include "compiler/lower/compile.h"
#include "compiler/lower/program_text.h"
#include "compiler/lower/wait_graph.h"
#include "gtest/gtest.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/mlp.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/queues.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

struct ModelLayout {
  int pp, dp, tp, micro_batches;
};

std::string Name(const ModelLayout& x) {
  return absl::StrCat("pp", x.pp, " dp", x.dp, " tp", x.tp, " micro", x.micro_batches);
}

CompileOptions OptionsOfModel(const ModelLayout& x) {
  CompileOptions options;
  options.job = "models";
  std::vector<Axis> axes;
  for (const Axis& axis : {Axis{"pp", x.pp}, {"dp", x.dp}, {"tp", x.tp}}) {
    if (axis.size > 1) axes.push_back(axis);
  }
  options.mesh = *Mesh::Create(axes);
  options.micro_batches = x.micro_batches;
  options.optimizer.clip_norm = 1;
  return options;
}

absl::StatusOr<Program> Gpt(const GptConfig& config, const OpRegistry& ops) {
  return GptProgram(config, {"text"}, {8, 8}, Continuation{"x", 0}, ops);
}

TEST(ModelsTest, GptCompilesOnEveryMesh) {
  const OpRegistry ops = StandardOps();
  const GptConfig config{.vocabulary = 128, .layers = 2, .width = 32, .heads = 4, .context = 16, .dropout = 0.1};
  ASSERT_OK_AND_ASSIGN(const Program program, Gpt(config, ops));
  for (const ModelLayout& layout :
       {ModelLayout{1, 1, 1, 1}, {1, 1, 1, 4}, {1, 2, 1, 1}, {1, 1, 2, 2}, {1, 3, 1, 2}, {2, 1, 1, 4}, {2, 2, 2, 3}}) {
    for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      SCOPED_TRACE(absl::StrCat(Name(layout), " on ", Device{device, 0}.ToString()));
      CompileOptions options = OptionsOfModel(layout);
      options.device = device;
      ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, options, ops));
      EXPECT_EQ(set.plans_size(), 3);
      const pb::Program program_of_all = testing::SpelledOut(set);
      EXPECT_EQ(program_of_all.communicators_size() > 0, device == DeviceKind::kCuda && options.mesh.size() > 1);
      for (const pb::ClassPlan& plan : set.plans()) EXPECT_OK(CheckPlanLive(plan));
      for (const pb::Plan& plan : program_of_all.plans()) EXPECT_OK(testing::CheckSpelledOutLive(plan));
    }
  }
}

bool ReadsOtherRanks(const pb::Plan& plan, const pb::Actor& actor) {
  for (const pb::Instruction& instruction : actor.instructions()) {
    for (const pb::Operand& input : instruction.inputs()) {
      const int reg = input.register_();
      if (reg >= 0 && plan.actors(plan.registers(reg).producer()).rank() != actor.rank()) return true;
    }
  }
  return false;
}

// So that time can be divided by what it is for.
TEST(ModelsTest, EveryActorSaysWhatItIsOfAStep) {
  const OpRegistry ops = StandardOps();
  const GptConfig config{.vocabulary = 128, .layers = 2, .width = 32, .heads = 4, .context = 16};
  ASSERT_OK_AND_ASSIGN(const Program program, Gpt(config, ops));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, OptionsOfModel({2, 2, 2, 4}), ops));
  std::set<int> sections;
  std::set<std::string> crossed;
  std::map<std::string, bool> exchanges, crosses;  // by name, on any rank
  const pb::Program whole = testing::SpelledOut(set);
  for (const pb::Actor& actor : whole.plans(0).actors()) {
    if (actor.instructions().empty()) continue;  // publishes variables
    ASSERT_GT(actor.parts_size(), 0) << actor.name();
    for (const pb::ActorPart& part : actor.parts()) {
      EXPECT_NE(part.section(), pb::NO_SECTION) << actor.name();
      EXPECT_GE(part.ns(), 0) << actor.name();
      sections.insert(part.section());
      // The model is cut in two chunks, the second on ranks 4 to 7.
      if (actor.queue() == kComputeQueue && part.section() == pb::FORWARD) {
        EXPECT_EQ(part.chunk(), actor.rank() / 4) << actor.name();
      }
    }
    exchanges[actor.name()] |= ReadsOtherRanks(whole.plans(0), actor);
    crosses[actor.name()] |= actor.crosses_size() > 0;
    crossed.insert(actor.crosses().begin(), actor.crosses().end());
  }
  for (const auto& [name, does] : exchanges) EXPECT_EQ(crosses[name], does) << name;
  EXPECT_EQ(crossed, (std::set<std::string>{"dp", "pp", "tp"}));
  for (const pb::Section section : {pb::FORWARD, pb::INPUT_GRADIENTS, pb::WEIGHT_GRADIENTS, pb::UPDATE}) {
    EXPECT_EQ(sections.count(section), 1u) << pb::Section_Name(section);
  }
  // A chain of one device's plan has all of it; what computes most is predicted to take longest.
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet alone, Compile(program, OptionsOfModel({1, 1, 1, 1}), ops));
  std::map<int, int64_t> ns;
  for (const pb::ClassActor& actor : alone.plans(0).actors()) {
    for (const pb::ActorPart& part : actor.parts()) ns[part.section()] += part.ns();
  }
  EXPECT_GT(ns[pb::FORWARD], 0);
  EXPECT_GT(ns[pb::INPUT_GRADIENTS] + ns[pb::WEIGHT_GRADIENTS] + ns[pb::BACKWARD], ns[pb::FORWARD]);
}

TEST(ModelsTest, PlansOnMeshesOfTheirOwnAreProvedLikeOthers) {
  const OpRegistry ops = StandardOps();
  const GptConfig config{.vocabulary = 128, .layers = 2, .width = 32, .heads = 4, .context = 16, .dropout = 0.1};
  ASSERT_OK_AND_ASSIGN(const Program program, Gpt(config, ops));
  const Mesh tp4 = *Mesh::Create({{"tp", 4}}), pp3 = *Mesh::Create({{"pp", 3}}), dp2 = *Mesh::Create({{"dp", 2}});
  const std::pair<PlanMesh, PlanMesh> kMeshes[] = {{PlanMesh(tp4), PlanMesh()},
                                                   {PlanMesh(pp3, 1), PlanMesh(dp2, 2)},
                                                   {*PlanMesh::Create(dp2, {5, 1}), PlanMesh(tp4, 3)}};
  for (const ModelLayout& layout : {ModelLayout{1, 2, 2, 1}, {2, 2, 1, 3}}) {
    for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      for (const auto& [evaluate, generate] : kMeshes) {
        SCOPED_TRACE(absl::StrCat(Name(layout), ", evaluate ", evaluate.whole().ToString(), ", generate ",
                                  generate.whole().ToString(), " on ", Device{device, 0}.ToString()));
        CompileOptions options = OptionsOfModel(layout);
        options.device = device;
        options.meshes = {{"evaluate", evaluate}, {"generate", generate}};
        ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, options, ops));
        ASSERT_OK_AND_ASSIGN(const pb::PlanSet again, Compile(program, options, ops));
        EXPECT_EQ(*SerializePlan(again), *SerializePlan(set));
        const pb::Program program_of_all = testing::SpelledOut(set);
        for (const pb::ClassPlan& plan : set.plans()) EXPECT_OK(CheckPlanLive(plan));
        for (const pb::Plan& plan : program_of_all.plans()) EXPECT_OK(testing::CheckSpelledOutLive(plan));
      }
    }
  }
}

TEST(ModelsTest, AMeshBeyondTheJobsRanksIsRefused) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const Program program, MlpProgram({}, {}, {8, 8}, ops));
  CompileOptions options = OptionsOfModel({1, 2, 1, 1});
  options.meshes.emplace("evaluate", PlanMesh(*Mesh::Create({{"tp", 2}}), 1));
  EXPECT_OK(Compile(program, options, ops).status());
  options.num_ranks = 2;
  EXPECT_EQ(Compile(program, options, ops).status().message(),
            "the mesh of 'evaluate' takes rank 2, but the job has 2 ranks");
  options.meshes.clear();
  options.meshes.emplace("validate", PlanMesh());
  EXPECT_EQ(Compile(program, options, ops).status().message(),
            "a mesh is given for plan 'validate', but there is no such graph");
}

TEST(ModelsTest, AnMlpOnOneDeviceIsOneActorPerQueueAndMovesNothing) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const Program program, MlpProgram({}, {}, {8, 8}, ops));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, OptionsOfModel({1, 1, 1, 1}), ops));
  const pb::Program program_of_all = testing::SpelledOut(set);
  for (const pb::Plan& plan : program_of_all.plans()) {
    EXPECT_LE(std::count_if(plan.actors().begin(), plan.actors().end(),
                            [](const pb::Actor& x) { return x.queue() == kComputeQueue; }),
              1)
        << plan.name();
    EXPECT_EQ(PredictedBytesMoved(plan), 0);
  }
}

TEST(ModelsTest, CompilingTwiceGivesTheSameBytes) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const Program program,
                       Gpt({.vocabulary = 128, .layers = 2, .width = 32, .heads = 4, .context = 16}, ops));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet a, Compile(program, OptionsOfModel({2, 2, 1, 2}), ops));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet b, Compile(program, OptionsOfModel({2, 2, 1, 2}), ops));
  EXPECT_EQ(*SerializePlan(a), *SerializePlan(b));
}

TEST(ModelsTest, AFourLayerGptOnEightRanksIsPlannedInTwoSeconds) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const Program program, Gpt({}, ops));
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    CompileOptions options = OptionsOfModel({2, 2, 2, 4});
    options.device = device;
    const std::clock_t start = std::clock();  // of this process, so that a busy machine does not matter
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, options, ops));
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
    EXPECT_EQ(set.hosts().num_ranks(), 8);
  }
}

}  // namespace
}  // namespace oneflow
