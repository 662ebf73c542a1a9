#include "test/kernels/harness.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/float16.h"
#include "kernels/kernel.h"
#include "oneflow_core/dtype_switch.h"
#include "oneflow_core/status.h"

namespace oneflow::testing {
namespace {

constexpr size_t kAlignment = 64;  // of a plan
constexpr size_t kGuard = 256;
constexpr char kPattern = static_cast<char>(0xFF);  // of all floats no number: what is read before it is written shows

template <typename T>
void Put(double value, char* to) {
  const T x = static_cast<T>(value);
  std::memcpy(to, &x, sizeof(T));
}
template <typename T>
double Get(const char* from) {
  T x;
  std::memcpy(&x, from, sizeof(T));
  return static_cast<double>(x);
}

// bf16 is the upper half of an f32, rounded to nearest even: by hand, so that it does not share code with the kernels.
uint16_t ToBFloat16(double value) {
  const float x = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t lower = bits & 0xffff, upper = bits >> 16;
  const bool up = lower > 0x8000 || (lower == 0x8000 && (upper & 1) == 1);
  return static_cast<uint16_t>(upper + (up && !std::isnan(x)));
}
double FromBFloat16(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float y;
  std::memcpy(&y, &bits, sizeof(y));
  return y;
}

void Encode(DType dtype, double value, char* to) {
  if (dtype == DType::kBFloat16) return Put<uint16_t>(ToBFloat16(value), to);
  if (dtype == DType::kBool) return Put<uint8_t>(value != 0, to);
  ByDType<uint16_t, NativeFloat16>(dtype, [&]<typename T>() { Put<T>(value, to); });
}

double Decode(DType dtype, const char* from) {
  if (dtype == DType::kBFloat16) return FromBFloat16(static_cast<uint16_t>(Get<uint16_t>(from)));
  if (dtype == DType::kBool) return Get<uint8_t>(from);
  return ByDType<uint16_t, NativeFloat16>(dtype, [&]<typename T>() { return Get<T>(from); });
}

// Where row-major element `i` lies.
size_t Place(const RefTensor& x, MemoryLayout layout, size_t i) {
  if (layout == MemoryLayout::kRowMajor) return i;
  const size_t pixels = static_cast<size_t>(x.dims[2] * x.dims[3]), channel = i / pixels;  // of all samples' channels
  return (channel / 16 * pixels + i % pixels) * 16 + channel % 16;
}

std::vector<char> EncodeAll(const RefTensor& x, MemoryLayout layout) {
  std::vector<char> bytes(x.values.size() * SizeOf(x.dtype));
  for (size_t i = 0; i < x.values.size(); ++i) {
    Encode(x.dtype, x.values[i], &bytes[Place(x, layout, i) * SizeOf(x.dtype)]);
  }
  return bytes;
}

RefTensor DecodeAll(const RefTensor& type, MemoryLayout layout, const std::vector<char>& bytes) {
  RefTensor x = type;
  for (size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = Decode(x.dtype, &bytes[Place(x, layout, i) * SizeOf(x.dtype)]);
  }
  return x;
}

// Device memory with guard bytes behind it, no better aligned than plans align what is in them.
class Buffer {
 public:
  // `before`: bytes from the place where a plan might put it.
  Buffer(DeviceContext& device, size_t num_bytes, size_t before = 0) : device_(device), num_bytes_(num_bytes) {
    char* const area = static_cast<char*>(device.Allocate(kAlignment + before + num_bytes + kGuard));
    if (area == nullptr) return;
    data_ = area + kAlignment + before;
    Write(std::vector<char>(num_bytes + kGuard, kPattern));
  }
  bool ok() const { return ok_ && data_ != nullptr; }
  void* data() const { return data_; }
  void Write(const std::vector<char>& bytes) {
    ok_ = ok_ && device_.CopyFromHost(data_, bytes.data(), bytes.size()) == nullptr;
  }
  // The contents, or Internal if the guard is gone.
  absl::StatusOr<std::vector<char>> Read(absl::string_view what) const {
    std::vector<char> bytes(num_bytes_ + kGuard);
    if (const char* error = device_.CopyToHost(bytes.data(), data_, bytes.size())) return absl::InternalError(error);
    for (size_t i = num_bytes_; i < bytes.size(); ++i) {
      if (bytes[i] != kPattern) {
        return absl::InternalError(
            absl::StrCat(what, ": byte ", i - num_bytes_, " behind its ", num_bytes_, " was written"));
      }
    }
    bytes.resize(num_bytes_);
    return bytes;
  }

 private:
  DeviceContext& device_;
  const size_t num_bytes_;
  char* data_ = nullptr;
  bool ok_ = true;
};

// TensorArgs need dims that outlive them.
struct Operand {
  Operand(const RefTensor& x, const Part* part, MemoryLayout layout, void* data)
      : dims(x.dims), logical(x.dims), start(x.dims.size(), 0) {
    if (part != nullptr && !part->logical_dims.empty()) {
      logical = part->logical_dims;
      start = part->start;
    }
    arg = {data, x.dtype, static_cast<int>(dims.size()), x.count(), dims.data(), logical.data(), start.data(), layout};
  }
  Operand(const Operand&) = delete;
  std::vector<int64_t> dims, logical, start;
  TensorArg arg;
};

// The act of the call; or what an act before it has captured, in that act.
const char* RunInAct(DeviceContext& device, const KernelCall& call, const Kernel& kernel, const KernelArgs& args) {
  const ActNumbers act = {args.step, args.micro_batch};
  const bool captured = call.captured && device.captures();
  if (const char* error = device.SetActNumbers(captured ? ActNumbers{act.step + 3, act.micro_batch + 5} : act))
    return error;
  if (!captured) return kernel.run(args);
  std::unique_ptr<CapturedWork> work;
  if (const char* error = device.BeginCapture()) return error;
  const char* const refused = kernel.run(args);
  if (const char* error = device.EndCapture(&work)) return error;
  if (refused != nullptr) return refused;
  if (const char* error = device.SetActNumbers(act)) return error;
  return work->Launch();
}

// All but workspace and state. `operands`: inputs, then outputs.
KernelArgs ArgsOf(DeviceContext& device, const KernelCall& call, std::span<const TensorArg> operands) {
  KernelArgs args;
  args.in = operands.subspan(0, call.inputs.size());
  args.out = operands.subspan(call.inputs.size());
  args.attrs = &call.attrs;
  args.stream = device.stream();
  args.threads = device.threads();
  args.step = call.context.step;
  args.micro_batch = call.context.micro_batch;
  args.act = device.act_numbers();
  return args;
}

absl::Status RunAndWait(DeviceContext& device, const KernelCall& call, const Kernel& kernel, const KernelArgs& args) {
  if (const char* error = RunInAct(device, call, kernel, args)) return absl::InternalError(error);
  int event = 0;
  if (const char* error = device.RecordEvent(&event)) return absl::InternalError(error);
  if (const char* error = device.WaitEvent(event)) return absl::InternalError(error);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelResult> RunKernel(DeviceContext& device, const KernelCall& call) {
  const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
  const Kernel* const kernel = device.kernels().Find(call.op, dtype);
  if (kernel == nullptr) return absl::NotFoundError(absl::StrCat("no kernel '", call.op, "' for ", Name(dtype)));

  std::vector<Buffer> buffers;  // of inputs, then of outputs
  std::vector<std::unique_ptr<Operand>> operands;
  std::vector<TensorArg> args;
  const auto layout_of = [&](size_t operand) {
    return call.layouts.empty() ? MemoryLayout::kRowMajor : call.layouts[operand];
  };
  const auto add = [&](const RefTensor& x, const std::vector<Part>& parts, size_t index, void* existing) {
    if (existing == nullptr) {
      const size_t row = x.dims.empty() ? 0 : static_cast<size_t>(x.dims.back()) * SizeOf(x.dtype);
      buffers.emplace_back(device, x.values.size() * SizeOf(x.dtype), call.rows_before * row);
      buffers.back().Write(EncodeAll(x, layout_of(args.size())));
    }
    operands.push_back(std::make_unique<Operand>(x, index < parts.size() ? &parts[index] : nullptr,
                                                 layout_of(args.size()),
                                                 existing == nullptr ? buffers.back().data() : existing));
    args.push_back(operands.back()->arg);
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) add(call.inputs[i], call.input_parts, i, nullptr);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const bool shared = i == 0 && call.output_in_input >= 0;
    add(call.outputs[i], call.output_parts, i, shared ? args[call.output_in_input].data : nullptr);
  }

  KernelArgs kernel_args = ArgsOf(device, call, args);
  const size_t workspace_bytes = kernel->workspace_bytes == nullptr ? 0 : kernel->workspace_bytes(kernel_args);
  Buffer workspace(device, workspace_bytes);
  kernel_args.workspace = workspace.data();
  std::shared_ptr<void> state;
  if (kernel->prepare != nullptr) {
    state = kernel->prepare(kernel_args);
    if (state == nullptr) return absl::UnimplementedError("prepare refused the shapes");
    kernel_args.state = state.get();
  }
  for (const Buffer& buffer : buffers) {
    if (!buffer.ok()) return absl::ResourceExhaustedError("no device memory");
  }

  OF_RETURN_IF_ERROR(RunAndWait(device, call, *kernel, kernel_args));

  KernelResult result;
  OF_RETURN_IF_ERROR(workspace.Read("scratch area").status());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    OF_ASSIGN_OR_RETURN(std::vector<char> bytes, buffers[i].Read(absl::StrCat("input ", i)));
    result.inputs.push_back(DecodeAll(call.inputs[i], layout_of(i), bytes));
    result.bytes.push_back(std::move(bytes));
  }
  if (call.output_in_input >= 0) result.outputs.push_back(result.inputs[call.output_in_input]);
  for (size_t i = call.inputs.size(); i < buffers.size(); ++i) {
    OF_ASSIGN_OR_RETURN(std::vector<char> bytes, buffers[i].Read(absl::StrCat("output ", i - call.inputs.size())));
    const size_t output = result.outputs.size();
    result.outputs.push_back(DecodeAll(call.outputs[output], layout_of(call.inputs.size() + output), bytes));
    result.bytes.push_back(std::move(bytes));
  }
  return result;
}

absl::Status CheckNear(const std::vector<RefTensor>& got, const std::vector<RefTensor>& want, double tolerance,
                       const char* what) {
  if (got.size() != want.size()) {
    return absl::InternalError(absl::StrCat(got.size(), " ", what, "s, not ", want.size()));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const RefTensor rounded = Rounded(want[i]);
    if (got[i].dims != want[i].dims) {
      return absl::InternalError(absl::StrCat(what, " ", i, " is [", absl::StrJoin(got[i].dims, ","), "], not [",
                                              absl::StrJoin(want[i].dims, ","), "]"));
    }
    for (int64_t j = 0; j < got[i].count(); ++j) {
      const double a = got[i].values[j], b = rounded.values[j];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;  // infinities too
      if (std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
      return absl::InternalError(absl::StrCat(what, " ", i, " element ", j, ": ", a, " is not ", b));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow::testing
