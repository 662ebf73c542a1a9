// A game of two players with a known solution: min over x, max over y of the mean over m of
//
//   f_m(x, y) = x^T A_m y + a_m^T x + b_m^T y + lambda / 2 (|x|^2 - |y|^2)       x, y of d numbers
//
// A_m is a matrix that all have in common plus one of its own, all of normal numbers, and all divided by the largest
// singular value of their mean; so the operator (df/dx, -df/dy) of the mean has the condition 1 / lambda.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

struct GameSizes {
  int64_t dimension = 0;     // d
  int64_t workers = 0;       // how many f_m there are
  double heterogeneity = 0;  // what the own matrix is multiplied by
  double condition = 0;      // 1 / lambda
  uint64_t seed = 0;
};

struct Game {
  std::vector<std::vector<double>> matrices;    // A_m, row by row
  std::vector<std::vector<double>> of_x, of_y;  // a_m, b_m
  std::vector<double> solution;                 // x, then y
  // The root of the mean over m of the squared Lipschitz constants of f_m's operators.
  double smoothness = 0;
};

// The same for the same sizes. REQUIRES: all sizes but `heterogeneity` are > 0. Takes d^3 operations.
Game MakeGame(const GameSizes& sizes);

}  // namespace oneflow
