// The law of losses: a graph with several losses trains on their sum, wherever on the mesh each of them lies, as it
// does on one device.
#include <cmath>
#include <map>
#include <mutex>

#include "actor/engine.h"
#include "oneflow_core/composed.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kLossSteps = 4;

// Where the two losses of a model lie; empty: the compiler chooses.
struct LossPlaces {
  PlacementHint early, late;
};

class LossesTest : public ::testing::Test {
 protected:
  // Three layers; one loss is of the first, one of the last.
  absl::StatusOr<Graph> TwoLosses(const LossPlaces& places) {
    GraphBuilder b(ops_, "train");
    const PrototypeData data{.classes = 4, .samples = 64, .height = 4, .width = 4, .noise = 0.3};
    const Batch batch = ReadPrototypeBatch(b, data, DataSplit::kTrain, 4);
    Tensor x = Reshape(batch.inputs, {4, 16});
    std::vector<Tensor> layers;
    for (int i = 0; i < 3; ++i) {
      const Tensor w = b.Variable(absl::StrCat("w", i), {DType::kFloat32, {16, 16}}, "normal(0.3)");
      layers.push_back(x = Relu(MatMul(x, w)));
    }
    const Tensor early = ReduceMean(Square(layers[0].To(places.early, {})));
    const Tensor late = ReduceMean(SoftmaxCrossEntropy(layers[2].To(places.late, {}), batch.labels));
    b.SetLoss(early);
    b.SetLoss(late);
    Fetch(early, "early");
    Fetch(late, "late");
    return b.Finish();
  }

  // The values fetched at each step, by name.
  absl::StatusOr<std::map<std::string, std::vector<double>>> Train(Graph graph, std::vector<Axis> mesh,
                                                                   int micro_batches) {
    CompileOptions options;
    options.job = "losses";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
    options.ranks_per_process = options.mesh.size();
    options.micro_batches = micro_batches;
    options.schedule.learning_rate = 0.02;
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut({std::move(graph)}, options, ops_));
    std::mutex mutex;
    std::map<std::string, std::vector<double>> fetched;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](const Fetched& value) {
      const std::lock_guard<std::mutex> lock(mutex);
      std::vector<double>& values = fetched[value.name];
      values.resize(kLossSteps, std::nan(""));
      values[value.step] = value.values[0];
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), engine_options));
    OF_RETURN_IF_ERROR(engine->Run("train", 0, kLossSteps));
    return fetched;
  }

  const OpRegistry ops_ = StandardOps();
};

// Micro-batches, and ranks, hold unequal numbers of the samples that count.
TEST_F(LossesTest, OfIgnoredLabelsAreTheMeanOfTheOthersHoweverSamplesAreDealtOut) {
  std::map<std::string, std::vector<double>> whole;
  struct Case {
    std::vector<Axis> mesh;
    int micro_batches;
  };
  for (const Case& c : {Case{{}, 1}, Case{{}, 4}, Case{{{"dp", 2}}, 1}, Case{{{"dp", 3}}, 2}, Case{{{"tp", 2}}, 6}}) {
    GraphBuilder b(ops_, "train");
    const int64_t samples = 12 / c.micro_batches;
    const PrototypeData data{.classes = 4, .samples = 64, .height = 4, .width = 4, .noise = 0.3};
    const Batch batch = ReadPrototypeBatch(b, data, DataSplit::kTrain, samples);
    const Tensor inputs = Reshape(batch.inputs.To({{"dp", Sbp::Split(0)}}), {samples, 16});
    const Tensor w = b.Variable("w", {DType::kFloat32, {16, 4}}, "normal(0.3)", {{"tp", Sbp::Split(1)}});
    const Tensor loss = MeanCrossEntropy(MatMul(inputs, w), batch.labels, {.label_smoothing = 0.1}, /*ignored=*/1);
    b.SetLoss(loss);
    Fetch(loss, "loss");
    ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
    ASSERT_OK_AND_ASSIGN(const auto fetched, Train(std::move(graph), c.mesh, c.micro_batches));
    if (whole.empty()) whole = fetched;
    for (int step = 0; step < kLossSteps; ++step) {
      EXPECT_NEAR(fetched.at("loss")[step], whole.at("loss")[step], 1e-5)
          << "step " << step << ", " << c.micro_batches << " micro-batches on " << c.mesh.size() << " axes";
    }
  }
  EXPECT_LT(whole["loss"].back(), whole["loss"].front());
}

TEST_F(LossesTest, LieWhereverTheUserWants) {
  const struct {
    std::vector<Axis> mesh;
    LossPlaces places;
  } kCases[] = {
      {{{"dp", 2}}, {}},
      {{{"pp", 3}}, {}},
      {{{"pp", 2}, {"dp", 2}}, {}},
      {{{"pp", 2}}, {{{"pp", 0}}, {{"pp", 1}}}},
      {{{"pp", 2}}, {{{"pp", 1}}, {{"pp", 0}}}},  // back to where the data came from
      {{{"pp", 2}, {"dp", 2}}, {{{"pp", 1}}, {}}},
      {{{"dp", 2}}, {{{"dp", 0}}, {}}},  // on one rank only
      {{{"dp", 2}}, {{{"dp", 1}}, {{"dp", 0}}}},
      {{{"pp", 2}, {"dp", 2}}, {{{"pp", 0}, {"dp", 1}}, {{"pp", 1}, {"dp", 0}}}},
      {{{"dp", 2}, {"tp", 2}}, {{{"tp", 1}}, {{"dp", 1}}}},
  };
  for (const int micro_batches : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(Graph whole_graph, TwoLosses({}));
    ASSERT_OK_AND_ASSIGN(const auto whole, Train(std::move(whole_graph), {}, micro_batches));
    ASSERT_LT(whole.at("early").back(), whole.at("early").front());
    ASSERT_LT(whole.at("late").back(), whole.at("late").front());
    for (const auto& c : kCases) {
      ASSERT_OK_AND_ASSIGN(Graph graph, TwoLosses(c.places));
      SCOPED_TRACE(absl::StrCat(micro_batches, " micro-batches\n", GraphToText(graph)));
      ASSERT_OK_AND_ASSIGN(graph, GraphFromText(GraphToText(graph), ops_));
      ASSERT_OK_AND_ASSIGN(const auto parts, Train(std::move(graph), c.mesh, micro_batches));
      for (const auto& [name, values] : whole) {
        for (int step = 0; step < kLossSteps; ++step) {
          EXPECT_NEAR(parts.at(name)[step] / values[step], 1, 1e-4) << name << " at step " << step;
        }
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
