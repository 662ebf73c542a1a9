// Scaled dot-product attention and its gradient by cuDNN's fused kernels for 16-bit floats on tensor cores. The library
// compiles a kernel per shape. The forward pass keeps no scores in memory. Sums are in fp32.
//
// The gradient uses deterministic kernels only. They need a matrix of tokens x tokens for each head of a call, so a
// call has as many samples, or heads of a sample, as fit into kMostScratch.
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
  DType dtype = DType::kBFloat16;  // or kFloat16
  // q is dense [batch, tokens, heads * head_size], k and v are [batch, keys, kv_heads * head_size]; kv_heads divide
  // heads.
  int64_t batch = 0, tokens = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0;
  int64_t window = 0;  // a query sees itself and so many less one before it; 0: all
  bool causal = false;
  float scale = 1;  // of scores

  bool operator<(const AttentionProblem& o) const {
    const auto all = [](const AttentionProblem& x) {
      return std::tie(x.backward, x.dtype, x.batch, x.tokens, x.keys, x.heads, x.kv_heads, x.head_size, x.window,
                      x.causal, x.scale);
    };
    return all(*this) < all(o);
  }
};

// The size of a call: samples, and heads of each, which are whole groups. All calls of a problem have the same size.
struct AttentionCall {
  int64_t samples = 0, heads = 0;
};
inline constexpr int64_t kMostScratch = int64_t{256} << 20;

// The scratch memory of a call, as version 9.19 needs it. It is written down here because plans are made without a
// device. The gradient needs dS in 16 bits, with tokens and keys rounded up to tiles, a float for each row of it, and
// dk and dv of each head where several heads share them. The forward pass needs next to nothing.
int64_t ExpectedScratch(const AttentionProblem& problem, const AttentionCall& call);
// The largest calls whose expected scratch is within the limit; if none is, one head of one sample.
AttentionCall CallOf(const AttentionProblem& problem);

struct AttentionTensors {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;   // read by the gradient, as lse is
  float* lse = nullptr;  // [batch, heads, tokens]: the logarithm of each row's sum of exponentials of scaled scores
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// For one thread at a time; objects of different devices may be used at once.
class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual size_t workspace_bytes() const = 0;
  // The library's name for the kernel.
  virtual std::string name() const = 0;
  // Launches. Null, or a static string that says what failed.
  virtual const char* Run(const AttentionTensors& tensors, void* workspace, cudaStream_t stream) const = 0;
};

// Attention on the current device. Null if the library has no kernel for this problem, such as for a head size that is
// no multiple of 8; stderr tells once per problem. Callers on one device share the object.
std::shared_ptr<const CudnnAttention> MakeCudnnAttention(const AttentionProblem& problem);
// Attention for an absent device, which `device` describes in the library's JSON. It cannot run. Null, with the reason,
// if there is no kernel.
std::shared_ptr<const CudnnAttention> MakeCudnnAttentionFor(const std::string& device, const AttentionProblem& problem,
                                                            std::string* why);

}  // namespace oneflow::cuda
