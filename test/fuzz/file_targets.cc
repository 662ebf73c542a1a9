#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/checkpoint/weight_files.h"
#include "actor/checksum.h"
#include "actor/trace/chrome_trace.h"
#include "actor/trace/trace_part.h"
#include "glog/logging.h"
#include "test/fuzz/target.h"
#include "test/support/test_dir.h"

namespace oneflow::testing {
namespace {

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A folder in memory, gone at the end of the process.
const TestDir& Folder() {
  static const TestDir dir("/dev/shm");
  return dir;
}

std::string Written(absl::string_view input, const std::string& name) {
  const std::string path = Folder().File(name);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << input;
  return path;
}

// All that is said to be there is there.
void RunSafetensors(absl::string_view input) {
  const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(Written(input, "weights.safetensors"));
  if (!reader.ok()) return;
  uint64_t sum = 0;
  for (const auto& [name, entry] : reader->tensors()) {
    std::vector<char> bytes(entry.type.num_bytes());
    CHECK(reader->Read(entry, 0, entry.type.num_bytes(), bytes.data()).ok()) << name;
    sum += Checksum(bytes.data(), bytes.size());
  }
  CHECK(sum != 1);  // so that it is read
}

// A header of the length that the file says, whatever it is: a mutation of the JSON alone gets no further than that.
std::string WithLength(absl::string_view json, absl::string_view data) {
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  return absl::StrCat(bytes, json, data);
}

// An index beside a file of one tensor, which it may or may not name.
void RunIndex(absl::string_view input) {
  const std::string json = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::filesystem::create_directory(Folder().File("indexed"));
  Written(WithLength(json, "0123"), "indexed/shard");
  Written(input, absl::StrCat("indexed/", kModelIndex));
  const absl::StatusOr<WeightFiles> files = WeightFiles::OpenFolder(Folder().File("indexed"));
  if (!files.ok()) return;
  char bytes[4];
  CHECK(files->Read("a", 0, sizeof(bytes), bytes).ok()) << "the only tensor that any file has";
}

// One process' state of two tensors, saved.
std::string SaveCheckpoint() {
  const std::string path = Folder().File("checkpoints");
  OwnedState state;
  for (const char* const name : {"bias", "weight"}) {
    pb::CheckpointTensor& tensor = state.tensors.emplace_back();
    tensor.set_name(name);
    tensor.set_dtype(pb::F32);
    tensor.add_dims(4);
    pb::CheckpointSlice& slice = *tensor.add_slices();
    slice.add_start(0);
    slice.add_extent(4);
    slice.set_offset(state.num_bytes);
    state.num_bytes += 16;
  }
  const auto writer = *CheckpointWriter::Create({.path = path, .process = 0, .num_processes = 1}, state);
  pb::CheckpointManifest head;
  head.set_job("small");
  head.set_step(7);
  const absl::Status started = writer->Start(head, [](char* to) {
    std::memset(to, 1, 32);
    return absl::OkStatus();
  });
  CHECK(started.ok()) << started;
  writer->Wait();
  return CheckpointFolder(path, 7);
}

const std::string& SavedCheckpoint() {
  static const std::string& folder = *new std::string(SaveCheckpoint());
  return folder;
}

void ReadAll(const std::string& folder) {
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(folder);
  if (!reader.ok()) return;
  for (const pb::CheckpointTensor& tensor : reader->manifest().tensors()) {
    const TensorType type = TypeOf(tensor);
    CHECK_LE(type.num_bytes(), kUsualMostMemory) << "a tensor that no piece has room for";
    std::string bytes(type.num_bytes(), '\0');
    reader->Read(tensor, WholeBox(type.shape.dims()), bytes.data()).IgnoreError();
  }
}

// A manifest whose checksum is right, beside the piece that it was made for.
void RunManifest(absl::string_view input) {
  pb::CheckpointFile file;
  file.set_version(kCheckpointVersion);
  file.set_manifest(std::string(input));
  file.set_checksum(Checksum(input.data(), input.size()));
  const std::string path = absl::StrCat(SavedCheckpoint(), "/", kManifestName);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << file.SerializeAsString();
  ReadAll(SavedCheckpoint());
}

}  // namespace

void AddFileTargets(std::vector<FuzzTarget>& targets) {
  const std::string json = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                           R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
  const std::string data(22, 'x');
  targets.push_back({.name = "safetensors", .seeds = {WithLength(json, data)}, .run = RunSafetensors});
  targets.push_back({.name = "safetensors_header", .seeds = {json}, .run = [data](absl::string_view input) {
                       RunSafetensors(WithLength(input, data));
                     }});
  targets.push_back({.name = "safetensors_index",
                     .seeds = {R"({"metadata": {"total_size": 4}, "weight_map": {"a": "shard"}})"},
                     .run = RunIndex});
  const pb::CheckpointManifest manifest = *ReadManifest(SavedCheckpoint());
  targets.push_back({.name = "checkpoint",
                     .seeds = {manifest.SerializeAsString()},
                     .message = std::make_shared<pb::CheckpointManifest>(),
                     .run = RunManifest});
  const std::string piece = absl::StrCat(SavedCheckpoint(), "/", PieceName(0));
  const std::string good = ReadBytes(piece),
                    good_manifest = ReadBytes(absl::StrCat(SavedCheckpoint(), "/", kManifestName));
  targets.push_back(
      {.name = "checkpoint_piece", .seeds = {good}, .run = [piece, good, good_manifest](absl::string_view input) {
         std::ofstream(absl::StrCat(SavedCheckpoint(), "/", kManifestName), std::ios::binary) << good_manifest;
         std::ofstream(piece, std::ios::binary | std::ios::trunc) << input;
         ReadAll(SavedCheckpoint());
         std::ofstream(piece, std::ios::binary | std::ios::trunc) << good;
       }});
}

}  // namespace oneflow::testing
