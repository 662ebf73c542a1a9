#include "tools/daemon/log_tail.h"

#include <algorithm>
#include <fstream>

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

absl::string_view LastLines(absl::string_view text, int count) {
  size_t start = text.size();
  if (start > 0 && text[start - 1] == '\n') --start;  // it ends the last line
  while (start > 0 && (text[start - 1] != '\n' || --count > 0)) --start;
  return text.substr(start);
}

}  // namespace oneflow
