#include "actor/engine.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "actor/actor_thread.h"
#include "actor/collective/collectives.h"
#include "actor/executor.h"
#include "actor/local_device.h"
#include "actor/memory.h"
#include "actor/program_check.h"
#include "actor/trace/save_trace.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/process_bus.h"
#include "actor/variables.h"
#include "glog/logging.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow {
namespace {

// A run in which no act begins for this long is reported, once, and goes on.
constexpr std::chrono::milliseconds kStallTime(60000);
// Between two looks at whether collectives can still end.
constexpr std::chrono::milliseconds kCollectivesTime(100);
// Looks into an empty mailbox before sleeping, where a core is to spare: about 2 us, the time of waking a thread up.
constexpr int kSpins = 100;

// What all processes of a job have in common: the hash of the plan, or of the program if that is everybody's.
std::string Hash(const pb::Program& program) {
  if (program.has_process()) return program.plan_hash();
  const std::string bytes = program.SerializeAsString();  // no maps, no unknown fields of ours: deterministic
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<std::unique_ptr<DeviceContext>> OpenDevice(const Device& device, int cores) {
  if (device.kind == DeviceKind::kCpu) return MakeCpuDevice(cores);
  std::string why;
  std::unique_ptr<DeviceContext> context = MakeCudaDevice(device.index, &why);
  if (context == nullptr) return absl::UnavailableError(why);
  return context;
}

double Seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

class EngineImpl : public Engine, private ActorThread::Listener, private PeerNetwork::Listener {
 public:
  EngineImpl(pb::Program plans, EngineOptions options)
      : plans_(std::move(plans)),
        options_(std::move(options)),
        ops_(options_.ops == nullptr ? StandardOps() : *options_.ops),
        memory_(std::max(plans_.ranks_size(), 1)) {}

  ~EngineImpl() override {
    if (options_.peers != nullptr) options_.peers->SetListener(nullptr);
    for (const auto& thread : threads_) thread->Stop();
    for (const auto& thread : threads_) thread->Join();  // one that fails now still stops the others
  }

  // Create() in its order. An error leaves an object that can only be destroyed.
  absl::Status Load() {
    const absl::Status status = LoadHere();
    // Otherwise the peers would wait for us.
    if (!status.ok() && options_.peers != nullptr) Fail(status, /*tell_peers=*/true);
    return status;
  }

  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) override;
  void Abort(absl::Status status) override {
    Fail(status.ok() ? absl::CancelledError("aborted") : std::move(status), /*tell_peers=*/true);
  }
  absl::Status LoadWeights(const std::string& path) override {
    return Together([&]() -> absl::Status {
      OF_RETURN_IF_ERROR(variables_->Load(path));
      return Barrier();  // a peer must not read our variables before
    });
  }
  absl::Status SaveWeights(const std::string& path, absl::string_view suffix) override {
    return Together([&] { return variables_->Save(path, suffix, options_.process, [this] { return Barrier(); }); });
  }
  absl::Status SaveTrace(const std::string& path) override {
    return Together([&] { return SaveTraceHere(path); });
  }
  std::string WaitReport() override;
  EngineStats stats() const override;

 private:
  absl::Status LoadHere();
  absl::Status OpenDevices();
  absl::Status MakeExecutors();
  absl::Status ShareMemory();
  absl::Status Initialise();
  void MakeThreads();
  absl::Status SaveTraceHere(const std::string& path);

  // What all processes do outside of runs: an error here is an error everywhere.
  template <typename Fn>
  absl::Status Together(const Fn& fn) {
    OF_RETURN_IF_ERROR(failure());
    const absl::Status status = fn();
    if (!status.ok()) Fail(status, /*tell_peers=*/true);
    return status;
  }
  absl::Status Barrier() { return options_.peers == nullptr ? failure() : options_.peers->Barrier(); }
  absl::Status failure() const {
    std::lock_guard<std::mutex> lock(mu_);
    return failure_;
  }
  // Keeps the first error and stops everything.
  void Fail(const absl::Status& status, bool tell_peers);
  absl::Status WaitForThreads();
  // Of a run: when it was looked at, and what had been done by then.
  struct Watch {
    std::chrono::steady_clock::time_point looked = std::chrono::steady_clock::now();
    int64_t acts = -1;
    bool reported = false;
  };
  // Once, when nothing has moved since the last look.
  void ReportStall(Watch& watch);

  void OnThreadDone(int rank) override;
  void OnThreadFailed(int, absl::Status status) override { Fail(status, /*tell_peers=*/true); }
  void OnMessages(int process, absl::Span<const Message> messages) override;
  void OnPeerError(int process, absl::Status status) override;
  void OnPeerLost(int process, absl::Status status) override;

  bool IsOurs(int rank) const { return plans_.ranks(rank).process() == options_.process; }

  const pb::Program plans_;
  const EngineOptions options_;
  const OpRegistry ops_;
  std::vector<int> ranks_;                               // of this process
  std::vector<std::unique_ptr<DeviceContext>> devices_;  // by rank; null for those of other processes
  JobMemory memory_;
  std::unique_ptr<Variables> variables_;
  std::vector<std::unique_ptr<Executor>> executors_;  // as ranks_
  std::unique_ptr<ProgramIds> ids_;
  std::unique_ptr<ProcessBus> bus_;
  std::vector<std::unique_ptr<TraceRing>> traces_;     // as threads_; none if acts are not recorded
  std::vector<std::unique_ptr<ActorThread>> threads_;  // as ranks_
  std::vector<ActorThread*> thread_of_rank_;

  mutable std::mutex mu_;
  std::condition_variable changed_;
  int running_threads_ = 0;  // of the current run
  absl::Status failure_;
  absl::Status lost_peer_;
  double wall_seconds_ = 0;
};

absl::Status EngineImpl::LoadHere() {
  const int processes = options_.peers == nullptr ? 1 : options_.peers->num_processes();
  if (options_.process != (options_.peers == nullptr ? 0 : options_.peers->process())) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", options_.process, " is not the one that its peers know, of ", processes));
  }
  OF_RETURN_IF_ERROR(CheckProgram(plans_, processes));
  if (plans_.has_process() && plans_.process() != options_.process) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", options_.process, " was given the program of process ", plans_.process()));
  }
  OF_RETURN_IF_ERROR(OpenDevices());
  OF_RETURN_IF_ERROR(ShareMemory());
  absl::Status made;
  std::thread([&] { made = MakeExecutors(); }).join();  // not the caller's thread: it is bound to our devices
  OF_RETURN_IF_ERROR(made);
  OF_RETURN_IF_ERROR(Initialise());
  MakeThreads();
  if (options_.peers == nullptr) return absl::OkStatus();
  options_.peers->SetListener(this);
  return Barrier();  // every process can take messages, every variable is set
}

// Kernels prepare for the threads, or the device, of the thread that calls them.
absl::Status EngineImpl::MakeExecutors() {
  SourceCache sources;
  for (const int rank : ranks_) {
    if (const char* error = devices_[rank]->BindThread()) return absl::InternalError(error);
    OF_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, Executor::Create({.plans = plans_,
                                                                              .ops = ops_,
                                                                              .rank = rank,
                                                                              .device = *devices_[rank],
                                                                              .memory = memory_,
                                                                              .sources = sources,
                                                                              .collectives = options_.collectives,
                                                                              .on_fetch = options_.on_fetch,
                                                                              .profile = options_.profile}));
    executors_.push_back(std::move(executor));
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::OpenDevices() {
  int cpu_devices = 0;
  for (int r = 0; r < plans_.ranks_size(); ++r) {
    if (!IsOurs(r)) continue;
    ranks_.push_back(r);
    cpu_devices += Device::Parse(plans_.ranks(r).device())->kind == DeviceKind::kCpu;
  }
  devices_.resize(plans_.ranks_size());
  const int cores = std::max(1, options_.cores / std::max(1, cpu_devices));
  for (const int rank : ranks_) {
    const std::string where = absl::StrCat("rank ", rank, " (", plans_.ranks(rank).device(), ")");
    OF_ASSIGN_OR_RETURN_AT(const Device device, LocalDevice(plans_, rank), where);
    OF_ASSIGN_OR_RETURN_AT(
        devices_[rank], options_.open_device ? options_.open_device(device, cores) : OpenDevice(device, cores), where);
    OF_RETURN_IF_ERROR_AT(memory_.Allocate(rank, plans_.ranks(rank), *devices_[rank]), where);
  }
  return absl::OkStatus();
}

// Compares plans with the peers and maps the memory of their ranks.
absl::Status EngineImpl::ShareMemory() {
  if (options_.peers == nullptr) return absl::OkStatus();
  pb::PeerPlan mine;
  mine.set_hash(Hash(plans_));
  for (const int rank : ranks_) {
    const SharedMemory* file = memory_.shared_file(rank);
    if (file == nullptr) continue;
    pb::SharedZone* zone = mine.add_zones();
    zone->set_rank(rank);
    zone->set_pid(getpid());
    zone->set_fd(file->fd());
    zone->set_size(file->size());
  }
  OF_ASSIGN_OR_RETURN(const std::vector<pb::PeerPlan> plans, options_.peers->Exchange(mine));
  for (int p = 0; p < static_cast<int>(plans.size()); ++p) {
    if (p == options_.process) continue;
    if (plans[p].hash() != mine.hash()) {
      return absl::FailedPreconditionError(
          absl::StrCat("process ", p, " has another plan: its hash is ", plans[p].hash(), ", ours is ", mine.hash()));
    }
    for (const pb::SharedZone& zone : plans[p].zones()) {
      const bool valid = zone.rank() >= 0 && zone.rank() < plans_.ranks_size() &&
                         plans_.ranks(zone.rank()).process() == p &&
                         plans_.ranks(zone.rank()).shared_bytes() == zone.size() && zone.size() > 0 &&
                         memory_.Base(zone.rank(), pb::SHARED) == nullptr;
      if (!valid) {
        return absl::InvalidArgumentError(absl::StrCat("process ", p, " announces ", zone.size(),
                                                       " bytes of shared memory for rank ", zone.rank(),
                                                       ", which the plan does not give it"));
      }
      OF_RETURN_IF_ERROR_AT(memory_.MapPeer(zone.rank(), zone.pid(), zone.fd(), zone.size()),
                            absl::StrCat("shared memory of rank ", zone.rank(), " in process ", p));
    }
  }
  // What our copies read must be there.
  for (int r = 0; r < plans_.ranks_size(); ++r) {
    const bool on_host = Device::Parse(plans_.ranks(r).device())->kind == DeviceKind::kCpu;
    if (on_host && plans_.ranks(r).shared_bytes() > 0 && memory_.Base(r, pb::SHARED) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("process ", plans_.ranks(r).process(),
                                                     " announces no shared memory for rank ", r, ", the plan has ",
                                                     plans_.ranks(r).shared_bytes(), " bytes"));
    }
  }
  // From here on a process may fail, and take its memory with it, without the others stumbling over that.
  return Barrier();
}

absl::Status EngineImpl::Initialise() {
  std::vector<DeviceContext*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  variables_ = std::make_unique<Variables>(plans_, memory_, std::move(devices));
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    threads.emplace_back([this, i, &statuses] { statuses[i] = variables_->Initialise(ranks_[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) OF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

void EngineImpl::MakeThreads() {
  std::vector<int> process_of_rank;
  for (const pb::Rank& rank : plans_.ranks()) process_of_rank.push_back(rank.process());
  ids_ = std::make_unique<ProgramIds>(plans_);
  bus_ = std::make_unique<ProcessBus>(options_.process, process_of_rank, options_.peers, *ids_);
  thread_of_rank_.resize(plans_.ranks_size(), nullptr);
  const int spins = options_.cores > static_cast<int>(ranks_.size()) ? kSpins : 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = ranks_[i];
    if (options_.trace_bytes > 0) {
      traces_.push_back(std::make_unique<TraceRing>(options_.trace_bytes / static_cast<int64_t>(ranks_.size())));
    }
    threads_.push_back(
        std::make_unique<ActorThread>(ActorThread::Context{.plans = plans_,
                                                           .rank = rank,
                                                           .device = *devices_[rank],
                                                           .runner = *executors_[i],
                                                           .bus = *bus_,
                                                           .listener = *this,
                                                           .spins = spins,
                                                           .trace = traces_.empty() ? nullptr : traces_.back().get()}));
    thread_of_rank_[rank] = threads_.back().get();
    bus_->Attach(rank, *threads_.back());
  }
  for (const auto& thread : threads_) thread->Start();
}

absl::Status EngineImpl::Run(absl::string_view plan, int64_t first_step, int64_t steps) {
  int index = 0;
  while (index < plans_.plans_size() && plans_.plans(index).name() != std::string(plan)) ++index;
  if (index == plans_.plans_size()) return absl::InvalidArgumentError(absl::StrCat("there is no plan '", plan, "'"));
  if (first_step < 0 || steps < 0 || steps > INT64_MAX / plans_.plans(index).micro_batches() - first_step) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan '", plan, "': ", steps, " steps from step ", first_step, " cannot be run"));
  }
  const auto begin = std::chrono::steady_clock::now();
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!failure_.ok()) return failure_;
    if (!lost_peer_.ok()) return lost_peer_;
    running_threads_ = static_cast<int>(threads_.size());
  }
  for (const auto& thread : threads_) thread->Grant(index, first_step, steps);
  absl::Status status = WaitForThreads();
  // Variables that a peer may read in the next run are settled only when all processes have come to the end of this
  // one.
  if (status.ok()) {
    status = Barrier();
    if (!status.ok()) Fail(status, /*tell_peers=*/true);
  }
  std::lock_guard<std::mutex> lock(mu_);
  wall_seconds_ += Seconds(std::chrono::steady_clock::now() - begin) * static_cast<double>(threads_.size());
  return failure_.ok() ? status : failure_;
}

absl::Status EngineImpl::WaitForThreads() {
  Watch watch;
  std::unique_lock<std::mutex> lock(mu_);
  const auto over = [this] { return running_threads_ == 0 || !failure_.ok(); };
  while (!changed_.wait_for(lock, options_.collectives == nullptr ? kStallTime : kCollectivesTime, over)) {
    lock.unlock();
    if (options_.collectives != nullptr) {
      if (const absl::Status status = options_.collectives->Check(); !status.ok()) Fail(status, /*tell_peers=*/true);
    }
    ReportStall(watch);
    lock.lock();
  }
  return failure_;
}

void EngineImpl::ReportStall(Watch& watch) {
  const auto now = std::chrono::steady_clock::now();
  if (now - watch.looked < kStallTime) return;
  watch.looked = now;
  int64_t acts = 0;
  for (const auto& thread : threads_) acts += thread->acts();
  if (acts == std::exchange(watch.acts, acts) && !std::exchange(watch.reported, true)) {
    LOG(WARNING) << "process " << options_.process << ": no act has ended for "
                 << std::chrono::duration_cast<std::chrono::seconds>(kStallTime).count() << " s\n"
                 << WaitReport();
  }
}

void EngineImpl::Fail(const absl::Status& status, bool tell_peers) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!failure_.ok()) return;
    failure_ = status;
    changed_.notify_all();
  }
  for (const auto& thread : threads_) thread->Stop();
  if (options_.peers != nullptr) {
    if (tell_peers) options_.peers->SendError(status);
    options_.peers->Interrupt(status);
  }
  // Or devices, and whoever waits for them, would wait for peers that come no more.
  if (options_.collectives != nullptr) options_.collectives->Abort();
}

void EngineImpl::OnThreadDone(int) {
  std::lock_guard<std::mutex> lock(mu_);
  if (--running_threads_ == 0) changed_.notify_all();
}

void EngineImpl::OnMessages(int process, absl::Span<const Message> messages) {
  for (const Message& message : messages) {
    const std::optional<Message> known = ids_->FromPeer(message);
    ActorThread* const thread =
        known.has_value() ? thread_of_rank_[plans_.plans(known->plan).actors(known->actor).rank()] : nullptr;
    if (thread == nullptr) {
      return Fail(absl::InvalidArgumentError(absl::StrCat("process ", process, " sent a message for plan ",
                                                          message.plan, " actor ", message.actor, " register ",
                                                          message.register_id, ", which is not here")),
                  /*tell_peers=*/true);
    }
    thread->Post({&*known, 1});
  }
}

void EngineImpl::OnPeerError(int process, absl::Status status) {
  Fail(absl::AbortedError(absl::StrCat("process ", process, " failed first: ", status.message())),
       /*tell_peers=*/false);
}

void EngineImpl::OnPeerLost(int, absl::Status status) {
  // A peer may leave when it has done its part of the last run. Whoever still needs it is in a run, in a barrier, which
  // finds out by itself, or begins a run later.
  {
    std::lock_guard<std::mutex> lock(mu_);
    lost_peer_ = status;
    if (running_threads_ == 0) return;
  }
  Fail(status, /*tell_peers=*/true);
}

absl::Status EngineImpl::SaveTraceHere(const std::string& path) {
  if (options_.trace_bytes <= 0) return absl::FailedPreconditionError("acts are not recorded");
  TraceSource source{.program = plans_, .process = options_.process, .peers = options_.peers};
  for (const auto& trace : traces_) source.rings.push_back(trace.get());
  return oneflow::SaveTrace(source, path, [this] { return Barrier(); });
}

std::string EngineImpl::WaitReport() {
  std::string text = absl::StrCat("process ", options_.process, "\n");
  for (const auto& thread : threads_) absl::StrAppend(&text, thread->WaitReport());
  return text;
}

EngineStats EngineImpl::stats() const {
  EngineStats stats;
  std::map<std::string, OpTime> ops;
  for (size_t i = 0; i < threads_.size(); ++i) {
    stats.acts += threads_[i]->acts();
    stats.kernel_seconds += threads_[i]->kernel_seconds();
    stats.run_seconds += threads_[i]->run_seconds();
    stats.idle_seconds += threads_[i]->idle_seconds();
    stats.bytes_moved += executors_[i]->bytes_moved();
    stats.scratch_bytes += executors_[i]->scratch_bytes();
    stats.register_bytes += plans_.ranks(ranks_[i]).private_bytes() + plans_.ranks(ranks_[i]).shared_bytes();
    for (const OpTime& time : executors_[i]->op_times()) {
      OpTime& sum = ops[time.op];
      sum.calls += time.calls;
      sum.seconds += time.seconds;
    }
  }
  for (auto& [op, sum] : ops) {
    sum.op = op;
    stats.ops.push_back(std::move(sum));
  }
  std::lock_guard<std::mutex> lock(mu_);
  stats.wall_seconds = wall_seconds_;
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(pb::Program plan, EngineOptions options) {
  auto engine = std::make_unique<EngineImpl>(std::move(plan), std::move(options));
  OF_RETURN_IF_ERROR(engine->Load());
  return engine;
}

}  // namespace oneflow
