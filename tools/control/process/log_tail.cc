#include "tools/control/process/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace oneflow {

LogPart ReadPart(const std::string& path, std::optional<int64_t> offset, int64_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const int64_t size = file.tellg();
  const int64_t start = offset ? std::clamp<int64_t>(*offset, 0, size) : std::max<int64_t>(0, size - max_bytes);
  LogPart part{std::string(std::min(size - start, max_bytes), '\0')};
  file.seekg(start);
  file.read(part.text.data(), static_cast<std::streamsize>(part.text.size()));
  part.text.resize(file.gcount());
  part.next_offset = start + static_cast<int64_t>(part.text.size());
  if (!offset && start > 0) part.text.erase(0, part.text.find('\n') + 1);  // no newline: nothing is erased
  return part;
}

std::string ReadTail(const std::string& path, int64_t max_bytes) {
  return ReadPart(path, std::nullopt, max_bytes).text;
}

absl::Status ShortenLog(const std::string& path, int64_t most_bytes) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size <= most_bytes) {
    return absl::OkStatus();
  }
  const std::string begin = ReadPart(path, 0, most_bytes / 4).text;
  const std::string end = ReadTail(path, most_bytes / 4);
  const size_t lines = begin.rfind('\n');  // none: half a line is better than nothing
  const size_t kept = lines == std::string::npos ? begin.size() : lines + 1;
  const std::string rest = absl::StrCat("(", facts.st_size - kept - end.size(),
                                        " bytes were cut out here: a log may have ", most_bytes, ")\n", end);
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  const auto close_it = absl::MakeCleanup([file] { close(file); });
  size_t written = 0;
  bool good = file >= 0 && ftruncate(file, static_cast<off_t>(kept)) == 0;
  while (good && written < rest.size()) {
    const ssize_t count = write(file, rest.data() + written, rest.size() - written);
    good = count > 0 || (count < 0 && errno == EINTR);
    written += std::max<ssize_t>(count, 0);
  }
  return good ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("log '", path, "': cannot shorten it"));
}

absl::string_view LastLines(absl::string_view text, int count) {
  size_t start = text.size();
  if (start > 0 && text[start - 1] == '\n') --start;  // it ends the last line
  while (start > 0 && (text[start - 1] != '\n' || --count > 0)) --start;
  return text.substr(start);
}

}  // namespace oneflow
