// COMPUTE: a kernel of the device, with the state that its `prepare` made for the shapes.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/check/bounds.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/counts_on_host.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/operand_check.h"
#include "actor/instruction/ragged_call.h"
#include "actor/instruction/ragged_sum.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

std::vector<TensorType> TypesOf(const std::vector<ShardType>& shards) {
  std::vector<TensorType> types;
  for (const ShardType& x : shards) types.push_back({x.dtype, x.dims, x.ragged});
  return types;
}

class Compute final : public BoundInstruction {
 public:
  Compute(const Unbound& unbound, AttrMap attrs)
      : BoundInstruction(unbound.operands),
        attrs_(std::move(attrs)),
        device_(unbound.context.device),
        stream_(unbound.context.device.stream()),
        threads_(unbound.context.device.threads()),
        planned_(Planned(unbound)),
        planned_bytes_(unbound.instruction.scratch_bytes()),
        micro_batches_(unbound.plan.micro_batches()) {
    if (unbound.context.plans.tf32()) attrs_.Set("tf32", true);  // of the job, for kernels whose device has it
  }

  // Takes the kernel, and lets it prepare for these shapes.
  absl::Status Prepare(const Kernel& kernel, const OpDef& op, const pb::Instruction& instruction) {
    kernel_ = &kernel;
    random_ = op.random;
    looks_at_values_ = op.looks_at_values;
    overwritten_ = op.mutates;
    const std::vector<ShardType> inputs = ShardsOf(instruction.inputs());
    const std::vector<TensorType> types = TypesOf(inputs);
    takes_counts_ = TakesCounts(op, types);
    std::vector<TensorArg> shapes(operands_.all().begin(), operands_.all().end());
    for (TensorArg& shape : shapes) shape.data = nullptr;
    KernelArgs args = Args();
    args.in = std::span(shapes).first(args.in.size());
    args.out = std::span(shapes).subspan(operands_.inputs().size());
    if (takes_counts_) {
      const AttrMap attrs =
          op.shard_attrs == nullptr ? attrs_ : op.shard_attrs(attrs_, inputs, ShardsOf(instruction.outputs()));
      OF_ASSIGN_OR_RETURN(const RaggedRule rule, RaggedRuleOf(op, {absl::MakeConstSpan(types).first(args.in.size()),
                                                                   attrs, /*of_shards=*/true}));
      if (rule.sums) {
        sum_.emplace(rule, kernel, args, op.kind == OpKind::kAccumulate);
      } else {
        ragged_ = RaggedCall::Create(rule, args.in, args.out);
      }
    }
    OF_ASSIGN_OR_RETURN(const int64_t asked, sum_.has_value()      ? sum_->Prepare(args)
                                             : ragged_.has_value() ? ragged_->Prepare(kernel, args)
                                                                   : PrepareWhole(kernel, args));
    if (asked > planned_bytes_) scratch_bytes_ = asked;
    return absl::OkStatus();
  }

  // Whether it is called by groups; then it takes counts from a reader that it must be given.
  bool reads_counts() const { return sum_.has_value() || ragged_.has_value(); }
  void ReadCounts(CountsReader counts) { counts_ = std::move(counts); }

  absl::Status Run(const CurrentAct& act) override {
    KernelArgs args = Args();
    args.workspace = scratch_bytes_ > 0 ? act.scratch : planned_;
    args.step = act.step;
    args.micro_batch = act.micro_batch;
    if (!reads_counts()) return Checked(kernel_->run(args));
    TensorArg counts = operands_.inputs().back();
    OF_RETURN_IF_ERROR(counts_.Begin(counts));
    OF_ASSIGN_OR_RETURN(const int32_t* const on_host, counts_.Get());
    if (sum_.has_value()) return sum_->Run(device_, args, counts, on_host);
    counts.data = const_cast<int32_t*>(on_host);
    return ragged_->Run(*kernel_, args, counts, std::max(scratch_bytes_, planned_bytes_));
  }

  bool can_be_captured() const override { return !reads_counts() && !looks_at_values_; }
  std::optional<JoinableCall> joinable() const override {
    if (kernel_->run_many == nullptr || reads_counts()) return std::nullopt;
    return JoinableCall{kernel_, Args(), overwritten_};
  }
  bool reads_act_numbers() const override { return random_; }

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  int64_t held_bytes() const override { return counts_.device_bytes(); }

 private:
  // For all operands at once; returns the scratch memory that it takes.
  absl::StatusOr<int64_t> PrepareWhole(const Kernel& kernel, KernelArgs args) {
    if (kernel.prepare != nullptr) {
      state_ = kernel.prepare(args);
      if (state_ == nullptr) return absl::UnimplementedError("the kernel does not support these shapes");
      args.state = state_.get();
    }
    return kernel.workspace_bytes == nullptr ? 0 : static_cast<int64_t>(kernel.workspace_bytes(args));
  }

  // The scratch memory that the plan has for it; null if none.
  static void* Planned(const Unbound& unbound) {
    const pb::Instruction& instruction = unbound.instruction;
    if (instruction.scratch_bytes() == 0) return nullptr;
    return unbound.context.memory.Base(unbound.context.rank, kWorkZone) + instruction.scratch_offset();
  }

  KernelArgs Args() const {
    return {.in = operands_.inputs().first(operands_.inputs().size() - takes_counts_),
            .out = operands_.outputs(),
            .attrs = &attrs_,
            .stream = stream_,
            .threads = threads_,
            .state = state_.get(),
            .micro_batches = micro_batches_,
            .act = device_.act_numbers()};
  }

  AttrMap attrs_;  // the op's, and "tf32"
  DeviceContext& device_;
  void* const stream_;
  const int threads_;
  void* const planned_;
  const int64_t planned_bytes_;
  const int64_t micro_batches_;

  bool random_ = false, looks_at_values_ = false;  // as its op says
  bool takes_counts_ = false;                      // unknown to the kernel
  std::optional<RaggedCall> ragged_;               // by groups
  std::optional<RaggedSum> sum_;                   // by groups, with summed rows
  CountsReader counts_;                            // by groups
  const Kernel* kernel_ = nullptr;
  std::vector<int> overwritten_;  // inputs, as its op says
  std::shared_ptr<void> state_;   // from its `prepare`
  int64_t scratch_bytes_ = 0;     // the kernel's whole need, where the plan has less
};

absl::Status NoKernel(const KernelTable& kernels, const std::string& op, DType dtype) {
  std::string have;
  for (const Kernel& kernel : kernels.all()) {
    if (op == kernel.op) absl::StrAppend(&have, have.empty() ? "" : ", ", Name(kernel.dtype));
  }
  return absl::UnimplementedError(
      absl::StrCat("no kernel for ", Name(dtype), have.empty() ? "" : "; there is one for ", have));
}

}  // namespace

absl::Status CheckCompute(const Unchecked& unchecked) {
  return unchecked.instruction.op().empty() ? Malformed("it names no op") : absl::OkStatus();
}

BoundOrError BindCompute(Unbound unbound) {
  const std::string& op = unbound.instruction.op();
  OF_ASSIGN_OR_RETURN(const OpDef* const def, unbound.context.ops.Get(op));
  AttrMap attrs = ToAttrMap(unbound.instruction.attributes());
  OF_RETURN_IF_ERROR(CheckOperands(*def, attrs, unbound.plan, unbound.actor, unbound.instruction));
  if (unbound.operands.all().empty()) return absl::InvalidArgumentError("a kernel without operands");
  const KernelTable& kernels = unbound.context.device.kernels();
  const DType dtype = unbound.operands.all()[0].dtype;  // input 0, or output 0 if there are no inputs
  const Kernel* kernel = kernels.Find(op, dtype);
  if (kernel == nullptr) return NoKernel(kernels, op, dtype);
  auto compute = std::make_unique<Compute>(unbound, std::move(attrs));
  OF_RETURN_IF_ERROR(compute->Prepare(*kernel, *def, unbound.instruction));
  if (compute->reads_counts()) {
    OF_ASSIGN_OR_RETURN(CountsReader counts, CountsReader::Make(unbound, unbound.instruction.inputs_size() - 1));
    compute->ReadCounts(std::move(counts));
  }
  return compute;
}

}  // namespace oneflow
