// A device for tests of the runtime: host memory and a few kernels, with ops of their own, whose results say when they
// ran on what.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"

namespace oneflow::testing {

// out[i] = 100 * step + 10 * micro_batch + i
inline const char* PositionKernel(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) {
    args.out[0].as<float>()[i] = static_cast<float>(100 * args.step + 10 * args.micro_batch + i);
  }
  return nullptr;
}
// out = sum of the inputs, plus the attribute `plus`
inline const char* SumKernel(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) {
    float sum = static_cast<float>(args.attrs->Double("plus"));
    for (const TensorArg& in : args.in) sum += in.as<float>()[i];
    args.out[0].as<float>()[i] = sum;
  }
  return nullptr;
}
// out = (micro_batch == 0 ? 0 : out) + in
inline const char* AccumulateKernel(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) {
    float& out = args.out[0].as<float>()[i];
    out = (args.micro_batch == 0 ? 0 : out) + args.in[0].as<float>()[i];
  }
  return nullptr;
}
// in[0] += in[1], the first being overwritten as a variable is
inline const char* UpdateKernel(const KernelArgs& args) {
  for (int64_t i = 0; i < args.in[0].count; ++i) args.in[0].as<float>()[i] += args.in[1].as<float>()[i];
  return nullptr;
}
inline std::vector<size_t>& UpdatesAtOnce() {  // how many each call was of
  static auto* const counts = new std::vector<size_t>;
  return *counts;
}
// The last first: nobody may rely on the order.
inline const char* UpdateMany(std::span<const KernelArgs> calls) {
  UpdatesAtOnce().push_back(calls.size());
  for (size_t i = calls.size(); i-- > 0;) UpdateKernel(calls[i]);
  return nullptr;
}
// Fails at the step that the attribute `step` names.
inline const char* FailKernel(const KernelArgs& args) {
  return args.step == args.attrs->Int("step") ? "this kernel was told to fail" : nullptr;
}
// out = the first element of scratch memory that it asked for, after writing it
inline const char* ScratchKernel(const KernelArgs& args) {
  static_cast<float*>(args.workspace)[0] = 5;
  args.out[0].as<float>()[0] = static_cast<float*>(args.workspace)[0];
  return nullptr;
}
inline size_t ScratchBytes(const KernelArgs& args) { return 1000 * static_cast<size_t>(args.out[0].count); }
// Refuses every shape.
inline std::shared_ptr<void> RefusePrepare(const KernelArgs&) { return nullptr; }

// One output of the attribute `shape`, like all inputs.
inline absl::StatusOr<std::vector<TensorType>> InferAlike(const InferContext& c) {
  OF_ASSIGN_OR_RETURN(const Shape shape, ops::ShapeAttr(c.attrs, "shape"));
  const TensorType type = {DType::kFloat32, shape};
  for (const TensorType& input : c.inputs) OF_RETURN_IF_ERROR(ops::CheckSame("the input", input, "the output", type));
  return std::vector<TensorType>{type};
}
inline absl::StatusOr<std::vector<TensorType>> InferUpdate(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"v", ops::kFloat32}, {"x", ops::kFloat32}}));
  OF_RETURN_IF_ERROR(ops::CheckSame("v", c.inputs[0], "x", c.inputs[1]));
  return std::vector<TensorType>{};
}
// The standard ops and those of the kernels above.
inline const OpRegistry& TestOps() {
  static const OpRegistry* const kOps = [] {
    auto* const registry = new OpRegistry(StandardOps());
    for (const char* name : {"position", "sum", "fail", "scratch", "refuse"}) {
      registry->Add({.name = name, .infer = InferAlike, .shard_attrs = ops::ShapeOfShard});
    }
    registry->Add({.name = "update", .infer = InferUpdate, .mutates = {0}});
    return registry;
  }();
  return *kOps;
}

// With a stream it pretends that what was launched takes time: events come while `running`, and say `error`.
class TestDevice : public DeviceContext {
 public:
  explicit TestDevice(bool has_stream = false) : has_stream_(has_stream) {}
  ~TestDevice() override {
    for (void* memory : memory_) std::free(memory);
  }

  const KernelTable& kernels() const override { return kernels_; }
  void* Allocate(size_t num_bytes) override {
    memory_.push_back(std::aligned_alloc(64, (num_bytes + 63) / 64 * 64));
    return std::memset(memory_.back(), 0, num_bytes);
  }
  const char* CopyToHost(void* host, const void* device, size_t num_bytes) override {
    std::memcpy(host, device, num_bytes);
    return nullptr;
  }
  const char* CopyFromHost(void* device, const void* host, size_t num_bytes) override {
    std::memcpy(device, host, num_bytes);
    return nullptr;
  }
  bool host_accessible() const override { return !has_stream_; }
  void* stream() override { return has_stream_ ? this : nullptr; }
  const char* BindThread() override { return nullptr; }
  const char* RecordEvent(int* event) override {
    *event = num_events_++;
    return nullptr;
  }
  const char* WaitEvent(int) override {
    running.wait(false);
    return error;
  }
  const char* WaitBehind(DeviceContext& other, int event) override {
    waits.push_back({&other, event});
    return nullptr;
  }
  void GiveBackEvent(int) override { ++num_given_back; }

  std::atomic<bool> running{true};
  std::atomic<const char*> error{nullptr};
  std::vector<std::pair<DeviceContext*, int>> waits;  // what launches were ordered behind
  int num_given_back = 0;

  static absl::StatusOr<std::unique_ptr<DeviceContext>> Open(const Device&, int) {
    return std::make_unique<TestDevice>();
  }

 private:
  const bool has_stream_;
  int num_events_ = 0;
  std::vector<void*> memory_;
  const KernelTable kernels_{{{.op = "position", .run = PositionKernel},
                              {.op = "sum", .run = SumKernel},
                              {.op = "accumulate", .run = AccumulateKernel},
                              {.op = "update", .run = UpdateKernel, .run_many = UpdateMany},
                              {.op = "fail", .run = FailKernel},
                              {.op = "scratch", .run = ScratchKernel, .workspace_bytes = ScratchBytes},
                              {.op = "refuse", .run = SumKernel, .prepare = RefusePrepare}}};
};

}  // namespace oneflow::testing
