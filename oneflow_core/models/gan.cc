// A generative adversarial network (Goodfellow et al., 2014). The generator G makes samples of noise z; the
// discriminator D tells them from those of the data:
//
//   normal noise [n,latent] ──► generator ──► made [n,f] ──┐
//   data [n,f] ────────────────────────────────────────────┴──► discriminator ──► logit of "from the data"
//
// Both are MLPs of the same widths with ReLU. There are two losses to choose from:
//
//   minimax          one loss of both players, mean log D(x) + mean log(1 - D(G(z))): the generator wants it small, the
//                    discriminator, in a group with `ascent`, large
//   non_saturating   each wants a loss of its own to be small, and no group is needed:
//                    D: -mean log D(x) - mean log(1 - D(G(z)))     G: -mean log D(G(z))
//
// Besides the loss a step tells both players' losses of the second kind, "discriminator_loss" and "generator_loss". An
// evaluation tells "distance", the energy distance of as many made samples to those of the data (Szekely, 2003):
// 2 E|x - g| - E|x - x'| - E|g - g'|, which is 0 only where both have one distribution.
//
// Variables: "generator/fc0/{weight,bias}", ..., "generator/head/{weight,bias}", and so of "discriminator".
#include "oneflow_core/functional.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/initial.h"

namespace oneflow {
namespace {

// Beneath a root, whose slope at 0 is infinite. No gradient is taken of it, but 0 would round to a NaN.
constexpr double kLeastSquaredDistance = 1e-12;

// Fully connected layers with ReLU between them, which can be read with their weights fixed too.
class Player {
 public:
  Player(GraphBuilder& b, const std::string& name, int64_t inputs, std::vector<int64_t> widths) {
    const GraphBuilder::Scope scope(b, name);
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool last = i + 1 == widths.size();
      const GraphBuilder::Scope layer(b, last ? "head" : absl::StrCat("fc", i));
      layers_.push_back({b.Variable("weight", {DType::kFloat32, {inputs, widths[i]}},
                                    last ? nn::LecunUniform(inputs) : nn::HeUniform(inputs)),
                         b.Variable("bias", {DType::kFloat32, {widths[i]}}, "zeros")});
      inputs = widths[i];
    }
  }

  // `fixed`: no gradient flows to the weights.
  Tensor operator()(Tensor x, bool fixed = false) const {
    const auto read = [&](const Tensor& w) { return fixed ? StopGradient(w) : w; };
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = BiasAdd(MatMul(x, read(layers_[i].weight)), read(layers_[i].bias));
      if (i + 1 < layers_.size()) x = Relu(x);
    }
    return x;
  }

 private:
  struct Layer {
    Tensor weight, bias;
  };
  std::vector<Layer> layers_;
};

// -log of the probability that logits [n,1] give: that samples are from the data, or are made.
Tensor Surprise(const Tensor& logits, bool of_data) { return ReduceMean(Softplus(of_data ? Neg(logits) : logits)); }

// The mean distance of rows of a [n,f] to rows of b [m,f].
Tensor MeanDistance(const Tensor& a, const Tensor& b) {
  const Tensor of_a = ReduceSum(Square(a), {1}, /*keepdims=*/true);
  const Tensor of_b = Transpose(ReduceSum(Square(b), {1}, /*keepdims=*/true), {1, 0});
  return ReduceMean(Sqrt(Relu(of_a + of_b - MatMul(a, b, /*transpose_b=*/true) * 2) + kLeastSquaredDistance));
}

absl::StatusOr<Graph> GanGraph(const ModelRequest& request, DataSplit split, int64_t batch, const OpRegistry& ops) {
  const bool trains = split == DataSplit::kTrain;
  GraphBuilder b(ops, trains ? "train" : "evaluate");
  const Batch read = request.reads.read(b, request.data, split, batch);
  if (!read.inputs.valid()) return b.Finish();
  const Tensor samples = Reshape(read.inputs, {batch, -1});
  const int64_t features = samples.shape()[1], latent = request.fields.Int("latent");
  const auto widths_to = [&](int64_t last) {
    std::vector<int64_t> widths = request.fields.Ints("widths");
    widths.push_back(last);
    return widths;
  };
  const Player generator(b, "generator", latent, widths_to(features));
  const Player discriminator(b, "discriminator", features, widths_to(1));
  const Tensor made = generator(NormalLike(Constant(b, {DType::kFloat32, {batch, latent}}, 0)));
  const bool minimax = request.fields.String("loss") == "minimax";
  const Tensor of_data = Surprise(discriminator(samples), true);
  const Tensor of_discriminator = of_data + Surprise(discriminator(minimax ? made : StopGradient(made)), false);
  const Tensor of_generator = Surprise(discriminator(made, /*fixed=*/true), true);
  const Tensor loss = minimax ? Neg(of_discriminator) : of_discriminator + of_generator;
  if (trains) b.SetLoss(loss);
  Fetch(loss, "loss");
  Fetch(of_discriminator, "discriminator_loss");
  Fetch(of_generator, "generator_loss");
  if (trains) return b.Finish();
  Fetch(MeanDistance(samples, made) * 2 - MeanDistance(samples, samples) - MeanDistance(made, made), "distance");
  return b.Finish();
}

absl::StatusOr<std::vector<Graph>> BuildGan(const ModelRequest& request, const OpRegistry& ops) {
  return ProgramOf("gan", request, GanGraph, ops);
}

}  // namespace

ModelDef GanModel() {
  return {.name = "gan",
          .reads = {"images", "cifar", "csv"},
          .build = BuildGan,
          .small = "latent: 5 widths: [9, 7] loss: 'minimax'"};
}

}  // namespace oneflow
