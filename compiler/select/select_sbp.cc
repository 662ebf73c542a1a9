// Translates a graph into a search problem and the result back.
#include "compiler/select/select_sbp.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_join.h"
#include "compiler/select/alternatives.h"
#include "compiler/select/cost_model.h"
#include "compiler/select/memory_demand.h"
#include "compiler/select/search.h"
#include "oneflow_core/union_find.h"
#include "sbp/place_pairs.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// The extra price of boxing a variable for a reader beside it: no gain in compute outweighs it, but an impossible
// boxing does not look better.
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
        costs_(topology),
        pairs_(topology),
        group_(graph.num_nodes(), -1) {}

  absl::StatusOr<Selection> Run() {
    OF_ASSIGN_OR_RETURN(const SearchResult result, Solve());
    Selection selection;
    selection.seconds = Seconds(result.choice);
    selection.exact = result.exact;
    // The search's total is seconds plus penalties; the bound includes the same penalties.
    selection.lower_bound =
        result.exact ? selection.seconds : selection.seconds - (result.seconds - result.lower_bound);
    selection.core_units = result.core_units;
    selection.num_prices = costs_.num_prices();
    selection.notes = Notes();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) selection.layouts.push_back(LayoutsOf(id)[result.choice[id]]);
    return selection;
  }

  // After an error: the wish (of a value, along an axis) that may yield to fix it; -1 if none may.
  const std::pair<ValueId, std::string>& yields() const { return yields_; }

  absl::StatusOr<std::vector<LayoutPrice>> Explain(NodeId node) {
    OF_ASSIGN_OR_RETURN(const SearchResult result, Solve());
    std::vector<LayoutPrice> prices;
    for (const Alternative& one : Alternatives(problem_, result, node)) {
      if (one.seconds < CostModel::kImpossible) prices.push_back({LayoutsOf(node)[one.option], Seconds(one.choice)});
    }
    std::stable_sort(prices.begin(), prices.end(),
                     [](const LayoutPrice& a, const LayoutPrice& b) { return a.seconds < b.seconds; });
    return prices;
  }

 private:
  absl::StatusOr<SearchResult> Solve() {
    OF_RETURN_IF_ERROR(AddNodes());
    AddValues();
    OF_RETURN_IF_ERROR(AddUnits());
    problem_.boxing = [this](int value, int from, int to) { return Boxing(value, from, to); };
    SearchResult result;
    const std::vector<MemoryLimit> limits = Limits();
    if (limits.empty()) {
      result = Search(problem_);
    } else {
      OF_ASSIGN_OR_RETURN(result, SearchWithin(problem_, limits));
    }
    OF_RETURN_IF_ERROR(CheckPossible(result));
    return result;
  }

  std::vector<MemoryLimit> Limits() {
    MemoryDemand demand;
    demand.size = [this](int value, int dist) { return Bytes(value, dist); };
    demand.place = place_;
    for (int place = 0; place < pairs_.num_places(); ++place) demand.ranks.push_back(pairs_.place(place).ranks());
    std::vector<MemoryLimit> limits;
    if (options_.variable_limit_bytes > 0) {
      limits.push_back({VariableDemand(graph_, ops_, problem_, demand), options_.variable_limit_bytes});
    }
    if (options_.memory_limit_bytes > 0) {
      limits.push_back(
          {WholeDemand(graph_, ops_, problem_, options_.recomputed, std::move(demand)), options_.memory_limit_bytes});
    }
    return limits;
  }

  // On each rank as many as on the one with the largest shard.
  int64_t Bytes(ValueId value, int dist) const {
    const auto& [pair, sbp] = dists_[dist];
    const TensorType& type = graph_.value(value).type;
    return ShardRegion(type.shape, {pairs_.to(pair), sbp}, 0).count() * static_cast<int64_t>(SizeOf(type.dtype));
  }

  // Of a step, without penalties.
  double Seconds(const std::vector<int>& choice) {
    double seconds = 0;
    for (size_t id = 0; id < choice.size(); ++id) seconds += problem_.nodes[id].options[choice[id]].seconds;
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const SearchProblem::Value& value = problem_.values[id];
      const int from = problem_.nodes[value.producer].options[choice[value.producer]].outputs[value.output];
      std::set<int> wanted;
      for (const auto& [reader, input] : value.readers) {
        wanted.insert(problem_.nodes[reader].options[choice[reader]].inputs[input]);
      }
      for (int to : wanted) seconds += Acts(ValueRate(graph_, id)) * BoxingOnce(id, from, to);
    }
    return seconds;
  }

  bool Is(NodeId id, OpKind kind) const { return ops_.Is(graph_.node(id).op, kind); }
  bool IsVariable(NodeId id) const { return Is(id, OpKind::kVariable); }

  double Acts(Rate rate) const { return rate == Rate::kMicroBatch ? options_.micro_batches : 1; }

  // A variable that an earlier graph has placed has only its layout from there; otherwise the node's group gives the
  // options.
  absl::Status FindLayouts(NodeId id) {
    const Node& node = graph_.node(id);
    if (IsVariable(id)) {
      const auto fixed = variables_.find(node.name);
      if (fixed != variables_.end()) {
        fixed_[id] = {Layout{{}, {fixed->second.sbp}}};
        return absl::OkStatus();
      }
    }
    OF_ASSIGN_OR_RETURN(group_[id], finder_.FindGroup(id));
    return absl::OkStatus();
  }

  // For limits on candidates that removed some; one note for all nodes that look alike.
  std::vector<std::string> Notes() const {
    std::vector<NodeId> first(finder_.num_groups(), -1);
    std::vector<int> count(finder_.num_groups(), 0);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (group_[id] >= 0 && count[group_[id]]++ == 0) first[group_[id]] = id;
    }
    std::vector<std::string> notes = unit_notes_;
    for (int group = 0; group < finder_.num_groups(); ++group) {
      const auto [all, considered] = finder_.Considered(group);
      if (count[group] == 0 || considered == all) continue;
      const std::string others = count[group] == 1 ? "" : absl::StrCat(" and ", count[group] - 1, " like it");
      notes.push_back(absl::StrCat(Where(graph_.node(first[group])), others, ": ", considered, " of ", all,
                                   " layouts were considered"));
    }
    return notes;
  }

  const std::vector<Layout>& LayoutsOf(NodeId id) const {
    return group_[id] < 0 ? fixed_.at(id) : finder_.LayoutsOf(group_[id]);
  }

  // The number of a type in the problem: the layout of a tensor on the second of two places, seen from the first.
  int Dist(int pair, const NdSbp& sbp) {
    const auto [it, is_new] = dist_ids_.try_emplace({pair, sbp}, static_cast<int>(dists_.size()));
    if (is_new) dists_.emplace_back(pair, sbp);
    return it->second;
  }

  // For each input the places of its producer and of the node; last the node's own place, twice.
  std::vector<int> Pairs(NodeId id) {
    std::vector<int> pairs;
    for (ValueId input : graph_.node(id).inputs) {
      pairs.push_back(pairs_.Pair(place_[graph_.value(input).producer], place_[id]));
    }
    pairs.push_back(pairs_.Pair(place_[id], place_[id]));
    return pairs;
  }

  std::vector<SearchProblem::Option> Options(NodeId id, const OpDef& op, const std::vector<int>& pairs) {
    const Node& node = graph_.node(id);
    std::vector<SearchProblem::Option> options;
    for (const Layout& layout : LayoutsOf(id)) {
      SearchProblem::Option option;
      for (size_t i = 0; i < layout.inputs.size(); ++i) option.inputs.push_back(Dist(pairs[i], layout.inputs[i]));
      for (const NdSbp& sbp : layout.outputs) option.outputs.push_back(Dist(pairs.back(), sbp));
      option.seconds = Acts(node.rate) * costs_.Compute(graph_, node, op, layout);
      options.push_back(std::move(option));
    }
    return options;
  }

  absl::Status AddNodes() {
    bool has_data = false;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) has_data = has_data || Is(id, OpKind::kData);
    std::map<std::tuple<int, Rate, std::vector<int>>, NodeId> first;  // of nodes with the same options
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(node.op));
      OF_RETURN_IF_ERROR(FindLayouts(id));
      SearchProblem::Node item;
      place_.push_back(pairs_.Number(*node.placement));
      const std::vector<int> pairs = Pairs(id);
      const NodeId alike = group_[id] < 0 ? id : first.try_emplace({group_[id], node.rate, pairs}, id).first->second;
      item.options = alike == id ? Options(id, *op, pairs) : problem_.nodes[alike].options;
      item.inputs.assign(node.inputs.begin(), node.inputs.end());
      item.outputs.assign(node.outputs.begin(), node.outputs.end());
      item.streams = op->kind == OpKind::kData || !has_data;
      for (ValueId input : node.inputs)
        item.streams = item.streams || problem_.nodes[graph_.value(input).producer].streams;
      item.streams = item.streams && op->kind != OpKind::kVariable;
      problem_.nodes.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  // A variable, or its boxed copy here if it is at home elsewhere.
  bool IsWeight(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!ops_.Is(node.op, OpKind::kAnnotation)) return IsVariable(id);
    const NodeId from = graph_.value(node.inputs[0]).producer;
    return IsVariable(from) && *graph_.node(from).placement != *node.placement;
  }

  // Boxing() depends on the type of a value, how often it is boxed, how it travels and whether it is a variable's; the
  // rest is in the dists.
  void AddValues() {
    std::map<std::tuple<int, Rate, CostModel::Travel, bool>, int> kinds;
    const std::vector<std::vector<NodeId>> readers = graph_.Consumers();
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      type_ids_.push_back(costs_.TypeId(graph_.value(id).type));
      SearchProblem::Value value;
      value.producer = graph_.value(id).producer;
      value.output = graph_.value(id).output;
      const int next = static_cast<int>(kinds.size());
      travels_.push_back(TravelOf(graph_, id, readers));
      value.alike =
          kinds.try_emplace({type_ids_.back(), ValueRate(graph_, id), travels_.back(), IsWeight(value.producer)}, next)
              .first->second;
      problem_.values.push_back(std::move(value));
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      for (size_t i = 0; i < inputs.size(); ++i)
        problem_.values[inputs[i]].readers.emplace_back(id, static_cast<int>(i));
    }
  }

  // Without penalties, of one act.
  double BoxingOnce(ValueId value, int from, int to) {
    if (from == to) return 0;
    const auto& [pair, sbp] = dists_[to];
    return costs_.Boxing(type_ids_[value], costs_.DistId({pairs_.from(pair), dists_[from].second}),
                         costs_.DistId({pairs_.to(pair), sbp}), travels_[value]);
  }

  double Boxing(ValueId value, int from, int to) {
    double seconds = BoxingOnce(value, from, to);
    if (from == to || seconds >= CostModel::kImpossible) return seconds;
    const bool in_place = dists_[from].first == dists_[to].first;
    if (IsWeight(graph_.value(value).producer) && in_place) {
      seconds = kVariableBoxing * std::max(seconds, 1e-6);
    }
    return Acts(ValueRate(graph_, value)) * seconds;
  }

  // Groups every mutating node with the variables it overwrites, transitively.
  absl::Status AddUnits() {
    UnionFind groups(graph_.num_nodes());
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (int index : ops_.Find(graph_.node(id).op)->mutates) {
        groups.Unite(id, graph_.value(graph_.node(id).inputs[index]).producer);
      }
    }
    std::map<NodeId, SearchProblem::Unit> units;
    // Mutating nodes first: they decide, and each variable then has one possible layout.
    for (const bool variables : {false, true}) {
      for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
        if (IsVariable(id) == variables) units[groups.Find(id)].nodes.push_back(id);
      }
    }
    for (auto& [first, unit] : units) {
      std::vector<int> options(unit.nodes.size(), -1);
      Agree(unit, 0, options);
      if (unit.options.empty()) {
        Weakest(unit.nodes);
        return Disagreement(unit);
      }
      if (unit.options.size() == kMaxUnitOptions) {
        unit_notes_.push_back(absl::StrCat(Where(graph_.node(unit.nodes[0])),
                                           " and the variables that it overwrites: the first ", kMaxUnitOptions,
                                           " ways to lie together were considered"));
      }
      problem_.units.push_back(std::move(unit));
    }
    return absl::OkStatus();
  }

  // Extends `options`, fixed for the members before `member`, by all layouts of variables that the nodes which
  // overwrite them allow.
  void Agree(SearchProblem::Unit& unit, size_t member, std::vector<int>& options) const {
    if (unit.options.size() >= kMaxUnitOptions) return;
    if (member == unit.nodes.size()) {
      unit.options.push_back(options);
      return;
    }
    const NodeId node = unit.nodes[member];
    for (size_t option = 0; option < problem_.nodes[node].options.size(); ++option) {
      options[member] = static_cast<int>(option);
      if (!IsVariable(node) || Fits(unit, member, options)) Agree(unit, member + 1, options);
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
    size_t most = 0;  // operands that may have the layout of the op
    std::string nearest;
    for (NodeId id : unit.nodes) {
      const Node& node = graph_.node(id);
      if (IsVariable(id)) {
        std::vector<std::string> layouts;
        for (const Layout& layout : LayoutsOf(id)) layouts.push_back(ToString(layout.outputs[0]));
        asked.push_back(
            absl::StrCat("'", node.name, "' (", node.source, ") may lie as ", absl::StrJoin(layouts, " | ")));
      } else {
        mutating = &node;
        for (const Layout& layout : LayoutsOf(id)) {
          exist.push_back(layout.ToString());
          const auto [met, changes] = Changes(node, layout);
          if (nearest.empty() || met > most) nearest = changes;
          most = std::max(most, met);
        }
      }
    }
    if (exist.size() > kShownSignatures) {
      const size_t others = exist.size() - kShownSignatures;
      exist.resize(kShownSignatures);
      exist.push_back(absl::StrCat(others, " more"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Where(*mutating), ": cannot overwrite its variables where they lie: ", absl::StrJoin(asked, ", "),
                     "; the op's signatures are ", absl::StrJoin(exist, " | "), "; nearest: ", nearest));
  }

  // How many of the variables that `node` overwrites may have the layout `layout`, and what the others would need.
  std::pair<size_t, std::string> Changes(const Node& node, const Layout& layout) const {
    size_t met = 0;
    std::vector<std::string> changes;
    for (int index : ops_.Find(node.op)->mutates) {
      const NodeId variable = graph_.value(node.inputs[index]).producer;
      const std::vector<Layout>& layouts = LayoutsOf(variable);
      if (std::any_of(layouts.begin(), layouts.end(),
                      [&](const Layout& lies) { return lies.outputs[0] == layout.inputs[index]; })) {
        ++met;
      } else {
        changes.push_back(absl::StrCat("'", graph_.node(variable).name, "' as ", ToString(layout.inputs[index])));
      }
    }
    return {met, absl::StrJoin(changes, ", ")};
  }

  // The weakest of the wishes for outputs of `nodes`, if it may yield.
  void Weakest(const std::vector<NodeId>& nodes) {
    int priority = 0;
    for (NodeId id : nodes) {
      for (ValueId output : graph_.node(id).outputs) {
        for (const AxisSbp& wish : graph_.value(output).hint) {
          if (wish.priority <= priority) continue;
          priority = wish.priority;
          yields_ = {output, wish.axis};
        }
      }
    }
  }

  // Up to two layouts in which to read `value` (which has the layout `from`) on the placement of `to`: those that
  // differ from `to` in one axis and can be reached by boxing.
  std::string Proposals(ValueId value, int from, int to) {
    const auto [pair, wanted] = dists_[to];
    const Shape& shape = graph_.value(value).type.shape;
    std::vector<std::string> nearest;
    for (size_t axis = 0; axis < wanted.size(); ++axis) {
      std::vector<Sbp> others = {Sbp::Broadcast(), Sbp::Partial(Reduction::kMax), Sbp::Partial(Reduction::kMin)};
      for (int d = 0; d < shape.rank(); ++d) others.push_back(Sbp::Split(d));
      for (const Sbp& other : others) {
        NdSbp near = wanted;
        near[axis] = other;
        if (nearest.size() < 2 && near != wanted &&
            BoxingOnce(value, from, Dist(pair, near)) < CostModel::kImpossible) {
          nearest.push_back(ToString(near));
        }
      }
    }
    return nearest.empty() ? "" : absl::StrCat("; nearest: ", absl::StrJoin(nearest, ", or "));
  }

  absl::Status CheckPossible(const SearchResult& result) {
    if (result.seconds < CostModel::kImpossible) return absl::OkStatus();
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const SearchProblem::Value& value = problem_.values[id];
      const int from = problem_.nodes[value.producer].options[result.choice[value.producer]].outputs[value.output];
      for (const auto& [reader, input] : value.readers) {
        const int to = problem_.nodes[reader].options[result.choice[reader]].inputs[input];
        if (BoxingOnce(id, from, to) < CostModel::kImpossible) continue;
        Weakest({value.producer, reader});
        const Node &a = graph_.node(value.producer), &b = graph_.node(reader);
        return absl::UnimplementedError(absl::StrCat(
            Where(b), ": no boxing from ", DistType{*a.placement, dists_[from].second}.ToString(), " of ", Where(a),
            " to ", DistType{*b.placement, dists_[to].second}.ToString(), Proposals(id, from, to)));
      }
    }
    return absl::OkStatus();
  }

  // Few variables are overwritten together; this only bounds pathological graphs.
  static constexpr size_t kMaxUnitOptions = 4096;
  static constexpr size_t kShownSignatures = 6;

  const Graph& graph_;
  const OpRegistry& ops_;
  const VariableDists& variables_;
  const SelectOptions& options_;
  CandidateFinder finder_;
  CostModel costs_;
  PlacePairs pairs_;
  std::vector<std::pair<int, NdSbp>>
      dists_;  // by number: the pair of places (who makes the tensor, who has it) and the SBP
  std::map<std::pair<int, NdSbp>, int> dist_ids_;
  std::vector<int> place_;  // by node
  std::vector<int> group_;  // by node, of the finder; -1: a variable that has its layout
  std::map<NodeId, std::vector<Layout>> fixed_;
  std::vector<int> type_ids_;  // by value
  std::vector<CostModel::Travel> travels_;
  SearchProblem problem_;
  std::vector<std::string> unit_notes_;
  std::pair<ValueId, std::string> yields_ = {-1, ""};
};

// Calls run(selector). If wishes of several nodes contradict one another, the weakest of them yields and the search
// starts again.
template <typename Run>
auto WithPriorities(const Graph& graph, const OpRegistry& ops, const Topology& topology, const VariableDists& variables,
                    const SelectOptions& options, Run run) {
  auto selector = std::make_unique<Selector>(graph, ops, topology, variables, options);
  auto result = run(*selector);
  if (result.ok() || selector->yields().first < 0) return result;
  Graph relaxed = graph;
  while (!result.ok() && selector->yields().first >= 0) {
    const auto [value, axis] = selector->yields();
    SbpHint& hint = relaxed.value(value).hint;
    hint.erase(std::find_if(hint.begin(), hint.end(), [&, &axis = axis](const AxisSbp& x) { return x.axis == axis; }));
    selector = std::make_unique<Selector>(relaxed, ops, topology, variables, options);
    result = run(*selector);
  }
  return result;
}

}  // namespace

absl::StatusOr<Selection> SelectSbp(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                                    const VariableDists& variables, const SelectOptions& options) {
  return WithPriorities(graph, ops, topology, variables, options, [](Selector& selector) { return selector.Run(); });
}

absl::StatusOr<std::vector<LayoutPrice>> ExplainSelection(const Graph& graph, const OpRegistry& ops,
                                                          const Topology& topology, const VariableDists& variables,
                                                          const SelectOptions& options, NodeId node) {
  return WithPriorities(graph, ops, topology, variables, options,
                        [node](Selector& selector) { return selector.Explain(node); });
}

}  // namespace oneflow
