// Which elements of a tensor are reduced to one: what all kernels that reduce over any set of dimensions share.
// Neighbouring dimensions that are both kept or both reduced are merged.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reduced_dims.h"

namespace oneflow::cpu {

struct StridedDim {
  int64_t extent, stride;
};

// Dims from outermost to innermost; sizes of 1 are left out.
struct Groups {
  Groups(const TensorArg& x, const std::vector<bool>& is_reduced) {
    int64_t stride = 1;
    int last = -1;  // -1: no dimension yet, else whether the previous one was reduced
    for (int i = x.rank; i-- > 0;) {
      const int64_t extent = x.dims[i];
      if (extent == 1) continue;
      std::vector<StridedDim>& list = is_reduced[i] ? reduced : kept;
      if (last == static_cast<int>(is_reduced[i])) {
        list.front().extent *= extent;
      } else {
        list.insert(list.begin(), {extent, stride});
      }
      if (last < 0) inner_reduced = is_reduced[i];
      last = is_reduced[i];
      stride *= extent;
    }
  }

  // Takes the innermost dimension away, from whichever list has it; of one element if there is none.
  StridedDim TakeInner() {
    std::vector<StridedDim>& list = inner_reduced ? reduced : kept;
    if (list.empty()) return {1, 1};
    const StridedDim inner = list.back();
    list.pop_back();
    return inner;
  }

  std::vector<StridedDim> kept, reduced;
  bool inner_reduced = false;
};

inline int64_t Count(const std::vector<StridedDim>& dims) {
  int64_t count = 1;
  for (const StridedDim& dim : dims) count *= dim.extent;
  return count;
}

// Where element `index` of the row-major index space of `dims` lies.
inline int64_t Offset(const std::vector<StridedDim>& dims, int64_t index) {
  int64_t offset = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    offset += index % dims[i].extent * dims[i].stride;
    index /= dims[i].extent;
  }
  return offset;
}

// Output elements that are carried together when the inner dimension is kept: 2 KiB of doubles.
inline constexpr int64_t kStrip = 256;

}  // namespace oneflow::cpu
