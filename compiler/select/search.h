// The combinatorial heart of SBP selection, without tensors or graphs: nodes with options, values between them, and a
// price for every value whose producer and readers disagree.
//
//   total = sum over nodes of the option's seconds
//         + sum over values of the price of each distinct dist that its readers want
//
// Finding the minimum is hard in general. This search starts from a forward sweep, moves single units to their best
// option until none improves, then tries to move whole regions across each boxing still paid for. It is deterministic
// and never returns worse than its start. Everything with the same `SelectSbp` interface can replace it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace oneflow {

struct SearchProblem {
  // One layout of a node, as numbers of dists.
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
  };
  // Nodes that have to agree (a variable, its state, what overwrites them) move together. `options` lists for each way
  // of agreeing the option of each member.
  struct Unit {
    std::vector<int> nodes;
    std::vector<std::vector<int>> options;
  };

  std::vector<Node> nodes;  // in topological order
  std::vector<Value> values;
  std::vector<Unit> units;  // every node is in exactly one
  // Seconds of a step to make `value`, produced as `from`, available as `to`; 0 if they are equal.
  std::function<double(int value, int from, int to)> boxing;
};

struct SearchResult {
  std::vector<int> choice;  // option by node
  double seconds = 0;
};

SearchResult Search(const SearchProblem& problem);

}  // namespace oneflow
