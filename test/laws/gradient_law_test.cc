// The gradient law: what the engine computes as the gradient of an op is the slope of the op.
//
//   train   x_i -> op -> y -> * w -> reduce_sum -> loss      compiled, differentiated, laid out and run; gradients kept
//   slope   L(x) = <w, op(x)>, (L(x + h e) - L(x - h e)) / 2h in double precision
//
// Every op that has a gradient is trained so for one step: on one device, and with each operand split along each of its
// dimensions over two devices and, nested, over two by two, so that the gradients of P, S and B meet their duals.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "compiler/boxed_graph.h"
#include "compiler/lower/lower.h"
#include "gmock/gmock.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/ragged.h"
#include "test/support/op_facts.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kGradientSeed = 20240609;
constexpr uint64_t kJobSeed = 77;

std::string InitialValue(const RefTensor& x) {
  return absl::StrCat("list(",
                      absl::StrJoin(x.values, ",",
                                    [](std::string* out, double value) {
                                      absl::StrAppendFormat(out, "%.9g", value);  // enough to read an f32 back
                                    }),
                      ")");
}

// An op under training: L = <w, y> of its first output y. The other outputs (statistics, indices) carry no gradient.
class TrainedOp {
 public:
  TrainedOp(const OpRegistry& ops, const OpCase& c) : ops_(ops), case_(c) {}

  absl::Status Init(Random& random) {
    Tensors inputs = case_.inputs;
    OF_ASSIGN_OR_RETURN(const Tensors outputs, Reference(case_.op, case_.attrs, inputs));
    // Weights that every floating type holds exactly, away from zero.
    weights_ = random.Integers(outputs[0].dims, 15);
    weights_.dtype = DType::kFloat32;
    for (double& weight : weights_.values) weight = (weight - 7.25) / 4;
    return absl::OkStatus();
  }

  bool IsTrainable(size_t input) const { return IsFloating(case_.inputs[input].dtype); }

  // The gradients of the inputs (empty if there are none) as a job on `mesh` computes them, input `split` lying as
  // `hint` says.
  absl::StatusOr<Tensors> Train(std::vector<Axis> mesh, size_t split, SbpHint hint) {
    OF_ASSIGN_OR_RETURN(Graph graph, TrainingGraph(split, std::move(hint)));
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
    options.ranks_per_process = options.mesh.size();
    options.optimizer.rule = "sgd";
    options.seed = kJobSeed;
    options.keep_gradients = true;
    VariableDists variables;
    const auto look = [&](absl::string_view pass, const Graph& laid_out) {
      if (pass == "select-sbp") ran_split_ = ran_split_ || IsSplit(laid_out);
    };
    OF_RETURN_IF_ERROR(RunPasses(graph, options, ops_, variables, look).status());
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut({std::move(graph)}, options, ops_));
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), {}));
    OF_RETURN_IF_ERROR(engine->Run("train", 0, 1));
    OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("gradients"), ".grad"));
    return ReadGradients();
  }

  // Whether the op itself was split in any of these, and not behind a boxing that gathers what is split.
  bool ran_split() const { return ran_split_; }

  // The same as differences of L in double precision.
  absl::StatusOr<Tensors> Slopes() const {
    AttrMap attrs = case_.attrs;
    if (ops_.Find(case_.op)->random) {  // as the compiler keys the node
      attrs.Set("seed", static_cast<int64_t>(kJobSeed));
      attrs.Set("key", static_cast<int64_t>(Fingerprint(kNode)));
    }
    constexpr double kStep = 1e-5;
    Tensors slopes;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      RefTensor slope = Zeros(IsTrainable(i) ? case_.inputs[i].dims : std::vector<int64_t>{0});
      for (int64_t j = 0; j < slope.count(); ++j) {
        OF_ASSIGN_OR_RETURN(const double above, Loss(attrs, i, j, kStep));
        OF_ASSIGN_OR_RETURN(const double below, Loss(attrs, i, j, -kStep));
        slope.values[j] = (above - below) / (2 * kStep);
      }
      slopes.push_back(std::move(slope));
    }
    return slopes;
  }

 private:
  static constexpr char kNode[] = "node";

  static bool IsSplit(const Graph& graph) {
    const NodeId id = graph.FindNode(kNode);
    const auto split = [&](ValueId value) {
      const NdSbp& sbp = graph.value(value).dist->sbp;
      return std::any_of(sbp.begin(), sbp.end(), [](const Sbp& x) { return x.is_split(); });
    };
    if (id < 0) return false;
    const Node& node = graph.node(id);
    return std::any_of(node.inputs.begin(), node.inputs.end(), split) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), split);
  }

  absl::StatusOr<double> Loss(const AttrMap& attrs, size_t input, int64_t element, double shift) const {
    Tensors inputs = case_.inputs;
    inputs[input].values[element] += shift;
    OF_ASSIGN_OR_RETURN(const Tensors outputs, Reference(case_.op, attrs, inputs));
    Tensors y = {outputs[0], inputs.back()};
    if (y[0].ragged >= 0) {  // rows behind the filled ones count for nothing
      OF_ASSIGN_OR_RETURN(y, Reference("pad_rows", {}, y));
    }
    double sum = 0;
    for (int64_t j = 0; j < weights_.count(); ++j) sum += y[0].values[j] * weights_.values[j];
    return sum;
  }

  absl::StatusOr<Graph> TrainingGraph(size_t split, SbpHint hint) const {
    GraphBuilder builder(ops_, "train");
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      inputs.push_back(builder.Variable(absl::StrCat("x", i), Dense(TypeOf(case_.inputs[i])),
                                        InitialValue(case_.inputs[i]), i == split ? hint : SbpHint{}, IsTrainable(i)));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (case_.inputs[i].ragged >= 0) inputs[i] = KeepRows(inputs[i], inputs.back());
    }
    const std::vector<Tensor> outputs =
        builder.Op(case_.op, inputs, case_.attrs, std::source_location::current(), kNode);
    const Tensor weights = builder.Variable("w", TypeOf(weights_), InitialValue(weights_), {}, /*trainable=*/false);
    if (builder.status().ok()) builder.SetLoss(ReduceSum(Mul(Cast(outputs[0], DType::kFloat32), weights)));
    return builder.Finish();
  }

  absl::StatusOr<Tensors> ReadGradients() const {
    OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("gradients")));
    Tensors gradients;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      gradients.push_back(Zeros({0}));
      if (!IsTrainable(i)) continue;
      const auto it = file.tensors.find(absl::StrCat("x", i));
      if (it == file.tensors.end()) return absl::NotFoundError(absl::StrCat("no gradient of x", i));
      if (it->second.type != Dense(TypeOf(case_.inputs[i]))) return absl::InternalError(it->second.type.ToString());
      gradients.back() = Zeros(case_.inputs[i].dims);
      const float* const values = it->second.as<float>();
      std::copy(values, values + gradients.back().count(), gradients.back().values.begin());
    }
    return gradients;
  }

  const OpRegistry& ops_;
  const OpCase& case_;
  const TestDir dir_;
  RefTensor weights_;
  bool ran_split_ = false;
};

void ExpectEqual(const Tensors& gradients, const Tensors& slopes, double tolerance) {
  for (size_t i = 0; i < slopes.size(); ++i) {
    for (int64_t j = 0; j < slopes[i].count(); ++j) {
      const double slope = slopes[i].values[j];
      ASSERT_NEAR(gradients[i].values[j], slope, tolerance * (1 + std::abs(slope)))
          << "input " << i << " element " << j;
    }
  }
}

// Whether a gradient flows through a case, from an f32 result: what ends in integers has none.
bool IsDifferentiable(const OpRegistry& ops, const OpCase& c) {
  const OpDef* const op = ops.Find(c.op);
  if (op == nullptr || op->grad == nullptr || c.inputs[0].dtype != DType::kFloat32) return false;
  const auto outputs = op->infer({TypesOf(c.inputs), c.attrs});
  return outputs.ok() && IsFloating((*outputs)[0].dtype);
}

TEST(GradientLawTest, EveryOpWithAGradientHasACase) {
  const OpRegistry ops = StandardOps();
  std::set<std::string> covered;
  for (const OpCase& c : Examples(kGradientSeed)) {
    if (IsDifferentiable(ops, c)) covered.insert(c.op);
  }
  for (const auto& [name, op] : ops.all()) {
    EXPECT_EQ(covered.count(name), op.grad == nullptr ? 0u : 1u) << name;
  }
}

TEST(GradientLawTest, GradientsAreSlopesHoweverOperandsLie) {
  const OpRegistry ops = StandardOps();
  Random random(kGradientSeed);
  std::set<std::string> ran, split;
  for (const OpCase& c : Examples(kGradientSeed)) {
    if (!IsDifferentiable(ops, c)) continue;
    SCOPED_TRACE(absl::StrCat(ToString(c), ", seed ", kGradientSeed));
    TrainedOp op(ops, c);
    ASSERT_OK(op.Init(random));
    ASSERT_OK_AND_ASSIGN(const Tensors slopes, op.Slopes());
    const double tolerance = std::max(c.tolerance, 1e-4);
    ASSERT_OK_AND_ASSIGN(const Tensors alone, op.Train({}, 0, {}));
    ExpectEqual(alone, slopes, tolerance);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      for (int d = 0; d < static_cast<int>(c.inputs[i].dims.size()); ++d) {
        SCOPED_TRACE(absl::StrCat("input ", i, " split along dimension ", d));
        const Sbp split = Sbp::Split(d);
        ASSERT_OK_AND_ASSIGN(const Tensors halves, op.Train({{"tp", 2}}, i, {{"tp", split}}));
        ExpectEqual(halves, slopes, tolerance);
        ASSERT_OK_AND_ASSIGN(const Tensors quarters,
                             op.Train({{"tp", 2}, {"cp", 2}}, i, {{"tp", split}, {"cp", split}}));
        ExpectEqual(quarters, slopes, tolerance);
      }
    }
    if (::testing::Test::HasFatalFailure()) return;
    const bool has_dimensions =
        std::any_of(c.inputs.begin(), c.inputs.end(), [](const RefTensor& x) { return !x.dims.empty(); });
    if (has_dimensions) ran.insert(c.op);
    if (op.ran_split()) split.insert(c.op);
  }
  std::vector<std::string> never;
  std::set_difference(ran.begin(), ran.end(), split.begin(), split.end(), std::back_inserter(never));
  EXPECT_THAT(never, ::testing::IsEmpty()) << "these run whole whatever their operands are asked";
}

}  // namespace
}  // namespace oneflow::testing
