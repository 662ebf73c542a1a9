// Data that the engine makes itself: problems of any size with nothing to download, for models with many classes or
// large tables. Sample i is a function of (seed, i) alone, so it is the same on every layout, and there is something to
// learn:
//
//   prototypes   every class has an image of its own (uniform pixels); a sample is its class' image plus normal noise
//   clicks       a user's categorical fields and numbers; whether he clicks is drawn with the probability that a hidden
//                model gives, which is a sum over single fields (wide), over products of neighbouring fields' factors
//                (deep), and over the numbers. Values of a field are as unevenly popular as words: most samples hold
//                few of them.
//
// Training samples come in a new permutation every epoch; validation samples are others, in order.
#include <cmath>
#include <memory>

#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"
#include "kernels/random.h"

namespace oneflow {
namespace {

// The purposes of streams of random numbers.
enum Stream : uint64_t {
  kOrder = 1,
  kClassOfSample,
  kNoise,
  kPrototype,
  kFieldValue,
  kNumber,
  kFieldWeight,
  kFieldFactor,
  kNumberWeight,
  kClick,
};

// The samples of one split, as numbers that no other split uses.
class Samples {
 public:
  Samples(int64_t count, bool train, uint64_t seed) : count_(count), train_(train), seed_(seed) {}

  int64_t count() const { return count_; }
  // The sample at place `position` since the job began.
  uint64_t At(int64_t position) const {
    if (!train_) return kFirstOfValidation + static_cast<uint64_t>(position % count_);
    const uint64_t key = RandomKey(RandomKey(seed_, kOrder), static_cast<uint64_t>(position / count_));
    return PermutedIndex(key, static_cast<uint64_t>(count_), static_cast<uint64_t>(position % count_));
  }

 private:
  static constexpr uint64_t kFirstOfValidation = uint64_t{1} << 40;

  int64_t count_;
  bool train_;
  uint64_t seed_;
};

// The split that the attributes describe. InvalidArgument unless it has from 1 to 2^40 samples.
absl::StatusOr<Samples> SamplesOf(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  const int64_t count = attributes.Int("samples");
  if (count < 1 || count > (int64_t{1} << 40)) {
    return absl::InvalidArgumentError(absl::StrCat("made data has ", count, " samples, but must have from 1 to 2^40"));
  }
  return Samples(count, train, static_cast<uint64_t>(attributes.Int("seed")));
}

// Independent draws number `index` of the stream `stream`.
class Draws {
 public:
  Draws(uint64_t seed, Stream stream) : key_(RandomKey(seed, stream)) {}

  // In [0, 1).
  float Uniform(uint64_t index, uint64_t step = 0) const { return ToUniform(RandomBits(key_, step, index)); }
  // Standard normal (Box and Muller, 1958).
  float Normal(uint64_t index, uint64_t step) const {
    const Philox4 bits = Philox(key_, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32));
    const float radius = std::sqrt(-2.0f * std::log(1.0f - ToUniform(bits.x[0])));
    return radius * std::cos(6.2831853f * ToUniform(bits.x[1]));
  }
  uint64_t Below(uint64_t n, uint64_t index) const { return RandomIndex(key_, n, index); }

 private:
  uint64_t key_;
};

class MadeSource : public Source {
 public:
  explicit MadeSource(Samples samples) : samples_(samples) {}
  int64_t num_samples() const override { return samples_.count(); }

 protected:
  const Samples samples_;
};

class PrototypeSource : public MadeSource {
 public:
  PrototypeSource(Samples samples, int64_t classes, double noise, uint64_t seed)
      : MadeSource(samples),
        classes_(classes),
        noise_(static_cast<float>(noise)),
        class_of_sample_(seed, kClassOfSample),
        prototype_(seed, kPrototype),
        noise_draws_(seed, kNoise) {}

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    if (outputs.size() != 2 || outputs[0].dtype != DType::kFloat32 || outputs[0].rank != 4 ||
        outputs[1].dtype != DType::kInt32 || outputs[1].rank != 1) {
      return absl::InvalidArgumentError("prototypes fill f32[batch,channels,height,width] and i32[batch] only");
    }
    const TensorArg &images = outputs[0], &labels = outputs[1];
    const int64_t pixels = images.logical_dims[1] * images.logical_dims[2] * images.logical_dims[3];
    if (images.count != images.dims[0] * pixels)
      return absl::InvalidArgumentError("prototypes are split by samples only");
    const int64_t first_image = FirstSample(step, micro_batch, micro_batches, images, row_shift);
    for (int64_t row = 0; row < images.dims[0]; ++row) {
      const uint64_t sample = samples_.At(first_image + row);
      const uint64_t first_pixel = ClassOf(sample) * static_cast<uint64_t>(pixels);
      float* const to = images.as<float>() + row * pixels;
      for (int64_t i = 0; i < pixels; ++i) {
        to[i] = 2 * prototype_.Uniform(first_pixel + i) - 1 + noise_ * noise_draws_.Normal(i, sample);
      }
    }
    const int64_t first_label = FirstSample(step, micro_batch, micro_batches, labels, row_shift);
    for (int64_t row = 0; row < labels.dims[0]; ++row) {
      labels.as<int32_t>()[row] = static_cast<int32_t>(ClassOf(samples_.At(first_label + row)));
    }
    return absl::OkStatus();
  }

 private:
  uint64_t ClassOf(uint64_t sample) const { return class_of_sample_.Below(static_cast<uint64_t>(classes_), sample); }

  const int64_t classes_;
  const float noise_;
  const Draws class_of_sample_, prototype_, noise_draws_;
};

class ClickSource : public MadeSource {
 public:
  ClickSource(Samples samples, int64_t vocabulary, uint64_t seed)
      : MadeSource(samples),
        vocabulary_(vocabulary),
        field_value_(seed, kFieldValue),
        number_(seed, kNumber),
        field_weight_(seed, kFieldWeight),
        field_factor_(seed, kFieldFactor),
        number_weight_(seed, kNumberWeight),
        click_(seed, kClick) {}

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    if (outputs.size() != 3 || outputs[0].dtype != DType::kInt32 || outputs[0].rank != 2 ||
        outputs[1].dtype != DType::kFloat32 || outputs[1].rank != 2 || outputs[2].dtype != DType::kInt32 ||
        outputs[2].rank != 1) {
      return absl::InvalidArgumentError("clicks fill i32[batch,fields], f32[batch,numbers] and i32[batch] only");
    }
    const TensorArg &ids = outputs[0], &numbers = outputs[1], &labels = outputs[2];
    const int64_t fields = ids.logical_dims[1], num_numbers = numbers.logical_dims[1];
    if (ids.dims[1] != fields || numbers.dims[1] != num_numbers) {
      return absl::InvalidArgumentError("clicks are split by samples only");
    }
    if (fields > vocabulary_) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields, " fields share a vocabulary of ", vocabulary_, " ids, but each needs one at least"));
    }
    const int64_t first_ids = FirstSample(step, micro_batch, micro_batches, ids, row_shift);
    for (int64_t row = 0; row < ids.dims[0]; ++row) {
      const uint64_t sample = samples_.At(first_ids + row);
      for (int64_t f = 0; f < fields; ++f) ids.as<int32_t>()[row * fields + f] = Id(sample, f, fields);
    }
    const int64_t first_numbers = FirstSample(step, micro_batch, micro_batches, numbers, row_shift);
    for (int64_t row = 0; row < numbers.dims[0]; ++row) {
      const uint64_t sample = samples_.At(first_numbers + row);
      for (int64_t i = 0; i < num_numbers; ++i) numbers.as<float>()[row * num_numbers + i] = number_.Normal(i, sample);
    }
    const int64_t first_label = FirstSample(step, micro_batch, micro_batches, labels, row_shift);
    for (int64_t row = 0; row < labels.dims[0]; ++row) {
      const uint64_t sample = samples_.At(first_label + row);
      const float probability = 1 / (1 + std::exp(-Logit(sample, fields, num_numbers)));
      labels.as<int32_t>()[row] = click_.Uniform(sample) < probability ? 1 : 0;
    }
    return absl::OkStatus();
  }

 private:
  // The cube of a uniform number favours the first ids of a field: half of all samples hold an eighth of them.
  int32_t Id(uint64_t sample, int64_t field, int64_t fields) const {
    const int64_t begin = field * vocabulary_ / fields, end = (field + 1) * vocabulary_ / fields;
    const double u = field_value_.Uniform(field, sample);
    return static_cast<int32_t>(begin + static_cast<int64_t>(u * u * u * static_cast<double>(end - begin)));
  }

  float Logit(uint64_t sample, int64_t fields, int64_t num_numbers) const {
    float logit = 0, previous = 0;
    for (int64_t f = 0; f < fields; ++f) {
      const uint64_t id = static_cast<uint64_t>(Id(sample, f, fields));
      logit += 2 * field_weight_.Uniform(id) - 1;
      const float factor = 2 * field_factor_.Uniform(id) - 1;
      logit += 3 * previous * factor;
      previous = factor;
    }
    for (int64_t i = 0; i < num_numbers; ++i) logit += (2 * number_weight_.Uniform(i) - 1) * number_.Normal(i, sample);
    return logit;
  }

  const int64_t vocabulary_;
  const Draws field_value_, number_, field_weight_, field_factor_, number_weight_, click_;
};

// Attributes: classes, samples, noise (standard deviation; pixels are in [-1, 1]), split, seed. Fills
// f32[batch,channels,height,width] of any size and i32[batch].
absl::StatusOr<std::unique_ptr<Source>> OpenPrototypeSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(attributes));
  const int64_t classes = attributes.Int("classes");
  if (classes < 1 || classes > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("prototypes of ", classes, " classes, but there must be 1 at least"));
  }
  const double noise = attributes.Double("noise");
  if (!(noise >= 0) || std::isinf(noise)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prototypes with noise ", noise, ", but it must be at least 0 and finite"));
  }
  return std::make_unique<PrototypeSource>(samples, classes, noise, static_cast<uint64_t>(attributes.Int("seed")));
}

// Attributes: vocabulary, samples, split, seed. Fills ids i32[batch,fields], numbers f32[batch,numbers], clicked
// i32[batch]. Of `vocabulary` ids, field f of F has those from f * vocabulary / F to below (f + 1) * vocabulary / F.
absl::StatusOr<std::unique_ptr<Source>> OpenClickSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(attributes));
  const int64_t vocabulary = attributes.Int("vocabulary");
  if (vocabulary < 1 || vocabulary > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("clicks with ", vocabulary, " ids, but there must be 1 at least"));
  }
  return std::make_unique<ClickSource>(samples, vocabulary, static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace

std::vector<SourceKind> MadeSources() { return {{"prototypes", OpenPrototypeSource}, {"clicks", OpenClickSource}}; }

}  // namespace oneflow
