// Exact dynamic programming on factors by elimination of units. For each choice of its neighbours a unit takes its best
// option, so it and its factors can be replaced by one factor over the neighbours.
//
//   a ── u ── b          a ──── b          message(a, b) = min over u of  seconds(u) + ab-factors(a, u) + (u, b)
//
// Chains, trees and ladders of forward and backward layers all fold up from their ends. The next unit is always the one
// of the smallest step (its options times the entries of its message), the lowest among equals. A message distinguishes
// options of a neighbour only where the eliminated factors did. Equal steps, as of repeated layers, are computed once.
// When no step fits the limits, dominance is tried again on the new factors; if that does not help, the rest is the
// core.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "compiler/select/factors.h"

namespace oneflow {

class Elimination {
 public:
  // Borrows the factors and changes them.
  Elimination(Factors& factors, const SearchLimits& limits);

  // Eliminates what it can; true if nothing is left. The optimum is then factors.constant().
  bool Run();
  // The same again, after options of the core were dropped.
  bool Resume();
  // The units that are left, ascending.
  std::vector<int> core() const;
  // The choice of all units, given that of the core in `options` (by unit; other entries are overwritten).
  void Complete(std::vector<int>& options) const;
  // How many factors were looked at to find the next unit.
  int64_t looks() const { return looks_; }

 private:
  // The best option of `unit`, for each choice of its neighbours.
  struct Step {
    struct Axis {
      int unit = 0;
      std::vector<int> class_of_option;  // by option of the problem; -1: dropped
      int size = 0;
    };
    int unit = 0;
    std::vector<Axis> axes;
    std::shared_ptr<const std::vector<int>> best;  // option, row-major over the axes
  };
  // The number of classes of its options, as far as the current estimate has looked.
  struct Seen {
    int64_t at = 0;  // which estimate
    double classes = 0;
  };
  // The result of a step: the table of the message and the options of the unit.
  struct Outcome {
    FactorTable table;
    std::shared_ptr<const std::vector<int>> best;
    std::vector<FactorTable> read;  // held, so that their addresses stay what they were
  };

  double Estimate(int unit);
  void Refresh(int unit);
  void Eliminate(int unit);
  std::vector<Factor::Side> Neighbours(int unit) const;
  std::vector<int64_t> Describe(int unit, const std::vector<Factor::Side>& neighbours) const;
  Outcome Minimise(int unit, const std::vector<Factor::Side>& neighbours) const;

  Factors& factors_;
  const SearchLimits limits_;
  const double budget_;  // entries
  double spent_ = 0;
  std::vector<double> estimates_;           // by unit; negative: eliminated
  std::set<std::pair<double, int>> queue_;  // {estimate, unit}
  std::vector<Seen> seen_;                  // scratch of Estimate(), by unit
  int64_t now_ = 0, looks_ = 0;
  std::vector<Step> steps_;
  std::map<std::vector<int64_t>, Outcome> outcomes_;  // by description
};

}  // namespace oneflow
