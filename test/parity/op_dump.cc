// What our CPU kernels make of every op case, written down for op_parity_test.py to compare with PyTorch.
//
//   op_dump FOLDER        writes FOLDER/ops.json and FOLDER/ops.safetensors
//
// A case is its op on operands "<i>/in<k>": the results are "<i>/out<k>", and "<i>/after<k>" the operands that it overwrites. Where
// the op has a gradient, "<i>/dy0" is drawn at random for its first output (the others are statistics and indices, through which
// nothing flows), the nodes that the op's `grad` writes are run too, and "<i>/dx<k>" is the gradient of operand k.
//
// The file has only two element types, which hold those of all operands exactly: f32 and i64. ops.json says which ones are meant.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "actor/checkpoint/safetensors.h"
#include "compiler/lower/lower.h"
#include "kernels/device.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/ops.h"
#include "test/kernels/cases.h"
#include "test/kernels/harness.h"
#include "test/laws/op_cases.h"

namespace oneflow::testing {
namespace {

using Ints = std::vector<int64_t>;
using Json = nlohmann::ordered_json;
using Values = std::map<ValueId, RefTensor>;

constexpr uint64_t kSeed = 20240609;  // that of the laws

// Of few values, so that there are ties and zeros.
RefTensor Few(Random& r, const Ints& dims) {
  RefTensor x = r.Integers(dims, 4);
  x.dtype = DType::kFloat32;
  for (double& value : x.values) value -= 2;
  return x;
}

// Where an op has several slopes to choose from.
void AddTies(Random& r, std::vector<OpCase>& cases) {
  cases.push_back({"relu", {}, {Few(r, {7, 5})}});
  for (const char* op : {"maximum", "minimum", "heaviside"}) {
    for (const Ints& b : {Ints{7, 5}, Ints{5}}) cases.push_back({op, {}, {Few(r, {7, 5}), Few(r, b)}});
  }
  for (const char* op : {"reduce_max", "reduce_min"}) {
    for (const Ints& axes : {Ints{1}, Ints{0, 2}, Ints{0, 1, 2}}) {
      for (const bool keepdims : {false, true}) {
        cases.push_back({op, {{"axes", axes}, {"keepdims", keepdims}}, {Few(r, {7, 5, 3})}});
      }
    }
  }
  for (const int64_t stride : {1, 2}) {
    cases.push_back({"max_pool2d", {{"kernel", int64_t{3}}, {"stride", stride}}, {Few(r, {3, 5, 5, 7})}});
  }
  cases.push_back({"top_k", {{"k", int64_t{5}}}, {Few(r, {5, 3, 7})}});
}

// What only moves elements does so in all types.
void AddNarrow(Random& r, std::vector<OpCase>& cases) {
  const auto one = [](const char* name, int64_t value) { return std::pair<const std::string, Attr>{name, value}; };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const auto x = [&](const Ints& dims) {
      RefTensor uniform = r.Uniform(dims);
      uniform.dtype = dtype;
      return uniform;
    };
    cases.push_back({"reshape", {{"shape", Ints{5, 7}}}, {x({7, 5})}});
    cases.push_back({"transpose", {{"perm", Ints{2, 0, 1}}}, {x({7, 5, 3})}});
    cases.push_back({"slice", {one("axis", 1), one("start", 1), one("size", 3)}, {x({7, 5})}});
    cases.push_back({"slice_grad", {one("axis", 1), one("start", 1), one("size", 9)}, {x({7, 5})}});
    cases.push_back({"concat", {one("axis", 1)}, {x({7, 5}), x({7, 2})}});
    cases.push_back({"pad", {{"before", Ints{0, 2}}, {"after", Ints{1, 0}}, {"value", 0.0}}, {x({7, 5})}});
  }
}

// Windows of other shapes than a padded square of three.
void AddWindows(Random& r, std::vector<OpCase>& cases) {
  for (const auto& [kernel, stride, padding] : std::vector<std::tuple<Ints, int64_t, int64_t>>{
           {{1, 1}, 2, 0}, {{5, 5}, 3, 2}, {{2, 3}, 1, 0}, {{3, 1}, 2, 1}}) {
    cases.push_back({"conv2d",
                     {{"stride", stride}, {"padding", padding}},
                     {r.Uniform({2, 3, 8, 7}), r.Uniform({4, 3, kernel[0], kernel[1]})}});
  }
  for (const auto& [kernel, stride] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 3}, {4, 1}}) {
    cases.push_back({"max_pool2d", {{"kernel", kernel}, {"stride", stride}}, {r.Uniform({2, 3, 8, 7})}});
  }
}

// Where formulas overflow, cancel or divide by zero if they are not written with care.
void AddExtremes(Random& r, std::vector<OpCase>& cases) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [&](RefTensor x, std::vector<double> values) {
    for (size_t i = 0; i < values.size(); ++i) x.values[2 * i] = values[i];
    return x;
  };
  cases.push_back({"tanh", {}, {with(r.Uniform({7, 5}, -100, 100), {kInfinity, -kInfinity, 0})}});
  for (const char* op : {"relu", "sigmoid", "gelu"}) {
    cases.push_back({op, {}, {with(r.Uniform({7, 5}, -100, 100), {kInfinity, -kInfinity, kNan, 0})}});
  }
  for (const char* op : {"sqrt", "rsqrt", "log"}) {
    cases.push_back({op, {}, {with(r.Uniform({7, 5}, 0.5, 3), {0, kInfinity, kNan, -1})}});
  }
  cases.push_back({"exp", {}, {with(r.Uniform({7, 5}), {kInfinity, -kInfinity, kNan, -200})}});
  cases.push_back({"div", {}, {with(r.Uniform({7, 5}), {1, 0}), with(r.Uniform({7, 5}, 0.5, 2), {0, 0, kInfinity})}});
  for (const char* op : {"maximum", "minimum", "heaviside"}) {
    cases.push_back({op,
                     {},
                     {with(r.Uniform({7, 5}), {kInfinity, -kInfinity, kInfinity, kNan, 1, kNan}),
                      with(r.Uniform({7, 5}), {1, 1, kInfinity, 1, kNan, kNan})}});
  }
  for (const char* op : {"reduce_max", "reduce_min"}) {
    cases.push_back({op,
                     {{"axes", Ints{1}}, {"keepdims", false}},
                     {with(r.Uniform({7, 5}), {kInfinity, -kInfinity, kInfinity, -kInfinity})}});
  }
  cases.push_back({"max_pool2d",
                   {{"kernel", int64_t{2}}, {"stride", int64_t{1}}},
                   {with(r.Uniform({1, 2, 5, 7}), {kInfinity, -kInfinity, 1, 2, -kInfinity, kInfinity})}});
  cases.push_back({"top_k", {{"k", int64_t{3}}}, {with(r.Uniform({5, 7}), {kNan, kNan, kInfinity, 1, -kInfinity})}});
  cases.push_back({"softmax", {}, {r.Uniform({7, 5, 6}, -80, 80)}});
  cases.push_back({"softmax", {}, {with(r.Uniform({7, 5}), {-kInfinity, 1, -kInfinity, kNan})}});
  cases.push_back({"softmax_cross_entropy", {}, {r.Uniform({5, 3, 7}, -80, 80), r.Integers({5, 3}, 7)}});
  for (const bool causal : {false, true}) {
    cases.push_back({"attention",
                     {{"heads", int64_t{3}}, {"causal", causal}},
                     {r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9}, -8, 8), r.Uniform({3, 5, 9})}});
  }
  cases.push_back({"layer_norm", {{"epsilon", 1e-5}}, {r.Uniform({7, 5, 6}, 9, 11), r.Uniform({6}), r.Uniform({6})}});
  cases.push_back({"rms_norm", {{"epsilon", 1e-5}}, {r.Uniform({7, 5, 6}, 9, 11), r.Uniform({6})}});
}

// A batch_norm by the statistics of its own batch.
absl::Status AddBatchNormsInTraining(Random& r, std::vector<OpCase>& cases) {
  for (const Ints& dims : {Ints{7, 5}, Ints{5, 7, 3}, Ints{3, 5, 2, 3}}) {
    Ints axes = {0};
    for (size_t i = 2; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    std::vector<RefTensor> x = {r.Uniform(dims)};
    OF_ASSIGN_OR_RETURN(const std::vector<RefTensor> mean, Reference("reduce_mean", {{"axes", axes}}, x));
    std::vector<RefTensor> moments = {x[0], mean[0]};
    OF_ASSIGN_OR_RETURN(const std::vector<RefTensor> var, Reference("channel_variance", {}, moments));
    const Ints c = {dims[1]};
    cases.push_back({"batch_norm",
                     {{"epsilon", 1e-3}, {"training", true}},
                     {x[0], r.Uniform(c), r.Uniform(c), Rounded(mean[0]), Rounded(var[0])}});
  }
  return absl::OkStatus();
}

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
    if (node.op == "to") {  // has no kernel: the compiler removes it
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
class Dump {
 public:
  explicit Dump(const OpRegistry& ops) : ops_(ops), device_(MakeCpuDevice(1)), random_(kSeed + 2) {
    device_->BindThread();
    json_ = {{"seed", kSeed}, {"differentiable", Json::array()}, {"cases", Json::array()}};
    for (const auto& [name, op] : ops.all()) {
      if (op.grad != nullptr) json_["differentiable"].push_back(name);
    }
  }

  absl::Status Add(const OpCase& c) {
    OF_ASSIGN_OR_RETURN(const OpDef* const op, ops_.Get(c.op));
    GraphBuilder builder(ops_, "case");
    Values values;
    std::vector<Tensor> xs;
    for (const RefTensor& x : c.inputs) {
      xs.push_back(builder.Variable(absl::StrCat("x", xs.size()), TypeOf(x), "zeros", {}, IsFloating(x.dtype)));
      values[xs.back().id()] = x;
    }
    const std::vector<Tensor> ys = builder.Op(c.op, xs, c.attrs);
    OF_RETURN_IF_ERROR(builder.status());
    OF_RETURN_IF_ERROR(Run(*device_, ops_, builder.graph(), 0, &values));

    Json& json = AddJson(c);
    for (size_t k = 0; k < xs.size(); ++k) Put(json, "in", k, c.inputs[k]);
    for (size_t k = 0; k < ys.size(); ++k) Put(json, "out", k, values.at(ys[k].id()));
    for (const int k : op->mutates) Put(json, "after", k, values.at(xs[k].id()));
    const bool differentiable = op->grad != nullptr && IsFloating(c.inputs[0].dtype) && IsFloating(ys[0].type().dtype);
    return differentiable ? AddGradient(*op, c, builder, xs, ys, &values, json) : absl::OkStatus();
  }

  absl::Status Write(const std::string& folder) const {
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, x] : tensors_) list.push_back({name, {FileType(x.dtype), Shape(x.dims)}});
    OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(folder + "/ops.safetensors", list));
    for (const auto& [name, x] : tensors_) {
      if (IsFloating(x.dtype)) {
        std::copy(x.values.begin(), x.values.end(), static_cast<float*>(writer.data(name)));
      } else {
        std::copy(x.values.begin(), x.values.end(), static_cast<int64_t*>(writer.data(name)));
      }
    }
    OF_RETURN_IF_ERROR(writer.Close());
    std::ofstream file(folder + "/ops.json");
    file << json_.dump(1) << "\n";
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write ", folder, "/ops.json"));
    return absl::OkStatus();
  }

 private:
  static DType FileType(DType dtype) { return IsFloating(dtype) ? DType::kFloat32 : DType::kInt64; }

  Json& AddJson(const OpCase& c) {
    Json attrs = Json::object();
    for (const auto& [name, attr] : c.attrs.items()) {
      std::visit([&, key = name](const auto& value) { attrs[key] = value; }, attr);
    }
    json_["cases"].push_back({{"op", c.op}, {"text", ToString(c)}, {"attrs", attrs}});
    return json_["cases"].back();
  }

  // "<i>/<kind><k>", and its dtype in ops.json.
  void Put(Json& json, const char* kind, size_t k, const RefTensor& x) {
    json[kind][std::to_string(k)] = Name(x.dtype);
    tensors_[absl::StrCat(json_["cases"].size() - 1, "/", kind, k)] = x;
  }

  absl::Status AddGradient(const OpDef& op, const OpCase& c, GraphBuilder& builder, const std::vector<Tensor>& xs,
                           const std::vector<Tensor>& ys, Values* values, Json& json) {
    const TensorType type = ys[0].type();
    RefTensor dy = random_.Uniform(type.shape.dims());
    dy.dtype = type.dtype;
    dy = Rounded(dy);
    Put(json, "dy", 0, dy);
    const NodeId forward = builder.graph().value(ys[0].id()).producer;
    std::vector<std::optional<Tensor>> dys(ys.size());
    dys[0] = builder.Variable("dy", type, "zeros");
    (*values)[dys[0]->id()] = dy;
    GradContext context(builder, forward, dys);
    for (size_t k = 0; k < xs.size(); ++k) {
      context.set_needs_grad(static_cast<int>(k), IsFloating(c.inputs[k].dtype));
    }
    OF_RETURN_IF_ERROR(op.grad(context));
    OF_RETURN_IF_ERROR(builder.status());
    OF_RETURN_IF_ERROR(Run(*device_, ops_, builder.graph(), forward + 1, values));
    for (size_t k = 0; k < xs.size(); ++k) {
      const std::optional<Tensor>& dx = context.input_grads()[k];
      if (dx.has_value()) Put(json, "dx", k, values->at(dx->id()));
    }
    return absl::OkStatus();
  }

  const OpRegistry& ops_;
  const std::unique_ptr<DeviceContext> device_;
  Random random_;
  Json json_;
  std::map<std::string, RefTensor> tensors_;
};

absl::Status DumpTo(const std::string& folder) {
  const OpRegistry ops = StandardOps();
  std::vector<OpCase> cases = OpCases(kSeed);
  Random random(kSeed + 1);
  AddTies(random, cases);
  AddNarrow(random, cases);
  AddWindows(random, cases);
  AddExtremes(random, cases);
  OF_RETURN_IF_ERROR(AddBatchNormsInTraining(random, cases));
  Dump dump(ops);
  for (OpCase& c : cases) {
    for (RefTensor& x : c.inputs) x = Rounded(std::move(x));
    OF_RETURN_IF_ERROR(Annotate(dump.Add(c), ToString(c)));
  }
  return dump.Write(folder);
}

}  // namespace
}  // namespace oneflow::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: op_dump FOLDER\n";
    return 2;
  }
  const absl::Status status = oneflow::testing::DumpTo(argv[1]);
  if (!status.ok()) std::cerr << "op_dump: " << status << "\n";
  return status.ok() ? 0 : 1;
}
