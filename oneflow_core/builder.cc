#include "oneflow_core/builder.h"

#include "oneflow_core/ragged.h"
#include "oneflow_core/tiers.h"

namespace oneflow {
namespace {

// "models/gpt.cc:42": the last two components, so that graphs do not depend on where a project was checked out.
std::string ShortSource(const std::source_location& loc) {
  absl::string_view file = loc.file_name();
  const size_t last = file.rfind('/');
  if (last != absl::string_view::npos && last > 0) {
    const size_t before = file.rfind('/', last - 1);
    if (before != absl::string_view::npos) file.remove_prefix(before + 1);
  }
  return absl::StrCat(file, ":", loc.line());
}

std::vector<TensorType> TypesOf(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<TensorType> types;
  for (const ValueId value : values) types.push_back(graph.value(value).type);
  return types;
}

const TensorType& InvalidType() {
  static const TensorType* const kType = new TensorType;
  return *kType;
}

}  // namespace

const TensorType& Tensor::type() const { return valid() ? builder_->graph().value(id_).type : InvalidType(); }

Tensor Tensor::Asked(AttrMap attrs, PlacementHint at, SbpHint sbp, std::source_location loc) const {
  if (!valid()) return *this;
  const Tensor result = builder_->Op1("to", {*this}, std::move(attrs), loc);
  if (!result.valid()) return result;
  Graph& graph = builder_->graph_;
  graph.value(result.id()).hint = std::move(sbp);
  if (!at.empty()) graph.node(graph.value(result.id()).producer).at = std::move(at);
  return result;
}

Tensor Tensor::To(SbpHint sbp, std::source_location loc) const { return Asked({}, {}, std::move(sbp), loc); }

Tensor Tensor::ToWithGradient(SbpHint sbp, std::source_location loc) const {
  return Asked({{"gradient", true}}, {}, std::move(sbp), loc);
}

Tensor Tensor::To(PlacementHint at, SbpHint sbp, std::source_location loc) const {
  return Asked({}, std::move(at), std::move(sbp), loc);
}

Tensor Tensor::KeptIn(absl::string_view tier, std::source_location loc) const {
  if (!valid()) return *this;
  Node& node = builder_->graph_.node(builder_->graph_.value(id_).producer);
  if (!builder_->ops_.Is(node.op, OpKind::kVariable) || FindTier(tier) == nullptr) {
    builder_->Fail(absl::InvalidArgumentError(
        absl::StrCat(Where(node), ": asked at ", ShortSource(loc), " to be kept in '", tier, "', ",
                     FindTier(tier) == nullptr ? "which is no tier" : "but only variables are kept")));
    return *this;
  }
  node.attrs.Set(kTierAttr, std::string(tier));
  return *this;
}

GraphBuilder::GraphBuilder(const OpRegistry& ops, std::string graph_name) : ops_(ops), graph_(std::move(graph_name)) {}

GraphBuilder::GraphBuilder(const OpRegistry& ops, Graph graph) : ops_(ops), graph_(std::move(graph)), names_(graph_) {
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    const Node& node = graph_.node(id);
    if (ops.Is(node.op, OpKind::kVariable)) variables_[node.name] = node.outputs[0];
  }
}

Node GraphBuilder::NewNode(const std::source_location& loc) const {
  Node node;
  node.source = source_.has_value() ? *source_ : ShortSource(loc);
  node.at = at_;
  node.precision = precision_;
  CopyProvenance(like_, node);
  return node;
}

void GraphBuilder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::StatusOr<std::vector<ValueId>> GraphBuilder::RaggedInputs(const OpDef& def, const std::vector<Tensor>& inputs,
                                                                const AttrMap& attrs, std::source_location loc) {
  bool pads = def.ragged == RaggedUse::kPads;
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  if (!pads) {
    OF_ASSIGN_OR_RETURN(const RaggedRule ragged, RaggedRuleOf(def, {types, attrs}));
    pads = ragged.sums && !ragged.by_groups;
  }
  std::vector<ValueId> read;
  ValueId counts = -1;
  for (const Tensor& input : inputs) {
    read.push_back(input.id());
    if (!input.type().is_ragged()) continue;
    const ValueId its = CountsOf(graph_, input.id());
    if (pads) {
      const Tensor padded = Op1("pad_rows", {input, Tensor(this, its)}, {}, loc);
      read.back() = padded.id();
    } else if (counts >= 0 && counts != its) {
      return absl::InvalidArgumentError(absl::StrCat("ragged inputs have different counts: those of ",
                                                     Where(graph_.node(graph_.value(counts).producer)), " and of ",
                                                     Where(graph_.node(graph_.value(its).producer))));
    }
    counts = its;
  }
  if (!pads) read.push_back(counts);
  return read;
}

std::vector<Tensor> GraphBuilder::Op(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs,
                                     std::source_location loc, absl::string_view name) {
  const OpDef* def = ops_.Find(op);
  Node node = NewNode(loc);
  node.op = std::string(op);
  node.attrs = std::move(attrs);
  bool inputs_valid = true;
  for (const Tensor& input : inputs) {
    inputs_valid = inputs_valid && input.valid() && input.builder() == this;
    node.inputs.push_back(input.id());
  }
  node.name = names_.Make(absl::StrCat(scope_, name.empty() ? op : name));
  if (def == nullptr) {
    Fail(Annotate(absl::InvalidArgumentError(absl::StrCat("no op '", op, "'")), Where(node)));
    return {};
  }
  if (!inputs_valid) {
    Fail(Annotate(absl::InvalidArgumentError("an input is no tensor of this graph"), Where(node)));
    return std::vector<Tensor>(1);
  }
  absl::StatusOr<std::vector<TensorType>> types = std::vector<TensorType>();
  if (TakesCounts(*def, TypesOf(graph_, node.inputs))) {
    absl::StatusOr<std::vector<ValueId>> read = RaggedInputs(*def, inputs, node.attrs, loc);
    if (read.ok())
      node.inputs = *std::move(read);
    else
      types = read.status();
  }
  if (types.ok()) types = InferTypes(*def, {TypesOf(graph_, node.inputs), node.attrs});
  if (!types.ok()) {
    Fail(Annotate(types.status(), Where(node)));
    return std::vector<Tensor>(4);  // enough invalid tensors for any op's outputs
  }
  const NodeId id = graph_.AddNode(std::move(node), *types);
  std::vector<Tensor> outputs;
  for (ValueId output : graph_.node(id).outputs) outputs.emplace_back(this, output);
  return outputs;
}

Tensor GraphBuilder::Op1(absl::string_view op, const std::vector<Tensor>& inputs, AttrMap attrs,
                         std::source_location loc, absl::string_view name) {
  const std::vector<Tensor> outputs = Op(op, inputs, std::move(attrs), loc, name);
  return outputs.empty() ? Tensor() : outputs[0];
}

Tensor GraphBuilder::Variable(absl::string_view name, const TensorType& type, absl::string_view init, SbpHint hint,
                              bool trainable, std::source_location loc) {
  const std::string full_name = absl::StrCat(scope_, name);
  if (const auto it = variables_.find(full_name); it != variables_.end()) {
    const TensorType& existing = graph_.value(it->second).type;
    if (existing != type) {
      Fail(absl::InvalidArgumentError(absl::StrCat("variable '", full_name, "': declared as ", existing.ToString(),
                                                   " and again as ", type.ToString(), " at ", ShortSource(loc))));
      return Tensor();
    }
    SbpHint& wish = graph_.value(it->second).hint;
    if (wish.empty()) wish = std::move(hint);
    if (!hint.empty() && hint != wish) {
      Fail(absl::InvalidArgumentError(absl::StrCat("variable '", full_name, "': asked to lie as ", ToString(wish),
                                                   " and again as ", ToString(hint), " at ", ShortSource(loc))));
      return Tensor();
    }
    return Tensor(this, it->second);
  }
  const Tensor result = Op1("variable", {},
                            {{"dtype", std::string(Name(type.dtype))},
                             {"shape", type.shape.dims()},
                             {"init", std::string(init)},
                             {"trainable", trainable}},
                            loc, name);
  if (!result.valid()) return result;
  graph_.value(result.id()).hint = std::move(hint);
  variables_[full_name] = result.id();
  return result;
}

Tensor GraphBuilder::Statistic(absl::string_view name, const TensorType& type, absl::string_view init,
                               std::source_location loc) {
  const Tensor result = Variable(name, type, init, {}, /*trainable=*/false, loc);
  if (result.valid()) graph_.node(graph_.value(result.id()).producer).attrs.Set("statistic", true);
  return result;
}

void GraphBuilder::SetLoss(const Tensor& loss) {
  if (!loss.valid() || loss.builder() != this) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("graph '", graph_.name(), "': the loss is no tensor of this graph")));
  }
  if (loss.type() != TensorType{DType::kFloat32, {}}) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("graph '", graph_.name(), "': the loss must be f32[] but is ", loss.type().ToString())));
  }
  graph_.losses.push_back(loss.id());
}

absl::StatusOr<Graph> GraphBuilder::Finish() {
  OF_RETURN_IF_ERROR(status_);
  return std::move(graph_);
}

GraphBuilder::Scope::Scope(GraphBuilder& builder, absl::string_view name)
    : builder_(builder), saved_length_(builder.scope_.size()) {
  absl::StrAppend(&builder_.scope_, name, "/");
}
GraphBuilder::Scope::~Scope() { builder_.scope_.resize(saved_length_); }

GraphBuilder::PlacementScope::PlacementScope(GraphBuilder& builder, PlacementHint at)
    : builder_(builder), saved_(std::move(builder.at_)) {
  builder_.at_ = std::move(at);
}
GraphBuilder::PlacementScope::~PlacementScope() { builder_.at_ = std::move(saved_); }

GraphBuilder::PrecisionScope::PrecisionScope(GraphBuilder& builder, DType compute)
    : builder_(builder), saved_(builder.precision_) {
  if (!IsFloating(compute)) {
    builder_.Fail(absl::InvalidArgumentError(absl::StrCat("graph '", builder_.graph_.name(), "': asked to compute in ",
                                                          Name(compute), ", which is not floating")));
  }
  builder_.precision_ = compute;
}
GraphBuilder::PrecisionScope::~PrecisionScope() { builder_.precision_ = saved_; }

GraphBuilder::Segment::Segment(GraphBuilder& builder, absl::string_view kind)
    : builder_(builder), saved_(builder.like_.segment) {
  builder_.graph_.segments.push_back({std::string(kind), saved_});
  builder_.like_.segment = static_cast<int>(builder_.graph_.segments.size()) - 1;
}
GraphBuilder::Segment::~Segment() { builder_.like_.segment = saved_; }

}  // namespace oneflow
