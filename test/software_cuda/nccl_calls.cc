#include "test/software_cuda/nccl_calls.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "test/software_cuda/device_kit.h"

namespace oneflow::software_cuda {
namespace {

constexpr size_t kCount = 37;

enum class What { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kExchange };

struct Case {
  What what;
  ncclRedOp_t reduction = ncclSum;
  bool in_place = false;
};

// The rank that checks.
struct Rank {
  int num_ranks, rank;
  ncclComm_t comm;
  cudaStream_t stream;
};

float ToFloat(__half x) { return __half2float(x); }
float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
float ToFloat(T x) {
  return static_cast<float>(x);
}
template <typename T>
T FromFloat(float x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(x);
}

// What element `i` of rank `rank` is: small, so that every type has it and its sums.
float Value(int rank, size_t i) { return static_cast<float>((rank * 5 + i * 3) % 4); }

float Reduced(const Case& c, int num_ranks, size_t i) {
  float result = Value(0, i);
  for (int rank = 1; rank < num_ranks; ++rank) {
    const float x = Value(rank, i);
    result = c.reduction == ncclSum    ? result + x
             : c.reduction == ncclProd ? result * x
             : c.reduction == ncclMax  ? std::max(result, x)
                                       : std::min(result, x);
  }
  return result;
}

float Expected(const Case& c, const Rank& r, size_t i) {
  switch (c.what) {
    case What::kAllReduce:
      return Reduced(c, r.num_ranks, i);
    case What::kReduceScatter:
      return Reduced(c, r.num_ranks, r.rank * kCount + i);
    case What::kBroadcast:
      return Value(r.num_ranks - 1, i);
    case What::kAllGather:
    case What::kExchange:
      return Value(static_cast<int>(i / kCount), i % kCount);
  }
  return 0;
}

// Each rank gives its elements to every other one.
template <typename T>
ncclResult_t Exchange(const Rank& r, const T* in, T* out, ncclDataType_t type) {
  ncclGroupStart();
  for (int peer = 0; peer < r.num_ranks; ++peer) {
    if (peer == r.rank) continue;
    ncclRecv(out + peer * kCount, kCount, type, peer, r.comm, r.stream);
    ncclSend(in, kCount, type, peer, r.comm, r.stream);
  }
  return ncclGroupEnd();
}

template <typename T>
ncclResult_t Call(const Case& c, const Rank& r, const T* in, T* out, ncclDataType_t type) {
  switch (c.what) {
    case What::kAllReduce:
      return ncclAllReduce(in, out, kCount, type, c.reduction, r.comm, r.stream);
    case What::kReduceScatter:
      return ncclReduceScatter(in, out, kCount, type, c.reduction, r.comm, r.stream);
    case What::kAllGather:
      return ncclAllGather(in, out, kCount, type, r.comm, r.stream);
    case What::kBroadcast:
      return ncclBroadcast(in, out, kCount, type, r.num_ranks - 1, r.comm, r.stream);
    case What::kExchange:
      return Exchange(r, in, out, type);
  }
  return ncclInternalError;
}

// Where the smaller operand lies in the larger one.
template <typename T>
std::vector<T> Run(const Case& c, const Rank& r, ncclDataType_t type) {
  const size_t all = kCount * r.num_ranks, own = kCount * r.rank;
  const size_t in_size = c.what == What::kReduceScatter ? all : kCount;
  const size_t out_size = c.what == What::kAllGather || c.what == What::kExchange ? all : kCount;
  std::vector<T> values(std::max(in_size, out_size), FromFloat<T>(0));
  const size_t in_at = c.in_place && in_size < out_size ? own : 0, out_at = c.in_place && in_size > out_size ? own : 0;
  for (size_t i = 0; i < in_size; ++i) values[in_at + i] = FromFloat<T>(Value(r.rank, i));
  DeviceArray<T> first(values.size()), second(values.size());
  first.Set(values);
  T* const out = c.in_place ? first.data() : second.data();
  if (Call<T>(c, r, first.data() + in_at, out + out_at, type) != ncclSuccess) return {};
  cudaStreamSynchronize(r.stream);
  values = c.in_place ? first.Get() : second.Get();
  return {values.begin() + out_at, values.begin() + out_at + out_size};
}

std::string ToString(const Case& c, ncclDataType_t type, const Rank& r) {
  constexpr const char* kWhat[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "exchange"};
  return std::string(kWhat[static_cast<int>(c.what)]) + (c.in_place ? " in place" : "") + ", type " +
         std::to_string(type) + ", reduction " + std::to_string(c.reduction) + ", rank " + std::to_string(r.rank) +
         " of " + std::to_string(r.num_ranks);
}

template <typename T>
void Check(const Case& c, const Rank& r, ncclDataType_t type, std::vector<std::string>* wrong) {
  const std::vector<T> got = Run<T>(c, r, type);
  if (got.empty()) wrong->push_back(ToString(c, type, r) + ": " + ncclGetLastError(r.comm));
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_own = c.what == What::kExchange && static_cast<int>(i / kCount) == r.rank;
    if (is_own || ToFloat(got[i]) == Expected(c, r, i)) continue;
    wrong->push_back(ToString(c, type, r) + ": element " + std::to_string(i) + " is " +
                     std::to_string(ToFloat(got[i])) + " instead of " + std::to_string(Expected(c, r, i)));
    return;
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = {{.what = What::kExchange}};
  for (const bool in_place : {false, true}) {
    for (const ncclRedOp_t reduction : {ncclSum, ncclProd, ncclMax, ncclMin}) {
      cases.push_back({What::kAllReduce, reduction, in_place});
      cases.push_back({What::kReduceScatter, reduction, in_place});
    }
    cases.push_back({What::kAllGather, ncclSum, in_place});
    cases.push_back({What::kBroadcast, ncclSum, in_place});
  }
  return cases;
}

}  // namespace

std::vector<std::string> WrongResults(int num_ranks, int rank, ncclComm_t comm) {
  std::vector<std::string> wrong;
  const Stream stream;
  const Rank r = {num_ranks, rank, comm, stream.get()};
  for (const Case& c : AllCases()) {
    Check<uint8_t>(c, r, ncclUint8, &wrong);
    Check<int32_t>(c, r, ncclInt32, &wrong);
    Check<int64_t>(c, r, ncclInt64, &wrong);
    Check<__half>(c, r, ncclFloat16, &wrong);
    Check<float>(c, r, ncclFloat32, &wrong);
    Check<__nv_bfloat16>(c, r, ncclBfloat16, &wrong);
  }
  return wrong;
}

}  // namespace oneflow::software_cuda
