// A job as it lies in one process, ready to run: its program, devices, memory, threads and ways to other processes.
//
//   loading.h fills it ──► running.h runs it ──► telling.h says what it does
//
// Loading writes everything on one thread. Afterwards its members stay as they are; what moves is inside the threads,
// the memory and the ways, each of which says itself what may be called on which thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actor/actor_thread.h"
#include "actor/core_budget.h"
#include "actor/engine.h"
#include "actor/executor.h"
#include "actor/instruction/counts_on_host.h"
#include "actor/memory.h"
#include "actor/trace/trace_ring.h"
#include "actor/transport/inbox.h"
#include "actor/transport/mail_file.h"
#include "actor/transport/other_hosts.h"
#include "actor/transport/process_bus.h"
#include "actor/transport/program_ids.h"
#include "actor/variables.h"
#include "oneflow_core/op.h"

namespace oneflow {

// A queue of a rank of this process.
struct Lane {
  int rank;
  int queue;
  DeviceContext* device;
  std::unique_ptr<Executor> executor;
  ActorThread* thread;
};

struct LoadedJob {
  // Nothing is loaded yet. `options` are borrowed.
  LoadedJob(pb::Program its_program, const EngineOptions& options);
  // Stops the threads and waits for their ends. Nobody may call them any more.
  ~LoadedJob();

  // "rank 1 (cpu:1)".
  std::string Where(int rank) const;
  bool IsOurs(int rank) const { return program.ranks(rank).process() == process; }
  bool IsOnOurHost(int rank) const { return program.ranks(rank).host() == program.ranks(ranks[0]).host(); }
  // Whether any process of the job has devices that are warmed up; the same in all.
  bool AnyLaunches() const;
  // The lanes that one thread serves, thread by thread: a thread for each queue, but one launches all queues that
  // devices order themselves.
  std::vector<std::vector<Lane*>> LanesByThread();
  // Calls `fn` for every rank of the process, each on a thread of its own; returns the first error.
  absl::Status OnEveryRank(const std::function<absl::Status(int rank)>& fn) const;
  // Finished since loading. Any thread.
  int64_t NumActs() const;

  const pb::Program program;
  const int process;
  const OpRegistry ops;
  CoreBudget cores;
  std::vector<int> ranks;                               // of this process
  std::vector<std::unique_ptr<DeviceContext>> devices;  // by rank; null for those of other processes
  JobMemory memory;
  RowShifts row_shifts;
  std::unique_ptr<Variables> variables;
  std::vector<std::unique_ptr<DeviceContext>> queue_devices;  // of queues other than the main ones
  std::map<int, CountsOnHost> counts;                         // by rank; none whose memory the host can address
  std::vector<Lane> lanes;                                    // by rank, then by queue
  std::unique_ptr<ProgramIds> ids;
  std::unique_ptr<OtherHosts> others;
  std::unique_ptr<MailFile> mail;               // null for a job of one process
  std::vector<std::unique_ptr<Inbox>> inboxes;  // as threads; none without mail
  std::unique_ptr<ProcessBus> bus;
  std::vector<std::unique_ptr<TraceRing>> traces;  // as threads; none if acts are not recorded
  std::vector<std::unique_ptr<ActorThread>> threads;
  std::vector<ActorThread*> thread_at;  // by address; null for those without a thread here
};

}  // namespace oneflow
