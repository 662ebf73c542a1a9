#include "actor/checkpoint/weight_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string In(const std::string& folder, absl::string_view file) { return absl::StrCat(folder, "/", file); }

// A file of the folder itself: an index from elsewhere must not lead out of it.
bool IsPlainName(const std::string& file) {
  const bool leads_elsewhere = file.find('/') != std::string::npos || file.find('\0') != std::string::npos;
  return !file.empty() && file != "." && file != ".." && !leads_elsewhere;
}

// By name of a tensor, the file that has it.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("index '", path, "': ", what...));
  };
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed) return error("cannot be read: ", failed.message());
  if (size > kMaxSafetensorsHeader) return error("has ", size, " bytes, more than ", kMaxSafetensorsHeader);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return error("is not a JSON object");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) return error("has no object 'weight_map'");
  if (map->empty()) return error("'weight_map' names no tensor");
  std::map<std::string, std::string> files;
  for (const auto& [name, of] : map->items()) {
    if (!of.is_string()) return error("tensor '", name, "': its file is not a text");
    files[name] = of.get<std::string>();
    if (!IsPlainName(files[name])) return error("tensor '", name, "': '", files[name], "' is no file of the folder");
  }
  return files;
}

}  // namespace

absl::Status WeightFiles::Add(const std::string& path) {
  OF_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(path));
  const int file = static_cast<int>(files_.size());
  files_.push_back(path);
  for (const auto& [name, entry] : reader.tensors()) {
    const auto [known, is_new] = tensors_.emplace(name, Tensor{entry.type, file});
    if (is_new) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' is in '", files_[known->second.file], "' and in '", path, "'"));
  }
  readers_.push_back(std::move(reader));
  return absl::OkStatus();
}

absl::StatusOr<WeightFiles> WeightFiles::OpenFile(const std::string& path) {
  WeightFiles files;
  OF_RETURN_IF_ERROR(files.Add(path));
  return files;
}

bool WeightFiles::IsFolder(const std::string& folder) {
  return Exists(In(folder, kModelFile)) || Exists(In(folder, kModelIndex));
}

absl::StatusOr<WeightFiles> WeightFiles::OpenFolder(const std::string& folder) {
  if (Exists(In(folder, kModelFile))) return OpenFile(In(folder, kModelFile));
  const std::string index = In(folder, kModelIndex);
  if (!Exists(index)) {
    const bool has_pickle =
        Exists(In(folder, "pytorch_model.bin")) || Exists(In(folder, "pytorch_model.bin.index.json"));
    return absl::NotFoundError(absl::StrCat(
        "'", folder,
        "': ", Exists(folder) ? absl::StrCat("has neither ", kModelFile, " nor ", kModelIndex) : "no such folder",
        has_pickle ? "; its pytorch_model.bin is a pickle, of which save_pretrained() makes safetensors" : ""));
  }
  OF_ASSIGN_OR_RETURN(const auto of_tensors, ReadIndex(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : of_tensors) names.insert(file);
  WeightFiles files;
  for (const std::string& name : names)
    OF_RETURN_IF_ERROR_AT(files.Add(In(folder, name)), absl::StrCat("index '", index, "'"));
  for (const auto& [tensor, file] : of_tensors) {
    const auto there = files.tensors_.find(tensor);
    if (there != files.tensors_.end() && files.files_[there->second.file] == In(folder, file)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("index '", index, "': tensor '", tensor, "' is not in '", file, "'"));
  }
  return files;
}

absl::Status WeightFiles::Read(const std::string& name, int64_t first, int64_t num_bytes, void* to) const {
  const SafetensorsReader& reader = readers_[tensors_.at(name).file];
  return reader.Read(reader.tensors().at(name), first, num_bytes, to);
}

}  // namespace oneflow
