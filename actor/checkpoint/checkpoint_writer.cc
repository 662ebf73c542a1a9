#include "actor/checkpoint/checkpoint_writer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "actor/checkpoint/box.h"
#include "actor/checkpoint/disk.h"
#include "actor/checkpoint/finite.h"
#include "actor/checkpoint/manifest.h"
#include "actor/checkpoint/safetensors.h"
#include "actor/checksum.h"
#include "oneflow_core/variable_role.h"

namespace oneflow {
namespace {

// The interval of looks at the parts that have come: one listing of a folder each.
constexpr absl::Duration kFirstLook = absl::Milliseconds(2);
constexpr absl::Duration kLongestPause = absl::Milliseconds(200);

// Steps need the cores more.
void StepBack() { setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10); }

// In the order of their bytes.
std::vector<SafetensorsWriter::Tensor> SlicesOf(const OwnedState& state) {
  std::vector<SafetensorsWriter::Tensor> slices;
  for (const pb::CheckpointTensor& tensor : state.tensors) {
    for (const pb::CheckpointSlice& slice : tensor.slices()) {
      const Box box = BoxOf(slice);
      const bool whole = box == WholeBox({tensor.dims().begin(), tensor.dims().end()});
      slices.push_back({whole ? tensor.name() : absl::StrCat(tensor.name(), box.ToString()),
                        {static_cast<DType>(tensor.dtype()), Shape(box.extent)}});
    }
  }
  return slices;
}

// The number of parts in the folder.
int CountParts(const std::string& folder, int most) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    count += it->path().extension() == ".part";
  }
  return std::min(count, most);
}

absl::Status CheckNumbers(const pb::CheckpointTensor& tensor, const char* data, int64_t num_bytes) {
  const DType dtype = static_cast<DType>(tensor.dtype());
  const Finiteness numbers = FinitenessOf(dtype, data, num_bytes / static_cast<int64_t>(SizeOf(dtype)));
  if (numbers == Finiteness::kFinite ||
      (numbers == Finiteness::kInfinite && !IsLearned(static_cast<VariableRole>(tensor.role()))))
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("tensor '", tensor.name(), "' has an element that is ",
                                                    numbers == Finiteness::kNan ? "nan" : "inf",
                                                    "; train.stop { finite: false } saves it nevertheless"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(Options options, OwnedState state) {
  HostPages copy(static_cast<size_t>(state.num_bytes));
  if (copy.data() != nullptr) {
    return absl::WrapUnique(new CheckpointWriter(std::move(options), std::move(state), std::move(copy)));
  }
  return absl::ResourceExhaustedError(absl::StrCat("a copy of the job's state takes ", state.num_bytes,
                                                   " bytes; the host has ", AvailableHostBytes(), " left"));
}

CheckpointWriter::CheckpointWriter(Options options, OwnedState state, HostPages copy)
    : options_(std::move(options)), state_(std::move(state)), copy_(std::move(copy)), thread_([this] { Loop(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

absl::Status CheckpointWriter::Start(pb::CheckpointManifest head, const std::function<absl::Status(char*)>& copy) {
  Wait();
  OF_RETURN_IF_ERROR(copy(copy_.data()));
  std::lock_guard<std::mutex> lock(mu_);
  head_ = std::move(head);
  busy_ = true;
  changed_.notify_all();
  return absl::OkStatus();
}

void CheckpointWriter::Wait() {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [this] { return !busy_ && !untidy_ && !tidying_; });
}

void CheckpointWriter::Tidy() {
  std::lock_guard<std::mutex> lock(mu_);
  untidy_ = true;
  changed_.notify_all();
}

void CheckpointWriter::Loop() {
  StepBack();
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || untidy_ || ending_; });
    if (!busy_ && !untidy_) return;
    const bool writes = busy_;
    untidy_ = false;
    tidying_ = !writes;
    lock.unlock();
    if (writes) {
      const absl::Status status = Write(head_);
      if (options_.on_done && (options_.process == 0 || !status.ok())) options_.on_done(head_.step(), status);
    } else if (options_.tidy) {
      options_.tidy().IgnoreError();  // the next checkpoint tries again, and reports it
    }
    lock.lock();
    busy_ = busy_ && !writes;
    tidying_ = false;
    changed_.notify_all();
  }
}

absl::Status CheckpointWriter::Write(const pb::CheckpointManifest& head) {
  const std::string folder = UnfinishedFolder(options_.path, head.step(), options_.attempt);
  const absl::Status status = WriteInto(folder, head);
  if (!status.ok()) RemoveWhatWasWritten(head.step());
  return status.ok() && options_.process == 0 && options_.tidy ? options_.tidy() : status;
}

absl::Status CheckpointWriter::WriteInto(const std::string& folder, const pb::CheckpointManifest& head) {
  OF_RETURN_IF_ERROR(MakeFolder(folder));
  OF_ASSIGN_OR_RETURN(const pb::CheckpointPart part, WritePiece(folder));
  OF_RETURN_IF_ERROR(WriteWholeFile(absl::StrCat(folder, "/", PartName(options_.process)), part.SerializeAsString()));
  if (options_.process != 0) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN(const std::vector<pb::CheckpointPart> parts, AwaitParts(folder, head.step()));
  pb::CheckpointManifest manifest = head;
  manifest.set_saved_us(absl::ToUnixMicros(absl::Now()));
  OF_RETURN_IF_ERROR_AT(AddParts(parts, manifest), absl::StrCat("'", folder, "'"));
  if (options_.may_commit) OF_RETURN_IF_ERROR(options_.may_commit(head.step()));
  return CommitCheckpoint(folder, CheckpointFolder(options_.path, head.step()), manifest);
}

// A full disk needs the room.
void CheckpointWriter::RemoveWhatWasWritten(int64_t step) const {
  const std::string folder = UnfinishedFolder(options_.path, step, options_.attempt);
  if (options_.process == 0) {
    RemoveFolder(folder).IgnoreError();  // the next attempt tries again
  } else {
    unlink(absl::StrCat(folder, "/", PieceName(options_.process)).c_str());
  }
}

absl::StatusOr<pb::CheckpointPart> CheckpointWriter::WritePiece(const std::string& folder) const {
  pb::CheckpointPart part;
  const std::string header = SafetensorsHeader(SlicesOf(state_));
  OF_ASSIGN_OR_RETURN(DiskFile file, DiskFile::Create(absl::StrCat(folder, "/", PieceName(options_.process))));
  OF_RETURN_IF_ERROR(file.Write(header.data(), header.size()));
  for (const pb::CheckpointTensor& tensor : state_.tensors) {
    pb::CheckpointTensor& out = *part.add_tensors() = tensor;
    for (pb::CheckpointSlice& slice : *out.mutable_slices()) {
      const int64_t bytes = BoxOf(slice).count() * static_cast<int64_t>(SizeOf(static_cast<DType>(tensor.dtype())));
      for (int64_t done = 0; done < bytes; done += kCheckpointBlock) {
        const auto block = static_cast<size_t>(std::min(kCheckpointBlock, bytes - done));
        const char* const data = copy_.data() + slice.offset() + done;
        if (options_.finite) OF_RETURN_IF_ERROR(CheckNumbers(tensor, data, static_cast<int64_t>(block)));
        slice.add_checksums(Checksum(data, block));
        OF_RETURN_IF_ERROR(file.Write(data, block));
      }
    }
  }
  OF_RETURN_IF_ERROR(file.Close());
  part.mutable_piece()->set_bytes(static_cast<int64_t>(header.size()) + state_.num_bytes);
  part.mutable_piece()->set_data_begin(static_cast<int64_t>(header.size()));
  part.mutable_piece()->set_header_checksum(Checksum(header.data(), header.size()));
  return part;
}

void CheckpointWriter::GiveUp(int64_t step, const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mu_);
  given_up_ = step;
  why_given_up_ = why;
  changed_.notify_all();
}

absl::Status CheckpointWriter::WhyGivenUp(int64_t step, absl::Duration pause) {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(pause), [&] { return ending_ || given_up_ == step; });
  if (given_up_ == step) return why_given_up_;
  return ending_ ? absl::CancelledError("training ended before all processes had written their pieces")
                 : absl::OkStatus();
}

absl::StatusOr<std::vector<pb::CheckpointPart>> CheckpointWriter::AwaitParts(const std::string& folder, int64_t step) {
  const absl::Time deadline = absl::Now() + options_.patience;
  absl::Duration pause = kFirstLook;
  for (int come; (come = CountParts(folder, options_.num_processes)) < options_.num_processes;) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("'", folder, "': the pieces of ", come, " of ",
                                                      options_.num_processes, " processes have come in ",
                                                      absl::FormatDuration(options_.patience)));
    }
    OF_RETURN_IF_ERROR(WhyGivenUp(step, pause));
    pause = std::min(2 * pause, kLongestPause);
  }
  std::vector<pb::CheckpointPart> parts(static_cast<size_t>(options_.num_processes));
  for (int process = 0; process < options_.num_processes; ++process) {
    const std::string path = absl::StrCat(folder, "/", PartName(process));
    std::ifstream file(path, std::ios::binary);
    if (!file || !parts[process].ParseFromString(std::string(std::istreambuf_iterator<char>(file), {}))) {
      return absl::DataLossError(absl::StrCat("'", path, "': cannot be read"));
    }
  }
  return parts;
}

}  // namespace oneflow
