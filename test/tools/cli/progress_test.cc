#include "tools/cli/progress.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "proto/plan.pb.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// A job of two training phases with an evaluation after each, then generation, watched by a Progress.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    spec_.set_samples_per_step(1000);
    spec_.set_sample_unit("tokens");
    AddRun("train", 2), AddRun("evaluate", 2), AddRun("train", 1), AddRun("evaluate", 2), AddRun("generate", 2);
    pb::ClassPlan& plan = *plan_.add_plans();
    plan.set_name("train");
    plan.add_actors();
    for (const char* name : {"loss", "lr"}) AlsoFetches(name);
    Watch(/*terminal=*/false);
  }

  void Watch(bool terminal) {
    Progress::Options options;
    options.terminal = terminal;
    options.print = [this](const std::string& text) { printed_ += text; };
    options.metrics_line = [this](const std::string& line) { metrics_.push_back(line); };
    options.prompt = "He";
    progress_ = std::make_unique<Progress>(spec_, plan_, std::move(options));
  }

  void AddRun(const std::string& plan, int64_t steps) {
    pb::RunPlan& run = *spec_.add_phases()->mutable_run();
    run.set_plan(plan);
    run.set_steps(steps);
  }
  void AlsoFetches(const std::string& name) {
    pb::ClassInstruction& fetch = *plan_.mutable_plans(0)->mutable_actors(0)->add_instructions();
    fetch.set_op("fetch");
    pb::Attribute& attribute = *fetch.add_attributes();
    attribute.set_name("name");
    attribute.set_s(name);
  }
  void Running(int64_t time_us) {
    pb::JobEvent event;
    event.set_time_us(time_us);
    event.mutable_state()->set_state(pb::RUNNING);
    progress_->OnEvent(event);
  }
  void Fetched(int64_t time_us, const std::string& plan, const std::string& name, int64_t step, double value) {
    pb::JobEvent event;
    event.set_time_us(time_us);
    event.mutable_fetched()->set_plan(plan);
    event.mutable_fetched()->set_name(name);
    event.mutable_fetched()->set_step(step);
    event.mutable_fetched()->add_values(value);
    progress_->OnEvent(event);
  }
  void PhaseDone(int phase, int64_t time_us = 0) {
    pb::JobEvent event;
    event.set_time_us(time_us);
    event.mutable_phase_done()->set_part(phase);
    *event.mutable_phase_done()->mutable_done() = spec_.phases(phase);
    progress_->OnEvent(event);
  }

  pb::JobSpec spec_;
  pb::PlanSet plan_;
  std::string printed_;
  std::vector<std::string> metrics_;
  std::unique_ptr<Progress> progress_;
};

TEST_F(ProgressTest, AStepIsWrittenWhenAllItsValuesCameAndCarriesTheEvaluationThatFollows) {
  Running(0);
  Fetched(400'000, "train", "lr", 0, 0.5);
  EXPECT_THAT(printed_, ::testing::IsEmpty()) << "the loss is still missing";
  Fetched(500'000, "train", "loss", 0, 2.123456789);
  Fetched(700'000, "train", "lr", 1, 0.25);
  Fetched(750'000, "train", "loss", 1, 1.5);
  PhaseDone(0);
  Fetched(800'000, "evaluate", "loss", 0, 3);
  Fetched(800'000, "evaluate", "loss", 1, 5);
  PhaseDone(1);
  progress_->Finish();
  EXPECT_THAT(metrics_,
              ElementsAre(R"({"step": 1, "loss": 2.12345679, "lr": 0.5, "tokens_per_s": 2000})",
                          R"({"step": 2, "loss": 1.5, "lr": 0.25, "validation_loss": 4, "tokens_per_s": 4000})"));
  EXPECT_THAT(printed_, HasSubstr("step 1/3  loss 2.1235  lr 0.5  2.0k tokens/s  ETA 0:01"));
  EXPECT_THAT(printed_, HasSubstr("validation loss 4.0000 after step 2 (2 batches)"));
  EXPECT_EQ(progress_->evaluation().at("loss"), 4);
}

TEST_F(ProgressTest, AnEvaluationDoesNotCountAsTimeOfTheNextStep) {
  Running(0);
  Fetched(1'000'000, "train", "lr", 0, 1);
  Fetched(1'000'000, "train", "loss", 0, 1);
  PhaseDone(0, 1'000'000);
  PhaseDone(1, 60'000'000);
  Fetched(60'500'000, "train", "lr", 1, 1);
  Fetched(60'500'000, "train", "loss", 1, 1);
  progress_->Finish();
  ASSERT_EQ(metrics_.size(), 2u);
  EXPECT_THAT(metrics_[0], HasSubstr("\"tokens_per_s\": 1000}"));
  EXPECT_THAT(metrics_[1], HasSubstr("\"tokens_per_s\": 2000}"));
}

// However fast steps follow one another, and although a terminal's line is rewritten.
TEST_F(ProgressTest, EveryStepThatWasSkippedIsTold) {
  for (const char* name : {"loss_scale", "skipped"}) AlsoFetches(name);
  for (const bool terminal : {false, true}) {
    SCOPED_TRACE(terminal);
    printed_.clear();
    Watch(terminal);
    for (int step = 0; step < 3; ++step) {
      Fetched(step, "train", "loss", step, 2), Fetched(step, "train", "lr", step, 0.5);
      Fetched(step, "train", "loss_scale", step, step == 0 ? 0x1p25 : 0x1p24);
      Fetched(step, "train", "skipped", step, step < 2 ? 1 : 0);
    }
    progress_->Finish();
    EXPECT_THAT(printed_, HasSubstr("step 1/3  loss 2  lr 0.5  skipped: gradients overflow at loss scale 33554432\n"));
    EXPECT_THAT(printed_, HasSubstr("step 2/3  loss 2  lr 0.5  skipped: gradients overflow at loss scale 16777216\n"));
    EXPECT_THAT(printed_, HasSubstr("\nskipped 2 of 3 steps, whose gradients overflowed\n"));
  }
  EXPECT_THAT(metrics_[0], HasSubstr("\"loss_scale\": 33554432, \"lr\": 0.5, \"skipped\": 1,"));
}

TEST_F(ProgressTest, AnotherAttemptIsToldAndTheOneBeforeIsNotMixedWithIt) {
  Running(0);
  Fetched(1'000'000, "train", "loss", 0, 4), Fetched(1'000'000, "train", "lr", 0, 0.1);
  Fetched(2'000'000, "train", "loss", 1, 3);  // and its worker dies
  pb::JobEvent again;
  again.mutable_state()->set_state(pb::QUEUED);
  again.mutable_state()->set_message("attempt 2 of 3 after: worker 0 was killed");
  progress_->OnEvent(again);
  EXPECT_THAT(printed_, HasSubstr("attempt 2 of 3 after: worker 0 was killed\n"));
  Running(10'000'000);
  Fetched(12'000'000, "train", "lr", 1, 0.1), Fetched(12'000'000, "train", "loss", 1, 2);
  progress_->Finish();
  EXPECT_THAT(metrics_, ElementsAre(HasSubstr("\"step\": 1, \"loss\": 4"),
                                    AllOf(HasSubstr("\"step\": 2, \"loss\": 2"), HasSubstr("tokens_per_s\": 500"))));
}

TEST_F(ProgressTest, ValuesThatAreNotNumbersStayValidJson) {
  Fetched(1, "train", "lr", 0, 1);
  Fetched(2, "train", "loss", 0, std::numeric_limits<double>::quiet_NaN());
  progress_->Finish();
  ASSERT_EQ(metrics_.size(), 1u);
  EXPECT_THAT(metrics_[0], HasSubstr("\"loss\": null"));
}

TEST_F(ProgressTest, GeneratedTokensArePrintedAsTextBehindThePrompt) {
  Fetched(1, "generate", "token", 0, 'y');
  Fetched(2, "generate", "token", 1, '!');
  PhaseDone(4);
  progress_->Finish();
  EXPECT_THAT(printed_, HasSubstr("generated:\nHey!\n"));
}

TEST_F(ProgressTest, SpeedIsNamedAfterWhatTheJobCounts) {
  spec_.set_sample_unit("images");
  Watch(/*terminal=*/false);
  Running(0);
  Fetched(500'000, "train", "lr", 0, 0.5), Fetched(500'000, "train", "loss", 0, 2);
  progress_->Finish();
  EXPECT_THAT(metrics_, ElementsAre(HasSubstr("\"images_per_s\": 2000}")));
}

TEST_F(ProgressTest, ATerminalIsShownTextOnly) {
  const std::string bytes = "a\xc3\xa9\n\x1b[2J\xc3!\xff\xe2\x82";
  for (const bool terminal : {false, true}) {
    printed_.clear();
    Watch(terminal);
    for (const char byte : bytes) Fetched(0, "generate", "token", 0, static_cast<unsigned char>(byte));
    progress_->Finish();
    EXPECT_EQ(progress_->generated(), bytes);
    EXPECT_EQ(printed_,
              terminal ? "generated:\nHea\xc3\xa9\n\\x1b[2J\\xc3!\\xff\\xe2\\x82\n" : "generated:\nHe" + bytes + "\n");
  }
}

TEST_F(ProgressTest, CodesThatWereChosenAreALine) {
  pb::ClassPlan& choice = *plan_.add_plans();
  choice.set_name("compress/choose");
  choice.add_actors()->add_instructions()->set_op("fetch");
  choice.mutable_actors(0)->add_instructions()->set_op("fetch");
  Watch(/*terminal=*/false);
  Running(0);
  Fetched(1, "train", "loss", 0, 3);
  Fetched(1, "train", "lr", 0, 0.5);
  Fetched(2, "compress/choose", "b", 0, 7);
  EXPECT_THAT(printed_, Not(HasSubstr("codes")));
  Fetched(2, "compress/choose", "a", 0, 2);
  EXPECT_THAT(printed_, HasSubstr("codes after step 1: a 2, b 7\n"));
  ASSERT_EQ(metrics_.size(), 2);
  EXPECT_THAT(metrics_[0], HasSubstr("\"step\": 1, \"loss\": 3"));
  EXPECT_EQ(metrics_[1], "{\"step\": 1, \"codes\": {\"a\": 2, \"b\": 7}}");
}

}  // namespace
}  // namespace oneflow
