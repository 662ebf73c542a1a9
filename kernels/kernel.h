// The kernel interface, the same for every device. A kernel only computes: types were checked when the plan was
// compiled, and the caller adds node, shapes and device to an error. Standard library only, so that CUDA sources may
// include it.
//
// Kernels see local shards; nothing here knows names, ranks, peers or SBP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor_arg.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/dtype.h"

namespace oneflow {

// The numbers that differ from act to act. On devices with a stream, kernels read them from device memory, so that
// captured work stays valid when it is launched again.
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
  // The numbers of this act. On a device that captures work, a kernel's host code must not read `step`, and may only
  // ask of `micro_batch` whether it is 0.
  int64_t step = 0;
  int64_t micro_batch = 0;
  int64_t micro_batches = 1;
  const ActNumbers* act = nullptr;  // in device memory, for ops that draw random numbers; null on cpu
};

// Runs (cpu) or launches (cuda) the computation. Null, or a static string that says which call failed. Must accept
// empty tensors. Thread-safe for different `state`s.
using KernelFn = const char* (*)(const KernelArgs&);

struct Kernel {
  const char* op = nullptr;
  DType dtype = DType::kFloat32;  // of input 0, or of output 0 if there are no inputs
  KernelFn run = nullptr;
  // Bytes of scratch memory; null: none. Called when a plan is made and again at load. Only shapes, attributes and
  // `threads` are set, and `state` at load.
  size_t (*workspace_bytes)(const KernelArgs&) = nullptr;
  // Makes expensive objects that depend on shapes only, such as a oneDNN primitive; null: none. Called once per
  // instruction at load, with null data pointers. An empty result means that the kernel does not support these shapes.
  std::shared_ptr<void> (*prepare)(const KernelArgs&) = nullptr;
  // Runs several calls at once, in any order, with the same bits as one `run` after the other. REQUIRES: no call writes
  // memory that another one reads or writes. Null: the kernel cannot. Only for kernels without scratch memory and
  // `prepare`.
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

// kernels/cpu/dispatch.cc. Those that were added come last.
KernelTable CpuKernels();
// kernels/cuda/register.cc, or kernels/cuda_absent.cc where the toolkit was not found (those that were added).
KernelTable CudaKernels();

// Kernels from outside this room (kernels/added.cc), for tables that are made from now on. REQUIRES: there is none for
// that op and dtype. `op` stays valid. Not while another thread makes a table.
void AddCpuKernel(Kernel kernel);
void AddCudaKernel(Kernel kernel);
const std::deque<Kernel>& AddedCpuKernels();
const std::deque<Kernel>& AddedCudaKernels();

}  // namespace oneflow
