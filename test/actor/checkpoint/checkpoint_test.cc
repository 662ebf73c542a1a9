// What a checkpoint holds comes back whole, however it was cut and however it is read, and what is not whole is seen.
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>

#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/disk.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

using Contents = std::map<std::string, std::vector<char>>;  // logical tensors, dense

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A job of some processes whose tensors are cut along one dimension each.
class SlicedState {
 public:
  // "w" of 5 x 7 floats, by rows; "m" of 6 x 4, by columns; "step", a scalar of process 0. `scale` rows and columns.
  SlicedState(int processes, int64_t scale, unsigned seed) : owned_(processes), copies_(processes) {
    Add("w", pb::F32, {5 * scale, 7 * scale}, 0, seed);
    Add("m", pb::BF16, {6 * scale, 4 * scale}, 1, seed + 1);
    Add("step", pb::I64, {}, 0, seed + 2);
  }

  const Contents& contents() const { return contents_; }
  int processes() const { return static_cast<int>(owned_.size()); }

  // Saves `step`, all processes beside one another; how it went for process 0.
  absl::Status Save(const std::string& path, int64_t step) const {
    absl::Status told;
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
    for (int process = 0; process < processes(); ++process) {
      CheckpointWriter::Options options{.path = path, .process = process, .num_processes = processes()};
      if (process == 0) options.on_done = [&told](int64_t, const absl::Status& status) { told = status; };
      writers.push_back(*CheckpointWriter::Create(std::move(options), owned_[process]));
    }
    for (int process = 0; process < processes(); ++process) {
      EXPECT_OK(writers[process]->Start(Head(step), Copy(process)));
    }
    for (const auto& writer : writers) writer->Wait();
    return told;
  }
  static pb::CheckpointManifest Head(int64_t step) {
    pb::CheckpointManifest head;
    head.set_job("job");
    head.set_step(step);
    return head;
  }
  const OwnedState& owned(int process) const { return owned_[process]; }
  std::function<absl::Status(char*)> Copy(int process) const {
    return [this, process](char* to) {
      std::memcpy(to, copies_[process].data(), copies_[process].size());
      return absl::OkStatus();
    };
  }

 private:
  void Add(const std::string& name, pb::DType dtype, std::vector<int64_t> dims, int dim, unsigned seed) {
    const Box whole = WholeBox(dims);
    const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(dtype)));
    std::vector<char>& bytes = contents_[name];
    bytes.resize(static_cast<size_t>(whole.count() * size));
    std::mt19937 rng(seed);
    for (char& byte : bytes) byte = static_cast<char>(rng());
    for (int process = 0; process < processes(); ++process) {
      Box part = whole;
      if (dims.empty() ? process > 0 : dims[dim] * (process + 1) / processes() == dims[dim] * process / processes()) {
        continue;
      }
      if (!dims.empty()) {
        part.start[dim] = dims[dim] * process / processes();
        part.extent[dim] = dims[dim] * (process + 1) / processes() - part.start[dim];
      }
      OwnedState& state = owned_[process];
      pb::CheckpointTensor& tensor = state.tensors.emplace_back();
      tensor.set_name(name);
      tensor.set_dtype(dtype);
      tensor.mutable_dims()->Assign(dims.begin(), dims.end());
      pb::CheckpointSlice& slice = *tensor.add_slices();
      slice.mutable_start()->Assign(part.start.begin(), part.start.end());
      slice.mutable_extent()->Assign(part.extent.begin(), part.extent.end());
      slice.set_offset(state.num_bytes);
      state.num_bytes += part.count() * size;
      std::vector<char>& copy = copies_[process];
      copy.resize(static_cast<size_t>(state.num_bytes));
      ForEachCommonRun(whole, part, [&](int64_t from, int64_t to, int64_t length) {
        std::memcpy(copy.data() + slice.offset() + to * size, bytes.data() + from * size, length * size);
      });
    }
  }

  Contents contents_;
  std::vector<OwnedState> owned_;
  std::vector<std::vector<char>> copies_;
};

// Everything that the checkpoint has, or the first thing that is wrong with it.
absl::StatusOr<Contents> ReadCheckpoint(const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(folder));
  Contents contents;
  for (const pb::CheckpointTensor& tensor : reader.manifest().tensors()) {
    std::vector<char>& bytes = contents[tensor.name()];
    bytes.resize(static_cast<size_t>(TypeOf(tensor).num_bytes()));
    OF_RETURN_IF_ERROR(reader.Read(tensor, WholeBox(TypeOf(tensor).shape.dims()), bytes.data()));
  }
  return contents;
}

TEST(CheckpointTest, WhatSomeProcessesWroteIsReadWholeAndInAnyBox) {
  std::mt19937 rng(3);
  for (const int64_t scale : {1, 97}) {  // of several blocks
    for (const int processes : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(processes, " processes, scale ", scale));
      const TestDir dir;
      const SlicedState state(processes, scale, 7);
      ASSERT_OK(state.Save(dir.File("c"), 12));
      const std::string folder = CheckpointFolder(dir.File("c"), 12);
      ASSERT_OK_AND_ASSIGN(const Contents contents, ReadCheckpoint(folder));
      EXPECT_TRUE(contents == state.contents());

      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(folder));
      const pb::CheckpointTensor& w = *reader.Find("w");
      const Box whole = WholeBox(TypeOf(w).shape.dims());
      for (int trial = 0; trial < 20; ++trial) {
        Box box = whole;
        for (int d = 0; d < 2; ++d) {
          box.start[d] = static_cast<int64_t>(rng()) % whole.extent[d];
          box.extent[d] = 1 + static_cast<int64_t>(rng()) % (whole.extent[d] - box.start[d]);
        }
        std::vector<char> got(static_cast<size_t>(box.count()) * 4), want(got.size());
        ASSERT_OK(reader.Read(w, box, got.data()));
        ForEachCommonRun(whole, box, [&](int64_t from, int64_t to, int64_t length) {
          std::memcpy(want.data() + to * 4, state.contents().at("w").data() + from * 4, length * 4);
        });
        EXPECT_TRUE(got == want) << box.ToString();
      }
    }
  }
}

TEST(CheckpointTest, PiecesAreFilesThatOthersRead) {
  const TestDir dir;
  const SlicedState state(2, 1, 7);
  ASSERT_OK(state.Save(dir.File("c"), 0));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader piece,
                       SafetensorsReader::Open(CheckpointFolder(dir.File("c"), 0) + "/" + PieceName(1)));
  std::vector<std::string> names;
  for (const auto& [name, entry] : piece.tensors()) names.push_back(name + " " + entry.type.ToString());
  EXPECT_THAT(names, ElementsAre("m[0:6,2:4] bf16[6,2]", "w[2:5,0:7] f32[3,7]"));
}

// Whatever a dying machine leaves of the files: cut at any byte, changed in any bit, or gone.
TEST(CheckpointTest, WhateverIsMissingOrChangedIsSeen) {
  const TestDir dir;
  const SlicedState state(2, 1, 7);
  ASSERT_OK(state.Save(dir.File("c"), 5));
  const std::string folder = CheckpointFolder(dir.File("c"), 5);
  std::mt19937 rng(4);
  for (const std::string& name : {std::string(kManifestName), PieceName(0), PieceName(1)}) {
    const std::string path = folder + "/" + name, whole = ReadBytes(path);
    ASSERT_GT(whole.size(), 100u);
    const auto expect_seen = [&](absl::string_view what, size_t at) {
      const absl::Status status = ReadCheckpoint(folder).status();
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsNotFound(status))
          << name << " " << what << " at " << at << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    };
    for (size_t length = 0; length < whole.size(); ++length) {
      WriteBytes(path, whole.substr(0, length));
      expect_seen("cut", length);
    }
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << rng() % 8));
      WriteBytes(path, changed);
      expect_seen("changed", at);
    }
    fs::remove(path);
    expect_seen("gone", 0);
    WriteBytes(path, whole);
  }
  EXPECT_OK(ReadCheckpoint(folder).status()) << "it was only the damage";
}

TEST(CheckpointTest, ASliceOfAnotherNumberOfDimensionsIsSeen) {
  const TestDir dir;
  ASSERT_OK(SlicedState(1, 1, /*seed=*/3).Save(dir.File("all"), 7));
  const std::string folder = CheckpointFolder(dir.File("all"), 7);
  ASSERT_OK_AND_ASSIGN(pb::CheckpointManifest manifest, ReadManifest(folder));
  manifest.mutable_tensors(0)->mutable_slices(0)->clear_start();
  const std::string other = UnfinishedFolder(dir.File("all"), 8, 1);
  fs::copy(folder, other);
  ASSERT_OK(CommitCheckpoint(other, CheckpointFolder(dir.File("all"), 8), manifest));
  EXPECT_THAT(ReadManifest(CheckpointFolder(dir.File("all"), 8)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a slice with 0 starts and 2 extents is not in")));
}

TEST(CheckpointTest, PiecesOfAnotherCheckpointAreSeen) {
  const TestDir dir;
  ASSERT_OK(SlicedState(2, 1, 7).Save(dir.File("c"), 5));
  ASSERT_OK(SlicedState(2, 1, 8).Save(dir.File("c"), 6));
  fs::copy_file(CheckpointFolder(dir.File("c"), 6) + "/" + PieceName(1),
                CheckpointFolder(dir.File("c"), 5) + "/" + PieceName(1), fs::copy_options::overwrite_existing);
  EXPECT_THAT(ReadCheckpoint(CheckpointFolder(dir.File("c"), 5)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the checksum of")));
}

TEST(CheckpointTest, AFolderThatNobodyFinishedIsNoCheckpoint) {
  const TestDir dir;
  const SlicedState state(2, 1, 7);
  ASSERT_OK(state.Save(dir.File("c"), 10));
  fs::create_directory(UnfinishedFolder(dir.File("c"), 20, 9));  // whoever wrote it was killed
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> steps, ListCheckpoints(dir.File("c")));
  EXPECT_THAT(steps, ElementsAre(10));
  ASSERT_TRUE(fs::exists(UnfinishedFolder(dir.File("c"), 20, 9)));
  EXPECT_OK(RemoveUnfinished(dir.File("c"), 9));
  EXPECT_TRUE(fs::exists(UnfinishedFolder(dir.File("c"), 20, 9))) << "its own it may still be writing";
  EXPECT_OK(RemoveUnfinished(dir.File("c"), 10));
  EXPECT_FALSE(fs::exists(UnfinishedFolder(dir.File("c"), 20, 9)));
}

// The first of two processes that write a state, and how that ended. It has begun with step 20.
struct FirstOfTwo {
  FirstOfTwo() { EXPECT_OK(writer->Start(SlicedState::Head(20), state.Copy(0))); }

  const TestDir dir;
  const SlicedState state{2, 1, 7};
  absl::Status told;
  std::unique_ptr<CheckpointWriter> writer =
      *CheckpointWriter::Create({.path = dir.File("c"),
                                 .num_processes = 2,
                                 .on_done = [this](int64_t, const absl::Status& status) { told = status; }},
                                state.owned(0));
};

TEST(CheckpointTest, AProcessThatCouldNotWriteIsNotWaitedFor) {
  FirstOfTwo first;
  first.writer->GiveUp(20, absl::ResourceExhaustedError("process 1: no space"));
  first.writer->Wait();
  EXPECT_THAT(first.told, StatusIs(absl::StatusCode::kResourceExhausted, "process 1: no space"));
  EXPECT_THAT(CheckpointReader::Open(CheckpointFolder(first.dir.File("c"), 20)).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("manifest")));
  EXPECT_TRUE(fs::is_empty(first.dir.File("c"))) << "the room is given back";
}

TEST(CheckpointTest, AStateThatTheHostCannotCopyIsRefusedAtOnce) {
  const TestDir dir;
  EXPECT_THAT(CheckpointWriter::Create({.path = dir.File("c")}, {.num_bytes = int64_t{1} << 46}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("takes 70368744177664 bytes; the host has ")));
}

TEST(CheckpointTest, AWriterThatEndsWaitsForNobody) {
  FirstOfTwo first;
  first.writer.reset();
  EXPECT_THAT(first.told, StatusIs(absl::StatusCode::kCancelled, HasSubstr("before all processes had written")));
}

TEST(CheckpointTest, AFullDiskIsAnErrorThatNamesTheFileAndTheLastOneStays) {
  const TestDir dir;
  const SlicedState state(1, 40, 7);
  ASSERT_OK(state.Save(dir.File("c"), 10));
  rlimit former;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit little{.rlim_cur = 20'000, .rlim_max = former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const absl::Status told = state.Save(dir.File("c"), 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("piece-00000.safetensors': cannot write: File too large")));
  ASSERT_OK_AND_ASSIGN(const std::vector<int64_t> steps, ListCheckpoints(dir.File("c")));
  EXPECT_THAT(steps, ElementsAre(10));
  EXPECT_OK(ReadCheckpoint(CheckpointFolder(dir.File("c"), 10)).status());
}

TEST(DiskTest, AFileAppearsWholeOrNotAtAll) {
  const TestDir dir;
  EXPECT_OK(WriteWholeFile(dir.File("f"), "first"));
  EXPECT_OK(WriteWholeFile(dir.File("f"), "second"));
  EXPECT_EQ(ReadBytes(dir.File("f")), "second");
  EXPECT_THAT(WriteWholeFile(dir.File("no/f"), "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no/f.partial': cannot write: No such file")));
}

}  // namespace
}  // namespace oneflow
