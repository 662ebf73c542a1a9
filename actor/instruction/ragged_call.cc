#include "actor/instruction/ragged_call.h"

#include <algorithm>

#include "kernels/ragged.h"

namespace oneflow {
namespace {

constexpr int64_t kMostStates = 16;  // each is compiled, and kept

// The next index of the groups, the last fastest; false after the last.
bool Advance(const TensorArg& counts, std::vector<int64_t>& group) {
  for (int d = counts.rank; d-- > 0;) {
    if (++group[d] < counts.dims[d]) return true;
    group[d] = 0;
  }
  return false;
}

}  // namespace

std::optional<RaggedCall::Part> RaggedCall::PartOf(const RaggedRule& rule, const std::vector<int>& letters,
                                                   const TensorArg& x) {
  Part part;
  for (const int letter : letters) {
    const auto it = std::find(rule.groups.begin(), rule.groups.end(), letter);
    if (it == rule.groups.end()) break;
    part.axes.push_back(static_cast<int>(it - rule.groups.begin()));
  }
  part.groups = static_cast<int>(part.axes.size());
  part.has_rows = part.groups < x.rank && letters[part.groups] == rule.rows;
  for (int d = part.groups + part.has_rows; d < x.rank; ++d) {
    const bool elsewhere =
        letters[d] == rule.rows || std::find(rule.groups.begin(), rule.groups.end(), letters[d]) != rule.groups.end();
    if (elsewhere) return std::nullopt;
  }
  // Rows lie one behind the other only within a group.
  if (part.has_rows && part.axes.size() != rule.groups.size()) return std::nullopt;
  part.dims.assign(x.dims, x.dims + x.rank);
  part.start.assign(x.start, x.start + x.rank);
  return part;
}

std::optional<RaggedCall> RaggedCall::Create(const RaggedRule& rule, std::span<const TensorArg> inputs,
                                             std::span<const TensorArg> outputs) {
  RaggedCall call;
  const auto add = [&](std::span<const TensorArg> operands, const std::vector<std::vector<int>>& letters,
                       std::vector<Part>& parts) {
    for (size_t i = 0; i < operands.size(); ++i) {
      std::optional<Part> part = PartOf(rule, letters[i], operands[i]);
      if (!part.has_value()) return false;
      parts.push_back(*std::move(part));
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

TensorArg RaggedCall::Take(Part& part, const TensorArg& whole, const std::vector<int64_t>& group, int64_t rows) {
  TensorArg x = whole;
  int64_t position = 0;  // of the group, among those of the operand
  for (int d = 0; d < part.groups; ++d) {
    const int64_t index = group[part.axes[d]];
    position = position * whole.dims[d] + index;
    part.dims[d] = 1;
    part.start[d] = whole.start[d] + index;
  }
  if (part.has_rows) part.dims[part.groups] = rows;
  x.data =
      whole.as<char>() + position * Product(whole, part.groups, whole.rank) * static_cast<int64_t>(SizeOf(x.dtype));
  x.dims = part.dims.data();
  x.start = part.start.data();
  x.count = Product(x, 0, x.rank);
  return x;
}

size_t RaggedCall::FirstWithRows() const {
  return std::find_if(outputs_.begin(), outputs_.end(), [](const Part& part) { return part.has_rows; }) -
         outputs_.begin();
}

KernelArgs RaggedCall::CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows) {
  for (size_t i = 0; i < in_.size(); ++i) in_[i] = Take(inputs_[i], args.in[i], group, rows);
  for (size_t i = 0; i < out_.size(); ++i) out_[i] = Take(outputs_[i], args.out[i], group, rows);
  KernelArgs call = args;
  call.in = in_;
  call.out = out_;
  return call;
}

absl::StatusOr<int64_t> RaggedCall::Prepare(const Kernel& kernel, const KernelArgs& args) {
  const size_t first = FirstWithRows();
  const RaggedRows rows(args.out[first], outputs_[first].groups);
  const std::vector<int64_t> group(outputs_[first].groups, 0);
  int64_t bytes = 0;
  step_ = kernel.prepare == nullptr ? std::max<int64_t>(rows.rows, 1) : (rows.rows + kMostStates - 1) / kMostStates;
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
  const RaggedRows rows(args.out[first], outputs_[first].groups);
  std::vector<int64_t> group(counts.rank, 0);
  for (int64_t g = 0; g < counts.count; ++g, Advance(counts, group)) {
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
