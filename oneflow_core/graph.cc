#include "oneflow_core/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "glog/logging.h"

namespace oneflow {

const char* Name(Role role) {
  constexpr const char* kNames[] = {"forward",   "input-gradient", "weight-gradient", "fused-gradient",
                                    "reduction", "recompute",      "update"};
  return kNames[static_cast<int>(role)];
}

StepPart PartOf(Role role) {
  if (role == Role::kForward) return StepPart::kForward;
  return role == Role::kUpdate ? StepPart::kUpdate : StepPart::kBackward;
}

const char* Name(StepPart part) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(part)];
}

void CopyProvenance(const Node& like, Node& node) {
  node.role = like.role;
  node.forward = like.forward;
  node.variable = like.variable;
  node.segment = like.segment;
  node.chunk = like.chunk;
}

void Absorb(const Node& part, Node& whole) {
  whole.parts.push_back(part.serial);
  whole.parts.insert(whole.parts.end(), part.parts.begin(), part.parts.end());
}

NodeId Graph::AddNode(Node node, absl::Span<const TensorType> outputs) {
  const NodeId id = num_nodes();
  node.serial = next_serial_++;
  node.outputs.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    node.outputs.push_back(num_values());
    Value value;
    value.serial = next_value_serial_++;
    value.type = outputs[i];
    value.producer = id;
    value.output = static_cast<int>(i);
    values_.push_back(std::move(value));
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::FindNode(absl::string_view name) const {
  for (NodeId id = 0; id < num_nodes(); ++id) {
    if (nodes_[id].name == name) return id;
  }
  return -1;
}

std::vector<std::vector<NodeId>> Graph::Consumers() const {
  std::vector<std::vector<NodeId>> consumers(values_.size());
  for (NodeId id = 0; id < num_nodes(); ++id) {
    for (ValueId input : nodes_[id].inputs) consumers[input].push_back(id);
  }
  return consumers;
}

int Graph::SegmentOfKind(int segment, absl::string_view kind) const {
  while (segment >= 0 && segments[segment].kind != kind) segment = segments[segment].parent;
  return segment;
}

std::vector<NodeId> Graph::Sorted() const {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> waiters = Consumers();
  for (NodeId id = 0; id < num_nodes(); ++id) {
    missing[id] = static_cast<int>(nodes_[id].inputs.size() + nodes_[id].after.size());
    for (ValueId value : nodes_[id].after) waiters[value].push_back(id);
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<NodeId>> ready;
  for (NodeId id = 0; id < num_nodes(); ++id) {
    if (missing[id] == 0) ready.push(id);
  }
  std::vector<NodeId> sorted;
  sorted.reserve(nodes_.size());
  while (!ready.empty()) {
    sorted.push_back(ready.top());
    ready.pop();
    for (ValueId output : nodes_[sorted.back()].outputs) {
      for (NodeId waiter : waiters[output]) {
        if (--missing[waiter] == 0) ready.push(waiter);
      }
    }
  }
  return sorted;
}

void Graph::Rebuild(const std::vector<bool>& keep) {
  const std::vector<NodeId> sorted = Sorted();
  CHECK_EQ(sorted.size(), nodes_.size()) << "graph '" << name_ << "' has a cycle";
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<NodeId> moved(nodes_.size(), -1);
  std::vector<ValueId> renumbered(values_.size(), -1);
  for (NodeId id : sorted) {
    if (!keep[id]) continue;
    Node node = std::move(nodes_[id]);
    for (ValueId& input : node.inputs) input = renumbered[input];
    for (ValueId& value : node.after) value = renumbered[value];
    node.after.erase(std::remove(node.after.begin(), node.after.end(), -1), node.after.end());
    for (ValueId& output : node.outputs) {
      renumbered[output] = static_cast<ValueId>(values.size());
      values.push_back(std::move(values_[output]));
      values.back().producer = static_cast<NodeId>(nodes.size());
      output = renumbered[output];
    }
    moved[id] = static_cast<NodeId>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (Node& node : nodes) {
    if (node.forward >= 0) node.forward = moved[node.forward];
    if (node.variable >= 0) node.variable = moved[node.variable];
    for (ValueId& value : node.after_last) value = renumbered[value];
    node.after_last.erase(std::remove(node.after_last.begin(), node.after_last.end(), -1), node.after_last.end());
  }
  for (ValueId& loss : losses) loss = renumbered[loss];
  losses.erase(std::remove(losses.begin(), losses.end(), -1), losses.end());
  nodes_ = std::move(nodes);
  values_ = std::move(values);
}

std::string Where(const Node& node) {
  return node.source.empty() ? absl::StrCat("node '", node.name, "' (", node.op, ")")
                             : absl::StrCat("node '", node.name, "' (", node.op, ", ", node.source, ")");
}

}  // namespace oneflow
