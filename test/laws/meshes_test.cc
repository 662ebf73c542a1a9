// The law of meshes: a plan computes on any mesh what it computes on the one where the weights lie, moves the bytes
// that were predicted, and may train there. ONEFLOW_RANDOM_MESHES says how many models, ONEFLOW_RANDOM_SEED which is
// the first.
#include <cmath>
#include <map>
#include <mutex>

#include "actor/engine.h"
#include "compiler/lower/program_text.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "test/laws/random_model.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

// --- a language model: train, evaluate, generate -------------------------------------------------------------------

constexpr int kTrainSteps = 6, kEvery = 3, kBatches = 2, kGeneratedTokens = 6;

// How often the job runs a step of the plan.
int64_t TimesOf(const std::string& plan, const pb::JobSpec& spec) {
  if (plan == "train") return kTrainSteps;
  for (const pb::Phase& phase : spec.phases()) {
    const pb::RunPlan& run = phase.train().evaluation();
    if (plan == run.plan()) return kTrainSteps / kEvery * run.steps();
    if (plan == run.rest_plan()) return kTrainSteps / kEvery;
  }
  return kGeneratedTokens;
}

struct MeshOutcome {
  std::vector<double> losses, evaluations, tokens;
  int64_t moved = 0, predicted = 0;
};

class MeshesOfAJobTest : public ::testing::Test {
 protected:
  MeshesOfAJobTest() {
    std::string text;
    std::mt19937 random(7);
    for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + (i % 7) * (random() % 3 + 1));
    text_ = dir_.Write("text", text);
  }

  absl::StatusOr<MeshOutcome> Run(const std::string& mesh, const std::vector<std::string>& overrides) {
    OF_ASSIGN_OR_RETURN(
        SourcedConfig config,
        ParseConfig(
            absl::StrCat("model { gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 } } data { text { "
                         "path: '",
                         text_, "' } } train { steps: ", kTrainSteps,
                         " batch_size: 8 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 1e-2 } } "
                         "evaluate { every: ",
                         kEvery, " batches: ", kBatches, " } generate { tokens: ", kGeneratedTokens,
                         " prompt: 'aho' } mesh { ", mesh, " }"),
            "law"));
    for (const std::string& one : overrides) OF_RETURN_IF_ERROR(ApplyOverride(one, config));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops_));
    OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
    MeshOutcome outcome;
    for (const pb::Plan& one : program.plans()) {
      outcome.predicted += PredictedBytesMoved(one) * TimesOf(one.name(), job.spec);
    }
    std::mutex mutex;
    OF_ASSIGN_OR_RETURN(const EngineStats stats,
                        RunInPlace(job.spec, std::move(program), [&](const pb::JobEvent& event) {
                          const std::lock_guard<std::mutex> lock(mutex);
                          const pb::FetchedValue& value = event.fetched();
                          if (value.plan() == "train" && value.name() == "loss")
                            outcome.losses.push_back(value.values(0));
                          if (value.plan() == "evaluate") outcome.evaluations.push_back(value.values(0));
                          if (value.plan() == "generate") outcome.tokens.push_back(value.values(0));
                        }));
    outcome.moved = stats.bytes_moved;
    return outcome;
  }

  const OpRegistry ops_ = StandardOps();
  TestDir dir_;
  std::string text_;
};

TEST_F(MeshesOfAJobTest, EvaluationAndGenerationAreTheSameOnAnyMesh) {
  const struct {
    const char* mesh;  // of training
    std::vector<std::vector<std::string>> others;
  } kCases[] = {
      {"dp: 2 tp: 2",
       {{"evaluate.mesh={tp: 4}", "generate.mesh={tp: 2}"},
        {"evaluate.mesh={dp: 4}", "generate.mesh={}"},
        {"evaluate.mesh={dp: 2}", "generate.mesh={tp: 2}", "generate.ranks.first=2"},
        {"evaluate.mesh={tp: 2}", "evaluate.ranks.first=2", "generate.ranks.first=1"},
        {"evaluate.mesh={dp: 2}", "evaluate.ranks.first=1", "generate.mesh={pp: 2}"},
        {"evaluate.mesh={tp: 3}", "generate.mesh={tp: 3}", "generate.ranks.first=1"},
        {"evaluate.mesh={pp: 2 tp: 2}", "generate.mesh={tp: 2}", "generate.ranks.first=5"},
        {"evaluate.mesh={dp: 2 tp: 3}", "evaluate.ranks.first=2"},
        {"evaluate.mesh={tp: 2}", "evaluate.ranks.first=9", "generate.mesh={}", "generate.ranks.first=12"}}},
      {"pp: 2 dp: 2",
       {{"evaluate.mesh={tp: 4}", "generate.mesh={}"},
        {"evaluate.mesh={pp: 2}", "generate.mesh={pp: 2 tp: 2}"},
        {"evaluate.mesh={pp: 3}", "generate.mesh={dp: 2}"}}},
      {"", {{"evaluate.mesh={dp: 3}", "generate.mesh={tp: 3}"}, {"evaluate.mesh={tp: 2}", "evaluate.ranks.first=1"}}},
  };
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(const MeshOutcome home, Run(c.mesh, {}));
    ASSERT_EQ(home.evaluations.size(), kTrainSteps / kEvery * kBatches);
    ASSERT_EQ(home.tokens.size(), kGeneratedTokens);
    ASSERT_LT(home.evaluations.back(), home.evaluations.front());
    EXPECT_EQ(home.moved, home.predicted);
    for (const std::vector<std::string>& other : c.others) {
      SCOPED_TRACE(absl::StrCat(c.mesh, ", ", ::testing::PrintToString(other)));
      ASSERT_OK_AND_ASSIGN(const MeshOutcome away, Run(c.mesh, other));
      EXPECT_EQ(away.losses, home.losses) << "bitwise";
      ASSERT_EQ(away.evaluations.size(), home.evaluations.size());
      for (size_t i = 0; i < home.evaluations.size(); ++i) {
        EXPECT_NEAR(away.evaluations[i] / home.evaluations[i], 1, 1e-6) << "evaluation " << i;
      }
      EXPECT_EQ(away.tokens, home.tokens);
      EXPECT_EQ(away.moved, away.predicted);
    }
  }
}

// --- random models: one plan trains, others compute the loss or train on, each on a mesh of its own ----------------

constexpr int kBefore = 2, kAfter = 3;

struct MeshPlace {
  std::vector<Axis> axes;
  int first = 0;
};

std::string Text(const MeshPlace& where) { return PlanMesh(*Mesh::Create(where.axes), where.first).whole().ToString(); }

class RandomMeshesTest : public ::testing::Test {
 protected:
  // Losses of kBefore steps of training on the first mesh, then of plan "again", which trains or not, on the other.
  absl::StatusOr<std::map<std::string, std::vector<double>>> Losses(int seed, bool trained, const MeshPlace& home,
                                                                    const std::vector<MeshPlace>& others) {
    CompileOptions options;
    options.job = "meshes";
    options.seed = static_cast<uint64_t>(seed);
    options.micro_batches = 1 + seed % 2;
    options.schedule.learning_rate = 1e-2;
    options.optimizer.attributes.Set("epsilon", 1e-3);
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(home.axes));
    Program program(1);
    OF_ASSIGN_OR_RETURN(program[0], RandomModel(ops_, seed).Make());
    for (const MeshPlace& other : others) {
      const std::string name = Text(other);
      if (options.meshes.count(name) > 0) continue;  // drawn twice
      OF_ASSIGN_OR_RETURN(program.emplace_back(), RandomModel(ops_, seed, name).Make(trained));
      OF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create(other.axes));
      options.meshes.insert_or_assign(name, PlanMesh(mesh, other.first));
    }
    for (Graph& graph : program) {
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        if (graph.node(id).op == "read_data") graph.node(id).attrs.Set("seed", int64_t{seed});
      }
    }
    options.ranks_per_process = options.NumRanks();
    OF_ASSIGN_OR_RETURN(const pb::Program spelled, testing::CompileSpelledOut(program, options, ops_));
    std::mutex mutex;
    std::map<std::string, std::vector<double>> losses;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](const Fetched& value) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (value.name == "loss") losses[value.plan].push_back(value.values[0]);
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(spelled, engine_options));
    int64_t predicted = 0, first_step = 0;
    for (const pb::Plan& one : spelled.plans()) {
      const int steps = one.name() == "train" ? kBefore : kAfter;
      OF_RETURN_IF_ERROR(engine->Run(one.name(), first_step, steps));
      predicted += PredictedBytesMoved(one) * steps;
      if (one.name() == "train" || trained) first_step += steps;
    }
    EXPECT_EQ(engine->stats().bytes_moved, predicted);
    return losses;
  }

  const OpRegistry ops_ = StandardOps();
};

TEST_F(RandomMeshesTest, AnyPlanComputesOnAnyMeshWhatItDoesAtHome) {
  const std::vector<std::vector<Axis>> kMeshes = {
      {{"dp", 2}, {"tp", 2}}, {{"dp", 4}}, {{"tp", 4}}, {{"dp", 3}}, {{"tp", 3}}, {{"dp", 2}, {"tp", 3}},
      {{"pp", 2}, {"dp", 2}}, {{"pp", 3}}, {}};
  const int count = FromEnvironment("ONEFLOW_RANDOM_MESHES", 60), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  for (int seed = first; seed < first + count; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&random](size_t n) { return static_cast<int>(random() % n); };
    const MeshPlace home{kMeshes[draw(kMeshes.size())]};
    const bool trained = draw(3) == 0;
    std::vector<MeshPlace> others;
    for (size_t i = 0; i < (trained ? 1 : 3); ++i) others.push_back({kMeshes[draw(kMeshes.size())], draw(7)});
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", trained ", trained, ", home ", Text(home)));
    ASSERT_OK_AND_ASSIGN(const auto stays, Losses(seed, trained, home, {home}));
    const absl::StatusOr<std::map<std::string, std::vector<double>>> moves = Losses(seed, trained, home, others);
    ASSERT_OK(moves.status()) << GraphToText(*RandomModel(ops_, seed).Make());
    const std::vector<double>& want = stays.at(Text(home));
    ASSERT_EQ(want.size(), kAfter);
    for (const MeshPlace& other : others) {
      const std::vector<double>& got = moves->at(Text(other));
      ASSERT_GE(got.size(), kAfter) << Text(other);
      for (int step = 0; step < kAfter; ++step) {
        EXPECT_NEAR(got[step], want[step], (trained ? 1e-4 : 1e-5) * std::max(1.0, std::abs(want[step])))
            << Text(other) << ", step " << step << "\n"
            << GraphToText(*RandomModel(ops_, seed).Make());
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace oneflow
