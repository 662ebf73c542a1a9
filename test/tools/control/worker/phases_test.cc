#include "tools/control/worker/phases.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/tools/control/worker/recording_engine.h"
#include "tools/control/worker/stats.h"
#include "tools/control/worker/summaries.h"

namespace oneflow {
namespace {

pb::JobSpec Spec(const std::string& second_plan) {
  pb::JobSpec spec;
  spec.set_weights("/w");
  spec.add_phases()->mutable_run()->set_plan("train");
  spec.mutable_phases(0)->mutable_run()->set_steps(3);
  spec.mutable_phases(0)->mutable_run()->set_first_step(10);
  spec.add_phases()->mutable_run()->set_plan(second_plan);
  spec.add_phases()->mutable_save()->set_path("/g");
  spec.mutable_phases(2)->mutable_save()->set_suffix(".grad");
  spec.add_phases()->mutable_trace()->set_path("/t");
  return spec;
}

TEST(RunPhasesTest, LoadsWeightsAndRunsEveryPhaseInOrder) {
  RecordingEngine engine;
  WorkerContext context;
  context.on_done = [&engine](int part, const pb::Phase&) { engine.calls.push_back(absl::StrCat("done ", part)); };
  EXPECT_OK(RunPhases(engine, Spec("evaluate"), context));
  EXPECT_THAT(engine.calls, ElementsAre("load /w", "run train 10+3", "done 0", "run evaluate 0+0", "done 1",
                                        "save /g '.grad'", "done 2", "trace /t", "done 3"));
}

TEST(RunPhasesTest, TheFirstErrorEndsItAndSaysWhere) {
  RecordingEngine engine;
  EXPECT_THAT(RunPhases(engine, Spec("broken"), WorkerContext()),
              StatusIs(absl::StatusCode::kInternal, "broken: it broke"));
  EXPECT_THAT(engine.calls, ElementsAre("load /w", "run train 10+3", "run broken 0+0"));
}

// A job that trains by a rule, on an engine that takes no time.
class TrainLoopTest : public ::testing::Test {
 protected:
  TrainLoopTest() {
    context_.losses = &losses_;
    context_.stop = &stop_;
    context_.on_done = [this](int part, const pb::Phase& done) {
      parts_.push_back(absl::StrCat(part, ": ", done.has_run() ? done.run().plan() : "save", " ",
                                    done.run().first_step(), "+", done.run().steps()));
    };
    context_.on_notice = [this](const pb::Notice& notice) { notices_.push_back(notice.text()); };
    spec_.set_samples_per_step(100);
    loop().set_plan("train");
    loop().set_steps(20);
  }
  pb::TrainLoop& loop() {
    if (spec_.phases().empty()) spec_.add_phases();
    return *spec_.mutable_phases(0)->mutable_train();
  }
  void Evaluates(int64_t every) {
    loop().mutable_evaluation()->set_plan("evaluate");
    loop().mutable_evaluation()->set_steps(2);
    loop().set_evaluate_every(every);
  }
  void Saves(int64_t every) {
    spec_.mutable_checkpoint()->set_path(dir_.File("c"));
    spec_.mutable_checkpoint()->set_every(every);
    spec_.mutable_checkpoint()->set_on_stop(true);
  }
  void Fetch(const std::string& plan, const std::string& name, int64_t step, double value) {
    losses_.Observe({.plan = plan, .name = name, .step = step, .values = {value}});
  }
  absl::Status Run() { return RunPhases(engine_, spec_, context_); }
  // What was trained in all: runs follow one another without a gap.
  int64_t Trained() const {
    int64_t next = 0;
    for (const std::string& call : engine_.calls) {
      int64_t first = 0, steps = 0;
      if (std::sscanf(call.c_str(), "run train %ld+%ld", &first, &steps) != 2) continue;
      EXPECT_TRUE(next == 0 || first == next) << call << " after " << next;
      next = first + steps;
    }
    return next;
  }
  std::vector<int64_t> Steps() const { return *ListCheckpoints(dir_.File("c")); }

  TestDir dir_{"/dev/shm"};  // where nothing is waited for that has to reach a disk
  RecordingEngine engine_;
  LossWatch losses_;
  std::atomic<bool> stop_ = false;
  pb::JobSpec spec_;
  WorkerContext context_;
  std::vector<std::string> parts_, notices_;
};

TEST_F(TrainLoopTest, StopsAtEveryStationAndEvaluatesAtTheEndToo) {
  Evaluates(8);
  Saves(5);
  ASSERT_OK(Run());
  EXPECT_THAT(parts_, ElementsAre("0: train 0+5", "1: train 5+3", "2: evaluate 0+2", "3: train 8+2", "4: train 10+5",
                                  "5: train 15+1", "6: evaluate 0+2", "7: train 16+4", "8: evaluate 0+2"));
  EXPECT_EQ(Trained(), 20);
  EXPECT_THAT(Steps(), ElementsAre(5, 10, 15, 20));
}

TEST_F(TrainLoopTest, WithoutStationsThereIsOneEvaluationAndOneCheckpoint) {
  Evaluates(0);
  Saves(0);
  ASSERT_OK(Run());
  EXPECT_THAT(parts_, ElementsAre("0: train 0+20", "1: evaluate 0+2"));
  EXPECT_THAT(Steps(), ElementsAre(20));
}

// 10^12 steps are a loop and not a list; runs between looks become longer where steps are quick.
TEST_F(TrainLoopTest, TakesNoLongerForStepsThatAreNotLookedAt) {
  loop().set_steps(int64_t{1} << 40);
  ASSERT_OK(Run());
  EXPECT_EQ(Trained(), int64_t{1} << 40);
  EXPECT_LT(engine_.calls.size(), 2'000'000u);
}

TEST_F(TrainLoopTest, GoesOnFromTheLastGoodCheckpoint) {
  Saves(5);
  loop().set_steps(12);
  spec_.add_phases()->mutable_save()->set_path("/after");
  ASSERT_OK(Run());
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("has checkpoints, the last of step 12: go on from it with --resume")));

  engine_ = RecordingEngine();
  spec_.set_resume(true);
  spec_.set_weights("/w");
  loop().set_steps(20);
  ASSERT_OK(Run());
  EXPECT_EQ(engine_.calls.front(), "restore 12") << "and the weights of the beginning are not read";
  EXPECT_EQ(engine_.calls.back(), "save /after ''");
  EXPECT_EQ(engine_.state, 20);

  std::filesystem::resize_file(dir_.File("c/step-000000020/manifest"), 10);
  std::filesystem::remove(dir_.File("c/step-000000015/") + PieceName(0));
  engine_ = RecordingEngine();
  notices_.clear();
  ASSERT_OK(Run());
  EXPECT_EQ(engine_.calls.front(), "restore 12");
  EXPECT_THAT(notices_.at(0), HasSubstr("the checkpoint of step 20 is damaged: "));
  EXPECT_THAT(notices_.at(1), HasSubstr("the checkpoint of step 15 is damaged: "));
  EXPECT_THAT(notices_.at(2), HasSubstr("goes on from step 12"));
  EXPECT_THAT(Steps(), ElementsAre(5, 10, 12, 15, 20)) << "written anew";
}

TEST_F(TrainLoopTest, LaterAttemptsGoOnWithoutBeingAsked) {
  Saves(5);
  loop().set_steps(10);
  ASSERT_OK(Run());
  context_.first_attempt = false;
  loop().set_steps(15);
  engine_ = RecordingEngine();
  ASSERT_OK(Run());
  EXPECT_EQ(engine_.calls.front(), "restore 10");
  std::filesystem::remove_all(dir_.File("c"));
  engine_ = RecordingEngine();
  ASSERT_OK(Run());
  EXPECT_EQ(engine_.state, 15) << "where there is none it begins anew";
}

TEST_F(TrainLoopTest, OneNamedCheckpointIsTakenAndNoOther) {
  Saves(5);
  ASSERT_OK(Run());
  spec_.set_resume_from(dir_.File("c/step-000000010"));
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("the last of step 20, which comes after step 10, from which to go on")));
  spec_.mutable_checkpoint()->set_path(dir_.File("other"));
  loop().set_steps(10);
  engine_ = RecordingEngine();
  ASSERT_OK(Run());
  EXPECT_THAT(engine_.calls, ElementsAre("restore 10", "copy 10")) << "another folder gets it, too";
}

TEST_F(TrainLoopTest, NoGoodCheckpointAtAllIsAnError) {
  Saves(0);
  ASSERT_OK(Run());
  std::filesystem::resize_file(dir_.File("c/step-000000020/manifest"), 10);
  spec_.set_resume(true);
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no checkpoint is good; the last: ")));
}

TEST_F(TrainLoopTest, WhoIsAskedToStopSavesAndLeavesTheRest) {
  Saves(0);
  Evaluates(0);
  spec_.add_phases()->mutable_save()->set_path("/after");
  loop().set_steps(int64_t{1} << 40);
  engine_.on_run = [this](const std::string&, int64_t first, int64_t steps) { stop_ = first + steps > 1000; };
  ASSERT_OK(Run());
  EXPECT_GT(Trained(), 1000);
  EXPECT_THAT(Steps(), ElementsAre(Trained()));
  EXPECT_THAT(engine_.calls.back(), HasSubstr("copy ")) << "neither an evaluation nor what comes after training";
  spec_.mutable_checkpoint()->set_on_stop(false);
  spec_.set_resume(true);
  const std::vector<int64_t> before = Steps();
  ASSERT_OK(Run());
  EXPECT_EQ(Steps(), before);
}

TEST_F(TrainLoopTest, SamplesEndItAtTheStepThatHasThem) {
  loop().mutable_stop()->set_samples(701);
  Evaluates(0);
  Saves(0);
  ASSERT_OK(Run());
  EXPECT_EQ(Trained(), 8);
  EXPECT_THAT(engine_.calls, ::testing::Contains("run evaluate 0+2"));
  EXPECT_THAT(Steps(), ElementsAre(8));
}

TEST_F(TrainLoopTest, TimeEndsIt) {
  loop().mutable_stop()->set_seconds(0.001);
  loop().set_steps(int64_t{1} << 40);
  engine_.on_run = [](const std::string&, int64_t, int64_t) { absl::SleepFor(absl::Milliseconds(1)); };
  ASSERT_OK(Run());
  EXPECT_LT(Trained(), 100);
}

TEST_F(TrainLoopTest, ALossThatNoLongerFallsEndsIt) {
  Evaluates(1);
  loop().set_steps(100);
  loop().mutable_stop()->set_patience(3);
  loop().mutable_stop()->set_least_gain(0.1);
  int evaluations = 0;
  engine_.on_run = [&](const std::string& plan, int64_t, int64_t) {
    if (plan != "evaluate") return;
    // Falls until the fifth, after that by too little.
    ++evaluations;
    const double loss = 10.0 - std::min(evaluations, 5) - 0.01 * evaluations;
    Fetch("evaluate", "loss", 0, loss - 1);
    Fetch("evaluate", "loss", 1, loss + 1);
  };
  ASSERT_OK(Run());
  EXPECT_EQ(Trained(), 8);
}

TEST_F(TrainLoopTest, ALossThatIsNoNumberFailsTheJobAndIsNotSaved) {
  Saves(4);
  loop().mutable_stop()->set_not_finite(true);
  const auto diverge = [this](const std::string&, int64_t first, int64_t steps) {
    for (int64_t step = first; step < first + steps; ++step) {
      Fetch("train", "loss", step, step < 9 ? 1 : std::numeric_limits<double>::infinity());
    }
  };
  engine_.on_run = diverge;
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the loss of step 10 is inf")));
  EXPECT_THAT(Steps(), ElementsAre(4, 8));

  // A step that changed nothing may have any loss.
  engine_.on_run = [&](const std::string& plan, int64_t first, int64_t steps) {
    diverge(plan, first, steps);
    for (int64_t step = std::max<int64_t>(first, 9); step < first + steps; ++step) Fetch("train", "skipped", step, 1);
  };
  spec_.set_resume(true);
  EXPECT_OK(Run());
  std::filesystem::remove_all(dir_.File("c"));
  engine_.on_run = diverge;
  loop().mutable_stop()->set_not_finite(false);
  EXPECT_OK(Run());
}

// From the last one nothing has followed: the one before stays until its first loss is there.
TEST_F(TrainLoopTest, ACheckpointFromWhichNoNumberFollowsIsGivenUp) {
  Saves(1);
  spec_.mutable_checkpoint()->set_keep(1);
  loop().mutable_stop()->set_not_finite(true);
  engine_.on_run = [this](const std::string&, int64_t first, int64_t steps) {
    for (int64_t step = first; step < first + steps; ++step) Fetch("train", "loss", step, step < 9 ? 1 : std::nan(""));
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the loss of step 10 is nan")));
  EXPECT_THAT(Steps(), ElementsAre(8));
  EXPECT_THAT(notices_.back(), HasSubstr("removed"));
}

TEST_F(TrainLoopTest, AnEvaluationThatIsNoNumberFailsTheJob) {
  Saves(4);
  Evaluates(4);
  spec_.add_phases()->mutable_save()->set_path("/after");
  loop().mutable_stop()->set_not_finite(true);
  engine_.on_run = [this](const std::string& plan, int64_t first, int64_t steps) {
    for (int64_t step = first; step < first + steps; ++step) {
      Fetch(plan, "loss", step, plan == "evaluate" && engine_.state > 8 ? -std::nan("") : 1);
    }
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("the loss of the evaluation after step 12 is nan")));
  EXPECT_THAT(Steps(), ElementsAre(4, 8)) << "what was saved of step 12 is not gone on from";
  EXPECT_THAT(engine_.calls, Not(::testing::Contains(HasSubstr("save"))));
}

TEST_F(TrainLoopTest, WhatTheLastUpdateLeftIsLookedAt) {
  Saves(0);
  spec_.add_phases()->mutable_save()->set_path("/after");
  loop().mutable_stop()->set_not_finite(true);
  engine_.weight = 1e30f;
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("after step 20: variable 'w'")));
  EXPECT_THAT(Steps(), IsEmpty());
  loop().mutable_stop()->set_not_finite(false);
  EXPECT_OK(Run());
}

TEST_F(TrainLoopTest, StateThatIsNoNumberIsNotSaved) {
  Saves(5);
  loop().mutable_stop()->set_not_finite(true);
  engine_.on_run = [this](const std::string&, int64_t first, int64_t steps) {
    if (first + steps >= 10) engine_.weight = std::numeric_limits<float>::infinity();
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr("the checkpoint of step 10"), HasSubstr("tensor 'w' has an element"))));
  EXPECT_THAT(Steps(), ElementsAre(5));
}

// A smaller scale helps against gradients that overflow, not against a loss that is no number by itself.
TEST_F(TrainLoopTest, StepsAreNotSkippedForEver) {
  loop().set_steps(300);
  loop().mutable_stop()->set_not_finite(true);
  const auto skip = [this](double loss) {
    return [this, loss](const std::string&, int64_t first, int64_t steps) {
      for (int64_t step = first; step < first + steps; ++step) {
        Fetch("train", "loss", step, loss);
        Fetch("train", "skipped", step, 1);
        Fetch("train", "loss_scale", step, std::exp2(16.0 - static_cast<double>(step)));
      }
    };
  };
  engine_.on_run = skip(std::nan(""));
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the loss of step 17 is nan")));
  engine_.on_run = skip(2.5);
  EXPECT_OK(Run());
}

TEST_F(TrainLoopTest, ADiskThatRefusesIsToldAndTrainingGoesOn) {
  Saves(5);
  engine_.on_run = [this](const std::string&, int64_t first, int64_t) {
    if (first == 0) std::filesystem::remove_all(dir_.File("c")), std::ofstream(dir_.File("c")) << "no folder";
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("the last checkpoint: ")));
  EXPECT_EQ(Trained(), 20);
  EXPECT_THAT(notices_.front(), HasSubstr("could not write"));
  EXPECT_THAT(notices_.front(), HasSubstr("training goes on"));
}

// The disk of another process refuses; an evaluation of the same step, and what follows, wait for no piece of it.
TEST_F(TrainLoopTest, APieceThatDoesNotComeHoldsUpNoEvaluation) {
  Saves(5);
  Evaluates(5);
  loop().set_steps(12);
  context_.num_processes = 2;
  engine_.other = [this] {
    pb::LoopNote note;
    for (const std::string& call : engine_.calls) {
      int64_t begun = 0;
      if (std::sscanf(call.c_str(), "copy %ld", &begun) == 1) note.set_checkpoint_step(begun);
    }
    note.mutable_checkpoint_failed()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
    note.mutable_checkpoint_failed()->set_message("its disk refuses");
    return note.SerializeAsString();
  };
  const absl::Time begin = absl::Now();
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("its disk refuses")));
  EXPECT_LT(absl::Now() - begin, absl::Minutes(1)) << "and not CheckpointWriter's patience";
  EXPECT_EQ(Trained(), 12);
  EXPECT_THAT(Steps(), IsEmpty());
}

// Whether the system lets files grow no further.
struct FullDisk {
  rlimit former;
  FullDisk() {
    std::signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
    const rlimit little{64, former.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &former); }
};

TEST_F(TrainLoopTest, ADiskThatTakesNoEventsIsToldOnce) {
  spec_.set_tensorboard(dir_.File("board"));
  spec_.set_samples_per_step(0);
  Summaries summaries(spec_, /*process=*/0, context_.on_notice);
  context_.summaries = &summaries;
  std::optional<FullDisk> full;
  engine_.on_run = [&](const std::string& plan, int64_t first_step, int64_t steps) {
    for (int64_t step = first_step; step < first_step + steps; ++step) {
      summaries.Observe(MakeTimedValue({.plan = plan, .name = "loss", .step = step, .values = {0.5}}));
    }
    full.emplace();
  };
  const absl::Status ran = Run();
  full.reset();
  EXPECT_OK(ran);
  EXPECT_EQ(Trained(), 20);
  EXPECT_THAT(notices_, ElementsAre(AllOf(HasSubstr("tensorboard: cannot write '"),
                                          HasSubstr("File too large: nothing more is written, training goes on"))));
}

TEST_F(TrainLoopTest, WeightsAreCountedAfterAsManyStepsAsAsked) {
  spec_.set_tensorboard(dir_.File("board"));
  spec_.set_tensorboard_histograms_every(8);
  Summaries summaries(spec_, /*process=*/0, context_.on_notice);
  context_.summaries = &summaries;
  engine_.notes_reads = true;
  ASSERT_OK(Run());
  EXPECT_EQ(Trained(), 20);
  std::vector<std::string> counted;
  for (const std::string& call : engine_.calls) {
    if (absl::StartsWith(call, "count ")) counted.push_back(call);
  }
  EXPECT_THAT(counted, ElementsAre("count 8", "count 16"));
}

TEST(EventFileTest, FilesOfAFolderFollowOneAnother) {
  const TestDir dir;
  std::vector<std::string> paths;
  for (int attempt = 0; attempt < 3; ++attempt) {
    paths.push_back((*EventFile::Create(dir.File("board"), attempt))->path());
  }
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end())) << absl::StrJoin(paths, " ");
  EXPECT_EQ(MaskedCrc32c("123456789"), ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u);
}

}  // namespace
}  // namespace oneflow
