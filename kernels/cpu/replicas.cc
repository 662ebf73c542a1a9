// Copies of a tensor compared by digest: replica_digest makes one number of what this rank holds, assert_replicas fails
// where the numbers of the ranks that should hold the same differ.
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/digest.h"

namespace oneflow::cpu {
namespace {

template <typename Bits>
uint32_t Digest(const TensorArg& x) {
  const Bits* const bits = x.as<const Bits>();
  uint32_t digest = 0;
  for (int64_t i = 0; i < x.count; ++i) digest += DigestPart(static_cast<uint64_t>(i), bits[i]);
  return digest;
}

// in: x; out: one i32.
const char* ReplicaDigest(const KernelArgs& args) {
  const TensorArg& x = args.in[0];
  uint32_t digest = 0;
  switch (SizeOf(x.dtype)) {
    case 1:
      digest = Digest<uint8_t>(x);
      break;
    case 2:
      digest = Digest<uint16_t>(x);
      break;
    case 4:
      digest = Digest<uint32_t>(x);
      break;
    default:
      digest = Digest<uint64_t>(x);
      break;
  }
  for (int64_t i = 0; i < args.out[0].count; ++i) args.out[0].as<int32_t>()[i] = static_cast<int32_t>(digest);
  return nullptr;
}

// in: x, digests of the ranks that hold copies; out: x.
const char* AssertReplicas(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &digests = args.in[1];
  for (int64_t i = 1; i < digests.count; ++i) {
    if (digests.as<const int32_t>()[i] != digests.as<const int32_t>()[0]) {
      return "the copies of this tensor differ between ranks that should hold the same";
    }
  }
  const size_t num_bytes = static_cast<size_t>(x.count) * SizeOf(x.dtype);
  if (args.out[0].data != x.data && num_bytes > 0) std::memcpy(args.out[0].data, x.data, num_bytes);
  return nullptr;
}

}  // namespace

KernelList ReplicaKernels() { return {OF_REPLICA_KERNELS}; }

}  // namespace oneflow::cpu
