#include "compiler/adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/parameter_groups.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/graph_editor.h"
#include "oneflow_core/unique_names.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

// A product of rows with a weight, and how it reads it.
struct Product {
  NodeId node = -1;
  NodeId weight = -1;
};

bool IsWeight(const Graph& graph, NodeId id, const OpRegistry& ops) {
  const Node& node = graph.node(id);
  return ops.Is(node.op, OpKind::kVariable) && RoleOfVariable(node.attrs) == VariableRole::kWeight;
}

// The products with a weight; adds to `read_otherwise` the names of weights that something else reads too. Products are
// the ops that have a form for packed weights: input 1 is the matrix.
std::vector<Product> ProductsOf(const Graph& graph, const OpRegistry& ops, std::set<std::string>& read_otherwise) {
  std::vector<Product> products;
  std::vector<NodeId> weight(graph.num_values(), -1);  // by value: the weight that it is
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const OpKind kind = ops.KindOf(node.op);
    if (IsWeight(graph, id, ops) && graph.value(node.outputs[0]).type.shape.rank() == 2) {
      weight[node.outputs[0]] = id;
    } else if (kind == OpKind::kCast || kind == OpKind::kAnnotation) {
      weight[node.outputs[0]] = weight[node.inputs[0]];
    } else {
      const bool multiplies = !ops.Find(node.op)->packed.empty();
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const NodeId read = weight[node.inputs[i]];
        if (read < 0) continue;
        if (multiplies && i == 1) {
          products.push_back({id, read});
        } else {
          read_otherwise.insert(graph.node(read).name);
        }
      }
    }
  }
  return products;
}

// The wishes of `hint` that split dimension `dim`.
SbpHint SplitsOf(const SbpHint& hint, int dim) {
  SbpHint splits;
  for (const AxisSbp& wish : hint) {
    if (wish.sbp == Sbp::Split(dim)) splits.push_back(wish);
  }
  return splits;
}

class Adapter {
 public:
  Adapter(const AdapterOptions& options, const OpRegistry& ops, Graph graph)
      : options_(options), trained_(graph.is_trained()), names_(graph), editor_(ops, std::move(graph)) {}

  // Adds the adapter of the product's weight to what it makes.
  void Adapt(const Product& product) {
    const Node node = editor_.graph().node(product.node);
    const Node weight = editor_.graph().node(product.weight);
    const bool transposed = node.attrs.Bool("transpose_b");
    const SbpHint hint = editor_.graph().value(weight.outputs[0]).hint;
    const Shape shape = editor_.graph().value(weight.outputs[0]).type.shape;
    const int64_t inputs = shape[transposed ? 1 : 0];
    const std::string first = absl::StrCat("uniform(", 1 / std::sqrt(static_cast<double>(inputs)), ")");
    const int first_new = editor_.graph().num_nodes();
    editor_.Imitate(weight);
    const Tensor a =
        Factor(AdapterA(weight.name), {shape[0], options_.rank}, transposed ? "zeros" : first, SplitsOf(hint, 0));
    const Tensor b =
        Factor(AdapterB(weight.name), {options_.rank, shape[1]}, transposed ? first : "zeros", SplitsOf(hint, 1));
    editor_.Imitate(node);
    Tensor x(&editor_, node.inputs[0]);
    if (trained_ && options_.dropout > 0) x = Dropout(x, options_.dropout);
    const Tensor thin = transposed ? MatMul(MatMul(x, b, true), a, true) : MatMul(MatMul(x, a), b);
    const Tensor old(&editor_, node.outputs[0]);
    const Tensor sum = old + Scale(thin, options_.alpha / static_cast<double>(options_.rank));
    if (!sum.valid()) return;  // the editor keeps the error
    replaced_[old.id()] = sum.id();
    Graph& graph = editor_.mutable_graph();
    for (NodeId id = first_new; id < graph.num_nodes(); ++id) {
      Node& made = graph.node(id);
      if (editor_.ops().Is(made.op, OpKind::kVariable)) continue;
      made.precision = node.precision;
      made.name = names_.Make(absl::StrCat(node.name, "/lora/", made.op));
    }
    kept_.insert(graph.value(sum.id()).producer);
  }

  // The graph; whoever read a product reads its sum.
  absl::StatusOr<Graph> Finish() {
    OF_ASSIGN_OR_RETURN(Graph graph, editor_.Finish());
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (kept_.count(id) > 0) continue;
      Node& node = graph.node(id);
      for (ValueId& input : node.inputs) Replace(input);
      for (ValueId& value : node.after) Replace(value);
    }
    for (ValueId& loss : graph.losses) Replace(loss);
    graph.Rebuild(std::vector<bool>(graph.num_nodes(), true));
    return graph;
  }

 private:
  Tensor Factor(const std::string& name, const Shape& shape, const std::string& init, SbpHint hint) {
    const Tensor factor = editor_.Variable(name, {DType::kFloat32, shape}, init, std::move(hint));
    if (!factor.valid()) return factor;
    Graph& graph = editor_.mutable_graph();
    Node& node = graph.node(graph.value(factor.id()).producer);
    node.attrs.Set("adapter", true);
    return factor;
  }

  void Replace(ValueId& value) const {
    const auto found = replaced_.find(value);
    if (found != replaced_.end()) value = found->second;
  }

  const AdapterOptions& options_;
  const bool trained_;
  UniqueNames names_;
  GraphEditor editor_;
  std::map<ValueId, ValueId> replaced_;  // sums by products
  std::set<NodeId> kept_;                // the sums, which read products
};

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

absl::Status CheckPatterns(const std::vector<std::string>& patterns, const std::set<std::string>& names,
                           absl::string_view field, absl::string_view what) {
  constexpr size_t kMost = 6;  // names in an error
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return MatchesPattern(pattern, name); })) {
      continue;
    }
    const std::vector<std::string> some(names.begin(), std::next(names.begin(), std::min(kMost, names.size())));
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": '", pattern, "' matches no ", what, "; ",
        some.empty()
            ? "there is none"
            : absl::StrCat("there are '", absl::StrJoin(some, "', '"), "'", names.size() > kMost ? ", ..." : "")));
  }
  return absl::OkStatus();
}

// Whether the graph has a variable of that name that is no weight's factor.
absl::Status CheckFree(const Graph& graph, const OpRegistry& ops) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!IsWeight(graph, id, ops)) continue;
    for (const std::string& name : {AdapterA(node.name), AdapterB(node.name)}) {
      const NodeId taken = graph.FindNode(name);
      if (taken < 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(Where(graph.node(taken)), ": its name is that of the adapter of '", node.name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status AddTo(const AdapterOptions& options, const OpRegistry& ops, const std::vector<Product>& products,
                   Graph& graph) {
  OF_RETURN_IF_ERROR(CheckFree(graph, ops));
  std::vector<Product> chosen;
  for (const Product& product : products) {
    if (MatchesAny(options.match, graph.node(product.weight).name)) chosen.push_back(product);
  }
  if (chosen.empty()) return absl::OkStatus();
  Adapter adapter(options, ops, std::move(graph));
  for (const Product& product : chosen) adapter.Adapt(product);
  OF_ASSIGN_OR_RETURN(graph, adapter.Finish());
  return absl::OkStatus();
}

}  // namespace

std::string AdapterA(const std::string& weight) { return absl::StrCat(weight, "/lora_a"); }
std::string AdapterB(const std::string& weight) { return absl::StrCat(weight, "/lora_b"); }

absl::Status AddAdapters(const AdapterOptions& options, const OpRegistry& ops, Program& program) {
  // What a table is looked up for would not have the adapter, in whichever graph.
  std::set<std::string> matrices, read_otherwise, weights;
  std::vector<std::vector<Product>> products;
  for (const Graph& graph : program) products.push_back(ProductsOf(graph, ops, read_otherwise));
  for (size_t i = 0; i < program.size(); ++i) {
    const Graph& graph = program[i];
    const auto is_shared = [&](const Product& product) {
      return read_otherwise.count(graph.node(product.weight).name) > 0;
    };
    products[i].erase(std::remove_if(products[i].begin(), products[i].end(), is_shared), products[i].end());
    for (const Product& product : products[i]) matrices.insert(graph.node(product.weight).name);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      if (IsWeight(graph, id, ops)) weights.insert(graph.node(id).name);
    }
  }
  OF_RETURN_IF_ERROR(
      CheckPatterns(options.match, matrices, "match", "matrix that rows are multiplied by and nothing else reads"));
  OF_RETURN_IF_ERROR(CheckPatterns(options.also, weights, "also", "weight"));
  for (size_t i = 0; i < program.size(); ++i) {
    OF_RETURN_IF_ERROR_AT(AddTo(options, ops, products[i], program[i]),
                          absl::StrCat("graph '", program[i].name(), "'"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
