#include "actor/instruction/ragged_sum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/ragged_piece.h"
#include "kernels/copy.h"
#include "kernels/families.h"

namespace oneflow {
namespace {

constexpr int64_t kPartAlignment = 64;  // of operands

int64_t ProductOf(const std::vector<int64_t>& dims, size_t first) {
  int64_t product = 1;
  for (size_t d = first; d < dims.size(); ++d) product *= dims[d];
  return product;
}

// Adds `addend` to `sum`, which is of its size.
const char* AddTo(DeviceContext& device, const TensorArg& addend, const TensorArg& sum) {
  const int64_t count[] = {sum.count}, next[] = {1};
  return device.CopyRegion({.dtype = sum.dtype,
                            .extent = count,
                            .source = addend.data,
                            .source_stride = next,
                            .target = sum.data,
                            .target_stride = next,
                            .accumulate = true});
}

absl::Status FillZero(DeviceContext& device, std::span<const TensorArg> outputs) {
  for (const TensorArg& out : outputs) {
    OF_RETURN_IF_ERROR(Checked(device.FillZero(out.data, static_cast<size_t>(NumBytes(out)))));
  }
  return absl::OkStatus();
}

}  // namespace

RaggedSum::RaggedSum(const RaggedRule& rule, const Kernel& kernel, const KernelArgs& args)
    : kernel_(kernel), kept_(rule.kept), in_(args.in.size()), out_(args.out.size()) {
  for (size_t i = 0; i < in_.size(); ++i) inputs_.emplace_back(rule, rule.rule.inputs[i], args.in[i]);
  for (size_t i = 0; i < out_.size(); ++i) outputs_.emplace_back(rule, rule.rule.outputs[i], args.out[i]);
  const auto has_rows = [](const RaggedOperand& x) { return x.has_rows(); };
  const TensorArg& x = args.in[std::find_if(inputs_.begin(), inputs_.end(), has_rows) - inputs_.begin()];
  const int dim = static_cast<int>(rule.groups.size());
  groups_.assign(x.dims, x.dims + dim);
  summed_ = ProductOf(groups_, kept_);
  first_row_ = x.start[dim];
  rows_ = x.dims[dim];
  logical_rows_ = x.logical_dims[dim];
  int64_t read = 0, made = 0;  // elements, of a group
  bool rounds = false;
  for (size_t i = 0; i < in_.size(); ++i) read += inputs_[i].has_rows() ? Product(args.in[i], dim, args.in[i].rank) : 0;
  for (const TensorArg& out : args.out) {
    made += Product(out, static_cast<int>(kept_), out.rank);
    rounds = rounds || SizeOf(out.dtype) < SizeOf(DType::kFloat32);
  }
  packs_ = kernel.prepare != nullptr || (summed_ > 1 && (rounds || made > read));
  if (kernel.prepare != nullptr)
    step_ = std::max<int64_t>((summed_ * rows_ + kMostRaggedStates - 1) / kMostRaggedStates, 1);
}

absl::StatusOr<int64_t> RaggedSum::CountFilled(const int32_t* counts, int64_t first) const {
  int64_t filled = 0;
  for (int64_t g = 0; g < summed_; ++g) {
    if (counts[g] < 0 || counts[g] > logical_rows_) {
      return absl::InvalidArgumentError(absl::StrCat("the count of group ", first + g, " of its shard is ", counts[g],
                                                     ", of ", logical_rows_, " rows"));
    }
    filled += Filled(counts[g]);
  }
  return filled;
}

KernelArgs RaggedSum::CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows) {
  for (size_t i = 0; i < in_.size(); ++i) in_[i] = inputs_[i].Take(args.in[i], group, rows);
  for (size_t i = 0; i < out_.size(); ++i) out_[i] = outputs_[i].Take(args.out[i], group, rows);
  KernelArgs call = args;
  call.in = in_;
  call.out = out_;
  return call;
}

KernelArgs RaggedSum::PackedCall(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows) {
  const KernelArgs call = CallOf(args, group, rows);
  for (size_t i = 0; i < in_.size(); ++i) {
    if (inputs_[i].has_rows()) in_[i].data = static_cast<char*>(args.workspace) + part_offsets_[i];
  }
  return call;
}

int64_t RaggedSum::KernelBytes(const KernelArgs& args, int64_t rows, void* state) {
  if (kernel_.workspace_bytes == nullptr) return 0;
  KernelArgs call = CallOf(args, std::vector<int64_t>(groups_.size(), 0), rows);
  call.state = state;
  return static_cast<int64_t>(kernel_.workspace_bytes(call));
}

// Behind `bytes` of the kernel.
int64_t RaggedSum::AddParts(int64_t bytes) {
  part_offsets_.clear();
  const auto add = [&](const TensorArg& x) {
    part_offsets_.push_back((bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment);
    bytes = part_offsets_.back() + NumBytes(x);
  };
  if (packs_) {
    for (size_t i = 0; i < in_.size(); ++i) add(inputs_[i].has_rows() ? in_[i] : TensorArg());
  } else if (summed_ > 1) {
    for (const TensorArg& out : out_) add(out);
  }
  return bytes;
}

int64_t RaggedSum::ScratchBytes(const KernelArgs& args) {
  const int64_t rows = packs_ ? summed_ * rows_ : rows_;
  const int64_t bytes = KernelBytes(args, rows, nullptr);
  CallOf(args, std::vector<int64_t>(groups_.size(), 0), rows);
  return AddParts(bytes);
}

absl::StatusOr<int64_t> RaggedSum::Prepare(const KernelArgs& args) {
  if (kernel_.prepare == nullptr) return ScratchBytes(args);
  const int64_t all = summed_ * rows_;
  const std::vector<int64_t> group(groups_.size(), 0);
  int64_t bytes = 0;
  for (int64_t end = step_; end - step_ < all; end += step_) {
    states_.push_back(kernel_.prepare(CallOf(args, group, std::min(end, all))));
    if (states_.back() == nullptr) return absl::UnimplementedError("the kernel does not support these shapes");
    bytes = std::max(bytes, KernelBytes(args, std::min(end, all), states_.back().get()));
  }
  CallOf(args, group, all);
  return AddParts(bytes);
}

absl::Status RaggedSum::Run(DeviceContext& device, const KernelArgs& args, const TensorArg& counts,
                            const int32_t* on_host) {
  const std::vector<int64_t> kept(groups_.begin(), groups_.begin() + kept_);
  std::vector<int64_t> group(groups_.size(), 0);
  const int64_t sums = ProductOf(kept, 0);  // also of no groups at all
  for (int64_t sum = 0; sum < sums; ++sum, Advance(kept, group)) {
    const int64_t first = sum * summed_;
    OF_ASSIGN_OR_RETURN(const int64_t filled, CountFilled(on_host + first, first));
    if (filled == 0) {
      OF_RETURN_IF_ERROR(FillZero(device, CallOf(args, group, 0).out));
    } else if (packs_) {
      OF_RETURN_IF_ERROR(RunPacked(device, args, counts, filled, group));
    } else {
      OF_RETURN_IF_ERROR(RunAdding(device, args, on_host + first, group));
    }
  }
  return absl::OkStatus();
}

absl::Status RaggedSum::RunPacked(DeviceContext& device, const KernelArgs& args, const TensorArg& counts,
                                  int64_t filled, const std::vector<int64_t>& group) {
  const int64_t steps = (filled + step_ - 1) / step_, rows = std::min(steps * step_, summed_ * rows_);
  for (size_t i = 0; i < in_.size(); ++i) {
    if (!inputs_[i].has_rows()) continue;
    void* const to = static_cast<char*>(args.workspace) + part_offsets_[i];
    OF_RETURN_IF_ERROR(Pack(device, args.in[i], to, counts, filled, rows, group));
  }
  KernelArgs call = PackedCall(args, group, rows);
  if (!states_.empty()) call.state = states_[steps - 1].get();
  return Checked(kernel_.run(call));
}

absl::Status RaggedSum::Pack(DeviceContext& device, const TensorArg& x, void* to, const TensorArg& counts,
                             int64_t filled, int64_t rows, const std::vector<int64_t>& group) {
  const int dim = static_cast<int>(groups_.size());
  std::vector<int64_t> extent(x.dims, x.dims + x.rank);
  std::fill_n(extent.begin(), kept_, 1);
  int64_t offset = 0;  // of the groups, in elements
  for (int d = 0; d < dim; ++d) offset = offset * x.dims[d] + group[d];
  offset *= Product(x, dim, x.rank);
  const std::vector<int64_t> stride = Strides(x);
  const auto size = static_cast<int64_t>(SizeOf(x.dtype)), row = Product(x, dim + 1, x.rank) * size;
  const RowBox box = RowsOfPiece(x, dim, offset, extent);
  const CopyRegionArgs copy = {.dtype = x.dtype,
                               .extent = extent,
                               .source = x.as<char>() + offset * size,
                               .source_stride = stride,
                               .target = to,
                               .target_stride = stride};
  OF_RETURN_IF_ERROR(Checked(
      device.CopyRows({copy, box, counts.as<const int32_t>(), /*source_packed=*/false, /*target_packed=*/true})));
  if (rows == filled) return absl::OkStatus();
  return Checked(device.FillZero(static_cast<char*>(to) + filled * row, static_cast<size_t>((rows - filled) * row)));
}

absl::Status RaggedSum::RunAdding(DeviceContext& device, const KernelArgs& args, const int32_t* counts,
                                  std::vector<int64_t> group) {
  const std::vector<int64_t> summed(groups_.begin() + kept_, groups_.end());
  std::vector<int64_t> index(summed.size(), 0);
  bool adds = false;
  for (int64_t g = 0; g < summed_; ++g, Advance(summed, index)) {
    const int64_t filled = Filled(counts[g]);
    if (filled == 0) continue;
    std::copy(index.begin(), index.end(), group.begin() + static_cast<int64_t>(kept_));
    const KernelArgs call = CallOf(args, group, filled);
    const std::vector<TensorArg> sums = out_;
    for (size_t i = 0; adds && i < out_.size(); ++i) {
      out_[i].data = static_cast<char*>(args.workspace) + part_offsets_[i];
    }
    OF_RETURN_IF_ERROR(Checked(kernel_.run(call)));
    for (size_t i = 0; adds && i < out_.size(); ++i) OF_RETURN_IF_ERROR(Checked(AddTo(device, out_[i], sums[i])));
    adds = true;
  }
  return absl::OkStatus();
}

}  // namespace oneflow
