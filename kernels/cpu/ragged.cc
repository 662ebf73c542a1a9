// Where ragged operands begin and end, and the counts of their rows. A shard knows which rows, or which counts, are its
// own by its `start`.
#include "kernels/ragged.h"

#include <algorithm>
#include <cstring>

#include "kernels/copy.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

// in: x[G...,m,Q...], counts[G...]; out: y, as x.
const char* PadRows(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  const int32_t* const counts = args.in[1].as<const int32_t>();
  const RaggedRows rows(x, args.in[1].rank);
  const int64_t row = rows.inner * static_cast<int64_t>(SizeOf(x.dtype)), group = rows.rows * row;
  ParallelFor(rows.outer, Grain(2 * group), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t filled = rows.Filled(counts[g]) * row;
      const char* const from = x.as<const char>() + g * group;
      char* const to = y.as<char>() + g * group;
      if (from != to) std::memcpy(to, from, static_cast<size_t>(filled));
      std::memset(to + filled, 0, static_cast<size_t>(group - filled));
    }
  });
  return nullptr;
}

// in: x[G...,m,Q...], counts[G...]; out: y, as x, whose rows behind the filled ones nobody reads.
const char* KeepRows(const KernelArgs& args) {
  const RaggedRows rows(args.in[0], args.in[1].rank);
  const int32_t* const counts = args.in[1].as<const int32_t>();
  if (!std::all_of(counts, counts + rows.outer, [&](int32_t count) { return rows.Allows(count); })) {
    return "keep_rows: a count is negative or larger than the number of rows";
  }
  const int64_t count[] = {args.in[0].count}, next[] = {1};
  return CopyRegion({args.in[0].dtype, count, args.in[0].data, next, args.out[0].data, next});
}

// in: ids[P...,t]; out: counts[P...,n].
const char* RowCounts(const KernelArgs& args) {
  const TensorArg &ids = args.in[0], &counts = args.out[0];
  const int64_t t = Columns(ids), n = Columns(counts);
  const int64_t first = counts.start[counts.rank - 1], size = counts.logical_dims[counts.rank - 1];
  FillZero(counts.data, static_cast<size_t>(counts.count) * sizeof(int32_t));
  for (int64_t i = 0; i < ids.count; ++i) {
    const int64_t id = ids.as<const int32_t>()[i];
    if (id < 0 || id >= size) return "row_counts: an index is negative or not less than 'size'";
    if (id >= first && id < first + n) ++counts.as<int32_t>()[i / t * n + id - first];
  }
  return nullptr;
}

}  // namespace

KernelList RaggedKernels() {
  return {{"row_counts", DType::kInt32, RowCounts},
          OF_UNTYPED_KERNEL("keep_rows", KeepRows),
          OF_UNTYPED_KERNEL("pad_rows", PadRows)};
}

}  // namespace oneflow::cpu
