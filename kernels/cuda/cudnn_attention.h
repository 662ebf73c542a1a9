// Scaled dot-product attention and its gradient by cuDNN's fused kernels, which the library makes for a shape when it
// is asked: of 16-bit floats, on tensor cores, without scores in memory in the forward pass. The sums are in fp32.
//
// Of the gradient only what gives the same bits in every run is asked for. That keeps a matrix of tokens x tokens for
// each head of a call, so a call is of as many samples, or heads of a sample, as kMostScratch lets it have.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "oneflow_core/dtype.h"

namespace oneflow::cuda {

struct AttentionProblem {
  bool backward = false;
  DType dtype = DType::kBFloat16;                           // or kFloat16
  int64_t batch = 0, tokens = 0, heads = 0, head_size = 0;  // tensors are dense [batch, tokens, heads * head_size]
  bool causal = false;
  float scale = 1;  // of scores

  bool operator<(const AttentionProblem& o) const {
    const auto all = [](const AttentionProblem& x) {
      return std::tie(x.backward, x.dtype, x.batch, x.tokens, x.heads, x.head_size, x.causal, x.scale);
    };
    return all(*this) < all(o);
  }
};

// A call: so many samples with so many heads of each, all calls alike.
struct AttentionCall {
  int64_t samples = 0, heads = 0;
};
inline constexpr int64_t kMostScratch = int64_t{256} << 20;

// What the gradient of a call needs by version 9.19, for which it is written down because plans are made where there
// is no device: dS in 16 bits, with tokens rounded up to tiles, and a float for each row of it. The forward pass needs
// next to nothing.
int64_t ExpectedScratch(const AttentionProblem& problem, const AttentionCall& call);
// The largest calls whose expected scratch is within the limit; one head of one sample if none is.
AttentionCall CallOf(const AttentionProblem& problem);

struct AttentionTensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;   // read by the gradient, as lse is
  float* lse = nullptr;  // [batch, heads, tokens]: the logarithm of each row's sum of exponentials of scaled scores
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// One thread at a time; different ones of different devices at once.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual size_t workspace_bytes() const = 0;
  // The library's name of the kernel.
  virtual std::string name() const = 0;
  // Launches. Null, or a static string that says what failed.
  virtual const char* Run(const AttentionTensors& tensors, void* workspace, cudaStream_t stream) const = 0;
};

// For the current device. Null if the library has none for this problem, which is then said on stderr, once for each
// problem: a head size that is no multiple of 8, say. Made once for all callers of a device that hold it.
std::shared_ptr<const CudnnAttention> MakeCudnnAttention(const AttentionProblem& problem);
// For a device that is not there: `device` is what the library writes of one, as JSON. It cannot be run. Null, and why.
std::shared_ptr<const CudnnAttention> MakeCudnnAttentionFor(const std::string& device, const AttentionProblem& problem,
                                                            std::string* why);

}  // namespace oneflow::cuda
