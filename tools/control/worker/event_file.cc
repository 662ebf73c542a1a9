#include "tools/control/worker/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace oneflow {
namespace {

constexpr absl::string_view kPrefix = "events.out.tfevents.";

std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kCastagnoli = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table;
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}

template <typename Number>
std::string LittleEndian(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

std::string NameOfThisHost() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Now, or the second after that of the last file, where two attempts follow one another so fast.
absl::StatusOr<int64_t> NextSecond(const std::string& folder) {
  int64_t second = absl::ToUnixSeconds(absl::Now());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    int64_t made = 0;
    if (!absl::StartsWith(name, kPrefix)) continue;
    if (absl::SimpleAtoi(name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size()), &made)) {
      second = std::max(second, made + 1);
    }
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot read folder '", folder, "': ", error.message()));
  return second;
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;  // so that a checksum of data with checksums in them is none
}

EventFile::EventFile(std::string path) : path_(std::move(path)), stream_(path_, std::ios::binary | std::ios::trunc) {}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder, int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make folder '", folder, "': ", error.message()));
  OF_ASSIGN_OR_RETURN(const int64_t second, NextSecond(folder));
  std::unique_ptr<EventFile> file(
      new EventFile(absl::StrFormat("%s/%s%010d.%s.%d", folder, kPrefix, second, NameOfThisHost(), getpid())));
  pb::tensorboard::Event version;
  version.set_wall_time(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  version.set_file_version("brain.Event:2");
  file->Add(version);
  pb::tensorboard::Event start;
  start.set_wall_time(version.wall_time());
  start.set_step(first_step);
  start.mutable_session_log()->set_status(pb::tensorboard::SessionLog::START);
  file->Add(start);
  OF_RETURN_IF_ERROR(file->Flush());
  return file;
}

void EventFile::Add(const pb::tensorboard::Event& event) {
  const std::string bytes = event.SerializeAsString();
  const std::string length = LittleEndian<uint64_t>(bytes.size());
  absl::StrAppend(&pending_, length, LittleEndian(MaskedCrc32c(length)), bytes, LittleEndian(MaskedCrc32c(bytes)));
}

absl::Status EventFile::Flush() {
  errno = 0;
  stream_ << pending_ << std::flush;
  pending_.clear();
  if (stream_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write '", path_, "': ", std::strerror(errno)));
}

}  // namespace oneflow
