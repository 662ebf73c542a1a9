#include "tools/bench/runtime.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/engine.h"
#include "actor/program_check.h"
#include "actor/transport/peer_network.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/zones.h"
#include "tools/bench/eager_op.h"
#include "tools/bench/measurement.h"

namespace oneflow {
namespace {

constexpr char kOp[] = "relu";
constexpr int64_t kElements = 16;
constexpr int64_t kBytes = 64;  // of those, and what registers are aligned to
constexpr int kActors = 32;     // in a row
constexpr int kInstructions = 8;
constexpr int kMoreRegisters = 8;
constexpr int kRuns = 7;
constexpr int kSteps = 2000;

// A program by hand: ranks are cpu devices, every instruction is the op on a vector.
class Sketch {
 public:
  explicit Sketch(const std::vector<int>& process_of_rank) {
    program_.set_version(kRuntimeProgramVersion);
    program_.set_job("runtime");
    plan_ = program_.add_plans();
    plan_->set_name("p");
    plan_->set_micro_batches(1);
    for (const int process : process_of_rank) {
      pb::Rank& rank = *program_.add_ranks();
      rank.set_device(absl::StrCat("cpu:", program_.ranks_size() - 1));
      rank.set_process(process);
    }
  }
  const pb::Program& program() const { return program_; }
  void SetHost(int rank, int host) { program_.mutable_ranks(rank)->set_host(host); }

  int Actor(int rank) {
    const int id = plan_->actors_size();
    pb::Actor& actor = *plan_->add_actors();
    actor.set_id(id);
    actor.set_rank(rank);
    actor.set_name(absl::StrCat("a", id));
    actor.set_acts_per_step(1);
    return id;
  }
  // Of no bytes it only orders.
  int Register(int producer, std::vector<int> consumers, int slots, int64_t bytes, int initially_filled = 0) {
    const int id = plan_->registers_size();
    pb::Register& reg = *plan_->add_registers();
    reg.set_id(id);
    reg.set_name(absl::StrCat("r", id));
    reg.set_producer(producer);
    reg.set_slots(slots);
    reg.set_initially_filled(initially_filled);
    reg.set_slot_bytes(bytes);
    reg.set_slot_stride(bytes);
    pb::Rank& rank = *program_.mutable_ranks(plan_->actors(producer).rank());
    pb::ZoneBytes& zone = MutableZone(rank, kWorkZone);
    reg.set_offset(zone.bytes());
    zone.set_bytes(zone.bytes() + slots * bytes);
    AddPort(id, *plan_->mutable_actors(producer)->add_outputs());
    for (const int consumer : consumers) {
      reg.add_consumers(consumer);
      AddPort(id, *plan_->mutable_actors(consumer)->add_inputs());
    }
    return id;
  }
  void Compute(int actor, int from, int to) {
    pb::Instruction& instruction = *plan_->mutable_actors(actor)->add_instructions();
    instruction.set_kind(pb::Instruction::COMPUTE);
    instruction.set_op(kOp);
    instruction.set_node(kOp);
    SetOperand(from, *instruction.add_inputs());
    SetOperand(to, *instruction.add_outputs());
  }

 private:
  static void AddPort(int id, pb::Port& port) {
    port.set_register_(id);
    port.set_acts_per_slot(1);
  }
  static void SetOperand(int id, pb::Operand& operand) {
    operand.set_register_(id);
    operand.set_dtype(pb::F32);
    operand.add_dims(kElements);
    operand.add_logical_dims(kElements);
    operand.add_start(0);
  }

  pb::Program program_;
  pb::Plan* plan_;
};

// Actors of one thread, each with so many instructions, and registers to the next that carry nothing beside the one
// that does.
pb::Program Row(int instructions, int more_registers) {
  Sketch sketch({0});
  for (int a = 0; a < kActors; ++a) sketch.Actor(0);
  std::vector<int> made;  // by actor: what the next one reads
  for (int a = 0; a < kActors; ++a) {
    const bool last = a + 1 == kActors;
    made.push_back(sketch.Register(a, last ? std::vector<int>() : std::vector<int>{a + 1}, 2, kBytes));
    for (int i = 0; i < more_registers && !last; ++i) sketch.Register(a, {a + 1}, 2, 0);
    // The first reads a register of its own that nobody fills.
    const int from = a > 0 ? made[a - 1] : sketch.Register(a, {}, 1, kBytes);
    for (int i = 0; i < instructions; ++i) sketch.Compute(a, from, made[a]);
  }
  return sketch.program();
}

// Two threads that wait for each other.
pb::Program PingPong(int process_of_second, int host_of_second = 0) {
  Sketch sketch({0, process_of_second});
  sketch.SetHost(1, host_of_second);
  const int ping = sketch.Actor(0), pong = sketch.Actor(1);
  sketch.Register(ping, {pong}, 1, 0);
  sketch.Register(pong, {ping}, 1, 0, /*initially_filled=*/1);
  return sketch.program();
}

double NsOf(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// Of a step that `run` runs so many of at a time.
absl::StatusOr<double> LeastStepNs(int steps, const std::function<absl::Status()>& run) {
  OF_RETURN_IF_ERROR(run());
  std::vector<double> runs;
  for (int i = 0; i < kRuns; ++i) {
    absl::Status status;
    runs.push_back(NsOf([&] { status = run(); }) / steps);
    OF_RETURN_IF_ERROR(status);
  }
  return *std::min_element(runs.begin(), runs.end());
}

// As the engine runs them.
absl::StatusOr<double> StepNs(pb::Program program, int cores, int steps) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                      Engine::Create(std::move(program), EngineOptions{.cores = cores}));
  return LeastStepNs(steps, [&] { return engine->Run("p", 0, steps); });
}

// Calls fn(process) for both at once.
absl::Status OnBoth(const std::function<absl::Status(int)>& fn) {
  absl::Status of_second;
  std::thread second([&] { of_second = fn(1); });
  const absl::Status of_first = fn(0);
  second.join();
  return of_first.ok() ? of_second : of_first;
}

// As two engines run them that know each other as processes of a host do, with a core each.
absl::StatusOr<double> StepNsApart(const pb::Program& program, int steps) {
  std::unique_ptr<PeerNetwork> networks[2];
  std::vector<std::string> addresses;
  for (int p : {0, 1}) {
    OF_ASSIGN_OR_RETURN(networks[p], PeerNetwork::Create(p, 2, /*attempt=*/1));
    addresses.push_back(networks[p]->address());
  }
  OF_RETURN_IF_ERROR(OnBoth([&](int p) { return networks[p]->Connect(addresses, absl::Seconds(20)); }));
  std::unique_ptr<Engine> engines[2];
  OF_RETURN_IF_ERROR(OnBoth([&](int p) -> absl::Status {
    OF_ASSIGN_OR_RETURN(engines[p], Engine::Create(program, {.process = p, .peers = networks[p].get()}));
    return absl::OkStatus();
  }));
  return LeastStepNs(steps, [&] { return OnBoth([&](int p) { return engines[p]->Run("p", 0, steps); }); });
}

// Of a call of the kernel on as many vectors as the row has.
absl::StatusOr<double> KernelNs(int steps) {
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  const Kernel* const kernel = device->kernels().Find(kOp, DType::kFloat32);
  if (kernel == nullptr || kernel->prepare != nullptr)
    return absl::InternalError(absl::StrCat("'", kOp, "' is no kernel that can be called as it is"));
  const int64_t start = 0;
  std::vector<TensorArg> tensors;
  for (int i = 0; i <= kActors; ++i) {
    tensors.push_back({device->Allocate(kBytes), DType::kFloat32, 1, kElements, &kElements, &kElements, &start});
  }
  const AttrMap attrs;
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    runs.push_back(NsOf([&] {
                     for (int i = 0; i < steps * kActors; ++i) {
                       const TensorArg* const in = &tensors[i % kActors];
                       kernel->run({.in = {in, 1}, .out = {in + 1, 1}, .attrs = &attrs});
                     }
                   }) /
                   (steps * kActors));
  }
  return *std::min_element(runs.begin(), runs.end());
}

struct Line {
  const char* title;
  double RuntimeFigures::*figure;
  double bar;  // 0: none
};
constexpr Line kLines[] = {
    {"kernel: relu of 16 elements", &RuntimeFigures::kernel_ns, 0},
    {"act beyond its kernel, two messages included", &RuntimeFigures::act_ns, 1000},
    {"act of eight instructions, beyond its kernels", &RuntimeFigures::act_of_eight_ns, 1000},
    {"message within a thread", &RuntimeFigures::message_ns, 100},
    {"hand-over between threads, its act included", &RuntimeFigures::hand_over_ns, 2000},
    {"the same to a thread that sleeps", &RuntimeFigures::waking_ns, 0},
    {"hand-over between processes, its act included", &RuntimeFigures::hop_ns, 5000},
    {"the same between hosts, over the loopback network", &RuntimeFigures::far_hop_ns, 60000},
};

class RuntimeCase : public BenchCase {
 public:
  explicit RuntimeCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_ASSIGN_OR_RETURN(RuntimeFigures figures, MeasureRuntime(kSteps));
    if (!context_.pytorch.empty()) {
      const absl::StatusOr<EagerOp> op = MeasureEagerOp(context_.pytorch, context_.dir, context_.stop);
      if (!op.ok() && !absl::IsUnavailable(op.status())) return op.status();
      if (op.ok()) figures.eager_op_ns = op->ns;
      pytorch_ = op.ok() ? op->title : std::string(op.status().message());
    }
    rounds_.push_back(figures);
    return absl::StrFormat(
        "%9.0f ns an act, %.0f a message, %.0f a hand-over, %.0f between processes, %.0f between hosts", figures.act_ns,
        figures.message_ns, figures.hand_over_ns, figures.hop_ns, figures.far_hop_ns);
  }

  std::string Text() const override { return RuntimeText(rounds_, pytorch_); }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const RuntimeFigures& round : rounds_) {
      nlohmann::json one = {{"kernel_ns", round.kernel_ns},
                            {"act_ns", round.act_ns},
                            {"act_of_eight_ns", round.act_of_eight_ns},
                            {"message_ns", round.message_ns},
                            {"hand_over_ns", round.hand_over_ns},
                            {"waking_ns", round.waking_ns},
                            {"hop_ns", round.hop_ns},
                            {"far_hop_ns", round.far_hop_ns}};
      if (round.eager_op_ns.has_value()) one["eager_op_ns"] = *round.eager_op_ns;
      json.push_back(std::move(one));
    }
    return json;
  }

 private:
  const BenchContext& context_;
  std::string pytorch_;  // its title, or why there is none
  std::vector<RuntimeFigures> rounds_;
};

}  // namespace

absl::StatusOr<RuntimeFigures> MeasureRuntime(int steps) {
  RuntimeFigures figures;
  OF_ASSIGN_OR_RETURN(figures.kernel_ns, KernelNs(steps));
  OF_ASSIGN_OR_RETURN(const double one, StepNs(Row(1, 0), 1, steps));
  OF_ASSIGN_OR_RETURN(const double eight, StepNs(Row(kInstructions, 0), 1, steps));
  OF_ASSIGN_OR_RETURN(const double more, StepNs(Row(1, kMoreRegisters), 1, steps));
  OF_ASSIGN_OR_RETURN(const double round_trip, StepNs(PingPong(0), 2, 2 * steps));
  OF_ASSIGN_OR_RETURN(const double round_trip_asleep, StepNs(PingPong(0), 1, steps));
  OF_ASSIGN_OR_RETURN(const double round_trip_apart, StepNsApart(PingPong(1), steps));
  OF_ASSIGN_OR_RETURN(const double round_trip_far, StepNsApart(PingPong(1, /*host_of_second=*/1), steps));
  figures.act_ns = one / kActors - figures.kernel_ns;
  figures.act_of_eight_ns = eight / kActors - kInstructions * figures.kernel_ns;
  figures.message_ns = (more - one) / (2 * kMoreRegisters * (kActors - 1));
  figures.hand_over_ns = round_trip / 2;
  figures.waking_ns = round_trip_asleep / 2;
  figures.hop_ns = round_trip_apart / 2;
  figures.far_hop_ns = round_trip_far / 2;
  return figures;
}

std::string RuntimeText(const std::vector<RuntimeFigures>& rounds, const std::string& pytorch) {
  std::string text = absl::StrFormat("runtime: %46s %8s\n", "ns (least..most)", "bar");
  const auto add = [&](const std::string& title, const std::vector<double>& values, double bar) {
    const Summary x = Summarize(values);
    absl::StrAppend(&text, absl::StrFormat("  %-47s %7.0f (%.0f..%.0f)", title, x.median, x.least, x.most),
                    bar > 0 ? absl::StrFormat(" %8.0f %s", bar, x.median <= bar ? "held" : "missed") : "", "\n");
  };
  for (const Line& line : kLines) {
    std::vector<double> values;
    for (const RuntimeFigures& round : rounds) values.push_back(round.*line.figure);
    add(line.title, values, line.bar);
  }
  std::vector<double> eager;
  for (const RuntimeFigures& round : rounds) {
    if (round.eager_op_ns.has_value()) eager.push_back(*round.eager_op_ns);
  }
  if (!eager.empty()) add(absl::StrCat(pytorch, ": eager add of 16 elements"), eager, 0);
  if (eager.empty() && !pytorch.empty()) absl::StrAppend(&text, "  ", pytorch, ": no comparison\n");
  return text;
}

std::unique_ptr<BenchCase> MakeRuntimeCase(const BenchContext& context) {
  return std::make_unique<RuntimeCase>(context);
}

}  // namespace oneflow
