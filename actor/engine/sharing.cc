#include "actor/engine/sharing.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "actor/transport/peer_network.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// The hash that all processes of a job share: of the plan, or of the program if that is everybody's.
std::string Hash(const pb::Program& program) {
  if (program.has_process()) return program.plan_hash();
  const std::string bytes = program.SerializeAsString();  // no maps, no unknown fields of ours: deterministic
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

class Meeting {
 public:
  Meeting(const EngineOptions& options, LoadedJob& job) : options_(options), job_(job) {}

  // The information that other processes need of this one.
  absl::StatusOr<pb::PeerPlan> Introduction() {
    pb::PeerPlan mine;
    mine.set_hash(Hash(job_.program));
    for (const int rank : job_.ranks) {
      for (const ZoneKind& kind : kZones) AddZone(rank, kind.zone, mine);
    }
    OF_RETURN_IF_ERROR_AT(MakeMailFile(), "messages of peers");
    *mine.mutable_mail() = job_.mail->announcement();
    OF_RETURN_IF_ERROR(job_.others->Open(*options_.peers, job_.cores));
    if (job_.others->channel() != nullptr) *mine.mutable_data() = job_.others->channel()->announcement();
    return mine;
  }

  // Compares plans with all peers. Maps the memory of those on this host, connects with those on others.
  absl::Status Meet(const pb::PeerPlan& mine, const std::vector<pb::PeerPlan>& plans) {
    cores_taken_ = {{job_.process, &job_.mail->cores_taken()}};
    for (int p = 0; p < static_cast<int>(plans.size()); ++p) {
      if (p == job_.process) continue;
      if (plans[p].hash() != mine.hash()) {
        return absl::FailedPreconditionError(
            absl::StrCat("process ", p, " has another plan: its hash is ", plans[p].hash(), ", ours is ", mine.hash()));
      }
      if (job_.others->are_far()[p]) {
        OF_RETURN_IF_ERROR(job_.others->Connect(p, plans[p].data()));
      } else {
        OF_RETURN_IF_ERROR(ShareMemoryWith(p, plans[p]));
      }
    }
    job_.cores.Share(std::max(options_.cores, 1) * static_cast<int>(cores_taken_.size()),
                     *cores_taken_.begin()->second);
    return CheckZonesAreHere();
  }

  // The shared memory of processes of this host, by process.
  std::map<int, std::unique_ptr<PeerMailFile>> TakeFiles() { return std::move(files_); }

 private:
  void AddZone(int rank, int zone, pb::PeerPlan& mine) const {
    const SharedMemory* const file = job_.memory.file(rank, zone);
    if (file == nullptr) return;
    pb::SharedZone& announced = *mine.add_zones();
    announced.set_rank(rank);
    announced.set_zone(zone);
    announced.set_pid(getpid());
    announced.set_fd(file->fd());
    announced.set_size(file->size());
  }

  absl::Status MakeMailFile() {
    std::vector<int> thread_of(job_.program.ranks_size() * kNumQueues, -1);
    int num_threads = 0;
    for (const std::vector<Lane*>& lanes : job_.LanesByThread()) {
      for (const Lane* lane : lanes) thread_of[AddressOf(lane->rank, lane->queue)] = num_threads;
      ++num_threads;
    }
    OF_ASSIGN_OR_RETURN(job_.mail, MailFile::Create(job_.program, job_.process, num_threads, thread_of));
    return absl::OkStatus();
  }

  // Whether there is shared memory is found by trying. Without it, messages go over the network, and ranks must not
  // read one another's registers.
  absl::Status ShareMemoryWith(int process, const pb::PeerPlan& plan) {
    absl::StatusOr<std::unique_ptr<PeerMailFile>> file = PeerMailFile::Map(plan.mail(), job_.process);
    if (file.ok()) {
      cores_taken_[process] = &(*file)->cores_taken();
      files_[process] = *std::move(file);
      return MapZones(process, plan);
    }
    const std::string who = absl::StrCat("process ", process);
    if (absl::IsInvalidArgument(file.status())) return Annotate(file.status(), who);
    if (plan.zones().empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(who, " shares no memory with process ", job_.process,
                                                      ", whose ranks read its registers: are they on one host? ",
                                                      file.status().message()));
  }

  absl::Status MapZones(int process, const pb::PeerPlan& plan) {
    for (const pb::SharedZone& zone : plan.zones()) {
      if (!IsExpected(process, zone)) {
        return absl::InvalidArgumentError(absl::StrCat("process ", process, " announces ", zone.size(),
                                                       " bytes of shared memory for rank ", zone.rank(),
                                                       ", which the plan does not give it"));
      }
      OF_RETURN_IF_ERROR_AT(job_.memory.MapPeer(zone.rank(), zone.zone(), zone.pid(), zone.fd(), zone.size()),
                            absl::StrCat("shared memory of rank ", zone.rank(), " in process ", process));
    }
    return absl::OkStatus();
  }

  // The plan gives the process such a zone, and nobody has announced it yet.
  bool IsExpected(int process, const pb::SharedZone& zone) const {
    if (zone.rank() < 0 || zone.rank() >= job_.program.ranks_size()) return false;
    const pb::Rank& rank = job_.program.ranks(zone.rank());
    return rank.process() == process && IsZone(zone.zone()) && ZoneKindOf(zone.zone()).peers_read &&
           BytesOfZone(rank, zone.zone()) == zone.size() && zone.size() > 0 &&
           job_.memory.Base(zone.rank(), zone.zone()) == nullptr;
  }

  // What our copies read must be there.
  absl::Status CheckZonesAreHere() const {
    for (int r = 0; r < job_.program.ranks_size(); ++r) {
      const pb::Rank& rank = job_.program.ranks(r);
      if (Device::Parse(rank.device())->kind != DeviceKind::kCpu || !job_.IsOnOurHost(r)) continue;
      for (const ZoneKind& kind : kZones) {
        const int64_t bytes = BytesOfZone(rank, kind.zone);
        if (!kind.peers_read || bytes == 0 || job_.memory.Base(r, kind.zone) != nullptr) continue;
        return absl::InvalidArgumentError(absl::StrCat("process ", rank.process(), " announces no ", kind.name,
                                                       " memory for rank ", r, ", the plan has ", bytes, " bytes"));
      }
    }
    return absl::OkStatus();
  }

  const EngineOptions& options_;
  LoadedJob& job_;
  std::map<int, CoreBudget::Taken*> cores_taken_;       // by process, of this host
  std::map<int, std::unique_ptr<PeerMailFile>> files_;  // by process, of this host
};

}  // namespace

absl::Status MeetPeers(const EngineOptions& options, OtherHosts::Listener& listener,
                       const std::function<void(absl::Status)>& on_error, LoadedJob& job) {
  job.ids = std::make_unique<ProgramIds>(job.program);
  job.others = std::make_unique<OtherHosts>(job.program, job.process, job.memory, *job.ids, listener);
  Meeting meeting(options, job);
  if (options.peers != nullptr) {
    OF_ASSIGN_OR_RETURN(const pb::PeerPlan mine, meeting.Introduction());
    OF_ASSIGN_OR_RETURN(const std::vector<pb::PeerPlan> plans, options.peers->Exchange(mine));
    OF_RETURN_IF_ERROR(meeting.Meet(mine, plans));
  }
  RouteContext routes = {.process = job.process,
                         .ids = *job.ids,
                         .peers = options.peers,
                         .channel = job.others->channel(),
                         .shipments = job.others->shipments().empty() ? nullptr : &job.others->shipments(),
                         .on_error = on_error};
  if (options.trace_bytes > 0) routes.now_ns = TraceRing::Now;
  std::vector<int> process_of_rank;
  for (const pb::Rank& rank : job.program.ranks()) process_of_rank.push_back(rank.process());
  job.bus = std::make_unique<ProcessBus>(std::move(routes), std::move(process_of_rank), job.others->are_far(),
                                         meeting.TakeFiles());
  // From here on a process may fail, and take its memory with it, without harming the others.
  return options.peers == nullptr ? absl::OkStatus() : options.peers->Barrier();
}

}  // namespace oneflow
