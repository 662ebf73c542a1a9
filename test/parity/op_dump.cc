// What our CPU kernels make of every op case, written down for op_parity_test.py to compare with PyTorch.
//
//   op_dump FOLDER        writes FOLDER/ops.json and FOLDER/ops.safetensors
//
// A case is its op on operands "<i>/in<k>": the results are "<i>/out<k>", and "<i>/after<k>" the operands that it
// overwrites. Where the op has a gradient, "<i>/dy0" is drawn at random for its first output (the others are statistics
// and indices, through which nothing flows), the nodes that the op's `grad` writes are run too, and "<i>/dx<k>" is the
// gradient of operand k.
//
// Random ops draw at step 0, by the seed of ops.json and the key "key" of their attributes if that is a text, else by
// the name of their node, "node".
//
// The functions of composed_cases.h are cases too: all their nodes are run, and the gradients are those that the
// compiler writes.
//
// The file has only two element types, which hold those of all operands exactly: f32 and i64. ops.json says which ones
// are meant.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actor/checkpoint/safetensors.h"
#include "compiler/boxed_graph.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/passes.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ragged.h"
#include "test/kernels/harness.h"
#include "test/parity/composed_cases.h"
#include "test/support/op_facts.h"

namespace oneflow::testing {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::map<ValueId, RefTensor>;

constexpr uint64_t kSeed = 20240609;  // that of the laws

RefTensor Empty(const TensorType& type) { return Zeros(type.shape.dims(), type.dtype); }

// Attributes as the compiler hands them to kernels: random ops draw by the job's seed and the node's key.
AttrMap KernelAttrs(const OpDef& op, const Node& node) {
  AttrMap attrs = node.attrs;
  if (op.random) {
    attrs.Set("seed", static_cast<int64_t>(kSeed));
    attrs.Set("key", static_cast<int64_t>(Fingerprint(attrs.String("key", node.name))));
  }
  return attrs;
}

// Computes the values of `graph`'s tensors, beginning with those of its variables, node by node from `first`.
absl::Status Run(DeviceContext& device, const OpRegistry& ops, const Graph& graph, NodeId first, Values* values) {
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op == "variable") continue;
    if (ops.Is(node.op, OpKind::kAnnotation)) {  // has no kernel: the compiler removes it
      (*values)[node.outputs[0]] = values->at(node.inputs[0]);
      continue;
    }
    const OpDef& op = *ops.Find(node.op);
    KernelCall call = {node.op, KernelAttrs(op, node), {}, {}};
    for (const ValueId input : node.inputs) call.inputs.push_back(values->at(input));
    for (const ValueId output : node.outputs) call.outputs.push_back(Empty(graph.value(output).type));
    OF_ASSIGN_OR_RETURN_AT(const KernelResult result, RunKernel(device, call), Where(node));
    for (size_t i = 0; i < node.outputs.size(); ++i) (*values)[node.outputs[i]] = result.outputs[i];
    for (const int i : op.mutates) (*values)[node.inputs[i]] = result.inputs[i];
  }
  return absl::OkStatus();
}

// Everything that is written, by name.
template <typename T>
absl::Status WriteAs(const SafetensorsWriter& writer, const std::string& name, const std::vector<double>& values) {
  const std::vector<T> converted(values.begin(), values.end());
  return writer.Write(name, 0, converted.data(), static_cast<int64_t>(converted.size() * sizeof(T)));
}

class Dump {
 public:
  // REQUIRES: the thread is bound to the device.
  Dump(const OpRegistry& ops, DeviceContext& device) : ops_(ops), device_(device), random_(kSeed + 2) {
    json_ = {{"seed", kSeed}, {"differentiable", Json::array()}, {"cases", Json::array()}};
    for (const auto& [name, op] : ops.all()) {
      if (op.grad != nullptr) json_["differentiable"].push_back(name);
    }
  }

  absl::Status Add(const OpCase& c) {
    if (CpuOps().count(c.op) > 0 || OpsMadeOfOthers().count(c.op) > 0) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(c.op));
    GraphEditor builder(ops_, Graph("case"));
    Values values;
    std::vector<Tensor> xs;
    for (const RefTensor& x : c.inputs) {
      xs.push_back(builder.Variable(absl::StrCat("x", xs.size()), Dense(TypeOf(x)), "zeros", {}, IsFloating(x.dtype)));
      values[xs.back().id()] = x;
    }
    for (size_t k = 0; k < xs.size(); ++k) {
      if (c.inputs[k].ragged >= 0) xs[k] = KeepRows(xs[k], xs.back());
    }
    const std::vector<Tensor> ys = builder.Op(c.op, xs, c.attrs);
    OF_RETURN_IF_ERROR(builder.status());
    OF_RETURN_IF_ERROR(Run(device_, ops_, builder.graph(), 0, &values));

    Json& json = AddJson(c, ys.empty() ? c.op : NodeOf(builder, ys[0]));
    for (size_t k = 0; k < xs.size(); ++k) Put(json, "in", k, c.inputs[k]);
    for (size_t k = 0; k < ys.size(); ++k) Put(json, "out", k, values.at(ys[k].id()));
    for (const int k : op->mutates) Put(json, "after", k, values.at(xs[k].id()));
    const bool differentiable = op->grad != nullptr && IsFloating(c.inputs[0].dtype) && IsFloating(ys[0].type().dtype);
    return differentiable ? AddGradient(*op, c, builder, xs, ys, &values, json) : absl::OkStatus();
  }

  absl::Status Add(const ComposedCase& c) {
    const OpCase& of = c.of_op;
    GraphEditor builder(ops_, Graph("case"));
    Values values;
    std::vector<Tensor> xs;
    bool differentiable = false;
    for (const RefTensor& x : of.inputs) {
      xs.push_back(builder.Variable(absl::StrCat("x", xs.size()), TypeOf(x), "zeros", {}, IsFloating(x.dtype)));
      values[xs.back().id()] = x;
      differentiable = differentiable || IsFloating(x.dtype);
    }
    const std::vector<Tensor> ys = c.call(xs);
    OF_RETURN_IF_ERROR(builder.status());
    differentiable = differentiable && IsFloating(ys[0].type().dtype);
    Json& json = AddJson(of, of.op);
    if (differentiable && composed_.insert(of.op).second) json_["differentiable"].push_back(of.op);
    RefTensor dy;
    if (differentiable) {
      const Tensor of_y = builder.Variable("dy", ys[0].type(), "zeros", {}, /*trainable=*/false);
      dy = values[of_y.id()] = Rounded(random_.Uniform(ys[0].shape().dims()));
      builder.SetLoss(ReduceSum(Mul(ys[0], of_y)));
    }
    OF_ASSIGN_OR_RETURN(Graph graph, builder.Finish());
    if (differentiable) {
      const CompileOptions options;
      const VariableDists none;
      PassContext context{options, ops_, none, JobTopology(options)};
      OF_RETURN_IF_ERROR(Autodiff(graph, context).status());
    }
    OF_RETURN_IF_ERROR(Run(device_, ops_, graph, 0, &values));
    for (size_t k = 0; k < xs.size(); ++k) Put(json, "in", k, of.inputs[k]);
    for (size_t k = 0; k < ys.size(); ++k) Put(json, "out", k, values.at(ys[k].id()));
    if (!differentiable) return absl::OkStatus();
    Put(json, "dy", 0, dy);
    for (size_t k = 0; k < xs.size(); ++k) {
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        if (graph.node(id).name == absl::StrCat("x", k, "/grad")) {
          Put(json, "dx", k, values.at(graph.node(id).outputs[0]));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Write(const std::string& folder) const {
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, x] : tensors_) list.push_back({name, {FileType(x.dtype), Shape(x.dims)}});
    OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(folder + "/ops.safetensors", list));
    for (const auto& [name, x] : tensors_) {
      if (IsFloating(x.dtype)) {
        OF_RETURN_IF_ERROR(WriteAs<float>(writer, name, x.values));
      } else {
        OF_RETURN_IF_ERROR(WriteAs<int64_t>(writer, name, x.values));
      }
    }
    OF_RETURN_IF_ERROR(writer.Close());
    std::ofstream file(folder + "/ops.json");
    file << json_.dump(1) << "\n";
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", folder, "/ops.json"));
    return absl::OkStatus();
  }

 private:
  static std::string NodeOf(const GraphBuilder& builder, Tensor y) {
    return builder.graph().node(builder.graph().value(y.id()).producer).name;
  }
  static DType FileType(DType dtype) { return IsFloating(dtype) ? DType::kFloat32 : DType::kInt64; }

  Json& AddJson(const OpCase& c, const std::string& node) {
    Json attrs = Json::object();
    for (const auto& [name, attr] : c.attrs.items()) {
      std::visit([&, key = name](const auto& value) { attrs[key] = value; }, attr);
    }
    json_["cases"].push_back({{"op", c.op}, {"what", c.what}, {"text", ToString(c)}, {"attrs", attrs}, {"node", node}});
    return json_["cases"].back();
  }

  // "<i>/<kind><k>", and its dtype in ops.json.
  void Put(Json& json, const char* kind, size_t k, const RefTensor& x) {
    json[kind][std::to_string(k)] = Name(x.dtype);
    tensors_[absl::StrCat(json_["cases"].size() - 1, "/", kind, k)] = x;
  }

  absl::Status AddGradient(const OpDef& op, const OpCase& c, GraphEditor& builder, const std::vector<Tensor>& xs,
                           const std::vector<Tensor>& ys, Values* values, Json& json) {
    const TensorType type = ys[0].type();
    RefTensor dy = random_.Uniform(type.shape.dims());
    dy.dtype = type.dtype;
    dy = Rounded(dy);
    Put(json, "dy", 0, dy);
    const NodeId forward = builder.graph().value(ys[0].id()).producer;
    std::vector<std::optional<Tensor>> dys(ys.size());
    dys[0] = builder.Variable("dy", Dense(type), "zeros");
    (*values)[dys[0]->id()] = dy;
    if (type.is_ragged()) dys[0] = KeepRows(*dys[0], xs.back());
    GradContext context(builder, forward, dys);
    for (size_t k = 0; k < xs.size(); ++k) {
      context.set_needs_grad(static_cast<int>(k), IsFloating(c.inputs[k].dtype));
    }
    OF_RETURN_IF_ERROR(op.grad(context));
    std::vector<std::optional<Tensor>> dxs = context.input_grads();
    for (size_t k = 0; k < xs.size(); ++k) {
      if (!dxs[k].has_value()) continue;
      if (dxs[k]->type().is_ragged()) dxs[k] = PadRows(*dxs[k]);
      dxs[k] = Cast(*dxs[k], c.inputs[k].dtype);  // as who reads it does
    }
    OF_RETURN_IF_ERROR(builder.status());
    OF_RETURN_IF_ERROR(Run(device_, ops_, builder.graph(), forward + 1, values));
    for (size_t k = 0; k < xs.size(); ++k) {
      if (dxs[k].has_value()) Put(json, "dx", k, values->at(dxs[k]->id()));
    }
    return absl::OkStatus();
  }

  const OpRegistry& ops_;
  DeviceContext& device_;
  Random random_;
  Json json_;
  std::set<std::string> composed_;  // functions with a gradient
  std::map<std::string, RefTensor> tensors_;
};

absl::Status DumpTo(const std::string& folder, bool on_cuda) {
  const OpRegistry ops = StandardOps();
  std::string why;
  const std::unique_ptr<DeviceContext> device = on_cuda ? MakeCudaDevice(0, &why) : MakeCpuDevice(1);
  if (device == nullptr) return absl::UnavailableError(why);
  if (const char* error = device->BindThread()) return absl::UnavailableError(error);
  Dump dump(ops, *device);
  for (const std::vector<OpCase>& cases : {Examples(kSeed), Extremes(kSeed)}) {
    for (const OpCase& c : cases) OF_RETURN_IF_ERROR(Annotate(dump.Add(c), ToString(c)));
  }
  for (const ComposedCase& c : ComposedCases(kSeed)) {
    OF_RETURN_IF_ERROR(Annotate(dump.Add(c), ToString(c.of_op)));
  }
  return dump.Write(folder);
}

}  // namespace
}  // namespace oneflow::testing

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && argv[2] != std::string("cuda"))) {
    std::cerr << "usage: op_dump FOLDER [cuda]\n";
    return 2;
  }
  const absl::Status status = oneflow::testing::DumpTo(argv[1], /*on_cuda=*/argc == 3);
  if (!status.ok()) std::cerr << "op_dump: " << status << "\n";
  return status.ok() ? 0 : 1;
}
