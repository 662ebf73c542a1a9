#include "actor/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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

// Owns a descriptor until the end of the scope.
struct File {
  int fd;
  explicit File(int fd) : fd(fd) {}
  File(const File&) = delete;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

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
  std::sort(entries.begin(), entries.end(), [](const Parsed& a, const Parsed& b) { return a.begin < b.begin; });
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
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) {
    return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(Where(path), ": cannot open: ", std::strerror(errno)));
  }
  struct stat info;
  if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(Where(path), ": not a regular file"));
  }
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size < 8)
    return absl::InvalidArgumentError(absl::StrCat(Where(path), ": has ", size, " bytes, a header takes at least 8"));
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED) {
    return absl::InvalidArgumentError(absl::StrCat(Where(path), ": cannot map: ", std::strerror(errno)));
  }
  SafetensorsReader reader;
  reader.mapping_ = std::shared_ptr<const void>(mapped, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  const char* bytes = static_cast<const char*>(mapped);
  uint64_t length = 0;
  std::memcpy(&length, bytes, 8);
  if (length > kMaxHeader || length > size - 8) {
    return absl::InvalidArgumentError(absl::StrCat(Where(path), ": its header claims ", length,
                                                   " bytes, but the file has ", size - 8, " after the length"));
  }
  OF_ASSIGN_OR_RETURN_AT(const std::vector<Parsed> entries, ParseHeader(bytes + 8, length, size - 8 - length),
                         Where(path));
  for (const Parsed& entry : entries) {
    reader.tensors_[entry.name] = {entry.type, bytes + 8 + length + entry.begin};
  }
  return reader;
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path, std::vector<Tensor> tensors) {
  return Map(path, std::move(tensors), /*create=*/true);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Attach(const std::string& path, std::vector<Tensor> tensors) {
  return Map(path, std::move(tensors), /*create=*/false);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Map(const std::string& path, std::vector<Tensor> tensors,
                                                         bool create) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  const std::string header = SafetensorsHeader(tensors);
  uint64_t size = header.size();
  for (const Tensor& tensor : tensors) size += static_cast<uint64_t>(tensor.type.num_bytes());
  const auto error = [&](absl::StatusCode code, absl::string_view what) {
    return absl::Status(code, absl::StrCat(Where(path), ": ", what));
  };
  const File file(open(path.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0644));
  if (file.fd < 0)
    return error(absl::StatusCode::kInvalidArgument, absl::StrCat("cannot write: ", std::strerror(errno)));
  // Blocks are reserved now: a full disk is an error here and not a signal at some later store.
  if (create) {
    if (const int failed = posix_fallocate(file.fd, 0, static_cast<off_t>(size)); failed != 0) {
      return error(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("cannot reserve ", size, " bytes: ", std::strerror(failed)));
    }
  }
  struct stat info;
  if (fstat(file.fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != size) {
    return error(absl::StatusCode::kFailedPrecondition, absl::StrCat("has ", info.st_size, " bytes, expected ", size));
  }
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  if (mapped == MAP_FAILED)
    return error(absl::StatusCode::kResourceExhausted, absl::StrCat("cannot map: ", std::strerror(errno)));
  SafetensorsWriter writer;
  writer.path_ = path;
  writer.size_ = size;
  writer.mapping_ = std::shared_ptr<void>(mapped, [size](void* p) { munmap(p, size); });
  char* const bytes = static_cast<char*>(mapped);
  if (create) {
    std::memcpy(bytes, header.data(), header.size());
  } else if (std::memcmp(bytes, header.data(), header.size()) != 0) {
    return error(absl::StatusCode::kFailedPrecondition, "its header is not the expected one");
  }
  uint64_t offset = header.size();
  for (const Tensor& tensor : tensors) {
    writer.data_[tensor.name] = bytes + offset;
    offset += static_cast<uint64_t>(tensor.type.num_bytes());
  }
  return writer;
}

absl::Status SafetensorsWriter::Close() {
  if (mapping_ != nullptr && msync(mapping_.get(), size_, MS_SYNC) != 0) {
    return absl::UnavailableError(absl::StrCat(Where(path_), ": cannot write: ", std::strerror(errno)));
  }
  mapping_.reset();
  data_.clear();
  return absl::OkStatus();
}

}  // namespace oneflow
