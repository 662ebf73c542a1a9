// Ragged values on CUDA devices: what the counts leave out counts for nothing, and what travels are the filled rows.
// What is computed is counted on software devices (software/ragged_test.cc).
#include <cmath>
#include <limits>
#include <mutex>

#include "absl/strings/str_join.h"
#include "actor/collective/nccl_collectives.h"
#include "actor/engine.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/cuda_jobs/devices.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

class CudaRaggedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = testing::CudaDevices(2);
    if (devices_ == 0) GTEST_SKIP() << testing::LacksCudaDevices(1);
  }

  struct Outcome {
    std::vector<double> fetched;  // by step
    int64_t bytes_moved = 0;
  };

  // A layer on rows that go from those who have the groups to those who have the columns. Of so many times the tokens
  // that a step takes, every step takes the next.
  absl::StatusOr<Graph> Layer(const std::vector<int64_t>& experts_of_tokens) {
    GraphBuilder b(ops_, "train");
    const auto weight = [&](const char* name, Shape shape) {
      return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.5)");
    };
    const int64_t all = static_cast<int64_t>(experts_of_tokens.size());
    const Tensor tape = b.Variable("ids", {DType::kInt32, {all}}, testing::ListText(experts_of_tokens), {}, false);
    const Tensor ids = Reshape(Slice(tape, 0, 0, 12), {2, 6});
    if (all > 12) Assign(tape, Concat({Slice(tape, 0, 12, all - 12), Slice(tape, 0, 0, 12)}, 0));
    const Tensor counts = RowCounts(ids, 4);
    const Tensor x = b.Variable("x", {DType::kFloat32, {2, 4, 6, 5}}, "normal(1)", {{"ep", Sbp::Split(0)}});
    const Tensor there = KeepRows(x, counts).To({{"ep", Sbp::Split(1)}});
    const Tensor y = Gelu(BiasAdd(MatMul(there, weight("w", {5, 7})), weight("b", {7})));
    const Tensor loss = ReduceSum(Square(y.To({{"ep", Sbp::Split(3)}})));
    b.SetLoss(loss);
    Fetch(loss, "value");
    return b.Finish();
  }

  absl::StatusOr<Outcome> Run(Graph graph, DeviceKind device, int devices, int64_t steps) {
    const std::string name = graph.name();
    CompileOptions options;
    options.job = "ragged";
    options.device = device;
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"ep", devices}}));
    options.ranks_per_process = devices;
    options.optimizer.rule = "sgd";
    options.schedule.learning_rate = 0.01;
    OF_ASSIGN_OR_RETURN(const pb::Program program, testing::CompileSpelledOut({std::move(graph)}, options, ops_));
    std::mutex mutex;
    Outcome outcome;
    EngineOptions engine_options;
    engine_options.on_fetch = [&](const Fetched& fetched) {
      const std::lock_guard lock(mutex);
      if (fetched.name == "value") outcome.fetched.push_back(fetched.values[0]);
    };
    std::unique_ptr<Collectives> collectives;
    if (device == DeviceKind::kCuda && devices > 1) {
      OF_ASSIGN_OR_RETURN(collectives, MakeNcclCollectives(program, /*process=*/0, /*peers=*/nullptr));
      engine_options.collectives = collectives.get();
    }
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(program, std::move(engine_options)));
    OF_RETURN_IF_ERROR(engine->Run(name, 0, steps));
    outcome.bytes_moved = engine->stats().bytes_moved;
    return outcome;
  }

  const OpRegistry ops_ = StandardOps();
  int devices_ = 0;
};

TEST_F(CudaRaggedTest, TrainsAsOnTheHost) {
  const std::vector<int64_t> ids = {0, 2, 1, 0, 0, 2, 3, 3, 0, 3, 3, 1};
  const auto losses = [&](DeviceKind device, int devices) -> absl::StatusOr<std::vector<double>> {
    OF_ASSIGN_OR_RETURN(Graph graph, Layer(ids));
    OF_ASSIGN_OR_RETURN(const Outcome outcome, Run(std::move(graph), device, devices, 4));
    return outcome.fetched;
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<double> host, losses(DeviceKind::kCpu, 1));
  ASSERT_LT(host.back(), host.front());
  for (int n = 1; n <= devices_; ++n) {
    ASSERT_OK_AND_ASSIGN(const std::vector<double> cuda, losses(DeviceKind::kCuda, n));
    ASSERT_EQ(cuda.size(), host.size());
    for (size_t i = 0; i < host.size(); ++i) EXPECT_NEAR(cuda[i] / host[i], 1, 1e-5) << n << " devices, step " << i;
  }
}

TEST_F(CudaRaggedTest, CountsMayDifferFromStepToStep) {
  const std::vector<int64_t> ids = {0, 2, 1, 0, 0, 2, 3, 3, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0,
                                    3, 3, 2, 2, 0, 0, 1, 2, 3, 0, 1, 2, 2, 2, 2, 3, 3, 3, 1, 1, 1, 0, 0, 0};
  const auto losses = [&](DeviceKind device, int devices) -> absl::StatusOr<std::vector<double>> {
    OF_ASSIGN_OR_RETURN(Graph graph, Layer(ids));
    OF_ASSIGN_OR_RETURN(const Outcome outcome, Run(std::move(graph), device, devices, 6));
    return outcome.fetched;
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<double> host, losses(DeviceKind::kCpu, 1));
  for (int n = 1; n <= devices_; ++n) {
    ASSERT_OK_AND_ASSIGN(const std::vector<double> cuda, losses(DeviceKind::kCuda, n));
    ASSERT_EQ(cuda.size(), host.size());
    for (size_t i = 0; i < host.size(); ++i) EXPECT_NEAR(cuda[i] / host[i], 1, 1e-5) << n << " devices, step " << i;
  }
}

// Each of 2 devices has the rows of one source, then those of 2 experts, then 2 of 4 columns, then all. What lies
// behind the rows is no number.
TEST_F(CudaRaggedTest, FilledRowsTravelAndNoOthers) {
  if (devices_ < 2) GTEST_SKIP() << testing::LacksCudaDevices(2);
  const auto run = [&](const std::vector<int64_t>& counts) -> absl::StatusOr<Outcome> {
    GraphBuilder b(ops_, "forward");
    const auto on = [](Sbp sbp) { return SbpHint{{"ep", sbp}}; };
    const Tensor of =
        b.Variable("counts", {DType::kInt32, {2, 4}}, testing::ListText(counts), on(Sbp::Split(0)), false);
    const Tensor is_row = PadRows(KeepRows(Constant(b, {DType::kFloat32, {2, 4, 6, 4}}, 1), of));
    const Tensor ones = b.Variable("x", {DType::kFloat32, {2, 4, 6, 4}}, "ones", on(Sbp::Split(0)));
    Tensor x = KeepRows(Add(ones, Mul(Log(is_row), Log(is_row))), of).To(on(Sbp::Split(0)));  // 1, or infinity
    x = Sub(x, Scale(x, 0.5)).To(on(Sbp::Split(1)));                                          // 1/2, or no number
    x = Scale(x, 2).To(on(Sbp::Split(3)));
    x = Scale(x, 2).To(on(Sbp::Broadcast()));
    Fetch(ReduceSum(x), "value");
    OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
    return Run(std::move(graph), DeviceKind::kCuda, 2, 2);
  };
  ASSERT_OK_AND_ASSIGN(const Outcome none, run(std::vector<int64_t>(8, 0)));
  ASSERT_OK_AND_ASSIGN(const Outcome some, run({6, 5, 3, 0, 4, 1, 2, 6}));
  ASSERT_OK_AND_ASSIGN(const Outcome all, run(std::vector<int64_t>(8, 6)));
  constexpr int64_t kRow = 4 * 4, kSteps = 2;
  const int64_t crossing = 3 + 0 + 4 + 1, rows = 27;  // half of each row goes on, then half of it to the other
  EXPECT_EQ(some.bytes_moved - none.bytes_moved, (crossing * kRow + rows * kRow / 2 + rows * kRow) * kSteps);
  EXPECT_EQ(all.bytes_moved - none.bytes_moved, (24 * kRow + 48 * kRow / 2 + 48 * kRow) * kSteps);
  for (const double value : none.fetched) EXPECT_EQ(value, 0);
  for (const double value : some.fetched) EXPECT_EQ(value, 2 * 27 * 4);
}

// What the host refuses a device can only mark, and the mark must not be lost where its rows are none; but sums of rows
// see it on the host.
TEST_F(CudaRaggedTest, AnIndexThatIsNoneReadsAsNoNumberOrFailsASum) {
  for (int n = 1; n <= devices_; ++n) {
    for (const int64_t bad : {int64_t{-1}, int64_t{4}}) {
      ASSERT_OK_AND_ASSIGN(Graph graph, Layer({0, 2, 1, 0, 0, 2, 3, 3, bad, 3, 3, 1}));
      EXPECT_THAT(Run(std::move(graph), DeviceKind::kCuda, n, 1).status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(", of 6 rows")))
          << "index " << bad << " on " << n << " devices";
      GraphBuilder b(ops_, "forward");
      const Tensor ids =
          b.Variable("ids", {DType::kInt32, {2, 2}}, testing::ListText(std::vector<int64_t>{0, 1, bad, 3}),
                     {{"ep", Sbp::Split(0)}}, false);
      const Tensor x = b.Variable("x", {DType::kFloat32, {2, 4, 6, 5}}, "normal(1)", {{"ep", Sbp::Split(0)}});
      Fetch(ReduceSum(PadRows(Gelu(KeepRows(x, RowCounts(ids, 4))))), "value");
      ASSERT_OK_AND_ASSIGN(graph, b.Finish());
      ASSERT_OK_AND_ASSIGN(const Outcome outcome, Run(std::move(graph), DeviceKind::kCuda, n, 1));
      ASSERT_EQ(outcome.fetched.size(), 1);
      EXPECT_TRUE(std::isnan(outcome.fetched[0]))
          << "index " << bad << " on " << n << " devices: " << outcome.fetched[0];
    }
  }
}

}  // namespace
}  // namespace oneflow
