#include "actor/data/game.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/random.h"

namespace oneflow {
namespace {

using Vector = std::vector<double>;

constexpr double kTwoPi = 6.283185307179586;

// Standard normal numbers (Box and Muller, 1958).
class Normals {
 public:
  Normals(uint64_t seed, uint64_t stream) : key_(RandomKey(seed, stream)) {}

  Vector Take(int64_t count) {
    Vector x(count);
    for (double& value : x) {
      const Philox4 bits = Philox(key_, static_cast<uint32_t>(next_), static_cast<uint32_t>(next_ >> 32), 0, 0);
      ++next_;
      const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(bits.x[0]) / 4294967296.0));
      value = radius * std::cos(kTwoPi * static_cast<double>(bits.x[1]) / 4294967296.0);
    }
    return x;
  }

 private:
  const uint64_t key_;
  uint64_t next_ = 0;
};

double Dot(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// a x, or a's transpose times x.
Vector Times(const Vector& a, const Vector& x, bool transpose = false) {
  const size_t d = x.size();
  Vector y(d, 0);
  for (size_t i = 0; i < d; ++i) {
    for (size_t j = 0; j < d; ++j) y[transpose ? j : i] += a[i * d + j] * x[transpose ? i : j];
  }
  return y;
}

// The largest singular value, by power iterations.
double LargestSingularValue(const Vector& a, int64_t d) {
  Vector x(d, 1 / std::sqrt(static_cast<double>(d)));
  double square = 0;
  for (int i = 0; i < 300; ++i) {
    x = Times(a, Times(a, x), /*transpose=*/true);
    square = std::sqrt(Dot(x, x));
    if (square == 0) return 0;
    for (double& value : x) value /= square;
  }
  return std::sqrt(square);
}

// x of m x = right side, by Cholesky's factors. REQUIRES: m is symmetric and positive definite.
Vector Solve(Vector m, Vector x) {
  const size_t d = x.size();
  for (size_t j = 0; j < d; ++j) {
    for (size_t k = 0; k < j; ++k) {
      for (size_t i = j; i < d; ++i) m[i * d + j] -= m[i * d + k] * m[j * d + k];
    }
    const double root = std::sqrt(m[j * d + j]);
    for (size_t i = j; i < d; ++i) m[i * d + j] /= root;
  }
  for (size_t i = 0; i < d; ++i) {
    for (size_t k = 0; k < i; ++k) x[i] -= m[i * d + k] * x[k];
    x[i] /= m[i * d + i];
  }
  for (size_t i = d; i-- > 0;) {
    for (size_t k = i + 1; k < d; ++k) x[i] -= m[k * d + i] * x[k];
    x[i] /= m[i * d + i];
  }
  return x;
}

Vector Mean(const std::vector<Vector>& all) {
  Vector mean(all[0].size(), 0);
  for (const Vector& one : all) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<double>(all.size());
  }
  return mean;
}

// Where A y + a + lambda x = 0 and A^T x + b - lambda y = 0: (A^T A + lambda^2) y = lambda b - A^T a.
Vector SolutionOf(const Vector& a, const Vector& of_x, const Vector& of_y, double lambda) {
  const size_t d = of_x.size();
  Vector m(d * d, 0), right = Times(a, of_x, /*transpose=*/true);
  for (size_t k = 0; k < d; ++k) {
    for (size_t i = 0; i < d; ++i) {
      for (size_t j = 0; j < d; ++j) m[i * d + j] += a[k * d + i] * a[k * d + j];
    }
  }
  for (size_t i = 0; i < d; ++i) {
    m[i * d + i] += lambda * lambda;
    right[i] = lambda * of_y[i] - right[i];
  }
  const Vector y = Solve(m, right), ay = Times(a, y);
  Vector solution;
  for (size_t i = 0; i < d; ++i) solution.push_back(-(ay[i] + of_x[i]) / lambda);
  solution.insert(solution.end(), y.begin(), y.end());
  return solution;
}

}  // namespace

Game MakeGame(const GameSizes& sizes) {
  const int64_t d = sizes.dimension;
  const Vector common = Normals(sizes.seed, 0).Take(d * d);
  Game game;
  for (int64_t m = 0; m < sizes.workers; ++m) {
    Normals own(sizes.seed, static_cast<uint64_t>(m) + 1);
    Vector matrix = own.Take(d * d);
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = common[i] + sizes.heterogeneity * matrix[i];
    game.matrices.push_back(std::move(matrix));
    game.of_x.push_back(own.Take(d));
    game.of_y.push_back(own.Take(d));
  }
  const double largest = LargestSingularValue(Mean(game.matrices), d);
  const double lambda = 1 / sizes.condition;
  double squares = 0;
  for (Vector& matrix : game.matrices) {
    for (double& value : matrix) value /= largest > 0 ? largest : 1;
    const double own = LargestSingularValue(matrix, d);
    squares += own * own;
  }
  game.smoothness = std::sqrt(squares / static_cast<double>(sizes.workers) + lambda * lambda);
  game.solution = SolutionOf(Mean(game.matrices), Mean(game.of_x), Mean(game.of_y), lambda);
  return game;
}

}  // namespace oneflow
