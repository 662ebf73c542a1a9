// Where ragged operands begin and end, and the counts of their rows. A shard knows which rows, or which counts, are its
// own by its `start`. What is wrong in data reads as NaN, or as no count: a launched kernel cannot return an error. Of
// a group whose count does not exist all rows are NaN where it begins and, as none of them need have come there, where
// it ends.
#include <cmath>
#include <type_traits>

#include "kernels/cuda/half.cuh"
#include "kernels/cuda/loops.cuh"
#include "kernels/ragged.h"

namespace oneflow::cuda {
namespace {

template <typename T>
T NotANumber() {
  if constexpr (std::is_integral_v<T>)
    return T{};
  else
    return Narrow<T>(NAN);
}

// in: x[G...,m,Q...], counts[G...]; out: y, as x, whose rows behind the filled ones nobody reads. Where y is x nothing
// is moved.
template <typename T>
const char* KeepRows(const KernelArgs& args) {
  const RaggedRows rows(args.in[0], args.in[1].rank);
  const T* const x = args.in[0].as<const T>();
  const int32_t* const counts = args.in[1].as<const int32_t>();
  T* const y = args.out[0].as<T>();
  const T bad = NotANumber<T>();
  const bool moves = x != y;
  return ForEach(Stream(args), {rows.outer, rows.rows * rows.inner}, [=] __device__(int64_t i, int64_t group, int64_t) {
    if (!rows.Allows(counts[group])) {
      y[i] = bad;
    } else if (moves) {
      y[i] = x[i];
    }
  });
}

template <typename T>
const char* PadRows(const KernelArgs& args) {
  const RaggedRows rows(args.in[0], args.in[1].rank);
  const T* const x = args.in[0].as<const T>();
  const int32_t* const counts = args.in[1].as<const int32_t>();
  T* const y = args.out[0].as<T>();
  const T bad = NotANumber<T>();
  return ForEach(Stream(args), {rows.outer, rows.rows, rows.inner},
                 [=] __device__(int64_t i, int64_t group, int64_t row, int64_t) {
                   const int32_t count = counts[group];
                   y[i] = !rows.Allows(count) ? bad : row < rows.Filled(count) ? x[i] : T{};
                 });
}

// in: ids[P...,t]; out: counts[P...,n]. A thread counts one of them.
const char* RowCounts(const KernelArgs& args) {
  const TensorArg& out = args.out[0];
  const int32_t* const ids = args.in[0].as<const int32_t>();
  const int64_t t = Columns(args.in[0]), n = Columns(out);
  const int64_t first = out.start[out.rank - 1], size = out.logical_dims[out.rank - 1];
  int32_t* const counts = out.as<int32_t>();
  return ForEach(Stream(args), {Rows(out), n}, [=] __device__(int64_t i, int64_t row, int64_t column) {
    int32_t count = 0;
    for (int64_t j = 0; j < t; ++j) {
      const int64_t id = ids[row * t + j];
      if (id < 0 || id >= size) {
        count = -(1 << 24);  // less than none with what other ranks add: keep_rows makes NaN of it
        break;
      }
      count += id == first + column;
    }
    counts[i] = count;
  });
}

}  // namespace

KernelList RaggedKernels() {
  return {{"row_counts", DType::kInt32, RowCounts},
          OF_TYPED_KERNELS("keep_rows", KeepRows),
          OF_TYPED_KERNELS("pad_rows", PadRows)};
}

}  // namespace oneflow::cuda
