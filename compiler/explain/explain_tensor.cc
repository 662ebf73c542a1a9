// One tensor, or one node with all its outputs.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/lookup.h"
#include "compiler/explain/other_layouts.h"
#include "compiler/explain/precision.h"
#include "compiler/explain/words.h"
#include "compiler/local_training.h"
#include "compiler/passes/passes.h"
#include "compiler/select/select_sbp.h"
#include "sbp/signatures.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

constexpr size_t kMaxOthers = 8;  // layouts that are listed; the rest is dearer
constexpr size_t kMaxListed = 60;

class NodeText {
 public:
  // `prices`: selection's prices of the node's layouts; may be empty.
  NodeText(const JobFacts& job, const GraphFacts& facts, NodeId node, CostModel& costs,
           std::vector<LayoutPrice> prices = {})
      : job_(job),
        facts_(facts),
        graph_(facts.boxed),
        id_(node),
        node_(graph_.node(node)),
        placed_id_(facts.placed_of[node]),
        costs_(costs),
        prices_(std::move(prices)),
        consumers_(graph_.Consumers()) {}

  void Tensor(int output) {
    const ValueId value = node_.outputs[output];
    Title(value);
    Lies(value);
    Gradient(value);
    Readers(value);
    MovedTo(value);
  }

  void Maker() {
    if (node_.outputs.empty()) {
      absl::StrAppend(&out_, "node '", node_.name, "' of graph '", graph_.name(), "': ", Name(PartOf(node_.role)),
                      ", makes no tensor\n");
    }
    absl::StrAppend(&out_, kMadeBy, node_.op, " '", node_.name, "'");
    if (!node_.source.empty()) absl::StrAppend(&out_, " at ", node_.source);
    absl::StrAppend(&out_, ", on ", node_.placement->ToString());
    if (facts_.compute[id_] > 0) absl::StrAppend(&out_, ", ", SecondsText(facts_.compute[id_]), " of a step");
    absl::StrAppend(&out_, "\n");
    if (const std::string text = PrecisionText(job_, graph_, node_); !text.empty()) Line("computed in", text);
    Parts();
    SignatureOfEachAxis();
    Inputs();
    Others();
  }

  std::string Take() { return std::move(out_); }

 private:
  // Labels are a column of their own.
  void Line(absl::string_view label, absl::string_view text) {
    absl::StrAppendFormat(&out_, "  %-12s  %s\n", std::string(label), std::string(text));
  }

  void Title(ValueId value) {
    absl::StrAppend(&out_, "tensor '", TensorName(graph_, value), "' of graph '", graph_.name(),
                    "': ", graph_.value(value).type.ToString(), ", ", Name(PartOf(node_.role)));
    if (node_.role == Role::kRecompute) {
      absl::StrAppend(&out_, ", '", graph_.node(node_.forward).name, "' computed again");
    }
    if (facts_.micro_batches > 1) {
      absl::StrAppend(&out_, ValueRate(graph_, value, *job_.ops) == Rate::kStep
                                 ? ", once per step"
                                 : absl::StrCat(", ", facts_.micro_batches, " times per step"));
    }
    absl::StrAppend(&out_, "\n");
  }

  void Lies(ValueId value) {
    const DistType& dist = *graph_.value(value).dist;
    const Shape& shape = graph_.value(value).type.shape;
    Line("lies as", absl::StrCat(ToString(dist.sbp), " on ", dist.placement.ToString()));
    for (int a = 0; a < dist.placement.num_axes(); ++a) {
      const Axis& axis = dist.placement.axes()[a];
      std::string meaning = "a copy on every rank";
      if (dist.sbp[a].is_split()) {
        const int dim = dist.sbp[a].dim();
        meaning = absl::StrCat("dimension ", dim, " of ", shape[dim], " in ", axis.size, " parts");
      } else if (dist.sbp[a].is_mean()) {
        meaning = "a tensor of its own on every rank, which trains by itself";
      } else if (dist.sbp[a].is_partial()) {
        meaning = absl::StrCat("an addend on every rank");
        if (dist.sbp[a].reduction() != Reduction::kSum) meaning = "a candidate on every rank";
      }
      const std::string why = WhyItLies(value, a, axis.name);
      Line("", absl::StrFormat("%s  %-6s  %s; %s", axis.name, dist.sbp[a].ToString(), meaning, why));
    }
    OnEachRank(graph_.value(value).type, dist);
  }

  std::string WhyItLies(ValueId value, int axis, absl::string_view axis_name) const {
    const ValueId placed = facts_.placed_value_of[value];
    if (placed < 0) return WhatItIsMadeOf();
    const Origin& origin = facts_.origins[placed][axis];
    std::string why = OriginText(facts_, origin, axis_name);
    if (origin.yielded) {
      absl::StrAppend(&why, "; what was asked for, ", ToString(facts_.placed.value(placed).hint), ", had to yield");
    }
    return why;
  }

  // Nodes made after selection follow the nodes that they are made of.
  std::string WhatItIsMadeOf() const {
    if (node_.inputs.empty()) return "as its readers need it";
    return absl::StrCat("follows '", TensorName(graph_, TensorOf(facts_, node_.inputs[0])), "'");
  }

  void OnEachRank(const TensorType& type, const DistType& dist) {
    TensorType least, most;
    for (int i = 0; i < dist.placement.size(); ++i) {
      const TensorType shard{type.dtype, ShardShape(type.shape, dist, i)};
      if (i == 0 || shard.num_bytes() < least.num_bytes()) least = shard;
      if (i == 0 || shard.num_bytes() > most.num_bytes()) most = shard;
    }
    const bool even = least == most;
    Line("on each rank", even ? absl::StrCat(most.ToString(), ", ", BytesText(most.num_bytes()))
                              : absl::StrCat(least.ToString(), " to ", most.ToString(), ", ",
                                             BytesText(least.num_bytes()), " to ", BytesText(most.num_bytes())));
  }

  void Gradient(ValueId value) {
    const ValueId gradient = facts_.gradients[value];
    if (gradient < 0) return;
    const std::string forward = ToString(graph_.value(value).dist->sbp);
    const std::string backward = ToString(graph_.value(gradient).dist->sbp);
    Line("gradient", absl::StrCat("'", TensorName(graph_, gradient), "': forward ", forward, ", backward ", backward,
                                  " as it is made"));
  }

  // The annotations of the placed graph behind which `reader`, or a part of it before fusion, reads `tensor`, in words.
  // Nobody could annotate nodes that were made later.
  std::string AskedFor(NodeId reader, ValueId tensor) const {
    const ValueId placed = facts_.placed_value_of[tensor];
    std::string text;
    if (placed >= 0) Annotations(placed, reader, text);
    return text;
  }

  // Follows the `to` nodes that read `value`; returns whether `reader` reads the last of them.
  bool Annotations(ValueId value, NodeId reader, std::string& text) const {
    for (NodeId id : facts_.placed_readers[value]) {
      const Node& node = facts_.placed.node(id);
      if (!facts_.Is(node, OpKind::kAnnotation)) {
        if (IsOrHas(graph_.node(reader), node.serial)) return true;
        continue;
      }
      std::string further;
      if (!Annotations(node.outputs[0], reader, further)) continue;
      absl::StrAppend(&text, ", asked for as ", ToString(facts_.placed.value(node.outputs[0]).hint));
      if (!node.source.empty()) absl::StrAppend(&text, " at ", node.source);
      text += further;
      return true;
    }
    return false;
  }

  static bool IsOrHas(const Node& node, int32_t serial) {
    return node.serial == serial || std::count(node.parts.begin(), node.parts.end(), serial) > 0;
  }

  // Calls visit(reader) for every op that reads `value` itself.
  template <typename Visit>
  void ForEachReader(ValueId value, const Visit& visit) const {
    NodeId last = -1;
    for (NodeId reader : consumers_[value]) {
      if (!facts_.Is(graph_.node(reader), OpKind::kBoxing) && reader != last) visit(reader);
      last = reader;
    }
  }

  std::string ReaderText(NodeId reader, ValueId tensor) const {
    const Node& node = graph_.node(reader);
    return absl::StrCat("'", node.name, "' ", OpAndSource(node), AskedFor(reader, tensor));
  }

  void Readers(ValueId value) {
    bool first = true;
    ForEachReader(value, [&](NodeId reader) {
      Line(first ? "read by" : "", absl::StrCat(ReaderText(reader, value), ", as it lies"));
      first = false;
    });
  }

  void MovedTo(ValueId value) {
    for (const BoxingFacts& boxing : facts_.boxings) {
      if (boxing.tensor != value) continue;
      const DistType& from = *graph_.value(boxing.from).dist;
      const DistType& to = *graph_.value(boxing.to).dist;
      Line("boxed",
           absl::StrCat(ChangeText(from, to), ": ", HowText(facts_, boxing), ", ", SecondsText(boxing.seconds),
                        boxing.acts == 1 ? ", once per step" : absl::StrCat(", ", boxing.acts, " times per step")));
      for (const BoxingStepFacts& step : boxing.steps) {
        const DistType& result = *graph_.value(graph_.node(step.node).outputs[0]).dist;
        Line("", absl::StrCat("  ", HowText(facts_, step), " to ", ToString(result.sbp), ": ", LinksText(step.bytes),
                              ", transfers ", SecondsText(step.seconds)));
      }
      ForEachReader(boxing.to, [&](NodeId reader) { Line("", absl::StrCat("  read by ", ReaderText(reader, value))); });
    }
  }

  // Whether it is another op than the one that selection saw, by more than how a weight lies.
  bool IsFused() const {
    const std::string& before = facts_.placed.node(placed_id_).op;
    return !node_.parts.empty() && before != node_.op && job_.ops->Find(before)->packed != node_.op;
  }

  // The user's ops, if there are several.
  void Parts() {
    const auto found = facts_.parts.find(id_);
    if (found == facts_.parts.end() || found->second.size() < 2) return;
    for (size_t i = 0; i < found->second.size(); ++i) {
      const Node& part = facts_.placed.node(found->second[i]);
      Line(i == 0 ? "made of" : "", absl::StrCat("'", part.name, "' ", OpAndSource(part)));
    }
  }

  void SignatureOfEachAxis() {
    if (node_.inputs.empty() && node_.outputs.size() == 1) return;  // says no more than how the tensor lies
    const Layout chosen = NodeView::LayoutOf(graph_, node_);
    for (int a = 0; a < node_.placement->num_axes(); ++a) {
      const Axis& axis = node_.placement->axes()[a];
      Signature used;
      for (const NdSbp& sbp : chosen.inputs) used.inputs.push_back(sbp[a]);
      for (const NdSbp& sbp : chosen.outputs) used.outputs.push_back(sbp[a]);
      std::string reason;
      if (const auto all = Signatures1d(*job_.ops, graph_, id_, axis.size); all.ok()) {
        const auto it = std::find(all->begin(), all->end(), used);
        if (it != all->end()) reason = it->reason;
      }
      Line("", absl::StrCat(axis.name, "  ", used.ToString(), reason.empty() ? "" : absl::StrCat("  (", reason, ")")));
    }
  }

  void Inputs() {
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const ValueId tensor = TensorOf(facts_, node_.inputs[i]);
      const DistType& made = *graph_.value(tensor).dist;
      const DistType& read = *graph_.value(node_.inputs[i]).dist;
      std::string text = absl::StrCat("'", TensorName(graph_, tensor), "' ", graph_.value(tensor).type.ToString(), " ");
      if (made == read) {
        absl::StrAppend(&text, ToString(made.sbp), ", as it lies");
      } else {
        absl::StrAppend(&text, ChangeText(made, read));
        const int boxing = facts_.boxing_of_value[node_.inputs[i]];
        if (boxing >= 0) absl::StrAppend(&text, ": ", HowText(facts_, facts_.boxings[boxing]));
      }
      Line(i == 0 ? "reads" : "", absl::StrCat(text, AskedFor(id_, tensor)));
    }
  }

  void Others() {
    if (placed_id_ < 0) {
      Line("other ways", "none: it was made after layouts were chosen");
      return;
    }
    if (IsFused()) {
      const std::string& last = facts_.placed.node(placed_id_).op;
      Line("other ways", absl::StrCat("its parts, of which '", last, "' is the last, were laid out one by one"));
      return;
    }
    std::vector<Row> rows = Rows();
    if (rows.empty()) {
      if (facts_.candidates[placed_id_].size() == 1) Line("other ways", "none that annotations and signatures leave");
      return;
    }
    Line("other ways",
         absl::StrCat(rows.size(), ", and what a step would take more if ",
                      prices_.empty() ? "all around stays as it is" : "the rest adapts, and if it stays as it is"));
    for (size_t i = 0; i < std::min(rows.size(), kMaxOthers); ++i) {
      std::string text;
      if (!prices_.empty()) text = absl::StrFormat("%-10s  ", DifferenceText(rows[i].adapted));
      absl::StrAppendFormat(&text, "%-10s  %s", rows[i].stays, rows[i].layout->ToString());
      if (rows[i].moves >= 0) absl::StrAppend(&text, ", moving weight '", facts_.placed.node(rows[i].moves).name, "'");
      Line("", text);
    }
  }

  // Another layout and its two prices.
  struct Row {
    const Layout* layout;
    double adapted = 0;
    std::string stays = "-";
    NodeId moves = -1;
  };

  std::vector<Row> Rows() {
    others_ = OtherLayouts(facts_, *job_.ops, placed_id_, costs_);
    std::vector<Row> rows;
    if (prices_.empty()) {
      for (const OtherLayout& other : others_) {
        rows.push_back({&other.layout, 0, DifferenceText(other.seconds), other.moves});
      }
      return rows;
    }
    const Layout& chosen = facts_.chosen[placed_id_];
    double seconds = 0;
    for (const LayoutPrice& price : prices_) {
      if (price.layout == chosen) seconds = price.seconds;
    }
    for (const LayoutPrice& price : prices_) {
      if (price.layout == chosen) continue;
      Row row{&price.layout, price.seconds - seconds};
      for (const OtherLayout& other : others_) {
        if (!(other.layout == price.layout)) continue;
        row.stays = DifferenceText(other.seconds);
        row.moves = other.moves;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  static constexpr absl::string_view kMadeBy = "  made by       ";

  const JobFacts& job_;
  const GraphFacts& facts_;
  const Graph& graph_;
  const NodeId id_;
  const Node& node_;
  const NodeId placed_id_;  // -1 if it was made after selection
  CostModel& costs_;
  const std::vector<LayoutPrice> prices_;
  std::vector<OtherLayout> others_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::string out_;
};

// The node of that name, which may be part of the place's node.
const Node& NamedNode(const JobFacts& job, const TensorPlace& place) {
  const GraphFacts& facts = job.graphs[place.graph];
  return place.part < 0 ? facts.boxed.node(place.node) : facts.placed.node(place.part);
}

std::string ListOf(const JobFacts& job, absl::string_view prefix, const std::vector<TensorPlace>& places) {
  std::string out = absl::StrCat(places.size(), " nodes begin with '", prefix, "'\n");
  size_t width = 0;
  for (const TensorPlace& place : places) width = std::max(width, NamedNode(job, place).name.size());
  for (size_t i = 0; i < std::min(places.size(), kMaxListed); ++i) {
    const Graph& graph = job.graphs[places[i].graph].boxed;
    const Node& named = NamedNode(job, places[i]);
    absl::StrAppendFormat(&out, "  %-*s  %s", static_cast<int>(width), named.name, named.op);
    if (places[i].part >= 0) {
      absl::StrAppend(&out, "  part of '", graph.node(places[i].node).name, "'\n");
      continue;
    }
    for (ValueId output : named.outputs) {
      absl::StrAppend(&out, "  ", graph.value(output).type.ToString(), ToString(graph.value(output).dist->sbp));
    }
    absl::StrAppend(&out, "\n");
  }
  if (places.size() > kMaxListed) absl::StrAppend(&out, "  and ", places.size() - kMaxListed, " more\n");
  return out;
}

// The text before a tensor that was found by the name of its annotation, and behind one that other graphs have too.
std::string NoteOnAnnotations(const GraphFacts& facts, const TensorPlace& place) {
  std::string out;
  for (NodeId id : place.annotations) {
    const Node& node = facts.placed.node(id);
    absl::StrAppend(&out, "'", node.name, "' asks for ", ToString(facts.placed.value(node.outputs[0]).hint));
    if (!node.source.empty()) absl::StrAppend(&out, " at ", node.source);
    absl::StrAppend(&out, "; what it asks of is\n");
  }
  return out;
}

// The text before the op that has the asked one as a part.
std::string NoteOnPart(const GraphFacts& facts, const TensorPlace& place) {
  if (place.part < 0) return "";
  const Node& part = facts.placed.node(place.part);
  return absl::StrCat("'", part.name, "' ", OpAndSource(part), " is computed as part of '",
                      facts.boxed.node(place.node).name, "'\n");
}

std::string NoteOnOtherGraphs(const JobFacts& job, const std::vector<TensorPlace>& places) {
  std::string out;
  for (size_t i = 1; i < places.size(); ++i) {
    const Graph& graph = job.graphs[places[i].graph].boxed;
    if (places[i].output < 0) continue;
    const Value& value = graph.value(graph.node(places[i].node).outputs[places[i].output]);
    absl::StrAppend(&out, "also in graph '", graph.name(), "': ", value.type.ToString(), " ", value.dist->ToString(),
                    "\n");
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> ExplainTensor(const JobFacts& job, absl::string_view name) {
  absl::StatusOr<std::vector<TensorPlace>> places = FindTensor(job, name);
  if (absl::IsNotFound(places.status())) {
    std::vector<TensorPlace> beginning = TensorsBeginningWith(job, name);
    if (beginning.size() > 1) return ListOf(job, name, beginning);
    if (beginning.size() == 1) places = std::move(beginning);
  }
  OF_RETURN_IF_ERROR(places.status());
  const TensorPlace& place = places->front();
  const GraphFacts& facts = job.graphs[place.graph];
  CostModel costs(job.topology);
  const NodeId placed = facts.placed_of[place.node];
  std::vector<LayoutPrice> prices;
  if (placed >= 0) {
    const PassContext context{job.options, *job.ops, facts.fixed, job.topology};
    OF_ASSIGN_OR_RETURN(const OwnAxis own, OwnAxisOf(job.options, facts.placed));
    const SelectOptions options{facts.micro_batches, job.options.variable_bytes_per_device,
                                job.options.memory_bytes_per_device, RecomputedPieces(facts.placed, context), own};
    OF_ASSIGN_OR_RETURN(prices, ExplainSelection(facts.placed, *job.ops, job.topology, facts.fixed, options, placed));
  }
  NodeText text(job, facts, place.node, costs, std::move(prices));
  if (place.output >= 0) text.Tensor(place.output);
  text.Maker();
  return absl::StrCat(NoteOnAnnotations(facts, place), NoteOnPart(facts, place), text.Take(),
                      NoteOnOtherGraphs(job, *places));
}

std::string ExplainNode(const JobFacts& job, const GraphFacts& facts, NodeId node, CostModel& costs) {
  NodeText text(job, facts, node, costs);
  for (size_t output = 0; output < facts.boxed.node(node).outputs.size(); ++output)
    text.Tensor(static_cast<int>(output));
  text.Maker();
  return text.Take();
}

}  // namespace oneflow
