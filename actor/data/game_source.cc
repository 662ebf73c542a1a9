// The numbers of a game (game.h), made by the engine: sample i is those of worker i, over and over in this order, so
// that a batch of all workers gives each rank the same ones in every step. Attributes: dimension, workers,
// heterogeneity, condition, seed; fills A f32[batch,d,d], a and b f32[batch,d] and the solution f32[batch,2d].
#include "actor/data/game.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"

namespace oneflow {
namespace {

class GameSource : public Source {
 public:
  explicit GameSource(const GameSizes& sizes) : sizes_(sizes), game_(MakeGame(sizes)) {}

  int64_t num_samples() const override { return sizes_.workers; }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    const int64_t d = sizes_.dimension, sizes[] = {d * d, d, d, 2 * d};
    if (outputs.size() != 4) return Unfit();
    for (int i = 0; i < 4; ++i) {
      const TensorArg& out = outputs[i];
      if (out.dtype != DType::kFloat32 || out.rank < 1 || out.count != out.dims[0] * sizes[i]) return Unfit();
      const int64_t first = FirstSample(step, micro_batch, micro_batches, out, row_shift);
      for (int64_t row = 0; row < out.dims[0]; ++row) {
        const std::vector<double>& of_worker = Numbers(i, (first + row) % sizes_.workers);
        for (int64_t k = 0; k < sizes[i]; ++k) out.as<float>()[row * sizes[i] + k] = static_cast<float>(of_worker[k]);
      }
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Unfit() {
    return absl::InvalidArgumentError(
        "a game fills f32[batch,d,d], f32[batch,d] twice and f32[batch,2d] only, split by samples");
  }

  const std::vector<double>& Numbers(int output, int64_t worker) const {
    if (output == 0) return game_.matrices[worker];
    if (output == 3) return game_.solution;
    return output == 1 ? game_.of_x[worker] : game_.of_y[worker];
  }

  const GameSizes sizes_;
  const Game game_;
};

absl::StatusOr<std::unique_ptr<Source>> OpenGameSource(const AttrMap& attributes) {
  OF_RETURN_IF_ERROR(IsTrainSplit(attributes).status());
  const GameSizes sizes = {.dimension = attributes.Int("dimension"),
                           .workers = attributes.Int("workers"),
                           .heterogeneity = attributes.Double("heterogeneity"),
                           .condition = attributes.Double("condition"),
                           .seed = static_cast<uint64_t>(attributes.Int("seed"))};
  constexpr int64_t kMost = 1024;
  if (sizes.dimension < 1 || sizes.dimension > kMost || sizes.workers < 1 || sizes.workers > kMost ||
      !(sizes.condition >= 1) || std::isinf(sizes.condition) || !(sizes.heterogeneity >= 0) ||
      std::isinf(sizes.heterogeneity)) {
    return absl::InvalidArgumentError(absl::StrCat("a game of dimension ", sizes.dimension, ", ", sizes.workers,
                                                   " workers, heterogeneity ", sizes.heterogeneity, " and condition ",
                                                   sizes.condition, "; the first two must be from 1 to ", kMost,
                                                   ", the others finite and at least 0 and 1"));
  }
  return std::make_unique<GameSource>(sizes);
}

}  // namespace

std::vector<SourceKind> GameSources() { return {{"game", OpenGameSource}}; }

}  // namespace oneflow
