// Copies of a tensor compared by digest, as the cpu kernels do. A debugging aid: assert_replicas waits for the stream
// and reads the digests back, so that the error is the node's own and no later one's.
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/digest.h"

namespace oneflow::cuda {
namespace {

// Sums modulo 2^32 do not depend on the order in which threads add.
template <typename Bits>
__global__ void DigestKernel(int64_t n, const Bits* bits, uint32_t* digest) {
  uint32_t sum = 0;
#pragma unroll 1
  for (int64_t i = FirstIndex(); i < n; i += IndexStride()) sum += DigestPart(static_cast<uint64_t>(i), bits[i]);
  atomicAdd(digest, sum);
}

template <typename Bits>
const char* Digest(const KernelArgs& args) {
  const int64_t n = args.in[0].count;
  uint32_t* const digest = args.out[0].as<uint32_t>();
  if (const char* error = ErrorText(cudaMemsetAsync(digest, 0, sizeof *digest, Stream(args)))) return error;
  if (n == 0) return nullptr;
  return Launch({Stream(args), Blocks(n)}, DigestKernel<Bits>, n, args.in[0].as<const Bits>(), digest);
}

// in: x; out: one i32.
const char* ReplicaDigest(const KernelArgs& args) {
  if (args.out[0].count == 0) return nullptr;
  switch (SizeOf(args.in[0].dtype)) {
    case 1:
      return Digest<uint8_t>(args);
    case 2:
      return Digest<uint16_t>(args);
    case 4:
      return Digest<uint32_t>(args);
    default:
      return Digest<uint64_t>(args);
  }
}

// in: x, digests of the ranks that hold copies; out: x.
const char* AssertReplicas(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &digests = args.in[1];
  std::vector<int32_t> host(digests.count);
  if (const char* error = ErrorText(cudaMemcpyAsync(host.data(), digests.data, host.size() * sizeof(int32_t),
                                                    cudaMemcpyDeviceToHost, Stream(args)))) {
    return error;
  }
  if (const char* error = ErrorText(cudaStreamSynchronize(Stream(args)))) return error;
  for (const int32_t digest : host) {
    if (digest != host[0]) return "the copies of this tensor differ between ranks that should hold the same";
  }
  const size_t num_bytes = static_cast<size_t>(x.count) * SizeOf(x.dtype);
  if (args.out[0].data == x.data || num_bytes == 0) return nullptr;
  return ErrorText(cudaMemcpyAsync(args.out[0].data, x.data, num_bytes, cudaMemcpyDeviceToDevice, Stream(args)));
}

}  // namespace

KernelList ReplicaKernels() { return {OF_REPLICA_KERNELS}; }

}  // namespace oneflow::cuda
