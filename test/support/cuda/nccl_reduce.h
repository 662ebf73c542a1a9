// Elements of NCCL's types.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace oneflow::software_cuda {

// Zero and null for what is no type.
size_t SizeOf(ncclDataType_t type);
const char* NameOf(ncclDataType_t type);

// out[i] = addends[0][i] + addends[1][i] + ..., from first to last, each sum rounded to the type. Integers wrap around;
// of max and min, a NaN is nobody's. `out` may be one of the addends.
void Reduce(ncclDataType_t type, ncclRedOp_t reduction, const std::vector<const void*>& addends, void* out,
            size_t count);

}  // namespace oneflow::software_cuda
