#include "actor/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

using Json = nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr int64_t kMostElements = int64_t{1} << 58;  // whose bytes an int64 counts, whatever their type

std::string Quote(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// One entry of the header, and [begin, end) of its data.
struct Parsed {
  std::string name;
  StoredType type;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Shape> ParseShape(const Json& json) {
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (const Json& size : json) {
    if (!size.is_number_unsigned()) return absl::InvalidArgumentError("'shape' holds something that is no size");
    const uint64_t n = size.get<uint64_t>();
    if (n > static_cast<uint64_t>(INT64_MAX) || (n != 0 && static_cast<uint64_t>(count) > kMostElements / n)) {
      return absl::InvalidArgumentError("its shape overflows");
    }
    count *= static_cast<int64_t>(n);
    dims.push_back(static_cast<int64_t>(n));
  }
  return Shape(std::move(dims));
}

absl::StatusOr<StoredType> ParseType(const Json& dtype, const Json& shape) {
  const std::string name = dtype.get<std::string>();
  const std::optional<StoredDType> known = StoredDType::Find(name);
  if (!known.has_value()) return absl::InvalidArgumentError(absl::StrCat("dtype '", name, "' is not supported"));
  OF_ASSIGN_OR_RETURN(Shape dims, ParseShape(shape));
  const int bits = known->bits();
  if (bits % 8 != 0 && dims.count() * bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(dims.count(), " elements of ", bits, " bits do not end on a whole byte"));
  }
  return StoredType(*known, std::move(dims));
}

absl::StatusOr<Parsed> ParseEntry(const std::string& name, const Json& json) {
  const auto error = [&](absl::string_view what) {
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
  Parsed parsed;
  parsed.name = name;
  OF_ASSIGN_OR_RETURN_AT(parsed.type, ParseType(*dtype, *shape), absl::StrCat("tensor '", name, "'"));
  parsed.begin = (*offsets)[0].get<uint64_t>();
  parsed.end = (*offsets)[1].get<uint64_t>();
  const uint64_t wanted = static_cast<uint64_t>(parsed.type.num_bytes());
  if (parsed.end < parsed.begin || parsed.end - parsed.begin != wanted) {
    return error(absl::StrCat(parsed.type.ToString(), " takes ", wanted, " bytes, but data_offsets are [", parsed.begin,
                              ", ", parsed.end, "]"));
  }
  return parsed;
}

absl::StatusOr<std::map<std::string, std::string>> ParseMetadata(const Json& json) {
  std::map<std::string, std::string> metadata;
  if (json.is_null()) return metadata;
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat("'", kMetadata, "' is not an object"));
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("'", kMetadata, "': '", key, "' is not a text"));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Whether the tensors follow one another and fill the data. Those without elements come before their neighbour.
absl::Status CheckPlaces(std::vector<Parsed>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Parsed& a, const Parsed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t position = 0;
  for (const Parsed& entry : entries) {
    if (entry.begin != position) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "': its data begins at ", entry.begin,
                                                     ", but that of the tensors before it ends at ", position));
    }
    position = entry.end;
  }
  if (position == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its tensors take ", position, " bytes, but ", data_bytes, " follow the header"));
}

}  // namespace

absl::StatusOr<SafetensorsContents> ParseSafetensorsHeader(absl::string_view json, uint64_t data_bytes) {
  // The parser would skip the mark of UTF-8 and end at a zero, behind which another parser may read something else.
  const bool is_plain = !absl::StartsWith(json, "\xef\xbb\xbf") && json.find('\0') == absl::string_view::npos;
  const Json parsed = is_plain ? Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false)
                               : Json(Json::value_t::discarded);
  if (!parsed.is_object()) return absl::InvalidArgumentError("its header is not a JSON object");
  SafetensorsContents contents;
  std::vector<Parsed> entries;
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadata) {
      OF_ASSIGN_OR_RETURN(contents.metadata, ParseMetadata(value));
      continue;
    }
    OF_ASSIGN_OR_RETURN(Parsed entry, ParseEntry(name, value));
    entries.push_back(std::move(entry));
  }
  OF_RETURN_IF_ERROR(CheckPlaces(entries, data_bytes));
  for (Parsed& entry : entries) contents.tensors[entry.name] = {std::move(entry.type), entry.begin};
  return contents;
}

std::string SafetensorsHeader(const std::vector<SafetensorsItem>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  for (const auto& [key, value] : metadata) {
    absl::StrAppend(&json, json.size() > 1 ? "," : absl::StrCat("\"", kMetadata, "\":{"), Quote(key), ":",
                    Quote(value));
  }
  if (!metadata.empty()) json += "}";
  uint64_t offset = 0;
  for (const SafetensorsItem& tensor : tensors) {
    const uint64_t end = offset + static_cast<uint64_t>(tensor.type.num_bytes());
    absl::StrAppend(&json, json.size() > 1 ? "," : "", Quote(tensor.name), ":{\"dtype\":\"",
                    StoredDType(tensor.type.dtype).name(), "\",\"shape\":", tensor.type.shape.ToString(),
                    ",\"data_offsets\":[", offset, ",", end, "]}");
    offset = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of eight
  std::string header(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(header.data(), &length, 8);  // little-endian, as this project's machines are
  return header + json;
}

}  // namespace oneflow
