// The law of going on: a job that was ended anywhere and goes on trains on the same rows, evaluates after the same
// steps and ends where, and for the reason for which, it would have ended without that.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/tools/control/worker/recording_engine.h"
#include "tools/control/worker/phases.h"

namespace oneflow {
namespace {

// What a job did, as if it had never been ended: what an attempt did behind the checkpoint that the next one went on
// from is forgotten, as its weights are.
struct History {
  std::vector<int64_t> rows;                            // that its steps began with
  std::set<int64_t> evaluations;                        // after so many steps, those at the end of an attempt excepted
  std::set<std::pair<int64_t, std::string>> exchanges;  // of groups, after so many steps, but those at such ends
  std::set<std::pair<int64_t, std::string>> choices;    // of codes, steps of windows, half steps, and anchors
  std::string ended;
};

// A job under drawn rules, run on an engine that takes no time.
class DrawnJob {
 public:
  explicit DrawnJob(uint64_t seed) : random_(seed) {
    spec_.set_name("j");
    SetBatch(1 + Draw(4));
    loop().set_plan("train");
    loop().set_steps(1 + Draw(60));
    loop().mutable_stop()->set_not_finite(Draw(2) == 0);
    if (Draw(3) > 0) {
      loop().mutable_evaluation()->set_plan("evaluate");
      loop().mutable_evaluation()->set_steps(1);
      loop().set_evaluate_every(Draw(7));
      if (loop().evaluate_every() > 0 && Draw(2) == 0) loop().mutable_stop()->set_patience(1 + Draw(4));
    }
    if (Draw(3) == 0) loop().mutable_stop()->set_samples(1 + Draw(400));
    if (Draw(2) == 0) {
      loop().mutable_sync()->set_every(1 + Draw(9));
      loop().mutable_sync()->set_late(Draw(2) == 0);
      loop().mutable_sync()->set_first_step(Draw(2) * Draw(20));
    }
    if (Draw(2) == 0) {
      pb::ChoiceRule& rule = *loop().mutable_choice();
      rule.set_plan("train/window");
      rule.set_every(1 + Draw(9));
      rule.set_window(1 + Draw(rule.every()));
      rule.set_first_step(Draw(2) * Draw(20));
    }
    if (Draw(2) == 0) {
      loop().mutable_points()->set_half(Draw(2) == 0);
      loop().mutable_points()->set_anchors(Draw(2) == 0);
      loop().mutable_points()->set_probability(0.3);
      spec_.set_seed(static_cast<uint64_t>(Draw(100)));
    }
    spec_.mutable_checkpoint()->set_path(dir_.File("c"));
    spec_.mutable_checkpoint()->set_every(Draw(8));
    spec_.mutable_checkpoint()->set_keep(Draw(4));
    spec_.mutable_checkpoint()->set_on_stop(Draw(4) > 0);
    best_ = Draw(60);
  }

  // To the end, in one go, or ended again and again: asked to, killed in the middle of something, or with fewer steps
  // than it should have had. `batches`: with another batch size after each.
  History Run(bool disturbed, bool batches) {
    std::filesystem::remove_all(dir_.File("c"));
    spec_.set_resume(false);
    History history;
    const int64_t steps = loop().steps();
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const bool is_last = !disturbed || attempt > 12;
      loop().set_steps(!is_last && Draw(5) == 0 ? 1 + Draw(steps) : steps);
      const bool over = Attempt(is_last, history) && loop().steps() == steps;
      spec_.set_resume(true);
      if (batches) SetBatch(1 + Draw(4));
      if (over) break;
    }
    loop().set_steps(steps);
    return history;
  }

  std::string Rules() const { return spec_.ShortDebugString(); }
  int64_t samples() const { return spec_.phases(0).train().stop().samples(); }
  int64_t steps() const { return spec_.phases(0).train().steps(); }

 private:
  int64_t Draw(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  pb::TrainLoop& loop() {
    if (spec_.phases().empty()) spec_.add_phases();
    return *spec_.mutable_phases(0)->mutable_train();
  }
  void SetBatch(int64_t rows) {
    spec_.set_rows_per_step(rows);
    spec_.set_samples_per_step(10 * rows);
  }

  // Whether it ended by its rules.
  bool Attempt(bool undisturbed, History& history) {
    RecordingEngine engine;
    LossWatch losses;
    std::atomic<bool> stop = false;
    WorkerContext context{.stop = &stop, .losses = &losses};
    int64_t calls_left = undisturbed ? -1 : Draw(12);
    const bool kills = Draw(2) == 0;
    bool begun = false;
    engine.on_run = [&](const std::string& plan, int64_t first, int64_t steps) {
      const bool trains = plan == "train" || plan == "train/window";
      if (!std::exchange(begun, true)) Forget(trains ? first : engine.state, history);
      if (trains) {
        for (int64_t step = first; step < first + steps; ++step) {
          losses.Observe({.plan = "train", .name = "loss", .step = step, .values = {1}});
          history.rows.push_back(step * spec_.rows_per_step() + engine.row_shift);
          if (plan != "train") history.choices.emplace(step + 1, plan);
        }
      } else if (plan == "train/half") {
        history.choices.emplace(engine.state + 1, absl::StrCat(plan, " ", first));
      } else if (plan == "compress/choose" || plan == "train/anchor") {
        history.choices.emplace(engine.state, absl::StrCat(plan, " ", first));
      } else if (absl::StartsWith(plan, "sync/")) {
        if (plan != "sync/finish") history.exchanges.emplace(engine.state, absl::StrCat(plan, " ", first));
      } else {
        // Falls, then no longer: by what was trained alone.
        losses.Observe({.plan = plan, .name = "loss", .step = 0, .values = {std::abs(engine.state - best_) + 1.0}});
      }
      stop = stop || (!kills && calls_left == 0);
      if (kills && calls_left == 0) engine.error = absl::UnavailableError("killed");
      if (calls_left > 0) --calls_left;
      if (plan == "evaluate" && engine.error.ok() && IsRegular(engine.state)) history.evaluations.insert(engine.state);
    };
    const absl::Status ran = RunPhases(engine, spec_, context);
    if (!ran.ok()) return false;
    if (stop) return false;
    const absl::StatusOr<std::vector<int64_t>> kept = ListCheckpoints(dir_.File("c"));
    history.ended = ReadManifest(CheckpointFolder(dir_.File("c"), kept->back()))->training().ended();
    return true;
  }
  bool IsRegular(int64_t step) { return loop().evaluate_every() > 0 && step % loop().evaluate_every() == 0; }

  // What came behind the step that is gone on from.
  static void Forget(int64_t step, History& history) {
    history.rows.resize(std::min(history.rows.size(), static_cast<size_t>(step)));
    history.evaluations.erase(history.evaluations.upper_bound(step), history.evaluations.end());
    history.exchanges.erase(history.exchanges.lower_bound({step + 1, ""}), history.exchanges.end());
    history.choices.erase(history.choices.lower_bound({step + 1, ""}), history.choices.end());
  }

  std::mt19937_64 random_;
  TestDir dir_{"/dev/shm"};  // where nothing is waited for that has to reach a disk
  pb::JobSpec spec_;
  int64_t best_ = 0;
};

TEST(ResumeLawTest, AJobThatWasEndedAnywhereDoesWhatItWouldHaveDone) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    DrawnJob job(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Rules()));
    const History whole = job.Run(/*disturbed=*/false, /*batches=*/false);
    const History parts = job.Run(/*disturbed=*/true, /*batches=*/false);
    ASSERT_EQ(parts.rows, whole.rows);
    ASSERT_EQ(parts.exchanges, whole.exchanges);
    ASSERT_EQ(parts.choices, whole.choices);
    ASSERT_EQ(parts.evaluations, whole.evaluations);
    ASSERT_EQ(parts.ended, whole.ended);
  }
}

// Every row once, in order, whatever the batches are; and as many samples as were asked for.
TEST(ResumeLawTest, NoRowIsLostOrReadTwiceWhereBatchesChange) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    DrawnJob job(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Rules()));
    const History parts = job.Run(/*disturbed=*/true, /*batches=*/true);
    for (size_t i = 0; i < parts.rows.size(); ++i) {
      const int64_t size = parts.rows[i] - (i == 0 ? 0 : parts.rows[i - 1]);
      ASSERT_TRUE(i == 0 ? size == 0 : size >= 1 && size <= 4) << "step " << i << " begins with row " << parts.rows[i];
    }
    if (absl::StrContains(parts.ended, "train.stop.samples")) {
      EXPECT_LT(10 * parts.rows.back(), job.samples());
      EXPECT_GE(10 * (parts.rows.back() + 4), job.samples());
    }
  }
}

}  // namespace
}  // namespace oneflow
