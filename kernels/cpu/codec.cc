// What edges with a policy compute: addends as rows, and orthonormal columns.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/parallel.h"

namespace oneflow::cpu {
namespace {

// A rank with one row has its own addend there; one with all rows has the whole sum in the first.
const char* Addends(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &y = args.out[0];
  if (y.count == 0) return nullptr;
  std::memcpy(y.data, x.data, static_cast<size_t>(x.count) * sizeof(float));
  std::fill(y.as<float>() + x.count, y.as<float>() + y.count, 0.0f);
  return nullptr;
}

// Gram-Schmidt on columns [n, r], row by row of memory: one pass makes the products of a column with itself and all
// later ones, the next makes it a unit and takes it from the later ones.
class GramSchmidt {
 public:
  GramSchmidt(float* q, int64_t n, int64_t r) : q_(q), n_(n), r_(r), products_(static_cast<size_t>(r)) {}

  // Columns whose squared length was `before` and is now at most `least` of that become zeros. Null: compare with 1.
  void Orthonormalize(const double* before, double least) {
    for (int64_t i = 0; i < r_; ++i) {
      Multiply(i);
      const double square = products_[i];
      const bool depends = !(square > least * (before == nullptr ? 1 : before[i]));
      Take(i, depends ? 0 : 1 / std::sqrt(square));
    }
  }

  std::vector<double> Squares() const {
    std::vector<double> squares(static_cast<size_t>(r_));
    for (int64_t row = 0; row < n_; ++row) {
      for (int64_t j = 0; j < r_; ++j) squares[j] += static_cast<double>(q_[row * r_ + j]) * q_[row * r_ + j];
    }
    return squares;
  }

 private:
  void Multiply(int64_t i) {
    std::fill(products_.begin() + i, products_.end(), 0.0);
    for (int64_t row = 0; row < n_; ++row) {
      const float* const x = q_ + row * r_;
      const double own = x[i];
      for (int64_t j = i; j < r_; ++j) products_[j] += own * x[j];
    }
  }

  void Take(int64_t i, double inverse) {
    for (int64_t row = 0; row < n_; ++row) {
      float* const x = q_ + row * r_;
      const double unit = x[i] * inverse;
      x[i] = static_cast<float>(unit);
      for (int64_t j = i + 1; j < r_; ++j) x[j] = static_cast<float>(x[j] - products_[j] * inverse * unit);
    }
  }

  float* const q_;
  const int64_t n_, r_;
  std::vector<double> products_;  // of the column with itself and those behind it
};

// Two sweeps make columns orthogonal to rounding. A column that keeps a millionth of its length in the first, or not
// half of it in the second, was a combination of those before it, and what is left of it is rounding.
const char* Orthonormalize(const KernelArgs& args) {
  const TensorArg &x = args.in[0], &q = args.out[0];
  if (q.count == 0) return nullptr;
  std::memcpy(q.data, x.data, static_cast<size_t>(x.count) * sizeof(float));
  GramSchmidt columns(q.as<float>(), x.dims[0], x.dims[1]);
  columns.Orthonormalize(columns.Squares().data(), 1e-12);
  columns.Orthonormalize(nullptr, 0.25);
  return nullptr;
}

}  // namespace

KernelList CodecKernels() {
  return {{"addends", DType::kFloat32, Addends}, {"orthonormalize", DType::kFloat32, Orthonormalize}};
}

}  // namespace oneflow::cpu
