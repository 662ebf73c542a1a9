// cuDNN's attention on a device in software (kernels/cuda/cudnn_attention.h), in plain loops. It refuses what the
// library refuses, and uses all of the scratch memory that it asks for.
#include "kernels/cuda/cudnn_attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "test/support/cuda/software_device.h"

namespace oneflow::cuda {
namespace {

float Widen(DType dtype, const void* data, int64_t at) {
  return dtype == DType::kBFloat16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at])
                                   : __half2float(static_cast<const __half*>(data)[at]);
}
void Store(DType dtype, void* data, int64_t at, float value) {
  if (dtype == DType::kBFloat16) {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  } else {
    static_cast<__half*>(data)[at] = __float2half_rn(value);
  }
}
// As an operand of tensor cores.
float Rounded(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? __bfloat162float(__float2bfloat16_rn(value))
                                   : __half2float(__float2half_rn(value));
}

// A head of a sample.
struct Head {
  const AttentionProblem& problem;
  int64_t sample, head;

  int64_t At(int64_t token, int64_t column) const {
    return (sample * problem.tokens + token) * problem.heads * problem.head_size + head * problem.head_size + column;
  }
  // In k and v.
  int64_t KvAt(int64_t key, int64_t column) const {
    const int64_t kv_head = head / (problem.heads / problem.kv_heads);
    return (sample * problem.keys + key) * problem.kv_heads * problem.head_size + kv_head * problem.head_size + column;
  }
  // Of a query's row and a key's.
  float Dot(const void* a, int64_t i, const void* b, int64_t j) const {
    float sum = 0;
    for (int64_t c = 0; c < problem.head_size; ++c) {
      sum += Widen(problem.dtype, a, At(i, c)) * Widen(problem.dtype, b, KvAt(j, c));
    }
    return sum;
  }
  int64_t First(int64_t query) const {
    return problem.window > 0 && query >= problem.window ? query + 1 - problem.window : 0;
  }
  int64_t Seen(int64_t query) const { return problem.causal ? query + 1 : problem.keys; }

  void Forward(const AttentionTensors& x) const {
    float* const lse = x.lse + (sample * problem.heads + head) * problem.tokens;
    std::vector<float> p(problem.keys);
    for (int64_t i = 0; i < problem.tokens; ++i) {
      float top = -INFINITY, sum = 0;
      for (int64_t j = First(i); j < Seen(i); ++j) top = std::fmax(top, p[j] = Dot(x.q, i, x.k, j) * problem.scale);
      for (int64_t j = First(i); j < Seen(i); ++j) sum += p[j] = std::exp(p[j] - top);
      lse[i] = top + std::log(sum);
      for (int64_t c = 0; c < problem.head_size; ++c) {
        float out = 0;
        for (int64_t j = First(i); j < Seen(i); ++j) {
          out += Rounded(problem.dtype, p[j]) * Widen(problem.dtype, x.v, KvAt(j, c));
        }
        Store(problem.dtype, x.out, At(i, c), out / sum);
      }
    }
  }

  // `ds`: tokens x keys, in rows of `padded`. Adds to dk and dv, [keys, head_size].
  void Backward(const AttentionTensors& x, int64_t padded, void* ds, std::vector<float>& dk,
                std::vector<float>& dv) const {
    const float* const lse = x.lse + (sample * problem.heads + head) * problem.tokens;
    const int64_t d = problem.head_size;
    for (int64_t i = 0; i < problem.tokens; ++i) {
      float delta = 0;
      for (int64_t c = 0; c < d; ++c) {
        delta += Widen(problem.dtype, x.dout, At(i, c)) * Widen(problem.dtype, x.out, At(i, c));
      }
      std::vector<float> dq(d);
      for (int64_t j = First(i); j < Seen(i); ++j) {
        const float p = std::exp(Dot(x.q, i, x.k, j) * problem.scale - lse[i]);
        Store(problem.dtype, ds, i * padded + j, p * (Dot(x.dout, i, x.v, j) - delta) * problem.scale);
        const float rounded = Widen(problem.dtype, ds, i * padded + j);
        for (int64_t c = 0; c < d; ++c) {
          dv[j * d + c] += Rounded(problem.dtype, p) * Widen(problem.dtype, x.dout, At(i, c));
          dk[j * d + c] += rounded * Widen(problem.dtype, x.q, At(i, c));
          dq[c] += rounded * Widen(problem.dtype, x.k, KvAt(j, c));
        }
      }
      for (int64_t c = 0; c < d; ++c) Store(problem.dtype, x.dq, At(i, c), dq[c]);
    }
  }
  // Of the group that ends with this head.
  void StoreKeys(const AttentionTensors& x, const std::vector<float>& dk, const std::vector<float>& dv) const {
    for (int64_t j = 0; j < problem.keys; ++j) {
      for (int64_t c = 0; c < problem.head_size; ++c) {
        Store(problem.dtype, x.dk, KvAt(j, c), dk[j * problem.head_size + c]);
        Store(problem.dtype, x.dv, KvAt(j, c), dv[j * problem.head_size + c]);
      }
    }
  }
};

class InSoftware : public CudnnAttention {
 public:
  explicit InSoftware(const AttentionProblem& problem) : problem_(problem), call_(CallOf(problem)) {}

  size_t workspace_bytes() const override { return static_cast<size_t>(ExpectedScratch(problem_, call_)); }
  std::string name() const override { return "in software"; }

  const char* Run(const AttentionTensors& x, void* workspace, cudaStream_t stream) const override {
    if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return "cuDNN's scratch memory is not aligned";
    const cudaError_t error = software_cuda::Enqueue(
        stream, problem_.backward ? "cudnnAttentionGrad" : "cudnnAttention",
        [problem = problem_, call = call_, x, workspace, bytes = workspace_bytes()] {
          if (!software_cuda::CheckOperands(Operands(problem, x, workspace, bytes))) return;
          std::memset(workspace, 0xff, bytes);
          for (int64_t sample = 0; sample < problem.batch; ++sample) {
            for (int64_t head = 0; head < problem.heads; head += problem.heads / problem.kv_heads)
              OfGroup({problem, sample, head}, call, x, workspace);
          }
        });
    return error == cudaSuccess ? nullptr : "cuDNN's attention failed";
  }

 private:
  // The heads from `head` on that share a head of k and v. Those of one call lie in the scratch memory one behind the
  // other.
  static void OfGroup(Head head, const AttentionCall& call, const AttentionTensors& x, void* workspace) {
    const AttentionProblem& problem = head.problem;
    const auto padded = [](int64_t rows) { return (rows + 127) / 128 * 128; };
    std::vector<float> dk(problem.keys * problem.head_size), dv = dk;
    for (int64_t i = 0; i < problem.heads / problem.kv_heads; ++i, ++head.head) {
      if (!problem.backward) {
        head.Forward(x);
        continue;
      }
      const int64_t in_call = head.sample % call.samples * call.heads + head.head % call.heads;
      const int64_t matrix = padded(problem.tokens) * padded(problem.keys) * static_cast<int64_t>(sizeof(uint16_t));
      head.Backward(x, padded(problem.keys), static_cast<char*>(workspace) + in_call * matrix, dk, dv);
    }
    --head.head;
    if (problem.backward) head.StoreKeys(x, dk, dv);
  }

  static std::vector<software_cuda::Operand> Operands(const AttentionProblem& problem, const AttentionTensors& x,
                                                      void* workspace, size_t workspace_bytes) {
    const int64_t rows = problem.batch * problem.tokens * problem.heads;
    const size_t bytes = static_cast<size_t>(rows * problem.head_size) * sizeof(uint16_t);
    const int64_t kv_rows = problem.batch * problem.keys * problem.kv_heads;
    const size_t kv_bytes = static_cast<size_t>(kv_rows * problem.head_size) * sizeof(uint16_t);
    std::vector<software_cuda::Operand> operands = {
        {"q", x.q, bytes, false},
        {"k", x.k, kv_bytes, false},
        {"v", x.v, kv_bytes, false},
        {"out", x.out, bytes, !problem.backward},
        {"lse", x.lse, static_cast<size_t>(rows) * sizeof(float), !problem.backward},
        {"workspace", workspace, workspace_bytes, true}};
    if (problem.backward) {
      operands.push_back({"dout", x.dout, bytes, false});
      operands.push_back({"dq", x.dq, bytes, true});
      operands.push_back({"dk", x.dk, kv_bytes, true});
      operands.push_back({"dv", x.dv, kv_bytes, true});
    }
    return operands;
  }

  const AttentionProblem problem_;
  const AttentionCall call_;
};

}  // namespace

std::shared_ptr<const CudnnAttention> MakeCudnnAttention(const AttentionProblem& problem) {
  if (problem.head_size % 8 != 0) return nullptr;
  return std::make_shared<InSoftware>(problem);
}

}  // namespace oneflow::cuda
