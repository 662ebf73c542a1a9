#include "actor/instruction/ragged_call.h"

#include <algorithm>

#include "kernels/ragged.h"

namespace oneflow {

std::optional<RaggedCall> RaggedCall::Create(const RaggedRule& rule, std::span<const TensorArg> inputs,
                                             std::span<const TensorArg> outputs) {
  RaggedCall call;
  const auto add = [&](std::span<const TensorArg> operands, const std::vector<std::vector<int>>& letters,
                       std::vector<RaggedOperand>& to) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!LiesByGroups(rule, letters[i])) return false;
      to.emplace_back(rule, letters[i], operands[i]);
    }
    return true;
  };
  if (!add(inputs, rule.rule.inputs, call.inputs_) || !add(outputs, rule.rule.outputs, call.outputs_)) {
    return std::nullopt;
  }
  call.in_.resize(inputs.size());
  call.out_.resize(outputs.size());
  return call;
}

size_t RaggedCall::FirstWithRows() const {
  return std::find_if(outputs_.begin(), outputs_.end(), [](const RaggedOperand& x) { return x.has_rows(); }) -
         outputs_.begin();
}

KernelArgs RaggedCall::CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows) {
  KernelArgs call = args;
  call.in = TakeAll(inputs_, args.in, group, rows, in_);
  call.out = TakeAll(outputs_, args.out, group, rows, out_);
  return call;
}

absl::StatusOr<int64_t> RaggedCall::Prepare(const Kernel& kernel, const KernelArgs& args) {
  const size_t first = FirstWithRows();
  const RaggedRows rows(args.out[first], outputs_[first].num_groups());
  const std::vector<int64_t> group(outputs_[first].num_groups(), 0);
  int64_t bytes = 0;
  step_ = kernel.prepare == nullptr ? std::max<int64_t>(rows.rows, 1)
                                    : (rows.rows + kMostRaggedStates - 1) / kMostRaggedStates;
  for (int64_t end = step_; step_ > 0 && end - step_ < rows.rows; end += step_) {
    KernelArgs call = CallOf(args, group, std::min(end, rows.rows));
    if (kernel.prepare != nullptr) {
      states_.push_back(kernel.prepare(call));
      if (states_.back() == nullptr) return absl::UnimplementedError("the kernel does not support these shapes");
      call.state = states_.back().get();
    }
    if (kernel.workspace_bytes != nullptr) {
      bytes = std::max(bytes, static_cast<int64_t>(kernel.workspace_bytes(call)));
    }
  }
  return bytes;
}

absl::Status RaggedCall::Run(const Kernel& kernel, const KernelArgs& args, const TensorArg& counts,
                             int64_t scratch_bytes) {
  const size_t first = FirstWithRows();
  const RaggedRows rows(args.out[first], outputs_[first].num_groups());
  const std::vector<int64_t> groups(counts.dims, counts.dims + counts.rank);
  std::vector<int64_t> group(counts.rank, 0);
  for (int64_t g = 0; g < counts.count; ++g, Advance(groups, group)) {
    const int64_t filled = rows.Filled(counts.as<const int32_t>()[g]);
    if (filled == 0) continue;
    if (!states_.empty()) {
      const int64_t steps = (filled + step_ - 1) / step_;
      KernelArgs call = CallOf(args, group, std::min(steps * step_, rows.rows));
      call.state = states_[steps - 1].get();
      if (const char* error = kernel.run(call); error != nullptr) return absl::InternalError(error);
      continue;
    }
    const KernelArgs call = CallOf(args, group, filled);
    const bool fits =
        kernel.workspace_bytes == nullptr || static_cast<int64_t>(kernel.workspace_bytes(call)) <= scratch_bytes;
    if (!fits) return absl::InternalError("the kernel asks for more scratch memory for some of the rows than for all");
    if (const char* error = kernel.run(call); error != nullptr) return absl::InternalError(error);
  }
  return absl::OkStatus();
}

}  // namespace oneflow
