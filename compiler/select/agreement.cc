#include "compiler/select/agreement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "oneflow_core/union_find.h"

namespace oneflow {
namespace {

// Few variables are overwritten together; this only bounds pathological graphs.
constexpr size_t kMaxUnitOptions = 4096;
constexpr size_t kShownSignatures = 6;

class Agreer {
 public:
  explicit Agreer(const AgreementInput& input)
      : graph_(input.graph), ops_(input.ops), nodes_(input.nodes), layouts_(input.layouts) {}

  absl::StatusOr<Agreement> Run(std::vector<NodeId>& conflict) const {
    Agreement agreement;
    for (SearchProblem::Unit& unit : Units()) {
      std::vector<int> options(unit.nodes.size(), -1);
      Extend(unit, 0, options);
      if (unit.options.empty()) {
        conflict = unit.nodes;
        return Disagreement(unit.nodes);
      }
      if (unit.options.size() == kMaxUnitOptions) {
        agreement.notes.push_back(absl::StrCat(Where(graph_.node(unit.nodes[0])),
                                               " and the variables that it overwrites: the first ", kMaxUnitOptions,
                                               " ways to lie together were considered"));
      }
      agreement.units.push_back(std::move(unit));
    }
    return agreement;
  }

 private:
  bool IsVariable(NodeId id) const { return ops_.Is(graph_.node(id).op, OpKind::kVariable); }
  const std::vector<int>& Overwritten(NodeId id) const { return ops_.Find(graph_.node(id).op)->mutates; }

  // In the order of their first nodes, without options.
  std::vector<SearchProblem::Unit> Units() const {
    UnionFind groups(graph_.num_nodes());
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      for (int index : Overwritten(id)) groups.Unite(id, graph_.value(graph_.node(id).inputs[index]).producer);
    }
    std::map<NodeId, SearchProblem::Unit> units;
    for (const bool variables : {false, true}) {
      for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
        if (IsVariable(id) == variables) units[groups.Find(id)].nodes.push_back(id);
      }
    }
    std::vector<SearchProblem::Unit> result;
    for (auto& [first, unit] : units) result.push_back(std::move(unit));
    return result;
  }

  // Extends `options`, fixed for the members before `member`, by all layouts of variables that the nodes which
  // overwrite them allow.
  void Extend(SearchProblem::Unit& unit, size_t member, std::vector<int>& options) const {
    if (unit.options.size() >= kMaxUnitOptions) return;
    if (member == unit.nodes.size()) {
      unit.options.push_back(options);
      return;
    }
    const NodeId node = unit.nodes[member];
    for (size_t option = 0; option < nodes_[node].options.size(); ++option) {
      options[member] = static_cast<int>(option);
      if (!IsVariable(node) || Fits(unit, member, options)) Extend(unit, member + 1, options);
    }
  }

  // Whether the variable lies as all nodes that overwrite it read it.
  bool Fits(const SearchProblem::Unit& unit, size_t variable, const std::vector<int>& options) const {
    const ValueId value = graph_.node(unit.nodes[variable]).outputs[0];
    const int lies = nodes_[unit.nodes[variable]].options[options[variable]].outputs[0];
    for (size_t member = 0; member < variable; ++member) {
      const NodeId node = unit.nodes[member];
      for (int index : Overwritten(node)) {
        if (graph_.node(node).inputs[index] != value) continue;
        if (nodes_[node].options[options[member]].inputs[index] != lies) return false;
      }
    }
    return true;
  }

  absl::Status Disagreement(const std::vector<NodeId>& nodes) const {
    std::vector<std::string> asked, exist;
    const Node* mutating = nullptr;
    size_t most = 0;  // operands that may have the layout of the op
    std::string nearest;
    for (NodeId id : nodes) {
      const Node& node = graph_.node(id);
      if (IsVariable(id)) {
        asked.push_back(MayLie(id));
        continue;
      }
      mutating = &node;
      for (const Layout& layout : layouts_(id)) {
        exist.push_back(layout.ToString());
        const auto [met, changes] = Changes(node, layout);
        if (nearest.empty() || met > most) nearest = changes;
        most = std::max(most, met);
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

  std::string MayLie(NodeId variable) const {
    std::vector<std::string> layouts;
    for (const Layout& layout : layouts_(variable)) layouts.push_back(ToString(layout.outputs[0]));
    const Node& node = graph_.node(variable);
    return absl::StrCat("'", node.name, "' (", node.source, ") may lie as ", absl::StrJoin(layouts, " | "));
  }

  // How many of the variables that `node` overwrites may have the layout `layout`, and what the others would need.
  std::pair<size_t, std::string> Changes(const Node& node, const Layout& layout) const {
    size_t met = 0;
    std::vector<std::string> changes;
    for (int index : ops_.Find(node.op)->mutates) {
      const NodeId variable = graph_.value(node.inputs[index]).producer;
      const std::vector<Layout>& layouts = layouts_(variable);
      if (std::any_of(layouts.begin(), layouts.end(),
                      [&](const Layout& lies) { return lies.outputs[0] == layout.inputs[index]; })) {
        ++met;
      } else {
        changes.push_back(absl::StrCat("'", graph_.node(variable).name, "' as ", ToString(layout.inputs[index])));
      }
    }
    return {met, absl::StrJoin(changes, ", ")};
  }

  const Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<SearchProblem::Node>& nodes_;
  const std::function<const std::vector<Layout>&(NodeId)>& layouts_;
};

}  // namespace

absl::StatusOr<Agreement> FindAgreement(const AgreementInput& input, std::vector<NodeId>& conflict) {
  return Agreer(input).Run(conflict);
}

}  // namespace oneflow
