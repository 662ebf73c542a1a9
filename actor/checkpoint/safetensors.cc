#include "actor/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/checkpoint/disk.h"

namespace oneflow {
namespace {

std::string Where(const std::string& path) { return absl::StrCat("weight file '", path, "'"); }

// Closes the descriptor when the last owner is gone.
std::shared_ptr<const int> Own(int fd) {
  return {new int(fd), [](const int* p) {
            if (*p >= 0) close(*p);
            delete p;
          }};
}

// Reads until the file ends; returns the number of bytes, or -1 with errno.
int64_t ReadFully(int fd, void* to, int64_t num_bytes, uint64_t offset) {
  int64_t done = 0;
  while (done < num_bytes) {
    const ssize_t got = pread(fd, static_cast<char*>(to) + done, static_cast<size_t>(num_bytes - done),
                              static_cast<off_t>(offset) + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

// Files that people give by mistake; null if the file begins like none of these.
const char* KnownMistake(absl::string_view begin) {
  if (absl::StartsWith(begin, "version https://git-lfs"))
    return "is a pointer of Git LFS; `git lfs pull` gets the file";
  if (absl::StartsWith(begin, "PK\x03\x04") || absl::StartsWith(begin, "\x80\x02")) {
    return "is a pickle, as torch.save writes it; save the tensors with safetensors.torch.save_file";
  }
  if (absl::StartsWith(begin, "GGUF")) return "is a GGUF file; weights are read from safetensors files";
  if (absl::StartsWith(begin, "{")) return "is JSON, such as the index of a model in several files; name one of those";
  return nullptr;
}

// What is wrong with the file, if anything is: its contents otherwise.
struct Header {
  SafetensorsContents contents;
  uint64_t data_begin = 0;
};

absl::StatusOr<Header> ReadHeader(int fd, uint64_t size) {
  const auto error = [](const auto&... what) { return absl::InvalidArgumentError(absl::StrCat(what...)); };
  uint64_t length = 0;
  if (size < 8 || ReadFully(fd, &length, 8, 0) != 8) return error("has ", size, " bytes, a header takes at least 8");
  if (length > kMaxSafetensorsHeader || length > size - 8) {
    return error("its header claims ", length, " bytes, but the file has ", size - 8, " after the length");
  }
  std::string json(length, '\0');
  if (ReadFully(fd, json.data(), static_cast<int64_t>(length), 8) != static_cast<int64_t>(length)) {
    return error("its header of ", length, " bytes cannot be read");
  }
  Header header;
  header.data_begin = 8 + length;
  OF_ASSIGN_OR_RETURN(header.contents, ParseSafetensorsHeader(json, size - header.data_begin));
  return header;
}

}  // namespace

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(Where(path), ": ", what...));
  };
  SafetensorsReader reader;
  reader.path_ = path;
  reader.fd_ = Own(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int fd = *reader.fd_;
  if (fd < 0) {
    return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(Where(path), ": cannot open: ", std::strerror(errno)));
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return error("cannot look at it: ", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return error("is a folder; name one safetensors file");
  if (!S_ISREG(info.st_mode)) return error("not a regular file");
  char begin[24];
  const int64_t begins = ReadFully(fd, begin, sizeof(begin), 0);
  if (begins < 0) return error("cannot read: ", std::strerror(errno));
  absl::StatusOr<Header> header = ReadHeader(fd, static_cast<uint64_t>(info.st_size));
  if (!header.ok()) {
    // Only now: the length of a good header may be the bytes with which another kind of file begins.
    const char* const mistake = KnownMistake({begin, static_cast<size_t>(begins)});
    return mistake != nullptr ? error(mistake) : Annotate(header.status(), Where(path));
  }
  for (const auto& [name, tensor] : header->contents.tensors) {
    reader.tensors_[name] = {tensor.type, header->data_begin + tensor.begin};
  }
  reader.metadata_ = std::move(header->contents.metadata);
  return reader;
}

absl::Status SafetensorsReader::Read(const Entry& entry, int64_t first, int64_t num_bytes, void* to) const {
  const int64_t got = ReadFully(*fd_, to, num_bytes, entry.offset + static_cast<uint64_t>(first));
  if (got < 0) return absl::UnavailableError(absl::StrCat(Where(path_), ": cannot read: ", std::strerror(errno)));
  if (got == num_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(Where(path_), ": ends at byte ", entry.offset + first + got,
                                          ", though its header says that a tensor lies at ", entry.offset, " to ",
                                          entry.offset + static_cast<uint64_t>(entry.type.num_bytes()),
                                          ": it was cut short while it was read"));
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path, std::vector<Tensor> tensors,
                                                            const std::map<std::string, std::string>& metadata) {
  return OpenFile(path, std::move(tensors), metadata, /*create=*/true);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Attach(const std::string& path, std::vector<Tensor> tensors) {
  return OpenFile(path, std::move(tensors), {}, /*create=*/false);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::OpenFile(const std::string& path, std::vector<Tensor> tensors,
                                                              const std::map<std::string, std::string>& metadata,
                                                              bool create) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  const std::string header = SafetensorsHeader(tensors, metadata);
  SafetensorsWriter writer;
  uint64_t size = header.size();
  for (const Tensor& tensor : tensors) {
    writer.offsets_[tensor.name] = size;
    size += static_cast<uint64_t>(tensor.type.num_bytes());
  }
  const auto error = [&](absl::StatusCode code, absl::string_view what) {
    return absl::Status(code, absl::StrCat(Where(path), ": ", what));
  };
  writer.path_ = path;
  writer.fd_ = Own(open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0644));
  const int fd = *writer.fd_;
  if (fd < 0) return error(absl::StatusCode::kInvalidArgument, absl::StrCat("cannot write: ", std::strerror(errno)));
  if (create) {
    // Blocks are reserved now, so a full disk is noticed before anything is written.
    if (const int failed = posix_fallocate(fd, 0, static_cast<off_t>(size)); failed != 0) {
      return error(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("cannot reserve ", size, " bytes: ", std::strerror(failed)));
    }
    OF_RETURN_IF_ERROR(WriteAt(fd, path, 0, header.data(), static_cast<int64_t>(header.size())));
    return writer;
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != size) {
    return error(absl::StatusCode::kFailedPrecondition, absl::StrCat("has ", info.st_size, " bytes, expected ", size));
  }
  std::string found(header.size(), '\0');
  const int64_t length = static_cast<int64_t>(header.size());
  if (ReadFully(fd, found.data(), length, 0) != length || found != header) {
    return error(absl::StatusCode::kFailedPrecondition, "its header is not the expected one");
  }
  return writer;
}

absl::Status SafetensorsWriter::Write(const std::string& name, int64_t first, const void* from,
                                      int64_t num_bytes) const {
  return WriteAt(*fd_, path_, static_cast<int64_t>(offsets_.at(name)) + first, from, num_bytes);
}

absl::Status SafetensorsWriter::Close() {
  if (fd_ != nullptr && fsync(*fd_) != 0) return DiskError("flush", path_, errno);
  fd_.reset();
  return absl::OkStatus();
}

}  // namespace oneflow
