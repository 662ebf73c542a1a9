// A lower bound of a sum of factors that is raised step by step, and choices read off it: sequential reweighted message
// passing between factors and single units (V. Kolmogorov, "A new look at reweighted message passing", 2015; on pairs
// it is TRW-S).
//
//   bound = constant + sum over units    of min over options of  seconds + what messages of its factors say of the
//                                        option
//                    + sum over factors  of min over choices of  cost - what its messages say of the choice
//
// A message moves cost from a factor to a unit and changes no total, so the bound holds for any messages. A step takes
// one unit: each of its factors hands over everything that it knows about the unit, and the factors of later units get
// equal shares back. No step lowers the bound. A sweep takes the units in order and back, so that knowledge travels
// from one end of the graph to the other.
//
// A unit that has just heard all its factors knows by how much the bound would rise with each of its options. If that
// exceeds the cost of a known solution, the option is no part of a better one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/select/factors.h"
#include "compiler/select/value_costs.h"

namespace oneflow {

// By factor and unit, then by option of the unit: the cost that was moved to it.
using Messages = std::map<std::pair<int, int>, std::vector<double>>;

class DualAscent {
 public:
  // Borrows the factors. `core` lists their units that have a choice, ascending. Costs above `cap`, which some known
  // solution does not exceed, count as that. `messages`: of an earlier ascent, when more was left of the same factors.
  DualAscent(const Factors& factors, std::vector<int> core, double cap, const Messages& messages);

  void Sweep();
  // No choice is cheaper.
  double bound() const { return bound_; }
  // No choice in which `unit` takes the option at `position` of its domain is cheaper.
  double Least(int unit, size_t position) const { return least_[unit][position]; }
  // A choice, by unit of the problem (set for those of the core). In order, each unit takes the option that is cheapest
  // beside the choices of those before it and the least of those behind it.
  std::vector<int> Round() const;
  Messages messages() const;
  // Steps of a sweep.
  double work() const;

 private:
  struct Side {
    int unit = 0;
    const std::vector<int>* class_of = nullptr;
    std::vector<double> message;       // by class: the cost that was moved to the unit
    bool first = false, last = false;  // of the factor's units, in order
  };
  // A factor with its messages.
  struct Part {
    int id = 0;
    FactorTable table;  // null: see value
    std::optional<ValueCosts> value;
    std::vector<Side> sides;
  };

  void AddPart(int id, const FactorTable& table, const Messages& messages);
  // By class of `side` the least cost of the factor, less the messages of the other sides; `fixed`: see ValueCosts.
  std::vector<double> LeastOf(const Part& part, size_t side, const std::vector<int>& fixed) const;
  std::vector<double> Worth(int unit) const;  // by position: seconds and messages
  void Visit(int unit, bool forwards);
  double SumOfLeast() const;

  const Factors& factors_;
  const std::vector<int> core_;
  const double cap_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::pair<int, size_t>>> parts_of_;  // by unit: number of the part, side
  std::vector<std::vector<double>> least_;                     // by unit and position
  double bound_ = 0;
};

}  // namespace oneflow
