#include "tools/daemon/log_tail.h"

#include <algorithm>
#include <fstream>

namespace oneflow {

std::string ReadTail(const std::string& path, int64_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const int64_t size = file.tellg();
  const int64_t start = std::max<int64_t>(0, size - max_bytes);
  std::string text(size - start, '\0');
  file.seekg(start);
  file.read(text.data(), text.size());
  text.resize(file.gcount());
  if (start > 0) text.erase(0, text.find('\n') + 1);  // no newline: nothing is erased
  return text;
}

absl::string_view LastLines(absl::string_view text, int count) {
  size_t start = text.size();
  if (start > 0 && text[start - 1] == '\n') --start;  // it ends the last line
  while (start > 0 && (text[start - 1] != '\n' || --count > 0)) --start;
  return text.substr(start);
}

}  // namespace oneflow
