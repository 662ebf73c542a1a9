// A bilinear game (actor/data/game.h): x wants the loss to be small, y, in a group with `ascent`, wants it to be large.
// A sample is what one worker has. Besides the loss a step tells how far the point at which it took the gradient is
// from the solution: "distance", |z - z*|^2 / |z*|^2 with z = (x, y).
//
// Variables: "x", "y" [d,1], zeros at first.
#include "oneflow_core/functional.h"
#include "oneflow_core/models/model.h"

namespace oneflow {
namespace {

struct Players {
  Tensor x, y;  // [1,d]
};

Tensor LossOf(const Players& z, const GameBatch& game, double lambda) {
  if (!game.matrices.valid() || !z.y.valid()) return Tensor();
  const int64_t workers = game.matrices.shape()[0], d = game.matrices.shape()[1];
  const Tensor ay = Reshape(MatMul(Reshape(game.matrices, {workers * d, d}), Reshape(z.y, {d, 1})), {workers, d});
  const Tensor of_x = Mul(z.x, Add(Add(ay, game.of_x), Scale(z.x, lambda / 2)));
  const Tensor of_y = Mul(z.y, Sub(game.of_y, Scale(z.y, lambda / 2)));
  return ReduceMean(ReduceSum(Add(of_x, of_y), {1}), {0});
}

Tensor DistanceOf(const Players& z, const GameBatch& game) {
  if (!game.solution.valid() || !z.y.valid()) return Tensor();
  const Tensor away = Square(Sub(Concat({z.x, z.y}, 1), game.solution));
  return Div(ReduceMean(ReduceSum(away, {1}), {0}), ReduceMean(ReduceSum(Square(game.solution), {1}), {0}));
}

absl::StatusOr<Graph> GameGraph(const ModelRequest& request, DataSplit split, int64_t batch, const OpRegistry& ops) {
  const bool trains = split == DataSplit::kTrain;
  GraphBuilder b(ops, trains ? "train" : "evaluate");
  const int64_t d = request.data.Int("dimension");
  const GameBatch game = ReadGameBatch(b, request.data, split, batch);
  const auto player = [&](const char* name) {
    return Reshape(b.Variable(name, {DType::kFloat32, {d, 1}}, "zeros"), {1, d});
  };
  const Players z = {player("x"), player("y")};
  const Tensor loss = LossOf(z, game, 1 / request.data.Double("condition"));
  if (trains) b.SetLoss(loss);
  Fetch(loss, "loss");
  Fetch(DistanceOf(z, game), "distance");
  return b.Finish();
}

absl::StatusOr<std::vector<Graph>> BuildBilinear(const ModelRequest& request, const OpRegistry& ops) {
  return ProgramOf("bilinear", request, GameGraph, ops);
}

}  // namespace

ModelDef BilinearModel() { return {.name = "bilinear", .reads = {"game"}, .build = BuildBilinear}; }

}  // namespace oneflow
