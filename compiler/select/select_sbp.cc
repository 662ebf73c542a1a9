// Translates a graph into a search problem and the result back.
#include "compiler/select/select_sbp.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_join.h"
#include "compiler/select/cost_model.h"
#include "compiler/select/search.h"

namespace oneflow {
namespace {

// How much dearer than others the boxing of a variable for a reader beside it is: enough that no gain in compute
// outweighs it, not so much that an impossible boxing would look better.
constexpr double kVariableBoxing = 1000;

class Selector {
 public:
  Selector(const Graph& graph, const OpRegistry& ops, const Topology& topology, const VariableDists& variables,
           const SelectOptions& options)
      : graph_(graph),
        ops_(ops),
        variables_(variables),
        options_(options),
        finder_(graph, ops),
        costs_(topology, options.device),
        layouts_(graph.num_nodes()) {}

  absl::StatusOr<Selection> Run() {
    OF_RETURN_IF_ERROR(AddNodes());
    AddValues();
    OF_RETURN_IF_ERROR(AddUnits());
    problem_.boxing = [this](int value, int from, int to) { return Boxing(value, from, to); };
    const SearchResult result = Search(problem_);
    OF_RETURN_IF_ERROR(CheckPossible(result));
    Selection selection;
    selection.seconds = result.seconds;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) selection.layouts.push_back(layouts_[id][result.choice[id]]);
    return selection;
  }

 private:
  double Acts(Rate rate) const { return rate == Rate::kMicroBatch ? options_.micro_batches : 1; }

  // A variable that an earlier graph has placed has the one layout that it got there.
  absl::StatusOr<std::vector<Layout>> Layouts(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op == "variable") {
      const auto fixed = variables_.find(node.name);
      if (fixed != variables_.end()) return std::vector<Layout>{Layout{{}, {fixed->second.sbp}}};
    }
    return finder_.Find(id);
  }

  absl::Status AddNodes() {
    bool has_data = false;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) has_data = has_data || graph_.node(id).op == "read_data";
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(node.op));
      OF_ASSIGN_OR_RETURN(layouts_[id], Layouts(id));
      SearchProblem::Node item;
      for (const Layout& layout : layouts_[id]) {
        SearchProblem::Option option;
        for (const NdSbp& sbp : layout.inputs) option.inputs.push_back(costs_.DistId({*node.placement, sbp}));
        for (const NdSbp& sbp : layout.outputs) option.outputs.push_back(costs_.DistId({*node.placement, sbp}));
        option.seconds = Acts(node.rate) * costs_.Compute(graph_, node, *op, layout);
        item.options.push_back(std::move(option));
      }
      item.inputs.assign(node.inputs.begin(), node.inputs.end());
      item.outputs.assign(node.outputs.begin(), node.outputs.end());
      item.streams = node.op == "read_data" || !has_data;
      for (ValueId input : node.inputs)
        item.streams = item.streams || problem_.nodes[graph_.value(input).producer].streams;
      item.streams = item.streams && node.op != "variable";
      problem_.nodes.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  void AddValues() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      SearchProblem::Value value;
      value.producer = graph_.value(id).producer;
      value.output = graph_.value(id).output;
      problem_.values.push_back(std::move(value));
      type_ids_.push_back(costs_.TypeId(graph_.value(id).type));
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      for (size_t i = 0; i < inputs.size(); ++i)
        problem_.values[inputs[i]].readers.emplace_back(id, static_cast<int>(i));
    }
  }

  double Boxing(ValueId value, int from, int to) {
    double seconds = costs_.Boxing(type_ids_[value], from, to);
    if (from == to || seconds >= CostModel::kImpossible) return seconds;
    if (graph_.node(graph_.value(value).producer).op == "variable" &&
        costs_.dist(from).placement == costs_.dist(to).placement) {
      seconds = kVariableBoxing * std::max(seconds, 1e-6);
    }
    return Acts(ValueRate(graph_, value)) * seconds;
  }

  // Groups every mutating node with the variables it overwrites, transitively.
  absl::Status AddUnits() {
    std::vector<NodeId> group(graph_.num_nodes());  // a smaller node of the same group; its smallest points to itself
    std::iota(group.begin(), group.end(), 0);
    const auto find = [&](NodeId id) {
      while (group[id] != id) id = group[id];
      return id;
    };
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (int index : ops_.Find(graph_.node(id).op)->mutates) {
        const NodeId a = find(id), b = find(graph_.value(graph_.node(id).inputs[index]).producer);
        group[std::max(a, b)] = std::min(a, b);
      }
    }
    std::map<NodeId, SearchProblem::Unit> units;
    for (const bool variables :
         {false, true}) {  // mutating nodes first: they decide, and each variable then has one way left
      for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
        if ((graph_.node(id).op == "variable") == variables) units[find(id)].nodes.push_back(id);
      }
    }
    for (auto& [first, unit] : units) {
      std::vector<int> options(unit.nodes.size(), -1);
      Agree(unit, 0, options);
      if (unit.options.empty()) return Disagreement(unit);
      problem_.units.push_back(std::move(unit));
    }
    return absl::OkStatus();
  }

  // Extends `options`, fixed for the members before `member`, in all ways in which variables lie as the nodes that
  // overwrite them want.
  void Agree(SearchProblem::Unit& unit, size_t member, std::vector<int>& options) const {
    if (unit.options.size() >= kMaxUnitOptions) return;
    if (member == unit.nodes.size()) {
      unit.options.push_back(options);
      return;
    }
    const NodeId node = unit.nodes[member];
    for (size_t option = 0; option < problem_.nodes[node].options.size(); ++option) {
      options[member] = static_cast<int>(option);
      if (graph_.node(node).op != "variable" || Fits(unit, member, options)) Agree(unit, member + 1, options);
    }
  }

  bool Fits(const SearchProblem::Unit& unit, size_t variable, const std::vector<int>& options) const {
    const ValueId value = graph_.node(unit.nodes[variable]).outputs[0];
    const int lies = problem_.nodes[unit.nodes[variable]].options[options[variable]].outputs[0];
    for (size_t member = 0; member < variable; ++member) {
      const Node& node = graph_.node(unit.nodes[member]);
      for (int index : ops_.Find(node.op)->mutates) {
        if (node.inputs[index] != value) continue;
        if (problem_.nodes[unit.nodes[member]].options[options[member]].inputs[index] != lies) return false;
      }
    }
    return true;
  }

  absl::Status Disagreement(const SearchProblem::Unit& unit) const {
    std::vector<std::string> asked, exist;
    const Node* mutating = nullptr;
    for (NodeId id : unit.nodes) {
      const Node& node = graph_.node(id);
      if (node.op == "variable") {
        std::vector<std::string> layouts;
        for (const Layout& layout : layouts_[id]) layouts.push_back(ToString(layout.outputs[0]));
        asked.push_back(
            absl::StrCat("'", node.name, "' (", node.source, ") may lie as ", absl::StrJoin(layouts, " | ")));
      } else {
        mutating = &node;
        for (const Layout& layout : layouts_[id]) exist.push_back(layout.ToString());
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Where(*mutating), ": cannot overwrite its variables where they lie: ", absl::StrJoin(asked, ", "),
                     "; the op's signatures are ", absl::StrJoin(exist, " | ")));
  }

  absl::Status CheckPossible(const SearchResult& result) {
    if (result.seconds < CostModel::kImpossible) return absl::OkStatus();
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const SearchProblem::Value& value = problem_.values[id];
      const int from = problem_.nodes[value.producer].options[result.choice[value.producer]].outputs[value.output];
      for (const auto& [reader, input] : value.readers) {
        const int to = problem_.nodes[reader].options[result.choice[reader]].inputs[input];
        if (costs_.Boxing(type_ids_[id], from, to) < CostModel::kImpossible) continue;
        return absl::UnimplementedError(
            absl::StrCat(Where(graph_.node(reader)), ": no boxing from ", costs_.dist(from).ToString(), " of ",
                         Where(graph_.node(value.producer)), " to ", costs_.dist(to).ToString()));
      }
    }
    return absl::OkStatus();
  }

  // Variables that are overwritten together are few; this only bounds pathological graphs.
  static constexpr size_t kMaxUnitOptions = 4096;

  const Graph& graph_;
  const OpRegistry& ops_;
  const VariableDists& variables_;
  const SelectOptions& options_;
  CandidateFinder finder_;
  CostModel costs_;
  std::vector<std::vector<Layout>> layouts_;  // by node, as in problem_.nodes[].options
  std::vector<int> type_ids_;                 // by value
  SearchProblem problem_;
};

}  // namespace

absl::StatusOr<Selection> SelectSbp(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                    const VariableDists& variables, const SelectOptions& options) {
  return Selector(graph, ops, topology, variables, options).Run();
}

}  // namespace oneflow
