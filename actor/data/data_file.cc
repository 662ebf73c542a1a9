#include "actor/data/data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

namespace oneflow {
namespace {

struct Closer {
  int fd;
  ~Closer() { close(fd); }
};

bool IsGzip(absl::Span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

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

std::string DataFileWhere(const std::string& path) { return absl::StrCat("data file '", path, "'"); }

absl::StatusOr<DataFile> DataFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(DataFileWhere(path), ": cannot open: ", std::strerror(errno)));
  }
  const Closer closer{fd};
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": not a regular file"));
  }
  DataFile file;
  file.path_ = path;
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return file;
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": cannot map: ", std::strerror(errno)));
  }
  std::shared_ptr<const void> memory(mapping, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  const absl::Span<const uint8_t> bytes(static_cast<const uint8_t*>(mapping), size);
  if (!IsGzip(bytes)) {
    file.bytes_ = bytes;
    file.memory_ = std::move(memory);
    return file;
  }
  OF_ASSIGN_OR_RETURN_AT(std::vector<uint8_t> inflated, Inflate(bytes), DataFileWhere(path));
  auto owned = std::make_shared<std::vector<uint8_t>>(std::move(inflated));
  file.bytes_ = *owned;
  file.memory_ = std::move(owned);
  return file;
}

}  // namespace oneflow
