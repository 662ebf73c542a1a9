// What the files of this folder are written with: shapes as lists, the shared parts of references, and operands of the
// kinds that cases need again and again.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "test/support/op_facts.h"

namespace oneflow::testing {

using Dims = std::vector<int64_t>;
using OpCases = std::vector<OpCase>;

// --- of references

int64_t Count(const Dims& dims);
// The coordinates of row-major element `index`, and back.
Dims Unravel(const Dims& dims, int64_t index);
int64_t Ravel(const Dims& dims, const Dims& at);

// A tensor seen as rows of its last dimension.
int64_t Columns(const RefTensor& x);
int64_t Rows(const RefTensor& x);

// The attribute `axis`, counted from the front.
int64_t Axis(const AttrMap& attrs, size_t rank, int64_t fallback = 0);

// The element of `x` that position `at` of a result of broadcasting reads: dimensions are aligned at the end, sizes of
// 1 repeat.
double Broadcast(const RefTensor& x, const Dims& at);
Dims BroadcastDims(const Dims& a, const Dims& b);
// f of two operands that broadcast.
ReferenceFn Binary(double (*f)(double, double));

double Plus(double a, double b);
// Of two numbers, or the NaN if there is one.
double Larger(double a, double b);
double Smaller(double a, double b);

double LogSumExp(const double* x, int64_t n);
// c[m,n] += op(a) op(b).
void Product(const double* a, bool ta, const double* b, bool tb, double* c, int64_t m, int64_t n, int64_t k);

// --- of cases

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
AttrMap Axes(Dims axes, bool keepdims);
RefTensor Scalar(double value, DType dtype = DType::kFloat32);
// `count` points from low to high.
RefTensor Grid(double low, double high, int64_t count);
// Of few values, as floats: there are ties and zeros.
RefTensor Few(Random& r, const Dims& dims);
// f(sizes of rows, c, sizes of rows of c elements) for what kernels of rows may stumble over: one row, none, many, and
// rows that fill no vector.
void ForRowsOf(const std::function<void(const Dims& rows, int64_t c, const Dims& x)>& f);
// x with these values in its elements 0, 2, 4, ...
RefTensor With(RefTensor x, const std::vector<double>& values);
// x as another dtype.
RefTensor Of(DType dtype, RefTensor x);
// The case, to be run again with output 0 in that input's memory.
OpCase InPlace(OpCase c, int input);

}  // namespace oneflow::testing
