#include "actor/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace oneflow {
namespace {

absl::StatusOr<std::vector<uint8_t>> Inflate(absl::Span<const uint8_t> packed) {
  z_stream stream = {};
  constexpr int kGzipWrapper = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzipWrapper) != Z_OK) return absl::InternalError("zlib does not initialise");
  std::vector<uint8_t> out;
  stream.next_in = const_cast<uint8_t*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  int result = Z_OK;
  while (result == Z_OK) {
    const size_t filled = out.size();
    out.resize(filled + (1 << 20));
    stream.next_out = out.data() + filled;
    stream.avail_out = 1 << 20;
    result = inflate(&stream, Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
  }
  const int64_t offset = static_cast<int64_t>(stream.total_in);
  inflateEnd(&stream);
  if (result != Z_STREAM_END) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gzip stream is damaged or cut off at byte ", offset, " of ", packed.size()));
  }
  return out;
}

}  // namespace

class DataFile::Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { close(fd_); }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

std::string DataFileWhere(const std::string& path) { return absl::StrCat("data file '", path, "'"); }

absl::StatusOr<DataFile> DataFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(DataFileWhere(path), ": cannot open: ", std::strerror(errno)));
  }
  DataFile file;
  file.file_ = std::make_shared<Descriptor>(fd);
  file.path_ = path;
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": not a regular file"));
  }
  file.size_ = info.st_size;
  uint8_t first[2];
  if (file.size_ < 2) return file;
  OF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(first)));
  if (first[0] != 0x1f || first[1] != 0x8b) return file;
  OF_ASSIGN_OR_RETURN(const std::vector<uint8_t> packed, file.ReadAll());
  OF_ASSIGN_OR_RETURN_AT(std::vector<uint8_t> inflated, Inflate(packed), DataFileWhere(path));
  file.size_ = static_cast<int64_t>(inflated.size());
  file.bytes_ = std::make_shared<const std::vector<uint8_t>>(std::move(inflated));
  file.file_.reset();
  return file;
}

absl::Status DataFile::ReadAt(int64_t offset, absl::Span<uint8_t> to) const {
  if (bytes_ != nullptr) {
    std::copy_n(bytes_->data() + offset, to.size(), to.data());
    return absl::OkStatus();
  }
  for (size_t done = 0; done < to.size();) {
    const ssize_t got = pread(file_->fd(), to.data() + done, to.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      done += static_cast<size_t>(got);
      continue;
    }
    const std::string what =
        absl::StrCat(DataFileWhere(path_), ": ", to.size(), " bytes at ", offset, " cannot be read: ");
    if (got < 0) return absl::DataLossError(absl::StrCat(what, std::strerror(errno)));
    return absl::DataLossError(absl::StrCat(what, "it ends at ", offset + static_cast<int64_t>(done), ", but had ",
                                            size_, " bytes when it was opened"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint8_t>> DataFile::ReadAll() const {
  std::vector<uint8_t> bytes(size_);
  OF_RETURN_IF_ERROR(ReadAt(0, absl::MakeSpan(bytes)));
  return bytes;
}

}  // namespace oneflow
