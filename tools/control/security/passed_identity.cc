#include "tools/control/security/passed_identity.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/disk.h"

namespace oneflow {
namespace {

constexpr char kMemory[] = "identity";           // what the kernel calls it
constexpr off_t kMostPemBytes = off_t{1} << 20;  // of three files in PEM

void Append(const std::string& part, std::string& bytes) {
  const uint64_t size = part.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += part;
}

// Takes a part off the front; false if there is none.
bool TakePart(absl::string_view& bytes, std::string& part) {
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) return false;
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size()) return false;
  part = std::string(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return true;
}

absl::StatusOr<std::string> ReadAll(int fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || info.st_size > kMostPemBytes) {
    return absl::DataLossError(absl::StrCat("descriptor ", fd, " holds no identity"));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError(absl::StrCat("descriptor ", fd, ": cannot read the identity"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<PassedIdentity> PassedIdentity::Make(const TlsIdentity& identity) {
  std::string bytes;
  for (const std::string* part : {&identity.authority, &identity.certificate, &identity.key}) Append(*part, bytes);
  PassedIdentity passed(memfd_create(kMemory, MFD_CLOEXEC));
  if (passed.fd_ < 0) return absl::ErrnoToStatus(errno, "cannot make memory for the identity of a worker");
  OF_RETURN_IF_ERROR(WriteAt(passed.fd_, kMemory, 0, bytes.data(), static_cast<int64_t>(bytes.size())));
  return passed;
}

PassedIdentity::PassedIdentity(PassedIdentity&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

PassedIdentity::~PassedIdentity() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<TlsIdentity> TakeIdentity(int fd) {
  TlsIdentity identity;
  if (fd < 0) return identity;
  const absl::StatusOr<std::string> bytes = ReadAll(fd);
  close(fd);
  OF_RETURN_IF_ERROR(bytes.status());
  absl::string_view left = *bytes;
  for (std::string* part : {&identity.authority, &identity.certificate, &identity.key}) {
    if (!TakePart(left, *part)) return absl::DataLossError(absl::StrCat("descriptor ", fd, " holds no identity"));
  }
  return identity;
}

}  // namespace oneflow
