#include "tools/study/calibration/act_replay.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/actor.h"
#include "actor/instruction/bound_instruction.h"
#include "actor/local_device.h"
#include "actor/memory.h"
#include "actor/variables.h"
#include "oneflow_core/queues.h"
#include "tools/job/median.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

absl::StatusOr<std::unique_ptr<DeviceContext>> OpenDevice(const pb::Program& program, int rank, int threads) {
  OF_ASSIGN_OR_RETURN(const Device device, LocalDevice(program, rank));
  if (device.kind == DeviceKind::kCpu) return MakeCpuDevice(threads);
  std::string why;
  std::unique_ptr<DeviceContext> context = MakeCudaDevice(device.index, &why);
  if (context == nullptr) return absl::UnavailableError(absl::StrCat(program.ranks(rank).device(), ": ", why));
  return context;
}

// An actor whose inputs are always filled and whose outputs are always free: whoever it talks to answers at once.
class LonelyActor {
 public:
  LonelyActor(const pb::Plan& plan, int plan_index, int actor, int64_t steps)
      : actor_(MakeActorSpec(plan, plan_index, actor)) {
    actor_.Grant(0, steps);
  }

  // What is missing at the beginning.
  absl::Status Supply() {
    const ActorSpec& spec = actor_.spec();
    for (const PortSpec& port : spec.inputs) {
      for (int32_t slot = port.initially_filled; slot < port.slots; ++slot) {
        const auto number = static_cast<uint8_t>(slot);
        OF_RETURN_IF_ERROR(
            actor_.OnMessage({Message::Kind::kFilled, number, spec.plan, spec.id, port.register_id, slot}));
      }
    }
    for (const PortSpec& port : spec.outputs) {
      for (int32_t slot = 0; slot < port.initially_filled; ++slot) {
        const auto number = static_cast<uint8_t>(slot);
        for (size_t i = 0; i < port.peers.size(); ++i) {
          OF_RETURN_IF_ERROR(
              actor_.OnMessage({Message::Kind::kFreed, number, spec.plan, spec.id, port.register_id, slot}));
        }
      }
    }
    return absl::OkStatus();
  }

  const Actor& actor() const { return actor_; }

  absl::Status EndAct() {
    outbox_.clear();
    actor_.Act(outbox_);
    for (Message message : outbox_) {
      message.actor = actor_.spec().id;
      if (message.kind == Message::Kind::kFilled) {
        message.kind = Message::Kind::kFreed;
      } else {
        message.kind = Message::Kind::kFilled;
        message.number += SlotsOf(message.register_id);  // all others are filled already
      }
      OF_RETURN_IF_ERROR(actor_.OnMessage(message));
    }
    return absl::OkStatus();
  }

 private:
  int32_t SlotsOf(int32_t register_id) const {
    const std::vector<PortSpec>& inputs = actor_.spec().inputs;
    const auto port = std::find_if(inputs.begin(), inputs.end(),
                                   [&](const PortSpec& input) { return input.register_id == register_id; });
    return port->slots;
  }

  Actor actor_;
  OutgoingMessages outbox_;
};

class RankReplay {
 public:
  RankReplay(const pb::Program& program, int plan, int rank, const ActOrder& order, const ReplayOptions& options)
      : program_(program),
        plan_(program.plans(plan)),
        plan_index_(plan),
        rank_(rank),
        order_(order),
        options_(options) {}

  // On the thread that will run the steps.
  absl::Status Load(const JobMemory& memory, const OpRegistry& ops, SourceCache& sources) {
    for (int a = 0; a < plan_.actors_size(); ++a) {
      const pb::Actor& actor = plan_.actors(a);
      if (actor.rank() != rank_) continue;
      OF_ASSIGN_OR_RETURN(DeviceContext* const device, DeviceOf(actor.queue()));
      if (const char* error = device->BindThread()) return absl::InternalError(error);
      const RankContext context{.plans = program_,
                                .ops = ops,
                                .rank = rank_,
                                .queue = actor.queue(),
                                .device = *device,
                                .memory = memory,
                                .sources = sources,
                                .on_fetch = on_fetch_};
      auto& of = actors_.emplace(a, Entry{LonelyActor(plan_, plan_index_, a, options_.warmup + options_.steps), {}})
                     .first->second;
      OF_RETURN_IF_ERROR(of.actor.Supply());
      OF_RETURN_IF_ERROR_AT(Bind(context, actor, of), absl::StrCat("actor '", actor.name(), "' on rank ", rank_));
    }
    for (auto& [queue, of] : queues_) {
      if (of.scratch_bytes == 0) continue;
      of.scratch = of.device->Allocate(of.scratch_bytes);
      if (of.scratch == nullptr) return absl::ResourceExhaustedError("no memory for scratch");
    }
    return absl::OkStatus();
  }

  absl::Status RunStep(bool timed) {
    for (const int a : order_) {
      Entry& entry = actors_.at(a);
      Queue& queue = queues_.at(plan_.actors(a).queue());
      if (const char* error = queue.device->BindThread()) return absl::InternalError(error);
      for (Bound& bound : entry.bound) {
        const auto begin = Clock::now();
        bound.instruction->operands().MoveTo(entry.actor.actor());
        OF_RETURN_IF_ERROR(Run(bound, entry.actor.actor(), queue));
        if (timed) bound.seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
      OF_RETURN_IF_ERROR(entry.actor.EndAct());
    }
    return absl::OkStatus();
  }

  void Tell(Replay& to) const {
    double medians = 0;  // of a step
    std::vector<double> steps(options_.steps);
    for (const auto& [a, entry] : actors_) {
      for (const Bound& bound : entry.bound) {
        if (bound.seconds.empty()) continue;
        to.instructions.push_back({a, bound.index, Median(bound.seconds)});
        const size_t runs = bound.seconds.size() / steps.size();
        medians += static_cast<double>(runs) * to.instructions.back().seconds;
        for (size_t i = 0; i < bound.seconds.size(); ++i) steps[i / runs] += bound.seconds[i];
      }
    }
    for (const double step : steps) to.step_factors.push_back(step / medians);
  }

 private:
  struct Bound {
    int index = 0;
    std::unique_ptr<BoundInstruction> instruction;
    std::vector<double> seconds;  // of its runs
  };
  struct Entry {
    LonelyActor actor;
    std::vector<Bound> bound;
  };
  struct Queue {
    std::unique_ptr<DeviceContext> device;
    int64_t scratch_bytes = 0;
    void* scratch = nullptr;
  };

  // The main queue has all cores, others have one at most, as in the engine.
  absl::StatusOr<DeviceContext*> DeviceOf(int queue) {
    Queue& of = queues_[queue];
    if (of.device == nullptr) {
      OF_ASSIGN_OR_RETURN(of.device, OpenDevice(program_, rank_, queue == MainQueue() ? options_.threads : 1));
    }
    return of.device.get();
  }

  absl::Status Bind(const RankContext& context, const pb::Actor& actor, Entry& entry) {
    Queue& queue = queues_.at(actor.queue());
    for (int i = 0; i < actor.instructions_size(); ++i) {
      const pb::Instruction& instruction = actor.instructions(i);
      if (instruction.kind() == pb::Instruction::COLLECTIVE) continue;
      OF_ASSIGN_OR_RETURN_AT(auto bound, BindInstruction(context, plan_, actor, instruction),
                             absl::StrCat("node '", instruction.node(), "' (", instruction.op(), ")"));
      queue.scratch_bytes = std::max(queue.scratch_bytes, bound->scratch_bytes());
      entry.bound.push_back({i, std::move(bound), {}});
    }
    return absl::OkStatus();
  }

  // To the end, also on a device with a stream.
  absl::Status Run(Bound& bound, const Actor& actor, Queue& queue) {
    const CurrentAct act{
        .step = actor.step(), .micro_batch = actor.micro_batch(), .scratch = queue.scratch, .afterwards = afterwards_};
    OF_RETURN_IF_ERROR(bound.instruction->Run(act));
    const char* error = nullptr;
    if (queue.device->stream() != nullptr) {
      int event = 0;
      error = queue.device->RecordEvent(&event);
      if (error == nullptr) error = queue.device->WaitEvent(event);
    }
    for (const auto& [event, then] : afterwards_) {
      if (error == nullptr) error = queue.device->WaitEvent(event);
      then(error);
    }
    afterwards_.clear();
    return error == nullptr ? absl::OkStatus() : absl::InternalError(error);
  }

  const pb::Program& program_;
  const pb::Plan& plan_;
  const int plan_index_;
  const int rank_;
  const ActOrder& order_;
  const ReplayOptions& options_;
  const std::function<void(Fetched)> on_fetch_;  // values are dropped
  std::map<int, Queue> queues_;
  std::map<int, Entry> actors_;
  Afterwards afterwards_;
};

// The timed ranks and those that they read from.
std::set<int> RanksWithMemory(const pb::Plan& plan, const std::vector<int>& ranks) {
  std::set<int> with(ranks.begin(), ranks.end());
  const std::set<int> timed = with;
  for (const pb::Register& reg : plan.registers()) {
    const auto is_timed = [&](int32_t a) { return timed.contains(plan.actors(a).rank()); };
    if (std::any_of(reg.consumers().begin(), reg.consumers().end(), is_timed)) {
      with.insert(plan.actors(reg.producer()).rank());
    }
  }
  return with;
}

}  // namespace

absl::StatusOr<Replay> ReplayActs(const pb::Program& program, int plan, const std::vector<ActOrder>& order,
                                  const OpRegistry& ops, const ReplayOptions& options) {
  JobMemory memory(program.ranks_size());
  std::vector<std::unique_ptr<DeviceContext>> owned;  // of zones
  std::vector<DeviceContext*> devices(program.ranks_size(), nullptr);
  for (const int rank : RanksWithMemory(program.plans(plan), options.ranks)) {
    OF_ASSIGN_OR_RETURN(owned.emplace_back(), OpenDevice(program, rank, options.threads));
    devices[rank] = owned.back().get();
    OF_RETURN_IF_ERROR_AT(memory.Allocate(rank, program.ranks(rank), *devices[rank]), absl::StrCat("rank ", rank));
  }
  const Variables variables(program, memory, devices);
  for (int rank = 0; rank < program.ranks_size(); ++rank) {
    if (devices[rank] != nullptr) OF_RETURN_IF_ERROR(variables.Initialise(rank));
  }
  SourceCache sources;
  std::vector<std::unique_ptr<RankReplay>> replays;
  std::vector<absl::Status> statuses(options.ranks.size());
  for (const int rank : options.ranks) {
    replays.push_back(std::make_unique<RankReplay>(program, plan, rank, order[rank], options));
  }
  const auto together = [&](const auto& work) -> absl::Status {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < replays.size(); ++i) threads.emplace_back([&, i] { statuses[i] = work(*replays[i]); });
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) OF_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  };
  std::barrier begin(static_cast<ptrdiff_t>(replays.size()));
  std::mutex loading;  // the cache of sources is for one thread
  OF_RETURN_IF_ERROR(together([&](RankReplay& replay) -> absl::Status {
    absl::Status status;
    {
      std::lock_guard<std::mutex> lock(loading);
      status = replay.Load(memory, ops, sources);
    }
    for (int step = 0; step < options.warmup + options.steps && status.ok(); ++step) {
      begin.arrive_and_wait();
      status = replay.RunStep(step >= options.warmup);
    }
    begin.arrive_and_drop();  // whoever stops early does not keep the others
    return status;
  }));
  Replay replay;
  for (const auto& of_rank : replays) of_rank->Tell(replay);
  return replay;
}

}  // namespace oneflow
