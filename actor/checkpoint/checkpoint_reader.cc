#include "actor/checkpoint/checkpoint_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checksum.h"

namespace oneflow {

struct CheckpointReader::File {
  File(std::string name, int number) : path(std::move(name)), fd(number) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  absl::Status ReadAt(int64_t offset, int64_t num_bytes, char* to) const {
    while (num_bytes > 0) {
      const ssize_t got = pread(fd, to, static_cast<size_t>(num_bytes), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        return absl::DataLossError(absl::StrCat("'", path, "': cannot read ", num_bytes, " bytes at ", offset, ": ",
                                                got < 0 ? std::strerror(errno) : "the file ends there"));
      }
      to += got;
      offset += got;
      num_bytes -= got;
    }
    return absl::OkStatus();
  }

  const std::string path;
  const int fd;
};

// The blocks of one slice, one at a time, each checked when it is read.
class CheckpointReader::Blocks {
 public:
  Blocks(const CheckpointReader& reader, const pb::CheckpointSlice& slice, int64_t num_bytes)
      : file_(*reader.files_[slice.piece()]),
        slice_(slice),
        begin_(reader.manifest_.pieces(slice.piece()).data_begin() + slice.offset()),
        num_bytes_(num_bytes) {}

  // Bytes [offset, offset + num_bytes) of the slice.
  absl::Status Copy(int64_t offset, int64_t num_bytes, char* to) {
    while (num_bytes > 0) {
      OF_RETURN_IF_ERROR(Get(offset / kCheckpointBlock));
      const int64_t within = offset % kCheckpointBlock;
      const int64_t length = std::min(num_bytes, kCheckpointBlock - within);
      std::memcpy(to, block_.data() + within, static_cast<size_t>(length));
      to += length;
      offset += length;
      num_bytes -= length;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Get(int64_t number) {
    if (number == number_) return absl::OkStatus();
    const int64_t offset = number * kCheckpointBlock;
    block_.resize(static_cast<size_t>(std::min(kCheckpointBlock, num_bytes_ - offset)));
    number_ = -1;
    OF_RETURN_IF_ERROR(file_.ReadAt(begin_ + offset, static_cast<int64_t>(block_.size()), block_.data()));
    const uint64_t checksum = Checksum(block_.data(), block_.size());
    if (checksum != slice_.checksums(static_cast<int>(number))) {
      return absl::DataLossError(absl::StrFormat("'%s': the checksum of %d bytes at %d is %016x, %016x was written",
                                                 file_.path, block_.size(), begin_ + offset, checksum,
                                                 slice_.checksums(static_cast<int>(number))));
    }
    number_ = number;
    return absl::OkStatus();
  }

  const File& file_;
  const pb::CheckpointSlice& slice_;
  const int64_t begin_, num_bytes_;
  int64_t number_ = -1;  // of the current block
  std::vector<char> block_;
};

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& folder) {
  CheckpointReader reader;
  reader.folder_ = folder;
  OF_ASSIGN_OR_RETURN(reader.manifest_, ReadManifest(folder));
  for (int piece = 0; piece < reader.manifest_.pieces_size(); ++piece) OF_RETURN_IF_ERROR(reader.OpenPiece(piece));
  return reader;
}

absl::Status CheckpointReader::OpenPiece(int piece) {
  const pb::CheckpointPiece& wanted = manifest_.pieces(piece);
  const std::string path = absl::StrCat(folder_, "/", PieceName(piece));
  auto file = std::make_shared<const File>(path, open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file->fd < 0) return absl::DataLossError(absl::StrCat("'", path, "': cannot open: ", std::strerror(errno)));
  struct stat info;
  if (fstat(file->fd, &info) != 0 || info.st_size != wanted.bytes()) {
    return absl::DataLossError(
        absl::StrCat("'", path, "': has ", info.st_size, " bytes, ", wanted.bytes(), " were written"));
  }
  std::vector<char> header(static_cast<size_t>(wanted.data_begin()));
  OF_RETURN_IF_ERROR(file->ReadAt(0, wanted.data_begin(), header.data()));
  if (const uint64_t checksum = Checksum(header.data(), header.size()); checksum != wanted.header_checksum()) {
    return absl::DataLossError(absl::StrFormat("'%s': the checksum of its header is %016x, %016x was written", path,
                                               checksum, wanted.header_checksum()));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

const pb::CheckpointTensor* CheckpointReader::Find(const std::string& name) const {
  const auto& tensors = manifest_.tensors();
  const auto it = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const pb::CheckpointTensor& tensor, const std::string& wanted) { return tensor.name() < wanted; });
  return it != tensors.end() && it->name() == name ? &*it : nullptr;
}

absl::Status CheckpointReader::Read(const pb::CheckpointTensor& tensor, const Box& box, char* to) const {
  const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(tensor.dtype())));
  for (const pb::CheckpointSlice& slice : tensor.slices()) {
    const Box from = BoxOf(slice);
    Blocks blocks(*this, slice, from.count() * size);
    absl::Status status;
    ForEachCommonRun(from, box, [&](int64_t there, int64_t here, int64_t length) {
      if (status.ok()) status = blocks.Copy(there * size, length * size, to + here * size);
    });
    OF_RETURN_IF_ERROR_AT(status, absl::StrCat("tensor '", tensor.name(), "' ", from.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
