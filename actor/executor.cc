#include "actor/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "actor/captured_runs.h"
#include "actor/instruction/counts_on_host.h"
#include "actor/joined_calls.h"
#include "actor/op_timers.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

std::string OpOf(const pb::Instruction& instruction) {
  return instruction.kind() == pb::Instruction::COMPUTE
             ? instruction.op()
             : absl::AsciiStrToLower(pb::Instruction::Kind_Name(instruction.kind()));
}

double SecondsSince(int64_t steady_ns) {
  return 1e-9 * static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count() - steady_ns);
}

}  // namespace

class Executor::Impl {
 public:
  explicit Impl(const RankContext& context) : c_(context) {}

  absl::Status Load() {
    programs_.resize(c_.plans.plans_size());
    for (int p = 0; p < c_.plans.plans_size(); ++p) {
      const pb::Plan& plan = c_.plans.plans(p);
      programs_[p].resize(plan.actors_size());
      for (int a = 0; a < plan.actors_size(); ++a) {
        if (plan.actors(a).rank() != c_.rank || plan.actors(a).queue() != c_.queue) continue;
        OF_RETURN_IF_ERROR(Bind(plan, plan.actors(a), programs_[p][a]));
        FindJoined(programs_[p][a]);
      }
    }
    if (held_bytes_ > 0) {
      LOG(INFO) << "rank " << c_.rank << ": reading and fetching take " << held_bytes_
                << " bytes of device memory beside the plan's";
    }
    if (scratch_bytes_ == 0) return absl::OkStatus();
    LOG(INFO) << "rank " << c_.rank << ": kernels take " << scratch_bytes_
              << " bytes of scratch memory beside the plan's";
    scratch_ = c_.device.Allocate(scratch_bytes_);
    if (scratch_ != nullptr) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("rank ", c_.rank, " (", c_.plans.ranks(c_.rank).device(),
                                                     "): no memory for ", scratch_bytes_, " bytes of scratch"));
  }

  absl::Status WarmUp() {
    Afterwards afterwards;
    const CurrentAct act{.scratch = scratch_, .afterwards = afterwards};
    OF_RETURN_IF_ERROR(SetActNumbers(act));
    for (const std::vector<ActorProgram>& plan : programs_) {
      for (const ActorProgram& program : plan) OF_RETURN_IF_ERROR(WarmUp(program, act));
    }
    return absl::OkStatus();
  }

  absl::Status WarmUpCollectives() {
    Afterwards afterwards;
    const CurrentAct act{.scratch = scratch_, .afterwards = afterwards};
    for (int p = 0; p < c_.plans.plans_size(); ++p) {
      for (const pb::QueueOrder& order : c_.plans.plans(p).orders()) {
        if (order.rank() != c_.rank || order.queue() != c_.queue) continue;
        for (const int32_t actor : order.actors()) OF_RETURN_IF_ERROR(WarmUpCollectives(programs_[p][actor], act));
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunAct(const Actor& actor, Afterwards& afterwards) {
    const auto begin = std::chrono::steady_clock::now();
    begin_ns_.store(begin.time_since_epoch().count(), std::memory_order_relaxed);
    const int64_t moved = bytes_moved();
    absl::Status status = RunInstructions(actor, afterwards);
    if (c_.emulated_ns_per_byte > 0) {
      const double ns = c_.emulated_ns_per_byte * static_cast<double>(bytes_moved() - moved);
      std::this_thread::sleep_until(begin + std::chrono::nanoseconds(static_cast<int64_t>(ns)));
    }
    // Only this thread writes the counters.
    const auto end = std::chrono::steady_clock::now();
    const auto took = std::chrono::nanoseconds(end - begin).count();
    ns_.store(ns_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    ended_ns_.store(end.time_since_epoch().count(), std::memory_order_relaxed);
    begin_ns_.store(0, std::memory_order_relaxed);
    current_.store(nullptr, std::memory_order_relaxed);
    return status;
  }

  // A reader sees one act or its neighbour: people read this for acts that take long.
  std::optional<Place> place() const {
    const int64_t begin = begin_ns_.load(std::memory_order_relaxed);
    if (begin == 0) return std::nullopt;
    const Entry* const entry = current_.load(std::memory_order_relaxed);
    return Place{.instruction = entry == nullptr ? "" : WhereIs(*entry), .seconds = SecondsSince(begin)};
  }
  double busy_seconds() const {
    const int64_t begin = begin_ns_.load(std::memory_order_relaxed);
    return seconds() + (begin == 0 ? 0 : SecondsSince(begin));
  }
  double still_seconds() const { return SecondsSince(ended_ns_.load(std::memory_order_relaxed)); }

  double seconds() const { return static_cast<double>(ns_.load(std::memory_order_relaxed)) * 1e-9; }
  int64_t scratch_bytes() const { return scratch_bytes_ + held_bytes_; }
  int64_t bytes_moved() const { return bytes_moved_.load(std::memory_order_relaxed); }
  std::vector<OpTime> op_times() const { return timers_.times(); }

 private:
  // An instruction of an actor.
  struct Entry {
    const pb::Plan* of = nullptr;
    const pb::Actor* actor = nullptr;
    const pb::Instruction* plan = nullptr;
    std::unique_ptr<BoundInstruction> bound;
    OpTimers::Timer* timer = nullptr;  // where profiling is on

    absl::Status Run(const CurrentAct& act, DeviceContext& device) {
      if (timer == nullptr) return bound->Run(act);
      // What is computed is timed on the device, which is waited for. Collectives are timed at their launch: ranks that
      // waited for them in different orders would wait for one another.
      const bool on_device = plan->kind() == pb::Instruction::COMPUTE;
      const auto begin = std::chrono::steady_clock::now();
      if (const char* error = on_device ? device.BeginTiming() : nullptr) return absl::InternalError(error);
      OF_RETURN_IF_ERROR(bound->Run(act));
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (const char* error = on_device ? device.EndTiming(&seconds) : nullptr) return absl::InternalError(error);
      timer->Add(static_cast<int64_t>(1e9 * seconds));
      return absl::OkStatus();
    }
  };
  struct ActorProgram {
    std::vector<Entry> entries;  // in the order of the plan
    bool reads_act_numbers = false;
    std::vector<size_t> joined;                    // by instruction: the end of its joined call (joined_calls.h)
    std::optional<std::vector<CapturedRun>> runs;  // where the device captures work; none before the first act
  };

  absl::Status SetActNumbers(const CurrentAct& act) {
    const char* const error = c_.device.SetActNumbers({act.step, act.micro_batch});
    if (error == nullptr) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("rank ", c_.rank, " (", c_.plans.ranks(c_.rank).device(), "): ", error));
  }

  // Operands lie in first slots until the first act moves them.
  absl::Status WarmUp(const ActorProgram& program, const CurrentAct& act) {
    for (size_t i = 0; i < program.entries.size(); ++i) {
      const Entry& entry = program.entries[i];
      if (!entry.bound->can_be_captured()) continue;
      absl::Status status;
      if (program.joined[i] > i + 1) {
        status = CallJoined(program, i, program.joined[i], act);
        i = program.joined[i] - 1;
      } else {
        status = entry.bound->Run(act);
      }
      if (!status.ok()) return Annotate(status, WhereIs(entry));
    }
    return absl::OkStatus();
  }

  // Whole groups, as all members do.
  absl::Status WarmUpCollectives(const ActorProgram& program, const CurrentAct& act) {
    const std::vector<Entry>& entries = program.entries;
    for (size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
      const int group = entries[begin].plan->group();
      bool by_counts = false;
      do {
        by_counts |= entries[end++].plan->by_counts();
      } while (group != 0 && end < entries.size() && entries[end].plan->group() == group);
      if (by_counts || entries[begin].plan->kind() != pb::Instruction::COLLECTIVE) continue;
      for (size_t i = begin; i < end; ++i) OF_RETURN_IF_ERROR_AT(entries[i].bound->Run(act), WhereIs(entries[i]));
    }
    return absl::OkStatus();
  }

  bool has_counts() const { return c_.counts != nullptr && !c_.counts->empty(); }
  bool Captures() const { return c_.capture && c_.device.captures() && !c_.profile; }

  absl::Status RunInstructions(const Actor& actor, Afterwards& afterwards) {
    const CurrentAct act{
        .step = actor.step(), .micro_batch = actor.micro_batch(), .scratch = scratch_, .afterwards = afterwards};
    ActorProgram& program = programs_[actor.spec().plan][actor.spec().id];
    if (program.reads_act_numbers) {
      OF_RETURN_IF_ERROR(SetActNumbers(act));
    }
    if (!program.runs.has_value()) FindRuns(program);
    size_t at = 0;
    for (CapturedRun& run : *program.runs) {
      OF_RETURN_IF_ERROR(RunEntries(program, at, run.begin(), actor, act));
      current_.store(&program.entries[run.begin()], std::memory_order_relaxed);
      OF_RETURN_IF_ERROR(run.Launch(
          actor, c_.device, [&] { return RunEntries(program, run.begin(), run.end(), actor, act); },
          [&] { return WhereIs(program.entries[run.begin()]); }));
      at = run.end();
    }
    return RunEntries(program, at, program.entries.size(), actor, act);
  }

  // Instructions [begin, end), each by itself except joined ones.
  absl::Status RunEntries(ActorProgram& program, size_t begin, size_t end, const Actor& actor, const CurrentAct& act) {
    size_t launched = begin;  // the instructions whose counts were followed
    for (size_t i = begin; i < end; ++i) {
      Entry& entry = program.entries[i];
      current_.store(&entry, std::memory_order_relaxed);
      absl::Status status;
      if (program.joined[i] > i + 1) {
        status = RunJoined(program, i, program.joined[i], actor, act);
        i = program.joined[i] - 1;
      } else {
        entry.bound->operands().MoveTo(actor);
        status = entry.Run(act, c_.device);
      }
      if (!status.ok()) return Annotate(status, WhereIs(entry));
      bytes_moved_.store(bytes_moved() + entry.bound->remote_bytes(), std::memory_order_relaxed);
      if (!has_counts() || !entry.bound->is_launched()) continue;
      for (; launched <= i; ++launched) {
        OF_RETURN_IF_ERROR_AT(c_.counts->Follow(c_.device, program.entries[launched].bound->operands().outputs()),
                              WhereIs(program.entries[launched]));
      }
    }
    return absl::OkStatus();
  }

  // Instructions [begin, end) as one call.
  absl::Status RunJoined(ActorProgram& program, size_t begin, size_t end, const Actor& actor, const CurrentAct& act) {
    for (size_t i = begin; i < end; ++i) program.entries[i].bound->operands().MoveTo(actor);
    return CallJoined(program, begin, end, act);
  }
  absl::Status CallJoined(const ActorProgram& program, size_t begin, size_t end, const CurrentAct& act) {
    calls_.clear();
    for (size_t i = begin; i < end; ++i) {
      const BoundInstruction& bound = *program.entries[i].bound;
      calls_.push_back(bound.joinable()->args);
      calls_.back().step = act.step;
      calls_.back().micro_batch = act.micro_batch;
    }
    const char* const error = program.entries[begin].bound->joinable()->kernel->run_many(calls_);
    return error == nullptr ? absl::OkStatus() : absl::InternalError(error);
  }

  std::string WhereIs(const Entry& entry) const { return Where(*entry.of, *entry.actor, *entry.plan); }

  absl::Status Bind(const pb::Plan& plan, const pb::Actor& actor, ActorProgram& program) {
    for (const pb::Instruction& instruction : actor.instructions()) {
      absl::StatusOr<std::unique_ptr<BoundInstruction>> bound = BindInstruction(c_, plan, actor, instruction);
      OF_RETURN_IF_ERROR_AT(bound.status(), Where(plan, actor, instruction));
      scratch_bytes_ = std::max(scratch_bytes_, (*bound)->scratch_bytes());
      held_bytes_ += (*bound)->held_bytes();
      program.reads_act_numbers |= (*bound)->reads_act_numbers();
      program.entries.push_back(
          {&plan, &actor, &instruction, *std::move(bound), c_.profile ? &timers_.Of(OpOf(instruction)) : nullptr});
    }
    return absl::OkStatus();
  }

  // Every instruction is timed.
  void FindJoined(ActorProgram& program) const {
    std::vector<const BoundInstruction*> bound;
    for (const Entry& entry : program.entries) bound.push_back(entry.bound.get());
    program.joined = c_.profile ? EachAlone(bound.size()) : JoinedCalls(bound);
  }
  // An instruction whose counts follow to the host is launched by itself. Which these are is known when all
  // instructions of the rank are bound, hence before the first act.
  void FindRuns(ActorProgram& program) const {
    std::vector<bool> can_be_captured;
    for (const Entry& entry : program.entries) {
      const bool followed = c_.counts != nullptr && c_.counts->FollowAny(c_.device, entry.bound->operands().outputs());
      can_be_captured.push_back(entry.bound->can_be_captured() && !followed);
    }
    program.runs = Captures() ? RunsToCapture(can_be_captured) : std::vector<CapturedRun>();
  }

  // "plan 'train' actor 'h0' node 'h0/up' (matmul, models/gpt.cc:42) on rank 1 (cpu:1)".
  std::string Where(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction) const {
    const std::string op = instruction.op().empty() ? pb::Instruction::Kind_Name(instruction.kind()) : instruction.op();
    return absl::StrCat("plan '", plan.name(), "' actor '", actor.name(), "' node '", instruction.node(), "' (", op,
                        instruction.source().empty() ? "" : ", ", instruction.source(), ") on rank ", c_.rank, " (",
                        c_.plans.ranks(c_.rank).device(), ")");
  }

  const RankContext c_;
  std::vector<std::vector<ActorProgram>> programs_;  // by plan, by actor
  int64_t scratch_bytes_ = 0;                        // of one instruction at a time
  int64_t held_bytes_ = 0;                           // of all
  void* scratch_ = nullptr;
  std::vector<KernelArgs> calls_;  // of the joined call that runs
  std::atomic<int64_t> ns_{0};
  std::atomic<int64_t> begin_ns_{0};  // of the act that runs, as steady_clock counts; 0: none runs
  std::atomic<int64_t> ended_ns_{std::chrono::steady_clock::now().time_since_epoch().count()};
  std::atomic<const Entry*> current_{nullptr};  // whose instruction runs
  std::atomic<int64_t> bytes_moved_{0};
  OpTimers timers_;
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const RankContext& context) {
  auto impl = std::make_unique<Impl>(context);
  OF_RETURN_IF_ERROR(impl->Load());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

absl::Status Executor::WarmUp() { return impl_->WarmUp(); }
absl::Status Executor::WarmUpCollectives() { return impl_->WarmUpCollectives(); }
absl::Status Executor::RunAct(const Actor& actor, Afterwards& afterwards) { return impl_->RunAct(actor, afterwards); }
std::optional<ActRunner::Place> Executor::place() const { return impl_->place(); }
double Executor::busy_seconds() const { return impl_->busy_seconds(); }
double Executor::still_seconds() const { return impl_->still_seconds(); }
double Executor::seconds() const { return impl_->seconds(); }
int64_t Executor::scratch_bytes() const { return impl_->scratch_bytes(); }
int64_t Executor::bytes_moved() const { return impl_->bytes_moved(); }
std::vector<OpTime> Executor::op_times() const { return impl_->op_times(); }

}  // namespace oneflow
