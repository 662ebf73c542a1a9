#include "actor/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // makes XXH3_64bits() choose when it is called first
#endif

namespace oneflow {

uint64_t Checksum(const void* data, size_t num_bytes) { return XXH3_64bits(data, num_bytes); }

}  // namespace oneflow
