// Samples of a wave: x in [-range, range), and y = sin(frequency x). A sample is a function of its number alone, so the
// order of data does not depend on how many ranks read it.
#include <cmath>
#include <memory>

#include "actor/data/sample_range.h"
#include "oneflow_core/ops/check.h"
#include "plugin.h"

namespace waves {
namespace {

using oneflow::AttrMap;
using oneflow::ops::IntAttr;
using oneflow::ops::NumberAttr;

// A number in [0, 1) for each sample (splitmix64).
double Draw(uint64_t sample) {
  uint64_t z = (sample + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

class WaveSource : public oneflow::Source {
 public:
  WaveSource(int64_t samples, double range, double frequency, bool train)
      : samples_(samples), range_(range), frequency_(frequency), first_(train ? 0 : uint64_t{1} << 40) {}

  int64_t num_samples() const override { return samples_; }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches,
                    std::span<const oneflow::TensorArg> outputs, int64_t row_shift) override {
    const oneflow::TensorArg &x = outputs[0], &y = outputs[1];
    const int64_t first = oneflow::FirstSample(step, micro_batch, micro_batches, x, row_shift);
    for (int64_t i = 0; i < x.dims[0]; ++i) {
      const double at = range_ * (2 * Draw(first_ + static_cast<uint64_t>((first + i) % samples_)) - 1);
      x.as<float>()[i] = static_cast<float>(at);
      y.as<float>()[i] = static_cast<float>(std::sin(frequency_ * at));
    }
    return absl::OkStatus();
  }

 private:
  const int64_t samples_;
  const double range_, frequency_;
  const uint64_t first_;  // validation has other samples
};

absl::StatusOr<std::unique_ptr<oneflow::Source>> Open(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(const bool train, oneflow::IsTrainSplit(attributes));
  OF_ASSIGN_OR_RETURN(const int64_t samples, IntAttr(attributes, "samples", 1));
  OF_ASSIGN_OR_RETURN(const double range, NumberAttr(attributes, "range"));
  OF_ASSIGN_OR_RETURN(const double frequency, NumberAttr(attributes, "frequency"));
  return std::make_unique<WaveSource>(samples, range, frequency, train);
}

absl::StatusOr<std::vector<oneflow::TensorType>> Types(const AttrMap&, int64_t batch) {
  return std::vector<oneflow::TensorType>{{oneflow::DType::kFloat32, {batch, 1}}, {oneflow::DType::kFloat32, {batch}}};
}

// The node that reads; its samples are dealt out along the mesh axis dp.
oneflow::Batch Read(oneflow::GraphBuilder& b, const AttrMap& fields, oneflow::DataSplit split, int64_t batch) {
  const bool train = split == oneflow::DataSplit::kTrain;
  const std::vector<oneflow::Tensor> read = b.Op("read_data", {},
                                                 {{"dataset", "waves"},
                                                  {"batch", batch},
                                                  {"samples", fields.Int("samples")},
                                                  {"range", fields.Double("range")},
                                                  {"frequency", fields.Double("frequency")},
                                                  {"split", train ? "train" : "validation"}});
  if (read.size() < 2) return {};
  const oneflow::SbpHint by_sample = {{"dp", oneflow::Sbp::Split(0)}};
  return {read[0].To(by_sample), read[1].To(by_sample)};
}

}  // namespace

void AddWaveData(oneflow::Plugin& plugin) {
  plugin.Add(oneflow::DataKind{.name = "waves",
                               .types = Types,
                               .read = Read,
                               .fields = {{"samples", int64_t{4096}, 1, 1e9, "in one pass"},
                                          {"range", 3.0, 0, 1e6, "x is from -range to range"},
                                          {"frequency", 4.0, 0, 1e6, "y = sin(frequency x)"}}},
             {"waves", Open});
}

}  // namespace waves
