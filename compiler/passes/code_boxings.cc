// Boxings whose values travel as levels of few bits (oneflow_core/ops/codec.cc): gathers of weights that lie split
// along an axis (ZeRO++; Wang et al., 2023), and what goes from stage to stage (AQ-SGD; Wang et al., NeurIPS 2022,
// without its differences). It runs behind insert-boxing, so it sees the single steps by which values travel.
//
//   x [b,t,c] ──► [b,t,c/k,k] ──► quantize ──┬► codes ──► boxing ──┬► dequantize ──► [b,t,c]
//                                            └► ranges ─► boxing ──┘
//
// Buckets are cut from the last dimension, within what each rank has of it, so the layouts of codes are those of the
// value. Rounding is at random and right on average. Backward reads what forward read: the rounded value.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/passes/passes.h"
#include "oneflow_core/unique_names.h"

namespace oneflow {
namespace {

// Smaller values travel as they are: messages cost more than their bytes.
constexpr int64_t kFewestElements = 512;
// A range is two floats: of fewer elements codes save little.
constexpr int64_t kFewestOfBucket = 32;

// How a value is cut into buckets: dims, of which the last one is a bucket.
using BucketDims = std::optional<std::vector<int64_t>>;

// Into how many parts the layout cuts a dimension.
int64_t Parts(const DistType& dist, int dim) {
  int64_t parts = 1;
  for (size_t a = 0; a < dist.sbp.size(); ++a) {
    if (dist.sbp[a].is_split() && dist.sbp[a].dim() == dim) parts *= dist.placement.axes()[a].size;
  }
  return parts;
}

bool IsWhole(const DistType& dist, int dim) { return Parts(dist, dim) == 1; }

bool IsPartial(const DistType& dist) {
  return std::any_of(dist.sbp.begin(), dist.sbp.end(), [](Sbp sbp) { return sbp.is_partial(); });
}

// The largest multiple of 8 up to `most` that divides what each of the parts has of `elements`; 0: there is none.
int64_t BucketOf(int64_t elements, int64_t parts, int64_t most) {
  if (elements % parts != 0) return 0;
  for (int64_t size = std::min(most, elements / parts) / 8 * 8; size >= kFewestOfBucket; size -= 8) {
    if (elements / parts % size == 0) return size;
  }
  return 0;
}

BucketDims BucketsOf(const Shape& shape, const DistType& from, const DistType& to, int64_t most) {
  std::vector<int64_t> dims = shape.dims();
  if (dims.empty() || shape.count() < kFewestElements) return std::nullopt;
  const int last = static_cast<int>(dims.size()) - 1;
  const int64_t parts = std::max(Parts(from, last), Parts(to, last));
  if (const int64_t bucket = BucketOf(dims[last], parts, most); bucket > 0) {
    dims[last] /= bucket;
    dims.push_back(bucket);
    return dims;
  }
  // Rows whose last dimension is short, as a kernel's is.
  for (int dim = 1; dim <= last; ++dim) {
    if (!IsWhole(from, dim) || !IsWhole(to, dim)) return std::nullopt;
  }
  const int64_t row = shape.count() / dims[0], bucket = BucketOf(row, 1, most);
  if (last == 0 || bucket == 0) return std::nullopt;
  return std::vector<int64_t>{dims[0], row / bucket, bucket};
}

class BoxingCoder {
 public:
  BoxingCoder(Graph& graph, const PassContext& context, std::string axis)
      : graph_(graph),
        ops_(context.ops),
        options_(*context.options.compress),
        axis_(std::move(axis)),
        names_(graph),
        varies_(DependsOnMicroBatch(graph, ops_)),
        num_nodes_(graph.num_nodes()) {}

  // Whether anything travels as these levels. Once Run() has run.
  bool Uses(const LevelOptions& levels) const { return used_.count(&levels) > 0; }

  bool Run() {
    for (NodeId id = 0; id < num_nodes_; ++id) {
      if (!ops_.Is(graph_.node(id).op, OpKind::kBoxing)) continue;
      const LevelOptions* const levels = LevelsOf(graph_.node(id));
      if (levels != nullptr && Code(id, *levels)) used_.insert(levels);
    }
    if (graph_.num_nodes() == num_nodes_) return false;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {  // those of another boxing too
      for (ValueId& input : graph_.node(id).inputs) {
        if (const auto coded = coded_.find(input); coded != coded_.end()) input = coded->second;
      }
    }
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (const auto& [output, coded] : coded_) keep[graph_.value(output).producer] = false;
    graph_.Rebuild(keep);
    return true;
  }

 private:
  const DistType& DistOf(ValueId value) const { return *graph_.value(value).dist; }

  // Null: it travels as it is.
  const LevelOptions* LevelsOf(const Node& boxing) const {
    const ValueId from = boxing.inputs[0], to = boxing.outputs[0];
    const TensorType& type = graph_.value(from).type;
    if (type.is_ragged() || (type.dtype != DType::kFloat32 && type.dtype != DType::kBFloat16)) return nullptr;
    if (IsPartial(DistOf(from)) || IsPartial(DistOf(to))) return nullptr;
    const bool moves = DistOf(from).placement != DistOf(to).placement;
    if (moves) return IsOfMicroBatch(boxing) && options_.stages.bits > 0 ? &options_.stages : nullptr;
    return options_.weights.bits > 0 && IsGather(boxing) && IsWeight(from) ? &options_.weights : nullptr;
  }

  // What a micro-batch makes for the other stages; sums of gradients and updates are exact.
  bool IsOfMicroBatch(const Node& boxing) const {
    const NodeId maker = graph_.value(boxing.inputs[0]).producer;
    return varies_[maker] && boxing.role != Role::kReduction && !IsUpdate(boxing);
  }

  bool IsGather(const Node& boxing) const {
    const DistType &from = DistOf(boxing.inputs[0]), &to = DistOf(boxing.outputs[0]);
    for (size_t a = 0; a < from.sbp.size(); ++a) {
      if (from.placement.axes()[a].name != axis_) continue;
      if (from.sbp[a].is_split() && to.sbp[a].is_broadcast()) return true;
    }
    return false;
  }

  // A variable that is trained, or what is made of each element of it, as by a cast.
  bool IsWeight(ValueId value) const {
    const Node* maker = &graph_.node(graph_.value(value).producer);
    if (ops_.Find(maker->op)->is_elementwise && maker->inputs.size() == 1) {
      maker = &graph_.node(graph_.value(maker->inputs[0]).producer);
    }
    return ops_.Is(maker->op, OpKind::kVariable) && maker->attrs.Bool("trainable");
  }

  // Its value travels as levels from now on. False: it does not consist of whole buckets, and nothing is changed.
  bool Code(NodeId id, const LevelOptions& levels) {
    const Node boxing = graph_.node(id);
    const ValueId from = boxing.inputs[0];
    const DistType there = DistOf(boxing.outputs[0]);
    const TensorType type = graph_.value(from).type;
    const BucketDims buckets = BucketsOf(type.shape, DistOf(from), there, levels.bucket);
    if (!buckets) return false;
    const LevelValues own = LevelsOf(from, *buckets, levels, boxing);
    const auto move = [&](ValueId x, const char* what) {
      Node node;
      node.op = "boxing";
      node.name = names_.Make(absl::StrCat(boxing.name, "/", what));
      node.inputs = {x};
      return AddBoxing(graph_, std::move(node), boxing, x, there, ops_);
    };
    ValueId x = Add("dequantize", boxing, {move(own.codes, "codes"), move(own.ranges, "ranges")},
                    {{"bits", levels.bits}}, {{DType::kFloat32, Shape(*buckets)}}, there)[0];
    x = Add("reshape", boxing, {x}, {{"shape", type.shape.dims()}}, {{DType::kFloat32, type.shape}}, there)[0];
    if (type.dtype != DType::kFloat32) x = Cast(x, type.dtype, boxing, there);
    coded_[boxing.outputs[0]] = x;
    return true;
  }

  struct LevelValues {
    ValueId codes = -1, ranges = -1;
  };
  // Once for all boxings that the value goes by.
  LevelValues LevelsOf(ValueId x, const std::vector<int64_t>& buckets, const LevelOptions& levels, const Node& boxing) {
    const auto known = levels_.find({x, buckets});
    if (known != levels_.end()) return known->second;
    const ValueId from = x;
    const DistType here = DistOf(from);
    if (graph_.value(x).type.dtype != DType::kFloat32) x = Cast(x, DType::kFloat32, boxing, here);
    x = Add("reshape", boxing, {x}, {{"shape", buckets}}, {{DType::kFloat32, Shape(buckets)}}, here)[0];
    std::vector<int64_t> of_codes = buckets, of_ranges = buckets;
    of_codes.back() = buckets.back() / 8 * levels.bits;
    of_ranges.back() = 2;
    const std::vector<ValueId> made =
        Add("quantize", boxing, {x}, {{"bits", levels.bits}, {"stochastic", true}},
            {{DType::kUInt8, Shape(of_codes)}, {DType::kFloat32, Shape(of_ranges)}}, here);
    return levels_[{from, buckets}] = {made[0], made[1]};
  }

  ValueId Cast(ValueId x, DType dtype, const Node& boxing, const DistType& dist) {
    return Add("cast", boxing, {x}, {{"dtype", std::string(Name(dtype))}}, {{dtype, graph_.value(x).type.shape}},
               dist)[0];
  }

  std::vector<ValueId> Add(const char* op, const Node& boxing, std::vector<ValueId> inputs, AttrMap attrs,
                           const std::vector<TensorType>& types, const DistType& dist) {
    Node node;
    node.op = op;
    node.name = names_.Make(absl::StrCat(boxing.name, "/", op));
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.source = boxing.source;
    CopyProvenance(boxing, node);
    node.rate = ValueRate(graph_, node.inputs[0], ops_);
    node.placement = dist.placement;
    const NodeId id = graph_.AddNode(std::move(node), types);
    for (const ValueId output : graph_.node(id).outputs) graph_.value(output).dist = dist;
    return graph_.node(id).outputs;
  }

  Graph& graph_;
  const OpRegistry& ops_;
  const CompressOptions& options_;
  const std::string axis_;
  UniqueNames names_;
  const std::vector<bool> varies_;
  std::set<const LevelOptions*> used_;  // those as which anything travels
  const int num_nodes_;
  std::map<std::pair<ValueId, std::vector<int64_t>>, LevelValues> levels_;
  std::map<ValueId, ValueId> coded_;  // what readers of a boxing read instead
};

absl::Status CheckLevels(const char* field, const LevelOptions& levels) {
  if (levels.bits < 0 || levels.bits > 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("compress.", field, ".bits is ", levels.bits, " but must be in [1, 8]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> CodeBoxings(Graph& graph, PassContext& context) {
  const std::optional<CompressOptions>& options = context.options.compress;
  if (!graph.is_trained() || !options || (options->weights.bits == 0 && options->stages.bits == 0)) return false;
  if (options->exact.count(graph.name()) > 0) return false;
  OF_RETURN_IF_ERROR(CheckLevels("weights", options->weights));
  OF_RETURN_IF_ERROR(CheckLevels("stages", options->stages));
  std::string axis;
  if (options->weights.bits > 0) {
    const Mesh mesh = context.options.MeshOf(graph.name()).mesh();
    OF_ASSIGN_OR_RETURN(axis, FindAxis(mesh, options->axis, "compress.axis"));
  }
  BoxingCoder coder(graph, context, axis);
  const bool changed = coder.Run();
  const auto warn = [&](const LevelOptions& levels, const char* field, const std::string& why) {
    if (levels.bits == 0 || coder.Uses(levels)) return;
    context.warnings.push_back(absl::StrCat("graph '", graph.name(), "': compress.", field, " changes nothing: ", why));
  };
  warn(options->weights, "weights",
       absl::StrCat("no weight that lies split along '", axis, "' is gathered in whole buckets of levels"));
  warn(options->stages, "stages", "nothing that a micro-batch makes goes to another stage in whole buckets of levels");
  return changed;
}

}  // namespace oneflow
