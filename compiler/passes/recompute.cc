// Trades time for memory. A piece is the part of a segment in one chunk. Backward reads some values of a piece. Clones
// of their nodes make these again, from clones of their inputs, and so on, back to values that are kept anyway: inputs
// of the piece, and values that others hold too.
//
//   forward    x ──► ln ──► q ──► gelu ──► out          kept: x, which the gradient of ln reads anyway
//              │
//   backward   └────► ln* ─► q* ─► gelu*                after dy, what the first gradient of the piece is given
//                      ▼      ▼     ▼
//              dx ◄── ln' ◄── q' ◄─ gelu' ◄── dy
//
// It runs behind insert-boxing, so it sees the final shards and boxings: layouts are chosen once, communication in a
// piece is repeated like any other node, and bytes are those of a rank. Selection does not price the repetition.
//
// Why no cycle can arise: the clones of a piece wait for nodes that come before the first node that reads the clones,
// in an order in which every node follows its inputs. So pieces, in the order of these nodes, wait only for earlier
// ones.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/union_find.h"
#include "oneflow_core/unique_names.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

class Recomputation {
 public:
  // `pieces` are by node, without boxings; `gathers`: boxings that gather are repeated as well; `whole`: a piece is
  // repeated as a whole.
  Recomputation(Graph& graph, const OpRegistry& ops, std::vector<int> pieces, bool gathers, bool whole)
      : graph_(graph),
        ops_(ops),
        gathers_(gathers),
        whole_(whole),
        readers_(graph.Consumers()),
        varies_(DependsOnMicroBatch(graph, ops)),
        piece_(std::move(pieces)),
        cloned_(graph.num_nodes(), false),
        kept_(graph.num_values(), false),
        names_(graph) {}

  // Returns whether it cloned anything.
  bool Run() {
    FindPieces();
    // Values of an earlier piece that a later one reads are kept for its clones.
    std::vector<int> order(pieces_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return pieces_[a].back() > pieces_[b].back(); });
    for (const int piece : order) Choose(piece);
    bool changed = false;
    for (const int piece : order) changed = Clone(piece) || changed;
    if (changed) graph_.Rebuild(std::vector<bool>(graph_.num_nodes(), true));
    return changed;
  }

 private:
  static constexpr int kNone = -1;

  NodeId MakerOf(ValueId value) const { return graph_.value(value).producer; }
  int64_t Bytes(ValueId value) const { return ShardBytes(graph_.value(value).type, *graph_.value(value).dist); }
  bool IsBoxing(const Node& node) const { return ops_.Is(node.op, OpKind::kBoxing); }
  // The piece whose clones a backward node may read.
  int PieceServed(const Node& node) const { return node.forward < 0 ? kNone : piece_[node.forward]; }

  // With boxings, which belong to their readers, or are pieces of their own.
  void FindPieces() {
    num_segments_ = piece_.empty() ? 0 : 1 + *std::max_element(piece_.begin(), piece_.end());
    int next = num_segments_;
    for (NodeId id = graph_.num_nodes() - 1; id >= 0; --id) {
      const Node& node = graph_.node(id);
      if (!IsForward(node) || !IsBoxing(node) || !varies_[id]) continue;
      piece_[id] = PieceOfBoxing(node);
      if (piece_[id] == kNone && gathers_ && Gathers(node)) piece_[id] = next++;
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      if (piece_[id] == kNone) continue;
      if (piece_[id] >= static_cast<int>(pieces_.size())) pieces_.resize(piece_[id] + 1);
      pieces_[piece_[id]].push_back(id);
    }
  }

  bool IsWithinRanks(const Node& node) const { return *node.placement == graph_.value(node.inputs[0]).dist->placement; }

  // The piece of all its forward readers, else of all its backward readers. Values from another stage come once.
  int PieceOfBoxing(const Node& node) const {
    if (!IsWithinRanks(node)) return kNone;
    std::set<int> forward, backward;
    for (const NodeId reader : readers_[node.outputs[0]]) {
      if (IsForward(graph_.node(reader))) {
        forward.insert(piece_[reader]);
      } else {
        backward.insert(PieceServed(graph_.node(reader)));
      }
    }
    const std::set<int>& pieces = forward.empty() ? backward : forward;
    return pieces.size() == 1 ? *pieces.begin() : kNone;
  }

  bool Gathers(const Node& node) const { return IsWithinRanks(node) && Bytes(node.outputs[0]) > Bytes(node.inputs[0]); }

  bool IsOf(int piece, ValueId value) const { return piece_[MakerOf(value)] == piece; }
  // Whether the reader reads a clone instead, if there is one.
  bool Follows(NodeId reader, int piece) const {
    const Node& node = graph_.node(reader);
    return IsBackward(node) && (piece >= num_segments_ || PieceServed(node) == piece);
  }
  bool HasFollower(ValueId value, int piece) const {
    return std::any_of(readers_[value].begin(), readers_[value].end(),
                       [&](NodeId reader) { return Follows(reader, piece); });
  }
  // Whether backward holds the original in any case; if not, kept_ says whether it does by choice.
  bool IsHeld(ValueId value, int piece) const {
    return std::any_of(readers_[value].begin(), readers_[value].end(), [&](NodeId reader) {
      return IsBackward(graph_.node(reader)) && (piece == kNone || !Follows(reader, piece));
    });
  }
  bool IsThere(ValueId value, int piece) const {
    return !IsOf(piece, value) || kept_[value] || begins_.count(value) > 0 || IsHeld(value, piece);
  }
  // Whether it would be kept for clones alone.
  bool IsKeptForClones(ValueId value) const {
    return varies_[MakerOf(value)] && !kept_[value] && !IsHeld(value, kNone);
  }

  // Chooses the nodes of the piece to clone.
  void Choose(int piece) {
    const std::vector<NodeId>& members = pieces_[piece];
    begins_.clear();
    for (auto it = members.rbegin(); it != members.rend(); ++it) cloned_[*it] = IsWanted(*it, piece);
    if (whole_ && piece < num_segments_) {
      for (const NodeId id : members) cloned_[id] = true;
    } else {
      StartLater(piece);
      DropWhatSavesNothing(piece);
    }
    for (const NodeId id : members) {
      if (!cloned_[id]) continue;
      for (const ValueId input : graph_.node(id).inputs) {
        if (!cloned_[MakerOf(input)] || IsThere(input, piece)) kept_[input] = true;
      }
    }
  }

  // Whether backward or a clone needs a value of the node that is not kept.
  bool IsWanted(NodeId id, int piece) const {
    for (const ValueId output : graph_.node(id).outputs) {
      if (IsThere(output, piece)) continue;
      for (const NodeId reader : readers_[output]) {
        if (Follows(reader, piece) || (piece_[reader] == piece && cloned_[reader])) return true;
      }
    }
    return false;
  }

  // A first clone that keeps as much as it would free is replaced by its result.
  void StartLater(int piece) {
    for (const NodeId id : pieces_[piece]) {
      if (!cloned_[id]) continue;
      int64_t keeps = 0, makes = 0;
      bool is_first = true;
      for (const ValueId input : graph_.node(id).inputs) {
        is_first = is_first && (!cloned_[MakerOf(input)] || IsThere(input, piece));
        const auto& readers = readers_[input];
        const auto clones =
            std::count_if(readers.begin(), readers.end(), [&](NodeId r) { return cloned_[r] && r != id; });
        if (clones == 0 && IsKeptForClones(input)) keeps += Bytes(input);
      }
      if (!is_first) continue;
      for (const ValueId output : graph_.node(id).outputs) makes += IsThere(output, piece) ? 0 : Bytes(output);
      if (keeps < makes) continue;
      cloned_[id] = false;
      for (const ValueId output : graph_.node(id).outputs) begins_.insert(output);
    }
  }

  // Clones that read one another are judged together. They save the values that backward need not hold any more; they
  // cost values kept for them, and results that exist anyway.
  void DropWhatSavesNothing(int piece) {
    const std::vector<NodeId>& members = pieces_[piece];
    std::map<NodeId, int> place;
    for (size_t i = 0; i < members.size(); ++i) place[members[i]] = static_cast<int>(i);
    UnionFind groups(static_cast<int>(members.size()));
    for (const NodeId id : members) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (cloned_[id] && cloned_[MakerOf(input)] && !IsThere(input, piece))
          groups.Unite(place[id], place[MakerOf(input)]);
      }
    }
    std::map<int, int64_t> saves;  // by group
    std::set<std::pair<int, ValueId>> counted;
    for (const NodeId id : members) {
      if (!cloned_[id]) continue;
      const int group = groups.Find(place[id]);
      int64_t& bytes = saves[group];
      for (const ValueId output : graph_.node(id).outputs) {
        if (IsThere(output, piece)) {
          bytes -= Bytes(output);
        } else if (HasFollower(output, piece)) {
          bytes += Bytes(output);
        }
      }
      for (const ValueId input : graph_.node(id).inputs) {
        if (cloned_[MakerOf(input)] && !IsThere(input, piece)) continue;
        if (IsKeptForClones(input) && counted.insert({group, input}).second) bytes -= Bytes(input);
      }
    }
    for (const NodeId id : members) cloned_[id] = cloned_[id] && saves[groups.Find(place[id])] > 0;
  }

  bool Clone(int piece) {
    std::map<ValueId, ValueId> instead;
    std::vector<NodeId> clones;
    for (const NodeId id : pieces_[piece]) {
      if (!cloned_[id]) continue;
      clones.push_back(AddClone(id, instead));
      const std::vector<ValueId>& to = graph_.node(clones.back()).outputs;
      for (size_t i = 0; i < to.size(); ++i) {
        const ValueId from = graph_.node(id).outputs[i];
        if (!IsThere(from, piece)) instead[from] = to[i];
      }
    }
    std::set<NodeId> followers;
    for (const auto& [from, to] : instead) {
      for (const NodeId reader : readers_[from]) {
        if (!Follows(reader, piece)) continue;
        followers.insert(reader);
        for (ValueId& input : graph_.node(reader).inputs) input = input == from ? to : input;
      }
    }
    if (clones.empty()) return false;
    const std::vector<ValueId> after = GivenTo(*followers.begin());
    const NodeId first_clone = clones.front();
    for (const NodeId id : clones) {
      Node& node = graph_.node(id);
      const bool is_first = std::none_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId input) { return MakerOf(input) >= first_clone; });
      if (is_first) node.after = after;
    }
    return true;
  }

  NodeId AddClone(NodeId id, const std::map<ValueId, ValueId>& instead) {
    Node node = graph_.node(id);
    node.name = names_.Make(absl::StrCat(node.name, "/recompute"));
    node.role = Role::kRecompute;
    node.forward = id;
    node.segment = -1;
    for (ValueId& input : node.inputs) {
      const auto clone = instead.find(input);
      if (clone != instead.end()) input = clone->second;
    }
    const std::vector<ValueId> outputs = node.outputs;
    std::vector<TensorType> types;
    for (const ValueId output : outputs) types.push_back(graph_.value(output).type);
    const NodeId clone = graph_.AddNode(std::move(node), types);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph_.value(graph_.node(clone).outputs[i]).dist = graph_.value(outputs[i]).dist;
    }
    return clone;
  }

  // The gradients that a backward node reads, on its ranks. Instead of gradients of weights, which a schedule may
  // delay, their inputs.
  std::vector<ValueId> GivenTo(NodeId reader) const {
    std::vector<ValueId> given;
    std::vector<NodeId> open = {reader};
    std::set<NodeId> seen;
    for (size_t next = 0; next < open.size(); ++next) {
      for (const ValueId input : graph_.node(open[next]).inputs) {
        const Node& maker = graph_.node(MakerOf(input));
        if (!IsBackward(maker) || maker.role == Role::kRecompute || !seen.insert(MakerOf(input)).second) continue;
        const bool of_weights = maker.role == Role::kWeightGradient || maker.role == Role::kReduction;
        if (of_weights) {
          open.push_back(MakerOf(input));
        } else if (*maker.placement == *graph_.node(reader).placement) {
          given.push_back(input);
        }
      }
    }
    return given;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const bool gathers_, whole_;
  int num_segments_ = 0;                            // pieces of segments; behind them are boxings by themselves
  const std::vector<std::vector<NodeId>> readers_;  // before any clone was added
  const std::vector<bool> varies_;                  // by node: each micro-batch has its own
  std::vector<int> piece_;                          // by node
  std::vector<std::vector<NodeId>> pieces_;         // their nodes, in order
  std::vector<bool> cloned_;                        // by node
  std::vector<bool> kept_;                          // by value: clones read the original
  std::set<ValueId> begins_;  // of the current piece: clones begin with these, though they could be made again
  UniqueNames names_;
};

// Whether a forward node that is no boxing may be run again. Nodes with the same result in all micro-batches stay, and
// so do nodes with effects.
bool MayRepeat(const Node& node, const OpRegistry& ops) {
  const OpDef& op = *ops.Find(node.op);
  return (op.kind == OpKind::kCompute || op.kind == OpKind::kCast) && !op.has_effect && op.mutates.empty();
}

absl::Status CheckKind(const Graph& graph, const std::string& what) {
  std::set<std::string> kinds;
  for (const Segment& segment : graph.segments) kinds.insert(absl::StrCat("'", segment.kind, "'"));
  if (kinds.count(absl::StrCat("'", what, "'")) > 0) return absl::OkStatus();
  const std::string marks = kinds.empty() ? "no segments" : absl::StrCat(absl::StrJoin(kinds, ", "), " only");
  return absl::InvalidArgumentError(absl::StrCat("recompute.what is '", what, "', but the model marks ", marks));
}

}  // namespace

std::vector<int> RecomputedPieces(const Graph& graph, const PassContext& context) {
  const RecomputeOptions& options = context.options.recompute;
  std::vector<int> pieces(graph.num_nodes(), -1);
  if (options.what.empty() || !graph.is_trained()) return pieces;
  const std::vector<bool> varies = DependsOnMicroBatch(graph, context.ops);
  std::map<std::pair<int, int>, int> number;  // by chunk, segment
  std::map<int, int> of_chunk;
  int next = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const int segment = graph.SegmentOfKind(node.segment, options.what);
    if (segment < 0 || !IsForward(node) || !varies[id] || !MayRepeat(node, context.ops)) continue;
    if (options.segments.has_value() && options.segments->count(segment) == 0) continue;
    const auto [it, is_new] = number.try_emplace({node.chunk, segment}, -1);
    if (is_new && (options.first == 0 || of_chunk[node.chunk]++ < options.first)) it->second = next++;
    pieces[id] = it->second;
  }
  return pieces;
}

absl::StatusOr<bool> Recompute(Graph& graph, PassContext& context) {
  const RecomputeOptions& options = context.options.recompute;
  if (!options.any() || !graph.is_trained()) return false;
  if (!options.what.empty()) OF_RETURN_IF_ERROR(CheckKind(graph, options.what));
  Recomputation recomputation(graph, context.ops, RecomputedPieces(graph, context), options.gathers, options.whole);
  if (recomputation.Run()) return true;
  if (options.segments.has_value()) return false;  // nobody asked for these
  context.warnings.push_back(absl::StrCat("graph '", graph.name(), "': recompute ",
                                          options.what.empty() ? "" : absl::StrCat("'", options.what, "' "),
                                          "changes nothing: computing these values again would free no memory"));
  return false;
}

}  // namespace oneflow
