#include "test/support/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "kernels/random.h"

namespace oneflow::testing {
namespace {

using Dims = std::vector<int64_t>;
using Tensors = std::vector<RefTensor>;

struct Call {
  const AttrMap& attrs;
  Tensors& in;
  const RefContext& context;
};

int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

// The coordinates of row-major element `index`, and back.
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

// The element of `x` that position `at` of a result of broadcasting reads: dimensions are aligned at the end, sizes of 1 repeat.
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

using Unary = double (*)(double);
std::function<Tensors(Call&)> Elementwise(std::function<double(double, const AttrMap&)> f) {
  return [f](Call& c) {
    RefTensor y = c.in[0];
    for (double& v : y.values) v = f(v, c.attrs);
    return Tensors{y};
  };
}
std::function<Tensors(Call&)> Plain(Unary f) {
  return Elementwise([f](double x, const AttrMap&) { return f(x); });
}

std::function<Tensors(Call&)> Binary(double (*f)(double, double)) {
  return [f](Call& c) {
    RefTensor y = Zeros(BroadcastDims(c.in[0].dims, c.in[1].dims), c.in[0].dtype);
    for (int64_t i = 0; i < y.count(); ++i) {
      const Dims at = Unravel(y.dims, i);
      y.values[i] = f(Broadcast(c.in[0], at), Broadcast(c.in[1], at));
    }
    return Tensors{y};
  };
}

double Phi(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double GeluSlope(double x) { return Phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

Tensors AddN(Call& c) {
  RefTensor y = c.in[0];
  for (size_t i = 1; i < c.in.size(); ++i) {
    for (int64_t j = 0; j < y.count(); ++j) y.values[j] += c.in[i].values[j];
  }
  return {y};
}

Tensors Cast(Call& c) {
  RefTensor y = c.in[0];
  ParseDType(c.attrs.String("dtype").c_str(), &y.dtype);
  for (double& v : y.values) {
    if (y.dtype == DType::kBool) v = v != 0;
    if (y.dtype == DType::kInt32 || y.dtype == DType::kInt64 || y.dtype == DType::kUInt8) v = std::trunc(v);
  }
  return {y};
}

int64_t Axis(const AttrMap& attrs, size_t rank, int64_t fallback = 0) {
  const int64_t axis = attrs.Int("axis", fallback);
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

Tensors BiasAdd(Call& c) {
  RefTensor y = c.in[0];
  const int64_t axis = Axis(c.attrs, y.dims.size(), -1);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] += c.in[1].values[Unravel(y.dims, i)[axis]];
  return {y};
}

Tensors BiasGrad(Call& c) {
  const RefTensor& dy = c.in[0];
  const int64_t axis = Axis(c.attrs, dy.dims.size(), -1);
  RefTensor db = Zeros({dy.dims[axis]}, dy.dtype);
  for (int64_t i = 0; i < dy.count(); ++i) db.values[Unravel(dy.dims, i)[axis]] += dy.values[i];
  return {db};
}

Tensors Dropout(Call& c) {
  RefTensor y = c.in[0];
  const double rate = c.attrs.Double("rate");
  const uint64_t key = RandomKey(c.attrs.Int("seed"), c.attrs.Int("key"));
  for (int64_t i = 0; i < y.count(); ++i) {
    const float u = ToUniform(RandomBits(key, c.context.step, c.context.micro_batch * y.count() + i));
    y.values[i] = u >= static_cast<float>(rate) ? y.values[i] / (1 - rate) : 0;
  }
  return {y};
}

// y[kept coordinates] = f over the reduced ones, from `identity`.
RefTensor ReduceAxes(const RefTensor& x, const AttrMap& attrs, double identity, double (*f)(double, double)) {
  std::vector<bool> reduced(x.dims.size(), false);
  for (const int64_t axis : attrs.Ints("axes")) reduced[axis < 0 ? axis + x.dims.size() : axis] = true;
  Dims keep, dims;  // sizes with 1 for what is reduced, sizes as they are returned
  for (size_t i = 0; i < x.dims.size(); ++i) {
    keep.push_back(reduced[i] ? 1 : x.dims[i]);
    if (!reduced[i] || attrs.Bool("keepdims")) dims.push_back(keep.back());
  }
  RefTensor y = Zeros(dims, x.dtype);
  std::fill(y.values.begin(), y.values.end(), identity);
  for (int64_t i = 0; i < x.count(); ++i) {
    Dims at = Unravel(x.dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] = reduced[d] ? 0 : at[d];
    double& target = y.values[Ravel(keep, at)];
    target = f(target, x.values[i]);
  }
  return y;
}
double Plus(double a, double b) { return a + b; }
double Larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double Smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }
double Heaviside(double a, double b) { return a == b ? 0.5 : !(a < b); }
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// For every element of `x` the index of the one of its reduction over `axes` that it belongs to.
std::vector<int64_t> ReducedIndices(const Dims& dims, const AttrMap& attrs) {
  Dims kept = dims;
  for (const int64_t axis : attrs.Ints("axes")) kept[axis] = 1;
  std::vector<int64_t> indices(Count(dims));
  for (int64_t i = 0; i < Count(dims); ++i) {
    Dims at = Unravel(dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] = kept[d] == 1 ? 0 : at[d];
    indices[i] = Ravel(kept, at);
  }
  return indices;
}

Tensors ExtremumCount(Call& c) {
  RefTensor n = Zeros(c.in[1].dims);
  const std::vector<int64_t> index = ReducedIndices(c.in[0].dims, c.attrs);
  for (int64_t i = 0; i < c.in[0].count(); ++i) n.values[index[i]] += c.in[0].values[i] == c.in[1].values[index[i]];
  return {n};
}

Tensors ExtremumGrad(Call& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &y = c.in[2], &n = c.in[3];
  RefTensor dx = Zeros(x.dims);
  const std::vector<int64_t> index = ReducedIndices(x.dims, c.attrs);
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.values[i] == y.values[index[i]]) dx.values[i] = dy.values[index[i]] / n.values[index[i]];
  }
  return {dx};
}

Tensors Cumsum(Call& c) {
  RefTensor y = Zeros(c.in[0].dims);
  const int64_t axis = Axis(c.attrs, y.dims.size()), n = y.dims[axis];
  const bool reverse = c.attrs.Bool("reverse"), exclusive = c.attrs.Bool("exclusive");
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t here = Unravel(y.dims, i)[axis];
    Dims at = Unravel(y.dims, i);
    for (int64_t j = 0; j < n; ++j) {
      at[axis] = j;
      if ((reverse ? j > here : j < here) || (!exclusive && j == here))
        y.values[i] += c.in[0].values[Ravel(y.dims, at)];
    }
  }
  return {y};
}

Tensors Pad(Call& c) {
  const Dims before = c.attrs.Ints("before"), after = c.attrs.Ints("after");
  Dims dims = c.in[0].dims;
  for (size_t d = 0; d < dims.size(); ++d) dims[d] += before[d] + after[d];
  RefTensor y = Zeros(dims, c.in[0].dtype);
  std::fill(y.values.begin(), y.values.end(), c.attrs.Double("value"));
  Paste(c.in[0], before, &y);
  return {y};
}

Tensors ReduceMean(Call& c) {
  RefTensor y = ReduceAxes(c.in[0], c.attrs, 0, Plus);
  for (double& v : y.values) v /= static_cast<double>(c.in[0].count()) / static_cast<double>(y.count());
  return {y};
}

Tensors SumTo(Call& c) {
  const RefTensor& x = c.in[0];
  RefTensor y = Zeros(c.attrs.Ints("shape"), x.dtype);
  for (int64_t i = 0; i < x.count(); ++i) {
    const Dims at = Unravel(x.dims, i);
    Dims mine(y.dims.size());
    for (size_t d = 0; d < mine.size(); ++d) mine[d] = y.dims[d] == 1 ? 0 : at[at.size() - mine.size() + d];
    y.values[Ravel(y.dims, mine)] += x.values[i];
  }
  return {y};
}

Tensors BroadcastTo(Call& c) {
  RefTensor y = Zeros(c.attrs.Ints("shape"), c.in[0].dtype);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] = Broadcast(c.in[0], Unravel(y.dims, i));
  return {y};
}

Tensors SquareSum(Call& c) {
  RefTensor y = Zeros({});
  for (const double v : c.in[0].values) y.values[0] += v * v;
  return {y};
}

Tensors Transpose(Call& c) {
  const RefTensor& x = c.in[0];
  const Dims perm = c.attrs.Ints("perm");
  Dims dims(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) dims[i] = x.dims[perm[i]];
  RefTensor y = Zeros(dims, x.dtype);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(dims, i);
    Dims from(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) from[perm[d]] = at[d];
    y.values[i] = x.values[Ravel(x.dims, from)];
  }
  return {y};
}

Tensors Slice(Call& c) {
  Dims start(c.in[0].dims.size(), 0), extent = c.in[0].dims;
  const int64_t axis = Axis(c.attrs, extent.size());
  start[axis] = c.attrs.Int("start");
  extent[axis] = c.attrs.Int("size");
  return {Cut(c.in[0], start, extent)};
}

Tensors SliceGrad(Call& c) {
  Dims start(c.in[0].dims.size(), 0), dims = c.in[0].dims;
  const int64_t axis = Axis(c.attrs, dims.size());
  start[axis] = c.attrs.Int("start");
  dims[axis] = c.attrs.Int("size");
  RefTensor dx = Zeros(dims, c.in[0].dtype);
  Paste(c.in[0], start, &dx);
  return {dx};
}

Tensors Concat(Call& c) {
  Dims dims = c.in[0].dims, start(dims.size(), 0);
  const int64_t axis = Axis(c.attrs, dims.size());
  dims[axis] = 0;
  for (const RefTensor& x : c.in) dims[axis] += x.dims[axis];
  RefTensor y = Zeros(dims, c.in[0].dtype);
  for (const RefTensor& x : c.in) {
    Paste(x, start, &y);
    start[axis] += x.dims[axis];
  }
  return {y};
}

// c[m,n] += op(a) op(b) at element offsets into the operands.
void Product(const double* a, bool ta, const double* b, bool tb, double* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p)
        c[i * n + j] += (ta ? a[p * m + i] : a[i * k + p]) * (tb ? b[j * k + p] : b[p * n + j]);
    }
  }
}

int64_t Columns(const RefTensor& x) { return x.dims.empty() ? 1 : x.dims.back(); }
int64_t Rows(const RefTensor& x) { return Count(Dims(x.dims.begin(), x.dims.end() - 1)); }

Tensors Matmul(Call& c) {
  const bool tb = c.attrs.Bool("transpose_b");
  Dims dims = c.in[0].dims;
  dims.back() = c.in[1].dims[tb ? 0 : 1];
  RefTensor y = Zeros(dims);
  Product(c.in[0].values.data(), false, c.in[1].values.data(), tb, y.values.data(), Rows(c.in[0]), dims.back(),
          Columns(c.in[0]));
  return {y};
}

Tensors MatmulWgrad(Call& c) {
  const RefTensor& x = c.in[c.attrs.Bool("transpose") ? 1 : 0];
  const RefTensor& dy = c.in[c.attrs.Bool("transpose") ? 0 : 1];
  RefTensor dw = Zeros({Columns(x), Columns(dy)});
  Product(x.values.data(), true, dy.values.data(), false, dw.values.data(), Columns(x), Columns(dy), Rows(x));
  return {dw};
}

Tensors BatchMatmul(Call& c) {
  const bool ta = c.attrs.Bool("transpose_a"), tb = c.attrs.Bool("transpose_b");
  const Dims &a = c.in[0].dims, &b = c.in[1].dims;
  const int64_t m = a[a.size() - (ta ? 1 : 2)], k = a[a.size() - (ta ? 2 : 1)], n = b[b.size() - (tb ? 2 : 1)];
  const Dims a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const Dims batch = BroadcastDims(a_batch, b_batch);
  // Which matrix a batch uses: broadcast the matrices' numbers.
  const auto numbers = [](const Dims& dims) {
    RefTensor x = Zeros(dims);
    for (int64_t i = 0; i < x.count(); ++i) x.values[i] = static_cast<double>(i);
    return x;
  };
  const RefTensor a_number = numbers(a_batch), b_number = numbers(b_batch);
  Dims dims = batch;
  dims.insert(dims.end(), {m, n});
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < Count(batch) && m * n > 0; ++i) {
    const Dims at = Unravel(batch, i);
    Product(c.in[0].values.data() + static_cast<int64_t>(Broadcast(a_number, at)) * m * k, ta,
            c.in[1].values.data() + static_cast<int64_t>(Broadcast(b_number, at)) * k * n, tb,
            y.values.data() + i * m * n, m, n, k);
  }
  return {y};
}

double LogSumExp(const double* x, int64_t n) {
  const double top = *std::max_element(x, x + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

Tensors Softmax(Call& c) {
  RefTensor y = c.in[0];
  const int64_t n = Columns(y);
  for (int64_t row = 0; n > 0 && row < y.count() / n; ++row) {
    const double lse = LogSumExp(&c.in[0].values[row * n], n);
    for (int64_t i = row * n; i < (row + 1) * n; ++i) y.values[i] = std::exp(y.values[i] - lse);
  }
  return {y};
}

Tensors SoftmaxGrad(Call& c) {
  RefTensor dx = c.in[0];
  const RefTensor &dy = c.in[0], &y = c.in[1];
  const int64_t n = Columns(y);
  for (int64_t i = 0; i < dx.count(); ++i) {
    double dot = 0;
    for (int64_t j = i / n * n; j < (i / n + 1) * n; ++j) dot += dy.values[j] * y.values[j];
    dx.values[i] = y.values[i] * (dy.values[i] - dot);
  }
  return {dx};
}

Tensors LayerNorm(Call& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x);
  RefTensor y = x, mean = Zeros(Dims(x.dims.begin(), x.dims.end() - 1)), rstd = mean;
  for (int64_t row = 0; row < mean.count(); ++row) {
    double sum = 0, squares = 0;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) sum += x.values[i];
    mean.values[row] = sum / n;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) squares += std::pow(x.values[i] - mean.values[row], 2);
    rstd.values[row] = 1 / std::sqrt(squares / n + c.attrs.Double("epsilon", 1e-5));
    for (int64_t i = 0; i < n; ++i) {
      const double h = (x.values[row * n + i] - mean.values[row]) * rstd.values[row];
      y.values[row * n + i] = h * c.in[1].values[i] + c.in[2].values[i];
    }
  }
  return {y, mean, rstd};
}

Tensors LayerNormGrad(Call& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &gamma = c.in[2], &mean = c.in[3], &rstd = c.in[4];
  const int64_t n = Columns(x);
  RefTensor dx = Zeros(x.dims), dgamma = Zeros({n}), dbeta = Zeros({n});
  for (int64_t row = 0; row < mean.count(); ++row) {
    double sum_g = 0, sum_gh = 0;
    const auto h = [&](int64_t i) { return (x.values[row * n + i] - mean.values[row]) * rstd.values[row]; };
    for (int64_t i = 0; i < n; ++i) {
      const double d = dy.values[row * n + i];
      sum_g += d * gamma.values[i];
      sum_gh += d * gamma.values[i] * h(i);
      dgamma.values[i] += d * h(i);
      dbeta.values[i] += d;
    }
    for (int64_t i = 0; i < n; ++i) {
      dx.values[row * n + i] =
          rstd.values[row] * (dy.values[row * n + i] * gamma.values[i] - sum_g / n - h(i) * sum_gh / n);
    }
  }
  return {dx, dgamma, dbeta};
}

Tensors RmsNorm(Call& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x);
  RefTensor y = x, rstd = Zeros(Dims(x.dims.begin(), x.dims.end() - 1));
  for (int64_t row = 0; row < rstd.count(); ++row) {
    double squares = 0;
    for (int64_t i = row * n; i < (row + 1) * n; ++i) squares += x.values[i] * x.values[i];
    rstd.values[row] = 1 / std::sqrt(squares / n + c.attrs.Double("epsilon"));
    for (int64_t i = 0; i < n; ++i) y.values[row * n + i] *= rstd.values[row] * c.in[1].values[i];
  }
  return {y, rstd};
}

Tensors RmsNormGrad(Call& c) {
  const RefTensor &dy = c.in[0], &x = c.in[1], &gamma = c.in[2], &rstd = c.in[3];
  const int64_t n = Columns(x);
  RefTensor dx = Zeros(x.dims), dgamma = Zeros({n});
  for (int64_t row = 0; row < rstd.count(); ++row) {
    const double r = rstd.values[row];
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = dy.values[row * n + i], h = x.values[row * n + i] * r;
      sum += d * gamma.values[i] * h;
      dgamma.values[i] += d * h;
    }
    for (int64_t i = row * n; i < (row + 1) * n; ++i) {
      dx.values[i] = r * (dy.values[i] * gamma.values[i % n] - x.values[i] * r * sum / n);
    }
  }
  return {dx, dgamma};
}

// Which channel each element of [n,c,..] belongs to.
std::vector<int64_t> Channels(const RefTensor& x) {
  std::vector<int64_t> channels(x.values.size());
  for (int64_t i = 0; i < x.count(); ++i) channels[i] = Unravel(x.dims, i)[1];
  return channels;
}

Tensors ChannelVariance(Call& c) {
  const RefTensor &x = c.in[0], &mean = c.in[1];
  const std::vector<int64_t> channel = Channels(x);
  RefTensor var = Zeros(mean.dims);
  for (int64_t i = 0; i < x.count(); ++i) {
    var.values[channel[i]] += std::pow(x.values[i] - mean.values[channel[i]], 2);
  }
  for (double& v : var.values) v /= static_cast<double>(x.count()) / static_cast<double>(var.count());
  return {var};
}

double Normalized(const RefTensor& x, const RefTensor& mean, const RefTensor& var, const AttrMap& attrs, int64_t i,
                  int64_t channel) {
  return (x.values[i] - mean.values[channel]) / std::sqrt(var.values[channel] + attrs.Double("epsilon"));
}

Tensors BatchNorm(Call& c) {
  const std::vector<int64_t> channel = Channels(c.in[0]);
  RefTensor y = c.in[0];
  for (int64_t i = 0; i < y.count(); ++i) {
    const double h = Normalized(c.in[0], c.in[3], c.in[4], c.attrs, i, channel[i]);
    y.values[i] = h * c.in[1].values[channel[i]] + c.in[2].values[channel[i]];
  }
  return {y};
}

Tensors BatchNormSums(Call& c) {
  const std::vector<int64_t> channel = Channels(c.in[0]);
  RefTensor dgamma = Zeros(c.in[2].dims), dbeta = dgamma;
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    dgamma.values[channel[i]] += c.in[0].values[i] * Normalized(c.in[1], c.in[2], c.in[3], c.attrs, i, channel[i]);
    dbeta.values[channel[i]] += c.in[0].values[i];
  }
  return {dgamma, dbeta};
}

Tensors BatchNormDx(Call& c) {
  const RefTensor &dy = c.in[0], &gamma = c.in[2], &var = c.in[4], &dgamma = c.in[5], &dbeta = c.in[6];
  const std::vector<int64_t> channel = Channels(dy);
  const double n = static_cast<double>(dy.count()) / static_cast<double>(gamma.count());
  RefTensor dx = Zeros(dy.dims);
  for (int64_t i = 0; i < dx.count(); ++i) {
    const int64_t k = channel[i];
    const double h = Normalized(c.in[1], c.in[3], var, c.attrs, i, k);
    dx.values[i] = gamma.values[k] / std::sqrt(var.values[k] + c.attrs.Double("epsilon")) *
                   (dy.values[i] - dbeta.values[k] / n - h * dgamma.values[k] / n);
  }
  return {dx};
}

Tensors Embedding(Call& c) {
  const int64_t h = c.in[0].dims[1];
  Dims dims = c.in[1].dims;
  dims.push_back(h);
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < y.count(); ++i)
    y.values[i] = c.in[0].values[static_cast<int64_t>(c.in[1].values[i / h]) * h + i % h];
  return {y};
}

Tensors EmbeddingGrad(Call& c) {
  const int64_t h = Columns(c.in[0]);
  RefTensor dw = Zeros({c.attrs.Int("rows"), h});
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    dw.values[static_cast<int64_t>(c.in[1].values[i / h]) * h + i % h] += c.in[0].values[i];
  }
  return {dw};
}

// The geometry of attention and the index of an element of a head.
struct Heads {
  Heads(const RefTensor& q, const AttrMap& attrs)
      : b(q.dims[0]), t(q.dims[1]), c(q.dims[2]), n(attrs.Int("heads")), d(c / n), causal(attrs.Bool("causal")) {}
  int64_t At(int64_t batch, int64_t head, int64_t token, int64_t i) const {
    return (batch * t + token) * c + head * d + i;
  }
  double Dot(const RefTensor& x, int64_t i, const RefTensor& y, int64_t j, int64_t batch, int64_t head) const {
    double dot = 0;
    for (int64_t k = 0; k < d; ++k) dot += x.values[At(batch, head, i, k)] * y.values[At(batch, head, j, k)];
    return dot;
  }
  // body(batch, head, query, number of visible keys).
  void ForEach(const std::function<void(int64_t, int64_t, int64_t, int64_t)>& body) const {
    for (int64_t batch = 0; batch < b; ++batch) {
      for (int64_t head = 0; head < n; ++head) {
        for (int64_t i = 0; i < t; ++i) body(batch, head, i, causal ? i + 1 : t);
      }
    }
  }
  int64_t b, t, c, n, d;
  bool causal;
};

Tensors Attention(Call& c) {
  const RefTensor &q = c.in[0], &k = c.in[1], &v = c.in[2];
  const Heads h(q, c.attrs);
  RefTensor out = Zeros(q.dims), lse = Zeros({h.b, h.n, h.t});
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t keys) {
    std::vector<double> s(keys);
    for (int64_t j = 0; j < keys; ++j) s[j] = h.Dot(q, i, k, j, batch, head) / std::sqrt(static_cast<double>(h.d));
    const double total = LogSumExp(s.data(), keys);
    lse.values[(batch * h.n + head) * h.t + i] = total;
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t x = 0; x < h.d; ++x)
        out.values[h.At(batch, head, i, x)] += std::exp(s[j] - total) * v.values[h.At(batch, head, j, x)];
    }
  });
  return {out, lse};
}

Tensors AttentionGrad(Call& c) {
  const RefTensor &dout = c.in[0], &q = c.in[1], &k = c.in[2], &v = c.in[3], &out = c.in[4], &lse = c.in[5];
  const Heads h(q, c.attrs);
  const double scale = 1 / std::sqrt(static_cast<double>(h.d));
  RefTensor dq = Zeros(q.dims), dk = dq, dv = dq;
  h.ForEach([&](int64_t batch, int64_t head, int64_t i, int64_t keys) {
    const double mean = h.Dot(dout, i, out, i, batch, head);
    for (int64_t j = 0; j < keys; ++j) {
      const double p = std::exp(h.Dot(q, i, k, j, batch, head) * scale - lse.values[(batch * h.n + head) * h.t + i]);
      const double ds = p * (h.Dot(dout, i, v, j, batch, head) - mean) * scale;
      for (int64_t x = 0; x < h.d; ++x) {
        const int64_t at_i = h.At(batch, head, i, x), at_j = h.At(batch, head, j, x);
        dv.values[at_j] += p * dout.values[at_i];
        dk.values[at_j] += ds * q.values[at_i];
        dq.values[at_i] += ds * k.values[at_j];
      }
    }
  });
  return {dq, dk, dv};
}

Tensors SoftmaxCrossEntropy(Call& c) {
  const int64_t n = Columns(c.in[0]);
  RefTensor loss = Zeros(c.in[1].dims), lse = loss;
  for (int64_t row = 0; row < loss.count(); ++row) {
    lse.values[row] = LogSumExp(&c.in[0].values[row * n], n);
    loss.values[row] = lse.values[row] - c.in[0].values[row * n + static_cast<int64_t>(c.in[1].values[row])];
  }
  return {loss, lse};
}

Tensors SoftmaxCrossEntropyGrad(Call& c) {
  RefTensor dx = c.in[1];
  const int64_t n = Columns(dx);
  for (int64_t i = 0; i < dx.count(); ++i) {
    const double hit = i % n == static_cast<int64_t>(c.in[2].values[i / n]) ? 1 : 0;
    dx.values[i] = c.in[0].values[i / n] * (std::exp(dx.values[i] - c.in[3].values[i / n]) - hit);
  }
  return {dx};
}

Tensors Top1Correct(Call& c) {
  const int64_t n = Columns(c.in[0]);
  RefTensor y = Zeros(c.in[1].dims);
  for (int64_t row = 0; row < y.count(); ++row) {
    const double* const x = &c.in[0].values[row * n];
    y.values[row] = std::max_element(x, x + n) - x == static_cast<int64_t>(c.in[1].values[row]) ? 1 : 0;
  }
  return {y};
}

Tensors ExpSum(Call& c) {
  RefTensor s = Zeros(c.in[1].dims);
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = 0; i < c.in[0].count(); ++i) s.values[i / n] += std::exp(c.in[0].values[i] - c.in[1].values[i / n]);
  return {s};
}

Tensors SoftmaxSums(Call& c) {
  Tensors x_and_m = {c.in[0], c.in[2]};
  Call sum{c.attrs, x_and_m, c.context};
  RefTensor z = Zeros(c.in[2].dims);
  for (int64_t row = 0; row < z.count(); ++row) {
    const int64_t label = static_cast<int64_t>(c.in[1].values[row]);
    z.values[row] = c.in[0].values[row * Columns(c.in[0]) + label] - c.in[2].values[row];
  }
  return {ExpSum(sum)[0], z};
}

Tensors SoftmaxLoss(Call& c) {
  RefTensor loss = Zeros(c.in[0].dims), lse = loss;
  for (int64_t i = 0; i < loss.count(); ++i) {
    loss.values[i] = std::log(c.in[1].values[i]) - c.in[2].values[i];
    lse.values[i] = c.in[0].values[i] + std::log(c.in[1].values[i]);
  }
  return {loss, lse};
}

Tensors SoftmaxApply(Call& c) {
  RefTensor y = c.in[0];
  const int64_t n = Columns(y);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = std::exp(y.values[i] - c.in[1].values[i / n]) / c.in[2].values[i / n];
  }
  return {y};
}

Tensors RowDot(Call& c) {
  RefTensor d = Zeros(Dims(c.in[0].dims.begin(), c.in[0].dims.end() - 1));
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = 0; i < c.in[0].count(); ++i) d.values[i / n] += c.in[0].values[i] * c.in[1].values[i];
  return {d};
}

Tensors SoftmaxGradApply(Call& c) {
  RefTensor dx = c.in[1];
  const int64_t n = Columns(dx);
  for (int64_t i = 0; i < dx.count(); ++i) dx.values[i] *= c.in[0].values[i] - c.in[2].values[i / n];
  return {dx};
}

Tensors FirstIndex(Call& c) {
  RefTensor index = Zeros(c.in[1].dims, DType::kInt32);
  std::fill(index.values.begin(), index.values.end(), std::numeric_limits<int32_t>::max());
  const int64_t n = Columns(c.in[0]);
  for (int64_t i = c.in[0].count(); i-- > 0;) {
    if (c.in[0].values[i] == c.in[1].values[i / n]) index.values[i / n] = static_cast<double>(i % n);
  }
  return {index};
}

Tensors Equal(Call& c) {
  RefTensor y = Zeros(c.in[0].dims);
  for (int64_t i = 0; i < y.count(); ++i) y.values[i] = c.in[0].values[i] == c.in[1].values[i] ? 1 : 0;
  return {y};
}

// Where element `at` of what is gathered from a tensor along `axis` comes from.
Dims GatheredFrom(const Dims& at, int64_t axis, const RefTensor& ids) {
  const auto first = at.begin() + axis, last = first + static_cast<int64_t>(ids.dims.size());
  Dims from(at.begin(), first);
  from.push_back(static_cast<int64_t>(ids.values[Ravel(ids.dims, Dims(first, last))]));
  from.insert(from.end(), last, at.end());
  return from;
}

Tensors Gather(Call& c) {
  const RefTensor &x = c.in[0], &ids = c.in[1];
  const int64_t axis = c.attrs.Int("axis");
  Dims dims = x.dims;
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, ids.dims.begin(), ids.dims.end());
  RefTensor y = Zeros(dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = x.values[Ravel(x.dims, GatheredFrom(Unravel(dims, i), axis, ids))];
  }
  return {y};
}

Tensors ScatterAdd(Call& c) {
  const RefTensor &updates = c.in[0], &ids = c.in[1];
  const int64_t axis = c.attrs.Int("axis");
  Dims dims = updates.dims;
  dims.erase(dims.begin() + axis, dims.begin() + axis + static_cast<int64_t>(ids.dims.size()));
  dims.insert(dims.begin() + axis, c.attrs.Int("size"));
  RefTensor x = Zeros(dims);
  for (int64_t i = 0; i < updates.count(); ++i) {
    x.values[Ravel(dims, GatheredFrom(Unravel(updates.dims, i), axis, ids))] += updates.values[i];
  }
  return {x};
}

Tensors TakeAlong(Call& c) {
  const int64_t n = Columns(c.in[0]), k = Columns(c.in[1]);
  RefTensor y = Zeros(c.in[1].dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    y.values[i] = c.in[0].values[i / k * n + static_cast<int64_t>(c.in[1].values[i])];
  }
  return {y};
}

Tensors PutAlong(Call& c) {
  const int64_t n = c.attrs.Int("columns"), k = Columns(c.in[0]);
  Dims dims = c.in[0].dims;
  dims.back() = n;
  RefTensor x = Zeros(dims);
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    x.values[i / k * n + static_cast<int64_t>(c.in[1].values[i])] += c.in[0].values[i];
  }
  return {x};
}

Tensors TopK(Call& c) {
  const RefTensor& x = c.in[0];
  const int64_t n = Columns(x), k = c.attrs.Int("k");
  Dims dims = x.dims;
  dims.back() = k;
  RefTensor values = Zeros(dims), indices = Zeros(dims, DType::kInt32);
  for (int64_t row = 0; k > 0 && row < values.count() / k; ++row) {
    Dims order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x.values[row * n + a] > x.values[row * n + b]; });
    for (int64_t j = 0; j < k; ++j) {
      values.values[row * k + j] = x.values[row * n + order[j]];
      indices.values[row * k + j] = static_cast<double>(order[j]);
    }
  }
  return {values, indices};
}

// body(index of x, index of k, index of y) for every product that conv2d sums.
void ForEachTap(const Dims& x, const Dims& k, const Dims& y, const AttrMap& attrs,
                const std::function<void(int64_t, int64_t, int64_t)>& body) {
  const int64_t stride = attrs.Int("stride", 1), padding = attrs.Int("padding");
  for (int64_t i = 0; i < Count(y); ++i) {
    const Dims at = Unravel(y, i);
    for (int64_t tap = 0; tap < x[1] * k[2] * k[3]; ++tap) {
      const Dims inner = Unravel({x[1], k[2], k[3]}, tap);
      const int64_t row = at[2] * stride - padding + inner[1], column = at[3] * stride - padding + inner[2];
      if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
      body(Ravel(x, {at[0], inner[0], row, column}), Ravel(k, {at[1], inner[0], inner[1], inner[2]}), i);
    }
  }
}

Tensors Conv2d(Call& c) {
  const RefTensor &x = c.in[0], &k = c.in[1];
  const int64_t stride = c.attrs.Int("stride", 1), padding = c.attrs.Int("padding");
  RefTensor y = Zeros({x.dims[0], k.dims[0], (x.dims[2] + 2 * padding - k.dims[2]) / stride + 1,
                       (x.dims[3] + 2 * padding - k.dims[3]) / stride + 1});
  ForEachTap(x.dims, k.dims, y.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { y.values[yi] += x.values[xi] * k.values[ki]; });
  return {y};
}

Tensors Conv2dDgrad(Call& c) {
  const RefTensor &dy = c.in[0], &k = c.in[1];
  RefTensor dx = Zeros({dy.dims[0], k.dims[1], c.attrs.Int("height"), c.attrs.Int("width")});
  ForEachTap(dx.dims, k.dims, dy.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { dx.values[xi] += dy.values[yi] * k.values[ki]; });
  return {dx};
}

Tensors Conv2dWgrad(Call& c) {
  const RefTensor &x = c.in[0], &dy = c.in[1];
  RefTensor dk = Zeros({dy.dims[1], x.dims[1], c.attrs.Int("kernel_height"), c.attrs.Int("kernel_width")});
  ForEachTap(x.dims, dk.dims, dy.dims, c.attrs,
             [&](int64_t xi, int64_t ki, int64_t yi) { dk.values[ki] += x.values[xi] * dy.values[yi]; });
  return {dk};
}

Tensors MaxPool2d(Call& c) {
  const RefTensor& x = c.in[0];
  const int64_t kernel = c.attrs.Int("kernel"), stride = c.attrs.Int("stride", kernel), width = x.dims[3];
  RefTensor y = Zeros({x.dims[0], x.dims[1], (x.dims[2] - kernel) / stride + 1, (width - kernel) / stride + 1});
  RefTensor index = Zeros(y.dims, DType::kInt32);
  for (int64_t i = 0; i < y.count(); ++i) {
    const Dims at = Unravel(y.dims, i);
    y.values[i] = -std::numeric_limits<double>::infinity();
    for (int64_t row = at[2] * stride; row < at[2] * stride + kernel; ++row) {
      for (int64_t column = at[3] * stride; column < at[3] * stride + kernel; ++column) {
        const double v = x.values[Ravel(x.dims, {at[0], at[1], row, column})];
        if (v > y.values[i]) {
          y.values[i] = v;
          index.values[i] = static_cast<double>(row * width + column);
        }
      }
    }
  }
  return {y, index};
}

Tensors MaxPool2dGrad(Call& c) {
  const RefTensor& dy = c.in[0];
  const int64_t height = c.attrs.Int("height"), width = c.attrs.Int("width");
  RefTensor dx = Zeros({dy.dims[0], dy.dims[1], height, width});
  const int64_t outputs = dy.dims[2] * dy.dims[3];
  for (int64_t i = 0; i < dy.count(); ++i) {
    dx.values[i / outputs * height * width + static_cast<int64_t>(c.in[1].values[i])] += dy.values[i];
  }
  return {dx};
}

Tensors ClipScale(Call& c) {
  const double norm = std::sqrt(c.in[0].values[0]), max_norm = c.attrs.Double("max_norm");
  RefTensor scale = Zeros({}), result = Zeros({});
  scale.values[0] = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  result.values[0] = norm;
  return {scale, result};
}

Tensors LrSchedule(Call& c) {
  const double step = c.in[0].values[0], base = c.attrs.Double("base"), floor = base * c.attrs.Double("min_ratio");
  const double warmup = c.attrs.Double("warmup"), total = c.attrs.Double("total");
  const std::string kind = c.attrs.String("kind");
  const double progress = step >= total ? 1 : (step - warmup) / (total - warmup);
  RefTensor lr = Zeros({});
  lr.values[0] = step < warmup        ? base * (step + 1) / warmup
                 : kind == "constant" ? base
                 : kind == "linear"   ? base + (floor - base) * progress
                                      : floor + (base - floor) * (1 + std::cos(M_PI * progress)) / 2;
  return {lr};
}

Tensors AdamwUpdate(Call& c) {
  const AttrMap& a = c.attrs;
  const double b1 = a.Double("beta1"), b2 = a.Double("beta2"), lr = c.in[4].values[0], t = c.in[6].values[0] + 1;
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    double &w = c.in[0].values[i], &m = c.in[1].values[i], &v = c.in[2].values[i];
    const double g = c.in[3].values[i] * c.in[5].values[0];
    w -= lr * a.Double("weight_decay") * w;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = m / (1 - std::pow(b1, t)), v_hat = v / (1 - std::pow(b2, t));
    w -= lr * m_hat / (std::sqrt(v_hat) + a.Double("epsilon"));
  }
  return {};
}

Tensors SgdUpdate(Call& c) {
  const double momentum = c.attrs.Double("momentum"), decay = c.attrs.Double("weight_decay");
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    double &w = c.in[0].values[i], &u = c.in[1].values[i];
    const double g = c.in[2].values[i] * c.in[4].values[0] + decay * w;
    u = momentum * u + g;
    w -= c.in[3].values[0] * (c.attrs.Bool("nesterov") ? g + momentum * u : u);
  }
  return {};
}

Tensors EmaUpdate(Call& c) {
  const double decay = c.attrs.Double("decay");
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    c.in[0].values[i] = decay * c.in[0].values[i] + (1 - decay) * c.in[1].values[i];
  }
  return {};
}

Tensors SampleToken(Call& c) {
  const int64_t t = c.in[0].dims[1], v = c.in[0].dims[2];
  const double* const x = &c.in[0].values[(std::min(static_cast<int64_t>(c.in[1].values[0]), t) - 1) * v];
  RefTensor id = Zeros({}, DType::kInt32);
  const double temperature = c.attrs.Double("temperature");
  if (temperature == 0) {
    id.values[0] = static_cast<double>(std::max_element(x, x + v) - x);
    return {id};
  }
  std::vector<double> cumulative(v);
  const double top = *std::max_element(x, x + v);
  double total = 0;
  for (int64_t i = 0; i < v; ++i) cumulative[i] = total += std::exp((x[i] - top) / temperature);
  const uint64_t key = RandomKey(c.attrs.Int("seed"), c.attrs.Int("key"));
  const double u = ToUniform(RandomBits(key, c.context.step, c.context.micro_batch)) * total;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u);
  id.values[0] = static_cast<double>(std::min<int64_t>(found - cumulative.begin(), v - 1));
  return {id};
}

Tensors AppendToken(Call& c) {
  std::vector<double>& tokens = c.in[0].values;
  double& length = c.in[1].values[0];
  if (length == static_cast<double>(tokens.size())) {
    tokens.erase(tokens.begin());
    tokens.push_back(0);
    length -= 1;
  }
  tokens[static_cast<size_t>(length)] = c.in[2].values[0];
  length += 1;
  return {};
}

// The bits of an element as its dtype holds it.
uint64_t BitsOf(double value, DType dtype) {
  const auto single = [](float x) { return std::bit_cast<uint32_t>(x); };
  switch (dtype) {
    case DType::kFloat32:
      return single(static_cast<float>(value));
    case DType::kBFloat16:
      return single(static_cast<float>(value)) >> 16;
    case DType::kFloat16:
      return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
    case DType::kInt32:
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

// One number per element of the output, the same: the sum of all elements' mixed bits.
Tensors ReplicaDigest(Call& c) {
  uint32_t digest = 0;
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    uint64_t h = BitsOf(c.in[0].values[i], c.in[0].dtype) + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(i + 1);
    for (const uint64_t factor : {0xFF51AFD7ED558CCDull, 0xC4CEB9FE1A85EC53ull}) h = (h ^ (h >> 33)) * factor;
    digest += static_cast<uint32_t>(h ^ (h >> 33));
  }
  RefTensor d = Zeros(c.attrs.Ints("shape"), DType::kInt32);
  for (double& value : d.values) value = static_cast<int32_t>(digest);
  return {d};
}

const std::map<std::string, std::function<Tensors(Call&)>>& Table() {
  static const auto* const table = new std::map<std::string, std::function<Tensors(Call&)>>{
      {"constant",
       [](Call& c) {
         RefTensor x = Zeros(c.attrs.Ints("shape"));
         ParseDType(c.attrs.String("dtype").c_str(), &x.dtype);
         std::fill(x.values.begin(), x.values.end(), c.attrs.Double("value"));
         return Tensors{x};
       }},
      {"to", [](Call& c) { return Tensors{c.in[0]}; }},
      {"accumulate", [](Call& c) { return Tensors{c.in[0]}; }},
      {"assign",
       [](Call& c) {
         c.in[0].values = c.in[1].values;
         return Tensors{};
       }},
      {"increment",
       [](Call& c) {
         for (double& v : c.in[0].values) v += 1;
         return Tensors{};
       }},
      {"add", Binary(Plus)},
      {"sub", Binary([](double a, double b) { return a - b; })},
      {"mul", Binary([](double a, double b) { return a * b; })},
      {"div", Binary([](double a, double b) { return a / b; })},
      {"maximum", Binary(Larger)},
      {"minimum", Binary(Smaller)},
      {"heaviside", Binary(Heaviside)},
      {"add_n", AddN},
      {"scale", Elementwise([](double x, const AttrMap& attrs) { return attrs.Double("alpha") * x; })},
      {"add_scalar", Elementwise([](double x, const AttrMap& attrs) { return attrs.Double("alpha") + x; })},
      {"neg", Plain([](double x) { return -x; })},
      {"exp", Plain([](double x) { return std::exp(x); })},
      {"log", Plain([](double x) { return std::log(x); })},
      {"sqrt", Plain([](double x) { return std::sqrt(x); })},
      {"rsqrt", Plain([](double x) { return 1 / std::sqrt(x); })},
      {"square", Plain([](double x) { return x * x; })},
      {"tanh", Plain([](double x) { return std::tanh(x); })},
      {"sigmoid", Plain([](double x) { return 1 / (1 + std::exp(-x)); })},
      {"relu", Plain([](double x) { return std::max(x, 0.0); })},
      {"gelu", Plain([](double x) { return x * Phi(x); })},
      {"relu_grad", Binary([](double dy, double y) { return y <= 0 ? 0 : dy; })},
      {"gelu_grad", Binary([](double dy, double x) { return dy * GeluSlope(x); })},
      {"cast", Cast},
      {"bias_add", BiasAdd},
      {"bias_grad", BiasGrad},
      {"dropout", Dropout},
      {"reduce_sum", [](Call& c) { return Tensors{ReduceAxes(c.in[0], c.attrs, 0, Plus)}; }},
      {"reduce_mean", ReduceMean},
      {"reduce_max",
       [](Call& c) { return Tensors{ReduceAxes(c.in[0], c.attrs, -std::numeric_limits<double>::infinity(), Larger)}; }},
      {"reduce_min", [](Call& c) { return Tensors{ReduceAxes(c.in[0], c.attrs, kInfinity, Smaller)}; }},
      {"extremum_count", ExtremumCount},
      {"extremum_grad", ExtremumGrad},
      {"cumsum", Cumsum},
      {"pad", Pad},
      {"sum_to", SumTo},
      {"broadcast_to", BroadcastTo},
      {"square_sum", SquareSum},
      {"reshape",
       [](Call& c) {
         RefTensor y = c.in[0];
         y.dims = c.attrs.Ints("shape");
         return Tensors{y};
       }},
      {"transpose", Transpose},
      {"slice", Slice},
      {"slice_grad", SliceGrad},
      {"concat", Concat},
      {"matmul", Matmul},
      {"matmul_wgrad", MatmulWgrad},
      {"batch_matmul", BatchMatmul},
      {"softmax", Softmax},
      {"softmax_grad", SoftmaxGrad},
      {"layer_norm", LayerNorm},
      {"layer_norm_grad", LayerNormGrad},
      {"rms_norm", RmsNorm},
      {"rms_norm_grad", RmsNormGrad},
      {"channel_variance", ChannelVariance},
      {"batch_norm", BatchNorm},
      {"batch_norm_sums", BatchNormSums},
      {"batch_norm_dx", BatchNormDx},
      {"embedding", Embedding},
      {"embedding_grad", EmbeddingGrad},
      {"attention", Attention},
      {"attention_grad", AttentionGrad},
      {"softmax_cross_entropy", SoftmaxCrossEntropy},
      {"softmax_cross_entropy_grad", SoftmaxCrossEntropyGrad},
      {"top1_correct", Top1Correct},
      {"softmax_sums", SoftmaxSums},
      {"softmax_loss", SoftmaxLoss},
      {"exp_sum", ExpSum},
      {"softmax_apply", SoftmaxApply},
      {"row_dot", RowDot},
      {"softmax_grad_apply", SoftmaxGradApply},
      {"first_index", FirstIndex},
      {"equal", Equal},
      {"gather", Gather},
      {"scatter_add", ScatterAdd},
      {"take_along", TakeAlong},
      {"put_along", PutAlong},
      {"top_k", TopK},
      {"conv2d", Conv2d},
      {"conv2d_dgrad", Conv2dDgrad},
      {"conv2d_wgrad", Conv2dWgrad},
      {"max_pool2d", MaxPool2d},
      {"max_pool2d_grad", MaxPool2dGrad},
      {"clip_scale", ClipScale},
      {"lr_schedule", LrSchedule},
      {"adamw_update", AdamwUpdate},
      {"sgd_update", SgdUpdate},
      {"ema_update", EmaUpdate},
      {"replica_digest", ReplicaDigest},
      {"assert_replicas", [](Call& c) { return Tensors{c.in[0]}; }},
      {"sample_token", SampleToken},
      {"append_token", AppendToken},
  };
  return *table;
}

}  // namespace

RefTensor Zeros(std::vector<int64_t> dims, DType dtype) {
  RefTensor x{std::move(dims), {}, dtype};
  x.values.resize(Count(x.dims));
  return x;
}

RefTensor Cut(const RefTensor& x, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) {
  RefTensor part = Zeros(extent, x.dtype);
  for (int64_t i = 0; i < part.count(); ++i) {
    Dims at = Unravel(extent, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] += start[d];
    part.values[i] = x.values[Ravel(x.dims, at)];
  }
  return part;
}

void Paste(const RefTensor& part, const std::vector<int64_t>& start, RefTensor* x) {
  for (int64_t i = 0; i < part.count(); ++i) {
    Dims at = Unravel(part.dims, i);
    for (size_t d = 0; d < at.size(); ++d) at[d] += start[d];
    x->values[Ravel(x->dims, at)] = part.values[i];
  }
}

absl::StatusOr<std::vector<RefTensor>> Reference(const std::string& op, const AttrMap& attrs,
                                                 std::vector<RefTensor>& inputs, const RefContext& context) {
  const auto it = Table().find(op);
  if (it == Table().end()) return absl::UnimplementedError(absl::StrCat("op '", op, "' has no reference"));
  Call call{attrs, inputs, context};
  return it->second(call);
}

std::vector<std::string> ReferenceOps() {
  std::vector<std::string> names;
  for (const auto& [name, function] : Table()) names.push_back(name);
  return names;
}

}  // namespace oneflow::testing
