#include "test/support/ops/kit.h"

#include <algorithm>
#include <cmath>

#include "glog/logging.h"

namespace oneflow::testing {

int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

Dims Unravel(const Dims& dims, int64_t index) {
  Dims at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    at[i] = index % dims[i];
    index /= dims[i];
  }
  return at;
}

int64_t Ravel(const Dims& dims, const Dims& at) {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i) index = index * dims[i] + at[i];
  return index;
}

int64_t Columns(const RefTensor& x) { return x.dims.empty() ? 1 : x.dims.back(); }
int64_t Rows(const RefTensor& x) { return Count(Dims(x.dims.begin(), x.dims.end() - 1)); }

int64_t Axis(const AttrMap& attrs, size_t rank, int64_t fallback) {
  const int64_t axis = attrs.Int("axis", fallback);
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

double Broadcast(const RefTensor& x, const Dims& at) {
  Dims mine(x.dims.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    mine[i] = x.dims[i] == 1 ? 0 : at[at.size() - mine.size() + i];
  }
  return x.values[Ravel(x.dims, mine)];
}

Dims BroadcastDims(const Dims& a, const Dims& b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

ReferenceFn Binary(double (*f)(double, double)) {
  return [f](RefCall& c) {
    RefTensor y = Zeros(BroadcastDims(c.in[0].dims, c.in[1].dims), c.in[0].dtype);
    for (int64_t i = 0; i < y.count(); ++i) {
      const Dims at = Unravel(y.dims, i);
      y.values[i] = f(Broadcast(c.in[0], at), Broadcast(c.in[1], at));
    }
    return Tensors{y};
  };
}

double Plus(double a, double b) { return a + b; }
double Larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double Smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

double LogSumExp(const double* x, int64_t n) {
  const double top = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

void Product(const double* a, bool ta, const double* b, bool tb, double* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p)
        c[i * n + j] += (ta ? a[p * m + i] : a[i * k + p]) * (tb ? b[j * k + p] : b[p * n + j]);
    }
  }
}

AttrMap Axes(Dims axes, bool keepdims) { return {{"axes", std::move(axes)}, {"keepdims", keepdims}}; }

RefTensor Scalar(double value, DType dtype) {
  RefTensor x = Zeros({}, dtype);
  x.values[0] = value;
  return x;
}

RefTensor Grid(double low, double high, int64_t count) {
  RefTensor x = Zeros({count});
  for (int64_t i = 0; i < count; ++i) {
    x.values[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(count - 1);
  }
  return x;
}

RefTensor Few(Random& r, const Dims& dims) {
  RefTensor x = Of(DType::kFloat32, r.Integers(dims, 4));
  for (double& value : x.values) value -= 2;
  return x;
}

void ForRowsOf(const std::function<void(const Dims& rows, int64_t c, const Dims& x)>& f) {
  for (const Dims& rows : {Dims{5}, Dims{2, 3}, Dims{}, Dims{0}, Dims{700}}) {
    for (const int64_t c : {1, 16, 37, 128}) {
      Dims x = rows;
      x.push_back(c);
      f(rows, c, x);
    }
  }
}

RefTensor With(RefTensor x, const std::vector<double>& values) {
  CHECK_LE(2 * values.size(), x.values.size() + 1);
  for (size_t i = 0; i < values.size(); ++i) x.values[2 * i] = values[i];
  return x;
}

RefTensor Of(DType dtype, RefTensor x) {
  x.dtype = dtype;
  return x;
}

OpCase InPlace(OpCase c, int input) {
  c.in_place = input;
  return c;
}

}  // namespace oneflow::testing
