#include "actor/tier_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = TierFile::kBlock, kMiB = 1 << 20;
using absl::StatusCode;

// A disk that tests disturb: `before` changes what is asked of the system, `after` what it has answered.
class FaultyTierDisk : public TierDisk {
 public:
  int Open(const std::string& directory) override { return open_error != 0 ? -open_error : TierDisk::Open(directory); }
  int64_t FreeBytes(int fd) override { return free_bytes >= 0 ? free_bytes : TierDisk::FreeBytes(fd); }
  int Allocate(int fd, int64_t num_bytes) override {
    return allocate_error != 0 ? -allocate_error : TierDisk::Allocate(fd, num_bytes);
  }
  std::unique_ptr<TierTransfers> Ring(int fd, Direction direction) override {
    return has_ring ? Watched(TierDisk::Ring(fd, direction), direction) : nullptr;
  }
  std::unique_ptr<TierTransfers> Calls(int fd, Direction direction) override {
    return Watched(TierDisk::Calls(fd, direction), direction);
  }

  int open_error = 0, allocate_error = 0;
  int64_t free_bytes = -1;  // what it says it has; -1: what it has
  bool has_ring = true;
  std::function<void(TierTransfers::Request&)> before = [](TierTransfers::Request&) {};
  std::function<void(TierTransfers::Result&)> after = [](TierTransfers::Result&) {};
  std::atomic<int> under_way = 0;
  int most_under_way = 0;  // in writing

 private:
  class Transfers : public TierTransfers {
   public:
    Transfers(std::unique_ptr<TierTransfers> real, bool writes, FaultyTierDisk& disk)
        : real_(std::move(real)), writes_(writes), disk_(disk) {}
    void Start(const Request& request) override {
      Request changed = request;
      disk_.before(changed);
      const int under_way = ++disk_.under_way;
      if (writes_) disk_.most_under_way = std::max(disk_.most_under_way, under_way);
      real_->Start(changed);
    }
    Result Wait() override {
      Result result = real_->Wait();
      --disk_.under_way;
      disk_.after(result);
      return result;
    }

   private:
    const std::unique_ptr<TierTransfers> real_;
    const bool writes_;
    FaultyTierDisk& disk_;
  };
  std::unique_ptr<TierTransfers> Watched(std::unique_ptr<TierTransfers> real, Direction direction) {
    if (real == nullptr) return nullptr;
    return std::make_unique<Transfers>(std::move(real), direction == Direction::kWrite, *this);
  }
};

std::vector<char> RandomBytes(std::mt19937_64& random, int64_t num_bytes) {
  std::vector<uint64_t> words(num_bytes / 8 + 1);
  for (uint64_t& word : words) word = random();
  const char* const bytes = reinterpret_cast<const char*>(words.data());
  return {bytes, bytes + num_bytes};
}

// With and without a ring.
class TierFileTest : public ::testing::TestWithParam<bool> {
 protected:
  TierFileTest() { disk_.has_ring = GetParam(); }

  std::unique_ptr<TierFile> Create(int64_t num_bytes) {
    absl::StatusOr<std::unique_ptr<TierFile>> file = TierFile::Create(dir_.File(""), num_bytes, disk_);
    EXPECT_OK(file);
    return file.ok() ? *std::move(file) : nullptr;
  }

  const TestDir dir_{BinaryDir()};  // on a disk, as /tmp need not be
  FaultyTierDisk disk_;
  std::mt19937_64 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Transfers, TierFileTest, ::testing::Bool(),
                         [](const auto& with_ring) { return with_ring.param ? "ByRing" : "ByCalls"; });

TEST_P(TierFileTest, HoldsWhatWasWrittenOfAnySizeAndAlignment) {
  const auto file = Create(20 * kMiB);
  std::vector<int64_t> sizes = {0, 1, 4095, 4096, 4097, kMiB, 3 * kMiB + 5, 8 * kMiB + 1, 17 * kMiB};
  for (int i = 0; i < 20; ++i) sizes.push_back(random_() % (2 * kMiB));
  for (const int64_t size : sizes) {
    const int64_t block = random_() % ((file->num_bytes() - size) / kBlock), shift = random_() % 9;
    const std::vector<char> from = RandomBytes(random_, shift + size);
    std::vector<char> to(shift + size + 1, 'x');
    char* const place = file->addresses() + block * kBlock;
    ASSERT_OK(file->Write(place, size, from.data() + shift));
    ASSERT_OK(file->Read(place, size, to.data() + shift));
    ASSERT_TRUE(std::equal(from.begin() + shift, from.end(), to.begin() + shift)) << size << " at block " << block;
    ASSERT_EQ(to.back(), 'x') << "behind the " << size << " bytes that were asked for";
  }
}

TEST_P(TierFileTest, IsZerosWhereNothingWasWritten) {
  const auto file = Create(3 * kMiB + 1);
  EXPECT_EQ(file->num_bytes(), 3 * kMiB + kBlock);
  std::vector<char> to(file->num_bytes(), 'x');
  ASSERT_OK(file->Read(file->addresses(), file->num_bytes(), to.data()));
  EXPECT_EQ(to, std::vector<char>(file->num_bytes()));
}

TEST_P(TierFileTest, OverwritesWholeBlocksAndNoOthers) {
  const auto file = Create(4 * kBlock);
  std::vector<char> expected(4 * kBlock, 'a');
  ASSERT_OK(file->Write(file->addresses(), 4 * kBlock, expected.data()));
  ASSERT_OK(file->Write(file->addresses() + kBlock, kBlock + 1, std::string(kBlock + 1, 'b').data()));
  std::fill_n(expected.begin() + kBlock, kBlock + 1, 'b');
  std::fill_n(expected.begin() + 2 * kBlock + 1, kBlock - 1, '\0');
  std::vector<char> to(4 * kBlock);
  ASSERT_OK(file->Read(file->addresses(), 4 * kBlock, to.data()));
  EXPECT_EQ(to, expected);
}

// One half is read while the other is written; then they change places.
TEST_P(TierFileTest, ReadsWhileItWrites) {
  constexpr int64_t kHalf = 5 * kMiB;
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  random_.seed(seed);
  const auto file = Create(2 * kHalf);
  std::vector<char> expected(2 * kHalf);
  const auto range_in = [&](int64_t half) {
    const int64_t begin = random_() % (kHalf / kBlock) * kBlock;
    return std::pair(half + begin, 1 + static_cast<int64_t>(random_() % (kHalf - begin)));
  };
  const std::vector<char> source = RandomBytes(random_, 2 * kHalf);
  for (int round = 0; round < 100; ++round) {
    const auto [write_at, write_bytes] = range_in(round % 2 * kHalf);
    const auto [read_at, read_bytes] = range_in((round + 1) % 2 * kHalf);
    const char* const from = source.data() + random_() % (source.size() - write_bytes);
    std::vector<char> to(read_bytes);
    absl::Status written;
    std::thread writer(
        [&, at = write_at, bytes = write_bytes] { written = file->Write(file->addresses() + at, bytes, from); });
    const absl::Status read = file->Read(file->addresses() + read_at, read_bytes, to.data());
    writer.join();
    ASSERT_OK(written);
    ASSERT_OK(read);
    ASSERT_TRUE(std::equal(to.begin(), to.end(), expected.begin() + read_at)) << "round " << round;
    std::copy_n(from, write_bytes, expected.begin() + write_at);
    const int64_t end = write_at + write_bytes;
    std::fill_n(expected.begin() + end, (kBlock - end % kBlock) % kBlock, '\0');
  }
}

TEST_P(TierFileTest, KeepsSeveralTransfersUnderWay) {
  const auto file = Create(16 * kMiB);
  const std::vector<char> from(16 * kMiB);
  ASSERT_OK(file->Write(file->addresses(), 16 * kMiB, from.data()));
  EXPECT_EQ(disk_.most_under_way, TierFile::kDepth);
}

TEST_P(TierFileTest, GoesOnAfterShortTransfers) {
  const auto file = Create(4 * kMiB);
  disk_.before = [&](TierTransfers::Request& request) {
    request.num_bytes = (1 + static_cast<int64_t>(random_() % (request.num_bytes / kBlock))) * kBlock;
  };
  disk_.after = [&](TierTransfers::Result& result) {  // some of them end within a block, some are interrupted
    if (result.num_bytes > kBlock) result.num_bytes -= random_() % kBlock;
    if (random_() % 4 == 0) result.num_bytes = random_() % 2 == 0 ? -EINTR : -EAGAIN;
  };
  const std::vector<char> from = RandomBytes(random_, 4 * kMiB);
  std::vector<char> to(4 * kMiB);
  ASSERT_OK(file->Write(file->addresses(), 4 * kMiB, from.data()));
  ASSERT_OK(file->Read(file->addresses(), 4 * kMiB, to.data()));
  EXPECT_EQ(from, to);
}

// The second chunk of a call gets on by two blocks, and then ends as the case says.
TEST_P(TierFileTest, SaysWhereATransferFailed) {
  const struct {
    int64_t result;
    StatusCode code;
    const char* why;
  } kCases[] = {
      {0, StatusCode::kDataLoss, "the system transfers no more"},
      {100, StatusCode::kDataLoss, "the system transfers no more"},  // less than a block
      {-EIO, StatusCode::kDataLoss, "Input/output error"},
      {-ENOSPC, StatusCode::kResourceExhausted, "No space left on device"},
      {-EBADF, StatusCode::kInternal, "Bad file descriptor"},
  };
  const auto file = Create(16 * kMiB);
  std::vector<char> bytes(12 * kMiB);
  for (const auto& bad : kCases) {
    for (const bool reads : {false, true}) {
      disk_.before = [&](TierTransfers::Request& request) {
        if (request.slot == 1) request.num_bytes = std::min(request.num_bytes, 2 * kBlock);
      };
      int of_slot = 0;
      disk_.after = [&](TierTransfers::Result& result) {
        if (result.slot == 1 && ++of_slot == 2) result.num_bytes = bad.result;
      };
      char* const place = file->addresses() + kMiB + kBlock;
      const absl::Status status =
          reads ? file->Read(place, bytes.size(), bytes.data()) : file->Write(place, bytes.size(), bytes.data());
      EXPECT_THAT(status, StatusIs(bad.code,
                                   AllOf(StartsWith("disk tier in '"),
                                         EndsWith(absl::StrCat(reads ? "read" : "write", " of 1048576 bytes at offset ",
                                                               2 * kMiB + kBlock, " stopped after 8192: ", bad.why)))));
      EXPECT_EQ(disk_.under_way, 0) << "the buffers are ours again";
      disk_.before = [](TierTransfers::Request&) {};
      disk_.after = [](TierTransfers::Result&) {};
      EXPECT_OK(file->Write(place, bytes.size(), bytes.data()));
      EXPECT_OK(file->Read(place, bytes.size(), bytes.data()));
    }
  }
}

TEST_P(TierFileTest, FindsABitThatFlippedOnItsWay) {
  const auto file = Create(4 * kMiB);
  const std::vector<char> from = RandomBytes(random_, 4 * kMiB);
  disk_.before = [](TierTransfers::Request& request) {
    if (request.offset == 2 * kMiB) request.data[5 * kBlock + 77] ^= 4;
  };
  ASSERT_OK(file->Write(file->addresses(), 4 * kMiB, from.data()));
  disk_.before = [](TierTransfers::Request&) {};
  std::vector<char> to(4 * kMiB);
  EXPECT_THAT(
      file->Read(file->addresses(), 4 * kMiB, to.data()),
      StatusIs(StatusCode::kDataLoss, ContainsRegex(absl::StrCat("the block at offset ", 2 * kMiB + 5 * kBlock,
                                                                 " has digest [0-9a-f]{16}, and was written with "
                                                                 "[0-9a-f]{16}$"))));
  EXPECT_OK(file->Read(file->addresses() + 3 * kMiB, kMiB, to.data())) << "others are as they were";
}

TEST_P(TierFileTest, FindsAByteThatChangedOnTheDisk) {
  const auto file = Create(kMiB);
  ASSERT_OK(file->Write(file->addresses(), kMiB, RandomBytes(random_, kMiB).data()));
  const int fd = open(absl::StrCat("/proc/self/fd/", file->fd()).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  char byte = 0;
  ASSERT_EQ(pread(fd, &byte, 1, 9 * kBlock + 4095), 1);
  byte ^= 1;
  ASSERT_EQ(pwrite(fd, &byte, 1, 9 * kBlock + 4095), 1);
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
  std::vector<char> to(kMiB);
  EXPECT_THAT(file->Read(file->addresses(), kMiB, to.data()),
              StatusIs(StatusCode::kDataLoss, HasSubstr(absl::StrCat("offset ", 9 * kBlock, " has digest"))));
  EXPECT_OK(file->Read(file->addresses(), 9 * kBlock, to.data()));
}

TEST_P(TierFileTest, RefusesPlacesThatAreNotItsBlocks) {
  const auto file = Create(4 * kBlock);
  char byte = 0;
  char* const begin = file->addresses();
  EXPECT_THAT(file->Read(begin + 1, 1, &byte), StatusIs(StatusCode::kInternal, HasSubstr("1 bytes at offset 1 do")));
  for (const auto& [place, num_bytes] : {std::pair(begin + 4 * kBlock, int64_t{1}),
                                         {begin - kBlock, 1},
                                         {begin + kBlock, 3 * kBlock + 1},
                                         {begin, -1}}) {
    EXPECT_THAT(file->Write(place, num_bytes, &byte),
                StatusIs(StatusCode::kInternal, HasSubstr("not all in its 16384")));
  }
}

TEST_P(TierFileTest, LeavesNothingInItsDirectoryAndHasAllOfItsRoom) {
  const auto file = Create(10 * kMiB);
  ASSERT_OK(file->Write(file->addresses(), 5, "abcd"));
  EXPECT_TRUE(fs::is_empty(dir_.File("")));
  struct stat info = {};
  ASSERT_EQ(fstat(file->fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0u);
  EXPECT_EQ(info.st_size, 10 * kMiB);
  EXPECT_GE(info.st_blocks * 512, 10 * kMiB);
}

TEST_P(TierFileTest, SaysWhetherItHasARing) {
  const auto file = Create(1);
  EXPECT_EQ(file->uses_ring(), GetParam() && TierDisk().Ring(file->fd(), TierDisk::Direction::kRead) != nullptr);
}

TEST_P(TierFileTest, HasAddressesThatNobodyMayTouch) {
  const auto file = Create(2 * kBlock);
  char* const begin = file->addresses();
  EXPECT_TRUE(file->Holds(begin) && file->Holds(begin + 2 * kBlock - 1));
  EXPECT_FALSE(file->Holds(begin - 1) || file->Holds(begin + 2 * kBlock) || file->Holds(nullptr));
  EXPECT_DEATH(*static_cast<volatile char*>(begin), "");
  EXPECT_DEATH(*static_cast<volatile char*>(begin + kBlock) = 1, "");
}

class TierFileCreationTest : public ::testing::Test {
 protected:
  const TestDir dir_{BinaryDir()};
  FaultyTierDisk disk_;
};

TEST_F(TierFileCreationTest, SaysWhatADirectoryLacks) {
  const struct {
    int error;
    StatusCode code;
    const char* text;
  } kCases[] = {
      {ENOENT, StatusCode::kNotFound, "there is no such directory"},
      {ENOTDIR, StatusCode::kNotFound, "it is not a directory"},
      {EACCES, StatusCode::kPermissionDenied, "this process may not write there"},
      {EROFS, StatusCode::kPermissionDenied, "its file system is read-only"},
      {EOPNOTSUPP, StatusCode::kInvalidArgument,
       "its file system has no unnamed files (O_TMPFILE); name a directory on another one"},
      {EINVAL, StatusCode::kInvalidArgument,
       "its file system does not transfer past the page cache (O_DIRECT), or lies in memory (tmpfs); name a directory "
       "on a disk"},
      {EMFILE, StatusCode::kResourceExhausted, "cannot make a file there: Too many open files"},
      {EIO, StatusCode::kInternal, "cannot make a file there: Input/output error"},
  };
  for (const auto& bad : kCases) {
    disk_.open_error = bad.error;
    EXPECT_THAT(TierFile::Create("/scratch", kBlock, disk_),
                StatusIs(bad.code, absl::StrCat("disk tier in '/scratch': ", bad.text)));
  }
}

TEST_F(TierFileCreationTest, NeedsADirectory) {
  EXPECT_THAT(TierFile::Create(dir_.File("none"), kBlock),
              StatusIs(StatusCode::kNotFound, HasSubstr("none': there is no such directory")));
  EXPECT_THAT(TierFile::Create(dir_.Write("file", "text"), kBlock),
              StatusIs(StatusCode::kNotFound, HasSubstr("file': it is not a directory")));
}

TEST_F(TierFileCreationTest, AsksForNoMoreThanTheDiskHas) {
  const int64_t more = static_cast<int64_t>(fs::space(dir_.File("")).capacity) + 1;
  EXPECT_THAT(TierFile::Create(dir_.File(""), more),
              StatusIs(StatusCode::kResourceExhausted,
                       MatchesRegex(absl::StrCat("disk tier in '.*': ", more,
                                                 " bytes are wanted, and the disk has [0-9]+ free"))));
  disk_.free_bytes = 2 * kBlock - 1;
  disk_.allocate_error = EIO;  // it is not even asked
  EXPECT_THAT(TierFile::Create(dir_.File(""), kBlock + 1, disk_),
              StatusIs(StatusCode::kResourceExhausted, EndsWith("4097 bytes are wanted, and the disk has 8191 free")));
}

TEST_F(TierFileCreationTest, SaysWhyRoomCannotBeSetAside) {
  disk_.free_bytes = 1 << 30;
  disk_.allocate_error = ENOSPC;  // others were faster
  EXPECT_THAT(TierFile::Create(dir_.File(""), kBlock, disk_),
              StatusIs(StatusCode::kResourceExhausted,
                       EndsWith("4096 bytes are wanted, and the disk has 1073741824 free: No space left on device")));
  disk_.allocate_error = EOPNOTSUPP;
  EXPECT_THAT(TierFile::Create(dir_.File(""), kBlock, disk_),
              StatusIs(StatusCode::kInvalidArgument, EndsWith("its file system cannot set room aside (fallocate); name "
                                                              "a directory on another one")));
  disk_.allocate_error = EIO;
  EXPECT_THAT(TierFile::Create(dir_.File(""), kBlock, disk_),
              StatusIs(StatusCode::kInternal, EndsWith("cannot set 4096 bytes aside: Input/output error")));
}

}  // namespace
}  // namespace oneflow
