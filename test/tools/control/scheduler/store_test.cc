#include "tools/control/scheduler/store.h"

#include <sqlite3.h>

#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/lossy_disk.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("store-test"));
    path_ = dir_->path() + "/jobs.db";
  }

  static Effects NewJobEffects(int64_t job, pb::JobState state, int events,
                               const std::string& plan = std::string("\0\1\2", 3)) {
    Effects effects;
    pb::JobSpec spec;
    spec.set_name("a job");
    spec.set_plan_hash(absl::StrCat("hash of ", plan.substr(0, 9)));
    effects.new_jobs.push_back({job, spec, {std::make_shared<const std::string>(plan)}});
    AddEvents(job, state, 0, events, effects);
    return effects;
  }
  static void AddEvents(int64_t job, pb::JobState state, int first, int count, Effects& effects, int event_bytes = 0) {
    effects.changed_jobs.emplace_back().set_job(job);
    effects.changed_jobs.back().set_state(state);
    for (int i = first; i < first + count; ++i) {
      pb::JobEvent event;
      event.set_sequence(i);
      event.mutable_fetched()->add_values(10 * i);
      event.mutable_fetched()->set_name(std::string(event_bytes, 'e'));
      effects.events.emplace_back(job, event);
    }
  }
  // Losses of training, of the steps that the sequences say.
  static void AddSteps(int64_t job, int first, int count, Effects& effects) {
    for (int i = first; i < first + count; ++i) {
      pb::JobEvent event;
      event.set_sequence(i);
      event.mutable_fetched()->set_plan("train");
      event.mutable_fetched()->set_name("loss");
      event.mutable_fetched()->set_step(i);
      effects.events.emplace_back(job, event);
    }
  }
  // A job of 10 events that ended so many seconds after the epoch.
  static Effects EndedJob(int64_t job, int seconds, const std::string& plan = "a plan") {
    Effects effects = NewJobEffects(job, pb::FINISHED, 10, plan);
    effects.changed_jobs.back().set_finished_us(seconds * int64_t{1'000'000});
    return effects;
  }
  // Deletes all that the rule does not keep; in how many parts.
  static int PruneAll(Store& store, const EndedJobsRule& rule, absl::Time now) {
    int parts = 0;
    while (const int64_t job = store.FindExpired(rule, now).value_or(0)) {
      EXPECT_OK(store.DeletePart(job));
      ++parts;
    }
    return parts;
  }
  // One number that SQL finds in a store that nobody has open.
  int64_t Ask(const std::string& sql) const { return AskAt(path_, sql); }
  static int64_t AskAt(const std::string& path, const std::string& sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    int64_t number = -1;
    EXPECT_EQ(sqlite3_exec(
                  db, sql.c_str(),
                  [](void* to, int, char** values, char**) {
                    *static_cast<int64_t*>(to) = values[0] == nullptr ? -1 : std::stoll(values[0]);
                    return 0;
                  },
                  &number, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
    return number;
  }

  // A store as version 1 made it, with these rows.
  void MakeVersion1(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    const std::string all = absl::StrCat(
        "CREATE TABLE jobs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL, status BLOB NOT NULL,"
        " next_sequence INTEGER NOT NULL DEFAULT 0);",
        sql, "PRAGMA user_version=1");
    ASSERT_EQ(sqlite3_exec(db, all.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  std::unique_ptr<TempDir> dir_;
  std::string path_;
};

TEST_F(StoreTest, WhatWasWrittenIsThereAfterReopening) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    EXPECT_OK(store->Apply(NewJobEffects(3, pb::QUEUED, 2), true));
    EXPECT_OK(store->Apply(NewJobEffects(4, pb::QUEUED, 1), false));
    Effects more;
    AddEvents(4, pb::RUNNING, 1, 4, more);
    EXPECT_OK(store->Apply(more, false));
  }
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_EQ(jobs[0].status.job(), 3);
  EXPECT_EQ(jobs[0].next_sequence, 2);
  EXPECT_EQ(jobs[0].spec.name(), "a job");
  EXPECT_EQ(jobs[1].status.state(), pb::RUNNING);
  EXPECT_EQ(jobs[1].next_sequence, 5);
  EXPECT_EQ(*store->LoadPlan(jobs[0].spec.plan_hash()), std::string("\0\1\2", 3));
}

TEST_F(StoreTest, APlanIsStoredOnceAndInPieces) {
  std::string plan(5 << 20, 'x');
  for (size_t i = 0; i < plan.size(); i += 1000) plan[i] = static_cast<char>(i / 1000);
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    for (const int job : {1, 2, 3}) EXPECT_OK(store->Apply(NewJobEffects(job, pb::QUEUED, 1, plan), false));
    EXPECT_EQ(*store->LoadPlan(store->LoadSpec(2)->plan_hash()), plan);
  }
  EXPECT_EQ(Ask("SELECT count(*) FROM plan_pieces"), 5);
  EXPECT_EQ(Ask("SELECT max(length(spec) + length(status)) < 100 FROM jobs JOIN specs USING (job)"), 1)
      << "what is written with every event is small";
}

TEST_F(StoreTest, EventsAreReadInOrderFromAnyPoint) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(NewJobEffects(1, pb::RUNNING, 12), false));
  EXPECT_OK(store->Apply(NewJobEffects(2, pb::RUNNING, 3), false));
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobEvent> events, store->LoadEvents(1, 9, 2));
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].fetched().values(0), 90);
  EXPECT_EQ(events[1].sequence(), 10);
  EXPECT_THAT(*store->LoadEvents(1, 12, 5), IsEmpty());
}

TEST_F(StoreTest, AWriteThatFailsLeavesNothing) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(NewJobEffects(1, pb::QUEUED, 1), false));
  Effects effects = NewJobEffects(2, pb::QUEUED, 1);
  effects.events.push_back(effects.events.front());  // its number is taken
  EXPECT_THAT(store->Apply(effects, false), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot add an event")));
  ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
  EXPECT_THAT(jobs, SizeIs(1));
}

// --- What is no longer kept ---

TEST_F(StoreTest, AJobThatIsQueuedAgainHasItsSpecAndPlanWhateverIsKept) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(EndedJob(1, 100), false));
  const Effects submitted = NewJobEffects(1, pb::QUEUED, 0);
  PruneAll(*store, {.jobs = 0}, absl::Now());
  const std::string hash = submitted.new_jobs[0].spec.plan_hash();
  EXPECT_THAT(store->LoadPlan(hash).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no plan")));
  EXPECT_OK(store->Apply(submitted, false));
  EXPECT_EQ(*store->LoadPlan(hash), *submitted.new_jobs[0].plans[0]);
  EXPECT_OK(store->LoadSpec(1).status());
  EXPECT_EQ(PruneAll(*store, {.jobs = 0}, absl::Now()), 0) << "it has not ended";
}

TEST_F(StoreTest, TheLastJobsThatEndedAndThoseThatRunAreKept) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    for (const int job : {1, 2, 3}) EXPECT_OK(store->Apply(EndedJob(job, 100 - job), false));
    EXPECT_OK(store->Apply(NewJobEffects(4, pb::RUNNING, 10, "a plan"), false));
    const EndedJobsRule rule{.jobs = 2, .age = absl::Hours(1)};
    const absl::Time now = absl::FromUnixSeconds(200);
    EXPECT_EQ(PruneAll(*store, rule, now), 1);
    EXPECT_THAT(*store->LoadEvents(1, 0, 20), SizeIs(10));
    EXPECT_THAT(*store->LoadEvents(2, 0, 20), SizeIs(10));
    EXPECT_THAT(*store->LoadEvents(3, 0, 20), IsEmpty()) << "it ended first";
    EXPECT_THAT(*store->LoadEvents(4, 0, 20), SizeIs(10));
    EXPECT_THAT(store->LoadSpec(3), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job 3 is no longer kept")));
    EXPECT_OK(store->LoadPlan("hash of a plan")) << "others have it";
    ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
    ASSERT_THAT(jobs, SizeIs(3)) << "nothing says that it was";
    EXPECT_EQ(jobs[2].status.job(), 4);
  }
  EXPECT_EQ(Ask("SELECT count(*) FROM specs"), 3);
}

TEST_F(StoreTest, AnOldJobGoesWithItsPlanThoughThereIsRoom) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    EXPECT_OK(store->Apply(EndedJob(1, 100, "its own"), false));
    EXPECT_OK(store->Apply(EndedJob(2, 101, "another"), false));
    const EndedJobsRule rule{.jobs = 10, .age = absl::Seconds(50)};
    EXPECT_EQ(PruneAll(*store, rule, absl::FromUnixSeconds(151)), 1);
  }
  EXPECT_EQ(Ask("SELECT count(*) FROM plans"), 1);
  EXPECT_EQ(Ask("SELECT count(*) FROM plan_pieces"), 1);
  EXPECT_EQ(Ask("SELECT job FROM specs"), 2);
}

TEST_F(StoreTest, ManyEventsAreDeletedPartByPart) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  Effects effects = NewJobEffects(1, pb::FINISHED, 25'000);
  effects.changed_jobs.back().set_finished_us(1);
  EXPECT_OK(store->Apply(effects, false));
  const EndedJobsRule none{.jobs = 0};
  EXPECT_EQ(*store->FindExpired(none, absl::FromUnixSeconds(10)), 1);
  EXPECT_OK(store->DeletePart(1));
  EXPECT_THAT(store->LoadEvents(1, 0, 5),
              StatusIs(absl::StatusCode::kFailedPrecondition, "the events of job 1 from 0 to 9999 are no longer kept"));
  EXPECT_EQ(PruneAll(*store, none, absl::FromUnixSeconds(10)), 2);
  EXPECT_THAT(*store->LoadJobs(), SizeIs(1)) << "the newest job's number is not given again";
}

TEST_F(StoreTest, ALongCurveIsThinnedButNotWhatSomeoneWants) {
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
  EXPECT_OK(store->Apply(NewJobEffects(1, pb::RUNNING, 100), false));
  EXPECT_EQ(store->FindGrown(), 0) << "too few to look through";
  Effects values;
  AddSteps(1, 100, 20'000, values);
  EXPECT_OK(store->Apply(values, false));
  const auto count_from = [&](int64_t sequence) {
    return static_cast<int64_t>(store->LoadEvents(1, sequence, 100'000)->size());
  };
  EXPECT_EQ(store->FindGrown(), 1);
  EXPECT_OK(store->Thin(1, 5000));
  EXPECT_EQ(count_from(5000), 15'100);
  EXPECT_LT(count_from(0), 15'100 + 1000);
  EXPECT_EQ(store->FindGrown(), 0) << "nothing new has come";
  AddSteps(1, 20'100, 4000, values = {});
  EXPECT_OK(store->Apply(values, false));
  EXPECT_EQ(store->FindGrown(), 1);
  EXPECT_OK(store->Thin(1, INT64_MAX));
  EXPECT_LT(count_from(0), 1000);
  ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobEvent> events, store->LoadEvents(1, 24'000, 2000));
  EXPECT_EQ(events.size(), 100u) << "the last are kept";
  EXPECT_EQ(events.back().sequence(), 24'099);
}

// --- Versions, other schedulers, files ---

TEST_F(StoreTest, AStoreOfVersion1IsCarriedOver) {
  // As version 1 wrote it: job 1 queued, with name 'old', plan '012' and hash 'abc'; job 2 finished at 7 us, the same.
  MakeVersion1(
      "CREATE TABLE events (job INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL,"
      " PRIMARY KEY (job, sequence)) WITHOUT ROWID;"
      "INSERT INTO jobs VALUES (1, x'0a036f6c641203303132' || x'1a03616263', x'0801', 1);"
      "INSERT INTO jobs VALUES (2, x'0a036f6c641203303132' || x'1a03616263', x'080218033007', 2);"
      "INSERT INTO events VALUES (1, 0, x'1a00'), (2, 0, x'1a00'), (2, 1, x'08011a020803');");
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, store->LoadJobs());
    ASSERT_THAT(jobs, SizeIs(2));
    EXPECT_EQ(jobs[0].status.state(), pb::QUEUED);
    EXPECT_EQ(jobs[0].spec.name(), "old");
    EXPECT_EQ(jobs[0].spec.plan(), "");
    EXPECT_EQ(jobs[0].next_sequence, 1);
    EXPECT_EQ(*store->LoadPlan(jobs[0].spec.plan_hash()), "012");
    EXPECT_EQ(jobs[1].status.state(), pb::FINISHED);
    ASSERT_OK_AND_ASSIGN(const std::vector<pb::JobEvent> events, store->LoadEvents(2, 0, 10));
    ASSERT_THAT(events, SizeIs(2));
    EXPECT_EQ(events[1].state().state(), pb::FINISHED);
    EXPECT_OK(store->Apply(NewJobEffects(3, pb::QUEUED, 1), true));
  }
  ASSERT_OK_AND_ASSIGN(const auto again, Store::Open(path_));
  EXPECT_THAT(*again->LoadJobs(), SizeIs(3));
  EXPECT_GT(PruneAll(*again, {.jobs = 0}, absl::FromUnixSeconds(10)), 0) << "when it finished is known";
}

TEST_F(StoreTest, AStoreOfVersion1ThatCannotBeReadStaysAsItWas) {
  MakeVersion1("INSERT INTO jobs VALUES (5, x'ff', x'', 0);");
  EXPECT_THAT(Store::Open(path_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("jobs.db': job 5 of version 1 cannot be read")));
  EXPECT_EQ(Ask("PRAGMA user_version"), 1);
  EXPECT_EQ(Ask("SELECT job FROM jobs WHERE spec = x'ff'"), 5);
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
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("its version is 99; this scheduler writes 3")));
}

TEST_F(StoreTest, AFileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(Store::Open(dir_->path() + "/no/jobs.db").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/jobs.db': cannot open")));
}

// --- Power failures ---

TEST_F(StoreTest, AStoreOfVersion2IsCarriedOver) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    ASSERT_OK(store->Apply(EndedJob(1, 7, "one"), true));
    ASSERT_OK(store->Apply(NewJobEffects(2, pb::QUEUED, 1, "two"), true));
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "ALTER TABLE specs RENAME TO specs_3;"
                         "CREATE TABLE specs (job INTEGER PRIMARY KEY, plan_hash BLOB NOT NULL, spec BLOB NOT NULL);"
                         "CREATE INDEX specs_plan ON specs (plan_hash);"
                         "INSERT INTO specs SELECT job, hash, spec FROM specs_3 JOIN job_plans USING (job);"
                         "DROP TABLE specs_3; DROP TABLE job_plans; PRAGMA user_version=2",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    EXPECT_EQ(*store->LoadPlan(store->LoadSpec(2)->plan_hash()), "two");
    EXPECT_OK(store->Apply(NewJobEffects(3, pb::QUEUED, 1, "three"), true));
    PruneAll(*store, {.jobs = 0}, absl::FromUnixSeconds(10));
  }
  EXPECT_EQ(Ask("SELECT count(*) FROM plans"), 2) << "all but that of the job that has ended";
  EXPECT_EQ(Ask("SELECT count(*) FROM job_plans"), 2);
}

TEST_F(StoreTest, PlansOfFallbacksGoWithTheLastJobThatHasThem) {
  const auto with_fallback = [](int64_t job, const std::string& plan) {
    Effects effects = EndedJob(job, 7, plan);
    effects.new_jobs[0].spec.add_fallbacks()->set_plan_hash("of the smaller");
    effects.new_jobs[0].plans.push_back(std::make_shared<const std::string>("smaller"));
    return effects;
  };
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_));
    ASSERT_OK(store->Apply(with_fallback(1, "one"), true));
    ASSERT_OK(store->Apply(with_fallback(2, "two"), true));
    EXPECT_EQ(*store->LoadPlan("of the smaller"), "smaller");
    PruneAll(*store, {.jobs = 1}, absl::FromUnixSeconds(10));
    EXPECT_EQ(*store->LoadPlan("of the smaller"), "smaller");
    EXPECT_THAT(store->LoadPlan("hash of one"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no plan")));
    PruneAll(*store, {.jobs = 0}, absl::FromUnixSeconds(10));
  }
  for (const char* table : {"plans", "plan_pieces", "job_plans", "specs"}) {
    EXPECT_EQ(Ask(absl::StrCat("SELECT count(*) FROM ", table)), 0) << table;
  }
}

// After every write the power fails in several ways. What was durable is there in all of them; what was not is there up
// to some point, without gaps; and the file is whole.
TEST_F(StoreTest, WhatWasDurableSurvivesAPowerFailure) {
  LossyDisk disk("lossy");
  ASSERT_OK_AND_ASSIGN(const auto store, Store::Open(path_, "lossy"));
  std::mt19937_64 random(1);
  int events = 0, durable = 0;
  for (int step = 0; step < 25; ++step) {
    const bool sure = random() % 3 == 0;
    Effects effects;
    if (step == 0) effects = NewJobEffects(1, pb::RUNNING, 0, std::string(1 << 20, 'p'));
    const int count = 1 + static_cast<int>(random() % 400);  // enough for several checkpoints of the log
    AddEvents(1, pb::RUNNING, events, count, effects, 1000);
    ASSERT_OK(store->Apply(effects, sure || step == 0));
    events += count;
    if (sure || step == 0) durable = events;
    for (const int way : {0, 1}) {
      const std::string found = absl::StrCat(dir_->path(), "/", step, "-", way);
      disk.FailPower(2 * step + way, found);
      ASSERT_EQ(AskAt(found + "/jobs.db", "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
                0);
      ASSERT_OK_AND_ASSIGN(const auto after, Store::Open(found + "/jobs.db"));
      ASSERT_OK_AND_ASSIGN(const std::vector<StoredJob> jobs, after->LoadJobs());
      ASSERT_THAT(jobs, SizeIs(1)) << "step " << step;
      ASSERT_GE(jobs[0].next_sequence, durable) << "step " << step;
      ASSERT_LE(jobs[0].next_sequence, events);
      ASSERT_THAT(*after->LoadEvents(1, 0, 100'000), SizeIs(jobs[0].next_sequence));
      ASSERT_EQ(after->LoadPlan(jobs[0].spec.plan_hash())->size(), 1 << 20);
      std::filesystem::remove_all(found);
    }
  }
}

}  // namespace
}  // namespace oneflow
