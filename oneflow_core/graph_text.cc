#include "oneflow_core/graph_text.h"

#include <map>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/attr_text.h"
#include "oneflow_core/line_reader.h"
#include "oneflow_core/verify.h"

namespace oneflow {
namespace {

constexpr const char* kRateNames[] = {"micro-batch", "step"};

// --- writing ---

std::string OutputToText(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  std::string text = absl::StrCat("%", id, ":", value.type.ToString());
  if (!value.hint.empty()) absl::StrAppend(&text, "{", ToString(value.hint), "}");
  if (value.dist.has_value()) absl::StrAppend(&text, "@", value.dist->ToString());
  return text + Suffix(value.layout);
}

std::string NodeToText(const Graph& graph, const Node& node) {
  std::string text =
      absl::StrJoin(node.outputs, ", ", [&](std::string* out, ValueId id) { out->append(OutputToText(graph, id)); });
  if (!node.outputs.empty()) text += " = ";
  absl::StrAppend(&text, node.op, "(",
                  absl::StrJoin(node.inputs, ", ", [](std::string* out, ValueId id) { absl::StrAppend(out, "%", id); }),
                  ") ", QuotedText(node.name));
  if (!node.attrs.items().empty()) absl::StrAppend(&text, " ", AttrsToText(node.attrs));
  if (!node.at.empty()) {
    const auto format = [](std::string* out, const AxisCoordinate& item) {
      absl::StrAppend(out, item.axis, "=", item.coordinate);
    };
    absl::StrAppend(&text, " at ", absl::StrJoin(node.at, ",", format));
  }
  if (node.precision.has_value()) absl::StrAppend(&text, " in ", Name(*node.precision));
  if (node.segment >= 0) absl::StrAppend(&text, " segment ", node.segment);
  if (node.role != Role::kForward) absl::StrAppend(&text, " role ", Name(node.role));
  if (node.forward >= 0) absl::StrAppend(&text, " forward ", QuotedText(graph.node(node.forward).name));
  if (node.variable >= 0) absl::StrAppend(&text, " variable ", QuotedText(graph.node(node.variable).name));
  if (node.chunk >= 0) absl::StrAppend(&text, " chunk ", node.chunk);
  if (node.unit >= 0) absl::StrAppend(&text, " unit ", node.unit);
  if (node.rate != Rate::kMicroBatch) absl::StrAppend(&text, " rate ", kRateNames[static_cast<int>(node.rate)]);
  if (node.placement.has_value()) absl::StrAppend(&text, " on ", node.placement->ToString());
  const auto format_value = [](std::string* out, ValueId id) { absl::StrAppend(out, "%", id); };
  if (!node.after.empty()) absl::StrAppend(&text, " after ", absl::StrJoin(node.after, ",", format_value));
  if (!node.after_last.empty()) {
    absl::StrAppend(&text, " after_last ", absl::StrJoin(node.after_last, ",", format_value));
  }
  if (!node.source.empty()) absl::StrAppend(&text, " from ", QuotedText(node.source));
  return text;
}

// --- reading ---

absl::StatusOr<Placement> ReadPlacement(LineReader& line) {
  OF_ASSIGN_OR_RETURN(const absl::string_view text, line.Bracketed('{', '}', "a placement such as [dp=2]{0,1}"));
  return Placement::Parse(text);
}

// One output; its id must be `next`.
absl::StatusOr<Value> ReadOutput(LineReader& line, ValueId next) {
  OF_ASSIGN_OR_RETURN(const ValueId id, line.ValueName());
  if (id != next) return absl::InvalidArgumentError(absl::StrCat("defines %", id, ", but the next value is %", next));
  Value value;
  OF_RETURN_IF_ERROR(line.Expect(":", absl::StrCat("after %", id)));
  OF_ASSIGN_OR_RETURN(const absl::string_view type, line.Bracketed('[', ']', "a type such as f32[2,3]"));
  OF_ASSIGN_OR_RETURN(value.type, TensorType::Parse(type));
  if (line.Peek('{')) {
    OF_ASSIGN_OR_RETURN(const absl::string_view hint, line.Bracketed('{', '}', "a hint such as {dp:S(0)}"));
    OF_ASSIGN_OR_RETURN(value.hint, ParseSbpHint(hint.substr(1, hint.size() - 2)));
  }
  if (line.Accept("@")) {
    DistType dist;
    OF_ASSIGN_OR_RETURN(dist.placement, ReadPlacement(line));
    OF_ASSIGN_OR_RETURN(const absl::string_view sbp, line.Bracketed('(', ')', "an SBP such as (S(0),B)"));
    OF_ASSIGN_OR_RETURN(dist.sbp, ParseNdSbp(sbp));
    value.dist = std::move(dist);
  }
  if (line.AcceptWord("blocks")) value.layout = MemoryLayout::kChannelBlocks;
  return value;
}

absl::StatusOr<std::vector<ValueId>> ReadInputs(LineReader& line, ValueId num_values) {
  std::vector<ValueId> inputs;
  OF_RETURN_IF_ERROR(line.Expect("(", "after the op"));
  if (line.Accept(")")) return inputs;
  do {
    OF_ASSIGN_OR_RETURN(const ValueId id, line.ValueName());
    if (id >= num_values) {
      return absl::InvalidArgumentError(
          absl::StrCat("reads %", id, ", but only ", num_values, " values are defined before this line"));
    }
    inputs.push_back(id);
  } while (line.Accept(","));
  OF_RETURN_IF_ERROR(line.Expect(")", "after the inputs"));
  return inputs;
}

absl::StatusOr<PlacementHint> ReadPlacementHint(LineReader& line) {
  PlacementHint hint;
  do {
    AxisCoordinate item;
    OF_ASSIGN_OR_RETURN(const absl::string_view axis, line.Word("the name of a mesh axis"));
    item.axis = std::string(axis);
    OF_RETURN_IF_ERROR(line.Expect("=", absl::StrCat("after axis '", axis, "'")));
    OF_ASSIGN_OR_RETURN(item.coordinate, line.Integer<int>("a coordinate on the axis"));
    hint.push_back(std::move(item));
  } while (line.Accept(","));
  return hint;
}

absl::StatusOr<DType> ReadPrecision(LineReader& line) {
  const LineReader before = line;
  DType dtype;
  if (ParseDType(std::string(line.Atom()).c_str(), &dtype) && IsFloating(dtype)) return dtype;
  return before.Expected("f32, bf16 or f16");
}

absl::StatusOr<Role> ReadRole(LineReader& line) {
  const LineReader before = line;
  const absl::string_view name = line.Atom();
  std::vector<absl::string_view> names;
  for (int role = 0; role <= static_cast<int>(Role::kUpdate); ++role) {
    names.push_back(Name(static_cast<Role>(role)));
    if (name == names.back()) return static_cast<Role>(role);
  }
  return before.Expected(absl::StrCat("one of the roles ", absl::StrJoin(names, ", ")));
}

// The names of the nodes that a node serves; empty: none.
struct Served {
  std::string forward, variable;
};

absl::Status ReadProvenance(LineReader& line, Node& node, Served& served) {
  if (line.AcceptWord("segment")) {
    OF_ASSIGN_OR_RETURN(node.segment, line.Integer<int>("the number of a segment"));
  }
  if (line.AcceptWord("role")) {
    OF_ASSIGN_OR_RETURN(node.role, ReadRole(line));
  }
  if (line.AcceptWord("forward")) {
    OF_ASSIGN_OR_RETURN(served.forward, line.String("the name of a forward node in quotes"));
  }
  if (line.AcceptWord("variable")) {
    OF_ASSIGN_OR_RETURN(served.variable, line.String("the name of a variable in quotes"));
  }
  if (line.AcceptWord("chunk")) {
    OF_ASSIGN_OR_RETURN(node.chunk, line.Integer<int>("the number of a chunk"));
  }
  if (line.AcceptWord("unit")) {
    OF_ASSIGN_OR_RETURN(node.unit, line.Integer<int>("the number of a unit"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> ReadValues(LineReader& line) {
  std::vector<ValueId> values;
  do {
    OF_ASSIGN_OR_RETURN(const ValueId id, line.ValueName());
    values.push_back(id);
  } while (line.Accept(","));
  return values;
}

absl::Status ReadMarks(LineReader& line, Node& node, Served& served) {
  if (line.AcceptWord("at")) {
    OF_ASSIGN_OR_RETURN(node.at, ReadPlacementHint(line));
  }
  if (line.AcceptWord("in")) {
    OF_ASSIGN_OR_RETURN(node.precision, ReadPrecision(line));
  }
  OF_RETURN_IF_ERROR(ReadProvenance(line, node, served));
  if (line.AcceptWord("rate")) {
    const LineReader before = line;
    const absl::string_view name = line.Atom();
    if (name != kRateNames[0] && name != kRateNames[1]) return before.Expected("rate micro-batch or step");
    node.rate = name == kRateNames[1] ? Rate::kStep : Rate::kMicroBatch;
  }
  if (line.AcceptWord("on")) {
    OF_ASSIGN_OR_RETURN(Placement placement, ReadPlacement(line));
    node.placement = std::move(placement);
  }
  if (line.AcceptWord("after")) {
    OF_ASSIGN_OR_RETURN(node.after, ReadValues(line));
  }
  if (line.AcceptWord("after_last")) {
    OF_ASSIGN_OR_RETURN(node.after_last, ReadValues(line));
  }
  if (line.AcceptWord("from")) {
    OF_ASSIGN_OR_RETURN(node.source, line.String("a source line in quotes"));
  }
  if (!line.AtEnd()) {
    return line.Expected(
        "'at', 'in', 'segment', 'role', 'forward', 'variable', 'chunk', 'unit', 'rate', 'on', 'after', 'after_last', "
        "'from' (in this order) or the end of the line");
  }
  return absl::OkStatus();
}

absl::Status ReadNode(LineReader& line, Graph& graph, const OpRegistry& ops, Served& served) {
  std::vector<Value> outputs;
  if (line.Peek('%')) {
    do {
      const ValueId next = graph.num_values() + static_cast<ValueId>(outputs.size());
      OF_ASSIGN_OR_RETURN(Value output, ReadOutput(line, next));
      outputs.push_back(std::move(output));
    } while (line.Accept(","));
    OF_RETURN_IF_ERROR(line.Expect("=", "after the outputs"));
  }
  Node node;
  OF_ASSIGN_OR_RETURN(const absl::string_view op, line.Word("an op"));
  node.op = std::string(op);
  OF_RETURN_IF_ERROR(ops.Get(op).status());
  OF_ASSIGN_OR_RETURN(node.inputs, ReadInputs(line, graph.num_values()));
  OF_ASSIGN_OR_RETURN(node.name, line.String("the node's name in quotes"));
  OF_ASSIGN_OR_RETURN(node.attrs, ReadAttrs(line));
  OF_RETURN_IF_ERROR(ReadMarks(line, node, served));

  std::vector<TensorType> types;
  for (const Value& output : outputs) types.push_back(output.type);
  const NodeId id = graph.AddNode(std::move(node), types);
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value& value = graph.value(graph.node(id).outputs[i]);
    value.hint = std::move(outputs[i].hint);
    value.dist = std::move(outputs[i].dist);
    value.layout = outputs[i].layout;
  }
  return VerifyNode(graph, id, ops);
}

// What can be understood of a node only when all are read.
struct Origin {
  int line = 0;
  Served served;
};

// Finds the nodes that others serve, and that no name is taken twice.
absl::Status ResolveNames(const std::vector<Origin>& origins, Graph& graph) {
  std::map<absl::string_view, NodeId> ids;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto [first, is_new] = ids.emplace(graph.node(id).name, id);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat("graph text, line ", origins[id].line, ": the name '", first->first,
                                                   "' is already taken on line ", origins[first->second].line));
  }
  const auto find = [&](const std::string& name, int line, NodeId& id) {
    if (name.empty()) return absl::OkStatus();
    const auto it = ids.find(name);
    if (it != ids.end()) {
      id = it->second;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("graph text, line ", line, ": serves '", name, "', but there is no node of that name"));
  };
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    OF_RETURN_IF_ERROR(find(origins[id].served.forward, origins[id].line, graph.node(id).forward));
    OF_RETURN_IF_ERROR(find(origins[id].served.variable, origins[id].line, graph.node(id).variable));
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> ReadHeader(LineReader& line) {
  if (!line.AcceptWord("graph")) return line.Expected("graph \"name\" as the first line");
  OF_ASSIGN_OR_RETURN(std::string name, line.String("the graph's name in quotes"));
  if (!line.AtEnd()) return line.Expected("the end of the line after the graph's name");
  return Graph(std::move(name));
}

absl::Status ReadSegment(LineReader& line, Graph& graph) {
  if (graph.num_nodes() > 0) return line.Expected("segments before the first node");
  OF_ASSIGN_OR_RETURN(const int id, line.Integer<int>("the number of the segment"));
  if (id != static_cast<int>(graph.segments.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("defines segment ", id, ", but the next one is ", graph.segments.size()));
  }
  Segment segment;
  OF_ASSIGN_OR_RETURN(segment.kind, line.String("the segment's kind in quotes"));
  if (line.AcceptWord("in")) {
    OF_ASSIGN_OR_RETURN(segment.parent, line.Integer<int>("the number of the segment that it is part of"));
    if (segment.parent < 0) return absl::InvalidArgumentError(absl::StrCat("lies in segment ", segment.parent));
  }
  graph.segments.push_back(std::move(segment));
  if (!line.AtEnd()) return line.Expected("'in' or the end of the line after the segment");
  return VerifySegment(graph, id);
}

absl::Status ReadLoss(LineReader& line, Graph& graph) {
  OF_ASSIGN_OR_RETURN(const ValueId loss, line.ValueName());
  graph.losses.push_back(loss);
  if (!line.AtEnd()) return line.Expected("the end of the line after the loss");
  return VerifyLosses(graph);
}

}  // namespace

std::string GraphToText(const Graph& graph) {
  std::string text = absl::StrCat("graph ", QuotedText(graph.name()), "\n");
  for (size_t id = 0; id < graph.segments.size(); ++id) {
    const Segment& segment = graph.segments[id];
    absl::StrAppend(&text, "segment ", id, " ", QuotedText(segment.kind),
                    segment.parent < 0 ? "" : absl::StrCat(" in ", segment.parent), "\n");
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) absl::StrAppend(&text, NodeToText(graph, graph.node(id)), "\n");
  for (const ValueId loss : graph.losses) absl::StrAppend(&text, "loss %", loss, "\n");
  return text;
}

absl::StatusOr<Graph> GraphFromText(absl::string_view text, const OpRegistry& ops) {
  std::optional<Graph> graph;
  std::vector<Origin> origins;  // by node
  int number = 0;
  for (absl::string_view content : absl::StrSplit(text, '\n')) {
    ++number;
    LineReader line(content);
    if (line.AtEnd() || line.Peek('#')) continue;
    const auto where = [&] { return absl::StrCat("graph text, line ", number); };
    if (!graph.has_value()) {
      OF_ASSIGN_OR_RETURN_AT(graph, ReadHeader(line), where());
    } else if (line.AcceptWord("segment")) {
      OF_RETURN_IF_ERROR_AT(ReadSegment(line, *graph), where());
    } else if (line.AcceptWord("loss")) {
      OF_RETURN_IF_ERROR_AT(ReadLoss(line, *graph), where());
    } else if (graph->is_trained()) {
      return Annotate(line.Expected("nothing but losses after a loss"), where());
    } else {
      origins.push_back({number, {}});
      OF_RETURN_IF_ERROR_AT(ReadNode(line, *graph, ops, origins.back().served), where());
    }
  }
  if (!graph.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph text, line ", number, ": expected graph \"name\" but the text ends"));
  }
  OF_RETURN_IF_ERROR(ResolveNames(origins, *graph));
  for (NodeId id = 0; id < graph->num_nodes(); ++id) {
    OF_RETURN_IF_ERROR_AT(VerifyProvenance(*graph, id, ops), absl::StrCat("graph text, line ", origins[id].line));
  }
  return *std::move(graph);
}

}  // namespace oneflow
