#include "actor/engine/loading.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "actor/engine/devices.h"
#include "actor/engine/sharing.h"
#include "actor/program_check.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

absl::Status CheckOurProgram(const EngineOptions& options, const pb::Program& program) {
  const int processes = options.peers == nullptr ? 1 : options.peers->num_processes();
  if (options.process != (options.peers == nullptr ? 0 : options.peers->process())) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", options.process, " is not the one that its peers know, of ", processes));
  }
  OF_RETURN_IF_ERROR(CheckProgram(program, processes));
  if (program.has_process() && program.process() != options.process) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", options.process, " was given the program of process ", program.process()));
  }
  return absl::OkStatus();
}

// Of each rank that launches.
void MakeCounts(LoadedJob& job) {
  std::map<int, std::map<int, DeviceContext*>> devices;
  for (const Lane& lane : job.lanes) {
    if (QueueKindOf(lane.queue).launches && !lane.device->host_accessible())
      devices[lane.rank][lane.queue] = lane.device;
  }
  for (auto& [rank, of_queue] : devices) job.counts.emplace(rank, CountsOnHost(std::move(of_queue)));
}

// Null for a queue whose acts launch nothing.
CountsOnHost* CountsOf(const Lane& lane, LoadedJob& job) {
  const auto it = job.counts.find(lane.rank);
  return it == job.counts.end() || !QueueKindOf(lane.queue).launches ? nullptr : &it->second;
}

// Kernels prepare for the threads, or the device, of the thread that calls them.
absl::Status MakeExecutors(const EngineOptions& options, LoadedJob& job) {
  SourceCache sources;
  for (const pb::Plan& plan : job.program.plans()) job.row_shifts[plan.name()] = 0;
  MakeCounts(job);
  for (Lane& lane : job.lanes) {
    if (const char* error = lane.device->BindThread()) {
      return absl::InternalError(absl::StrCat(job.Where(lane.rank), ": ", error));
    }
    OF_ASSIGN_OR_RETURN(lane.executor, Executor::Create({.plans = job.program,
                                                         .ops = job.ops,
                                                         .rank = lane.rank,
                                                         .queue = lane.queue,
                                                         .device = *lane.device,
                                                         .memory = job.memory,
                                                         .sources = sources,
                                                         .row_shifts = &job.row_shifts,
                                                         .collectives = options.collectives,
                                                         .counts = CountsOf(lane, job),
                                                         .on_fetch = options.on_fetch,
                                                         .profile = options.profile,
                                                         .capture = options.capture,
                                                         .emulated_ns_per_byte = options.emulated_ns_per_byte}));
  }
  return absl::OkStatus();
}

// Runs everything once on the devices of a thread, as its first work.
class WarmUp {
 public:
  WarmUp(const Running& running, const LoadedJob& job, std::vector<Lane*> lanes)
      : running_(running), job_(job), lanes_(std::move(lanes)) {}

  static bool IsNeeded(const std::vector<Lane*>& lanes) { return !lanes[0]->device->host_accessible(); }

  // Collectives are launched only when the device has finished all compute: behind them it may wait for peers. Then
  // memory is as it was allocated.
  absl::Status Run() const {
    if (!QueueKindOf(lanes_[0]->queue).launches) return absl::OkStatus();
    for (const Lane* lane : lanes_) OF_RETURN_IF_ERROR(lane->executor->WarmUp());
    OF_RETURN_IF_ERROR(WaitForDevices());
    for (const Lane* lane : lanes_) OF_RETURN_IF_ERROR(lane->executor->WarmUpCollectives());
    OF_RETURN_IF_ERROR(WaitForDevices());
    OF_RETURN_IF_ERROR(Clear(lanes_[0]->rank));
    return WaitForDevices();
  }

 private:
  absl::Status WaitForDevices() const {
    for (const Lane* lane : lanes_) {
      int event = 0;
      const char* error = lane->device->RecordEvent(&event);
      if (error == nullptr) error = lane->device->WaitEvent(event);
      OF_RETURN_IF_ERROR(running_.failure());  // after which devices are let go
      if (error == nullptr) continue;
      return absl::InternalError(
          absl::StrCat(job_.Where(lane->rank), ": the device failed while it was warmed up: ", error));
    }
    return absl::OkStatus();
  }

  absl::Status Clear(int rank) const {
    DeviceContext& device = *job_.devices[rank];
    for (const ZoneKind& kind : kZones) {
      const int64_t bytes = BytesOfZone(job_.program.ranks(rank), kind.zone);
      if (bytes == 0 || kind.in_file) continue;  // nothing was written there: acts of the disk are not launched
      if (!kind.of_device) {
        std::memset(job_.memory.Base(rank, kind.zone), 0, static_cast<size_t>(bytes));
        continue;
      }
      const char* const error = device.FillZero(job_.memory.Base(rank, kind.zone), static_cast<size_t>(bytes));
      if (error != nullptr) return absl::InternalError(absl::StrCat(job_.Where(rank), ": ", error));
    }
    return absl::OkStatus();
  }

  const Running& running_;
  const LoadedJob& job_;
  const std::vector<Lane*> lanes_;
};

// Memory for the acts of these queues: all threads keep about as many steps.
int64_t TraceShare(const EngineOptions& options, const LoadedJob& job, const std::vector<Lane*>& lanes) {
  const auto served = [&](const pb::Actor& actor) {
    return std::any_of(lanes.begin(), lanes.end(),
                       [&](const Lane* lane) { return lane->rank == actor.rank() && lane->queue == actor.queue(); });
  };
  int64_t acts = 0, all = 0;  // of a step of every plan
  for (const pb::Plan& plan : job.program.plans()) {
    for (const pb::Actor& actor : plan.actors()) {
      if (job.IsOurs(actor.rank())) all += actor.acts_per_step();
      if (served(actor)) acts += actor.acts_per_step();
    }
  }
  const double share = static_cast<double>(acts) / static_cast<double>(std::max<int64_t>(1, all));
  return static_cast<int64_t>(share * static_cast<double>(options.trace_bytes));
}

// A thread for these lanes; returns whether it reports that it has warmed up its devices.
bool MakeThread(const EngineOptions& options, Running& running, const std::vector<Lane*>& lanes, LoadedJob& job) {
  if (options.trace_bytes > 0) {
    job.traces.push_back(std::make_unique<TraceRing>(TraceShare(options, job, lanes)));
  }
  ActorThread::Context context{.plans = job.program,
                               .rank = lanes[0]->rank,
                               .bus = *job.bus,
                               .listener = lanes[0]->queue == kBesideQueue ? running.beside() : running,
                               .cores = &job.cores,
                               .trace = job.traces.empty() ? nullptr : job.traces.back().get()};
  if (job.mail != nullptr) {
    const int thread = static_cast<int>(job.threads.size());
    job.inboxes.push_back(std::make_unique<Inbox>(job.mail->ReadersOf(thread), job.mail->bell(thread), *job.ids));
    context.inbox = job.inboxes.back().get();
  }
  for (Lane* lane : lanes) context.lanes.push_back({lane->queue, *lane->device, *lane->executor});
  const bool warms_up = WarmUp::IsNeeded(lanes);
  if (warms_up) context.begin = [warm_up = WarmUp(running, job, lanes)] { return warm_up.Run(); };
  job.threads.push_back(std::make_unique<ActorThread>(context));
  for (Lane* lane : lanes) {
    const int address = AddressOf(lane->rank, lane->queue);
    lane->thread = job.thread_at[address] = job.threads.back().get();
    job.bus->Attach(address, *job.threads.back());
  }
  return warms_up;
}

// Returns how many of them report that they have warmed up their devices.
int MakeThreads(const EngineOptions& options, Running& running, LoadedJob& job) {
  job.thread_at.resize(job.program.ranks_size() * kNumQueues, nullptr);
  int reporting = 0;
  for (const std::vector<Lane*>& lanes : job.LanesByThread()) reporting += MakeThread(options, running, lanes, job);
  return reporting;
}

absl::Status Initialise(LoadedJob& job) {
  std::vector<DeviceContext*> devices;
  for (const auto& device : job.devices) devices.push_back(device.get());
  job.variables = std::make_unique<Variables>(job.program, job.memory, std::move(devices));
  return job.OnEveryRank([&](int rank) { return job.variables->Initialise(rank); });
}

}  // namespace

absl::Status LoadJob(const EngineOptions& options, Running& running, LoadedJob& job) {
  OF_RETURN_IF_ERROR(CheckOurProgram(options, job.program));
  OF_RETURN_IF_ERROR(OpenDevices(options, job));
  const auto on_error = [&running](const absl::Status& status) { running.Fail(status, /*tell_peers=*/true); };
  OF_RETURN_IF_ERROR(MeetPeers(options, running, on_error, job));
  absl::Status made;
  std::thread([&] { made = MakeExecutors(options, job); }).join();  // not the caller's, which is bound to our devices
  OF_RETURN_IF_ERROR(made);
  const int reporting = MakeThreads(options, running, job);
  if (options.peers != nullptr) options.peers->SetListener(&running);
  if (job.AnyLaunches()) OF_RETURN_IF_ERROR(running.Barrier());  // so that collectives find every process there
  OF_RETURN_IF_ERROR(running.Start(reporting));
  OF_RETURN_IF_ERROR(Initialise(job));
  job.others->Start();
  return running.Barrier();  // every process can take messages, every variable is set
}

}  // namespace oneflow
