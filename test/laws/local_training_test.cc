// The law of local training. Groups of ranks that train by themselves do what as many jobs of one rank would do, each
// on its samples, whose weights are averaged by hand in doubles; and they do it alike under every layout of a group.
// Their gradients' mean is the exact gradient, so the steps of the beginning are those of data parallelism.
#include "compiler/local_training.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "actor/checkpoint/safetensors.h"
#include "actor/engine.h"
#include "actor/trace/chrome_trace.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/queues.h"
#include "test/laws/layouts_law.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using ::testing::HasSubstr;
using ByName = std::map<std::string, std::vector<double>>;

class LocalTrainingTest : public testing::LayoutsLaw {
 protected:
  LocalTrainingTest() { steps_ = 14; }

  static std::string With(const std::string& config, const std::string& co2) {
    return absl::StrCat(config, " sync { co2 { ", co2, " } }");
  }

  // The job's last weights, and the mean losses of its steps.
  struct End {
    ByName weights;
    std::vector<double> losses;
  };
  absl::StatusOr<End> Train(const std::string& config, const std::vector<std::string>& overrides) {
    const std::string file = dir_.File("end");
    std::vector<std::string> all = overrides;
    all.push_back("save_weights=" + file);
    OF_ASSIGN_OR_RETURN(const testing::Outcome outcome, Run(config, all));
    End end{{}, outcome.losses};
    OF_ASSIGN_OR_RETURN(end.weights, Read(file));
    return end;
  }

  static absl::StatusOr<ByName> Read(const std::string& file) {
    OF_ASSIGN_OR_RETURN(const testing::WeightFile read, testing::ReadWeightFile(file));
    ByName weights;
    for (const auto& [name, entry] : read.tensors) {
      weights[name] = std::vector<double>(entry.as<float>(), entry.as<float>() + entry.type.shape.count());
    }
    return weights;
  }

  // A job of one rank, which is one group.
  class Group {
   public:
    Group(LocalTrainingTest& test, int index) : test_(test), index_(index) {}

    absl::Status Begin(const std::string& config, int groups) {
      groups_ = groups;
      OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "group"));
      OF_RETURN_IF_ERROR(ApplyOverride("train.steps=1000", sourced));
      batch_ = sourced.config.train().batch_size() / groups;
      OF_RETURN_IF_ERROR(ApplyOverride(absl::StrCat("train.batch_size=", batch_), sourced));
      OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, test_.ops_));
      OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, test_.ops_));
      EngineOptions options;
      options.on_fetch = [this](const Fetched& fetched) {
        if (fetched.name == "loss") loss_ = fetched.values[0];
      };
      OF_ASSIGN_OR_RETURN(engine_, Engine::Create(std::move(program), options));
      return absl::OkStatus();
    }
    absl::StatusOr<double> Step(int step) {
      engine_->ShiftRows("train", batch_ * (int64_t{step} * (groups_ - 1) + index_));
      OF_RETURN_IF_ERROR(engine_->Run("train", step, 1));
      return loss_;
    }
    absl::StatusOr<ByName> Get() {
      OF_RETURN_IF_ERROR(engine_->SaveWeights(File(), ""));
      return Read(File());
    }
    // As f32.
    absl::Status Set(const ByName& weights) {
      OF_ASSIGN_OR_RETURN(const testing::WeightFile like, testing::ReadWeightFile(File()));
      std::vector<SafetensorsWriter::Tensor> tensors;
      for (const auto& [name, entry] : like.tensors) tensors.push_back({name, entry.type});
      OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(File(), tensors));
      for (const auto& [name, values] : weights) {
        const std::vector<float> narrow(values.begin(), values.end());
        OF_RETURN_IF_ERROR(writer.Write(name, 0, narrow.data(), static_cast<int64_t>(narrow.size() * sizeof(float))));
      }
      OF_RETURN_IF_ERROR(writer.Close());
      return engine_->LoadWeights(File());
    }

   private:
    std::string File() const { return test_.dir_.File(absl::StrCat("group", index_)); }

    LocalTrainingTest& test_;
    const int index_;
    int groups_ = 1;
    int64_t batch_ = 0;
    std::unique_ptr<Engine> engine_;
    double loss_ = 0;
  };

  // What the page of CO2 says, in doubles, over jobs of one rank.
  absl::StatusOr<End> ByHand(const std::string& config, int groups, int tau, const LocalTrainingOptions& outer) {
    std::vector<std::unique_ptr<Group>> all;
    for (int g = 0; g < groups; ++g) {
      all.push_back(std::make_unique<Group>(*this, g));
      OF_RETURN_IF_ERROR(all.back()->Begin(config, groups));
    }
    End end;
    OF_ASSIGN_OR_RETURN(ByName w, all[0]->Get());
    ByName before = w, m, late_mean;  // w/previous, the momentum, the mean of the round before
    for (auto& [name, values] : m = w) values.assign(values.size(), 0);
    bool has_late = false;
    ByName next = w;
    for (int step = 0; step < steps_; ++step) {
      double sum = 0;
      for (const auto& group : all) {
        OF_ASSIGN_OR_RETURN(const double loss, group->Step(step));
        sum += loss;
      }
      end.losses.push_back(sum / groups);
      ByName mean;
      for (const auto& group : all) {
        OF_ASSIGN_OR_RETURN(const ByName own, group->Get());
        for (const auto& [name, values] : own) {
          mean[name].resize(values.size());
          for (size_t i = 0; i < values.size(); ++i) mean[name][i] += values[i] / groups;
        }
      }
      end.weights = mean;
      if ((step + 1) % tau != 0) continue;
      const ByName current = w;
      if (!outer.late) {
        w = OuterStep(w, w, mean, m, outer);
      } else if (has_late) {
        w = OuterStep(w, before, late_mean, m, outer);
      }
      before = current;
      late_mean = mean;
      has_late = true;
      for (const auto& group : all) OF_RETURN_IF_ERROR(group->Set(w));
      if (step + 1 == steps_) end.weights = w;
    }
    return end;
  }

  static ByName OuterStep(const ByName& w, const ByName& from, const ByName& mean, ByName& m,
                          const LocalTrainingOptions& outer) {
    double moved = 0, gone = 0;
    for (const auto& [name, values] : w) {
      for (size_t i = 0; i < values.size(); ++i) {
        moved += std::pow(values[i] - from.at(name)[i], 2);
        gone += std::pow(from.at(name)[i] - mean.at(name)[i], 2);
      }
    }
    const double lambda = outer.penalty == "gap"     ? 1 + std::sqrt(moved) / (std::sqrt(gone) + 1e-12)
                          : outer.penalty == "const" ? outer.divisor
                                                     : 1;
    ByName next = w;
    for (auto& [name, values] : next) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double d = (from.at(name)[i] - mean.at(name)[i]) / lambda;
        double& kept = m[name][i];
        kept = outer.momentum * kept + d;
        double step = outer.nesterov ? d + outer.momentum * kept : kept;
        if (outer.clip > 0) step = std::clamp(step, -outer.clip, outer.clip);
        values[i] -= outer.rate * step;
      }
    }
    return next;
  }

  // The losses by step of a job with checkpoints that goes on from the last one, if there is any.
  absl::StatusOr<std::map<int64_t, double>> GoOn(const std::string& config, const std::vector<std::string>& overrides) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    OF_RETURN_IF_ERROR(ApplyOverride(absl::StrCat("checkpoint={path: '", dir_.File("saved"), "'}"), sourced));
    for (const std::string& one : overrides) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
    job.spec.set_resume(true);
    std::map<int64_t, double> losses;
    const auto take = [&](const pb::JobEvent& event) {
      if (event.fetched().plan() == "train" && event.fetched().name() == "loss") {
        losses[event.fetched().step()] = event.fetched().values(0);
      }
    };
    OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(program), take).status());
    return losses;
  }

  static void ExpectAlike(const End& got, const End& want, double bar = 2e-5) {
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t step = 0; step < got.losses.size(); ++step) {
      EXPECT_NEAR(got.losses[step] / want.losses[step], 1, bar) << "step " << step + 1;
    }
    ASSERT_EQ(got.weights.size(), want.weights.size());
    for (const auto& [name, values] : want.weights) {
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(got.weights.at(name)[i], values[i], bar) << name << " " << i;
      }
    }
  }
};

struct Method {
  const char* name;
  std::string text;
  LocalTrainingOptions outer;
};

std::vector<Method> Methods() {
  return {
      {"LocalSGD", "delay: 0", {}},
      {"SlowMo", "delay: 0 momentum: 0.5 rate: 0.8", {.rate = 0.8, .momentum = 0.5}},
      {"DiLoCo", "delay: 0 momentum: 0.9 rate: 0.7 nesterov: true", {.rate = 0.7, .momentum = 0.9, .nesterov = true}},
      {"late", "penalty: 'none'", {.late = true}},
      {"CO2", "momentum: 0.2", {.late = true, .momentum = 0.2, .penalty = "gap"}},
      {"CO2 of the released code",
       "momentum: 0.2 penalty: 'const' divisor: 2 clip: 0.002",
       {.late = true, .momentum = 0.2, .penalty = "const", .divisor = 2, .clip = 0.002}}};
}

TEST_F(LocalTrainingTest, GroupsDoWhatJobsOfTheirOwnDo) {
  for (const Method& method : Methods()) {
    for (const int groups : {2, 4}) {
      SCOPED_TRACE(absl::StrCat(method.name, ", ", groups, " groups"));
      ASSERT_OK_AND_ASSIGN(const End want, ByHand(Mlp(), groups, 4, method.outer));
      ASSERT_OK_AND_ASSIGN(const End got, Train(With(Mlp(), absl::StrCat("tau: 4 ", method.text)),
                                                {absl::StrCat("mesh={dp:", groups, "}")}));
      ExpectAlike(got, want);
    }
  }
}

// Dropout included: a group draws the same numbers however its ranks divide the work.
TEST_F(LocalTrainingTest, AGroupTrainsAlikeUnderEveryLayout) {
  for (const char* method : {"tau: 3 delay: 0", "tau: 3 momentum: 0.3"}) {
    const std::string config = With(Gpt(), method);
    ASSERT_OK_AND_ASSIGN(const End want, Train(config, {"mesh={dp:2}", "train.micro_batches=2"}));
    for (const char* mesh : {"mesh={dp:2 tp:2}", "mesh={pp:2 dp:2}"}) {
      SCOPED_TRACE(absl::StrCat(method, " ", mesh));
      ASSERT_OK_AND_ASSIGN(const End got, Train(config, {mesh, "train.micro_batches=2"}));
      ExpectAlike(got, want, 1e-4);
    }
  }
}

TEST_F(LocalTrainingTest, AModelWithRunningAveragesTrainsByItselfToo) {
  const std::string resnet =
      "model { resnet { depth: 18 width: 8 small_images: true classes: 10 } } data { images { train_images: '" +
      images_ + "' train_labels: '" + labels_ +
      "' } } train { batch_size: 8 optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: 0.02 } }";
  steps_ = 4;
  ASSERT_OK_AND_ASSIGN(const End want, ByHand(resnet, 2, 2, {}));
  ASSERT_OK_AND_ASSIGN(const End got, Train(With(resnet, "tau: 2 delay: 0"), {"mesh={dp:2}"}));
  ExpectAlike(got, want, 1e-3);
}

// The steps of the beginning are those that all take together.
TEST_F(LocalTrainingTest, ExactStepsAreThoseOfDataParallelism) {
  ASSERT_OK_AND_ASSIGN(const End want, Train(Mlp(), {"mesh={dp:2}"}));
  ASSERT_OK_AND_ASSIGN(const End got, Train(With(Mlp(), "tau: 4 warmup_steps: 14"), {"mesh={dp:2}"}));
  // The norm of gradients is clipped to that of their mean, on both.
  ExpectAlike(got, want, 1e-5);
  ASSERT_OK_AND_ASSIGN(const End apart, Train(With(Mlp(), "tau: 4 warmup_steps: 7"), {"mesh={dp:2}"}));
  EXPECT_NEAR(apart.losses[7] / want.losses[7], 1, 1e-5) << "the first step of a round begins from the same weights";
  EXPECT_GT(std::abs(apart.losses[12] / want.losses[12] - 1), 1e-4);
}

// Beside what steps fetch, only the mean moves, as much as an all-reduce of the weights does, once a round.
TEST_F(LocalTrainingTest, TheBytesThatMoveAreThoseOfTheMeans) {
  constexpr int64_t kWeights = 784 * 33 + 33 + 33 * 17 + 17 + 17 * 10 + 10;
  for (const int groups : {2, 4}) {
    const std::vector<std::string> mesh = {absl::StrCat("mesh={dp:", groups, "}")};
    const int64_t of_mean = 2 * (groups - 1) * 4 * kWeights;
    ASSERT_OK_AND_ASSIGN(const testing::Outcome rare, Run(With(Mlp(), "tau: 7 delay: 0"), mesh));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome often, Run(With(Mlp(), "tau: 2 delay: 0"), mesh));
    EXPECT_EQ(often.stats.bytes_moved - rare.stats.bytes_moved, 5 * of_mean);
    EXPECT_EQ(rare.stats.bytes_moved, rare.predicted_bytes + 3 * of_mean) << "two rounds, and the last mean";
    EXPECT_LT(rare.predicted_bytes, steps_ * groups * 100) << "a few numbers that are fetched";
  }
}

// On an emulated link: acts of the plan that takes the mean are under way while those of steps begin and end.
TEST_F(LocalTrainingTest, AMeanTravelsWhileStepsGoOn) {
  const std::string file = dir_.File("trace.json");
  ASSERT_OK(GoOn(With(Mlp(), "tau: 5"), {"mesh={dp:2}", "train.steps=20", "cluster.emulated_ms_per_mb=2000",
                                         absl::StrCat("trace={file: '", file, "'}")}));
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(file));
  int means = 0, steps_beside = 0;
  for (const TracedAct& mean : trace.acts) {
    if (trace.PlanOf(mean).name() != kOuterPlan) continue;
    ++means;
    for (const TracedAct& act : trace.acts) {
      const bool is_of_step = trace.PlanOf(act).name() == "train" && trace.ActorOf(act).queue() == kComputeQueue;
      steps_beside += is_of_step && act.begin_ns > mean.begin_ns && act.end_ns < mean.end_ns;
    }
  }
  EXPECT_GE(means, 2 * 4) << "an act of each rank at least, in each round";
  EXPECT_GE(steps_beside, 20);
}

// Wherever in a round it is ended, to the bit.
// A mean may fill the link for many steps: a loss on its way to rank 0 waits behind it, and holds no rank up.
TEST_F(LocalTrainingTest, WhatRanksTellHasRoomForTheStepsOfARound) {
  const auto slots = [&](const std::string& config) -> absl::StatusOr<std::map<std::string, int>> {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    for (const char* one : {"mesh={dp:2}", "train.steps=40"}) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, ops_));
    std::map<std::string, int> of;
    for (const pb::Register& reg : program.plans(0).registers()) of[reg.name()] = std::max(of[reg.name()], reg.slots());
    return of;
  };
  ASSERT_OK_AND_ASSIGN(const auto late, slots(With(Gpt(), "tau: 20")));
  for (const char* told : {"fetch/scale", "optimizer/lr/fetch/scale", "optimizer/grad_norm/fetch/scale"}) {
    ASSERT_EQ(late.count(told), 1u) << told;
    EXPECT_EQ(late.at(told), 64) << told;
  }
  ASSERT_OK_AND_ASSIGN(const auto exact, slots(Gpt()));
  for (const auto& [name, number] : exact) EXPECT_LE(number, 2) << name << ": there every step waits for all";
}

TEST_F(LocalTrainingTest, AJobThatGoesOnAnywhereInARoundDoesTheSame) {
  for (const char* method : {"tau: 4 delay: 0 momentum: 0.5", "tau: 4 momentum: 0.2 warmup_steps: 2"}) {
    const std::string config = With(Gpt(), method);
    const auto run = [&](int steps) { return GoOn(config, {"mesh={dp:2}", absl::StrCat("train.steps=", steps)}); };
    ASSERT_OK_AND_ASSIGN(const auto whole, run(14));
    ASSERT_EQ(whole.size(), 14u);
    for (const int end : {1, 2, 3, 6, 7, 10, 13}) {
      SCOPED_TRACE(absl::StrCat(method, ", ended after ", end));
      std::filesystem::remove_all(dir_.File("saved"));
      ASSERT_OK_AND_ASSIGN(auto losses, run(end));
      ASSERT_OK_AND_ASSIGN(const auto rest, run(14));
      EXPECT_EQ(rest.begin()->first, end);
      losses.insert(rest.begin(), rest.end());
      EXPECT_EQ(losses, whole);
    }
    std::filesystem::remove_all(dir_.File("saved"));
  }
}

// Other groups begin with the mean of those that there were; of a job without groups, with its weights.
TEST_F(LocalTrainingTest, OtherGroupsGoOnFromTheMean) {
  const std::string plain = Mlp(), config = With(plain, "tau: 100 delay: 0");
  const std::vector<std::string> sgd = {"train.optimizer={sgd {}}"};
  const auto with = [&](std::vector<std::string> all) {
    all.insert(all.end(), sgd.begin(), sgd.end());
    return all;
  };
  const std::string saved = dir_.File("saved"), kept = dir_.File("kept");
  const auto keep = [&] { std::filesystem::copy(saved, kept, std::filesystem::copy_options::recursive); };
  const auto go_back = [&] {
    std::filesystem::remove_all(saved);
    std::filesystem::rename(kept, saved);
  };
  steps_ = 6;
  ASSERT_OK_AND_ASSIGN(const End two, Train(config, with({"mesh={dp:2}"})));
  Group alone(*this, 0);
  ASSERT_OK(alone.Begin(plain, 1));
  ASSERT_OK(alone.Get());
  ASSERT_OK(alone.Set(two.weights));
  ASSERT_OK_AND_ASSIGN(const double want, alone.Step(6));

  ASSERT_OK(GoOn(config, with({"mesh={dp:2}", "train.steps=6"})));
  const std::string kept_of_two = dir_.File("two");
  std::filesystem::copy(saved, kept_of_two, std::filesystem::copy_options::recursive);
  ASSERT_OK_AND_ASSIGN(auto next, GoOn(config, with({"mesh={dp:4}", "train.steps=7"})));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_NEAR(next.at(6) / want, 1, 1e-5) << "the mean over four groups, which have a quarter of the samples each";
  const auto go_back_to_two = [&] {
    std::filesystem::remove_all(saved);
    std::filesystem::copy(kept_of_two, saved, std::filesystem::copy_options::recursive);
  };
  go_back_to_two();
  ASSERT_OK_AND_ASSIGN(next, GoOn(plain, with({"mesh={dp:2}", "train.steps=7"})));
  EXPECT_NEAR(next.at(6) / want, 1, 1e-5) << "no groups any more";
  go_back_to_two();
  ASSERT_OK_AND_ASSIGN(next, GoOn(With(plain, "tau: 2"), with({"mesh={dp:2}", "train.steps=13"})));
  EXPECT_NEAR(next.at(6) / want, 1, 1e-5) << "means that count later, of groups that begin anew";
  EXPECT_LT(next.at(12), want) << "nothing is taken for weights that a checkpoint lacks";
  go_back_to_two();
  ASSERT_OK(GoOn(plain, with({"mesh={dp:2}", "train.steps=7"})));
  keep();
  ASSERT_OK_AND_ASSIGN(const auto together, GoOn(plain, with({"mesh={dp:2}", "train.steps=8"})));
  go_back();
  ASSERT_OK_AND_ASSIGN(next, GoOn(config, with({"mesh={dp:2}", "train.steps=8"})));
  EXPECT_NEAR(next.at(7) / together.at(7), 1, 1e-5) << "groups again, of the same weights and samples";
}

// Each group has samples and random numbers of its own.
TEST_F(LocalTrainingTest, GroupsDiffer) {
  const std::string config = With(Gpt(), "tau: 100 delay: 0");
  ASSERT_OK_AND_ASSIGN(const End two, Train(config, {"mesh={dp:2}"}));
  ASSERT_OK_AND_ASSIGN(const End alone, Train(config, {"mesh={dp:1}", "train.batch_size=4"}));
  EXPECT_NE(two.losses[0], alone.losses[0]) << "the other group has other samples";
  ASSERT_OK_AND_ASSIGN(const End without, Train(config, {"mesh={dp:2}", "model.gpt.dropout=0"}));
  EXPECT_NE(two.losses[0], without.losses[0]);
}

TEST_F(LocalTrainingTest, WhatCannotBeIsRefused) {
  const auto refused = [&](const std::vector<std::string>& overrides, const char* why) {
    std::vector<std::string> all = {"mesh={dp:2}"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    EXPECT_THAT(Run(With(Mlp(), "tau: 4"), all).status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({"sync.axis=nodes"}, "sync.axis is 'nodes', which is no axis of the mesh dp=2");
  refused({"train.batch_size=9"}, "9 is no multiple of 2 groups (sync) with 1 micro-batches each");
  refused({"sync.co2.delay=2"}, "sync.co2.delay");
  refused({"sync.co2.delay=0", "sync.co2.penalty=gap"}, "nothing is late (delay: 0)");
  refused({"sync.co2.divisor=3"}, "is that of penalty \"const\", but the penalty is \"gap\"");
  refused({"sync.co2.nesterov=true"}, "without a momentum");
  refused({"train.average={decay: 0.9}"}, "not with sync: every group would have one of its own");
  refused({"sync.own_data=true"}, "groups are to read parts of their own (own_data), but 'images' cannot be read in");
  refused({"check_replicas=true"}, "not with sync: the groups' weights differ");
  refused({"compress={family: TOPK default: 0.1}"}, "is that of sync, along which no gradients are summed");
}

// A tensor that ranks have each of their own is never read as one of all.
TEST_F(LocalTrainingTest, WhatDiffersIsNotReadAsOne) {
  CompileOptions options;
  options.job = "law";
  ASSERT_OK_AND_ASSIGN(options.mesh, Mesh::Create({{"dp", 2}}));
  options.ranks_per_process = 2;
  options.optimizer.rule = "sgd";
  options.local_training = LocalTrainingOptions{.axis = "dp"};
  const auto compile = [&](const SbpHint& of_variable, const SbpHint& of_product, bool reads) -> absl::Status {
    const auto train = [&]() -> absl::StatusOr<Graph> {
      GraphBuilder b(ops_, "train");
      const Tensor x = b.Variable("x", {DType::kFloat32, {8, 4}}, "normal(1)", {}, /*trainable=*/false);
      const Tensor w = b.Variable("w", {DType::kFloat32, {4, 4}}, "normal(1)", of_variable);
      b.SetLoss(ReduceSum(Square(MatMul(x, w).To(of_product))));
      return b.Finish();
    };
    Program program;
    OF_ASSIGN_OR_RETURN(program.emplace_back(), train());
    if (reads) {
      GraphBuilder b(ops_, "look");
      const Tensor local = b.Variable("w/local", {DType::kFloat32, {4, 4}}, "zeros", {}, /*trainable=*/false);
      b.Op("fetch", {ReduceSum(local)}, {{"name", "sum"}});
      OF_ASSIGN_OR_RETURN(program.emplace_back(), b.Finish());
    }
    return testing::CompileSpelledOut(program, options, ops_).status();
  };
  EXPECT_OK(compile({}, {}, false));
  options.local_training->penalty = "half";
  EXPECT_THAT(compile({}, {}, false),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there is no penalty 'half'")));
  options.local_training->penalty = "none";
  EXPECT_OK(compile({{"dp", Sbp::Broadcast()}}, {{"dp", Sbp::Split(0)}}, false)) << "as data parallelism says it";
  EXPECT_THAT(compile({{"dp", Sbp::Split(0)}}, {}, false),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("is asked for as S(0) along 'dp', where each rank has one of its own")));
  EXPECT_THAT(compile({}, {{"dp", Sbp::Broadcast()}}, false),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("is asked for as B along 'dp', where each rank has one of its own")));
  EXPECT_THAT(
      compile({}, {}, true),
      testing::StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr(
              "each rank along 'dp' has a tensor of its own ([dp=2]{0,1}(P(mean))), which is read as one of all")));
}

}  // namespace
}  // namespace oneflow
