// Copies of the filled rows of ragged tensors. Where a group's rows begin on a packed side depends on the counts of all
// groups before it, which a block adds up for the first of its groups; so nothing is asked of the host.
//
//   groups   0 1 2 | 3 4 5 | 6 7      a block takes neighbouring ones, or with other blocks a part of their rows
#include <algorithm>
#include <vector>

#include "kernels/cuda/combine.cuh"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/loops.cuh"
#include "kernels/cuda/team.cuh"

namespace oneflow::cuda {
namespace {

// A copy as a kernel's parameter. Elements are units of so many bytes that they are moved in.
template <typename Index>
struct RowLoops {
  StridedLoop<Index, 3> groups;                 // of the source, the target, the counts
  StridedLoop<Index, 2> within;                 // a group: its rows, and what a row is
  int64_t num_groups, groups_per_block, parts;  // a run of groups is done by so many blocks
  int64_t first_row, rows, row;                 // of what is copied of each group; elements of a row
  bool source_packed, target_packed;
};

template <typename T, typename Index, typename F>
__global__ void CopyRowsKernel(RowLoops<Index> loops, const int32_t* counts, const T* source, T* target, F put) {
  const auto filled = [&](int64_t group) {
    const int64_t at = loops.groups.At(static_cast<Index>(group)).of[2];
    return FilledRows(counts[at], loops.first_row, loops.rows);
  };
  const int64_t first = static_cast<int64_t>(blockIdx.x) / loops.parts * loops.groups_per_block;
  const int64_t part = static_cast<int64_t>(blockIdx.x) % loops.parts;
  const int64_t end =
      first + loops.groups_per_block < loops.num_groups ? first + loops.groups_per_block : loops.num_groups;
  int64_t packed = 0;  // rows of the groups before
  if (loops.source_packed || loops.target_packed) {
    for (int64_t group = threadIdx.x; group < first; group += kThreads) packed += filled(group);
    packed = Reduce<kThreads>(packed, SumOf());
  }
  for (int64_t group = first; group < end; ++group) {
    const Offsets<3> at = loops.groups.At(static_cast<Index>(group));
    const T* const from = source + (loops.source_packed ? packed * loops.row : at.of[0]);
    T* const to = target + (loops.target_packed ? packed * loops.row : at.of[1]);
    const int64_t rows = FilledRows(counts[at.of[2]], loops.first_row, loops.rows);
#pragma unroll 1
    for (int64_t i = part * kThreads + threadIdx.x; i < rows * loops.row; i += loops.parts * kThreads) {
      const Offsets<2> within = loops.within.At(static_cast<Index>(i));
      put(from[within.of[0]], to[within.of[1]]);
    }
    packed += rows;
  }
}

// The loops of a copy on the host, in elements.
struct HostLoops {
  std::vector<LoopDim<3>> groups;
  std::vector<LoopDim<2>> within;
  int64_t row = 1;
};

HostLoops LoopsOf(const RowsCopy& copy) {
  const size_t dim = copy.rows.groups.size(), rank = copy.box.extent.size();
  std::vector<int64_t> dense(rank, 1);
  for (size_t d = rank; d-- > 1;) dense[d - 1] = dense[d] * copy.box.extent[d];
  const auto source = [&](size_t d) { return copy.source_packed ? dense[d] : copy.box.source_stride[d]; };
  const auto target = [&](size_t d) { return copy.target_packed ? dense[d] : copy.box.target_stride[d]; };
  HostLoops loops;
  for (size_t d = 0; d < dim; ++d) {
    loops.groups.push_back({copy.box.extent[d], {source(d), target(d), copy.rows.count_stride[d]}});
  }
  for (size_t d = dim; d < rank; ++d) loops.within.push_back({copy.box.extent[d], {source(d), target(d)}});
  loops.row = dense[dim];
  loops.groups = Merged<3>(loops.groups);
  loops.within = Merged<2>(loops.within);
  if (loops.groups.empty()) loops.groups.push_back({1, {}});
  if (loops.within.empty()) loops.within.push_back({1, {1, 1}});
  return loops;
}

// Lets the loops count in the largest unit, up to 16 bytes, in which whole rows can be moved; it is returned.
size_t WidenRows(const BoxCopy& box, HostLoops* loops) {
  const int64_t size = static_cast<int64_t>(SizeOf(box.dtype));
  LoopDim<2>& inner = loops->within.back();
  if (inner.stride[0] != 1 || inner.stride[1] != 1) return static_cast<size_t>(size);
  const auto strides = [&](auto f) {
    for (LoopDim<3>& dim : loops->groups) f(dim.stride[0]), f(dim.stride[1]);
    for (size_t d = 0; d + 1 < loops->within.size(); ++d) f(loops->within[d].stride[0]), f(loops->within[d].stride[1]);
    f(inner.extent), f(loops->row);
  };
  int64_t all = reinterpret_cast<int64_t>(box.source) | reinterpret_cast<int64_t>(box.target);
  strides([&](int64_t& x) { all |= x * size; });
  int64_t unit = 16;
  while (unit > size && all % unit != 0) unit /= 2;
  strides([&](int64_t& x) { x /= unit / size; });
  return static_cast<size_t>(unit);
}

template <typename T, typename F>
const char* LaunchCopy(cudaStream_t stream, const RowsCopy& copy, const HostLoops& host, F put) {
  const int64_t groups = Count(host.groups), within = Count(host.within);
  const int64_t per_block = (groups + kMaxBlocks - 1) / kMaxBlocks, runs = (groups + per_block - 1) / per_block;
  const int64_t parts = std::min<int64_t>(Blocks(within, 4 * kThreads), std::max<int64_t>(1, kMaxBlocks / runs));
  return WithIndex(std::max(groups, within), [&](auto index) {
    using Index = decltype(index);
    const RowLoops<Index> loops = {StridedLoop<Index, 3>(host.groups),
                                   StridedLoop<Index, 2>(host.within),
                                   groups,
                                   per_block,
                                   parts,
                                   copy.rows.first_row,
                                   copy.rows.rows,
                                   host.row,
                                   copy.source_packed,
                                   copy.target_packed};
    return Launch({stream, static_cast<unsigned>(runs * parts)}, CopyRowsKernel<T, Index, F>, loops,
                  copy.counts + copy.rows.first_count, static_cast<const T*>(copy.box.source),
                  static_cast<T*>(copy.box.target), put);
  });
}

}  // namespace

const char* CopyRows(cudaStream_t stream, const RowsCopy& copy) {
  const BoxCopy& box = copy.box;
  if (std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end()) return nullptr;
  HostLoops loops = LoopsOf(copy);
  if (loops.groups.size() > kMaxRank || loops.within.size() > kMaxRank) {
    return "a copy of rows has more than 8 merged dimensions";
  }
  if (box.combine != Combine::kOverwrite) {
    return ByCombined(box.dtype,
                      [&]<typename T>() { return LaunchCopy<T>(stream, copy, loops, PutCombined{box.combine}); });
  }
  return ByUnit(WidenRows(box, &loops), [&]<typename T>() { return LaunchCopy<T>(stream, copy, loops, Put()); });
}

}  // namespace oneflow::cuda
