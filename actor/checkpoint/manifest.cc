#include "actor/checkpoint/manifest.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "actor/checkpoint/box.h"
#include "actor/checkpoint/disk.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kStepPrefix[] = "step-";
constexpr char kWriting[] = ".writing-";
constexpr char kRemoving[] = ".removing";

// The step of a finished checkpoint's name, or -1.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  return absl::ConsumePrefix(&name, kStepPrefix) && absl::SimpleAtoi(name, &step) && step >= 0 ? step : -1;
}

int64_t BytesOf(const pb::CheckpointTensor& tensor, const Box& box) {
  return box.count() * static_cast<int64_t>(SizeOf(static_cast<DType>(tensor.dtype())));
}

absl::Status CheckSlice(const pb::CheckpointManifest& manifest, const pb::CheckpointTensor& tensor,
                        const pb::CheckpointSlice& slice) {
  if (slice.piece() < 0 || slice.piece() >= manifest.pieces_size()) {
    return absl::DataLossError(absl::StrCat("it is in piece ", slice.piece(), " of ", manifest.pieces_size()));
  }
  const pb::CheckpointPiece& piece = manifest.pieces(slice.piece());
  const int64_t bytes = BytesOf(tensor, BoxOf(slice)), room = piece.bytes() - piece.data_begin();
  if (slice.offset() < 0 || slice.offset() > room || bytes > room - slice.offset()) {
    return absl::DataLossError(
        absl::StrCat(bytes, " bytes at ", slice.offset(), " of piece ", slice.piece(), ", which has ", room));
  }
  const int64_t blocks = (bytes + kCheckpointBlock - 1) / kCheckpointBlock;
  if (slice.checksums_size() != blocks) {
    return absl::DataLossError(absl::StrCat(blocks, " blocks with ", slice.checksums_size(), " checksums"));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const pb::CheckpointManifest& manifest, const pb::CheckpointTensor& tensor) {
  if (tensor.dtype() < 0 || tensor.dtype() >= kNumDTypes) {
    return absl::DataLossError(absl::StrCat("its element type is number ", static_cast<int>(tensor.dtype())));
  }
  int64_t count = 1;
  for (const int64_t size : tensor.dims()) {
    if (size < 0 || (size > 0 && count > (int64_t{1} << 58) / size)) {
      return absl::DataLossError(absl::StrCat("it has a dimension of ", size));
    }
    count *= size;
  }
  if (tensor.own() < 0 || (tensor.own() > 0 && (tensor.dims().empty() || tensor.dims(0) != tensor.own()))) {
    return absl::DataLossError(absl::StrCat("it is of ", tensor.own(), " groups of ranks, but of ",
                                            tensor.dims().empty() ? 0 : tensor.dims(0), " in its first dimension"));
  }
  const Box whole = WholeBox({tensor.dims().begin(), tensor.dims().end()});
  std::vector<Box> boxes;
  for (const pb::CheckpointSlice& slice : tensor.slices()) {
    if (slice.start_size() != whole.rank() || slice.extent_size() != whole.rank()) {
      return absl::DataLossError(absl::StrCat("a slice with ", slice.start_size(), " starts and ", slice.extent_size(),
                                              " extents is not in ", whole.ToString()));
    }
    Box box = BoxOf(slice);
    bool inside = true;
    for (int d = 0; inside && d < whole.rank(); ++d) {
      inside = box.start[d] >= 0 && box.extent[d] > 0 && box.extent[d] <= whole.extent[d] - box.start[d];
    }
    if (!inside) return absl::DataLossError(absl::StrCat("slice ", box.ToString(), " is not in ", whole.ToString()));
    OF_RETURN_IF_ERROR_AT(CheckSlice(manifest, tensor, slice), absl::StrCat("slice ", box.ToString()));
    boxes.push_back(std::move(box));
  }
  if (count == 0 ? boxes.empty() : Tile(whole, std::move(boxes))) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("its ", tensor.slices_size(), " slices do not cover ", whole.ToString(), " exactly once"));
}

absl::Status CheckManifest(const pb::CheckpointManifest& manifest) {
  if (manifest.step() < 0) return absl::DataLossError(absl::StrCat("it is of step ", manifest.step()));
  for (int i = 0; i < manifest.pieces_size(); ++i) {
    const pb::CheckpointPiece& piece = manifest.pieces(i);
    if (piece.data_begin() < 0 || piece.bytes() < piece.data_begin()) {
      return absl::DataLossError(
          absl::StrCat("piece ", i, " has ", piece.bytes(), " bytes, its data begins at ", piece.data_begin()));
    }
  }
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const pb::CheckpointTensor& tensor = manifest.tensors(i);
    if (i > 0 && tensor.name() <= manifest.tensors(i - 1).name()) {
      return absl::DataLossError(
          absl::StrCat("tensor '", tensor.name(), "' comes after '", manifest.tensors(i - 1).name(), "'"));
    }
    OF_RETURN_IF_ERROR_AT(CheckTensor(manifest, tensor), absl::StrCat("tensor '", tensor.name(), "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<pb::CheckpointManifest> ParseManifest(const std::string& bytes) {
  pb::CheckpointFile file;
  if (!file.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("its ", bytes.size(), " bytes are no manifest"));
  }
  if (file.version() != kCheckpointVersion) {
    return absl::DataLossError(
        absl::StrCat("its version is ", file.version(), ", this program reads ", kCheckpointVersion));
  }
  const uint64_t checksum = Checksum(file.manifest().data(), file.manifest().size());
  if (checksum != file.checksum()) {
    return absl::DataLossError(
        absl::StrFormat("its checksum is %016x, its content has %016x", file.checksum(), checksum));
  }
  pb::CheckpointManifest manifest;
  if (!manifest.ParseFromString(file.manifest())) return absl::DataLossError("its content does not parse");
  OF_RETURN_IF_ERROR(CheckManifest(manifest));
  return manifest;
}

}  // namespace

std::string CheckpointFolder(const std::string& path, int64_t step) {
  return absl::StrFormat("%s/%s%09d", path, kStepPrefix, step);
}

std::string UnfinishedFolder(const std::string& path, int64_t step, uint64_t attempt) {
  return absl::StrFormat("%s%s%x", CheckpointFolder(path, step), kWriting, attempt);
}

std::string PieceName(int process) { return absl::StrFormat("piece-%05d.safetensors", process); }
std::string PartName(int process) { return absl::StrFormat("piece-%05d.part", process); }

absl::StatusOr<std::vector<int64_t>> ListCheckpoints(const std::string& path) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (const int64_t step = StepOf(it->path().filename().string()); step >= 0) steps.push_back(step);
  }
  if (error && error != std::errc::no_such_file_or_directory) return DiskError("list", path, error.value());
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::StatusOr<int64_t> ReadBest(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kBestName);
  std::ifstream in(file);
  if (!in) {
    if (errno == ENOENT || errno == ENOTDIR) return -1;
    return DiskError("open", file, errno);
  }
  std::string name;
  std::getline(in, name);
  const int64_t step = StepOf(name);
  if (step >= 0) return step;
  return absl::DataLossError(absl::StrCat("'", file, "': '", absl::CHexEscape(name), "' is no name of a checkpoint"));
}

absl::Status WriteBest(const std::string& path, int64_t step) {
  const std::string file = absl::StrCat(path, "/", kBestName);
  if (step < 0) {
    std::error_code error;
    fs::remove(file, error);
    return error ? DiskError("remove", file, error.value()) : absl::OkStatus();
  }
  const std::string unfinished = absl::StrCat(file, kWriting);
  OF_RETURN_IF_ERROR(WriteWholeFile(unfinished, absl::StrFormat("%s%09d\n", kStepPrefix, step)));
  return Rename(unfinished, file);
}

absl::StatusOr<pb::CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    if (error != ENOENT) return DiskError("open", path, error);
    return absl::NotFoundError(absl::StrCat("'", path, "': there is no such file"));
  }
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  OF_ASSIGN_OR_RETURN_AT(pb::CheckpointManifest manifest, ParseManifest(bytes), absl::StrCat("'", path, "'"));
  return manifest;
}

absl::Status AddParts(const std::vector<pb::CheckpointPart>& parts, pb::CheckpointManifest& manifest) {
  std::map<std::string, pb::CheckpointTensor> tensors;
  for (const pb::CheckpointPart& part : parts) {
    for (const pb::CheckpointTensor& tensor : part.tensors()) {
      pb::CheckpointTensor& all = tensors[tensor.name()];
      const int before = all.slices_size();
      if (before == 0) {
        all = tensor;
      } else {
        all.mutable_slices()->MergeFrom(tensor.slices());
      }
      for (int i = before; i < all.slices_size(); ++i) all.mutable_slices(i)->set_piece(manifest.pieces_size());
    }
    *manifest.add_pieces() = part.piece();
  }
  for (auto& [name, tensor] : tensors) *manifest.add_tensors() = std::move(tensor);
  return CheckManifest(manifest);
}

absl::Status AmendManifest(const std::string& folder, const pb::CheckpointManifest& manifest) {
  pb::CheckpointFile file;
  file.set_version(kCheckpointVersion);
  file.set_manifest(manifest.SerializeAsString());
  file.set_checksum(Checksum(file.manifest().data(), file.manifest().size()));
  return WriteWholeFile(absl::StrCat(folder, "/", kManifestName), file.SerializeAsString());
}

absl::Status CommitCheckpoint(const std::string& unfinished, const std::string& folder,
                              const pb::CheckpointManifest& manifest) {
  OF_RETURN_IF_ERROR(AmendManifest(unfinished, manifest));
  for (int i = 0; i < manifest.pieces_size(); ++i) unlink(absl::StrCat(unfinished, "/", PartName(i)).c_str());
  if (std::error_code ignored; fs::exists(folder, ignored)) OF_RETURN_IF_ERROR(RemoveCheckpoint(folder));
  return Rename(unfinished, folder);
}

absl::Status RemoveCheckpoint(const std::string& folder) {
  const std::string removing = absl::StrCat(folder, kRemoving);
  OF_RETURN_IF_ERROR(RemoveFolder(removing));
  OF_RETURN_IF_ERROR(Rename(folder, removing));
  return RemoveFolder(removing);
}

absl::Status RemoveUnfinished(const std::string& path, uint64_t attempt) {
  std::vector<std::string> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool ours = absl::EndsWith(name, absl::StrFormat("%s%x", kWriting, attempt));
    if (absl::StartsWith(name, kStepPrefix) &&
        (absl::EndsWith(name, kRemoving) || (absl::StrContains(name, kWriting) && !ours))) {
      leftovers.push_back(it->path().string());
    }
  }
  for (const std::string& folder : leftovers) OF_RETURN_IF_ERROR(RemoveFolder(folder));
  return absl::OkStatus();
}

TensorType TypeOf(const pb::CheckpointTensor& tensor) {
  return {static_cast<DType>(tensor.dtype()), Shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()))};
}

}  // namespace oneflow
