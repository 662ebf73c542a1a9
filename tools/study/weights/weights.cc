#include "tools/study/weights/weights.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/fresh_variables.h"
#include "actor/checkpoint/manifest.h"
#include "oneflow_core/variable_role.h"
#include "tools/study/checkpoint/checkpoint_tools.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::string FileOf(const pb::CheckpointTensor& tensor) {
  std::set<int> pieces;
  for (const pb::CheckpointSlice& slice : tensor.slices()) pieces.insert(slice.piece());
  if (pieces.size() == 1) return PieceName(*pieces.begin());
  return absl::StrCat(pieces.size(), " pieces");
}

}  // namespace

Weights::Weights(WeightFiles files) : from_(std::move(files)) {
  const WeightFiles& opened = std::get<WeightFiles>(from_);
  for (const auto& [name, tensor] : opened.tensors()) {
    tensors_[name] = {tensor.type, fs::path(opened.files()[tensor.file]).filename().string()};
  }
}

Weights::Weights(CheckpointReader checkpoint) : from_(std::move(checkpoint)) {
  for (const pb::CheckpointTensor& tensor : std::get<CheckpointReader>(from_).manifest().tensors()) {
    if (IsOfModel(static_cast<VariableRole>(tensor.role()))) tensors_[tensor.name()] = {TypeOf(tensor), FileOf(tensor)};
  }
}

absl::StatusOr<Weights> Weights::Open(const std::string& path) {
  std::error_code ignored;
  const fs::path name(path);
  const bool is_best = name.filename() == kBestName && ReadBest(fs::absolute(name).parent_path().string()).ok();
  if (!is_best && !fs::is_directory(name, ignored)) {
    OF_ASSIGN_OR_RETURN(WeightFiles file, WeightFiles::OpenFile(path));
    return Weights(std::move(file));
  }
  if (!WeightFiles::IsFolder(path)) {
    const absl::StatusOr<std::string> folder = FindCheckpoint(path);
    if (folder.ok()) {
      OF_ASSIGN_OR_RETURN(CheckpointReader checkpoint, CheckpointReader::Open(*folder));
      return Weights(std::move(checkpoint));
    }
    if (!absl::IsNotFound(folder.status())) return folder.status();
  }
  OF_ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::OpenFolder(path));
  return Weights(std::move(files));
}

std::vector<std::string> Weights::Files() const {
  if (const auto* const files = std::get_if<WeightFiles>(&from_)) return files->files();
  return {std::get<CheckpointReader>(from_).folder()};
}

std::set<std::string> Weights::Fresh() const {
  const auto* const files = std::get_if<WeightFiles>(&from_);
  return files == nullptr ? std::set<std::string>() : FreshVariables(files->metadata());
}

absl::Status Weights::Read(const std::string& name, int64_t num_bytes, char* to) const {
  if (const auto* const files = std::get_if<WeightFiles>(&from_)) return files->Read(name, 0, num_bytes, to);
  const CheckpointReader& checkpoint = std::get<CheckpointReader>(from_);
  const pb::CheckpointTensor& tensor = *checkpoint.Find(name);
  const Box whole = WholeBox({tensor.dims().begin(), tensor.dims().end()});
  if (TypeOf(tensor).num_bytes() == num_bytes) return checkpoint.Read(tensor, whole, to);
  std::vector<char> bytes(static_cast<size_t>(TypeOf(tensor).num_bytes()));
  OF_RETURN_IF_ERROR(checkpoint.Read(tensor, whole, bytes.data()));
  if (num_bytes > 0) std::memcpy(to, bytes.data(), static_cast<size_t>(num_bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<char>> ReadWhole(const Weights& weights, const std::string& name) {
  std::vector<char> bytes(static_cast<size_t>(weights.tensors().at(name).type.num_bytes()));
  OF_RETURN_IF_ERROR_AT(weights.Read(name, static_cast<int64_t>(bytes.size()), bytes.data()),
                        absl::StrCat("tensor '", name, "'"));
  return bytes;
}

}  // namespace oneflow
