#include "tools/bench/timed_ways.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"

namespace oneflow {
namespace {

constexpr size_t kNormals = (1 << 20) + 7;  // numbers drawn; they repeat, at no row's length

uint16_t RoundedBf16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

const std::vector<float>& Normals() {
  static const std::vector<float>* const values = [] {
    auto* const made = new std::vector<float>(kNormals);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float& value : *made) value = normal(random);
    return made;
  }();
  return *values;
}

// What a kernel is called with, and what that points to.
struct KernelCall {
  AttrMap attrs;
  std::vector<KernelOperand> operands;  // inputs first
  std::vector<int64_t> start;
  std::vector<TensorArg> tensors;
  KernelArgs args;
  std::shared_ptr<void> state;
};

}  // namespace

void KeepShorter(double seconds, double& best) {
  if (best == 0 || seconds < best) best = seconds;
}

absl::Status TimeInTurn(const std::vector<std::pair<TimedWay, double*>>& ways, double least_seconds,
                        const std::atomic<bool>& stop) {
  double spent = 0;
  for (int repeat = 0; repeat <= kLeastRepeats || spent < least_seconds; ++repeat) {
    for (const auto& [way, best] : ways) {
      if (stop) return absl::CancelledError("interrupted");
      const auto start = std::chrono::steady_clock::now();
      const char* const error = way();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (error != nullptr) return absl::InternalError(error);
      spent += seconds;
      if (repeat > 0) KeepShorter(seconds, *best);
    }
  }
  return absl::OkStatus();
}

void* NormalNumbers(DeviceContext& device, DType dtype, int64_t count) {
  void* const data = device.Allocate(count * SizeOf(dtype));
  const std::vector<float>& normals = Normals();
  for (int64_t i = 0; i < count && data != nullptr; ++i) {
    const float value = normals[i % normals.size()];
    if (dtype == DType::kFloat32) static_cast<float*>(data)[i] = value;
    if (dtype == DType::kBFloat16) static_cast<uint16_t*>(data)[i] = RoundedBf16(value);
  }
  return data;
}

absl::StatusOr<TimedWay> KernelWay(DeviceContext& device, const std::string& op, AttrMap attrs,
                                   std::vector<KernelOperand> in, std::vector<KernelOperand> out) {
  const Kernel* const kernel = device.kernels().Find(op, in[0].dtype);
  if (kernel == nullptr) return absl::InternalError(absl::StrCat("there is no ", op, " of ", Name(in[0].dtype)));
  auto call = std::make_shared<KernelCall>();
  call->attrs = std::move(attrs);
  call->operands = std::move(in);
  const size_t inputs = call->operands.size();
  call->operands.insert(call->operands.end(), out.begin(), out.end());
  size_t rank = 0;
  for (const KernelOperand& x : call->operands) rank = std::max(rank, x.dims.size());
  call->start.assign(rank, 0);
  for (const KernelOperand& x : call->operands) {
    TensorArg& tensor = call->tensors.emplace_back();
    tensor.data = x.data;
    tensor.dtype = x.dtype;
    tensor.rank = static_cast<int>(x.dims.size());
    tensor.count = 1;
    for (const int64_t dim : x.dims) tensor.count *= dim;
    tensor.dims = tensor.logical_dims = x.dims.data();
    tensor.start = call->start.data();
  }
  const std::span<const TensorArg> tensors = call->tensors;
  call->args = {
      .in = tensors.first(inputs), .out = tensors.subspan(inputs), .attrs = &call->attrs, .threads = device.threads()};
  if (kernel->prepare != nullptr) {
    call->state = kernel->prepare(call->args);
    if (call->state == nullptr) return absl::InternalError(absl::StrCat(op, ": its kernel does not take these shapes"));
    call->args.state = call->state.get();
  }
  const size_t scratch = kernel->workspace_bytes == nullptr ? 0 : kernel->workspace_bytes(call->args);
  if (scratch > 0) call->args.workspace = device.Allocate(scratch);
  if (scratch > 0 && call->args.workspace == nullptr) return absl::ResourceExhaustedError("no memory");
  return TimedWay([kernel, call] { return kernel->run(call->args); });
}

}  // namespace oneflow
