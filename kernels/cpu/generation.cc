// sample_token draws the next token from the logits at the last filled position; append_token writes it behind the
// others.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/random.h"

namespace oneflow::cpu {
namespace {

// in: logits[1,t,v], length[]. One uniform number per step picks from the cumulative distribution.
const char* SampleToken(const KernelArgs& args) {
  const TensorArg& logits = args.in[0];
  const int64_t t = logits.dims[1], v = logits.dims[2];
  const int64_t length = args.in[1].as<const int32_t>()[0];
  if (length < 1 || t < 1 || v < 1) return "sample_token: nothing to continue, the length is 0";
  const float* const x = logits.as<const float>() + (std::min(length, t) - 1) * v;
  const int64_t largest = std::max_element(x, x + v) - x;  // the first of equal ones
  const double temperature = args.attrs->Double("temperature");
  int64_t id = largest;
  if (temperature > 0) {
    const auto weight = [&](int64_t i) { return std::exp((static_cast<double>(x[i]) - x[largest]) / temperature); };
    double total = 0;
    for (int64_t i = 0; i < v; ++i) total += weight(i);
    const uint64_t key =
        RandomKey(static_cast<uint64_t>(args.attrs->Int("seed")), static_cast<uint64_t>(args.attrs->Int("key")));
    double left =
        ToUniform(RandomBits(key, static_cast<uint64_t>(args.step), static_cast<uint64_t>(args.micro_batch))) * total;
    for (id = 0; id < v - 1; ++id) {
      left -= weight(id);
      if (left < 0) break;
    }
  }
  args.out[0].as<int32_t>()[0] = static_cast<int32_t>(id);
  return nullptr;
}

// in: tokens[1,t] (overwritten), length[] (overwritten), id[]. Full tokens shift left by one.
const char* AppendToken(const KernelArgs& args) {
  int32_t* const tokens = args.in[0].as<int32_t>();
  int32_t* const length = args.in[1].as<int32_t>();
  const int64_t t = args.in[0].count;
  if (t == 0) return nullptr;
  if (*length < 0 || *length > t) return "append_token: the length is outside the tokens";
  if (*length == t) {
    std::memmove(tokens, tokens + 1, (t - 1) * sizeof(int32_t));
    --*length;
  }
  tokens[(*length)++] = args.in[2].as<const int32_t>()[0];
  return nullptr;
}

}  // namespace

KernelList GenerationKernels() {
  return {{"sample_token", DType::kFloat32, SampleToken}, {"append_token", DType::kInt32, AppendToken}};
}

}  // namespace oneflow::cpu
