// The checksum of what goes through files: checkpoints, disk tiers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace oneflow {

// XXH3's 64 bits, by the widest vectors that this processor has.
uint64_t Checksum(const void* data, size_t num_bytes);

}  // namespace oneflow
