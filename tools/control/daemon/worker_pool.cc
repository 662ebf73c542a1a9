#include "tools/control/daemon/worker_pool.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/awake_clock.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "glog/logging.h"
#include "oneflow_core/status.h"
#include "proto/plan.pb.h"
#include "tools/control/process/log_tail.h"
#include "tools/control/process/openmp.h"
#include "tools/control/process/visible_devices.h"
#include "tools/control/security/passed_identity.h"
#include "tools/job/packed_program.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr int64_t kLogBytes = 64 << 10;        // of one worker, in an answer
constexpr int64_t kLastOutputBytes = 4 << 10;  // in the report of an exit
constexpr int kLastOutputLines = 20;
// A dead worker's connection closes with it; this bounds the wait for our end of it to notice.
constexpr absl::Duration kDrain = absl::Seconds(1);
constexpr absl::Duration kReapLimit = absl::Seconds(5);

}  // namespace

WorkerPool::WorkerPool(WorkerPoolOptions options, std::function<void(pb::FromDaemon)> report)
    : options_(std::move(options)), report_(std::move(report)), watch_([this] { WatchLoop(); }) {}

WorkerPool::~WorkerPool() {
  StopAll();
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  watch_.join();
}

void WorkerPool::Start(const pb::StartWorker& start) {
  const Key key{start.job(), start.process()};
  absl::Status launched;
  {
    absl::MutexLock lock(&mu_);
    Forget();
    const auto worker = std::make_shared<Worker>();
    launched = workers_.contains(key) ? absl::InternalError("it runs already") : Launch(start, key, *worker);
    if (launched.ok()) workers_[key] = worker;
  }
  if (launched.ok()) return;
  LOG(ERROR) << "worker " << start.process() << " of job " << start.job() << ": " << launched.message();
  const bool denied = absl::IsPermissionDenied(launched);  // for any attempt
  ReportFailure(key, start.attempt(), denied ? launched.code() : absl::StatusCode::kFailedPrecondition,
                std::string(launched.message()));
  ReportExit(key, start.attempt(), 0, ChildExit{.exit_code = 127});
}

void WorkerPool::ReportFailure(Key key, uint64_t attempt, absl::StatusCode code, const std::string& message) {
  pb::FromDaemon out;
  pb::WorkerReport& report = *out.mutable_report();
  report.set_job(key.first);
  report.set_attempt(attempt);
  report.set_process(key.second);
  report.mutable_message()->mutable_failed()->set_code(static_cast<int>(code));
  report.mutable_message()->mutable_failed()->set_message(message);
  report_(std::move(out));
}

void WorkerPool::WatchLoop() {
  const absl::Duration pause = std::min(options_.silence / 10, 2 * AwakeClock::kLook);
  auto looked = std::chrono::steady_clock::now();
  absl::MutexLock lock(&mu_);
  while (!mu_.AwaitWithTimeout(absl::Condition(&ending_), pause)) {
    const auto now = std::chrono::steady_clock::now();
    // Then it was us who did not run, and what workers said may not have been read yet.
    const absl::Duration gap = absl::FromChrono(now - std::exchange(looked, now));
    const bool we_slept = gap > std::min(options_.silence / 2, AwakeClock::kLongestGap);
    if (we_slept) slept_ += gap;
    for (const auto& [key, worker] : workers_) {
      if (we_slept) worker->heard = now;
    }
    KillFrozen();
    mu_.Unlock();
    ShortenLogs();
    mu_.Lock();
  }
}

void WorkerPool::ShortenLogs() {
  std::vector<Key> running;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [key, worker] : workers_) {
      if (!worker->over) running.push_back(key);
    }
  }
  for (const Key& key : running) {
    const absl::Status shortened = ShortenLog(LogPath(key), options_.log_bytes);
    LOG_IF_EVERY_N(WARNING, !shortened.ok(), 1000) << shortened.message();
  }
}

void WorkerPool::DeleteLogs(int64_t job) const {
  const std::string prefix = absl::StrCat("job-", job, "-worker-");
  std::vector<std::filesystem::path> logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.work_dir, error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, prefix) && absl::EndsWith(name, ".log")) logs.push_back(entry.path());
  }
  for (const std::filesystem::path& log : logs) std::filesystem::remove(log, error);
  LOG_IF(WARNING, error.value() != 0) << "the logs of job " << job << ": cannot delete them: " << error.message();
}

absl::Duration WorkerPool::slept() const {
  absl::MutexLock lock(&mu_);
  return slept_;
}

void WorkerPool::KillFrozen() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [key, worker] : workers_) {
    if (!worker->attached || worker->over || absl::FromChrono(now - worker->heard) <= options_.silence) continue;
    worker->heard = now + std::chrono::hours(1);  // once
    ReportFailure(key, worker->attempt, absl::StatusCode::kDeadlineExceeded,
                  absl::StrCat("the process (pid ", worker->child->pid(), ") has said nothing for ",
                               absl::FormatDuration(options_.silence), ": it is frozen, and was killed"));
    worker->child->Stop(absl::ZeroDuration());
  }
}

// The spec, with the program of one process in place of the plan. PermissionDenied if they name a file that is not for
// jobs.
absl::Status WorkerPool::Assign(const pb::JobSpec& spec, int process, pb::WorkerAssignment& assignment) const {
  if (const std::string hash = PlanHash(spec.plan()); hash != spec.plan_hash()) {
    return absl::DataLossError(absl::StrCat("the plan's SHA-256 is ", hash, "; the job's is ", spec.plan_hash()));
  }
  pb::PlanSet plan;
  if (!plan.ParseFromString(spec.plan())) {
    return absl::InvalidArgumentError(absl::StrCat("the plan (", spec.plan().size(), " bytes) does not parse"));
  }
  OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(plan, process, spec.plan_hash()));
  OF_RETURN_IF_ERROR(options_.allowed.Check(spec, program));
  const pb::PackedProgram packed = PackProgram(program);
  if (!packed.SerializeToString(assignment.mutable_program())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the program of process ", process, " takes ", packed.ByteSizeLong(), " bytes"));
  }
  *assignment.mutable_spec() = spec;
  assignment.mutable_spec()->clear_plan();
  assignment.mutable_spec()->clear_graphs();
  return absl::OkStatus();
}

absl::Status WorkerPool::Launch(const pb::StartWorker& start, Key key, Worker& worker) {
  worker.attempt = start.attempt();
  pb::ToWorker assignment;
  OF_RETURN_IF_ERROR(Assign(start.spec(), start.process(), *assignment.mutable_assignment()));
  assignment.mutable_assignment()->set_attempt(start.attempt());
  assignment.mutable_assignment()->set_process(start.process());
  worker.messages->Push(std::move(assignment));

  ChildOptions child;
  child.executable = options_.executable;
  child.environment = OpenMpEnvironment();
  child.log_path = LogPath(key);
  // A job of this number that another scheduler had, or a store that is gone.
  if (start.attempt() <= 1) unlink(child.log_path.c_str());
  child.arguments = {"oneflow",
                     "worker",
                     absl::StrCat("--daemon=", daemon_address_),
                     absl::StrCat("--job=", start.job()),
                     absl::StrCat("--attempt=", start.attempt()),
                     absl::StrCat("--run=", absl::Hex(start.spec().run())),
                     absl::StrCat("--process=", start.process()),
                     absl::StrCat("--processes=", start.spec().processes()),
                     absl::StrCat("--peer-host=", options_.peer_host)};
  // The key itself, and not where it lies: what a job may be led to read has no key in it.
  std::optional<PassedIdentity> identity;
  if (!options_.identity.empty()) {
    OF_ASSIGN_OR_RETURN(PassedIdentity passed, PassedIdentity::Make(options_.identity));
    identity.emplace(std::move(passed));
    child.passed_fd = identity->fd();
    child.arguments.push_back("--identity-fd=3");
  }
  if (options_.parent_only) child.arguments.push_back("--parent-only");
  if (start.spec().device() == "cuda") {
    OF_RETURN_IF_ERROR(TakeCudaDevices(start.spec().devices_per_process(), worker));
    child.environment.push_back(VisibleDevices(worker.cuda_devices));
  }
  OF_ASSIGN_OR_RETURN(worker.child,
                      ChildProcess::Start(std::move(child), [this, key, attempt = start.attempt()](ChildExit exit) {
                        OnExit(key, attempt, exit);
                      }));
  LOG(INFO) << "worker " << key.second << " of job " << key.first << " has pid " << worker.child->pid();
  return absl::OkStatus();
}

absl::Status WorkerPool::TakeCudaDevices(int count, Worker& worker) {
  std::vector<bool> taken(options_.cuda_devices, false);
  for (const auto& [key, other] : workers_) {
    for (const int device : other->cuda_devices) taken[device] = taken[device] || !other->over;
  }
  for (int device = 0; device < options_.cuda_devices && count > 0; ++device) {
    if (taken[device]) continue;
    worker.cuda_devices.push_back(device);
    --count;
  }
  if (count == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("this daemon offers ", options_.cuda_devices, " cuda devices; the worker lacks ", count));
}

// Drops workers whose threads have nothing left to do, so that destroying them does not wait for what needs our lock.
void WorkerPool::Forget() {
  std::erase_if(workers_, [](const auto& entry) { return entry.second->over; });
}

void WorkerPool::StopJob(int64_t job, uint64_t attempt) {
  absl::MutexLock lock(&mu_);
  for (const auto& [key, worker] : workers_) {
    if (key.first == job && worker->attempt == attempt) worker->child->Stop(options_.stop_grace);
  }
}

void WorkerPool::StopOthers(const std::set<std::pair<int64_t, uint64_t>>& kept) {
  std::map<Key, std::shared_ptr<Worker>> workers;
  {
    absl::MutexLock lock(&mu_);
    workers = workers_;
  }
  std::erase_if(workers, [&](const auto& entry) { return kept.contains({entry.first.first, entry.second->attempt}); });
  for (const auto& [key, worker] : workers) worker->child->Stop(absl::ZeroDuration());
  for (const auto& [key, worker] : workers) {
    if (!worker->child->WaitForExit(kReapLimit)) {
      LOG(ERROR) << "worker " << key.second << " of job " << key.first << " (pid " << worker->child->pid()
                 << ") has not died within " << kReapLimit << " of being killed";
    }
  }
  absl::MutexLock lock(&mu_);
  Forget();
}

bool WorkerPool::Tell(int64_t job, uint64_t attempt, int process, pb::ToWorker message) {
  absl::MutexLock lock(&mu_);
  const auto found = workers_.find({job, process});
  if (found == workers_.end() || found->second->attempt != attempt || found->second->over) return false;
  found->second->messages->Push(std::move(message));
  return true;
}

std::string WorkerPool::LogPath(Key key) const {
  return absl::StrCat(options_.work_dir, "/job-", key.first, "-worker-", key.second, ".log");
}

LogPart WorkerPool::Log(int64_t job, int process, std::optional<int64_t> offset) const {
  return ReadPart(LogPath({job, process}), offset, kLogBytes);
}

absl::StatusOr<std::shared_ptr<WorkerPool::Messages>> WorkerPool::Attach(const pb::WorkerHello& hello) {
  absl::MutexLock lock(&mu_);
  const auto found = workers_.find({hello.job(), hello.process()});
  if (found == workers_.end() || found->second->attempt != hello.attempt()) {
    return absl::NotFoundError(absl::StrCat("no worker ", hello.process(), " of job ", hello.job(), ", attempt ",
                                            hello.attempt(), ", was started here"));
  }
  Worker& worker = *found->second;
  if (worker.child->pid() != hello.pid() || worker.attached || worker.over) {
    return absl::PermissionDeniedError(absl::StrCat("worker ", hello.process(), " of job ", hello.job(), " is pid ",
                                                    worker.child->pid(), "; pid ", hello.pid(), " says it is"));
  }
  worker.attached = true;
  worker.heard = std::chrono::steady_clock::now();
  return worker.messages;
}

void WorkerPool::Heard(int64_t job, int process) {
  absl::MutexLock lock(&mu_);
  const auto found = workers_.find({job, process});
  if (found != workers_.end()) found->second->heard = std::chrono::steady_clock::now();
}

void WorkerPool::Detach(int64_t job, int process) {
  absl::MutexLock lock(&mu_);
  if (const auto found = workers_.find({job, process}); found != workers_.end()) {
    found->second->attached = false;
    found->second->messages->Close();
  }
}

// On the child's own thread.
void WorkerPool::OnExit(Key key, uint64_t attempt, ChildExit exit) {
  int pid;
  {
    absl::MutexLock lock(&mu_);
    // Start() holds the lock until it is there, and it stays until it is over; were it ours, this thread might have to
    // join itself.
    Worker* const worker = workers_.at(key).get();
    worker->messages->Close();
    mu_.AwaitWithTimeout(absl::Condition(
                             +[](Worker* worker) { return !worker->attached; }, worker),
                         kDrain);
    pid = worker->child->pid();
    worker->over = true;  // before the report of it: the answer may be to start the job's next attempt here
  }
  ReportExit(key, attempt, pid, exit);
}

void WorkerPool::ReportExit(Key key, uint64_t attempt, int pid, ChildExit exit) {
  pb::FromDaemon message;
  pb::WorkerExit& exited = *message.mutable_exited();
  exited.set_job(key.first);
  exited.set_attempt(attempt);
  exited.set_process(key.second);
  exited.set_pid(pid);
  exited.set_exit_code(exit.exit_code);
  exited.set_signal(exit.signal);
  exited.set_last_output(VisibleText(LastLines(ReadTail(LogPath(key), kLastOutputBytes), kLastOutputLines)));
  report_(std::move(message));
}

}  // namespace oneflow
