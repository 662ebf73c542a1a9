#include "oneflow_core/verify.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/ragged.h"

namespace oneflow {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::string ListTypes(const std::vector<TensorType>& types) {
  const auto format = [](std::string* out, const TensorType& type) { out->append(type.ToString()); };
  return absl::StrCat("(", absl::StrJoin(types, ", ", format), ")");
}

absl::Status VerifyInputs(const Graph& graph, NodeId id) {
  for (ValueId input : graph.node(id).inputs) {
    if (input < 0 || input >= graph.num_values()) {
      return Invalid("reads %", input, ", but the graph has ", graph.num_values(), " values");
    }
    const NodeId producer = graph.value(input).producer;
    if (producer < 0 || producer >= id) {
      return Invalid("reads %", input, " of node ", producer, ", which does not come before node ", id);
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyAfter(const Graph& graph, NodeId id) {
  for (ValueId value : graph.node(id).after) {
    if (value < 0 || value >= graph.num_values() || graph.value(value).producer >= id) {
      return Invalid("runs after %", value, ", which no node before node ", id, " makes");
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyOutputs(const Graph& graph, const Node& node, const OpDef& def) {
  std::vector<TensorType> inputs, declared;
  for (ValueId input : node.inputs) inputs.push_back(graph.value(input).type);
  for (ValueId output : node.outputs) declared.push_back(graph.value(output).type);
  OF_ASSIGN_OR_RETURN(const std::vector<TensorType> inferred, InferTypes(def, {inputs, node.attrs}));
  if (declared != inferred) {
    return Invalid("its outputs are declared as ", ListTypes(declared), ", but on ", ListTypes(inputs),
                   " the op gives ", ListTypes(inferred));
  }
  return absl::OkStatus();
}

absl::Status VerifyMutatedInputs(const Graph& graph, const Node& node, const OpDef& def, const OpRegistry& ops) {
  for (int index : def.mutates) {
    if (index >= static_cast<int>(node.inputs.size())) {
      return Invalid("the op overwrites input ", index, ", but the node has ", node.inputs.size(), " inputs");
    }
    const Node& producer = graph.node(graph.value(node.inputs[index]).producer);
    if (!ops.Is(producer.op, OpKind::kVariable) && !ops.Is(producer.op, OpKind::kLoad)) {
      return Invalid("overwrites input ", index, ", which is no variable but comes from ", Where(producer));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifySplit(const Sbp& sbp, const TensorType& type) {
  if (!sbp.is_split() || sbp.dim() < type.shape.rank()) return absl::OkStatus();
  return Invalid(sbp.ToString(), " splits a dimension that ", type.ToString(), " does not have");
}

const std::string& NameOf(const Axis& axis) { return axis.name; }
const std::string& NameOf(const AxisSbp& item) { return item.axis; }
const std::string& NameOf(const AxisCoordinate& item) { return item.axis; }

// Axis names of one hint or placement: words, each once. There are a few.
template <typename Items>
absl::Status VerifyAxes(const Items& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string& name = NameOf(items[i]);
    if (!IsWord(name)) return Invalid("axis '", name, "' is not a word of letters, digits and '_'");
    for (size_t j = 0; j < i; ++j) {
      if (NameOf(items[j]) == name) return Invalid("axis '", name, "' is named twice");
    }
  }
  return absl::OkStatus();
}

// The wishes and decisions on one value: where it lies and how.
absl::Status VerifyLayout(const Value& value) {
  OF_RETURN_IF_ERROR_AT(VerifyAxes(value.hint), absl::StrCat("hint ", ToString(value.hint)));
  for (const AxisSbp& item : value.hint) {
    if (item.priority < 0) return Invalid("hint ", ToString(value.hint), ": priority ", item.priority, " is negative");
    OF_RETURN_IF_ERROR_AT(VerifySplit(item.sbp, value.type), absl::StrCat("hint ", ToString(value.hint)));
  }
  if (value.layout == MemoryLayout::kChannelBlocks && !FitsBlocks(value.type.shape, value.type.shape.rank())) {
    return Invalid("blocks of ", kBlockChannels, " channels cannot be made of ", value.type.ToString());
  }
  if (!value.dist.has_value()) return absl::OkStatus();
  const auto where = [&] { return absl::StrCat("layout ", value.dist->ToString()); };
  OF_RETURN_IF_ERROR_AT(VerifyAxes(value.dist->placement.axes()), where());
  if (static_cast<int>(value.dist->sbp.size()) != value.dist->placement.num_axes()) {
    return Invalid(where(), ": ", value.dist->sbp.size(), " SBPs for ", value.dist->placement.num_axes(), " axes");
  }
  for (const Sbp& sbp : value.dist->sbp) OF_RETURN_IF_ERROR_AT(VerifySplit(sbp, value.type), where());
  return absl::OkStatus();
}

absl::Status VerifyPlacement(const Node& node) {
  OF_RETURN_IF_ERROR_AT(VerifyAxes(node.at), "placement hint");
  for (const AxisCoordinate& item : node.at) {
    if (item.coordinate < 0) return Invalid("placement hint ", item.axis, "=", item.coordinate, " is negative");
  }
  if (!node.placement.has_value()) return absl::OkStatus();
  OF_RETURN_IF_ERROR_AT(VerifyAxes(node.placement->axes()), absl::StrCat("placement ", node.placement->ToString()));
  return absl::OkStatus();
}

absl::Status VerifyNodeUnannotated(const Graph& graph, NodeId id, const OpRegistry& ops) {
  const Node& node = graph.node(id);
  if (node.name.empty()) return Invalid("node ", id, " has no name");
  OF_ASSIGN_OR_RETURN(const OpDef* def, ops.Get(node.op));
  for (const auto& [name, value] : node.attrs.items()) {
    if (!IsWord(name)) return Invalid("attribute '", name, "' is not a word of letters, digits and '_'");
  }
  OF_RETURN_IF_ERROR(VerifyInputs(graph, id));
  OF_RETURN_IF_ERROR(VerifyAfter(graph, id));
  OF_RETURN_IF_ERROR(VerifyOutputs(graph, node, *def));
  OF_RETURN_IF_ERROR(VerifyMutatedInputs(graph, node, *def, ops));
  for (ValueId output : node.outputs)
    OF_RETURN_IF_ERROR_AT(VerifyLayout(graph.value(output)), absl::StrCat("%", output));
  return VerifyPlacement(node);
}

absl::Status VerifyServed(const Graph& graph, const Node& node, const OpRegistry& ops) {
  for (const NodeId served : {node.forward, node.variable}) {
    if (served < -1 || served >= graph.num_nodes()) {
      return Invalid("serves node ", served, ", but the graph has ", graph.num_nodes(), " nodes");
    }
  }
  if (node.forward >= 0 && !IsForward(graph.node(node.forward))) {
    return Invalid("serves ", Where(graph.node(node.forward)), " as a forward node, whose role is ",
                   Name(graph.node(node.forward).role));
  }
  if (node.variable >= 0 && !ops.Is(graph.node(node.variable).op, OpKind::kVariable)) {
    return Invalid("serves ", Where(graph.node(node.variable)), " as a variable, which it is not");
  }
  if (node.segment < -1 || node.segment >= static_cast<int>(graph.segments.size())) {
    return Invalid("is in segment ", node.segment, ", but the graph has ", graph.segments.size());
  }
  if (node.chunk < -1) return Invalid("its chunk is ", node.chunk);
  if (node.unit < -1) return Invalid("its unit is ", node.unit);
  for (ValueId value : node.after_last) {
    if (value < 0 || value >= graph.num_values()) {
      return Invalid("runs after %", value, " of the micro-batch before, but the graph has ", graph.num_values(),
                     " values");
    }
  }
  return absl::OkStatus();
}

// Every value is the output that it says it is, and ids follow the order of nodes.
absl::Status VerifyNumbering(const Graph& graph) {
  ValueId next = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.outputs.size(); ++i, ++next) {
      if (node.outputs[i] != next)
        return Invalid(Where(node), ": output ", i, " is %", node.outputs[i], ", not %", next);
      if (next >= graph.num_values()) {
        return Invalid(Where(node), ": output ", i, " is %", next, ", but the graph has ", graph.num_values(),
                       " values");
      }
      const Value& value = graph.value(next);
      if (value.producer != id || value.output != static_cast<int>(i)) {
        return Invalid(Where(node), ": output ", i, " is %", next, ", which calls itself output ", value.output,
                       " of node ", value.producer);
      }
    }
  }
  if (next != graph.num_values())
    return Invalid("the nodes have ", next, " outputs, the graph ", graph.num_values(), " values");
  return absl::OkStatus();
}

}  // namespace

bool IsWord(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_') return false;
  }
  return true;
}

absl::Status VerifyNode(const Graph& graph, NodeId id, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR_AT(VerifyNodeUnannotated(graph, id, ops), Where(graph.node(id)));
  return absl::OkStatus();
}

absl::Status VerifyProvenance(const Graph& graph, NodeId id, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR_AT(VerifyServed(graph, graph.node(id), ops), Where(graph.node(id)));
  return absl::OkStatus();
}

absl::Status VerifySegment(const Graph& graph, int id) {
  const Segment& segment = graph.segments[id];
  if (!IsWord(segment.kind)) {
    return Invalid("segment ", id, ": kind '", segment.kind, "' is not a word of letters, digits and '_'");
  }
  if (segment.parent >= -1 && segment.parent < id) return absl::OkStatus();
  return Invalid("segment ", id, " lies in segment ", segment.parent, ", which does not come before it");
}

absl::Status VerifyLosses(const Graph& graph) {
  for (const ValueId loss : graph.losses) {
    if (loss < 0 || loss >= graph.num_values()) {
      return Invalid("the loss is %", loss, ", but the graph has ", graph.num_values(), " values");
    }
    const Value& value = graph.value(loss);
    if (value.type == TensorType{DType::kFloat32, {}}) continue;
    return Invalid("the loss must be f32[] but is %", loss, ", ", value.type.ToString(), " of ",
                   Where(graph.node(value.producer)));
  }
  return absl::OkStatus();
}

absl::Status VerifyGraph(const Graph& graph, const OpRegistry& ops) {
  const std::string where = absl::StrCat("graph '", graph.name(), "'");
  OF_RETURN_IF_ERROR_AT(VerifyNumbering(graph), where);
  for (size_t id = 0; id < graph.segments.size(); ++id) {
    OF_RETURN_IF_ERROR_AT(VerifySegment(graph, static_cast<int>(id)), where);
  }
  absl::flat_hash_map<absl::string_view, NodeId> names;
  names.reserve(graph.num_nodes());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    OF_RETURN_IF_ERROR_AT(VerifyNode(graph, id, ops), where);
    OF_RETURN_IF_ERROR_AT(VerifyProvenance(graph, id, ops), where);
    const auto [first, is_new] = names.emplace(graph.node(id).name, id);
    if (!is_new) {
      return Invalid(where, ": ", Where(graph.node(id)), ": node ", id, " has the name of node ", first->second);
    }
  }
  return Annotate(VerifyLosses(graph), where);
}

}  // namespace oneflow
