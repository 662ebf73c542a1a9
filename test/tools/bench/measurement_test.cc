#include "tools/bench/measurement.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(MeasurementTest, ASummaryHasTheExtremes) {
  const Summary summary = Summarize({3, 1, 8});
  EXPECT_EQ(summary.median, 3);
  EXPECT_EQ(summary.least, 1);
  EXPECT_EQ(summary.most, 8);
}

// A job of two processes with a phase that saves, two steps of warm-up and three measured ones.
class RoundTest : public ::testing::Test {
 protected:
  RoundTest() {
    spec_.set_processes(2);
    spec_.add_phases()->mutable_save();
    for (const int steps : {2, 3}) {
      pb::RunPlan& run = *spec_.add_phases()->mutable_run();
      run.set_plan("train");
      run.set_first_step(steps == 2 ? 0 : 2);
      run.set_steps(steps);
    }
  }

  void Value(int64_t time_us, const std::string& name, int64_t step, double value) {
    pb::JobEvent& event = events_.emplace_back();
    event.set_time_us(time_us);
    event.mutable_fetched()->set_plan("train");
    event.mutable_fetched()->set_name(name);
    event.mutable_fetched()->set_step(step);
    event.mutable_fetched()->add_values(value);
  }
  pb::WorkerStats& Stats(int process, int phase) {
    pb::PhaseStats& stats = *events_.emplace_back().mutable_stats();
    stats.set_process(process);
    stats.set_part(phase);
    return *stats.mutable_stats();
  }
  void AllStats() {
    for (const int process : {0, 1}) {
      for (const int phase : {0, 1, 2}) {
        pb::WorkerStats& stats = Stats(process, phase);
        stats.set_cpu_seconds(10 + 3 * phase);
        stats.set_acts(100 + 30 * phase);
        stats.set_register_bytes(7);
        stats.set_peak_bytes(9 + phase);
        pb::OpTime& op = *stats.add_ops();
        op.set_op("matmul");
        op.set_calls(6 * phase);
        op.set_seconds(1.5 * phase);
      }
    }
  }
  void AllLosses() {
    // The first two steps are slow, and so is the way from them to the third.
    const int64_t times[] = {0, 900'000, 2'000'000, 2'100'000, 2'300'000};
    for (int step = 0; step < 5; ++step) Value(times[step], "loss", step, 5 - step), Value(0, "lr", step, 0.1);
  }

  pb::JobSpec spec_;
  std::vector<pb::JobEvent> events_;
};

TEST_F(RoundTest, CountsOnlyTheMeasuredSteps) {
  AllLosses();
  AllStats();
  ASSERT_OK_AND_ASSIGN(const Round round, RoundFromEvents(events_, spec_));
  EXPECT_THAT(round.step_seconds, DoubleNear(0.15, 1e-12)) << "the median of 0.1 and 0.2";
  EXPECT_THAT(round.losses, ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(round.learning_rates, ElementsAre(0.1, 0.1, 0.1, 0.1, 0.1));
  EXPECT_THAT(round.counters.cpu_seconds, DoubleEq(2)) << "3 s in 3 steps, by two processes";
  EXPECT_THAT(round.counters.acts, DoubleEq(20));
  EXPECT_THAT(round.counters.register_bytes, DoubleEq(14));
  EXPECT_THAT(round.counters.peak_bytes, DoubleEq(22));
  ASSERT_THAT(round.counters.ops, SizeIs(1));
  EXPECT_EQ(round.counters.ops[0].op(), "matmul");
  EXPECT_EQ(round.counters.ops[0].calls(), 12);
  EXPECT_THAT(round.counters.ops[0].seconds(), DoubleEq(1));
}

TEST_F(RoundTest, ASingleStepIsTimedFromTheLastOfTheWarmup) {
  spec_.mutable_phases(2)->mutable_run()->set_steps(1);
  AllLosses();
  AllStats();
  ASSERT_OK_AND_ASSIGN(const Round round, RoundFromEvents(events_, spec_));
  EXPECT_THAT(round.step_seconds, DoubleNear(1.1, 1e-12));
}

TEST_F(RoundTest, FailsIfALossIsMissing) {
  Value(0, "loss", 2, 1);
  Value(1, "loss", 4, 1);
  AllStats();
  EXPECT_THAT(RoundFromEvents(events_, spec_).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no loss of step 2 or 3")));
}

TEST_F(RoundTest, FailsIfAWorkerDoesNotTellWhatItCounted) {
  AllLosses();
  Stats(0, 1);
  Stats(0, 2);
  EXPECT_THAT(RoundFromEvents(events_, spec_).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("1 and 1 workers have told")));
}

}  // namespace
}  // namespace oneflow
