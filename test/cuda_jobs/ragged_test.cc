// Ragged values on CUDA devices: all rows are computed and travel, and what the counts leave out counts for nothing.
#include <mutex>

#include "actor/collective/nccl_collectives.h"
#include "actor/engine.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "test/cuda_jobs/devices.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Losses of some steps of a layer on rows that go from those who have the groups to those who have the columns.
absl::StatusOr<std::vector<double>> Losses(DeviceKind device, int devices) {
  const OpRegistry ops = StandardOps();
  GraphBuilder b(ops, "train");
  const auto weight = [&](const char* name, Shape shape) {
    return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.5)");
  };
  const Tensor ids = b.Variable("ids", {DType::kInt32, {2, 6}}, "list(0,2,1,0,0,2,3,3,0,3,3,1)", {}, false);
  const Tensor counts = RowCounts(ids, 4);
  const Tensor x = b.Variable("x", {DType::kFloat32, {2, 4, 6, 5}}, "normal(1)", {{"ep", Sbp::Split(0)}});
  const Tensor there = KeepRows(x, counts).To({{"ep", Sbp::Split(1)}});
  const Tensor y = Gelu(BiasAdd(MatMul(there, weight("w", {5, 7})), weight("b", {7})));
  const Tensor loss = ReduceSum(Square(y.To({{"ep", Sbp::Split(3)}})));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  CompileOptions options;
  options.job = "ragged";
  options.device = device;
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"ep", devices}}));
  options.ranks_per_process = devices;
  options.optimizer.kind = OptimizerOptions::Kind::kSgd;
  options.schedule.learning_rate = 0.01;
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile({std::move(graph)}, options, ops));
  std::mutex mutex;
  std::vector<double> losses;
  EngineOptions engine_options;
  engine_options.on_fetch = [&](const Fetched& fetched) {
    const std::lock_guard lock(mutex);
    if (fetched.name == "loss") losses.push_back(fetched.values[0]);
  };
  const pb::Program program = testing::SpelledOut(plan);
  std::unique_ptr<Collectives> collectives;
  if (device == DeviceKind::kCuda && devices > 1) {
    OF_ASSIGN_OR_RETURN(collectives, MakeNcclCollectives(program, /*process=*/0, /*peers=*/nullptr));
    engine_options.collectives = collectives.get();
  }
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(program, std::move(engine_options)));
  OF_RETURN_IF_ERROR(engine->Run("train", 0, 4));
  return losses;
}

TEST(CudaRaggedTest, TrainsAsOnTheHost) {
  const int devices = testing::CudaDevices(2);
  if (devices == 0) GTEST_SKIP() << testing::LacksCudaDevices(1);
  ASSERT_OK_AND_ASSIGN(const std::vector<double> host, Losses(DeviceKind::kCpu, 1));
  ASSERT_LT(host.back(), host.front());
  for (int n = 1; n <= devices; ++n) {
    ASSERT_OK_AND_ASSIGN(const std::vector<double> losses, Losses(DeviceKind::kCuda, n));
    ASSERT_EQ(losses.size(), host.size());
    for (size_t i = 0; i < host.size(); ++i) EXPECT_NEAR(losses[i] / host[i], 1, 1e-5) << n << " devices, step " << i;
  }
}

}  // namespace
}  // namespace oneflow
