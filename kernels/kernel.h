// The kernel interface, the same for every device. A kernel only computes: types were checked when the plan was
// compiled, and the caller adds node, shapes and device to an error. Standard library only, so that CUDA sources may
// include it.
//
// Kernels see local shards. Where the mathematics needs to know which part of the logical tensor a shard is (dropout,
// an embedding split by rows), it reads `start` and `logical_dims`; nothing here knows names, ranks, peers or SBP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"

namespace oneflow {

// One operand: dense, 64-byte aligned; but a group of ragged rows begins where one of its rows may, and an empty shard
// may have any pointer. It lies row-major, but for operands of which the op's definition says that they may lie in
// blocks (OpDef::blocks): a CPU kernel of such an op takes them both ways, those of one group alike, and shapes are
// those of the tensor either way. CUDA kernels never see blocks, since the pass that makes them is for CPUs alone.
struct TensorArg {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  int64_t count = 0;                      // elements of the local shard
  const int64_t* dims = nullptr;          // [rank]
  const int64_t* logical_dims = nullptr;  // [rank]
  const int64_t* start = nullptr;         // [rank]
  MemoryLayout layout = MemoryLayout::kRowMajor;

  bool in_blocks() const { return layout == MemoryLayout::kChannelBlocks; }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// The dimensions as they lie, the last innermost: in blocks [n,c/16,h,w,16].
inline std::vector<int64_t> DimsInMemory(const TensorArg& x) {
  if (!x.in_blocks()) return {x.dims, x.dims + x.rank};
  return {x.dims[0], x.dims[1] / kBlockChannels, x.dims[2], x.dims[3], kBlockChannels};
}

// Of these, in elements.
inline std::vector<int64_t> Strides(const TensorArg& x) {
  const std::vector<int64_t> dims = DimsInMemory(x);
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

// What tells an act from others besides its operands. Kernels for devices with a stream read them in the device's
// memory, so that work which was captured once is right in every act.
struct ActNumbers {
  int64_t step = 0;         // steps since the job began
  int64_t micro_batch = 0;  // within the step
};

struct KernelArgs {
  std::span<const TensorArg> in;
  std::span<const TensorArg> out;
  const AttrMap* attrs = nullptr;
  void* stream = nullptr;     // cudaStream_t; null on cpu
  void* workspace = nullptr;  // as many bytes as `workspace_bytes` asked for; contents undefined
  int threads = 1;            // the most that a run may use (cpu)
  void* state = nullptr;      // what `prepare` returned
  // Of the act. On a device that captures work a kernel's host code must not look at `step`, and at `micro_batch` for
  // no more than whether it is the first.
  int64_t step = 0;
  int64_t micro_batch = 0;
  int64_t micro_batches = 1;
  const ActNumbers* act = nullptr;  // on the device, if it has a stream: of ops that draw random numbers
};

// Runs (cpu) or launches (cuda) the computation. Null, or a static string that says which call failed. Must accept
// empty tensors. Thread-safe for different `state`s.
using KernelFn = const char* (*)(const KernelArgs&);

struct Kernel {
  const char* op = nullptr;
  DType dtype = DType::kFloat32;  // of input 0, or of output 0 if there are no inputs
  KernelFn run = nullptr;
  // Scratch memory; null: none. Called when a plan is made and at load: only shapes, attributes and `threads` are set,
  // and at load `state`.
  size_t (*workspace_bytes)(const KernelArgs&) = nullptr;
  // Makes what is expensive and depends on shapes only (a oneDNN primitive); null: none. Called once per instruction at
  // load; data pointers are null. An empty pointer means the shapes are not supported.
  std::shared_ptr<void> (*prepare)(const KernelArgs&) = nullptr;
  // Runs several calls at once, in any order: what they give is what `run` gives of each, to the bit. No call writes
  // what another one reads or writes. Null: there is no such way. Of kernels without scratch memory and `prepare`.
  const char* (*run_many)(std::span<const KernelArgs>) = nullptr;
};

// The kernels of one device kind: a visible list, no static initialisers.
class KernelTable {
 public:
  explicit KernelTable(std::vector<Kernel> kernels) : kernels_(std::move(kernels)) {}
  // Null if there is none.
  const Kernel* Find(const std::string& op, DType dtype) const {
    for (const Kernel& kernel : kernels_) {
      if (kernel.dtype == dtype && op == kernel.op) return &kernel;
    }
    return nullptr;
  }
  const std::vector<Kernel>& all() const { return kernels_; }

 private:
  std::vector<Kernel> kernels_;
};

// kernels/cpu/dispatch.cc
KernelTable CpuKernels();
// kernels/cuda/register.cc, or kernels/cuda_absent.cc where the toolkit was not found (an empty table).
KernelTable CudaKernels();

}  // namespace oneflow
