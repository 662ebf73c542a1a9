// What ragged rows cost on a device: threads, multiplications and what travels to the host are counted as they are
// launched.
#include <atomic>
#include <map>
#include <mutex>

#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/cuda_jobs/devices.h"
#include "test/support/cuda/software_device.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using software_cuda::Launched;
using software_cuda::LaunchedSoFar;

constexpr int64_t kGroups = 3, kRoom = 6, kWidth = 1024, kHidden = 8, kSteps = 2;
constexpr int64_t kThreadsOfARow = kWidth / 4;  // four elements each, so that a block has one row

class RaggedCostTest : public ::testing::Test {
 protected:
  static Tensor Rows(GraphBuilder& b, const std::vector<int64_t>& ids) {
    const Tensor of =
        b.Variable("ids", {DType::kInt32, {static_cast<int64_t>(ids.size())}}, testing::ListText(ids), {}, false);
    const Tensor x = b.Variable("x", {DType::kFloat32, {kGroups, kRoom, kWidth}}, "normal(1)", {}, false);
    return KeepRows(x, RowCounts(of, kGroups));
  }

  // A product that sums rows.
  absl::StatusOr<Graph> Sums(const std::vector<int64_t>& ids) {
    GraphBuilder b(ops_, "forward");
    const Tensor x = Rows(b, ids);
    Fetch(b.Op1("matmul_wgrad", {x, x}), "value");
    return b.Finish();
  }

  // `layers` of what has a thread for every four elements, on rows that are as many as `ids` are of each group; and a
  // product.
  absl::StatusOr<Graph> Layers(const std::vector<int64_t>& ids, int layers) {
    GraphBuilder b(ops_, "forward");
    const Tensor w = b.Variable("w", {DType::kFloat32, {kWidth, kHidden}}, "normal(0.1)", {}, false);
    Tensor x = Rows(b, ids);
    for (int i = 0; i < layers; ++i) x = Scale(x, 0.5);
    Fetch(ReduceSum(PadRows(MatMul(x, w))), "value");
    return b.Finish();
  }

  // What some steps launch.
  absl::StatusOr<Launched> Cost(absl::StatusOr<Graph> graph) {
    OF_RETURN_IF_ERROR(graph.status());
    CompileOptions options;
    options.job = "ragged";
    options.device = DeviceKind::kCuda;
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"dp", 1}}));
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut({*std::move(graph)}, options, ops_));
    std::atomic<int> fetched = 0;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](const Fetched&) { ++fetched; };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                        Engine::Create(std::move(spelled), std::move(engine_options)));
    const Launched before = LaunchedSoFar();
    OF_RETURN_IF_ERROR(engine->Run("forward", 0, kSteps));
    const Launched after = LaunchedSoFar();
    if (fetched != kSteps) return absl::InternalError(absl::StrCat(fetched.load(), " values were fetched"));
    return Launched{after.threads - before.threads, after.multiplications - before.multiplications,
                    after.copies_to_host - before.copies_to_host};
  }

  const OpRegistry ops_ = StandardOps();
};

TEST_F(RaggedCostTest, RowsThatAreNotFilledCostNothing) {
  constexpr int kLayers = 2;
  const std::vector<int64_t> some = {0, 0, 2, 0, 2, 2, 2};
  const std::vector<int64_t> all = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  ASSERT_OK_AND_ASSIGN(const Launched one, Cost(Layers({1}, kLayers)));
  for (const auto& ids : {some, all}) {
    ASSERT_OK_AND_ASSIGN(const Launched more, Cost(Layers(ids, kLayers)));
    const int64_t rows = static_cast<int64_t>(ids.size()) - 1;  // beyond the one
    EXPECT_EQ(more.threads - one.threads, rows * kThreadsOfARow * kLayers * kSteps) << ids.size() << " rows";
    EXPECT_EQ(more.multiplications - one.multiplications, rows * kWidth * kHidden * kSteps) << ids.size() << " rows";
  }
}

// The product is prepared for every second of 18 rows.
TEST_F(RaggedCostTest, SumsMultiplyWhatIsFilled) {
  for (const auto& [ids, rows] : {std::pair(std::vector<int64_t>{1}, 2), std::pair(std::vector<int64_t>{0, 2, 2, 2}, 4),
                                  std::pair(std::vector<int64_t>{0, 0, 2, 0, 2, 2, 2}, 8)}) {
    ASSERT_OK_AND_ASSIGN(const Launched cost, Cost(Sums(ids)));
    EXPECT_EQ(cost.multiplications, rows * kWidth * kWidth * kSteps) << ids.size() << " rows";
  }
}

// Of a plan in which counts follow to the host, and of one beside it in which there are none: what neither writes such
// counts nor is called by them is captured as ever, and computes the same.
TEST_F(RaggedCostTest, OnlyWhatCountsConcernIsLaunchedByItself) {
  constexpr int kRuns = 5;
  const auto program = [&]() -> Program {
    GraphBuilder b(ops_, "ragged");
    Tensor x = b.Variable("dense", {DType::kFloat32, {64, 64}}, "normal(1)", {}, false);
    for (int i = 0; i < 6; ++i) x = Softmax(x);  // no two of them are one
    Fetch(ReduceSum(x), "dense");
    Fetch(ReduceSum(PadRows(Scale(Rows(b, {0, 0, 2, 0}), 0.5))), "rows");
    GraphBuilder other(ops_, "dense");
    Tensor y = other.Variable("dense", {DType::kFloat32, {64, 64}}, "normal(1)", {}, false);
    for (int i = 0; i < 6; ++i) y = Softmax(y);
    Fetch(ReduceSum(y), "dense");
    return {*b.Finish(), *other.Finish()};
  };
  struct Run {
    std::map<std::string, std::vector<double>> values;
    int64_t graphs = 0;
  };
  const auto run = [&](const std::string& plan, bool capture) -> absl::StatusOr<Run> {
    CompileOptions options;
    options.job = "ragged";
    options.device = DeviceKind::kCuda;
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"dp", 1}}));
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut(program(), options, ops_));
    Run result;
    std::mutex mutex;
    EngineOptions engine_options;
    engine_options.capture = capture;
    engine_options.on_fetch = [&](const Fetched& fetched) {
      const std::lock_guard lock(mutex);
      result.values[fetched.name].push_back(fetched.values[0]);
    };
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                        Engine::Create(std::move(spelled), std::move(engine_options)));
    const int64_t before = LaunchedSoFar().graphs;
    OF_RETURN_IF_ERROR(engine->Run(plan, 0, kRuns));
    result.graphs = LaunchedSoFar().graphs - before;
    return result;
  };
  for (const char* plan : {"ragged", "dense"}) {
    SCOPED_TRACE(plan);
    ASSERT_OK_AND_ASSIGN(const Run captured, run(plan, true));
    ASSERT_OK_AND_ASSIGN(const Run alone, run(plan, false));
    EXPECT_EQ(captured.values, alone.values);
    EXPECT_GE(captured.graphs, kRuns - 1) << "each step but the first";
    EXPECT_EQ(alone.graphs, 0);
  }
}

TEST_F(RaggedCostTest, CountsTravelOnceHoweverManyReadThem) {
  const std::vector<int64_t> ids = {0, 0, 2, 0, 2};
  for (const int layers : {1, 4}) {
    ASSERT_OK_AND_ASSIGN(const Launched cost, Cost(Layers(ids, layers)));
    EXPECT_EQ(cost.copies_to_host, 2 * kSteps) << "counts and what is fetched, with " << layers << " layers";
  }
}

}  // namespace
}  // namespace oneflow
