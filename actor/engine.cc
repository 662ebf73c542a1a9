#include "actor/engine.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "actor/actor_thread.h"
#include "actor/awake_clock.h"
#include "actor/collective/collectives.h"
#include "actor/core_budget.h"
#include "actor/diagnosis.h"
#include "actor/end_limit.h"
#include "actor/executor.h"
#include "actor/instruction/counts_on_host.h"
#include "actor/local_device.h"
#include "actor/memory.h"
#include "actor/program_check.h"
#include "actor/queues.h"
#include "actor/trace/save_trace.h"
#include "actor/transport/inbox.h"
#include "actor/transport/mail_file.h"
#include "actor/transport/other_hosts.h"
#include "actor/transport/peer_network.h"
#include "actor/transport/process_bus.h"
#include "actor/variables.h"
#include "actor/zones.h"
#include "glog/logging.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow {
namespace {

// The interval of checks whether a run goes on, and collectives can still end.
constexpr std::chrono::milliseconds kLookTime(100);
// How long Waits() watches who is busy: some acts of most jobs.
constexpr std::chrono::milliseconds kWindow(300);
// Then, how long a thread may take to answer: enough for one that waits for its turn on a busy host.
constexpr std::chrono::milliseconds kAnswerTime(300);

// The hash that all processes of a job share: of the plan, or of the program if that is everybody's.
std::string Hash(const pb::Program& program) {
  if (program.has_process()) return program.plan_hash();
  const std::string bytes = program.SerializeAsString();  // no maps, no unknown fields of ours: deterministic
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<std::unique_ptr<DeviceContext>> OpenDevice(const Device& device, int cores, pb::Queue queue) {
  if (device.kind == DeviceKind::kCpu) return MakeCpuDevice(cores);
  std::string why;
  // Peers wait for communication, so it has priority over compute of this device.
  const auto priority = KindOf(queue).moves_between_ranks ? StreamPriority::kUrgent : StreamPriority::kNormal;
  std::unique_ptr<DeviceContext> context = MakeCudaDevice(device.index, &why, priority);
  if (context == nullptr) return absl::UnavailableError(why);
  return context;
}

double Seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

class EngineImpl : public Engine,
                   private ActorThread::Listener,
                   private PeerNetwork::Listener,
                   private OtherHosts::Listener {
 public:
  EngineImpl(pb::Program plans, EngineOptions options)
      : plans_(std::move(plans)),
        options_(std::move(options)),
        ops_(options_.ops == nullptr ? StandardOps() : *options_.ops),
        cores_(std::max(options_.cores, 1)),
        memory_(std::max(plans_.ranks_size(), 1)) {}

  ~EngineImpl() override {
    if (const absl::Status status = failure(); !status.ok()) LimitEnd(status);
    if (options_.peers != nullptr) options_.peers->SetListener(nullptr);
    for (const auto& thread : threads_) thread->Stop();
    for (const auto& thread : threads_) thread->Join();  // one that fails now still stops the others
    if (others_ != nullptr) others_->Close();            // they tell threads, and write into memory
  }

  // The steps of Create(). After an error the object can only be destroyed.
  absl::Status Load() {
    const absl::Status status = LoadHere();
    // Otherwise the peers would wait for us, and our devices for them.
    if (!status.ok()) Fail(status, /*tell_peers=*/true);
    return status;
  }

  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) override;
  void ShiftRows(absl::string_view plan, int64_t rows) override {
    const auto shift = row_shifts_.find(std::string(plan));
    if (shift != row_shifts_.end()) shift->second.store(rows, std::memory_order_relaxed);  // a grant publishes it
  }
  void Abort(absl::Status status) override {
    Fail(status.ok() ? absl::CancelledError("aborted") : std::move(status), /*tell_peers=*/true);
  }
  absl::Status LoadWeights(const std::string& path) override {
    return Together("loads weights", [&]() -> absl::Status {
      OF_RETURN_IF_ERROR(variables_->Load(path));
      others_->Forget();
      return Barrier();  // a peer must not read our variables before
    });
  }
  absl::Status SaveWeights(const std::string& path, absl::string_view suffix) override {
    return Together("saves weights",
                    [&] { return variables_->Save(path, suffix, options_.process, [this] { return Barrier(); }); });
  }
  absl::StatusOr<OwnedState> Owned() override { return variables_->Owned(); }
  absl::Status CopyState(char* to) override {
    OF_RETURN_IF_ERROR(failure());  // after a failed run variables are of two steps
    return variables_->CopyState(to);
  }
  absl::Status ReadOwned(const std::function<void(const pb::Variable&, const char*, int64_t)>& use) override {
    OF_RETURN_IF_ERROR(failure());
    return variables_->ReadOwned(use);
  }
  absl::Status LoadState(const CheckpointReader& checkpoint) override {
    const Doing doing(*this, "loads a checkpoint");
    OF_RETURN_IF_ERROR(failure());
    others_->Forget();
    return OnEveryRank([&](int rank) { return variables_->LoadState(checkpoint, rank); });
  }
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& note) override {
    const Doing doing(*this, "waits for the notes of all processes");
    OF_RETURN_IF_ERROR(failure());
    if (options_.peers == nullptr) return std::vector<std::string>{note};
    return options_.peers->ExchangeNotes(note);
  }
  absl::Status SaveTrace(const std::string& path) override {
    return Together("saves the trace", [&] { return SaveTraceHere(path); });
  }
  pb::ProcessWaits Waits() override { return WaitsAfter(kWindow); }
  EngineStats stats() const override;

 private:
  // A queue of a rank of this process.
  struct Lane {
    int rank;
    pb::Queue queue;
    DeviceContext* device;
    std::unique_ptr<Executor> executor;
    ActorThread* thread;
  };

  absl::Status LoadHere();
  absl::Status OpenDevices();
  absl::Status OpenQueues();
  absl::StatusOr<std::unique_ptr<DeviceContext>> Open(int rank, pb::Queue queue, int cores);
  absl::Status MakeExecutors();
  void MakeCounts();
  CountsOnHost* CountsOf(const Lane& lane);
  absl::StatusOr<pb::PeerPlan> Introduction();
  absl::Status MakeMailFile();
  absl::Status ShareMemory();
  absl::Status ShareMemoryWith(int process, const pb::PeerPlan& plan, std::map<int, CoreBudget::Taken*>& cores_taken);
  absl::Status MapZones(int process, const pb::PeerPlan& plan);
  absl::Status Initialise();
  absl::Status OnEveryRank(const std::function<absl::Status(int rank)>& fn) const;
  void MakeThreads();
  // Returns when they have warmed up their devices.
  absl::Status StartThreads();
  static bool IsWarmedUp(const std::vector<Lane*>& lanes) { return !lanes[0]->device->host_accessible(); }
  absl::Status WarmUp(const std::vector<Lane*>& lanes);
  absl::Status WaitForDevices(const std::vector<Lane*>& lanes);
  absl::Status Clear(int rank);
  int64_t TraceShare(const std::vector<Lane*>& lanes) const;
  absl::Status SaveTraceHere(const std::string& path);
  std::vector<std::vector<Lane*>> LanesByThread();

  // Actions of all processes outside of runs: an error here is an error everywhere.
  template <typename Fn>
  absl::Status Together(const char* what, const Fn& fn) {
    const Doing doing(*this, what);
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
  // Starts the limit for the end of the engine.
  void LimitEnd(const absl::Status& status) {
    end_limit_.Start(std::chrono::milliseconds(static_cast<int64_t>(1000 * options_.end_seconds)), [this, status] {
      LOG(ERROR) << "process " << options_.process << ": its devices have not come to an end within "
                 << options_.end_seconds << " s of an error, so the process ends";
      if (options_.on_stuck) return options_.on_stuck(status);
      std::cerr << "error: " << status.message() << std::endl;
      std::_Exit(1);
    });
  }
  // Keeps the first error and stops everything.
  void Fail(const absl::Status& status, bool tell_peers);
  absl::Status WaitForThreads();
  // Of a run: the number of finished acts, and the time since it changed.
  struct Watch {
    AwakeClock clock;
    absl::Duration since;  // by it
    int64_t acts = -1;
    bool reported = false;
  };
  // Once, when nothing has moved for too long.
  void ReportStall(Watch& watch);
  int64_t NumActs() const;
  // After watching for this long.
  pb::ProcessWaits WaitsAfter(std::chrono::milliseconds window);
  // The activity of the process as a whole, from here to the end of the scope.
  class Doing {
   public:
    Doing(EngineImpl& engine, std::string what) : engine_(engine) { engine_.SetDoing(std::move(what)); }
    ~Doing() { engine_.SetDoing("is between two runs"); }

   private:
    EngineImpl& engine_;
  };
  void SetDoing(std::string what, std::string plan = "") {
    std::lock_guard<std::mutex> lock(mu_);
    doing_ = std::move(what);
    running_plan_ = std::move(plan);
  }

  void OnThreadDone(int rank) override;
  void OnThreadFailed(int, absl::Status status) override { Fail(status, /*tell_peers=*/true); }
  void OnMessages(int process, absl::Span<const Message> messages) override;
  void OnPeerError(int process, absl::Status status) override;
  void OnPeerLost(int process, absl::Status status) override;
  absl::Status Deliver(const Message& message) override;

  std::string Where(int rank) const { return absl::StrCat("rank ", rank, " (", plans_.ranks(rank).device(), ")"); }
  bool IsOurs(int rank) const { return plans_.ranks(rank).process() == options_.process; }
  // Whether any process of the job has devices that are warmed up; the same in all.
  bool AnyLaunches() const {
    return std::any_of(plans_.ranks().begin(), plans_.ranks().end(),
                       [](const pb::Rank& rank) { return Device::Parse(rank.device())->kind != DeviceKind::kCpu; });
  }
  bool OnOurHost(int rank) const { return plans_.ranks(rank).host() == plans_.ranks(ranks_[0]).host(); }

  const pb::Program plans_;
  const EngineOptions options_;
  EndLimit end_limit_;  // before all members that wait for devices
  const OpRegistry ops_;
  CoreBudget cores_;
  std::vector<int> ranks_;                               // of this process
  std::vector<std::unique_ptr<DeviceContext>> devices_;  // by rank; null for those of other processes
  JobMemory memory_;
  RowShifts row_shifts_;
  std::unique_ptr<Variables> variables_;
  std::vector<std::unique_ptr<DeviceContext>> queue_devices_;  // of queues other than compute
  std::map<int, CountsOnHost> counts_;                         // by rank; none whose memory the host can address
  std::vector<Lane> lanes_;                                    // by rank, then by queue
  std::unique_ptr<ProgramIds> ids_;
  std::unique_ptr<OtherHosts> others_;
  std::unique_ptr<MailFile> mail_;               // null for a job of one process
  std::vector<std::unique_ptr<Inbox>> inboxes_;  // as threads_; none without mail_
  std::unique_ptr<ProcessBus> bus_;
  std::vector<std::unique_ptr<TraceRing>> traces_;  // as threads_; none if acts are not recorded
  std::vector<std::unique_ptr<ActorThread>> threads_;
  std::vector<ActorThread*> thread_at_;  // by address; null for those without a thread here

  std::mutex waits_mu_;  // held while the threads are asked for their waits
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::string doing_ = "is loading its program";
  std::string running_plan_;  // from the grants to the barrier
  int running_threads_ = 0;   // of the current run
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
  MakeThreads();
  if (options_.peers != nullptr) options_.peers->SetListener(this);
  if (AnyLaunches()) OF_RETURN_IF_ERROR(Barrier());  // so that collectives find every process there
  OF_RETURN_IF_ERROR(StartThreads());
  OF_RETURN_IF_ERROR(Initialise());
  others_->Start();
  return Barrier();  // every process can take messages, every variable is set
}

// Kernels prepare for the threads, or the device, of the thread that calls them.
absl::Status EngineImpl::MakeExecutors() {
  SourceCache sources;
  for (const pb::Plan& plan : plans_.plans()) row_shifts_[plan.name()] = 0;
  MakeCounts();
  for (Lane& lane : lanes_) {
    if (const char* error = lane.device->BindThread()) {
      return absl::InternalError(absl::StrCat(Where(lane.rank), ": ", error));
    }
    OF_ASSIGN_OR_RETURN(lane.executor, Executor::Create({.plans = plans_,
                                                         .ops = ops_,
                                                         .rank = lane.rank,
                                                         .queue = lane.queue,
                                                         .device = *lane.device,
                                                         .memory = memory_,
                                                         .sources = sources,
                                                         .row_shifts = &row_shifts_,
                                                         .collectives = options_.collectives,
                                                         .counts = CountsOf(lane),
                                                         .on_fetch = options_.on_fetch,
                                                         .profile = options_.profile,
                                                         .capture = options_.capture,
                                                         .emulated_ns_per_byte = options_.emulated_ns_per_byte}));
  }
  return absl::OkStatus();
}

// Of each rank that launches.
void EngineImpl::MakeCounts() {
  std::map<int, std::map<pb::Queue, DeviceContext*>> devices;
  for (const Lane& lane : lanes_) {
    if (KindOf(lane.queue).launches && !lane.device->host_accessible()) devices[lane.rank][lane.queue] = lane.device;
  }
  for (auto& [rank, of_queue] : devices) {
    counts_.emplace(rank, CountsOnHost(std::move(of_queue)));
  }
}

// Null for a queue whose acts launch nothing.
CountsOnHost* EngineImpl::CountsOf(const Lane& lane) {
  const auto it = counts_.find(lane.rank);
  return it == counts_.end() || !KindOf(lane.queue).launches ? nullptr : &it->second;
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
    OF_ASSIGN_OR_RETURN(devices_[rank], Open(rank, MainQueue(), cores));
    OF_RETURN_IF_ERROR_AT(memory_.Allocate(rank, plans_.ranks(rank), *devices_[rank]), Where(rank));
  }
  return OpenQueues();
}

absl::StatusOr<std::unique_ptr<DeviceContext>> EngineImpl::Open(int rank, pb::Queue queue, int cores) {
  OF_ASSIGN_OR_RETURN_AT(const Device device, LocalDevice(plans_, rank), Where(rank));
  absl::StatusOr<std::unique_ptr<DeviceContext>> context =
      options_.open_device ? options_.open_device(device, cores) : OpenDevice(device, cores, queue);
  OF_RETURN_IF_ERROR_AT(context.status(), absl::StrCat("rank ", rank));  // the device names itself
  return context;
}

// For every rank the compute queue, and others that have actors. The others take no more than a core, and mostly sleep.
absl::Status EngineImpl::OpenQueues() {
  std::set<std::pair<int, int>> used;
  for (const pb::Plan& plan : plans_.plans()) {
    for (const pb::Actor& actor : plan.actors()) used.insert({actor.rank(), actor.queue()});
  }
  for (const int rank : ranks_) {
    lanes_.push_back({.rank = rank, .queue = MainQueue(), .device = devices_[rank].get()});
    for (const QueueKind& kind : kQueues) {
      if (kind.is_main || !used.contains({rank, kind.queue})) continue;
      OF_ASSIGN_OR_RETURN(queue_devices_.emplace_back(), Open(rank, kind.queue, /*cores=*/1));
      lanes_.push_back({.rank = rank, .queue = kind.queue, .device = queue_devices_.back().get()});
    }
  }
  return absl::OkStatus();
}

// The information that other processes need of this one.
absl::StatusOr<pb::PeerPlan> EngineImpl::Introduction() {
  pb::PeerPlan mine;
  mine.set_hash(Hash(plans_));
  for (const int rank : ranks_) {
    for (const ZoneKind& kind : kZones) {
      const SharedMemory* file = memory_.file(rank, kind.zone);
      if (file == nullptr) continue;
      pb::SharedZone* zone = mine.add_zones();
      zone->set_rank(rank);
      zone->set_zone(kind.zone);
      zone->set_pid(getpid());
      zone->set_fd(file->fd());
      zone->set_size(file->size());
    }
  }
  OF_RETURN_IF_ERROR_AT(MakeMailFile(), "messages of peers");
  *mine.mutable_mail() = mail_->announcement();
  OF_RETURN_IF_ERROR(others_->Open(*options_.peers, cores_));
  if (others_->channel() != nullptr) *mine.mutable_data() = others_->channel()->announcement();
  return mine;
}

absl::Status EngineImpl::MakeMailFile() {
  std::vector<int> thread_of(plans_.ranks_size() * kQueuesOfRank, -1);
  int num_threads = 0;
  for (const std::vector<Lane*>& lanes : LanesByThread()) {
    for (const Lane* lane : lanes) thread_of[AddressOf(lane->rank, lane->queue)] = num_threads;
    ++num_threads;
  }
  OF_ASSIGN_OR_RETURN(mail_, MailFile::Create(plans_, options_.process, num_threads, thread_of));
  return absl::OkStatus();
}

// Compares plans with the peers and maps the memory of those that are on this host.
absl::Status EngineImpl::ShareMemory() {
  ids_ = std::make_unique<ProgramIds>(plans_);
  others_ =
      std::make_unique<OtherHosts>(plans_, options_.process, memory_, *ids_, static_cast<OtherHosts::Listener&>(*this));
  std::vector<int> process_of_rank;
  for (const pb::Rank& rank : plans_.ranks()) process_of_rank.push_back(rank.process());
  bus_ = std::make_unique<ProcessBus>(options_.process, process_of_rank, options_.peers, *ids_,
                                      [this](const absl::Status& status) { Fail(status, /*tell_peers=*/true); });
  bus_->Attach(nullptr, others_->shipments(), others_->are_far());
  if (options_.peers == nullptr) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN(const pb::PeerPlan mine, Introduction());
  bus_->Attach(others_->channel(), others_->shipments(), others_->are_far());
  OF_ASSIGN_OR_RETURN(const std::vector<pb::PeerPlan> plans, options_.peers->Exchange(mine));
  std::map<int, CoreBudget::Taken*> cores_taken = {{options_.process, &mail_->cores_taken()}};
  for (int p = 0; p < static_cast<int>(plans.size()); ++p) {
    if (p == options_.process) continue;
    if (plans[p].hash() != mine.hash()) {
      return absl::FailedPreconditionError(
          absl::StrCat("process ", p, " has another plan: its hash is ", plans[p].hash(), ", ours is ", mine.hash()));
    }
    if (others_->are_far()[p]) {
      OF_RETURN_IF_ERROR(others_->Connect(p, plans[p].data()));
    } else {
      OF_RETURN_IF_ERROR(ShareMemoryWith(p, plans[p], cores_taken));
    }
  }
  cores_.Share(std::max(options_.cores, 1) * static_cast<int>(cores_taken.size()), *cores_taken.begin()->second);
  // What our copies read must be there.
  for (int r = 0; r < plans_.ranks_size(); ++r) {
    const bool on_host = Device::Parse(plans_.ranks(r).device())->kind == DeviceKind::kCpu;
    for (const ZoneKind& kind : kZones) {
      const int64_t bytes = ZoneBytes(plans_.ranks(r), kind.zone);
      if (!kind.peers_read || !on_host || !OnOurHost(r) || bytes == 0 || memory_.Base(r, kind.zone) != nullptr)
        continue;
      return absl::InvalidArgumentError(absl::StrCat("process ", plans_.ranks(r).process(), " announces no ", kind.name,
                                                     " memory for rank ", r, ", the plan has ", bytes, " bytes"));
    }
  }
  // From here on a process may fail, and take its memory with it, without harming the others.
  return Barrier();
}

// Whether there is shared memory is found by trying. Without it, messages go over the network, and ranks must not read
// one another's registers.
absl::Status EngineImpl::ShareMemoryWith(int process, const pb::PeerPlan& plan,
                                         std::map<int, CoreBudget::Taken*>& cores_taken) {
  absl::StatusOr<std::unique_ptr<PeerMailFile>> file = PeerMailFile::Map(plan.mail(), options_.process);
  if (file.ok()) {
    cores_taken[process] = &(*file)->cores_taken();
    bus_->Attach(process, *std::move(file));
    return MapZones(process, plan);
  }
  const std::string who = absl::StrCat("process ", process);
  if (absl::IsInvalidArgument(file.status())) return Annotate(file.status(), who);
  if (plan.zones().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(who, " shares no memory with process ", options_.process,
                                                    ", whose ranks read its registers: are they on one host? ",
                                                    file.status().message()));
}

absl::Status EngineImpl::MapZones(int process, const pb::PeerPlan& plan) {
  for (const pb::SharedZone& zone : plan.zones()) {
    const bool valid = zone.rank() >= 0 && zone.rank() < plans_.ranks_size() &&
                       plans_.ranks(zone.rank()).process() == process && pb::Zone_IsValid(zone.zone()) &&
                       KindOf(zone.zone()).peers_read &&
                       ZoneBytes(plans_.ranks(zone.rank()), zone.zone()) == zone.size() && zone.size() > 0 &&
                       memory_.Base(zone.rank(), zone.zone()) == nullptr;
    if (!valid) {
      return absl::InvalidArgumentError(absl::StrCat("process ", process, " announces ", zone.size(),
                                                     " bytes of shared memory for rank ", zone.rank(),
                                                     ", which the plan does not give it"));
    }
    OF_RETURN_IF_ERROR_AT(memory_.MapPeer(zone.rank(), zone.zone(), zone.pid(), zone.fd(), zone.size()),
                          absl::StrCat("shared memory of rank ", zone.rank(), " in process ", process));
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::Initialise() {
  std::vector<DeviceContext*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  variables_ = std::make_unique<Variables>(plans_, memory_, std::move(devices));
  return OnEveryRank([this](int rank) { return variables_->Initialise(rank); });
}

// Each on a thread of its own; returns the first error.
absl::Status EngineImpl::OnEveryRank(const std::function<absl::Status(int rank)>& fn) const {
  std::vector<absl::Status> statuses(ranks_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    threads.emplace_back([this, i, &fn, &statuses] { statuses[i] = fn(ranks_[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) OF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

void EngineImpl::MakeThreads() {
  if (options_.trace_bytes > 0) bus_->UseClock(TraceRing::Now);
  thread_at_.resize(plans_.ranks_size() * kQueuesOfRank, nullptr);
  const std::vector<std::vector<Lane*>> threads = LanesByThread();
  for (const std::vector<Lane*>& lanes : threads) {
    if (options_.trace_bytes > 0) {
      traces_.push_back(std::make_unique<TraceRing>(TraceShare(lanes)));
    }
    ActorThread::Context context{.plans = plans_,
                                 .rank = lanes[0]->rank,
                                 .bus = *bus_,
                                 .listener = *this,
                                 .cores = &cores_,
                                 .trace = traces_.empty() ? nullptr : traces_.back().get()};
    if (mail_ != nullptr) {
      const int thread = static_cast<int>(threads_.size());
      inboxes_.push_back(std::make_unique<Inbox>(mail_->ReadersOf(thread), mail_->bell(thread), *ids_));
      context.inbox = inboxes_.back().get();
    }
    for (Lane* lane : lanes) context.lanes.push_back({lane->queue, *lane->device, *lane->executor});
    if (IsWarmedUp(lanes)) {
      context.begin = [this, lanes] { return WarmUp(lanes); };
      ++running_threads_;
    }
    threads_.push_back(std::make_unique<ActorThread>(context));
    for (Lane* lane : lanes) {
      const int address = AddressOf(lane->rank, lane->queue);
      lane->thread = thread_at_[address] = threads_.back().get();
      bus_->Attach(address, *threads_.back());
    }
  }
}

absl::Status EngineImpl::StartThreads() {
  const Doing doing(*this, "warms up its devices");
  for (const auto& thread : threads_) thread->Start();
  return WaitForThreads();
}

// Collectives are launched only when the device has finished all compute: behind them it may wait for peers. Then
// memory is as it was allocated.
absl::Status EngineImpl::WarmUp(const std::vector<Lane*>& lanes) {
  if (!KindOf(lanes[0]->queue).launches) return absl::OkStatus();
  for (const Lane* lane : lanes) OF_RETURN_IF_ERROR(lane->executor->WarmUp());
  OF_RETURN_IF_ERROR(WaitForDevices(lanes));
  for (const Lane* lane : lanes) OF_RETURN_IF_ERROR(lane->executor->WarmUpCollectives());
  OF_RETURN_IF_ERROR(WaitForDevices(lanes));
  OF_RETURN_IF_ERROR(Clear(lanes[0]->rank));
  return WaitForDevices(lanes);
}

absl::Status EngineImpl::WaitForDevices(const std::vector<Lane*>& lanes) {
  for (const Lane* lane : lanes) {
    int event = 0;
    const char* error = lane->device->RecordEvent(&event);
    if (error == nullptr) error = lane->device->WaitEvent(event);
    OF_RETURN_IF_ERROR(failure());  // after which devices are let go
    if (error == nullptr) continue;
    return absl::InternalError(absl::StrCat(Where(lane->rank), ": the device failed while it was warmed up: ", error));
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::Clear(int rank) {
  DeviceContext& device = *devices_[rank];
  const pb::Rank& sizes = plans_.ranks(rank);
  for (const ZoneKind& kind : kZones) {
    const int64_t bytes = ZoneBytes(sizes, kind.zone);
    if (bytes == 0) continue;
    const char* const error = device.FillZero(memory_.Base(rank, kind.zone), static_cast<size_t>(bytes));
    if (error != nullptr) return absl::InternalError(absl::StrCat(Where(rank), ": ", error));
  }
  return absl::OkStatus();
}

// A thread for each queue; but one launches all queues that devices order themselves. Reading sleeps and works on the
// host, so it never shares one.
std::vector<std::vector<EngineImpl::Lane*>> EngineImpl::LanesByThread() {
  std::vector<std::vector<Lane*>> threads;
  for (Lane& lane : lanes_) {
    const bool shares = KindOf(lane.queue).launches && !KindOf(lane.queue).is_main && lane.device->stream() != nullptr;
    if (!shares) threads.emplace_back();
    threads.back().push_back(&lane);
  }
  return threads;
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
  const Doing doing(*this, absl::StrCat("is about to run plan '", plan, "'"));
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!failure_.ok()) return failure_;
    status = lost_peer_;
    if (status.ok()) running_threads_ = static_cast<int>(threads_.size());
  }
  if (!status.ok()) {  // lost before this run, in which peers may be already
    Fail(status, /*tell_peers=*/true);
    return failure();
  }
  status = others_->BringUpToDate(index, *bus_);
  if (!status.ok()) return status;
  for (const auto& thread : threads_) thread->Grant(index, first_step, steps);
  SetDoing(absl::StrCat("runs plan '", plan, "'"), std::string(plan));
  status = WaitForThreads();
  // Variables that a peer may read in the next run are final only when all processes have reached the end of this one.
  if (status.ok()) {
    SetDoing(absl::StrCat("has ended its part of plan '", plan, "' and waits for the other processes"),
             std::string(plan));
    status = Barrier();
    if (!status.ok()) Fail(status, /*tell_peers=*/true);
  }
  std::lock_guard<std::mutex> lock(mu_);
  wall_seconds_ += Seconds(std::chrono::steady_clock::now() - begin) * static_cast<double>(ranks_.size());
  return failure_.ok() ? status : failure_;
}

absl::Status EngineImpl::WaitForThreads() {
  Watch watch;
  std::unique_lock<std::mutex> lock(mu_);
  const auto over = [this] { return running_threads_ == 0 || !failure_.ok(); };
  while (!changed_.wait_for(lock, kLookTime, over)) {
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
  const absl::Duration now = watch.clock.Look();
  if (const int64_t acts = NumActs(); acts != watch.acts) {
    watch.since = now, watch.acts = acts, watch.reported = false;
  }
  if (watch.reported || absl::ToDoubleSeconds(now - watch.since) < options_.stall_seconds) return;
  watch.reported = true;
  const pb::ProcessWaits waits = WaitsAfter(std::chrono::milliseconds(0));  // no activity would be visible
  if (options_.on_stall) return options_.on_stall(waits);
  LOG(WARNING) << "process " << options_.process << ": no act has ended for " << options_.stall_seconds << " s\n"
               << DiagnosisText(Diagnose({waits}));
}

int64_t EngineImpl::NumActs() const {
  int64_t acts = 0;
  for (const auto& thread : threads_) acts += thread->acts();
  return acts;
}

void EngineImpl::Fail(const absl::Status& status, bool tell_peers) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!failure_.ok()) return;
    failure_ = status;
    changed_.notify_all();
  }
  for (const auto& thread : threads_) thread->Stop();
  if (others_ != nullptr) others_->Interrupt(status);
  if (options_.peers != nullptr) {
    if (tell_peers) options_.peers->SendError(status);
    options_.peers->Interrupt(status);
  }
  // Otherwise devices, and threads that wait for them, would wait for peers that never come.
  if (options_.collectives != nullptr) options_.collectives->Abort();
}

void EngineImpl::OnThreadDone(int) {
  std::lock_guard<std::mutex> lock(mu_);
  if (--running_threads_ == 0) changed_.notify_all();
}

void EngineImpl::OnMessages(int process, absl::Span<const Message> messages) {
  for (const Message& message : messages) {
    const std::optional<Message> known = ids_->FromPeer(message);
    const bool lands = known.has_value() && others_->Lands(*known);
    if (known.has_value() && !lands && Deliver(*known).ok()) continue;
    return Fail(absl::InvalidArgumentError(absl::StrCat("process ", process, " sent a message for plan ", message.plan,
                                                        " actor ", message.actor, " register ", message.register_id,
                                                        lands ? ", without its data" : ", which is not here")),
                /*tell_peers=*/true);
  }
}

absl::Status EngineImpl::Deliver(const Message& message) {
  const pb::Actor& actor = plans_.plans(message.plan).actors(message.actor);
  ActorThread* const thread = thread_at_[AddressOf(actor.rank(), actor.queue())];
  if (thread == nullptr) return absl::InvalidArgumentError("nobody serves the actor here");
  thread->Post({&message, 1});
  return absl::OkStatus();
}

void EngineImpl::OnPeerError(int process, absl::Status status) {
  Fail(absl::AbortedError(absl::StrCat("process ", process, " failed first: ", status.message())),
       /*tell_peers=*/false);
}

void EngineImpl::OnPeerLost(int, absl::Status status) {
  // A peer may leave when it has done its part of the last run. A process that still needs it is in a run, in a
  // barrier, which notices by itself, or begins a run later.
  {
    std::lock_guard<std::mutex> lock(mu_);
    lost_peer_ = status;
    if (running_threads_ == 0) return;
  }
  Fail(status, /*tell_peers=*/true);
}

// Memory for the acts of these queues: all threads keep about as many steps.
int64_t EngineImpl::TraceShare(const std::vector<Lane*>& lanes) const {
  const auto served = [&](const pb::Actor& actor) {
    return std::any_of(lanes.begin(), lanes.end(),
                       [&](const Lane* lane) { return lane->rank == actor.rank() && lane->queue == actor.queue(); });
  };
  int64_t acts = 0, all = 0;  // of a step of every plan
  for (const pb::Plan& plan : plans_.plans()) {
    for (const pb::Actor& actor : plan.actors()) {
      if (IsOurs(actor.rank())) all += actor.acts_per_step();
      if (served(actor)) acts += actor.acts_per_step();
    }
  }
  const double share = static_cast<double>(acts) / static_cast<double>(std::max<int64_t>(1, all));
  return static_cast<int64_t>(share * static_cast<double>(options_.trace_bytes));
}

absl::Status EngineImpl::SaveTraceHere(const std::string& path) {
  if (options_.trace_bytes <= 0) return absl::FailedPreconditionError("acts are not recorded");
  TraceSource source{.program = plans_, .process = options_.process, .peers = options_.peers};
  for (const auto& trace : traces_) source.rings.push_back(trace.get());
  return oneflow::SaveTrace(source, path, [this] { return Barrier(); });
}

pb::ProcessWaits EngineImpl::WaitsAfter(std::chrono::milliseconds window) {
  std::lock_guard<std::mutex> one_at_a_time(waits_mu_);
  struct Before {
    double busy = 0;
    int64_t acts = 0;
  };
  std::vector<Before> before;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& thread : threads_) before.push_back({thread->busy_seconds(), thread->acts()});
  std::this_thread::sleep_for(window);
  pb::ProcessWaits waits;
  waits.set_process(options_.process);
  waits.set_window_seconds(Seconds(std::chrono::steady_clock::now() - begin));
  std::vector<pb::QueueWaits> queues(threads_.size());
  for (size_t i = 0; i < threads_.size(); ++i) {
    queues[i].set_busy_seconds(threads_[i]->busy_seconds() - before[i].busy);
    queues[i].set_acts(threads_[i]->acts() - before[i].acts);
    threads_[i]->AskWaits();
  }
  const auto until = std::chrono::steady_clock::now() + kAnswerTime;
  for (size_t i = 0; i < threads_.size(); ++i) {
    queues[i].MergeFrom(threads_[i]->Waits(until));
    *waits.add_queues() = std::move(queues[i]);
  }
  std::lock_guard<std::mutex> lock(mu_);
  waits.set_doing(doing_);
  waits.set_plan(running_plan_);
  return waits;
}

EngineStats EngineImpl::stats() const {
  EngineStats stats;
  std::map<std::string, OpTime> ops;
  stats.acts = NumActs();
  for (const int rank : ranks_) {
    stats.register_bytes += ZoneBytes(plans_.ranks(rank));
  }
  for (const Lane& lane : lanes_) {
    if (KindOf(lane.queue).is_main) {
      stats.run_seconds += lane.thread->run_seconds();
      stats.idle_seconds += lane.thread->idle_seconds();
      stats.kernel_seconds += lane.executor->seconds();
    }
    if (KindOf(lane.queue).moves_between_ranks) stats.communication_seconds += lane.executor->seconds();
    stats.bytes_moved += lane.executor->bytes_moved();
    stats.scratch_bytes += lane.executor->scratch_bytes();
    for (const OpTime& time : lane.executor->op_times()) {
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
  stats.bytes_sent = others_->bytes_sent();
  return stats;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(pb::Program plan, EngineOptions options) {
  auto engine = std::make_unique<EngineImpl>(std::move(plan), std::move(options));
  OF_RETURN_IF_ERROR(engine->Load());
  return engine;
}

}  // namespace oneflow
