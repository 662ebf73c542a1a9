#include "actor/instruction/ragged_sum.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "actor/instruction/kinds.h"
#include "actor/instruction/ragged_piece.h"
#include "kernels/copy.h"
#include "kernels/families.h"

namespace oneflow {
namespace {

constexpr int64_t kPartAlignment = 64;  // of operands

int64_t ProductOf(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

// f(group) for every group of `dims`, from `first` on; stops at an error.
template <typename F>
absl::Status ForEachGroup(const std::vector<int64_t>& dims, const std::vector<int64_t>& first, F f) {
  std::vector<int64_t> index(dims.size(), 0), group(dims.size());
  for (int64_t left = ProductOf(dims); left > 0; --left, Advance(dims, index)) {
    std::transform(first.begin(), first.end(), index.begin(), group.begin(), std::plus<>());
    OF_RETURN_IF_ERROR(f(group));
  }
  return absl::OkStatus();
}

// Adds `addend` to `sum`, which has its size.
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

RaggedSum::RaggedSum(const RaggedRule& rule, const Kernel& kernel, const KernelArgs& args, bool accumulates)
    : kernel_(kernel),
      keeps_rows_(rule.keeps_rows),
      accumulates_(accumulates),
      in_(args.in.size()),
      out_(args.out.size()) {
  for (size_t i = 0; i < in_.size(); ++i) inputs_.emplace_back(rule, rule.rule.inputs[i], args.in[i]);
  for (size_t i = 0; i < out_.size(); ++i) outputs_.emplace_back(rule, rule.rule.outputs[i], args.out[i]);
  const auto has_rows = [](const RaggedOperand& x) { return x.has_rows(); };
  const TensorArg& x = args.in[std::find_if(inputs_.begin(), inputs_.end(), has_rows) - inputs_.begin()];
  const int dim = static_cast<int>(rule.groups.size());
  groups_.assign(x.dims, x.dims + dim);
  for (int d = 0; d < dim; ++d) {
    kept_dims_.push_back(rule.kept[d] ? groups_[d] : 1);
    summed_dims_.push_back(rule.kept[d] ? 1 : groups_[d]);
  }
  summed_ = ProductOf(summed_dims_);
  first_row_ = x.start[dim];
  rows_ = x.dims[dim];
  logical_rows_ = x.logical_dims[dim];
  int64_t read = 0, made = 0;  // elements, of a group
  bool rounds = false;
  for (size_t i = 0; i < in_.size(); ++i) read += inputs_[i].has_rows() ? Product(args.in[i], dim, args.in[i].rank) : 0;
  for (size_t i = 0; i < out_.size(); ++i) {
    made += Product(args.out[i], outputs_[i].num_groups(), args.out[i].rank);
    rounds = rounds || SizeOf(args.out[i].dtype) < SizeOf(DType::kFloat32);
  }
  packs_ = !keeps_rows_ && (kernel.prepare != nullptr || (summed_ > 1 && (rounds || made > read)));
  if (kernel.prepare != nullptr)
    step_ = std::max<int64_t>((summed_ * rows_ + kMostRaggedStates - 1) / kMostRaggedStates, 1);
}

int64_t RaggedSum::IndexOf(const std::vector<int64_t>& group) const {
  int64_t index = 0;
  for (size_t d = 0; d < group.size(); ++d) index = index * groups_[d] + group[d];
  return index;
}

absl::StatusOr<int64_t> RaggedSum::CountFilled(const int32_t* counts, const std::vector<int64_t>& group) const {
  int64_t filled = 0;
  OF_RETURN_IF_ERROR(ForEachGroup(summed_dims_, group, [&](const std::vector<int64_t>& g) {
    const int32_t count = counts[IndexOf(g)];
    filled += Filled(count);
    if (count >= 0 && count <= logical_rows_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the count of group ", IndexOf(g), " of its shard is ", count, ", of ", logical_rows_, " rows"));
  }));
  return filled;
}

KernelArgs RaggedSum::CallOf(const KernelArgs& args, const std::vector<int64_t>& group, int64_t rows) {
  KernelArgs call = args;
  call.in = TakeAll(inputs_, args.in, group, rows, in_);
  call.out = TakeAll(outputs_, args.out, group, rows, out_);
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
  if (keeps_rows_) return absl::UnimplementedError("a sum that keeps ragged rows by a kernel that prepares for shapes");
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
  const bool begins = !accumulates_ || args.micro_batch == 0;
  if (keeps_rows_ && begins) OF_RETURN_IF_ERROR(FillZero(device, args.out));
  const std::vector<int64_t> first(groups_.size(), 0);
  return ForEachGroup(kept_dims_, first, [&](const std::vector<int64_t>& group) -> absl::Status {
    OF_ASSIGN_OR_RETURN(const int64_t filled, CountFilled(on_host, group));
    if (filled == 0) return keeps_rows_ ? absl::OkStatus() : FillZero(device, CallOf(args, group, 0).out);
    return packs_ ? RunPacked(device, args, counts, filled, group) : RunAdding(device, args, on_host, group);
  });
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
  std::copy(summed_dims_.begin(), summed_dims_.end(), extent.begin());
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
                                  const std::vector<int64_t>& group) {
  bool adds = false;
  return ForEachGroup(summed_dims_, group, [&](const std::vector<int64_t>& g) -> absl::Status {
    const int64_t filled = Filled(counts[IndexOf(g)]);
    if (filled == 0) return absl::OkStatus();
    const KernelArgs call = CallOf(args, g, filled);
    const std::vector<TensorArg> sums = out_;
    for (size_t i = 0; adds && i < out_.size(); ++i) {
      out_[i].data = static_cast<char*>(args.workspace) + part_offsets_[i];
    }
    OF_RETURN_IF_ERROR(Checked(kernel_.run(call)));
    for (size_t i = 0; adds && i < out_.size(); ++i) OF_RETURN_IF_ERROR(Checked(AddTo(device, out_[i], sums[i])));
    adds = true;
    return absl::OkStatus();
  });
}

}  // namespace oneflow
