// The combinatorial heart of SBP selection, without tensors or graphs: nodes with options, values between them, and a
// price for every value whose producer and readers disagree.
//
//   total = sum over nodes of the option's seconds
//         + sum over values of the price of each distinct dist that its readers want
//
// A total is a Cost: fewest boxings of weights first, then least time (cost.h).
//
// Finding the minimum is hard in general, but graphs of models are long and thin. The search therefore is, in this
// order:
//
//   local search    a sweep along the data and single moves: an upper bound                        local_search.h
//   dominance       options that another option always beats are dropped                           factors.h
//   elimination     units are minimised out one by one, as long as the tables stay small           elimination.h
//   dual ascent     a bound is raised over the rest (often nothing), and drops options             core_search.h
//   beam            the options that are still open are searched in order, widely                  beam.h
//
// All but the last lose nothing. If the beam dropped no state that could have won, the result is exact, and says so.
// Otherwise region moves improve it, and the result is never worse than that of local search with region moves alone.
// Equal costs are decided for the option of lower index, in the order in which units are numbered; the result is a
// function of the problem alone. REQUIRES of all prices and seconds: not negative.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/select/cost.h"

namespace oneflow {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kSameSeconds = 1e-11;  // below this two costs are the same

struct SearchProblem {
  // One layout of a node, as numbers of dists (small and not negative).
  struct Option {
    std::vector<int> inputs, outputs;
    double seconds = 0;  // of a step, all its acts
  };
  struct Node {
    std::vector<Option> options;       // not empty
    std::vector<int> inputs, outputs;  // values
    bool streams = false;              // depends on the step's data: the start follows these, the others adapt to them
  };
  struct Value {
    int producer = 0, output = 0;
    std::vector<std::pair<int, int>> readers;  // node, input
    int alike =
        -1;  // values with the same number, if not negative, have the same prices, which are then asked for once
  };
  // Nodes that have to agree (a variable, its state, its updates) move together. `options` lists for each way of
  // agreeing the option of each member.
  struct Unit {
    std::vector<int> nodes;
    std::vector<std::vector<int>> options;
  };

  std::vector<Node> nodes;  // in topological order
  std::vector<Value> values;
  std::vector<Unit> units;  // every node is in exactly one
  // The cost in a step of making `value`, produced as `from`, available as `to`; 0 if they are equal.
  std::function<Cost(int value, int from, int to)> boxing;
};

// Limits of a search, as counts, so that results do not depend on the machine.
struct SearchLimits {
  int64_t table_entries = int64_t{1} << 16;  // of one step of the elimination
  int64_t total_entries = int64_t{1} << 24;  // of all of them: a fraction of a second; and for every unit
  int64_t unit_entries = 1 << 10;            // so many more
  int64_t ascent_steps = int64_t{1} << 32;   // entries that the ascent looks at: seconds, which few graphs take
  int64_t beam_states = int64_t{1} << 20;    // looked at; the beam is so wide that they suffice
  int min_beam_width = 16;
};

struct SearchResult {
  std::vector<int> choice;  // option by node
  Cost cost;
  bool exact = false;  // no choice is better (by more than rounding)
  Cost lower_bound;    // no choice is better than this; `cost` if exact
  int core_units = 0;  // how many units elimination left to the beam
};

// Searches for the least total. Inside, a total is one number, seconds + w * avoided:
//
//   the best has avoided = 0       for any w > 0: it is the least of all costs
//   else                           a search without time gives the least `avoided`, by a choice that takes t seconds;
//                                  any w > t orders all choices as their costs do
SearchResult Search(const SearchProblem& problem, const SearchLimits& limits = {});

// The cost of a choice, by definition.
Cost CostOf(const SearchProblem& problem, const std::vector<int>& choice);

}  // namespace oneflow
