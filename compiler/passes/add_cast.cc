#include "compiler/passes/add_cast.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/ragged.h"

namespace oneflow {

ValueId AddCast(Graph& graph, ValueId value, DType dtype, const Node& reader, UniqueNames& names) {
  const Node& producer = graph.node(graph.value(value).producer);
  Node node;
  node.op = "cast";
  node.name = names.Make(absl::StrCat(producer.name, "/", Name(dtype)));
  node.attrs = {{"dtype", std::string(Name(dtype))}};
  node.inputs = WithCounts(graph, value);
  node.source = reader.source;
  node.at = reader.at;
  CopyProvenance(producer, node);
  const TensorType type{dtype, graph.value(value).type.shape, graph.value(value).type.ragged};
  return graph.node(graph.AddNode(std::move(node), {type})).outputs[0];
}

}  // namespace oneflow
