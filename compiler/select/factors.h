// The cost of a problem as a sum of factors, each a table over the few units that it concerns:
//
//   total = constant + sum over units of the option's seconds + sum over factors of what the units' classes say
//
// A class is a set of options of a unit that a factor cannot distinguish: for the value "relu's output", how relu makes
// it or how a reader reads it. A value whose readers share boxings is one factor over all of them. Equal tables, as of
// repeated layers, are one object, and everything derived from them is derived once.
//
// Dominance: option a of a unit can be dropped if some b never costs more:
//
//   seconds(a) - seconds(b) + sum over factors of min over everything else of (table(a, else) - table(b, else)) >= 0
//
// (Goldstein's criterion for dead ends.) Entries above the upper bound do not count: a solution with one of them is no
// better. A dropped option could not have improved the optimum; of equal options the first stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "compiler/select/cost_graph.h"

namespace oneflow {

using FactorTable = std::shared_ptr<const std::vector<double>>;

struct Factor {
  struct Side {
    int unit = 0;
    std::vector<int> class_of;  // by position in the unit's domain
    int size = 0;               // number of classes
  };
  std::vector<Side> sides;
  FactorTable table;  // row-major over the classes, last side fastest; null while the factor is too wide for one
  // Of a wide factor: the value, and the port of each side with the state of each class.
  int value = -1;
  std::vector<int> ports;
  std::vector<std::vector<int>> states;
  std::vector<std::pair<int, int>> fixed;  // further ports that had several states: the one that is left

  bool gone() const { return sides.empty(); }
  // Entries of the table, made or not; capped at 1e18.
  double Volume() const;
};

class Factors {
 public:
  // Borrows the graph. `upper` is the cost of a known solution.
  Factors(const CostGraph& graph, double upper);

  // Drops dominated options until none is left.
  void Prune();

  int num_units() const { return static_cast<int>(domains_.size()); }
  // The options of a unit that are left, ascending, and their seconds.
  const std::vector<int>& domain(int unit) const { return domains_[unit]; }
  const std::vector<double>& seconds(int unit) const { return seconds_[unit]; }
  const std::vector<int>& factors_of(int unit) const { return factors_of_[unit]; }  // ids, ascending
  const Factor& factor(int id) const { return factors_[id]; }
  int num_factors() const { return static_cast<int>(factors_.size()); }
  double constant() const { return constant_; }
  // The states of a port of its value that a wide factor leaves possible.
  std::vector<const CostGraph::State*> StatesLeft(const Factor& factor, int port) const;
  const CostGraph& graph() const { return graph_; }

  // For elimination: replaces all factors of `unit` by `message` (which may have any number of sides) and removes the
  // unit's own part of the sum.
  void Replace(int unit, Factor message);
  // Leaves only these positions of the unit's domain (ascending, not none).
  void Keep(int unit, const std::vector<int>& positions);
  // A better solution is known.
  void Improve(double upper) { upper_ = std::min(upper_, upper * (1 + 1e-9)); }

 private:
  using Matrix = std::shared_ptr<const std::vector<double>>;

  void AddValue(int value);
  void Add(Factor factor);
  // Drops sides of one class, adds costs of one unit alone to its seconds, makes the table if it fits now.
  void Simplify(int id);
  void Forget(int unit, int factor);
  void RemoveSide(Factor& factor, size_t side);
  void MakeTable(Factor& factor);
  // Everything that determines a wide factor's costs: prices, and the remaining states of each port.
  std::vector<int> Describe(const Factor& factor) const;
  bool Reduce(int unit);
  void Compact(Factor& factor, size_t side);
  void Enqueue(int unit);

  // least[a * size + b]: the least of (class a - class b) over all choices of the other sides.
  Matrix Differences(const Factor& factor, size_t side);
  Matrix DifferencesOfTable(const Factor& factor, size_t side) const;
  Matrix DifferencesOfWide(const Factor& factor, size_t side) const;

  const CostGraph& graph_;
  double upper_;
  double constant_ = 0;
  std::vector<std::vector<int>> domains_;
  std::vector<std::vector<double>> seconds_;
  std::vector<std::vector<int>> factors_of_;
  std::vector<Factor> factors_;
  std::deque<int> queue_;
  std::vector<bool> queued_;
  // Shared by repeated layers. The tables are held, so that their addresses stay valid.
  std::map<std::vector<int>, FactorTable> tables_;
  std::map<std::vector<int64_t>, FactorTable> slices_;
  std::map<std::pair<const void*, size_t>, std::pair<FactorTable, Matrix>> differences_;
  std::map<std::vector<int>, Matrix> wide_differences_;
};

}  // namespace oneflow
