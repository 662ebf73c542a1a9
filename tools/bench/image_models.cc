// resnet-50, resnet-50-bf16 and vit-small: classifiers of images of three channels and 224x224 pixels, as they are
// published.
#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/models/resnet.h"
#include "oneflow_core/models/vit.h"
#include "tools/bench/graph_contest.h"

namespace oneflow {
namespace {

constexpr int64_t kImages = 8, kSide = 224, kClasses = 1000;

using Logits = Tensor (*)(const AttrMap& fields, const Tensor& images, bool training);

std::function<Tensor(const Batch& batch)> LossOf(Logits logits, AttrMap fields) {
  return [logits, fields = std::move(fields)](const Batch& batch) {
    const Tensor images = Reshape(batch.inputs, {kImages, 3, kSide, kSide});
    return ReduceMean(SoftmaxCrossEntropy(logits(fields, images, /*training=*/true), batch.labels), {0});
  };
}

std::string TitleOf(const std::string& name, const char* what) {
  return absl::StrCat(name, ": ", what, ", ", kImages, " images 3x", kSide, "x", kSide);
}

// A fresh ResNet-50 makes much of rounding: in two memory formats of PyTorch its first gradients are 4% apart, and
// after one step at a rate of 0.01 losses 2e-3, at 1e-5 3e-5. The rate is low so that equal work shows in near losses.
GraphContest ResNet50(const std::string& name) {
  const AttrMap fields = {
      {"depth", int64_t{50}}, {"width", int64_t{64}}, {"small_images", false}, {"classes", kClasses}};
  return {.name = name,
          .title = TitleOf(name, "ResNet-50, SGD with momentum"),
          .unit = "images",
          .per_step = static_cast<double>(kImages),
          .pytorch = {{"model", "resnet"}, {"batch", kImages}, {"side", kSide}, {"blocks", {3, 4, 6, 3}}},
          .training = "optimizer { sgd { momentum: 0.9 weight_decay: 1e-4 } } schedule { learning_rate: 1e-5 }",
          .images = {kImages, 3 * kSide, kSide},
          .warmup = 2,
          .steps = 4,
          .modes = {"eager", "eager-channels-last", "compile", "compile-channels-last"},
          .loss = LossOf(ResNetLogits, fields)};
}

GraphContest VitSmall() {
  constexpr int64_t kPatch = 16, kHeads = 6, kLayers = 12;
  const AttrMap fields = {{"patch", kPatch},      {"width", int64_t{384}}, {"layers", kLayers},   {"heads", kHeads},
                          {"hidden", int64_t{0}}, {"dropout", 0.0},        {"classes", kClasses}, {"epsilon", 1e-6}};
  return {.name = "vit-small",
          .title = TitleOf("vit-small", "ViT-S/16, AdamW"),
          .unit = "images",
          .per_step = static_cast<double>(kImages),
          .pytorch = {{"model", "vit"},
                      {"batch", kImages},
                      {"side", kSide},
                      {"patch", kPatch},
                      {"layers", kLayers},
                      {"heads", kHeads},
                      {"epsilon", 1e-6}},
          .training = "optimizer { adamw { weight_decay: 0.05 } } schedule { learning_rate: 1e-4 }",
          .images = {kImages, 3 * kSide, kSide},
          .warmup = 2,
          .steps = 5,
          .modes = {"eager", "compile"},
          .loss = LossOf(VitLogits, fields)};
}

}  // namespace

std::unique_ptr<BenchCase> MakeResNet50Case(const BenchContext& context) {
  return MakeGraphContest(ResNet50("resnet-50"), /*bf16=*/false, context);
}
std::unique_ptr<BenchCase> MakeResNet50Bf16Case(const BenchContext& context) {
  return MakeGraphContest(ResNet50("resnet-50-bf16"), /*bf16=*/true, context);
}
std::unique_ptr<BenchCase> MakeVitSmallCase(const BenchContext& context) {
  return MakeGraphContest(VitSmall(), /*bf16=*/false, context);
}

}  // namespace oneflow
