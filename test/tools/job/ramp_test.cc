#include "tools/job/ramp.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "test/support/names.h"
#include "test/support/status_matchers.h"
#include "tools/job/config.h"
#include "tools/job/step_sizes.h"

namespace oneflow::testing {
namespace {

SourcedConfig ConfigOf(const std::string& train) {
  absl::StatusOr<SourcedConfig> config = ParseConfig(absl::StrCat("train { ", train, " }"), "job.pbtxt");
  EXPECT_OK(config);
  return *std::move(config);
}

TEST(RampTest, EachSizeHasAnEqualShareOfTheSamples) {
  const auto text = [](const std::string& train) {
    std::string text;
    for (const RampedSteps& steps : RampOf(ConfigOf(train).config)) {
      absl::StrAppend(&text, steps.plan, " ", steps.micro_batches, " to ", steps.end_step, "; ");
    }
    return text;
  };
  const std::string job = "batch_size: 64 micro_batches: 4 steps: ";
  EXPECT_EQ(text(job + "100 ramp { start: 16 increment: 16 samples: 960 }"),
            "train/16 1 to 20; train/32 2 to 30; train/48 3 to 37; ");
  EXPECT_EQ(text(job + "25 ramp { start: 16 increment: 16 samples: 960 }"), "train/16 1 to 20; train/32 2 to 25; ");
  EXPECT_EQ(text(job + "100 ramp { start: 48 increment: 16 samples: 1 }"), "train/48 3 to 1; ");
  // The first step of 16 has what two sizes would have had.
  EXPECT_EQ(text(job + "100 ramp { start: 16 increment: 16 samples: 24 }"), "train/16 1 to 1; train/48 3 to 2; ");
  EXPECT_EQ(text(job + "100"), "");
}

TEST(RampTest, WhatIsNoRampIsRefused) {
  const auto error = [](const std::string& train) {
    const SourcedConfig config = ConfigOf("batch_size: 64 micro_batches: 4 steps: 9 ramp { samples: 9 " + train + " }");
    Checker check(config);
    CheckRamp(config.config, check);
    return std::string(check.status().message());
  };
  EXPECT_EQ(error("start: 16 increment: 16"), "");
  EXPECT_THAT(error("start: 8 increment: 16"),
              HasSubstr("train.ramp.start: 8 is no multiple of the 16 samples of a micro-batch"));
  EXPECT_THAT(error("start: 16 increment: 24"), HasSubstr("train.ramp.increment: 24 is no multiple of the 16 samples"));
  EXPECT_THAT(error("start: 64 increment: 16"), HasSubstr("train.ramp.start: 64 is not below batch_size, 64"));
  EXPECT_THAT(error("start: 16 increment: 32"), HasSubstr("from 16 no number of steps of 32 leads to batch_size, 64"));
  const SourcedConfig many =
      ConfigOf("batch_size: 64 micro_batches: 64 steps: 9 ramp { start: 1 increment: 1 samples: 9 }");
  Checker check(many);
  CheckRamp(many.config, check);
  EXPECT_THAT(check.status().message(), HasSubstr("makes 63 smaller sizes of batches, and at most 32 are possible"));
}

TEST(StepSizesTest, StepsReadWhatTheirPlanReads) {
  pb::JobSpec spec;
  spec.set_samples_per_step(640);
  spec.set_rows_per_step(64);
  pb::TrainLoop& loop = *spec.add_phases()->mutable_train();
  loop.set_plan("train");
  for (const auto& [end, rows] : {std::pair(20, 16), {30, 32}}) {
    pb::RampStage& stage = *loop.add_ramp();
    stage.set_plan(absl::StrCat("train/", rows));
    stage.set_end_step(end);
    stage.set_rows_per_step(rows);
    stage.set_samples_per_step(10 * rows);
  }
  const StepSizes sizes(spec);
  EXPECT_EQ(sizes.StageOf(0).plan, "train/16");
  EXPECT_EQ(sizes.StageOf(19).plan, "train/16");
  EXPECT_EQ(sizes.StageOf(20).plan, "train/32");
  EXPECT_EQ(sizes.StageOf(30).plan, "train");
  EXPECT_EQ(sizes.StageOf(1'000'000'000'000).plan, "train");
  for (int64_t begin = 0; begin < 40; ++begin) {
    StepSize sum;
    for (int64_t end = begin; end < 40; ++end) {
      EXPECT_EQ(sizes.Of(begin, end).rows, sum.rows);
      EXPECT_EQ(sizes.Of(begin, end).samples, sum.samples);
      EXPECT_EQ(sizes.StepAfter(begin, sum.samples), end);
      EXPECT_EQ(sizes.StepAfter(begin, std::max<int64_t>(0, sum.samples - 1)), end);
      sum.rows += sizes.StageOf(end).size.rows;
      sum.samples += sizes.StageOf(end).size.samples;
    }
  }
}

}  // namespace
}  // namespace oneflow::testing
