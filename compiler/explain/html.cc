#include "compiler/explain/html.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/page.h"
#include "compiler/explain/scopes.h"
#include "compiler/explain/words.h"

namespace oneflow {
namespace {

// Writes one graph as JSON. Nodes are numbered without boxings, which become marks on edges.
class GraphJson {
 public:
  GraphJson(const JobFacts& job, const GraphFacts& facts, CostModel& costs)
      : job_(job),
        facts_(facts),
        graph_(facts.boxed),
        costs_(costs),
        scopes_(graph_, *job.ops),
        number_(graph_.num_nodes(), -1) {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (facts_.Is(graph_.node(id), OpKind::kBoxing)) continue;
      number_[id] = static_cast<int>(nodes_.size());
      nodes_.push_back(id);
    }
  }

  std::string Text() {
    std::vector<std::string> nodes, edges, boxings;
    for (NodeId id : nodes_) {
      nodes.push_back(NodeObject(id));
      AddEdges(id, edges);
    }
    for (const BoxingFacts& boxing : facts_.boxings) boxings.push_back(BoxingObject(boxing));
    return absl::StrCat("{\"name\":", JsonString(graph_.name()), ",\"mesh\":", JsonString(MeshText()),
                        ",\"compute\":", Number(facts_.compute_seconds()),
                        ",\"boxing\":", Number(facts_.boxing_seconds()), ",\"bytes\":", facts_.bytes_moved().total(),
                        ",\"links\":", JsonString(LinksText(facts_.bytes_moved())), ",\n\"nodes\":[\n",
                        absl::StrJoin(nodes, ",\n"), "],\n\"edges\":[", absl::StrJoin(edges, ","),
                        "],\n\"boxings\":[\n", absl::StrJoin(boxings, ",\n"), "]}");
  }

 private:
  std::string MeshText() const {
    return absl::StrJoin(job_.options.MeshOf(graph_.name()).mesh().axes(), " x ",
                         [](std::string* out, const Axis& axis) { absl::StrAppend(out, axis.name, " ", axis.size); });
  }

  static std::string Number(double x) { return absl::StrFormat("%.6g", x); }

  static std::string Strings(const std::vector<std::string>& texts) {
    return absl::StrCat(
        "[",
        absl::StrJoin(texts, ",", [](std::string* out, const std::string& text) { out->append(JsonString(text)); }),
        "]");
  }

  // The layout of the first output, as [axis, SBP] per axis of more than one rank.
  std::string Sbps(const Node& node) const {
    std::vector<std::string> pairs;
    if (!node.outputs.empty()) {
      const DistType& dist = *graph_.value(node.outputs[0]).dist;
      for (int a = 0; a < dist.placement.num_axes(); ++a) {
        if (dist.placement.axes()[a].size == 1) continue;
        pairs.push_back(Strings({dist.placement.axes()[a].name, dist.sbp[a].ToString()}));
      }
    }
    return absl::StrCat("[", absl::StrJoin(pairs, ","), "]");
  }

  std::string NodeObject(NodeId id) const {
    const Node& node = graph_.node(id);
    const std::string type = node.outputs.empty() ? "" : graph_.value(node.outputs[0]).type.ToString();
    return absl::StrCat("{\"n\":", JsonString(node.name), ",\"l\":", JsonString(scopes_.Inside(node.name)),
                        ",\"o\":", JsonString(node.op), ",\"p\":", static_cast<int>(PartOf(node.role)),
                        ",\"path\":", Strings(scopes_.Path(node.name)), ",\"t\":", JsonString(type),
                        ",\"d\":", Sbps(node), ",\"c\":", Number(facts_.compute[id]),
                        ",\"r\":", JsonString(absl::StrJoin(node.placement->ranks(), ",")),
                        ",\"x\":", JsonString(ExplainNode(job_, facts_, id, costs_)), "}");
  }

  // [from, to, [boxings on the way]] for every input.
  void AddEdges(NodeId id, std::vector<std::string>& edges) const {
    for (ValueId input : graph_.node(id).inputs) {
      std::vector<int> boxings;
      const ValueId tensor = TensorOf(facts_, input);
      for (ValueId value = input; value != tensor; value = facts_.boxings[boxings.back()].from) {
        boxings.push_back(facts_.boxing_of_value[value]);
      }
      std::reverse(boxings.begin(), boxings.end());
      edges.push_back(absl::StrCat("[", number_[graph_.value(tensor).producer], ",", number_[id], ",[",
                                   absl::StrJoin(boxings, ","), "]]"));
    }
  }

  std::string BoxingObject(const BoxingFacts& boxing) const {
    const ValueId tensor = boxing.tensor;
    return absl::StrCat(
        "{\"i\":", number_[graph_.value(tensor).producer], ",\"n\":", JsonString(TensorName(graph_, tensor)),
        ",\"g\":", JsonString(scopes_.Role(TensorName(graph_, tensor))),
        ",\"t\":", JsonString(graph_.value(tensor).type.ToString()),
        ",\"w\":", JsonString(ChangeText(*graph_.value(boxing.from).dist, *graph_.value(boxing.to).dist)),
        ",\"h\":", JsonString(HowText(facts_, boxing)), ",\"k\":", JsonString(KindText(facts_, boxing)),
        ",\"b\":", boxing.bytes_per_step().total(), ",\"m\":", JsonString(LinksText(boxing.bytes_per_step())),
        ",\"s\":", Number(boxing.seconds_per_step()), ",\"a\":", boxing.acts, "}");
  }

  const JobFacts& job_;
  const GraphFacts& facts_;
  const Graph& graph_;
  CostModel& costs_;
  const Scopes scopes_;
  std::vector<int> number_;  // by node
  std::vector<NodeId> nodes_;
};

}  // namespace

std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || c == '<' || c == '>' || c == '&') {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ExplainAsHtml(const JobFacts& job) {
  CostModel costs(job.topology);
  std::vector<std::string> graphs;
  for (const GraphFacts& facts : job.graphs) graphs.push_back(GraphJson(job, facts, costs).Text());
  return GraphPage(
      absl::StrCat("{\"job\":", JsonString(job.options.job), ",\"graphs\":[", absl::StrJoin(graphs, ",\n"), "]}"));
}

}  // namespace oneflow
