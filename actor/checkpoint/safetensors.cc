#include "actor/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "actor/checkpoint/disk.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

using Json = nlohmann::json;

// The format's own limit, so that a damaged length cannot make us parse gigabytes.
constexpr uint64_t kMaxHeader = 100'000'000;

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::kFloat32, "F32"}, {DType::kBFloat16, "BF16"}, {DType::kFloat16, "F16"}, {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},   {DType::kUInt8, "U8"},      {DType::kBool, "BOOL"}};

const char* FormatName(DType dtype) {
  return std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return n.first == dtype; })->second;
}

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

std::string Quote(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// One entry of the header, and [begin, end) of its data.
struct Parsed {
  std::string name;
  TensorType type;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Parsed> ParseEntry(const std::string& name, const Json& json) {
  Parsed parsed;
  parsed.name = name;
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': ", what));
  };
  if (!json.is_object()) return error("its header entry is not an object");
  const auto dtype = json.find("dtype"), shape = json.find("shape"), offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string()) return error("no string 'dtype'");
  if (shape == json.end() || !shape->is_array()) return error("no list 'shape'");
  if (offsets == json.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return error("'data_offsets' is not a pair of numbers");
  }
  const std::string dtype_name = dtype->get<std::string>();
  const auto known =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return dtype_name == n.second; });
  if (known == std::end(kNames)) return error(absl::StrCat("dtype '", dtype_name, "' is not supported"));
  parsed.type.dtype = known->first;
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (const Json& size : *shape) {
    if (!size.is_number_unsigned()) return error("'shape' holds something that is no size");
    const uint64_t n = size.get<uint64_t>();
    if (n != 0 && static_cast<uint64_t>(count) > (uint64_t{1} << 58) / n) return error("its shape overflows");
    count *= static_cast<int64_t>(n);
    dims.push_back(static_cast<int64_t>(n));
  }
  parsed.type.shape = Shape(std::move(dims));
  parsed.begin = (*offsets)[0].get<uint64_t>();
  parsed.end = (*offsets)[1].get<uint64_t>();
  const uint64_t wanted = static_cast<uint64_t>(parsed.type.num_bytes());
  if (parsed.end < parsed.begin || parsed.end - parsed.begin != wanted) {
    return error(absl::StrCat(parsed.type.ToString(), " takes ", wanted, " bytes, but data_offsets are [", parsed.begin,
                              ", ", parsed.end, "]"));
  }
  return parsed;
}

absl::StatusOr<std::vector<Parsed>> ParseHeader(const char* text, uint64_t length, uint64_t data_bytes) {
  const Json json = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return absl::InvalidArgumentError("its header is not a JSON object");
  std::vector<Parsed> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    OF_ASSIGN_OR_RETURN(Parsed entry, ParseEntry(name, value));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Parsed& a, const Parsed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);  // empty ones come before their neighbour
  });
  uint64_t position = 0;
  for (const Parsed& entry : entries) {
    if (entry.begin != position) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "': its data begins at ", entry.begin,
                                                     ", but that of the tensors before it ends at ", position));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its tensors take ", position, " bytes, but ", data_bytes, " follow the header"));
  }
  return entries;
}

}  // namespace

std::string SafetensorsHeader(const std::vector<SafetensorsWriter::Tensor>& tensors) {
  std::string json = "{";
  uint64_t offset = 0;
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    const uint64_t end = offset + static_cast<uint64_t>(tensor.type.num_bytes());
    absl::StrAppend(&json, json.size() > 1 ? "," : "", Quote(tensor.name), ":{\"dtype\":\"",
                    FormatName(tensor.type.dtype), "\",\"shape\":", tensor.type.shape.ToString(), ",\"data_offsets\":[",
                    offset, ",", end, "]}");
    offset = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of eight
  std::string header(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(header.data(), &length, 8);  // little-endian, as this project's machines are
  return header + json;
}

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
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  char begin[24];
  const int64_t begins = ReadFully(fd, begin, sizeof(begin), 0);
  if (begins < 0) return error("cannot read: ", std::strerror(errno));
  if (const char* mistake = KnownMistake({begin, static_cast<size_t>(begins)})) return error(mistake);
  if (size < 8 || begins < 8) return error("has ", size, " bytes, a header takes at least 8");
  uint64_t length = 0;
  std::memcpy(&length, begin, 8);
  if (length > kMaxHeader || length > size - 8) {
    return error("its header claims ", length, " bytes, but the file has ", size - 8, " after the length");
  }
  std::string header(length, '\0');
  if (ReadFully(fd, header.data(), static_cast<int64_t>(length), 8) != static_cast<int64_t>(length)) {
    return error("its header of ", length, " bytes cannot be read");
  }
  OF_ASSIGN_OR_RETURN_AT(const std::vector<Parsed> entries, ParseHeader(header.data(), length, size - 8 - length),
                         Where(path));
  for (const Parsed& entry : entries) reader.tensors_[entry.name] = {entry.type, 8 + length + entry.begin};
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

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path, std::vector<Tensor> tensors) {
  return OpenFile(path, std::move(tensors), /*create=*/true);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Attach(const std::string& path, std::vector<Tensor> tensors) {
  return OpenFile(path, std::move(tensors), /*create=*/false);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::OpenFile(const std::string& path, std::vector<Tensor> tensors,
                                                              bool create) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  const std::string header = SafetensorsHeader(tensors);
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
