// The images of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009), in
// the binary files that they are published in, under their names in one folder:
//
//   cifar10         data_batch_1.bin .. data_batch_5.bin; test_batch.bin    records of: label, 3x32x32 bytes
//   coarse, fine    train.bin; test.bin                                     coarse label, fine label, 3x32x32 bytes
//
// Attributes: folder, labels (as above), and those of SourceOfImages().
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/data/labelled_images.h"
#include "actor/data/sample_range.h"

namespace oneflow {
namespace {

constexpr int64_t kSide = 32, kPixels = 3 * kSide * kSide;

// Adds the images of a file whose records have `num_labels` labels, of which `label` is one. InvalidArgument unless it
// holds whole records.
absl::Status AddFile(const std::string& path, int64_t num_labels, int64_t label, LabelledImages& images) {
  OF_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  const int64_t record = num_labels + kPixels, count = file.size() / record;
  if (count == 0 || file.size() % record != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(DataFileWhere(path), ": has ", file.size(), " bytes, but records have ", record));
  }
  for (int64_t i = 0; i < count; ++i) {
    uint8_t of_image = 0;
    OF_RETURN_IF_ERROR(file.ReadAt(i * record + label, absl::MakeSpan(&of_image, 1)));
    images.labels.push_back(of_image);
  }
  images.files.push_back({std::move(file), num_labels, record, count});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Source>> OpenCifarSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  const std::string labels = attributes.String("labels", "cifar10"), folder = attributes.String("folder");
  if (labels != "cifar10" && labels != "fine" && labels != "coarse") {
    return absl::InvalidArgumentError(absl::StrCat("cifar: labels '", labels, "' are not cifar10, fine or coarse"));
  }
  std::vector<std::string> names;
  if (labels != "cifar10") {
    names = {train ? "train.bin" : "test.bin"};
  } else if (train) {
    for (int i = 1; i <= 5; ++i) names.push_back(absl::StrCat("data_batch_", i, ".bin"));
  } else {
    names = {"test_batch.bin"};
  }
  LabelledImages images = {.channels = 3, .height = kSide, .width = kSide, .labels_path = folder};
  for (const std::string& name : names) {
    OF_RETURN_IF_ERROR(
        AddFile(absl::StrCat(folder, "/", name), labels == "cifar10" ? 1 : 2, labels == "fine" ? 1 : 0, images));
  }
  return SourceOfImages(std::move(images), attributes);
}

}  // namespace

std::vector<SourceKind> CifarSources() { return {{"cifar", OpenCifarSource}}; }

}  // namespace oneflow
