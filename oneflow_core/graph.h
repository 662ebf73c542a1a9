// The logical graph: nodes (one op each) and values (the tensors between them), with integer ids. A Graph is a value;
// passes of the compiler are functions from Graph to Graph.
//
//   value 0  tokens  i32[8,128]        node 0  read_data()      -> 0, 1
//   value 2  wte     f32[256,128]      node 1  variable()       -> 2
//   value 3          f32[8,128,128]    node 2  embedding(2, 0)  -> 3
//
// A graph describes what ONE MICRO-BATCH computes, on logical tensors; how they lie on devices is written into the
// values' `dist` by the compiler. State that outlives a step is a `variable` node; ops that mutate a variable take its
// value as an input that their OpDef lists in `mutates`.
//
// Provenance is structure. Fields of a node say what it is for (its role, and the forward node, variable and chunk that
// it serves) and which nodes became part of it. Names are for people. Only the names of variables are identities: the
// plans of a job share variables by name.
//
// Invariants (VerifyGraph in verify.h checks them): every input id exists and was produced by a node with a smaller id,
// every value belongs to exactly one output of one node, node names are unique and not empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/sbp.h"
#include "oneflow_core/shape.h"

namespace oneflow {

using NodeId = int32_t;
using ValueId = int32_t;

// What a node is for. A weight is a value that depends on variables alone. Its gradient is needed once, by the update;
// the gradient of any other value is needed by backward nodes.
enum class Role : uint8_t {
  kForward,         // the model itself
  kInputGradient,   // of an input of its forward node that is no weight
  kWeightGradient,  // of a weight that its forward node reads
  kFusedGradient,   // of both at once, where an op's gradient makes them together
  kReduction,       // adds up the gradient of a variable, over micro-batches and over readers
  kRecompute,       // its forward node again, for backward nodes to read instead of what that made
  kUpdate,          // everything after the gradients: clipping, schedules, optimizers and their state
};
const char* Name(Role role);  // "forward", "input-gradient", ...

// The part of a step that a role belongs to.
enum class StepPart : uint8_t { kForward = 0, kBackward = 1, kUpdate = 2 };
StepPart PartOf(Role role);
const char* Name(StepPart part);  // "forward", "backward", "update"

// How often a node acts: once per micro-batch or once per step. Filled in by the compiler's rate pass.
enum class Rate : uint8_t { kMicroBatch = 0, kStep = 1 };

struct Value {
  // The same for as long as the value lives, whatever makes it; given by Graph::AddNode, never twice.
  int32_t serial = -1;
  TensorType type;
  NodeId producer = -1;
  int output = 0;                // which output of the producer
  SbpHint hint;                  // the user's wish; empty: none
  std::optional<DistType> dist;  // the compiler's decision
  MemoryLayout layout = MemoryLayout::kRowMajor;
};

// A part of the model as its author marked it: one of its "layers", the core of an "attention". A job may ask that
// backward computes the values of all segments of a kind again instead of keeping them.
struct Segment {
  std::string kind;
  int parent = -1;  // the segment that it is part of; -1: none
};

struct Node {
  // The same for as long as the node lives, whatever it is renamed or renumbered to; given by Graph::AddNode, never
  // twice.
  int32_t serial = -1;
  std::string op;    // name of an OpDef
  std::string name;  // unique, "h0/mlp/up/matmul"
  AttrMap attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Values that it does not read, but that have to be there before it runs.
  std::vector<ValueId> after;
  // The same of the micro-batch before: what a later node makes of it.
  std::vector<ValueId> after_last;
  std::string source;  // where the user wrote it: "models/gpt.cc:42"
  PlacementHint at;    // the user's wish for where it runs; empty: the compiler chooses
  // The user's wish for the floating type in which products are computed here; none: the job's.
  std::optional<DType> precision;
  Role role = Role::kForward;
  NodeId forward = -1;   // the forward node that it serves; -1: it is one, or serves none in particular
  NodeId variable = -1;  // the variable that it serves: whose gradient it makes, or whose update it is part of; or -1
  int segment = -1;      // of a forward node: the innermost that it is part of; -1: none
  int chunk = -1;        // the piece of the model, as stages have it, that it belongs to; -1 until nodes are placed
  int unit = -1;         // of a boxing: those of one unit travel together (-1: as the plan decides)
  Rate rate = Rate::kMicroBatch;
  std::optional<Placement> placement;  // the compiler's decision
  // Where passes made one node of several: the serials of the others, which are gone.
  std::vector<int32_t> parts;
};

class Graph {
 public:
  explicit Graph(std::string name = "") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  int num_values() const { return static_cast<int>(values_.size()); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  Value& value(ValueId id) { return values_[id]; }

  // Appends `node` with one new value per output type; `node.outputs` and `node.serial` are overwritten. No checks: see
  // VerifyGraph.
  NodeId AddNode(Node node, absl::Span<const TensorType> outputs);

  // The node of that name, or -1. Linear time.
  NodeId FindNode(absl::string_view name) const;
  // For every value the nodes that read it, in id order, once per reading input.
  std::vector<std::vector<NodeId>> Consumers() const;

  // All nodes, each behind what it reads and waits for (`after`), ties by id; without those on a cycle or behind one.
  std::vector<NodeId> Sorted() const;

  // Puts nodes in the order of `Sorted`, drops those with `keep` false, renumbers nodes and values. Nodes that
  // served a dropped node serve none; nodes that waited for one wait no more. REQUIRES: no kept node reads a
  // dropped one; the graph has no cycle (it ends the process: what would be dropped silently is missed by nobody).
  void Rebuild(const std::vector<bool>& keep);

  // By id; parents have smaller ids.
  std::vector<Segment> segments;
  // `segment` or the nearest that it lies in of that kind; -1: none.
  int SegmentOfKind(int segment, absl::string_view kind) const;

  // The scalars whose sum is to be minimised. A graph with any is trained.
  std::vector<ValueId> losses;
  bool is_trained() const { return !losses.empty(); }

 private:
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  int32_t next_serial_ = 0, next_value_serial_ = 0;
};

inline bool IsForward(const Node& node) { return node.role == Role::kForward; }
inline bool IsBackward(const Node& node) { return PartOf(node.role) == StepPart::kBackward; }
inline bool IsUpdate(const Node& node) { return node.role == Role::kUpdate; }

// Makes `node` serve what `like` serves: its role, forward node, variable, segment and chunk.
void CopyProvenance(const Node& like, Node& node);

// Records in `whole` that `part`, with its own parts, becomes part of it.
void Absorb(const Node& part, Node& whole);

// "node 'h0/mlp/up' (matmul, models/gpt.cc:42)": how errors name a node.
std::string Where(const Node& node);

}  // namespace oneflow
