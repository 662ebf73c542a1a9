#include "actor/tier_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/checksum.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr absl::StatusCode kNoAccess = absl::StatusCode::kPermissionDenied;
constexpr absl::StatusCode kWrongPlace = absl::StatusCode::kInvalidArgument;

// What open() with O_TMPFILE and O_DIRECT says of a directory.
constexpr struct {
  int error;
  absl::StatusCode code;
  const char* text;
} kUnusableDirectories[] = {
    {ENOENT, absl::StatusCode::kNotFound, "there is no such directory"},
    {ENOTDIR, absl::StatusCode::kNotFound, "it is not a directory"},
    {EACCES, kNoAccess, "this process may not write there"},
    {EPERM, kNoAccess, "this process may not write there"},
    {EROFS, kNoAccess, "its file system is read-only"},
    {EOPNOTSUPP, kWrongPlace, "its file system has no unnamed files (O_TMPFILE); name a directory on another one"},
    {EISDIR, kWrongPlace, "the system has no unnamed files there (O_TMPFILE); name a directory on another file system"},
    {EINVAL, kWrongPlace,
     "its file system does not transfer past the page cache (O_DIRECT), or lies in memory (tmpfs); name a directory on "
     "a disk"},
};

bool MeansFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

bool LacksResources(int error) { return MeansFull(error) || error == EMFILE || error == ENFILE || error == ENOMEM; }

absl::Status UnusableDirectory(int error) {
  for (const auto& known : kUnusableDirectories) {
    if (known.error == error) return absl::Status(known.code, known.text);
  }
  return absl::Status(LacksResources(error) ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                      absl::StrCat("cannot make a file there: ", std::strerror(error)));
}

// `why`: the system's words, if it was asked.
absl::Status DiskTooSmall(int64_t wanted, int64_t free, absl::string_view why = "") {
  return absl::ResourceExhaustedError(absl::StrCat(wanted, " bytes are wanted, and the disk has ", free, " free", why));
}

absl::Status CannotSetRoomAside(int error, int64_t wanted, int64_t free) {
  const std::string why = absl::StrCat(": ", std::strerror(error));
  if (MeansFull(error)) return DiskTooSmall(wanted, free, why);
  if (error == EOPNOTSUPP) {
    return absl::InvalidArgumentError(
        "its file system cannot set room aside (fallocate); name a directory on another one");
  }
  return absl::InternalError(absl::StrCat("cannot set ", wanted, " bytes aside", why));
}

uint64_t DigestOfBlock(const char* block) { return Checksum(block, TierFile::kBlock); }

class RingTransfers : public TierTransfers {
 public:
  static std::unique_ptr<TierTransfers> Make(int fd, TierDisk::Direction direction) {
    std::unique_ptr<RingTransfers> transfers(new RingTransfers(fd, direction));
    if (io_uring_queue_init(TierFile::kDepth, &transfers->ring_, 0) != 0) return nullptr;
    transfers->is_made_ = true;
    // Came with Linux 5.6, as did the reads and writes that we ask for.
    if ((transfers->ring_.features & IORING_FEAT_RW_CUR_POS) == 0) return nullptr;
    return transfers;
  }
  ~RingTransfers() override {
    if (is_made_) io_uring_queue_exit(&ring_);
  }

  // A request that the system does not accept at once is submitted again by Wait().
  void Start(const Request& request) override {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    CHECK(entry != nullptr) << "more than " << TierFile::kDepth << " transfers at a time";
    if (direction_ == TierDisk::Direction::kRead) {
      io_uring_prep_read(entry, fd_, request.data, request.num_bytes, request.offset);
    } else {
      io_uring_prep_write(entry, fd_, request.data, request.num_bytes, request.offset);
    }
    io_uring_sqe_set_data64(entry, request.slot);
    io_uring_submit(&ring_);
  }

  Result Wait() override {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) != 0) {
      const int error = -io_uring_submit_and_wait(&ring_, 1);
      const bool passes = error <= 0 || error == EINTR || error == EAGAIN || error == EBUSY;
      CHECK(passes) << "io_uring_enter: " << std::strerror(error);  // the ring is ours and set up
    }
    const Result result = {static_cast<int>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return result;
  }

 private:
  RingTransfers(int fd, TierDisk::Direction direction) : fd_(fd), direction_(direction) {}

  const int fd_;
  const TierDisk::Direction direction_;
  io_uring ring_ = {};
  bool is_made_ = false;
};

class CalledTransfers : public TierTransfers {
 public:
  CalledTransfers(int fd, TierDisk::Direction direction) : fd_(fd), direction_(direction) {}

  void Start(const Request& request) override { waiting_.push_back(request); }

  Result Wait() override {
    const Request request = waiting_.front();
    waiting_.pop_front();
    const ssize_t result = direction_ == TierDisk::Direction::kRead
                               ? pread(fd_, request.data, request.num_bytes, request.offset)
                               : pwrite(fd_, request.data, request.num_bytes, request.offset);
    return {request.slot, result < 0 ? -errno : result};
  }

 private:
  const int fd_;
  const TierDisk::Direction direction_;
  std::deque<Request> waiting_;
};

}  // namespace

int TierDisk::Open(const std::string& directory) {
  // O_EXCL: nobody can give the file a name later.
  const int fd = open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}

int64_t TierDisk::FreeBytes(int fd) {
  struct statvfs info = {};
  if (fstatvfs(fd, &info) != 0) return -errno;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

int TierDisk::Allocate(int fd, int64_t num_bytes) {
  while (fallocate(fd, 0, 0, num_bytes) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

std::unique_ptr<TierTransfers> TierDisk::Ring(int fd, Direction direction) {
  return RingTransfers::Make(fd, direction);
}

std::unique_ptr<TierTransfers> TierDisk::Calls(int fd, Direction direction) {
  return std::make_unique<CalledTransfers>(fd, direction);
}

absl::StatusOr<std::unique_ptr<TierFile>> TierFile::Create(const std::string& directory, int64_t num_bytes) {
  TierDisk disk;
  return Create(directory, num_bytes, disk);
}

absl::StatusOr<std::unique_ptr<TierFile>> TierFile::Create(const std::string& directory, int64_t num_bytes,
                                                           TierDisk& disk) {
  CHECK_GT(num_bytes, 0);
  const std::string where = absl::StrCat("disk tier in '", directory, "'");
  const int fd = disk.Open(directory);
  if (fd < 0) return Annotate(UnusableDirectory(-fd), where);
  const int64_t blocks = (num_bytes - 1) / kBlock + 1;
  // Checked first: an allocation that fails has taken all room that there was, if only for a moment.
  const int64_t free = disk.FreeBytes(fd);
  if (blocks > free / kBlock) {
    close(fd);
    return Annotate(free < 0 ? UnusableDirectory(-static_cast<int>(free)) : DiskTooSmall(num_bytes, free), where);
  }
  std::unique_ptr<TierFile> file(new TierFile(directory, fd, blocks * kBlock));
  if (const int error = -disk.Allocate(fd, file->num_bytes_); error != 0) {
    return Annotate(CannotSetRoomAside(error, file->num_bytes_, free), where);
  }
  OF_RETURN_IF_ERROR_AT(file->TakeMemory(), where);
  file->MakeLanes(disk);
  return file;
}

absl::Status TierFile::TakeMemory() {
  void* const range =
      mmap(nullptr, num_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, /*offset=*/0);
  if (range == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", num_bytes_, " bytes of addresses: ", std::strerror(errno)));
  }
  addresses_ = static_cast<char*>(range);
  const int64_t blocks = num_bytes_ / kBlock, bytes = kBufferBytes + blocks * kDigestBytes;
  memory_ = HostPages(bytes);
  if (memory_.data() == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("buffers and digests of ", bytes, " bytes: the host has ", AvailableHostBytes(), " left"));
  }
  digests_ = reinterpret_cast<uint64_t*>(memory_.data() + kBufferBytes);
  std::fill_n(digests_, blocks, DigestOfBlock(memory_.data()));  // of zeros, which new memory is
  return absl::OkStatus();
}

void TierFile::MakeLanes(TierDisk& disk) {
  const auto make = [&](Lane& lane, TierDisk::Direction direction, char* buffers) {
    lane.transfers = disk.Ring(fd_, direction);
    lane.is_ring = lane.transfers != nullptr;
    if (!lane.is_ring) lane.transfers = disk.Calls(fd_, direction);
    lane.buffers = buffers;
  };
  make(reads_, TierDisk::Direction::kRead, memory_.data());
  make(writes_, TierDisk::Direction::kWrite, memory_.data() + kDepth * kChunk);
}

TierFile::~TierFile() {
  if (addresses_ != nullptr) munmap(addresses_, num_bytes_);
  close(fd_);
}

std::string TierFile::UsualFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == 0 ? "/var/tmp" : folder;
}

bool TierFile::Holds(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(addresses_);
  return at >= begin && at - begin < static_cast<uintptr_t>(num_bytes_);
}

absl::StatusOr<int64_t> TierFile::OffsetOf(const char* place, int64_t num_bytes) const {
  // As numbers: of addresses of different objects there is no difference.
  const auto offset =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(place) - reinterpret_cast<uintptr_t>(addresses_));
  if (offset >= 0 && offset <= num_bytes_ && offset % kBlock == 0 && num_bytes >= 0 &&
      num_bytes <= num_bytes_ - offset) {
    return offset;
  }
  return absl::InternalError(absl::StrCat("disk tier in '", directory_, "': ", num_bytes, " bytes at offset ", offset,
                                          " do not begin at a block of ", kBlock, " or are not all in its ",
                                          num_bytes_));
}

absl::Status TierFile::Read(const char* place, int64_t num_bytes, char* to) {
  OF_ASSIGN_OR_RETURN(const int64_t begin, OffsetOf(place, num_bytes));
  return Pass(
      reads_, begin, num_bytes, [](const Chunk&) {},
      [&](const Chunk& chunk) { return Take(chunk, to + (chunk.offset - begin)); });
}

absl::Status TierFile::Write(char* place, int64_t num_bytes, const char* from) {
  OF_ASSIGN_OR_RETURN(const int64_t begin, OffsetOf(place, num_bytes));
  return Pass(
      writes_, begin, num_bytes, [&](const Chunk& chunk) { Fill(chunk, from + (chunk.offset - begin)); },
      [](const Chunk&) { return absl::OkStatus(); });
}

absl::Status TierFile::Pass(Lane& lane, int64_t offset, int64_t num_bytes, absl::FunctionRef<void(const Chunk&)> fill,
                            absl::FunctionRef<absl::Status(const Chunk&)> take) {
  std::array<Chunk, kDepth> chunks;
  const int64_t end = offset + num_bytes;
  int under_way = 0;
  const auto start_rest = [&](int slot) {
    const Chunk& chunk = chunks[slot];
    lane.transfers->Start({slot, chunk.buffer + chunk.done, chunk.whole - chunk.done, chunk.offset + chunk.done});
    ++under_way;
  };
  const auto start_next = [&](int slot) {
    const int64_t bytes = std::min(kChunk, end - offset);
    chunks[slot] = {lane.buffers + slot * kChunk, offset, bytes, (bytes + kBlock - 1) / kBlock * kBlock, /*done=*/0};
    offset += bytes;
    fill(chunks[slot]);
    start_rest(slot);
  };
  for (int slot = 0; slot < kDepth && offset < end; ++slot) start_next(slot);
  absl::Status status;
  while (under_way > 0) {
    const TierTransfers::Result result = lane.transfers->Wait();
    --under_way;
    if (!status.ok()) continue;  // the buffers are the system's until all transfers have ended
    Chunk& chunk = chunks[result.slot];
    status = Advance(lane, result.num_bytes, chunk);
    if (status.ok() && chunk.done < chunk.whole) {
      start_rest(result.slot);
      continue;
    }
    if (status.ok()) status = take(chunk);
    if (status.ok() && offset < end) start_next(result.slot);
  }
  return Annotate(status, absl::StrCat("disk tier in '", directory_, "'"));
}

// Adds what a transfer did to `chunk`. What is less than a block is done again: only whole blocks can be asked for.
absl::Status TierFile::Advance(const Lane& lane, int64_t result, Chunk& chunk) const {
  if (result == -EINTR || result == -EAGAIN) return absl::OkStatus();  // the same again
  if (result >= kBlock) {
    chunk.done += result / kBlock * kBlock;
    return absl::OkStatus();
  }
  const int error = result < 0 ? static_cast<int>(-result) : 0;
  absl::StatusCode code = absl::StatusCode::kInternal;
  if (error == 0 || error == EIO) code = absl::StatusCode::kDataLoss;
  if (MeansFull(error)) code = absl::StatusCode::kResourceExhausted;
  return absl::Status(
      code, absl::StrCat(lane.name, " of ", chunk.whole, " bytes at offset ", chunk.offset, " stopped after ",
                         chunk.done, ": ", error == 0 ? "the system transfers no more" : std::strerror(error)));
}

// Block by block, so that each is in the cache for its digest; Take() likewise.
void TierFile::Fill(const Chunk& chunk, const char* from) {
  for (int64_t at = 0; at < chunk.num_bytes; at += kBlock) {
    const int64_t bytes = std::min(kBlock, chunk.num_bytes - at);
    char* const block = chunk.buffer + at;
    std::memcpy(block, from + at, bytes);
    std::memset(block + bytes, 0, kBlock - bytes);
    digests_[(chunk.offset + at) / kBlock] = DigestOfBlock(block);
  }
}

absl::Status TierFile::Take(const Chunk& chunk, char* to) const {
  for (int64_t at = 0; at < chunk.num_bytes; at += kBlock) {
    const char* const block = chunk.buffer + at;
    const uint64_t digest = DigestOfBlock(block), written = digests_[(chunk.offset + at) / kBlock];
    if (digest != written) {
      return absl::DataLossError(absl::StrCat("the block at offset ", chunk.offset + at, " has digest ",
                                              absl::Hex(digest, absl::kZeroPad16), ", and was written with ",
                                              absl::Hex(written, absl::kZeroPad16)));
    }
    std::memcpy(to + at, block, std::min(kBlock, chunk.num_bytes - at));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
