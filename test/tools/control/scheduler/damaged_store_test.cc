// A law: whatever one row of the scheduler's store has become, the scheduler starts, and every job of which the row is
// not goes on.
#include <sqlite3.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/fake_daemon.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/client.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/scheduler/service.h"

namespace oneflow {
namespace {

using Row = std::vector<std::string>;

// A table of the store, and the columns that name a row; of what is in it, `value` is a blob.
struct Table {
  const char* name;
  const char* keys[2];  // the second may be null
  const char* value;
};
constexpr Table kTables[] = {{"jobs", {"job", nullptr}, "status"},        {"jobs", {"job", nullptr}, "next_sequence"},
                             {"jobs", {"job", nullptr}, "finished_us"},   {"specs", {"job", nullptr}, "spec"},
                             {"job_plans", {"job", "hash"}, nullptr},     {"plans", {"hash", nullptr}, nullptr},
                             {"plan_pieces", {"hash", "piece"}, "bytes"}, {"workers", {"job", "process"}, "worker"},
                             {"daemons", {"name", nullptr}, "daemon"},    {"events", {"job", "sequence"}, "event"}};

class Database {
 public:
  explicit Database(const std::string& path) { EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK); }
  ~Database() { sqlite3_close(db_); }

  std::vector<Row> Ask(const std::string& sql) {
    std::vector<Row> rows;
    const auto add = [](void* to, int columns, char** values, char**) {
      Row& row = static_cast<std::vector<Row>*>(to)->emplace_back();
      for (int i = 0; i < columns; ++i) row.emplace_back(values[i] == nullptr ? "NULL" : values[i]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), add, &rows, nullptr), SQLITE_OK) << sql << ": " << sqlite3_errmsg(db_);
    return rows;
  }

 private:
  sqlite3* db_ = nullptr;
};

// Bytes that a disk, or whoever writes to it, may have left in the place of these.
std::string Damaged(std::string bytes, std::mt19937_64& random) {
  switch (random() % 3) {
    case 0:  // some are others
      for (size_t i = 0; i <= bytes.size() / 16 && !bytes.empty(); ++i) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      return bytes;
    case 1:  // the end is missing
      return bytes.substr(0, bytes.empty() ? 0 : random() % bytes.size());
    default:  // all are others
      for (char& byte : bytes) byte = static_cast<char>(random());
      return bytes;
  }
}

class DamagedStoreTest : public ::testing::Test {
 protected:
  static constexpr int kFinished = 1, kOnFirst = 2, kOnSecond = 3, kQueued = 4;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("damaged-store-test"));
    Start("good");
    FakeDaemon first(server_->address(), "d1", 1);
    EXPECT_TRUE(first.Read().has_welcome());
    RunOn(first);  // kFinished
    pb::FromWorker finished;
    finished.mutable_finished();
    first.Say(kFinished, finished);
    EXPECT_TRUE(first.Read().to_worker().message().has_dismissal());
    pb::FromDaemon exited;
    exited.mutable_exited()->set_job(kFinished);
    exited.mutable_exited()->set_attempt(1);
    first.Write(exited);
    RunOn(first);  // kOnFirst
    FakeDaemon second(server_->address(), "d2", 1);
    EXPECT_TRUE(second.Read().has_welcome());
    RunOn(second);    // kOnSecond
    Submit(kQueued);  // for a third, which is not there
    server_->Stop();
    server_.reset();
  }
  void Start(const std::string& name) {
    SchedulerOptions options{.db_path = absl::StrCat(dir_->path(), "/", name)};
    options.keep = keep_;
    options.limits.lease = absl::Hours(1);  // the daemons of this test send no heartbeats
    ASSERT_OK_AND_ASSIGN(server_, SchedulerServer::Start(options));
    ASSERT_OK_AND_ASSIGN(client_, Client::Connect(server_->address(), absl::Seconds(10)));
  }
  // A job whose plan no other has.
  void Submit(int expected) {
    const absl::StatusOr<int64_t> job = client_->Submit(EmptyJob(1, 1, 1, ++last_bytes_));
    ASSERT_OK(job);
    ASSERT_EQ(*job, expected);
  }
  void RunOn(FakeDaemon& daemon) {
    const int job = ++last_job_;
    Submit(job);
    daemon.StartWorker(job);
  }

  // Damages one row of the store; the jobs that it is of.
  std::set<int64_t> DamageOne(const std::string& path, std::mt19937_64& random, std::string& what) {
    Database db(path);
    const Table& table = kTables[random() % std::size(kTables)];
    const std::string columns =
        absl::StrCat("quote(", table.keys[0], ")", table.keys[1] ? absl::StrCat(", quote(", table.keys[1], ")") : "");
    const std::vector<Row> rows = db.Ask(absl::StrCat("SELECT ", columns, " FROM ", table.name));
    const Row& key = rows[random() % rows.size()];
    const std::string row = absl::StrCat(" WHERE ", table.keys[0], " = ", key[0],
                                         table.keys[1] ? absl::StrCat(" AND ", table.keys[1], " = ", key[1]) : "");
    std::set<int64_t> jobs;
    const std::string first = table.keys[0];
    const std::string of_row = first == "job" ? absl::StrCat("SELECT ", key[0])
                               : first == "hash"
                                   ? absl::StrCat("SELECT job FROM job_plans WHERE hash = ", key[0])
                                   : absl::StrCat("SELECT ", key[0] == "X'6431'" ? int{kOnFirst} : int{kOnSecond});
    for (const Row& job : db.Ask(of_row)) jobs.insert(std::stoll(job[0]));
    if (table.value == nullptr || random() % 4 == 0) {
      what = absl::StrCat("DELETE FROM ", table.name, row);
    } else {
      const std::string old = db.Ask(absl::StrCat("SELECT hex(", table.value, ") FROM ", table.name, row))[0][0];
      const std::string is = Damaged(absl::HexStringToBytes(old), random);
      what = absl::StrCat("UPDATE ", table.name, " SET ", table.value, " = x'", absl::BytesToHexString(is), "'", row);
    }
    db.Ask(what);
    return jobs;
  }

  std::map<int64_t, pb::JobStatus> Jobs() {
    std::map<int64_t, pb::JobStatus> jobs;
    const absl::StatusOr<std::vector<pb::JobStatus>> list = client_->List();
    EXPECT_OK(list);
    for (const pb::JobStatus& job : *list) jobs[job.job()] = job;
    return jobs;
  }

  EndedJobsRule keep_;
  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<SchedulerServer> server_;
  std::unique_ptr<Client> client_;
  int last_job_ = 0, last_bytes_ = 0;
};

TEST_F(DamagedStoreTest, OneRowCostsOneJob) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  int failed = 0;
  for (int round = 0; round < 80; ++round) {
    const std::string name = absl::StrCat("copy", round), path = absl::StrCat(dir_->path(), "/", name);
    std::filesystem::copy_file(dir_->path() + "/good", path);
    std::string what;
    const std::set<int64_t> victims = DamageOne(path, random, what);
    SCOPED_TRACE(what);
    Start(name);
    ASSERT_FALSE(HasFatalFailure());
    FakeDaemon first(server_->address(), "d1", 1, {kOnFirst}), second(server_->address(), "d2", 1, {kOnSecond});
    const pb::ToDaemon kept[] = {first.Read(), second.Read()};
    for (const int job : {kOnFirst, kOnSecond}) {
      if (!victims.contains(job)) {
        EXPECT_EQ(kept[job == kOnSecond].welcome().keep_size(), 1) << job;
      }
    }
    FakeDaemon third(server_->address(), "d3", 1);
    EXPECT_TRUE(third.Read().has_welcome());
    // Where a victim ran there may be room now.
    if (!victims.contains(kQueued) && !victims.contains(kOnFirst) && !victims.contains(kOnSecond)) {
      const pb::ToDaemon start = third.Read();
      EXPECT_EQ(start.start().job(), kQueued);
      EXPECT_THAT(start.start().spec().plan(), Not(::testing::IsEmpty()));
    }
    const std::map<int64_t, pb::JobState> expected = {
        {kFinished, pb::FINISHED}, {kOnFirst, pb::RUNNING}, {kOnSecond, pb::RUNNING}, {kQueued, pb::STARTING}};
    std::map<int64_t, pb::JobStatus> jobs = Jobs();
    for (const auto& [job, state] : expected) {
      const pb::JobStatus& status = jobs[job];
      if (!victims.contains(job)) {
        EXPECT_EQ(pb::JobState_Name(status.state()), pb::JobState_Name(state)) << job;
      }
      if (status.state() != pb::FAILED) continue;
      EXPECT_FALSE(status.message().empty()) << "it says why";
      ++failed;
    }
    // And it takes new ones, whose numbers nobody has.
    const absl::StatusOr<int64_t> next = client_->Submit(EmptyJob(1, 1));
    EXPECT_OK(next);
    EXPECT_EQ(next.value_or(0), kQueued + 1);
    server_->Stop();
    server_.reset();
    std::filesystem::remove(path);
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 10) << "damage that nobody sees is no test";
}

TEST_F(DamagedStoreTest, TheJobSaysWhatIsDamaged) {
  const struct {
    const char *sql, *says;
  } cases[] = {
      {"UPDATE jobs SET status = x'ff' WHERE job = 2", "the store is damaged: the job's status cannot be read"},
      {"DELETE FROM jobs WHERE job = 4", "the store is damaged: the job's status cannot be read"},
      {"UPDATE specs SET spec = x'ff'", "the store is damaged: the job's spec cannot be read"},
      {"DELETE FROM specs", "the store is damaged: the job's spec cannot be read"},
      {"UPDATE workers SET worker = x'ff'", "the store is damaged: worker 0 of the job cannot be read"},
      {"DELETE FROM workers", "the store does not say where the job ran"},
      {"DELETE FROM plans", "there is no plan"},
      {"UPDATE plan_pieces SET bytes = x'00'", "the plan's SHA-256 is"},
  };
  for (const auto& c : cases) {
    const std::string path = dir_->path() + "/copy";
    std::filesystem::copy_file(dir_->path() + "/good", path, std::filesystem::copy_options::overwrite_existing);
    Database(path).Ask(c.sql);
    Start("copy");
    const int job = absl::StrContains(c.sql, "job = 4") ? kQueued : kOnFirst;
    const pb::JobStatus status = Jobs()[job];
    EXPECT_EQ(pb::JobState_Name(status.state()), "FAILED") << c.sql;
    EXPECT_THAT(status.message(), HasSubstr(c.says)) << c.sql;
    server_->Stop();
    server_.reset();
  }
}

// What is lost while the scheduler runs is found when the job is to start: of a job that is not known to have the plan,
// it goes with another's.
TEST_F(DamagedStoreTest, APlanThatIsLostWhileItsJobWaitsCostsThatJobAlone) {
  const pb::JobSpec shared = EmptyJob(1, 1, 1, 77);
  Start("shared");
  EXPECT_EQ(client_->Submit(shared).value_or(0), 1);
  EXPECT_OK(client_->Cancel(1));
  EXPECT_EQ(client_->Submit(shared).value_or(0), 2);
  EXPECT_EQ(client_->Submit(EmptyJob(1, 1)).value_or(0), 3);
  EXPECT_EQ(client_->Submit(EmptyJob(1, 1)).value_or(0), 4);
  EXPECT_OK(client_->Cancel(4));
  server_.reset();
  Database(dir_->path() + "/shared").Ask("DELETE FROM job_plans WHERE job = 2");
  keep_ = {.jobs = 1, .every = absl::Milliseconds(1)};
  Start("shared");
  while (Jobs().contains(1)) std::this_thread::yield();
  EXPECT_EQ(client_->Submit(EmptyJob(1, 1)).value_or(0), 5) << "what is stored comes after what is deleted";
  FakeDaemon daemon(server_->address(), "d1", 1);
  EXPECT_TRUE(daemon.Read().has_welcome());
  EXPECT_EQ(daemon.Read().start().job(), 3) << "the next, and never 2";
  std::string end;
  EXPECT_OK(client_->Watch(2, 0, [&end](const pb::JobEvent& event) {
    if (event.has_state()) end = event.state().message();
    return true;
  }));
  EXPECT_THAT(end, ::testing::AllOf(HasSubstr("the store is damaged"), HasSubstr("there is no plan")));
}

}  // namespace
}  // namespace oneflow
