#include "actor/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace oneflow {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // of a file, and of what comes of it
constexpr uint8_t kMagic[2] = {0x1f, 0x8b};

// The members of a gzip file (RFC 1952), one after the other, as `cat a.gz b.gz` and bgzip make them. Reads the file
// piece by piece, since it may be longer than zlib can count.
class Members {
 public:
  explicit Members(const DataFile& file) : file_(file) {}
  ~Members() { inflateEnd(&stream_); }
  Members(const Members&) = delete;

  absl::StatusOr<std::vector<uint8_t>> Inflate() {
    constexpr int kGzipWrapper = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipWrapper) != Z_OK) return absl::InternalError("zlib does not initialise");
    do {
      OF_RETURN_IF_ERROR(InflateMember());
      if (inflateReset(&stream_) != Z_OK) return absl::InternalError("zlib does not begin anew");
      OF_RETURN_IF_ERROR(SkipZeros());
    } while (position() < file_.size());
    return std::move(out_);
  }

 private:
  // The offset of the next unread byte.
  int64_t position() const { return read_ - static_cast<int64_t>(stream_.avail_in); }

  absl::Status Fill() {
    if (stream_.avail_in > 0 || read_ == file_.size()) return absl::OkStatus();
    piece_.resize(std::min<int64_t>(kPiece, file_.size() - read_));
    OF_RETURN_IF_ERROR(file_.ReadAt(read_, absl::MakeSpan(piece_)));
    read_ += static_cast<int64_t>(piece_.size());
    stream_.next_in = piece_.data();
    stream_.avail_in = static_cast<uInt>(piece_.size());
    return absl::OkStatus();
  }

  absl::Status InflateMember() {
    const int64_t begin = position();
    int result = Z_OK;
    while (result == Z_OK) {
      OF_RETURN_IF_ERROR(Fill());
      const size_t filled = out_.size();
      out_.resize(filled + kPiece);
      stream_.next_out = out_.data() + filled;
      stream_.avail_out = static_cast<uInt>(kPiece);
      result = inflate(&stream_, Z_NO_FLUSH);
      out_.resize(out_.size() - stream_.avail_out);
    }
    if (result == Z_STREAM_END) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the gzip stream is damaged or cut off at byte ", position(), " of ",
                                                   file_.size(), ", in the member that begins at byte ", begin,
                                                   stream_.msg == nullptr ? "" : absl::StrCat(": ", stream_.msg)));
  }

  // Up to the next member or the end of the file. Tapes and block devices fill a last block with zeros.
  absl::Status SkipZeros() {
    bool zeros = false;
    while (true) {
      OF_RETURN_IF_ERROR(Fill());
      if (stream_.avail_in == 0) return absl::OkStatus();
      const uint8_t* const begin = stream_.next_in;
      const uint8_t* const end = begin + stream_.avail_in;
      const bool all = *begin == 0 && std::memcmp(begin, begin + 1, end - begin - 1) == 0;  // quick: there may be many
      const uint8_t* const other = all ? end : std::find_if(begin, end, [](uint8_t byte) { return byte != 0; });
      zeros |= other != begin;
      stream_.next_in += other - begin;
      stream_.avail_in = static_cast<uInt>(end - other);
      if (other != end) break;
    }
    if (!zeros && *stream_.next_in == kMagic[0]) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("behind the last member of the gzip stream byte ", position(),
                                                   " of ", file_.size(),
                                                   " begins neither another one nor zeros up to the end"));
  }

  const DataFile& file_;
  std::vector<uint8_t> piece_;
  int64_t read_ = 0;  // bytes of the file, the piece included
  z_stream stream_ = {};
  std::vector<uint8_t> out_;
};

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

std::string DataFile::Where() const { return absl::StrCat(what_, " '", path_, "'"); }

absl::StatusOr<DataFile> DataFile::Open(const std::string& path, const std::string& what) {
  DataFile file;
  file.path_ = path;
  file.what_ = what;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // does not wait for a pipe's writer
  if (fd < 0) {
    return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(file.Where(), ": cannot open: ", std::strerror(errno)));
  }
  file.file_ = std::make_shared<Descriptor>(fd);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file.Where(), ": not a regular file"));
  }
  file.size_ = info.st_size;
  uint8_t first[sizeof(kMagic)];
  if (file.size_ < static_cast<int64_t>(sizeof(first))) return file;
  OF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(first)));
  if (!std::equal(std::begin(first), std::end(first), std::begin(kMagic))) return file;
  OF_ASSIGN_OR_RETURN_AT(std::vector<uint8_t> inflated, Members(file).Inflate(), file.Where());
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
    const std::string what = absl::StrCat(Where(), ": ", to.size(), " bytes at ", offset, " cannot be read: ");
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
