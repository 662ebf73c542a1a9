// Ragged values compute what dense ones with zeros behind their rows compute, wherever groups, rows and columns lie;
// and what travels are the filled rows.
#include <map>
#include <mutex>
#include <random>

#include "absl/strings/str_join.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/engine.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/temp_dir.h"

namespace oneflow {
namespace {

using ::oneflow::testing::StatusIs;
using ::testing::HasSubstr;

// Tokens of two sources, sorted by the expert that each is for: room for all of a source's with every expert.
constexpr int64_t kSources = 2, kExperts = 4, kTokens = 9, kWidth = 6, kHidden = 5;
constexpr int64_t kSteps = 3;

std::string List(const std::vector<int64_t>& values) { return absl::StrCat("list(", absl::StrJoin(values, ","), ")"); }

class RaggedLawTest : public ::testing::Test {
 protected:
  struct Outcome {
    std::vector<double> losses;
    std::map<std::string, std::vector<float>> weights;
    int64_t bytes_moved = 0;
  };

  // The expert of each token.
  static std::vector<int64_t> Ids(uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> ids(kSources * kTokens);
    for (int64_t& id : ids) id = random() % 3;  // nobody asks the last
    return ids;
  }

  Tensor Counts(GraphBuilder& b) {
    return RowCounts(b.Variable("ids", {DType::kInt32, {kSources, kTokens}}, List(Ids(kSeed)), {}, false), kExperts);
  }

  // Experts that share weights but for a scale, after the tokens have come to them; and what they send back.
  Tensor Experts(GraphBuilder& b, Tensor x, const SbpHint& there) {
    const auto weight = [&](const char* name, Shape shape) {
      return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.3)");
    };
    Tensor h = LayerNorm(x.To(there), weight("gamma", {kWidth}), weight("beta", {kWidth}));
    h = BiasAdd(MatMul(h, weight("up", {kWidth, kHidden})), weight("bias", {kHidden}));
    h = Dropout(Gelu(Mul(h, weight("scale", {kExperts, 1, 1}))), 0.2);
    return Add(MatMul(h, weight("down", {kHidden, kWidth})), x);
  }

  // 1 where a token is, 0 behind.
  Tensor IsToken(GraphBuilder& b, Tensor counts) {
    const Tensor ones = Constant(b, {DType::kFloat32, {kSources, kExperts, kTokens, 1}}, 1);
    return PadRows(KeepRows(ones, counts));
  }

  // `ragged`: the experts see the tokens that there are, and what lies behind is no number. Else they see all rows,
  // and what they make of those that are none is made zero at the end.
  absl::StatusOr<Graph> TrainGraph(bool ragged, const SbpHint& here, const SbpHint& there) {
    GraphBuilder b(ops_, "train");
    const TensorType type{DType::kFloat32, {kSources, kExperts, kTokens, kWidth}};
    const Tensor counts = Counts(b);
    Tensor x = b.Variable("x", type, "normal(1)", here);
    if (ragged) x = KeepRows(Add(x, Log(IsToken(b, counts))), counts);
    Tensor y = Experts(b, x, there);
    if (!ragged) y = Mul(y, IsToken(b, counts));
    const Tensor loss = ReduceSum(Square(y));
    b.SetLoss(loss);
    Fetch(loss, "loss");
    return b.Finish();
  }

  absl::StatusOr<CompileOptions> Options(std::vector<Axis> mesh) {
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
    options.ranks_per_process = options.mesh.size();
    options.optimizer.kind = OptimizerOptions::Kind::kSgd;
    options.schedule.learning_rate = 0.02;
    options.seed = 5;
    return options;
  }

  absl::StatusOr<Outcome> Train(bool ragged, std::vector<Axis> mesh, const SbpHint& here, const SbpHint& there) {
    OF_ASSIGN_OR_RETURN(Graph graph, TrainGraph(ragged, here, there));
    return Run(std::move(graph), "train", std::move(mesh), kSteps);
  }

  absl::StatusOr<Outcome> Run(Graph graph, const std::string& plan_name, std::vector<Axis> mesh, int64_t steps) {
    OF_ASSIGN_OR_RETURN(const CompileOptions options, Options(std::move(mesh)));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile({std::move(graph)}, options, ops_));
    Outcome outcome;
    std::mutex mutex;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](const Fetched& fetched) {
      const std::lock_guard lock(mutex);
      if (fetched.name == "loss") outcome.losses.push_back(fetched.values[0]);
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                        Engine::Create(testing::SpelledOut(plan), std::move(engine_options)));
    OF_RETURN_IF_ERROR(engine->Run(plan_name, 0, steps));
    outcome.bytes_moved = engine->stats().bytes_moved;
    OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("weights"), ""));
    OF_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(dir_.File("weights")));
    for (const auto& [name, entry] : reader.tensors()) {
      const auto* const values = static_cast<const float*>(entry.data);
      outcome.weights[name].assign(values, values + entry.type.shape.count());
    }
    return outcome;
  }

  static void ExpectSame(const Outcome& got, const Outcome& want) {
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i] / want.losses[i], 1, 1e-5) << "step " << i;
    for (const auto& [name, weights] : want.weights) {
      const std::vector<float>& its = got.weights.at(name);
      for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_NEAR(its[i], weights[i], 1e-5 * (1 + std::abs(weights[i]))) << name << " " << i;
      }
    }
  }

  static constexpr uint32_t kSeed = 21;
  const OpRegistry ops_ = StandardOps();
  const testing::TempDir dir_;
};

TEST_F(RaggedLawTest, TrainsAsDenseValuesWithZerosDoHoweverTheyLie) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  ASSERT_OK_AND_ASSIGN(const Outcome dense, Train(false, {}, {}, {}));
  ASSERT_LT(dense.losses.back(), dense.losses.front());
  const auto on = [](int dim) { return SbpHint{{"a", Sbp::Split(dim)}}; };
  {
    SCOPED_TRACE("on one device");
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Train(true, {}, {}, {}));
    ExpectSame(outcome, dense);
  }
  for (int here = 0; here < 4; ++here) {
    for (int there = 0; there < 4; ++there) {
      SCOPED_TRACE(absl::StrCat("S(", here, ") to S(", there, ")"));
      ASSERT_OK_AND_ASSIGN(const Outcome two, Train(true, {{"a", 2}}, on(here), on(there)));
      ExpectSame(two, dense);
      ASSERT_OK_AND_ASSIGN(const Outcome three, Train(true, {{"a", 3}}, on(here), on(there)));
      ExpectSame(three, dense);
    }
  }
  const std::vector<std::pair<SbpHint, SbpHint>> layouts = {
      {{{"a", Sbp::Split(0)}, {"b", Sbp::Split(1)}}, {{"a", Sbp::Split(1)}, {"b", Sbp::Split(0)}}},
      {{{"a", Sbp::Split(0)}, {"b", Sbp::Split(3)}}, {{"a", Sbp::Split(2)}, {"b", Sbp::Split(1)}}},
      {{{"a", Sbp::Split(2)}, {"b", Sbp::Split(2)}}, {{"a", Sbp::Broadcast()}, {"b", Sbp::Split(0)}}},
  };
  for (const auto& [here, there] : layouts) {
    SCOPED_TRACE(absl::StrCat(ToString(here), " to ", ToString(there)));
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Train(true, {{"a", 2}, {"b", 2}}, here, there));
    ExpectSame(outcome, dense);
  }
}

// Rows go from the rank of their source to that of their expert, and counts before them.
TEST_F(RaggedLawTest, FilledRowsTravelAndNoOthers) {
  const auto moved = [&](const std::vector<int64_t>& counts) -> absl::StatusOr<int64_t> {
    GraphBuilder b(ops_, "forward");
    const SbpHint sources{{"a", Sbp::Split(0)}}, experts{{"a", Sbp::Split(1)}};
    const Tensor x = b.Variable("x", {DType::kFloat32, {kSources, kExperts, kTokens, kWidth}}, "normal(1)", sources);
    const Tensor of = b.Variable("counts", {DType::kInt32, {kSources, kExperts}}, List(counts), sources, false);
    Fetch(ReduceSum(Square(KeepRows(x, of).To(sources)).To(experts)), "sum");
    OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
    OF_ASSIGN_OR_RETURN(const Outcome outcome, Run(std::move(graph), "forward", {{"a", 2}}, 1));
    return outcome.bytes_moved;
  };
  ASSERT_OK_AND_ASSIGN(const int64_t nothing, moved(std::vector<int64_t>(kSources * kExperts, 0)));
  // Of source 0 experts 2 and 3 are elsewhere, of source 1 experts 0 and 1.
  ASSERT_OK_AND_ASSIGN(const int64_t some, moved({9, 8, 3, 0, 5, 1, 7, 9}));
  EXPECT_EQ(some - nothing, (3 + 0 + 5 + 1) * kWidth * 4);
  ASSERT_OK_AND_ASSIGN(const int64_t all, moved(std::vector<int64_t>(kSources * kExperts, kTokens)));
  EXPECT_EQ(all - nothing, kSources * kExperts * kTokens * kWidth * 4 / 2);
}

TEST_F(RaggedLawTest, ACountThatIsNoNumberOfRowsFailsTheStepAndNamesTheNode) {
  for (const int64_t count : {int64_t{-1}, kTokens + 1}) {
    GraphBuilder b(ops_, "forward");
    const Tensor x = b.Variable("x", {DType::kFloat32, {kTokens, kWidth}}, "normal(1)");
    const Tensor counts = b.Variable("count", {DType::kInt32, {}}, List({count}), {}, false);
    Fetch(ReduceSum(KeepRows(x, counts)), "sum");
    ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
    EXPECT_THAT(Run(std::move(graph), "forward", {}, 1).status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("'keep_rows'")));
  }
}

}  // namespace
}  // namespace oneflow
