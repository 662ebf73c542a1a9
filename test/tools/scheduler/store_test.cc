#include "tools/scheduler/store.h"

#include <sqlite3.h>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/process/temp_dir.h"

namespace oneflow {
namespace {

using ::oneflow::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("store-test"));
    path_ = dir_->path() + "/jobs.db";
  }

  static Effects NewJob(int64_t job, pb::JobState state, int events) {
    Effects effects;
    pb::JobSpec spec;
    spec.set_name("a job");
    spec.set_plan(std::string("\0\1\2", 3));
    effects.new_jobs.emplace_back(job, spec);
    AddEvents(job, state, 0, events, effects);
    return effects;
  }
  static void AddEvents(int64_t job, pb::JobState state, int first, int count, Effects& effects) {
    effects.changed_jobs.emplace_back().set_job(job);
    effects.changed_jobs.back().set_state(state);
    for (int i = first; i < first + count; ++i) {
      pb::JobEvent event;
      event.set_sequence(i);
      event.mutable_fetched()->add_values(10 * i);
      effects.events.emplace_back(job, event);
    }
  }

  std::unique_ptr<TempDir> dir_;
  std::string path_;
};

TEST_F(StoreTest, WhatWasWrittenIsThereAfterReopening) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    EXPECT_OK(store->Apply(NewJob(3, pb::QUEUED, 2), true));
    EXPECT_OK(store->Apply(NewJob(4, pb::QUEUED, 1), false));
    Effects more;
    AddEvents(4, pb::RUNNING, 1, 4, more);
    EXPECT_OK(store->Apply(more, false));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_EQ(jobs[0].status.job(), 3);
  EXPECT_EQ(jobs[0].next_sequence, 2);
  EXPECT_EQ(jobs[0].spec.plan(), std::string("\0\1\2", 3));
  EXPECT_EQ(jobs[1].status.state(), pb::RUNNING);
  EXPECT_EQ(jobs[1].next_sequence, 5);
}

TEST_F(StoreTest, EventsAreReadInOrderFromAnyPoint) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(NewJob(1, pb::RUNNING, 12), false));
  EXPECT_OK(store->Apply(NewJob(2, pb::RUNNING, 3), false));
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobEvent> events, store->LoadEvents(1, 9, 2));
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].fetched().values(0), 90);
  EXPECT_EQ(events[1].sequence(), 10);
  EXPECT_THAT(*store->LoadEvents(1, 12, 5), IsEmpty());
}

TEST_F(StoreTest, AWriteThatFailsLeavesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(NewJob(1, pb::QUEUED, 1), false));
  Effects effects = NewJob(2, pb::QUEUED, 1);
  effects.new_jobs.emplace_back(1, pb::JobSpec());  // its number is taken
  EXPECT_THAT(store->Apply(effects, false), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot add a job")));
  ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
  EXPECT_THAT(jobs, SizeIs(1));
}

TEST_F(StoreTest, ASecondSchedulerIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_THAT(Store::Open(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another scheduler has it open")));
}

TEST_F(StoreTest, AStoreOfAnotherVersionIsRefused) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_THAT(Store::Open(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its version is 99; this scheduler writes 1")));
}

TEST_F(StoreTest, AFileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(Store::Open(dir_->path() + "/no/jobs.db").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/jobs.db': cannot open")));
}

}  // namespace
}  // namespace oneflow
