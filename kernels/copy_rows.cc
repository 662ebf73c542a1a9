// Copies of the filled rows of ragged tensors, as boxes of neighbouring groups that are filled alike: a tensor whose
// groups are full is one copy, however many they are.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/copy.h"
#include "kernels/loops.h"
#include "kernels/ragged.h"

namespace oneflow {
namespace {

// A dimension of groups: operand 0 is the source, 1 the target, 2 the counts.
using GroupDim = LoopDim<3>;

int64_t Elements(std::span<const int64_t> extent) {
  int64_t elements = 1;
  for (const int64_t x : extent) elements *= x;
  return elements;
}

std::vector<int64_t> DenseStrides(std::span<const int64_t> extent) {
  std::vector<int64_t> strides(extent.size());
  for (size_t d = 0; d < extent.size(); ++d) strides[d] = Elements(extent.subspan(d + 1));
  return strides;
}

// Outermost first, and at least one.
std::vector<GroupDim> GroupDims(const RowBox& rows, const std::vector<int64_t>& source,
                                const std::vector<int64_t>& target) {
  std::vector<GroupDim> dims;
  for (size_t d = 0; d < rows.groups.size(); ++d) {
    dims.push_back({rows.groups[d], {source[d], target[d], rows.count_stride[d]}});
  }
  dims = Merged<3>(dims);
  if (dims.empty()) dims.push_back({1, {0, 0, 0}});
  return dims;
}

// Where group `index` of the dimensions before the last lies in each operand.
std::array<int64_t, 3> PlaceOf(int64_t index, const std::vector<GroupDim>& dims) {
  std::array<int64_t, 3> place = {};
  for (size_t d = dims.size() - 1; d-- > 0;) {
    for (size_t k = 0; k < 3; ++k) place[k] += index % dims[d].extent * dims[d].stride[k];
    index /= dims[d].extent;
  }
  return place;
}

// f(place, run, filled) for every run of neighbouring groups that are filled alike, in the order of the groups. Null,
// or what f says.
template <typename F>
const char* ForEachRun(const std::vector<GroupDim>& dims, const RowBox& rows, const int32_t* counts, F f) {
  const GroupDim& inner = dims.back();
  int64_t steps = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) steps *= dims[d].extent;
  for (int64_t step = 0; step < steps; ++step) {
    std::array<int64_t, 3> place = PlaceOf(step, dims);
    const auto filled_at = [&](int64_t group) {
      return rows.Filled(counts[rows.first_count + place[2] + group * inner.stride[2]]);
    };
    for (int64_t begin = 0, end = 0; begin < inner.extent; begin = end) {
      const int64_t filled = filled_at(begin);
      for (end = begin + 1; end < inner.extent && filled_at(end) == filled;) ++end;
      const std::array<int64_t, 2> at = {place[0] + begin * inner.stride[0], place[1] + begin * inner.stride[1]};
      const char* const error = filled == 0 ? nullptr : f(at, end - begin, filled);
      if (error != nullptr) return error;
    }
  }
  return nullptr;
}

}  // namespace

const char* CopyRows(const CopyRowsArgs& args) {
  const CopyRegionArgs& box = args.box;
  if (std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end()) return nullptr;
  const size_t dim = args.rows.groups.size();
  const std::vector<int64_t> dense = DenseStrides(box.extent);
  const auto strides = [&](bool packed, std::span<const int64_t> of) {
    return packed ? dense : std::vector<int64_t>(of.begin(), of.end());
  };
  const std::vector<int64_t> source_stride = strides(args.source_packed, box.source_stride);
  const std::vector<int64_t> target_stride = strides(args.target_packed, box.target_stride);
  const std::vector<GroupDim> groups = GroupDims(args.rows, source_stride, target_stride);
  const int64_t size = static_cast<int64_t>(SizeOf(box.dtype)), row = dense[dim];
  // A run: some groups, the rows of each, and what a row is.
  std::vector<int64_t> extent = {0}, source = {groups.back().stride[0]}, target = {groups.back().stride[1]};
  extent.insert(extent.end(), box.extent.begin() + dim, box.extent.end());
  source.insert(source.end(), source_stride.begin() + dim, source_stride.end());
  target.insert(target.end(), target_stride.begin() + dim, target_stride.end());
  int64_t packed = 0;  // elements, so far
  return ForEachRun(groups, args.rows, args.counts, [&](std::array<int64_t, 2> at, int64_t run, int64_t filled) {
    extent[0] = run;
    extent[1] = filled;
    if (args.source_packed) at[0] = packed, source[0] = filled * row;
    if (args.target_packed) at[1] = packed, target[0] = filled * row;
    packed += run * filled * row;
    CopyRegionArgs copy = box;
    copy.extent = extent;
    copy.source_stride = source;
    copy.target_stride = target;
    copy.source = static_cast<const char*>(box.source) + at[0] * size;
    copy.target = static_cast<char*>(box.target) + at[1] * size;
    return CopyRegion(copy);
  });
}

int64_t CountRows(const RowBox& rows, const int32_t* counts) {
  if (std::find(rows.groups.begin(), rows.groups.end(), 0) != rows.groups.end()) return 0;
  const std::vector<int64_t> none(rows.groups.size(), 0);
  int64_t count = 0;
  ForEachRun(GroupDims(rows, none, none), rows, counts,
             [&](const std::array<int64_t, 2>&, int64_t run, int64_t filled) {
               count += run * filled;
               return nullptr;
             });
  return count;
}

}  // namespace oneflow
