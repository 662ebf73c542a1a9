#include "tools/study/checkpoint/checkpoint_tools.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "actor/checkpoint/box.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/output_file.h"
#include "oneflow_core/variable_role.h"
#include "tools/study/checkpoint/tensor_difference.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool IsCheckpoint(const std::string& folder) { return Exists(absl::StrCat(folder, "/", kManifestName)); }

// Folders of checkpoints, by ascending steps.
absl::StatusOr<std::vector<std::string>> FoldersOf(const std::string& name) {
  if (IsCheckpoint(name)) return std::vector<std::string>{name};
  std::error_code ignored;
  const fs::path file(name);
  if (file.filename() == kBestName && fs::is_regular_file(file, ignored)) {
    const std::string path = file.has_parent_path() ? file.parent_path().string() : ".";
    OF_ASSIGN_OR_RETURN(const int64_t step, ReadBest(path));
    const std::string best = CheckpointFolder(path, step);
    if (IsCheckpoint(best)) return std::vector<std::string>{best};
    return absl::NotFoundError(absl::StrCat("'", name, "' names '", best, "', and there is no such checkpoint"));
  }
  if (fs::is_regular_file(file, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is a file, and a checkpoint is a folder; `oneflow ",
                                                   "checkpoint convert` makes one of a safetensors file"));
  }
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(name));
  if (steps.empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", name, "': ", Exists(name) ? "there is no checkpoint" : "no such folder"));
  }
  std::vector<std::string> folders;
  for (const int64_t step : steps) folders.push_back(CheckpointFolder(name, step));
  return folders;
}

absl::StatusOr<CheckpointReader> OpenLast(const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOf(name));
  return CheckpointReader::Open(folders.back());
}

Box WholeOf(const pb::CheckpointTensor& tensor) { return WholeBox({tensor.dims().begin(), tensor.dims().end()}); }

// All of a tensor, checked.
absl::StatusOr<std::vector<char>> ReadAll(const CheckpointReader& reader, const pb::CheckpointTensor& tensor) {
  std::vector<char> bytes(static_cast<size_t>(TypeOf(tensor).num_bytes()));
  OF_RETURN_IF_ERROR(reader.Read(tensor, WholeOf(tensor), bytes.data()));
  return bytes;
}

int64_t BytesOf(const pb::CheckpointManifest& manifest) {
  int64_t bytes = 0;
  for (const pb::CheckpointPiece& piece : manifest.pieces()) bytes += piece.bytes();
  return bytes;
}

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.1f MB", static_cast<double>(bytes) * 1e-6); }

// What the manifest says of training, for the end of a line.
std::string TrainingText(const pb::TrainingState& training, bool is_best) {
  std::string text;
  if (is_best) absl::StrAppendFormat(&text, "; best: validation loss %.4f", training.best_loss());
  if (!training.ended().empty()) absl::StrAppend(&text, "; ended: ", training.ended());
  return text;
}

std::string ListLine(const std::string& folder, int64_t best) {
  const std::string name = fs::path(folder).filename().string();
  const absl::StatusOr<pb::CheckpointManifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return absl::StrFormat("%-20s damaged: %s\n", name, manifest.status().message());
  const std::string when =
      absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(manifest->saved_us()), absl::LocalTimeZone());
  return absl::StrFormat("%-20s %9d  %-19s  %10s  %7d  %6d  %-16s  %s%s\n", name, manifest->step(), when,
                         Megabytes(BytesOf(*manifest)), manifest->tensors_size(), manifest->pieces_size(),
                         manifest->job(), manifest->layout(),
                         TrainingText(manifest->training(), manifest->step() == best));
}

absl::StatusOr<std::string> VerifyOne(const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(folder));
  for (const pb::CheckpointTensor& tensor : reader.manifest().tensors()) {
    OF_RETURN_IF_ERROR(ReadAll(reader, tensor).status());
  }
  return absl::StrCat(folder, ": good, ", reader.manifest().tensors_size(), " tensors, ",
                      Megabytes(BytesOf(reader.manifest())));
}

absl::Status ToSafetensors(const std::string& from, const std::string& to, bool all) {
  OF_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenLast(from));
  std::vector<SafetensorsWriter::Tensor> tensors;
  for (const pb::CheckpointTensor& tensor : reader.manifest().tensors()) {
    if (all || IsOfModel(static_cast<VariableRole>(tensor.role()))) tensors.push_back({tensor.name(), TypeOf(tensor)});
  }
  if (tensors.empty()) return absl::NotFoundError(absl::StrCat("'", reader.folder(), "' has no weights"));
  OF_ASSIGN_OR_RETURN(const std::string target, FileToReplace(to));
  const std::string partial = absl::StrCat(target, ".partial");
  OF_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(partial, tensors));
  for (const SafetensorsWriter::Tensor& out : tensors) {
    const pb::CheckpointTensor& tensor = *reader.Find(out.name);
    OF_ASSIGN_OR_RETURN(const std::vector<char> bytes, ReadAll(reader, tensor));
    OF_RETURN_IF_ERROR(writer.Write(out.name, 0, bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  OF_RETURN_IF_ERROR(writer.Close());
  return ReplaceFileBy(partial, target);
}

absl::Status FromSafetensors(const std::string& from, const std::string& to, int64_t step) {
  OF_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(from));
  OwnedState state;
  for (const auto& [name, entry] : reader.tensors()) {
    if (!entry.type.dtype.ours().has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("'", from, "': tensor '", name, "' is ", entry.type.ToString(),
                                                     ", of a type that no tensor of a job has"));
    }
    pb::CheckpointTensor& tensor = state.tensors.emplace_back();
    tensor.set_name(name);
    tensor.set_dtype(static_cast<pb::DType>(*entry.type.dtype.ours()));
    tensor.set_role(pb::WEIGHT);
    tensor.mutable_dims()->Assign(entry.type.shape.dims().begin(), entry.type.shape.dims().end());
    if (entry.type.shape.count() == 0) continue;
    pb::CheckpointSlice& slice = *tensor.add_slices();
    slice.mutable_start()->Resize(entry.type.shape.rank(), 0);
    *slice.mutable_extent() = tensor.dims();
    slice.set_offset(state.num_bytes);
    state.num_bytes += entry.type.num_bytes();
  }
  absl::Status written;
  CheckpointWriter::Options options{.path = to, .attempt = std::random_device()()};
  options.on_done = [&written](int64_t, const absl::Status& status) { written = status; };
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointWriter> writer,
                      CheckpointWriter::Create(std::move(options), std::move(state)));
  pb::CheckpointManifest head;
  head.set_job(fs::path(from).filename().string());
  head.set_step(step);
  head.set_layout("a safetensors file");
  OF_RETURN_IF_ERROR(writer->Start(std::move(head), [&reader](char* bytes) -> absl::Status {
    for (const auto& [name, entry] : reader.tensors()) {
      OF_RETURN_IF_ERROR(reader.Read(entry, 0, entry.type.num_bytes(), bytes));
      bytes += entry.type.num_bytes();
    }
    return absl::OkStatus();
  }));
  writer->Wait();
  return written;
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOf(name));
  absl::Status damage;
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const absl::Status read = ReadManifest(*folder).status();
    if (read.ok()) return *folder;
    damage.Update(read);
  }
  return absl::DataLossError(absl::StrCat("no checkpoint is good; the last: ", damage.message()));
}

absl::StatusOr<std::string> ListText(const std::string& name) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOf(name));
  std::string text = absl::StrFormat("%-20s %9s  %-19s  %10s  %7s  %6s  %-16s  %s\n", "checkpoint", "step", "saved",
                                     "size", "tensors", "pieces", "job", "layout");
  const absl::StatusOr<int64_t> best = ReadBest(fs::path(folders[0]).parent_path().string());
  for (const std::string& folder : folders) absl::StrAppend(&text, ListLine(folder, best.ok() ? *best : -1));
  if (!best.ok()) absl::StrAppend(&text, best.status().message(), "\n");
  return text;
}

absl::Status VerifyCheckpoints(const std::string& name, const std::function<void(const std::string&)>& on_checked) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOf(name));
  int damaged = 0;
  for (const std::string& folder : folders) {
    const absl::StatusOr<std::string> good = VerifyOne(folder);
    damaged += !good.ok();
    on_checked(good.ok() ? *good : absl::StrCat(folder, ": damaged: ", good.status().message()));
  }
  if (damaged == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(damaged, " of ", folders.size(), " checkpoints ", damaged == 1 ? "is damaged" : "are damaged"));
}

absl::StatusOr<std::string> DiffText(const std::string& a, const std::string& b) {
  OF_ASSIGN_OR_RETURN(const CheckpointReader first, OpenLast(a));
  OF_ASSIGN_OR_RETURN(const CheckpointReader second, OpenLast(b));
  std::string text;
  for (const pb::CheckpointTensor& tensor : first.manifest().tensors()) {
    const pb::CheckpointTensor* const other = second.Find(tensor.name());
    std::string what;
    if (other == nullptr) {
      what = absl::StrCat("only in '", first.folder(), "'");
    } else if (TypeOf(*other) != TypeOf(tensor)) {
      what = absl::StrCat(TypeOf(tensor).ToString(), " and ", TypeOf(*other).ToString());
    } else {
      OF_ASSIGN_OR_RETURN(const std::vector<char> x, ReadAll(first, tensor));
      OF_ASSIGN_OR_RETURN(const std::vector<char> y, ReadAll(second, *other));
      what = TensorDifference(TypeOf(tensor), x.data(), TypeOf(*other), y.data());
    }
    if (!what.empty()) absl::StrAppend(&text, tensor.name(), ": ", what, "\n");
  }
  for (const pb::CheckpointTensor& tensor : second.manifest().tensors()) {
    if (first.Find(tensor.name()) == nullptr) {
      absl::StrAppend(&text, tensor.name(), ": only in '", second.folder(), "'\n");
    }
  }
  return text;
}

absl::Status ConvertCheckpoint(const std::string& from, const std::string& to, bool all, int64_t step) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(from, ignored);
  const std::string target = is_folder ? to : CheckpointFolder(to, step);
  if (Exists(target)) return absl::AlreadyExistsError(absl::StrCat("'", target, "' exists already"));
  return is_folder ? ToSafetensors(from, to, all) : FromSafetensors(from, to, step);
}

}  // namespace oneflow
