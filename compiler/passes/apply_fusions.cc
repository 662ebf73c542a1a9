#include "compiler/passes/apply_fusions.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/node_view.h"
#include "oneflow_core/fused_form.h"

namespace oneflow {
namespace {

struct Match {
  const Fusion* fusion;
  std::vector<NodeId> parts;              // in the order of the row
  std::map<std::string, ValueId> values;  // by their names in the row
  Node whole;                             // what the last part becomes
  NodeId last() const { return parts.back(); }
};

class RowMatcher {
 public:
  RowMatcher(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops), readers_(graph.Consumers()) {}

  // The match of the row whose last part is node `last`, if there is one, before readers are examined.
  std::optional<Match> Find(const Fusion& row, NodeId last) {
    if (graph_.node(last).op != row.parts.back().op) return std::nullopt;
    Match match{&row, std::vector<NodeId>(row.parts.size(), last)};
    if (!Bind(row.parts.back(), last, match)) return std::nullopt;
    for (size_t i = row.parts.size() - 1; i-- > 0;) {
      match.parts[i] = Maker(row.parts[i], match);
      if (match.parts[i] < 0) match.parts[i] = Reader(row.parts[i], match);
      if (!Bind(row.parts[i], match.parts[i], match) || !SameWork(match.parts[i], last, row)) return std::nullopt;
    }
    for (const PatternCall& call : row.given) {
      const NodeId given = Maker(call, match);
      if (!Bind(call, given, match) || !SameAttributes(AttributesOf(call, given), match)) return std::nullopt;
      if (!HasWhatIsFixed(call, given, match)) return std::nullopt;
    }
    for (size_t i = 0; i < row.parts.size(); ++i) {
      if (!HasWhatIsFixed(row.parts[i], match.parts[i], match)) return std::nullopt;
    }
    return MakeWhole(match) && Takes(match) ? std::optional(std::move(match)) : std::nullopt;
  }

 private:
  // The maker of the first known output of the call.
  NodeId Maker(const PatternCall& call, const Match& match) const {
    for (const std::string& name : call.outputs) {
      const auto known = match.values.find(name);
      if (known != match.values.end()) return graph_.value(known->second).producer;
    }
    return -1;
  }

  // The first node that is such a call of a known value; -1 if there is none.
  NodeId Reader(const PatternCall& call, const Match& match) const {
    for (const std::string& name : call.inputs) {
      const auto known = match.values.find(name);
      if (known == match.values.end()) continue;
      for (const NodeId reader : readers_[known->second]) {
        Match bound = match;
        if (Bind(call, reader, bound)) return reader;
      }
    }
    return -1;
  }

  // Whether the node is such a call; then its values get the call's names.
  bool Bind(const PatternCall& call, NodeId id, Match& match) const {
    if (id < 0) return false;
    const Node& node = graph_.node(id);
    return node.op == call.op && BindAll(call.inputs, node.inputs, match) && BindAll(call.outputs, node.outputs, match);
  }
  static bool BindAll(const std::vector<std::string>& names, const std::vector<ValueId>& values, Match& match) {
    if (names.size() != values.size()) return false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (match.values.emplace(names[i], values[i]).first->second != values[i]) return false;
    }
    return true;
  }

  // Nodes of one act, on the same ranks and, except for a row across roles, in the same section of a schedule.
  bool SameWork(NodeId a_id, NodeId b_id, const Fusion& row) const {
    const Node &a = graph_.node(a_id), &b = graph_.node(b_id);
    if (a.placement != b.placement || a.rate != b.rate || a.chunk != b.chunk) return false;
    if (row.row->across_roles) return true;
    if (row.row->of_sums) return PartOf(a.role) == PartOf(b.role);  // a gradient of a weight and its reduction
    const bool of_weights = a.role == Role::kWeightGradient, as_b = b.role == Role::kWeightGradient;
    return of_weights == as_b && PartOf(a.role) == PartOf(b.role) &&
           (a.role == Role::kReduction) == (b.role == Role::kReduction);
  }

  // The attributes of a node that the whole keeps.
  AttrMap AttributesOf(const PatternCall& call, NodeId id) const {
    const AttrMap& all = graph_.node(id).attrs;
    if (!call.attributes.has_value()) return AttributesOfPart(call, all, {});
    AttrMap attrs;
    for (const PatternAttribute& attribute : *call.attributes) {
      const auto it = all.items().find(attribute.name);
      if (it != all.items().end() && !attribute.in_whole.empty()) attrs.Set(attribute.in_whole, it->second);
    }
    return attrs;
  }

  // Whether what the row fixes is so in the node, as far as the node says anything.
  bool HasWhatIsFixed(const PatternCall& call, NodeId id, const Match& match) const {
    if (!call.attributes.has_value()) return true;
    TypesByName types;
    for (const auto& [name, value] : match.values) types[name] = graph_.value(value).type;
    const AttrMap fixed = AttributesOfPart(call, {}, types);
    const AttrMap& own = graph_.node(id).attrs;
    return std::all_of(fixed.items().begin(), fixed.items().end(), [&](const auto& item) {
      const auto it = own.items().find(item.first);
      return it == own.items().end() || it->second == item.second;
    });
  }

  // Whether the attributes agree with those of the parts so far.
  bool SameAttributes(const AttrMap& attrs, const Match& match) const {
    for (size_t i = 0; i < match.parts.size(); ++i) {
      const AttrMap of_part = AttributesOf(match.fusion->parts[i], match.parts[i]);
      for (const auto& [name, value] : of_part.items()) {
        const auto other = attrs.items().find(name);
        if (other != attrs.items().end() && other->second != value) return false;
      }
    }
    return true;
  }

  // The last part as the whole; false if the parts' attributes contradict one another.
  bool MakeWhole(Match& match) const {
    const PatternCall& call = match.fusion->whole;
    match.whole = graph_.node(match.last());
    match.whole.op = call.op;
    match.whole.attrs = {};
    match.whole.inputs.clear();
    match.whole.outputs.clear();
    const auto is_forward = [&](NodeId part) { return IsForward(graph_.node(part)); };
    if (!is_forward(match.last()) && std::any_of(match.parts.begin(), match.parts.end(), is_forward)) {
      match.whole.role = Role::kFusedGradient;
      match.whole.forward = -1;  // it serves its parts
    }
    const auto has_part = [&](Role role) {
      return std::any_of(match.parts.begin(), match.parts.end(),
                         [&](NodeId part) { return graph_.node(part).role == role; });
    };
    if (has_part(Role::kInputGradient) && has_part(Role::kWeightGradient)) match.whole.role = Role::kFusedGradient;
    for (const std::string& name : call.inputs) match.whole.inputs.push_back(match.values.at(name));
    for (const std::string& name : call.outputs) match.whole.outputs.push_back(match.values.at(name));
    for (size_t i = 0; i < match.parts.size(); ++i) {
      const Node& part = graph_.node(match.parts[i]);
      const AttrMap attrs = AttributesOf(match.fusion->parts[i], match.parts[i]);
      if (!SameAttributes(attrs, match)) return false;
      for (const auto& [name, value] : attrs.items()) match.whole.attrs.Set(name, value);
      match.whole.after.insert(match.whole.after.end(), part.after.begin(), part.after.end());
      if (match.parts[i] != match.last()) Absorb(part, match.whole);
    }
    std::sort(match.whole.after.begin(), match.whole.after.end());
    match.whole.after.erase(std::unique(match.whole.after.begin(), match.whole.after.end()), match.whole.after.end());
    if (!match.fusion->row->composite) match.whole.attrs.Set("made_of", match.fusion->made_of);
    return true;
  }

  // Whether the op of the whole gives the values of the parts and reads none of them: two names of a row may stand for
  // one value.
  bool Takes(const Match& match) const {
    for (const ValueId input : match.whole.inputs) {
      const NodeId maker = graph_.value(input).producer;
      if (std::find(match.parts.begin(), match.parts.end(), maker) != match.parts.end()) return false;
    }
    const OpDef& op = *ops_.Find(match.whole.op);
    return op.forms == nullptr ? TakesAsComposite(op, match) : TakesAsParts(*op.forms, match);
  }

  // A fused op computes on shards what its parts compute there, so it has their layouts; and the types of all values
  // between them, or it would round otherwise.
  bool TakesAsParts(const FusedForms& forms, const Match& match) const {
    std::vector<TensorType> inputs;
    for (const ValueId id : match.whole.inputs) inputs.push_back(graph_.value(id).type);
    const auto is_row = [&](const FusedForm& form) { return form.fusion == match.fusion; };
    const auto form = std::find_if(forms.forms.begin(), forms.forms.end(), is_row);
    const absl::StatusOr<TypesByName> types = InferForm(*form, {inputs, match.whole.attrs});
    return types.ok() && std::all_of(match.values.begin(), match.values.end(), [&](const auto& value) {
             return types->at(value.first) == graph_.value(value.second).type;
           });
  }

  // The whole is an op of its own, which may not have the layouts of its parts.
  bool TakesAsComposite(const OpDef& op, const Match& match) const {
    const NodeView view(graph_, match.whole, op);
    const auto types = op.infer({view.input_types(), match.whole.attrs});
    return types.ok() && *types == view.output_types() && view.CheckLayout(view.layout(), *match.whole.placement).ok();
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const std::vector<std::vector<NodeId>> readers_;
};

// The consistent matches of a graph.
class PatternFuser {
 public:
  PatternFuser(Graph& graph, const OpRegistry& ops, const FusionFilter& filter)
      : graph_(graph), ops_(ops), filter_(filter), readers_(graph.Consumers()) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      waited_for_.insert(graph.node(id).after.begin(), graph.node(id).after.end());
    }
  }

  // Fuses what can be fused now; returns whether there was anything.
  bool Run() {
    FindMatches();
    DropWhatIsReadOutside();
    DropWhatOverlaps();
    DropWhatIsReadOutside();
    const std::vector<NodeId> ends = Ends();
    for (const Match& match : matches_) Apply(match);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const auto fused = fused_.find(graph_.node(id).forward);
      if (fused == fused_.end()) continue;
      graph_.node(id).forward = IsForward(graph_.node(fused->second)) ? fused->second : -1;
    }
    if (!matches_.empty()) graph_.Rebuild(LeadingTo(ends));
    return !matches_.empty();
  }

 private:
  // The ends of the computation: losses, nodes with effects, and nodes whose outputs nobody reads.
  std::vector<NodeId> Ends() const {
    std::vector<NodeId> ends;
    for (const ValueId loss : graph_.losses) ends.push_back(graph_.value(loss).producer);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const std::vector<ValueId>& outputs = graph_.node(id).outputs;
      const OpDef& op = *ops_.Find(graph_.node(id).op);
      const bool unread = std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return readers_[v].empty(); });
      if (unread || op.has_effect || !op.mutates.empty()) ends.push_back(id);
    }
    return ends;
  }

  // By node: whether one of `ends` needs it. Parts are not needed any more, nor nodes that only they read.
  std::vector<bool> LeadingTo(std::vector<NodeId> ends) const {
    std::vector<bool> needed(graph_.num_nodes(), false);
    while (!ends.empty()) {
      const NodeId id = ends.back();
      ends.pop_back();
      if (needed[id]) continue;
      needed[id] = true;
      for (const ValueId value : graph_.node(id).inputs) ends.push_back(graph_.value(value).producer);
      for (const ValueId value : graph_.node(id).after) ends.push_back(graph_.value(value).producer);
    }
    return needed;
  }

  void FindMatches() {
    RowMatcher matcher(graph_, ops_);
    for (const Fusion& row : Fusions()) {
      if (!filter_(*row.row)) continue;
      for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
        std::optional<Match> match = matcher.Find(row, id);
        if (match.has_value()) matches_.push_back(*std::move(match));
      }
    }
  }

  static bool Contains(const std::vector<ValueId>& values, ValueId value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }
  // Whether the whole gives any of the part's values.
  bool IsKept(NodeId part, const Match& match) const {
    const std::vector<ValueId>& outputs = graph_.node(part).outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](ValueId value) { return Contains(match.whole.outputs, value); });
  }

  // Repeats until all remaining matches hold: a dropped match may have been the only one to read a part of another.
  void DropWhatIsReadOutside() {
    for (size_t before = matches_.size() + 1; matches_.size() < before;) {
      before = matches_.size();
      std::set<NodeId> parts;
      std::set<std::pair<NodeId, NodeId>> together;  // two parts of one match
      for (const Match& match : matches_) {
        parts.insert(match.parts.begin(), match.parts.end());
        for (const NodeId part : match.parts) {
          for (const NodeId other : match.parts) together.emplace(part, other);
        }
      }
      const auto fails = [&](const Match& match) { return !Holds(match, parts, together); };
      matches_.erase(std::remove_if(matches_.begin(), matches_.end(), fails), matches_.end());
    }
  }

  // Whether values that disappear are read only within matches of their part, or by a whole that is no such match, and
  // no path leads from a kept value back to a part.
  bool Holds(const Match& match, const std::set<NodeId>& parts,
             const std::set<std::pair<NodeId, NodeId>>& together) const {
    std::set<NodeId> between;  // what reads a kept value and lies before the last part, where the whole will lie
    for (const NodeId part : match.parts) {
      for (const ValueId value : graph_.node(part).outputs) {
        const bool kept = Contains(match.whole.outputs, value);
        if (!kept && Contains(graph_.losses, value)) return false;
        if (waited_for_.count(value) > 0 && (!kept || part != match.last())) return false;
        for (const NodeId reader : readers_[value]) {
          if (std::find(match.parts.begin(), match.parts.end(), reader) != match.parts.end()) continue;
          if (!kept && together.count({part, reader}) == 0) return false;
          if (kept && reader < match.last()) between.insert(reader);
        }
      }
    }
    return !LeadsToPart(std::move(between), match.last(), parts);
  }

  // Whether one of `nodes`, all before `last`, leads to one of `parts` that is no later. If this holds for no match, no
  // two wholes wait for one another: in a cycle of them, the one whose last part is the latest would lead to a part of
  // another.
  bool LeadsToPart(std::set<NodeId> nodes, NodeId last, const std::set<NodeId>& parts) const {
    for (auto it = nodes.begin(); it != nodes.end(); ++it) {  // in ascending order, as readers have greater ids
      if (parts.count(*it) > 0) return true;
      for (const ValueId value : graph_.node(*it).outputs) {
        if (waited_for_.count(value) > 0) return true;
        for (const NodeId reader : readers_[value]) {
          if (reader <= last) nodes.insert(reader);
        }
      }
    }
    return false;
  }

  // A node that gives a value of a whole is in one match only.
  void DropWhatOverlaps() {
    std::set<NodeId> taken, shared;
    const auto overlaps = [&](const Match& match) {
      const auto clashes = [&](NodeId part) {
        return taken.count(part) > 0 || (IsKept(part, match) && shared.count(part) > 0);
      };
      if (std::any_of(match.parts.begin(), match.parts.end(), clashes)) return true;
      for (const NodeId part : match.parts) (IsKept(part, match) ? taken : shared).insert(part);
      return false;
    };
    std::vector<Match> left;
    for (Match& match : matches_) {
      if (!overlaps(match)) left.push_back(std::move(match));
    }
    matches_ = std::move(left);
  }

  // The last part becomes the whole; the others no longer give its values, so nothing reads them.
  void Apply(const Match& match) {
    for (const NodeId part : match.parts) {
      std::vector<ValueId>& outputs = graph_.node(part).outputs;
      const auto is_kept = [&](ValueId value) { return Contains(match.whole.outputs, value); };
      outputs.erase(std::remove_if(outputs.begin(), outputs.end(), is_kept), outputs.end());
    }
    graph_.node(match.last()) = match.whole;
    for (size_t i = 0; i < match.whole.outputs.size(); ++i) {
      Value& value = graph_.value(match.whole.outputs[i]);
      value.producer = match.last();
      value.output = static_cast<int>(i);
    }
    for (const NodeId part : match.parts) fused_.emplace(part, match.last());
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const FusionFilter& filter_;
  const std::vector<std::vector<NodeId>> readers_;
  std::set<ValueId> waited_for_;  // values after which nodes come that do not read them
  std::vector<Match> matches_;
  std::map<NodeId, NodeId> fused_;  // by part: the whole, which serves and is served in its place
};

}  // namespace

bool ApplyFusions(Graph& graph, const OpRegistry& ops, const FusionFilter& filter) {
  return PatternFuser(graph, ops, filter).Run();
}

}  // namespace oneflow
