#include "tools/control/scheduler/store.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "tools/control/scheduler/schema.h"
#include "tools/control/scheduler/spec.h"
#include "tools/control/scheduler/statement.h"

namespace oneflow {
namespace {

// Of an ended job, deleted at once: a few milliseconds, which a lease does not notice.
constexpr int64_t kEventsPerPart = 10'000;
// At least so many new events of a job, and an eighth of what it had, before all of them are looked through.
constexpr int64_t kThinnedAfter = 200;
// No job has more (spec.cc): beyond it a number of one is damaged.
constexpr int64_t kMostStoredWorkers = 65536;

// Whether it is what a scheduler writes of this job.
bool IsWritten(const pb::JobStatus& status, int64_t job, int64_t finished_us) {
  return status.job() == job && pb::JobState_IsValid(status.state()) && status.finished_us() == finished_us &&
         (status.state() >= pb::FINISHED) == (finished_us != 0) && status.attempt() >= 0 && status.fallback() >= 0;
}

// Whether status, spec and workers of a job that has not ended are of one another.
bool AreTogether(const StoredJob& job) {
  const pb::JobStatus& status = job.status;
  if (status.fallback() > job.spec.fallbacks_size()) return false;
  const pb::JobSpec layout = OnLayout(job.spec, status.fallback());
  if (status.processes() != layout.processes()) return false;
  if (status.devices_per_process() != layout.devices_per_process()) return false;
  if (!status.device().empty() && status.device() != layout.device()) return false;
  const bool runs = status.state() != pb::QUEUED && !job.workers.empty();
  return !runs || job.workers.size() >= static_cast<size_t>(layout.processes());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& path, const char* vfs) {
  sqlite3* db = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
  std::unique_ptr<Store> store(new Store(path, db));  // closes db also on errors
  if (opened != SQLITE_OK) return store->Error("open");
  // Locked for as long as it is open: two schedulers on one store would give the same job twice.
  const int locked =
      sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; BEGIN EXCLUSIVE; COMMIT;", nullptr,
                   nullptr, nullptr);
  if (locked == SQLITE_BUSY) {
    return absl::FailedPreconditionError(absl::StrCat("store '", path, "': another scheduler has it open"));
  }
  if (locked != SQLITE_OK) return store->Error("lock");
  OF_RETURN_IF_ERROR_AT(PrepareSchema(db), absl::StrCat("store '", path, "'"));
  // 256 KiB of pages are kept. What grows is written at its end; whoever reads more finds it in the system's memory.
  OF_RETURN_IF_ERROR(store->Execute("PRAGMA cache_size=-256"));
  return store;
}

Store::~Store() { sqlite3_close_v2(db_); }

absl::StatusOr<std::vector<StoredJob>> Store::LoadJobs() {
  // A row that is lost leaves the job's spec, and with it the job's number is taken.
  OF_RETURN_IF_ERROR(
      Execute("INSERT INTO jobs (job, status) SELECT job, x'' FROM specs"
              " WHERE job > 0 AND job NOT IN (SELECT job FROM jobs)"));
  std::vector<StoredJob> jobs;
  Statement query(db_, "SELECT job, status, next_sequence, finished_us FROM jobs WHERE job > 0 ORDER BY job");
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    OF_ASSIGN_OR_RETURN(StoredJob job, LoadJob(query.Int(0), query.Blob(1), query.Int(3)));
    job.next_sequence = std::max<int64_t>(job.next_sequence, query.Int(2));
    jobs.push_back(std::move(job));
  }
  if (result != SQLITE_DONE) return Error("read jobs");
  return jobs;
}

absl::StatusOr<StoredJob> Store::LoadJob(int64_t number, absl::string_view status, int64_t finished_us) {
  StoredJob job;
  const auto damaged = [&](absl::string_view what) {
    if (job.valid.ok()) job.valid = absl::DataLossError(absl::StrCat("the store is damaged: ", what));
  };
  const bool is_read = job.status.ParseFromArray(status.data(), static_cast<int>(status.size())) &&
                       IsWritten(job.status, number, finished_us);
  if (!is_read) {
    damaged("the job's status cannot be read");
    job.status.Clear();
    job.status.set_job(number);
    job.status.set_state(finished_us > 0 ? pb::FAILED : pb::QUEUED);
    job.status.set_finished_us(std::max<int64_t>(finished_us, 0));
    job.status.set_message(std::string(job.valid.message()));
  }
  OF_ASSIGN_OR_RETURN(job.next_sequence, NextSequence(number));
  if (const absl::Status workers = LoadWorkers(number, job.workers); absl::IsDataLoss(workers)) {
    damaged(workers.message());
  } else if (!workers.ok()) {
    return workers;
  }
  if (job.status.state() < pb::FINISHED) {
    absl::StatusOr<pb::JobSpec> spec = LoadSpec(number);
    if (spec.ok()) {
      job.spec = *std::move(spec);
      if (!is_read) job.status.set_name(job.spec.name());
      if (!AreTogether(job)) damaged("status, spec and workers of the job are not of one another");
    } else if (absl::IsNotFound(spec.status()) || absl::IsDataLoss(spec.status())) {
      damaged("the job's spec cannot be read");
    } else {
      return spec.status();
    }
  }
  LOG_IF(ERROR, !job.valid.ok()) << "store '" << path_ << "': job " << number << ": " << job.valid.message();
  return job;
}

absl::Status Store::LoadWorkers(int64_t job, std::vector<pb::StoredWorker>& workers) {
  pb::StoredWorker gone;
  gone.set_released(true);
  std::vector<bool> is_read;
  absl::Status status;
  Statement query(db_, "SELECT process, worker FROM workers WHERE job = ? ORDER BY process");
  query.Bind(1, job);
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    const int64_t process = query.Int(0);
    const bool has_place = process >= 0 && process < kMostStoredWorkers;
    if (has_place && process >= static_cast<int64_t>(workers.size())) {
      workers.resize(process + 1, gone);
      is_read.resize(process + 1, false);
    }
    pb::StoredWorker worker;
    if (!has_place || !query.Parse(1, worker) || worker.phases_done() < 0) continue;
    workers[process] = std::move(worker);
    is_read[process] = true;
  }
  if (result != SQLITE_DONE) return Error("read workers");
  const auto lost = std::find(is_read.begin(), is_read.end(), false);
  if (lost == is_read.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("worker ", lost - is_read.begin(), " of the job cannot be read"));
}

absl::StatusOr<int64_t> Store::NextSequence(int64_t job) {
  Statement query(db_, "SELECT max(sequence) + 1 FROM events WHERE job = ?");
  if (query.Bind(1, job).Step() != SQLITE_ROW) return Error("count events");
  return query.Int(0);
}

absl::StatusOr<std::map<std::string, pb::StoredDaemon>> Store::LoadDaemons() {
  std::map<std::string, pb::StoredDaemon> daemons;
  Statement query(db_, "SELECT name, daemon FROM daemons");
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    const std::string name(query.Blob(0));
    pb::StoredDaemon daemon;
    if (query.Parse(1, daemon)) {
      daemons[name] = std::move(daemon);
    } else {
      LOG(ERROR) << "store '" << path_ << "': what is known of daemon '" << absl::CHexEscape(name)
                 << "' is damaged: whether it is drained is forgotten, and what it ran is lost";
    }
  }
  if (result != SQLITE_DONE) return Error("read daemons");
  return daemons;
}

absl::StatusOr<pb::JobSpec> Store::LoadSpec(int64_t job) {
  Statement query(db_, "SELECT spec FROM specs WHERE job = ?");
  const int result = query.Bind(1, job).Step();
  if (result == SQLITE_DONE) {
    return absl::NotFoundError(absl::StrCat("store '", path_, "': the spec of job ", job, " is no longer kept"));
  }
  if (result != SQLITE_ROW) return Error("read a spec");
  pb::JobSpec spec;
  if (query.Parse(0, spec)) return spec;
  return absl::DataLossError(absl::StrCat("store '", path_, "': the spec of job ", job, " cannot be read"));
}

absl::StatusOr<std::string> Store::LoadPlan(const std::string& hash) {
  Statement known(db_, "SELECT 1 FROM plans WHERE hash = ?");
  if (known.Bind(1, hash).Step() != SQLITE_ROW) {
    return absl::NotFoundError(absl::StrCat("store '", path_, "': there is no plan ", hash));
  }
  std::string plan;
  Statement pieces(db_, "SELECT bytes FROM plan_pieces WHERE hash = ? ORDER BY piece");
  pieces.Bind(1, hash);
  int result;
  while ((result = pieces.Step()) == SQLITE_ROW) absl::StrAppend(&plan, pieces.Blob(0));
  if (result != SQLITE_DONE) return Error("read a plan");
  return plan;
}

absl::Status Store::Apply(const Effects& effects, bool durable) {
  if (!effects.stores()) return absl::OkStatus();
  // NORMAL leaves the write-ahead log to the operating system, which outlives us; FULL waits for the disk.
  OF_RETURN_IF_ERROR(Execute(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
  return Transact([&]() -> absl::Status {
    OF_RETURN_IF_ERROR(WriteJobs(effects));
    OF_RETURN_IF_ERROR(WriteWorkers(effects));
    return WriteEvents(effects);
  });
}

absl::Status Store::Transact(absl::FunctionRef<absl::Status()> write) {
  OF_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status written = write();
  if (written.ok()) written = Execute("COMMIT");
  if (!written.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return written;
}

absl::Status Store::WriteJobs(const Effects& effects) {
  Statement new_job(db_, "INSERT OR IGNORE INTO jobs (job, status) VALUES (?, x'')");
  const std::string here = absl::StrCat("store '", path_, "'");
  for (const NewJob& job : effects.new_jobs) {
    const std::vector<std::string> hashes = PlanHashes(job.spec);
    for (size_t i = 0; i < hashes.size(); ++i) {
      OF_RETURN_IF_ERROR_AT(InsertPlan(db_, hashes[i], *job.plans[i]), here);
    }
    if (!new_job.Bind(1, job.job).Run()) return Error("add a job");
    OF_RETURN_IF_ERROR_AT(ReplaceSpec(db_, job.job, job.spec), here);
  }
  Statement change(db_, "UPDATE jobs SET status = ?, finished_us = ? WHERE job = ?");
  for (const pb::JobStatus& status : effects.changed_jobs) {
    if (!change.Bind(1, status.SerializeAsString()).Bind(2, status.finished_us()).Bind(3, status.job()).Run()) {
      return Error("change a job");
    }
  }
  return absl::OkStatus();
}

absl::Status Store::WriteWorkers(const Effects& effects) {
  Statement worker(db_, "INSERT OR REPLACE INTO workers (job, process, worker) VALUES (?, ?, ?)");
  for (const auto& [place, stored] : effects.changed_workers) {
    if (!worker.Bind(1, place.first).Bind(2, place.second).Bind(3, stored.SerializeAsString()).Run()) {
      return Error("change a worker");
    }
  }
  Statement daemon(db_, "INSERT OR REPLACE INTO daemons (name, daemon) VALUES (?, ?)");
  for (const auto& [name, stored] : effects.changed_daemons) {
    if (!daemon.Bind(1, name).Bind(2, stored.SerializeAsString()).Run()) return Error("change a daemon");
  }
  return absl::OkStatus();
}

absl::Status Store::WriteEvents(const Effects& effects) {
  std::map<int64_t, int64_t> next_sequence;  // by job
  Statement add_event(db_, "INSERT INTO events (job, sequence, event) VALUES (?, ?, ?)");
  for (const auto& [job, event] : effects.events) {
    if (!add_event.Bind(1, job).Bind(2, event.sequence()).Bind(3, event.SerializeAsString()).Run()) {
      return Error("add an event");
    }
    next_sequence[job] = event.sequence() + 1;
    ++growth_[job].added;
  }
  Statement count(db_, "UPDATE jobs SET next_sequence = ? WHERE job = ?");
  for (const auto& [job, next] : next_sequence) {
    if (!count.Bind(1, next).Bind(2, job).Run()) return Error("count events");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<pb::JobEvent>> Store::LoadEvents(int64_t job, int64_t from_sequence, int limit) {
  // Thinning keeps the first, which says that the job was submitted; pruning begins with it.
  Statement first(db_, "SELECT 1 FROM events WHERE job = ? AND sequence = 0");
  const int found = first.Bind(1, job).Step();
  if (found != SQLITE_ROW && found != SQLITE_DONE) return Error("look for the first event");
  std::vector<pb::JobEvent> events;
  Statement query(db_, "SELECT sequence, event FROM events WHERE job = ? AND sequence >= ? ORDER BY sequence LIMIT ?");
  query.Bind(1, job).Bind(2, from_sequence).Bind(3, limit);
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    pb::JobEvent& event = events.emplace_back();
    if (!query.Parse(1, event) || event.sequence() != query.Int(0)) {
      event.Clear();
      event.set_sequence(query.Int(0));
      event.set_time_us(events.size() > 1 ? events[events.size() - 2].time_us() : 0);
      event.mutable_notice()->set_text(
          absl::StrCat("the store is damaged: event ", event.sequence(), " of the job cannot be read"));
    }
    if (found != SQLITE_ROW) {
      return absl::FailedPreconditionError(absl::StrCat("the events of job ", job, " from ", from_sequence, " to ",
                                                        events.back().sequence() - 1, " are no longer kept"));
    }
  }
  if (result != SQLITE_DONE) return Error("read events");
  return events;
}

// --- What is no longer kept ---

absl::Status Store::DeletePart(int64_t job) {
  OF_RETURN_IF_ERROR(Execute("PRAGMA synchronous=NORMAL"));
  return Transact([&] { return DeletePartOf(job); });
}

absl::StatusOr<int64_t> Store::FindExpired(const EndedJobsRule& rule, absl::Time now, int64_t after) {
  Statement query(db_,
                  "SELECT job FROM jobs WHERE finished_us > 0 AND job > ?3 AND (finished_us < ?1 OR job NOT"
                  " IN (SELECT job FROM jobs WHERE finished_us > 0 ORDER BY finished_us DESC, job DESC LIMIT ?2))"
                  " AND (job < (SELECT max(job) FROM jobs) OR job IN (SELECT job FROM specs)) ORDER BY job LIMIT 1");
  const int result = query.Bind(1, absl::ToUnixMicros(now - rule.age)).Bind(2, rule.jobs).Bind(3, after).Step();
  if (result == SQLITE_ROW) return query.Int(0);
  if (result == SQLITE_DONE) return 0;
  return Error("look for what is no longer kept");
}

// Events first, some at a time; with the last of them all else, and plans that no other job has.
absl::Status Store::DeletePartOf(int64_t job) {
  Statement events(db_,
                   "DELETE FROM events WHERE job = ?1 AND sequence IN"
                   " (SELECT sequence FROM events WHERE job = ?1 ORDER BY sequence LIMIT ?2)");
  if (!events.Bind(1, job).Bind(2, kEventsPerPart).Run()) return Error("delete events");
  if (sqlite3_changes(db_) == kEventsPerPart) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> hashes, PlansOfNoOther(job));
  for (const std::string& hash : hashes) {
    for (const char* sql : {"DELETE FROM plan_pieces WHERE hash = ?", "DELETE FROM plans WHERE hash = ?"}) {
      Statement statement(db_, sql);
      if (!statement.Bind(1, hash).Run()) return Error("delete a job's plan");
    }
  }
  for (const char* sql :
       {"DELETE FROM specs WHERE job = ?", "DELETE FROM workers WHERE job = ?", "DELETE FROM job_plans WHERE job = ?",
        "DELETE FROM jobs WHERE job = ? AND job < (SELECT max(job) FROM jobs)"}) {
    Statement statement(db_, sql);
    if (!statement.Bind(1, job).Run()) return Error("delete what a job had");
  }
  growth_.erase(job);
  return absl::OkStatus();
}

int64_t Store::FindGrown() const {
  const auto found = std::find_if(growth_.begin(), growth_.end(), [](const auto& job) {
    return job.second.added >= std::max(kThinnedAfter, job.second.kept / 8);
  });
  return found == growth_.end() ? 0 : found->first;
}

absl::Status Store::Thin(int64_t job, int64_t first_wanted) {
  Thinning thinning;
  OF_ASSIGN_OR_RETURN(const int64_t num_events, ReadEvents(job, thinning));
  std::vector<int64_t> superfluous = thinning.Superfluous();
  superfluous.erase(std::lower_bound(superfluous.begin(), superfluous.end(), first_wanted), superfluous.end());
  growth_[job] = {.kept = num_events - static_cast<int64_t>(superfluous.size())};
  if (superfluous.empty()) return absl::OkStatus();
  OF_RETURN_IF_ERROR(Execute("PRAGMA synchronous=NORMAL"));
  return Transact([&]() -> absl::Status {
    Statement remove(db_, "DELETE FROM events WHERE job = ? AND sequence = ?");
    for (const int64_t sequence : superfluous) {
      if (!remove.Bind(1, job).Bind(2, sequence).Run()) return Error("thin events");
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> Store::ReadEvents(int64_t job, Thinning& thinning) {
  int64_t num_events = 0;
  pb::JobEvent event;
  Statement query(db_, "SELECT event, sequence FROM events WHERE job = ? ORDER BY sequence");
  query.Bind(1, job);
  int result;
  while ((result = query.Step()) == SQLITE_ROW) {
    ++num_events;
    // One that is damaged stays, and says so.
    if (query.Parse(0, event) && event.sequence() == query.Int(1)) thinning.Add(event);
  }
  if (result != SQLITE_DONE) return Error("read events to thin them");
  return num_events;
}

absl::StatusOr<std::vector<std::string>> Store::PlansOfNoOther(int64_t job) {
  std::vector<std::string> hashes;
  Statement query(db_,
                  "SELECT hash FROM job_plans AS own WHERE job = ?1 AND NOT EXISTS"
                  " (SELECT 1 FROM job_plans AS other WHERE other.hash = own.hash AND other.job != ?1)");
  query.Bind(1, job);
  int result;
  while ((result = query.Step()) == SQLITE_ROW) hashes.emplace_back(query.Blob(0));
  if (result != SQLITE_DONE) return Error("read which plans a job has");
  return hashes;
}

absl::Status Store::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return Error(sql);
}

absl::Status Store::Error(absl::string_view doing) const {
  return Annotate(SqliteError(db_, doing), absl::StrCat("store '", path_, "'"));
}

}  // namespace oneflow
