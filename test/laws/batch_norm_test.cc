// A batch norm under training does what PyTorch's does, wherever the samples and the channels lie: the statistics are
// those of the whole batch, not of a rank's part of it.
#include "oneflow_core/nn/batch_norm.h"

#include <map>
#include <mutex>

#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using Values = std::vector<double>;

// What torch.nn.BatchNorm2d(3) computes in double precision from Input(), weights 1.5, -0.5, 2 and shifts 0.25, 1,
// -0.75, of <y, Weights()>; the running statistics are those after two steps with the same batch.
const std::map<std::string, Values> kPyTorch = {
    {"loss", {34.9056850826}},
    {"d x",
     {-2.67526645, -1.82855242,   0.124340376,  2.07723318,   0.717436726,  0.2923012,    -0.132834326, -0.557969852,
      -1.65371855, 0.503989284,   2.66169712,   2.4262985,    -2.67009897,  -0.717206174, 1.23568663,   3.18857943,
      0.607251906, 0.18211638,    -0.243019146, -0.668154671, -0.283022382, -0.518420996, 1.63928684,   -3.57923579,
      -1.55875272, 0.394140076,   2.34703288,   -2.77247052,  0.497067087,  0.0719315608, -0.353203965, 0.325780916,
      -1.30543266, 0.85227517,    3.009983,     -2.20853962,  -0.447406474, 1.50548633,   3.45837913,   -1.66112427,
      0.386882267, -0.0382532587, -1.30292892,  0.215596096,  0.0652635033, 2.22297134,   -2.99555129,  -0.837843458}},
    {"d bn/weight", {3.42409037, -11.4691817, 9.07997934}},
    {"d bn/bias", {-1.5, 2.5, -5}},
    {"running_mean", {0.046015625, -0.090546875, 0.0771875}},
    {"running_var", {1.11141471, 1.25341992, 1.30261458}},
    {"evaluated", {41.3287506792}},
};

// Numbers that are exact in f32.
Values Pattern(int factor, int modulus, int center, double unit) {
  Values values;
  for (int i = 0; i < 4 * 3 * 2 * 2; ++i) values.push_back((i * factor % modulus - center) / unit);
  return values;
}
Values Input() { return Pattern(37, 41, 20, 8); }
Values Weights() { return Pattern(29, 23, 11, 4); }

class BatchNormLawTest : public ::testing::Test {
 protected:
  // `x` [4,3,2,2] lying as `hint` says, in a batch norm "bn" whose weights are parameters.
  Tensor Model(GraphBuilder& b, SbpHint hint, bool training, double dropout = 0) {
    const Tensor x = b.Variable("x", {DType::kFloat32, {4, 3, 2, 2}}, testing::ListText(Input()), std::move(hint));
    {
      // Asked for before the layer does, so that they start as something else than ones and zeros.
      const GraphBuilder::Scope scope(b, "bn");
      b.Variable("weight", {DType::kFloat32, {3}}, "list(1.5,-0.5,2)");
      b.Variable("bias", {DType::kFloat32, {3}}, "list(0.25,1,-0.75)");
    }
    dropped_ = Dropout(x, dropout);
    return nn::BatchNorm(dropped_, "bn", {.training = training});
  }

  Tensor Weighted(GraphBuilder& b, Tensor y) {
    return ReduceSum(Mul(y, b.Variable("w", {DType::kFloat32, {4, 3, 2, 2}}, testing::ListText(Weights()), {}, false)));
  }

  absl::StatusOr<Graph> TrainGraph(const SbpHint& hint, double dropout) {
    GraphBuilder b(ops_, "train");
    const Tensor y = Model(b, hint, true, dropout);
    const Tensor loss = Weighted(b, y);
    b.SetLoss(loss);
    Fetch(loss, "loss");
    Fetch(ReduceMean(dropped_, {0, 2, 3}), "mean");
    return b.Finish();
  }

  absl::StatusOr<Graph> EvaluateGraph(const SbpHint& hint) {
    GraphBuilder b(ops_, "evaluate");
    Fetch(Weighted(b, Model(b, hint, false)), "evaluated");
    const GraphBuilder::Scope scope(b, "bn");
    for (const char* name : {"running_mean", "running_var"}) {
      Fetch(b.Variable(name, {DType::kFloat32, {3}}, name[8] == 'm' ? "zeros" : "ones", {}, false), name);
    }
    return b.Finish();
  }

  // What `steps` steps with a learning rate of 0 give: fetches by name, gradients by variable.
  absl::StatusOr<std::map<std::string, Values>> Run(std::vector<Axis> mesh, const SbpHint& hint, int steps,
                                                    int micro_batches = 1, double dropout = 0) {
    OF_ASSIGN_OR_RETURN(Graph train, TrainGraph(hint, dropout));
    OF_ASSIGN_OR_RETURN(Graph evaluate, EvaluateGraph(hint));
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
    options.ranks_per_process = options.mesh.size();
    options.micro_batches = micro_batches;
    options.optimizer.rule = "sgd";
    options.schedule.learning_rate = 0;
    options.keep_gradients = true;
    OF_ASSIGN_OR_RETURN(pb::Program spelled,
                        testing::CompileSpelledOut({std::move(train), std::move(evaluate)}, options, ops_));
    std::mutex mutex;
    std::map<std::string, Values> results;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](Fetched fetched) {
      const std::lock_guard<std::mutex> lock(mutex);
      results[fetched.name] = fetched.values;
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), engine_options));
    OF_RETURN_IF_ERROR(engine->Run("train", 0, steps));
    OF_RETURN_IF_ERROR(engine->Run("evaluate", 0, 1));
    OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("gradients"), ".grad"));
    OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("gradients")));
    for (const auto& [name, entry] : file.tensors) {
      const float* const values = entry.as<float>();
      results["d " + name] = Values(values, values + entry.type.shape.count());
    }
    return results;
  }

  void ExpectNear(const Values& got, const Values& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
    }
  }

  const OpRegistry ops_ = StandardOps();
  const TestDir dir_;
  Tensor dropped_;
};

TEST_F(BatchNormLawTest, TrainsAsPyTorchDoesUnderEveryLayout) {
  const Sbp n = Sbp::Split(0), c = Sbp::Split(1), h = Sbp::Split(2);
  const struct {
    std::vector<Axis> mesh;
    SbpHint hint;
  } kLayouts[] = {
      {{}, {}},
      {{{"dp", 2}}, {{"dp", n}}},
      {{{"dp", 3}}, {{"dp", n}}},  // two samples, one, one
      {{{"tp", 2}}, {{"tp", c}}},
      {{{"dp", 2}, {"tp", 2}}, {{"dp", n}, {"tp", c}}},
      {{{"dp", 2}, {"cp", 2}}, {{"dp", n}, {"cp", h}}},
  };
  for (const auto& layout : kLayouts) {
    SCOPED_TRACE(ToString(layout.hint));
    ASSERT_OK_AND_ASSIGN(auto results, Run(layout.mesh, layout.hint, 2));
    for (const auto& [name, values] : kPyTorch) {
      SCOPED_TRACE(name);
      ExpectNear(results[name], values, 2e-5);
    }
  }
}

// Dropout makes micro-batches differ.
TEST_F(BatchNormLawTest, AStepMovesTheRunningStatisticsOnceByTheMeanOfItsMicroBatches) {
  for (const bool split : {false, true}) {
    SCOPED_TRACE(split);
    ASSERT_OK_AND_ASSIGN(auto results,
                         split ? Run({{"dp", 2}}, {{"dp", Sbp::Split(0)}}, 1, 4, 0.5) : Run({}, {}, 1, 4, 0.5));
    Values want = results["mean"];  // as fetched: the mean over the micro-batches
    for (double& value : want) value *= 0.1;
    ExpectNear(results["running_mean"], want, 1e-6);
  }
}

}  // namespace
}  // namespace oneflow
