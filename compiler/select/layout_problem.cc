#include "compiler/select/layout_problem.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_join.h"
#include "compiler/select/agreement.h"
#include "compiler/select/memory_demand.h"
#include "sbp/boxing_check.h"
#include "sbp/slices.h"

namespace oneflow {
LayoutProblem::LayoutProblem(const Graph& graph, const OpRegistry& ops, const Topology& topology,
                             const VariableDists& variables, const SelectOptions& options)
    : graph_(graph),
      ops_(ops),
      variables_(variables),
      options_(options),
      finder_(graph, ops, OwnValues(graph, ops, variables, options.own), options.rings),
      costs_(topology),
      pairs_(topology),
      group_(graph.num_nodes(), -1) {}

absl::Status LayoutProblem::Build(std::vector<NodeId>& conflict) {
  OF_RETURN_IF_ERROR(AddNodes());
  AddValues();
  const AgreementInput input{graph_, ops_, problem_.nodes,
                             [this](NodeId id) -> const std::vector<Layout>& { return LayoutsOf(id); }};
  OF_ASSIGN_OR_RETURN(Agreement agreement, FindAgreement(input, conflict));
  problem_.units = std::move(agreement.units);
  agreement_notes_ = std::move(agreement.notes);
  problem_.boxing = [this](int value, int from, int to) { return Boxing(value, from, to); };
  return absl::OkStatus();
}

// --- nodes ---

absl::Status LayoutProblem::AddNodes() {
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

// A variable that an earlier graph has placed has only its layout from there; otherwise the node's group gives the
// options.
absl::Status LayoutProblem::FindLayouts(NodeId id) {
  if (Is(id, OpKind::kVariable)) {
    const auto fixed = variables_.find(graph_.node(id).name);
    if (fixed != variables_.end()) {
      fixed_[id] = {Layout{{}, {fixed->second.sbp}}};
      return absl::OkStatus();
    }
  }
  OF_ASSIGN_OR_RETURN(group_[id], finder_.FindGroup(id));
  return absl::OkStatus();
}

// For each input the places of its producer and of the node; last the node's own place, twice.
std::vector<int> LayoutProblem::Pairs(NodeId id) {
  std::vector<int> pairs;
  for (ValueId input : graph_.node(id).inputs) {
    pairs.push_back(pairs_.Pair(place_[graph_.value(input).producer], place_[id]));
  }
  pairs.push_back(pairs_.Pair(place_[id], place_[id]));
  return pairs;
}

std::vector<SearchProblem::Option> LayoutProblem::Options(NodeId id, const OpDef& op, const std::vector<int>& pairs) {
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

int LayoutProblem::Dist(int pair, const NdSbp& sbp) {
  const auto [it, is_new] = dist_ids_.try_emplace({pair, sbp}, static_cast<int>(dists_.size()));
  if (is_new) dists_.emplace_back(pair, sbp);
  return it->second;
}

// --- values and prices ---

// A variable, or its boxed copy here if it is at home elsewhere.
bool LayoutProblem::IsWeight(NodeId id) const {
  if (!Is(id, OpKind::kAnnotation)) return Is(id, OpKind::kVariable);
  const NodeId from = graph_.value(graph_.node(id).inputs[0]).producer;
  return Is(from, OpKind::kVariable) && *graph_.node(from).placement != *graph_.node(id).placement;
}

// Boxing() depends on the type of a value, how often it is boxed, how it travels and whether it is a variable's; the
// rest is in the dists.
void LayoutProblem::AddValues() {
  std::map<std::tuple<int, Rate, CostModel::Travel, bool>, int> kinds;
  const std::vector<std::vector<NodeId>> readers = graph_.Consumers();
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    type_ids_.push_back(costs_.TypeId(graph_.value(id).type));
    travels_.push_back(TravelOf(graph_, id, readers));
    SearchProblem::Value value;
    value.producer = graph_.value(id).producer;
    value.output = graph_.value(id).output;
    const int next = static_cast<int>(kinds.size());
    const auto kind = std::tuple(type_ids_[id], ValueRate(graph_, id, ops_), travels_[id], IsWeight(value.producer));
    value.alike = kinds.try_emplace(kind, next).first->second;
    problem_.values.push_back(std::move(value));
  }
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) problem_.values[inputs[i]].readers.emplace_back(id, static_cast<int>(i));
  }
}

// Seconds of one act.
double LayoutProblem::BoxingOnce(ValueId value, int from, int to) {
  if (from == to) return 0;
  const auto& [pair, sbp] = dists_[to];
  return costs_.Boxing(type_ids_[value], costs_.DistId({pairs_.from(pair), dists_[from].second}),
                       costs_.DistId({pairs_.to(pair), sbp}), travels_[value]);
}

// A weight stays where it is, and tensors come to it: a boxing of it for a reader beside it is avoided.
Cost LayoutProblem::Boxing(ValueId value, int from, int to) {
  const double seconds = BoxingOnce(value, from, to);
  if (seconds >= CostModel::kImpossible) return Cost::Impossible();
  const bool in_place = dists_[from].first == dists_[to].first;
  const bool avoided = from != to && in_place && IsWeight(graph_.value(value).producer);
  const double acts = Acts(ValueRate(graph_, value, ops_));
  return {avoided ? acts : 0, acts * seconds};
}

int LayoutProblem::MadeAs(ValueId value, const std::vector<int>& choice) const {
  const SearchProblem::Value& it = problem_.values[value];
  return problem_.nodes[it.producer].options[choice[it.producer]].outputs[it.output];
}

// --- memory ---

// On each rank as many as on the one with the largest shard.
int64_t LayoutProblem::Bytes(ValueId value, int dist) const {
  const auto& [pair, sbp] = dists_[dist];
  const TensorType& type = graph_.value(value).type;
  return ShardRegion(type.shape, {pairs_.to(pair), sbp}, 0).count() * static_cast<int64_t>(SizeOf(type.dtype));
}

std::vector<MemoryLimit> LayoutProblem::Limits() const {
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

// --- words ---

std::vector<std::string> LayoutProblem::Notes() const {
  std::vector<NodeId> first(finder_.num_groups(), -1);
  std::vector<int> count(finder_.num_groups(), 0);
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    if (group_[id] >= 0 && count[group_[id]]++ == 0) first[group_[id]] = id;
  }
  std::vector<std::string> notes = agreement_notes_;
  for (int group = 0; group < finder_.num_groups(); ++group) {
    const auto [all, considered] = finder_.Considered(group);
    if (count[group] == 0 || considered == all) continue;
    const std::string others = count[group] == 1 ? "" : absl::StrCat(" and ", count[group] - 1, " like it");
    notes.push_back(absl::StrCat(Where(graph_.node(first[group])), others, ": ", considered, " of ", all,
                                 " layouts were considered"));
  }
  return notes;
}

absl::Status LayoutProblem::CheckPossible(const std::vector<int>& choice, std::vector<NodeId>& conflict) {
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    const NodeId producer = problem_.values[id].producer;
    const int from = MadeAs(id, choice);
    for (const auto& [reader, input] : problem_.values[id].readers) {
      const int to = problem_.nodes[reader].options[choice[reader]].inputs[input];
      if (BoxingOnce(id, from, to) < CostModel::kImpossible) continue;
      conflict = {producer, reader};
      const Node &a = graph_.node(producer), &b = graph_.node(reader);
      const absl::Status stays = CheckMeansStay({*a.placement, dists_[from].second}, {*b.placement, dists_[to].second});
      if (!stays.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(b), ": reads ", Where(a), ": ", stays.message(), "; only a mean of them can be"));
      }
      return absl::UnimplementedError(absl::StrCat(
          Where(b), ": no boxing from ", DistType{*a.placement, dists_[from].second}.ToString(), " of ", Where(a),
          " to ", DistType{*b.placement, dists_[to].second}.ToString(), Proposals(id, from, to)));
    }
  }
  return absl::OkStatus();
}

// Up to two layouts in which to read `value` (which has the layout `from`) on the placement of `to`: those that differ
// from `to` in one axis and can be reached by boxing.
std::string LayoutProblem::Proposals(ValueId value, int from, int to) {
  const auto [pair, wanted] = dists_[to];
  const Shape& shape = graph_.value(value).type.shape;
  std::vector<std::string> nearest;
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    std::vector<Sbp> others = {Sbp::Broadcast(), Sbp::Partial(Reduction::kMax), Sbp::Partial(Reduction::kMin)};
    for (int d = 0; d < shape.rank(); ++d) others.push_back(Sbp::Split(d));
    for (const Sbp& other : others) {
      NdSbp near = wanted;
      near[axis] = other;
      if (nearest.size() < 2 && near != wanted && BoxingOnce(value, from, Dist(pair, near)) < CostModel::kImpossible) {
        nearest.push_back(ToString(near));
      }
    }
  }
  return nearest.empty() ? "" : absl::StrCat("; nearest: ", absl::StrJoin(nearest, ", or "));
}

}  // namespace oneflow
