#include "actor/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "absl/strings/ascii.h"
#include "actor/element.h"
#include "kernels/copy.h"

namespace oneflow {
namespace {

AttrMap ToAttrMap(const google::protobuf::RepeatedPtrField<pb::Attribute>& attributes) {
  AttrMap map;
  for (const pb::Attribute& attribute : attributes) {
    switch (attribute.value_case()) {
      case pb::Attribute::kB:
        map.Set(attribute.name(), attribute.b());
        break;
      case pb::Attribute::kI:
        map.Set(attribute.name(), int64_t{attribute.i()});
        break;
      case pb::Attribute::kF:
        map.Set(attribute.name(), attribute.f());
        break;
      case pb::Attribute::kS:
        map.Set(attribute.name(), attribute.s());
        break;
      case pb::Attribute::kInts:
        map.Set(attribute.name(),
                std::vector<int64_t>(attribute.ints().values().begin(), attribute.ints().values().end()));
        break;
      default:
        break;
    }
  }
  return map;
}

// An operand whose address changes from act to act.
struct Binding {
  int arg = 0;
  bool output_port = false;
  int port = 0;
  char* base = nullptr;
  int64_t stride = 0;
};

// One box of a copy; the operands' addresses come from the instruction's arguments.
struct BoundPiece {
  int input = 0;
  int64_t source_bytes = 0;  // offsets
  int64_t target_bytes = 0;
  CopyRegionArgs copy;  // spans point into the plan
};

// What one op took. The worker's thread writes, any reads.
struct OpTimer {
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> ns{0};
};

// An instruction, ready to run. Arguments are the inputs, then the outputs.
struct Bound {
  const pb::Instruction* plan = nullptr;
  std::vector<TensorArg> args;
  size_t num_inputs = 0;
  std::vector<Binding> bindings;
  AttrMap attrs;
  const Kernel* kernel = nullptr;          // COMPUTE
  std::shared_ptr<void> state;             // what its `prepare` made
  std::vector<BoundPiece> pieces;          // COPY
  int64_t remote_bytes = 0;                // that an act reads from other ranks
  std::shared_ptr<Source> source;          // READ
  std::string fetch_name;                  // FETCH
  CollectiveCall collective;               // COLLECTIVE
  std::vector<PeerTransfer> transfers;     // of an exchange
  std::vector<std::vector<char>> staging;  // READ, FETCH: host copies where the host cannot address the device
  OpTimer* timer = nullptr;                // where profiling is on

  std::span<const TensorArg> inputs() const { return {args.data(), num_inputs}; }
  std::span<const TensorArg> outputs() const { return {args.data() + num_inputs, args.size() - num_inputs}; }
};

struct Program {
  std::vector<Bound> instructions;
};

int64_t NumBytes(const TensorArg& arg) { return arg.count * static_cast<int64_t>(SizeOf(arg.dtype)); }

int FindPort(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
  for (int i = 0; i < ports.size(); ++i) {
    if (ports[i].register_() == id) return i;
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Source>> SourceCache::Open(const AttrMap& attributes) {
  for (const auto& [known, source] : sources_) {
    if (known == attributes) return source;
  }
  OF_ASSIGN_OR_RETURN(std::shared_ptr<Source> source, OpenSource(attributes));
  sources_.push_back({attributes, source});
  return source;
}

class Executor::Impl {
 public:
  explicit Impl(const Context& context) : c_(context), host_(context.device.host_accessible()) {}

  absl::Status Load() {
    programs_.resize(c_.plans.plans_size());
    for (int p = 0; p < c_.plans.plans_size(); ++p) {
      const pb::Plan& plan = c_.plans.plans(p);
      programs_[p].resize(plan.actors_size());
      for (int a = 0; a < plan.actors_size(); ++a) {
        if (plan.actors(a).rank() != c_.rank) continue;
        Program& program = programs_[p][a];
        program.instructions.resize(plan.actors(a).instructions_size());
        for (int i = 0; i < plan.actors(a).instructions_size(); ++i) {
          program.instructions[i].plan = &plan.actors(a).instructions(i);
          OF_RETURN_IF_ERROR_AT(Bind(plan, plan.actors(a), program.instructions[i]),
                                Where(plan, plan.actors(a), *program.instructions[i].plan));
          if (c_.profile) program.instructions[i].timer = &timers_[OpOf(*program.instructions[i].plan)];
        }
      }
    }
    if (scratch_bytes_ == 0) return absl::OkStatus();
    scratch_ = c_.device.Allocate(scratch_bytes_);
    if (scratch_ != nullptr) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("rank ", c_.rank, " (", c_.plans.ranks(c_.rank).device(),
                                                     "): no memory for ", scratch_bytes_, " bytes of scratch"));
  }

  absl::Status RunAct(const Actor& actor) {
    const pb::Plan& plan = c_.plans.plans(actor.spec().plan);
    for (Bound& bound : programs_[actor.spec().plan][actor.spec().id].instructions) {
      for (const Binding& binding : bound.bindings) {
        const int64_t slot = binding.output_port ? actor.output_slot(binding.port) : actor.input_slot(binding.port);
        bound.args[binding.arg].data = binding.base + slot * binding.stride;
      }
      absl::Status status = bound.timer == nullptr ? Run(plan, actor, bound) : RunTimed(plan, actor, bound);
      if (!status.ok()) return Annotate(status, Where(plan, plan.actors(actor.spec().id), *bound.plan));
    }
    return absl::OkStatus();
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t bytes_moved() const { return bytes_moved_.load(std::memory_order_relaxed); }
  std::vector<OpTime> op_times() const {
    std::vector<OpTime> times;
    for (const auto& [op, timer] : timers_) {
      times.push_back({op, timer.calls.load(std::memory_order_relaxed),
                       static_cast<double>(timer.ns.load(std::memory_order_relaxed)) * 1e-9});
    }
    return times;
  }

 private:
  static std::string OpOf(const pb::Instruction& instruction) {
    return instruction.kind() == pb::Instruction::COMPUTE
               ? instruction.op()
               : absl::AsciiStrToLower(pb::Instruction::Kind_Name(instruction.kind()));
  }

  // "plan 'train' actor 'h0' node 'h0/up' (matmul, models/gpt.cc:42) on rank 1 (cpu:1)".
  std::string Where(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction) const {
    const std::string op = instruction.op().empty() ? pb::Instruction::Kind_Name(instruction.kind()) : instruction.op();
    return absl::StrCat("plan '", plan.name(), "' actor '", actor.name(), "' node '", instruction.node(), "' (", op,
                        instruction.source().empty() ? "" : ", ", instruction.source(), ") on rank ", c_.rank, " (",
                        c_.plans.ranks(c_.rank).device(), ")");
  }

  absl::Status Bind(const pb::Plan& plan, const pb::Actor& actor, Bound& bound) {
    const pb::Instruction& in = *bound.plan;
    bound.attrs = ToAttrMap(in.attributes());
    bound.num_inputs = in.inputs_size();
    for (const pb::Operand& operand : in.inputs()) BindOperand(plan, actor, operand, /*output=*/false, bound);
    for (const pb::Operand& operand : in.outputs()) BindOperand(plan, actor, operand, /*output=*/true, bound);
    switch (in.kind()) {
      case pb::Instruction::COMPUTE:
        return BindKernel(plan, bound);
      case pb::Instruction::COPY:
        return BindCopy(plan, bound);
      case pb::Instruction::COLLECTIVE:
        return BindCollective(bound);
      case pb::Instruction::READ: {
        OF_ASSIGN_OR_RETURN(bound.source, c_.sources.Open(bound.attrs));
        Stage(bound.outputs(), bound);
        return absl::OkStatus();
      }
      default:
        bound.fetch_name = bound.attrs.String("name");
        Stage(bound.inputs(), bound);
        return absl::OkStatus();
    }
  }

  void BindOperand(const pb::Plan& plan, const pb::Actor& actor, const pb::Operand& operand, bool output,
                   Bound& bound) {
    TensorArg arg{.dtype = static_cast<DType>(operand.dtype()),
                  .rank = operand.dims_size(),
                  .count = 1,
                  .dims = operand.dims().data(),
                  .logical_dims = operand.logical_dims().data(),
                  .start = operand.start().data()};
    for (const int64_t dim : operand.dims()) arg.count *= dim;
    int rank = c_.rank;
    pb::Zone zone = operand.zone();
    int64_t offset = operand.offset();
    Binding binding{.arg = static_cast<int>(bound.args.size())};
    if (operand.register_() >= 0) {
      const pb::Register& reg = plan.registers(operand.register_());
      rank = plan.actors(reg.producer()).rank();
      zone = reg.zone();
      offset += reg.offset();
      binding.stride = reg.slots() > 1 ? reg.slot_stride() : 0;
      // An input that is no input port is a variable which this actor overwrites.
      binding.port = output ? -1 : FindPort(actor.inputs(), operand.register_());
      binding.output_port = binding.port < 0;
      if (binding.output_port) binding.port = FindPort(actor.outputs(), operand.register_());
    }
    char* base = c_.memory.Base(rank, zone);
    if (base != nullptr) arg.data = binding.base = base + offset;  // empty operands may have no zone behind them
    if (binding.stride != 0 && base != nullptr) bound.bindings.push_back(binding);
    bound.args.push_back(arg);
  }

  absl::Status BindKernel(const pb::Plan& plan, Bound& bound) {
    if (bound.args.empty()) return absl::InvalidArgumentError("a kernel without operands");
    const DType dtype = bound.args[0].dtype;  // input 0, or output 0 if there are no inputs
    bound.kernel = c_.device.kernels().Find(bound.plan->op(), dtype);
    if (bound.kernel == nullptr) {
      std::string have;
      for (const Kernel& kernel : c_.device.kernels().all()) {
        if (bound.plan->op() == kernel.op) absl::StrAppend(&have, have.empty() ? "" : ", ", Name(kernel.dtype));
      }
      return absl::UnimplementedError(
          absl::StrCat("no kernel for ", Name(dtype), have.empty() ? "" : "; there is one for ", have));
    }
    KernelArgs args = Args(plan, bound);
    std::vector<TensorArg> shapes = bound.args;
    for (TensorArg& shape : shapes) shape.data = nullptr;
    args.in = {shapes.data(), bound.num_inputs};
    args.out = {shapes.data() + bound.num_inputs, shapes.size() - bound.num_inputs};
    if (bound.kernel->prepare != nullptr) {
      bound.state = bound.kernel->prepare(args);
      if (bound.state == nullptr) return absl::UnimplementedError("the kernel does not support these shapes");
      args.state = bound.state.get();
    }
    if (bound.kernel->workspace_bytes != nullptr) {
      scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(bound.kernel->workspace_bytes(args)));
    }
    return absl::OkStatus();
  }

  absl::Status BindCopy(const pb::Plan& plan, Bound& bound) {
    const pb::Instruction& in = *bound.plan;
    const int64_t size = static_cast<int64_t>(SizeOf(bound.outputs()[0].dtype));
    const auto span = [](const google::protobuf::RepeatedField<int64_t>& values) {
      return std::span<const int64_t>(values.data(), values.size());
    };
    for (const pb::Piece& piece : in.pieces()) {
      BoundPiece p{.input = piece.input(),
                   .source_bytes = piece.source_offset() * size,
                   .target_bytes = piece.target_offset() * size};
      p.copy = {.dtype = bound.outputs()[0].dtype,
                .extent = span(piece.extent()),
                .source_stride = span(piece.source_stride()),
                .target_stride = span(piece.target_stride()),
                .accumulate = piece.accumulate(),
                .reduce = static_cast<Reduction>(in.reduce())};
      bound.pieces.push_back(p);
      const int id = in.inputs(piece.input()).register_();
      if (id < 0 || plan.actors(plan.registers(id).producer()).rank() == c_.rank) continue;
      int64_t bytes = size;
      for (const int64_t extent : piece.extent()) bytes *= extent;
      if (!host_ && bytes > 0) {
        return absl::UnimplementedError(absl::StrCat("it reads memory of rank ",
                                                     plan.actors(plan.registers(id).producer()).rank(),
                                                     ", which the host cannot address; this takes a collective"));
      }
      bound.remote_bytes += bytes;
    }
    return absl::OkStatus();
  }

  absl::Status BindCollective(Bound& bound) {
    const pb::Instruction& in = *bound.plan;
    OF_ASSIGN_OR_RETURN(const CollectiveKind kind, ParseCollective(in.collective()));
    if (c_.collectives == nullptr) return absl::UnimplementedError("there are no collectives for this device");
    const auto& ranks = c_.plans.communicators(in.communicator()).ranks();
    for (const pb::Transfer& x : in.transfers()) {
      bound.transfers.push_back({x.peer(), x.send_offset(), x.send_count(), x.receive_offset(), x.receive_count()});
    }
    bound.collective = {.kind = kind,
                        .reduction = static_cast<Reduction>(in.reduce()),
                        .communicator = in.communicator(),
                        .rank = c_.rank,
                        .transfers = bound.transfers,
                        .stream = c_.device.stream()};
    bound.collective.in.dtype = bound.collective.out.dtype = bound.args[0].dtype;
    SetOperands(bound);
    bound.remote_bytes = BytesReceived(bound);
    return c_.collectives->Prepare(bound.collective, {ranks.begin(), ranks.end()});
  }

  static void SetOperands(Bound& bound) {
    CollectiveCall& call = bound.collective;
    if (!bound.inputs().empty()) call.in = bound.inputs()[0];
    if (!bound.outputs().empty()) call.out = bound.outputs()[0];
    if (call.kind != CollectiveKind::kBroadcast) return;
    if (bound.inputs().empty()) call.in = call.out;
    if (bound.outputs().empty()) call.out = call.in;
  }

  // What a call takes from other ranks: of an all-gather all but the own part, of a reduce-scatter the others' addends.
  static int64_t BytesReceived(const Bound& bound) {
    if (bound.outputs().empty()) return 0;
    const int64_t in = bound.inputs().empty() ? 0 : bound.inputs()[0].count, out = bound.outputs()[0].count;
    int64_t elements = 0;
    switch (bound.collective.kind) {
      case CollectiveKind::kAllReduce:
        elements = out;
        break;
      case CollectiveKind::kReduceScatter:
        elements = in - out;
        break;
      case CollectiveKind::kAllGather:
      case CollectiveKind::kBroadcast:
        elements = out - in;
        break;
      case CollectiveKind::kExchange:
        for (const PeerTransfer& x : bound.transfers) elements += x.receive_count;
    }
    return elements * static_cast<int64_t>(SizeOf(bound.outputs()[0].dtype));
  }

  void Stage(std::span<const TensorArg> args, Bound& bound) const {
    if (host_) return;
    for (const TensorArg& arg : args) bound.staging.emplace_back(NumBytes(arg));
  }

  KernelArgs Args(const pb::Plan& plan, const Bound& bound) const {
    return {.in = bound.inputs(),
            .out = bound.outputs(),
            .attrs = &bound.attrs,
            .stream = c_.device.stream(),
            .workspace = scratch_,
            .state = bound.state.get(),
            .micro_batches = plan.micro_batches()};
  }

  absl::Status Run(const pb::Plan& plan, const Actor& actor, Bound& bound) {
    switch (bound.plan->kind()) {
      case pb::Instruction::COMPUTE: {
        KernelArgs args = Args(plan, bound);
        args.step = actor.step();
        args.micro_batch = actor.micro_batch();
        return Checked(bound.kernel->run(args));
      }
      case pb::Instruction::COPY:
        return Copy(bound);
      case pb::Instruction::COLLECTIVE:
        SetOperands(bound);
        CountMoved(bound);
        return Checked(c_.collectives->Launch(bound.collective));
      case pb::Instruction::READ:
        return Read(plan, actor, bound);
      default:
        return Fetch(plan, actor, bound);
    }
  }

  absl::Status RunTimed(const pb::Plan& plan, const Actor& actor, Bound& bound) {
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status = Run(plan, actor, bound);
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
    bound.timer->calls.fetch_add(1, std::memory_order_relaxed);
    bound.timer->ns.fetch_add(taken.count(), std::memory_order_relaxed);
    return status;
  }

  static absl::Status Checked(const char* error) {
    return error == nullptr ? absl::OkStatus() : absl::InternalError(error);
  }

  absl::Status Copy(Bound& bound) {
    const TensorArg& target = bound.outputs()[0];
    if (bound.plan->zero_fill()) OF_RETURN_IF_ERROR(Checked(c_.device.FillZero(target.data, NumBytes(target))));
    for (BoundPiece& piece : bound.pieces) {
      piece.copy.source = bound.args[piece.input].as<char>() + piece.source_bytes;
      piece.copy.target = target.as<char>() + piece.target_bytes;
      OF_RETURN_IF_ERROR(Checked(c_.device.CopyRegion(piece.copy)));
    }
    CountMoved(bound);
    return absl::OkStatus();
  }

  // Only this thread writes the counter.
  void CountMoved(const Bound& bound) {
    bytes_moved_.store(bytes_moved() + bound.remote_bytes, std::memory_order_relaxed);
  }

  absl::Status Read(const pb::Plan& plan, const Actor& actor, Bound& bound) {
    if (host_) return bound.source->Read(actor.step(), actor.micro_batch(), plan.micro_batches(), bound.outputs());
    std::vector<TensorArg> staged(bound.outputs().begin(), bound.outputs().end());
    for (size_t i = 0; i < staged.size(); ++i) staged[i].data = bound.staging[i].data();
    OF_RETURN_IF_ERROR(bound.source->Read(actor.step(), actor.micro_batch(), plan.micro_batches(), staged));
    for (size_t i = 0; i < staged.size(); ++i) {
      OF_RETURN_IF_ERROR(
          Checked(c_.device.CopyFromHost(bound.outputs()[i].data, staged[i].data, bound.staging[i].size())));
    }
    return absl::OkStatus();
  }

  absl::Status Fetch(const pb::Plan& plan, const Actor& actor, Bound& bound) {
    const TensorArg& value = bound.args[0];
    const void* data = value.data;
    if (!host_) {
      OF_RETURN_IF_ERROR(Checked(c_.device.CopyToHost(bound.staging[0].data(), data, bound.staging[0].size())));
      data = bound.staging[0].data();
    }
    if (!c_.on_fetch) return absl::OkStatus();
    Fetched fetched{.plan = plan.name(), .name = bound.fetch_name, .step = actor.step()};
    fetched.values.reserve(value.count);
    for (int64_t i = 0; i < value.count; ++i) fetched.values.push_back(LoadElement(value.dtype, data, i));
    c_.on_fetch(std::move(fetched));
    return absl::OkStatus();
  }

  const Context c_;
  const bool host_;                             // whether the host can address the device's memory
  std::vector<std::vector<Program>> programs_;  // by plan, by actor
  int64_t scratch_bytes_ = 0;
  void* scratch_ = nullptr;
  std::atomic<int64_t> bytes_moved_{0};
  std::map<std::string, OpTimer> timers_;  // by op; complete after Load()
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Context& context) {
  auto impl = std::make_unique<Impl>(context);
  OF_RETURN_IF_ERROR(impl->Load());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

absl::Status Executor::RunAct(const Actor& actor) { return impl_->RunAct(actor); }
int64_t Executor::scratch_bytes() const { return impl_->scratch_bytes(); }
int64_t Executor::bytes_moved() const { return impl_->bytes_moved(); }
std::vector<OpTime> Executor::op_times() const { return impl_->op_times(); }

}  // namespace oneflow
