// resnet-stages: the stem of ResNet-50 and its first two stages, then the mean over pixels and a linear classifier.
#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "tools/bench/graph_contest.h"

namespace oneflow {
namespace {

constexpr int64_t kResNetBatch = 8, kLargeBatch = 64, kImageSide = 224, kImageClasses = 1000;
constexpr int64_t kBlocks[] = {3, 4};     // of stages 1 and 2
constexpr int64_t kNarrow[] = {64, 128};  // channels inside a block of theirs; it puts out four times as many

Tensor ConvNorm(const Tensor& x, const std::string& name, int64_t channels, int64_t kernel, int64_t stride) {
  const Tensor y =
      nn::Conv2d(x, name + "/conv",
                 {.channels = channels, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false});
  return nn::BatchNorm(y, name + "/norm", {.training = true});
}

Tensor Bottleneck(const Tensor& x, const std::string& name, int64_t narrow, int64_t stride) {
  const Tensor a = Relu(ConvNorm(x, name + "/a", narrow, 1, 1));
  const Tensor b = Relu(ConvNorm(a, name + "/b", narrow, 3, stride));
  const Tensor c = ConvNorm(b, name + "/c", 4 * narrow, 1, 1);
  if (!c.valid()) return Tensor();
  const bool same = x.shape() == c.shape();
  return Relu(c + (same ? x : ConvNorm(x, name + "/shortcut", 4 * narrow, 1, stride)));
}

Tensor ResNetStagesLoss(const Batch& batch, int64_t images) {
  Tensor x = Reshape(batch.inputs, {images, 3, kImageSide, kImageSide});
  x = Relu(ConvNorm(x, "stem", 64, 7, 2));
  x = MaxPool2d(Pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}), /*kernel=*/3, /*stride=*/2);  // nothing is below 0 behind a ReLU
  for (int stage = 0; stage < 2; ++stage) {
    for (int64_t block = 0; block < kBlocks[stage]; ++block) {
      x = Bottleneck(x, absl::StrCat("s", stage, "b", block), kNarrow[stage], stage > 0 && block == 0 ? 2 : 1);
    }
  }
  const Tensor logits =
      nn::Linear(ReduceMean(x, {2, 3}), "head", {.width = kImageClasses, .init = nn::LecunUniform(4 * kNarrow[1])});
  return ReduceMean(SoftmaxCrossEntropy(logits, batch.labels), {0});
}

std::unique_ptr<BenchCase> OfBatch(const std::string& name, int64_t images, const BenchContext& context) {
  return MakeGraphContest(
      {.name = name,
       .title = absl::StrCat(name, ": ResNet-50's stem and stages 1 and 2, ", images, " images 3x", kImageSide, "x",
                             kImageSide, ", SGD with momentum"),
       .unit = "images",
       .per_step = static_cast<double>(images),
       .pytorch = {{"model", "resnet"}, {"batch", images}, {"side", kImageSide}, {"blocks", kBlocks}},
       .training = "optimizer { sgd { momentum: 0.9 weight_decay: 1e-4 } } schedule { learning_rate: 0.01 }",
       .images = {images, 3 * kImageSide, kImageSide},
       .warmup = 2,
       .steps = 4,
       .modes = {"eager", "eager-channels-last", "compile", "compile-channels-last"},
       .loss = [images](const Batch& batch) { return ResNetStagesLoss(batch, images); }},
      context);
}

}  // namespace

std::unique_ptr<BenchCase> MakeResNetStagesCase(const BenchContext& context) {
  return OfBatch("resnet-stages", kResNetBatch, context);
}
std::unique_ptr<BenchCase> MakeLargeResNetStagesCase(const BenchContext& context) {
  return OfBatch("resnet-stages-64", kLargeBatch, context);
}

}  // namespace oneflow
