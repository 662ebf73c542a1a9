// bias_add adds b[n] along one dimension; bias_grad sums all others away. bias_add_tanh adds along the last one.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/float_functions.cuh"
#include "kernels/cuda/reduce.h"

namespace oneflow::cuda {
namespace {

int AxisOf(const KernelArgs& args) { return static_cast<int>(WrappedAxis(args.in[0], args.attrs->Int("axis", -1))); }

// Of the last dimension.
template <typename T>
struct AddBias {
  template <int kLanes>
  __device__ void operator()(int64_t i, int64_t column) const {
    float v[kLanes], bias[kLanes];
    ReadPack(x + i, v);
    ReadPack(b + column, bias);
    for (int k = 0; k < kLanes; ++k) v[k] += bias[k];
    WritePack(y + i, v);
  }
  const T* x;
  const float* b;
  T* y;
};

template <typename T>
const char* BiasAdd(const KernelArgs& args) {
  const int axis = AxisOf(args);
  const TensorArg& given = args.in[0];
  const int64_t outer = Product(given, 0, axis), inner = Product(given, axis + 1, given.rank);
  const T* const x = given.as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  if (inner == 1) return ForPacks<T>(Stream(args), outer, given.dims[axis], {x, b, y}, AddBias<T>{x, b, y});
  return ForEach(Stream(args), {outer, given.dims[axis], inner},
                 [=] __device__(int64_t i, int64_t, int64_t at, int64_t) { y[i] = Narrow<T>(Widen(x[i]) + b[at]); });
}

// in: x, b; out: y = tanh(x + b). y may be x.
template <typename T>
const char* BiasAddTanh(const KernelArgs& args) {
  const T* const x = args.in[0].as<const T>();
  const float* const b = args.in[1].as<const float>();
  T* const y = args.out[0].as<T>();
  return ForEach(Stream(args), {Rows(args.in[0]), Columns(args.in[0])},
                 [=] __device__(int64_t i, int64_t, int64_t column) {
                   y[i] = Narrow<T>(alphabet::Tanh(Widen(x[i]) + b[column]));
                 });
}

Groups AllButAxis(const KernelArgs& args) {
  std::vector<bool> is_reduced(args.in[0].rank, true);
  is_reduced[AxisOf(args)] = false;
  return Groups(args.in[0], is_reduced);
}

bool IsLastAxis(const KernelArgs& args) { return AxisOf(args) == args.in[0].rank - 1; }

size_t BiasGradWorkspace(const KernelArgs& args) {
  const TensorArg& dy = args.in[0];
  return IsLastAxis(args) ? ColumnSumsBytes<1>(Rows(dy), Columns(dy)) : ReduceWorkspace(AllButAxis(args));
}

template <typename T>
struct OneTerm {
  template <int kLanes>
  __device__ void operator()(int64_t, int64_t, int64_t i, float (&terms)[1][kLanes]) const {
    ReadPack(dy + i, terms[0]);
  }
  const T* dy;
};

const char* BiasGrad(const KernelArgs& args) {
  const TensorArg &dy = args.in[0], &db = args.out[0];
  if (!IsLastAxis(args) || db.dtype != DType::kFloat32) return LaunchSum(args, AllButAxis(args));
  if (db.count == 0) return nullptr;
  return ByFloat(dy.dtype, [&]<typename T>() {
    return ColumnSums<1, T>(Stream(args), Rows(dy), Columns(dy), {dy.data}, OneTerm<T>{dy.as<const T>()},
                            args.workspace, {db.as<float>()});
  });
}

}  // namespace

KernelList BiasKernels() {
  return {OF_FLOAT_KERNELS("bias_add", BiasAdd), OF_FLOAT_KERNELS("bias_add_tanh", BiasAddTanh),
          OF_FLOAT_KERNEL("bias_grad", BiasGrad, BiasGradWorkspace)};
}

}  // namespace oneflow::cuda
