#include "tools/control/scheduler/effect_writer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

// Writes down what it is told, and what the store has of it at that moment.
class Recorder final : public EffectWriter::Owner {
 public:
  void OnStored(const Effects& effects, absl::Duration) override {
    if (effects.stores()) calls.push_back("stored");
  }
  void Tell(Effects& effects, const std::vector<LostStart>& lost) override {
    for (const auto& [job, event] : effects.events) {
      const auto kept = writer->LoadEvents(job, event.sequence(), 1);
      calls.push_back(absl::StrCat("told ", event.sequence(), kept.ok() ? ", stored" : ""));
    }
    for (const auto& [session, message] : effects.messages) {
      calls.push_back(absl::StrCat("to ", session, message.has_start() ? " start" : "",
                                   message.start().spec().plan().empty() ? "" : " with its plan"));
    }
    for (const LostStart& start : lost) {
      calls.push_back(absl::StrCat("job ", start.job, " is lost: ", start.why));
    }
  }
  void OnStoreFailed(const absl::Status& status) override { calls.push_back(status.ToString()); }
  int64_t FirstUnread(int64_t) override { return 0; }
  Forgetting Forget(int64_t) override { return Forgetting::kNotYet; }

  EffectWriter* writer = nullptr;
  std::vector<std::string> calls;
};

class EffectWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("effect-writer-test"));
    ASSERT_OK_AND_ASSIGN(auto store, Store::Open(dir_->path() + "/jobs.db"));
    writer_ = std::make_unique<EffectWriter>(std::move(store), keep_, clock_, owner_);
    owner_.writer = writer_.get();
  }

  static Effects NewJob(int64_t job, const std::string& plan) {
    Effects effects;
    pb::JobSpec spec;
    spec.set_name("a job");
    spec.set_plan_hash("hash of " + plan);
    effects.new_jobs.push_back({job, spec, {std::make_shared<const std::string>(plan)}});
    effects.changed_jobs.emplace_back().set_job(job);
    return effects;
  }
  static Effects Event(int64_t job, int64_t sequence) {
    Effects effects;
    pb::JobEvent event;
    event.set_sequence(sequence);
    event.mutable_fetched()->add_values(1);
    effects.events.emplace_back(job, event);
    return effects;
  }
  static void AddStart(SessionId session, int64_t job, const std::string& plan, Effects& effects) {
    pb::ToDaemon message;
    message.mutable_start()->set_job(job);
    message.mutable_start()->mutable_spec()->set_plan_hash("hash of " + plan);
    effects.messages.emplace_back(session, std::move(message));
  }

  EndedJobsRule keep_;
  std::unique_ptr<TempDir> dir_;
  SteadyClock clock_;
  Recorder owner_;
  std::unique_ptr<EffectWriter> writer_;
};

TEST_F(EffectWriterTest, WhatIsToldIsStoredBefore) {
  writer_->Start();
  EXPECT_OK(writer_->AwaitStored(writer_->Perform(NewJob(1, "p"))));
  EXPECT_OK(writer_->AwaitStored(writer_->Perform(Event(1, 0))));
  EXPECT_THAT(owner_.calls, ElementsAre("stored", "stored", "told 0, stored"));
}

TEST_F(EffectWriterTest, WhatComesMeanwhileIsOneTransactionInItsOrder) {
  writer_->Perform(NewJob(1, "p"));
  for (int i = 0; i < 3; ++i) writer_->Perform(Event(1, i));
  EXPECT_TRUE(writer_->HasPending());
  EXPECT_THAT(owner_.calls, IsEmpty());
  writer_->Start();
  writer_->Finish();  // stores what there is
  EXPECT_FALSE(writer_->HasPending());
  EXPECT_THAT(owner_.calls, ElementsAre("stored", "told 0, stored", "told 1, stored", "told 2, stored"));
}

TEST_F(EffectWriterTest, EffectsThatSayNothingTakeNoPlace) {
  const int64_t place = writer_->Perform(NewJob(1, "p"));
  EXPECT_EQ(writer_->Perform(Effects()), place);
  EXPECT_EQ(writer_->Perform(Event(1, 0)), place + 1);
}

// A daemon keeps the last plan that it was sent.
TEST_F(EffectWriterTest, AStartHasThePlanTheFirstTimeItGoesToADaemon) {
  Effects effects = NewJob(1, "p");
  AddStart(7, 1, "p", effects);
  AddStart(7, 1, "p", effects);
  AddStart(8, 1, "p", effects);
  writer_->Perform(std::move(effects));
  writer_->Start();
  writer_->Finish();
  EXPECT_THAT(owner_.calls,
              ElementsAre("stored", "to 7 start with its plan", "to 7 start", "to 8 start with its plan"));
}

TEST_F(EffectWriterTest, AJobWhosePlanIsLostIsNotStarted) {
  Effects effects = NewJob(1, "p");
  AddStart(7, 1, "p", effects);
  AddStart(7, 2, "of nobody", effects);
  writer_->Perform(std::move(effects));
  writer_->Start();
  writer_->Finish();
  ASSERT_THAT(owner_.calls, SizeIs(3));
  EXPECT_EQ(owner_.calls[1], "to 7 start with its plan");
  EXPECT_THAT(owner_.calls[2], HasSubstr("job 2 is lost: the store is damaged: "));
}

TEST_F(EffectWriterTest, SpecsAndEventsAreReadThroughIt) {
  writer_->Start();
  Effects effects = NewJob(1, "p");
  effects.Append(Event(1, 0));
  EXPECT_OK(writer_->AwaitStored(writer_->Perform(std::move(effects))));
  ASSERT_OK_AND_ASSIGN(const pb::JobSpec spec, writer_->LoadSpec(1, /*with_plan=*/true));
  EXPECT_EQ(spec.plan(), "p");
  EXPECT_THAT(writer_->LoadSpec(2, /*with_plan=*/false),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no longer kept")));
  ASSERT_OK_AND_ASSIGN(const auto events, writer_->LoadEvents(1, 0, 10));
  EXPECT_THAT(events, SizeIs(1));
}

}  // namespace
}  // namespace oneflow
