// A file of bytes as a language-model data set: every byte is a token.
//
//   |<------------- train ------------->|<- validation ->|
//   train: sample i begins at a random offset that depends on (seed, i) only
//   validation: windows of `context` tokens one after another, starting over at the end
//   tokens = bytes[o, o + context), labels = bytes[o + 1, o + context + 1)
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "actor/data/data_file.h"
#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"

namespace oneflow {
namespace {

class TextSource : public Source {
 public:
  TextSource(DataFile file, int64_t begin, int64_t end, int64_t context, bool random, uint64_t seed)
      : file_(std::move(file)), begin_(begin), end_(end), context_(context), random_(random), seed_(seed) {}

  int64_t num_samples() const override { return (end_ - begin_ - 1) / context_; }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    if (outputs.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("text has 2 outputs, not ", outputs.size()));
    for (size_t which = 0; which < 2; ++which) {
      const TensorArg& out = outputs[which];
      if (out.rank != 2 || out.dtype != DType::kInt32) {
        return absl::InvalidArgumentError("text fills i32[batch,context] tensors only");
      }
      if (out.logical_dims[1] != context_) {
        return absl::InvalidArgumentError(
            absl::StrCat("the source was opened with context ", context_, ", the tensor has ", out.logical_dims[1]));
      }
      const int64_t first = FirstSample(step, micro_batch, micro_batches, out, row_shift);
      std::vector<uint8_t> bytes(out.dims[1]);
      for (int64_t row = 0; row < out.dims[0]; ++row) {
        const int64_t at = Offset(first + row) + out.start[1] + static_cast<int64_t>(which);
        OF_RETURN_IF_ERROR(file_.ReadAt(at, absl::MakeSpan(bytes)));
        std::copy(bytes.begin(), bytes.end(), out.as<int32_t>() + row * out.dims[1]);
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t Offset(int64_t sample) const {
    const int64_t choices = end_ - begin_ - context_;
    if (random_) return begin_ + static_cast<int64_t>(RandomIndex(seed_, choices, sample));
    return begin_ + (sample % num_samples()) * context_;
  }

  const DataFile file_;
  const int64_t begin_;
  const int64_t end_;
  const int64_t context_;
  const bool random_;
  const uint64_t seed_;
};

// Attributes: path, split, validation_fraction, seed, and optionally vocabulary (bytes at or above it are refused), and
// part and parts: of the bytes to train on the source reads that part of so many.
absl::StatusOr<std::unique_ptr<Source>> OpenTextSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(attributes.String("path")));
  const double fraction = attributes.Double("validation_fraction");
  if (!(fraction >= 0 && fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("validation_fraction ", fraction, " is not in [0, 1)"));
  }
  const int64_t size = file.size();
  const int64_t boundary = size - static_cast<int64_t>(std::floor(static_cast<double>(size) * fraction));
  const int64_t vocabulary = attributes.Int("vocabulary", 256);
  if (vocabulary < 256) {
    OF_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, file.ReadAll());
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [&](uint8_t b) { return b >= vocabulary; });
    if (bad != bytes.end()) {
      return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(file.path()), ": byte ", static_cast<int>(*bad),
                                                     " at offset ", bad - bytes.begin(),
                                                     " is outside the vocabulary of ", vocabulary));
    }
  }
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  const int64_t parts = attributes.Int("parts", 1), part = attributes.Int("part", 0);
  if (part < 0 || part >= parts || parts > std::max<int64_t>(1, size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(DataFileWhere(file.path()), ": ", size, " bytes have no part ", part, " of ", parts));
  }
  const int64_t begin = train ? boundary / parts * part : boundary;
  const int64_t end = train ? (part + 1 == parts ? boundary : boundary / parts * (part + 1)) : size;
  const int64_t context = attributes.Int("context");
  if (context < 1) return absl::InvalidArgumentError(absl::StrCat("text: context ", context, " is not positive"));
  if (end - begin <= context) {
    return absl::InvalidArgumentError(
        absl::StrCat(DataFileWhere(file.path()), ": its part '", attributes.String("split"), "' has ", end - begin,
                     " of the file's ", size, " bytes, but a sample of context ", context, " needs ", context + 1));
  }
  return std::make_unique<TextSource>(std::move(file), begin, end, context, train,
                                      static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace

std::vector<SourceKind> TextSources() { return {{"text", OpenTextSource}}; }

}  // namespace oneflow
