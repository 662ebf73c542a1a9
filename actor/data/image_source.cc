// Labelled images in IDX files (the format of MNIST), plain or gzip-compressed: [n,height,width] or
// [n,channels,height,width], and labels [n].
#include <memory>
#include <vector>

#include "absl/strings/str_join.h"
#include "actor/data/labelled_images.h"

namespace oneflow {
namespace {

struct IdxFile {
  DataFile file;
  std::vector<int64_t> dims;
  int64_t data = 0;  // the beginning
};

// An IDX file of bytes with `least` to `most` dimensions: two zero bytes, type 8, the number of dimensions, their sizes
// (big-endian).
absl::StatusOr<IdxFile> OpenIdx(const std::string& path, int least, int most) {
  OF_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": ", what));
  };
  const auto header_of = [](int dims) { return 4 + 4 * int64_t{dims}; };
  const auto too_short = [&](int64_t header) {
    return error(absl::StrCat("an IDX header has ", header, " bytes, the file ", file.size()));
  };
  if (file.size() < header_of(least)) return too_short(header_of(least));
  std::vector<uint8_t> bytes(4);
  OF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  const int num_dims = bytes[3];
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || num_dims < least || num_dims > most) {
    const std::string dims = least == most ? absl::StrCat(least) : absl::StrCat(least, " or ", most);
    return error(absl::StrCat("begins with bytes ", absl::StrJoin(bytes, " "), ", but an IDX file of bytes in ", dims,
                              " dimensions with 0 0 8 ", dims));
  }
  const int64_t header = header_of(num_dims);
  if (file.size() < header) return too_short(header);
  bytes.resize(header);
  OF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  IdxFile idx;
  uint64_t count = 1;
  for (int i = 0; i < num_dims; ++i) {
    const uint8_t* p = bytes.data() + 4 + 4 * i;
    const uint64_t size = (uint64_t{p[0]} << 24) | (p[1] << 16) | (p[2] << 8) | p[3];
    idx.dims.push_back(static_cast<int64_t>(size));
    if (size != 0 && count > (uint64_t{1} << 48) / size) return error("its dimensions overflow");
    count *= size;
  }
  if (static_cast<uint64_t>(file.size() - header) != count) {
    return error(absl::StrCat("its header says ", absl::StrJoin(idx.dims, "x"), " = ", count, " bytes of data, but ",
                              file.size() - header, " follow"));
  }
  idx.data = header;
  idx.file = std::move(file);
  return idx;
}

// Attributes: images, labels (paths), and those of SourceOfImages().
absl::StatusOr<std::unique_ptr<Source>> OpenImageSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(IdxFile images, OpenIdx(attributes.String("images"), 3, 4));
  OF_ASSIGN_OR_RETURN(const IdxFile labels, OpenIdx(attributes.String("labels"), 1, 1));
  if (images.dims[0] != labels.dims[0] || images.dims[0] == 0) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(images.file.path()), " has ", images.dims[0],
                                                   " images, but ", DataFileWhere(labels.file.path()), " has ",
                                                   labels.dims[0], " labels"));
  }
  LabelledImages all;
  all.channels = images.dims.size() == 4 ? images.dims[1] : 1;
  all.height = images.dims[images.dims.size() - 2];
  all.width = images.dims[images.dims.size() - 1];
  all.files.push_back({std::move(images.file), images.data, all.channels * all.height * all.width, images.dims[0]});
  all.labels.resize(labels.dims[0]);
  OF_RETURN_IF_ERROR(labels.file.ReadAt(labels.data, absl::MakeSpan(all.labels)));
  all.labels_path = labels.file.path();
  return SourceOfImages(std::move(all), attributes);
}

}  // namespace

std::vector<SourceKind> ImageSources() { return {{"images", OpenImageSource}}; }

}  // namespace oneflow
