// What is good is never given up for what may be bad: what stays of a job's checkpoints when one is damaged, when
// numbers break, and when two jobs have one folder; and that a job goes on with all it knew.
#include <signal.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"
#include "test/support/weight_file.h"

namespace oneflow::e2e {
namespace {

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class SavedStateTest : public ::testing::Test {
 protected:
  // A run of the small language model; `rule`: of its checkpoints.
  Outcome Run(const std::string& rule, const std::vector<std::string>& arguments) const {
    return work_.Run(Arguments(rule, arguments));
  }
  std::vector<std::string> Arguments(const std::string& rule, const std::vector<std::string>& arguments) const {
    return Join(
        Join({"run", work_.GptJob()}, Set("checkpoint", absl::StrCat("{path: '", work_.Path("ck"), "' ", rule, "}"))),
        arguments);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(work_.Path("ck"))) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const Workspace work_;
};

TEST_F(SavedStateTest, WhatIsDamagedTakesNoPlace) {
  const std::string rule = "every: 5 keep: 1 keep_every: 20";
  ASSERT_EQ(Run(rule, Set("train.steps", "35")).exit_code, 0);
  ASSERT_THAT(Names(), ElementsAre("step-000000020", "step-000000035"));
  {
    std::fstream piece(work_.Path("ck/step-000000035/piece-00000.safetensors"), std::ios::in | std::ios::out);
    piece.seekp(2000);
    piece.put('x');
  }
  const Outcome resumed = Run(rule, Join(Set("train.steps", "33"), {"--resume"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, AllOf(HasSubstr("the checkpoint of step 35 is damaged"), HasSubstr("goes on from step 20")));
  EXPECT_THAT(Names(), ElementsAre("step-000000020", "step-000000033"));
}

// The rate is such that weights get worse behind the fourth step.
TEST_F(SavedStateTest, TheBestOfTheEvaluationsIsKeptAndNamed) {
  const std::string rule = "keep: 1 best: true";
  const std::vector<std::string> evaluated =
      Join(Set("evaluate", "{every: 2 batches: 2}"),
           Set("train.schedule", "{learning_rate: 0.003 kind: 'piecewise' boundaries: 4 factors: 3000}"));
  const Outcome run = Run(rule, Join(evaluated, Set("train.steps", "8")));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(Names(), ElementsAre("best", "step-000000004", "step-000000008"));
  const Outcome listed = work_.Run({"checkpoint", "ls", work_.Path("ck")});
  EXPECT_THAT(listed.out, ContainsRegex("step-000000004 .*; best: validation loss [0-9.]+\n"));
  const Outcome resumed = Run(rule, Join(Join(evaluated, Set("train.steps", "10")), {"--resume"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(Names(), ElementsAre("best", "step-000000004", "step-000000010"));
  const Outcome verified = work_.Run({"checkpoint", "verify", work_.Path("ck/best")});
  EXPECT_THAT(verified.out, HasSubstr("step-000000004: good")) << verified.err;
  const Outcome weights = work_.Run({"weights", "diff", work_.Path("ck/best"), work_.Path("ck/step-000000004")});
  EXPECT_EQ(weights.exit_code, 0) << weights.err;
  // From the best it goes on as if what followed had not been.
  const Outcome again = Run(rule, Join(Join(Set("evaluate", "{every: 2 batches: 2}"), Set("train.steps", "6")),
                                       {absl::StrCat("--resume=", work_.Path("ck/best"))}));
  EXPECT_EQ(again.exit_code, 1) << "the folder has a later one";
  EXPECT_THAT(again.err, HasSubstr("which comes after step 4, from which to go on"));
}

// What a step leaves out is state of each rank; so are the windows that codes are chosen by. It ends within one.
TEST_F(SavedStateTest, WhatCodesLeaveOutIsKept) {
  for (const char* compress : {"{family: POWERSGD default: 2}", "{family: TOPK default: 0.1}",
                               "{family: POWERSGD default: 2 warmup_steps: 1 adaptive { every: 3 window: 2 }}"}) {
    SCOPED_TRACE(compress);
    const auto run = [&](const std::string& folder, int steps, const std::vector<std::string>& more) {
      const std::vector<std::string> job = Join({"run", work_.GptJob()}, OnMesh("dp: 2", 2));
      const std::vector<std::string> trained =
          Join(Set("train.steps", absl::StrCat(steps)), Set("train.schedule", "{learning_rate: 0.003}"));
      const std::vector<std::string> saved = Set("checkpoint", absl::StrCat("{path: '", work_.Path(folder), "'}"));
      return work_.Run(Join(Join(job, Join(trained, saved)), Join(Set("compress", compress), more)));
    };
    const bool chosen = absl::StrContains(compress, "adaptive");
    const std::string name = absl::StrContains(compress, "TOPK") ? "topk" : chosen ? "chosen" : "powersgd";
    for (const auto& [folder, steps, more] : std::vector<std::tuple<std::string, int, std::vector<std::string>>>{
             {name, 8, {}}, {name + "_parts", 3, {}}, {name + "_parts", 8, {"--resume"}}}) {
      const Outcome outcome = run(folder, steps, more);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    }
    const Outcome diff = work_.Run({"checkpoint", "diff", work_.Path(name), work_.Path(name + "_parts")});
    EXPECT_EQ(diff.out + diff.err, "");
    const std::string manifest = ReadFile(work_.Path(name + "/step-000000008/manifest"));
    EXPECT_THAT(manifest, HasSubstr("/compress/error"));
    EXPECT_EQ(absl::StrContains(manifest, "/compress/window"), chosen);
  }
}

// The numbers that were chosen may be more than the new candidates: the job begins with its usual ones again.
TEST_F(SavedStateTest, OtherCandidatesBeginWithTheUsualNumber) {
  const auto run = [&](double density, int steps, const std::vector<std::string>& more) {
    const std::string compress =
        absl::StrFormat("{family: TOPK default: %g adaptive { every: 2 window: 1 high: 4 }}", density);
    return Run("every: 4", Join(Join(OnMesh("dp: 2", 2), Set("train.steps", absl::StrCat(steps))),
                                Join(Set("compress", compress), more)));
  };
  const Outcome first = run(0.1, 4, {});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const Outcome less = run(0.01, 8, {"--resume"});
  EXPECT_EQ(less.exit_code, 0) << less.err;
  EXPECT_THAT(less.out, HasSubstr("goes on from step 4"));
}

// Groups may change where the state of what is trained is there: more may be frozen, but not less.
TEST_F(SavedStateTest, AWeightDoesNotGoOnWithoutTheStateOfItsOptimizer) {
  const auto frozen = [](const std::string& match) {
    return Set("train.optimizer.groups", absl::StrCat("{match: '", match, "' frozen: true}"));
  };
  ASSERT_EQ(Run("every: 2", Join(Set("train.steps", "2"), frozen("h0/*"))).exit_code, 0);
  const std::vector<std::string> resumed = Join(Set("train.steps", "4"), {"--resume"});
  const Outcome thawed = Run("every: 2", resumed);
  EXPECT_EQ(thawed.exit_code, 1);
  EXPECT_THAT(thawed.err, AllOf(HasSubstr("step-000000002"), HasSubstr("tensors of the optimizer's state are missing"),
                                HasSubstr("'h0/"), HasSubstr("adam_m'"), HasSubstr("--weights")));
  const Outcome other = Run("every: 2", Join(resumed, Set("train.optimizer.sgd", "{}")));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("sgd_momentum'"));
  const Outcome more = Run("every: 2", Join(resumed, frozen("h*")));
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("goes on from step 2"));
}

// The update of step 11 leaves weights that are finite; the loss that follows is not.
TEST_F(SavedStateTest, AnUpdateThatBreaksTheWeightsDoesNotReplaceWhatIsGood) {
  const std::string rule = "every: 1 keep: 1";
  ASSERT_EQ(Run(rule, Set("train.steps", "10")).exit_code, 0);
  const Outcome broken =
      Run(rule, Join(Join(Set("train.schedule", "{learning_rate: 1e38}"), Set("train.steps", "12")), {"--resume"}));
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("nothing of it is saved"));
  EXPECT_THAT(broken.out, HasSubstr("train.schedule.learning_rate 0.003 -> 1e+38"));
  EXPECT_THAT(Names(), ElementsAre("step-000000010"));
  const Outcome healed = Run(rule, Join(Set("train.steps", "12"), {"--resume"}));
  EXPECT_EQ(healed.exit_code, 0) << healed.err;
  EXPECT_THAT(healed.out, HasSubstr("goes on from step 10"));
}

TEST_F(SavedStateTest, WhatTheLastUpdateBreaksIsNotWritten) {
  const std::vector<std::string> one = Join(Set("train.steps", "1"), Set("train.schedule", "{learning_rate: 1e38}"));
  for (const bool evaluates : {true, false}) {
    const Outcome broken = Run("", Join(Join(one, {"--save-weights", work_.Path("w")}),
                                        evaluates ? Set("evaluate", "{batches: 1}") : std::vector<std::string>{}));
    EXPECT_EQ(broken.exit_code, 1);
    EXPECT_THAT(broken.err, HasSubstr("train.stop { finite: false }"));
    EXPECT_THAT(broken.out, Not(HasSubstr("-nan")));
    EXPECT_FALSE(std::filesystem::exists(work_.Path("w")));
    EXPECT_THAT(Names(), IsEmpty());
  }
  EXPECT_EQ(Run("", Join(one, Set("train.stop", "{finite: false}"))).exit_code, 0);
}

TEST_F(SavedStateTest, ALossThatIsNoNumberEndsAJobInF16Too) {
  const std::string weights = work_.Path("w");
  ASSERT_EQ(work_.Run(Join({"run", work_.GptJob(), "--save-weights", weights}, Set("train.steps", "1"))).exit_code, 0);
  {
    absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(weights);
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(reader->tensors().begin()->second.offset));
    const float nan = std::nanf("");
    file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  }
  for (const char* precision : {"F32", "F16"}) {
    const Outcome ended = Run("every: 10", Join(Join(Set("train.steps", "300"), Set("precision.compute", precision)),
                                                {"--weights", weights}));
    EXPECT_EQ(ended.exit_code, 1) << precision;
    EXPECT_THAT(ended.err, HasSubstr("is nan")) << precision;
    EXPECT_LE(CountOf(ended.out, "skipped:"), 60);
    EXPECT_THAT(Names(), IsEmpty());
  }
}

TEST_F(SavedStateTest, PatienceIsRemembered) {
  const std::vector<std::string> rules =
      Join(Join(Set("evaluate", "{every: 5 batches: 2}"), Set("train.stop", "{patience: 6 least_gain: 0.5}")),
           Set("train.schedule", "{learning_rate: 1e-9}"));
  const Outcome whole = Run("every: 5", Join(rules, Set("train.steps", "1000")));
  EXPECT_THAT(whole.out, HasSubstr("training ends after step 35: 6 evaluations in a row found no lower loss than"));
  std::filesystem::remove_all(work_.Path("ck"));
  ASSERT_EQ(Run("every: 5", Join(rules, Set("train.steps", "30"))).exit_code, 0);
  const std::vector<std::string> more = Join(Join(rules, Set("train.steps", "1000")), {"--resume"});
  const Outcome rest = Run("every: 5", more);
  EXPECT_EQ(CountOf(rest.out, "validation"), 1) << rest.out;
  EXPECT_THAT(rest.out, HasSubstr("training ends after step 35"));
  const Outcome nothing = Run("every: 5", more);
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_EQ(CountOf(nothing.out, "validation"), 0) << nothing.out;
  EXPECT_THAT(nothing.out, HasSubstr("nothing is left to train: 6 evaluations in a row"));
  const Outcome listed = work_.Run({"checkpoint", "ls", work_.Path("ck")});
  EXPECT_THAT(listed.out, HasSubstr("6 evaluations in a row found no lower loss"));
}

TEST_F(SavedStateTest, SamplesCountRightWhereTheBatchChanges) {
  const auto stop = Set("train.stop", "{samples: 2000}");  // 16 tokens a row
  ASSERT_EQ(Run("", Join(Set("train.steps", "10"), {"--save-weights", work_.Path("w")})).exit_code, 0);
  const Outcome again = Run("", Join(Join(Join(Set("train.steps", "1000"), Set("train.batch_size", "4")), stop),
                                     {"--resume", "--weights", work_.Path("w")}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(Names().back(), "step-000000022") << "10 steps had 1280 tokens, 12 of the others have the rest";
  EXPECT_THAT(again.out, AllOf(HasSubstr("data go on behind the"), HasSubstr("train.batch_size 8 -> 4"),
                               HasSubstr("are not loaded: the checkpoint has its own")));
}

TEST_F(SavedStateTest, AFolderOfCheckpointsHasOneJobAtATime) {
  MetricsPipe metrics(work_.Path("metrics"));
  const std::unique_ptr<RunningCommand> first =
      work_.Start(Arguments("every: 5", Join(Set("train.steps", "100000000"), {"--metrics", work_.Path("metrics")})));
  ASSERT_TRUE(metrics.AwaitSteps(3)) << first->Errors();
  const Outcome second = Run("every: 5", Set("seed", "2"));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("checkpoint.path: '"), HasSubstr("belongs to job 'gpt'"),
                                HasSubstr("which runs: two jobs would overwrite each other's files")));
  first->Signal(SIGKILL);
  first->Wait();
  const Outcome heir = Run("every: 5", Join(Set("train.steps", "1"), {"--resume"}));
  EXPECT_EQ(heir.exit_code, 0) << heir.err;
}

}  // namespace
}  // namespace oneflow::e2e
