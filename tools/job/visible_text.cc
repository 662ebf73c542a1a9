#include "tools/job/visible_text.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

// How many bytes at the front of `text` are one character of UTF-8; 0 if they are none.
size_t CharacterSize(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const size_t size = byte(0) >= 0xf5 ? 0 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  const bool longer_than_needed = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool no_character = (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  if (longer_than_needed || no_character) return 0;
  return size;
}

}  // namespace

std::string VisibleText(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const unsigned char first = text[0];
    const bool obeyed = size == 1 && (first == 0x7f || (first < 0x20 && first != '\n' && first != '\t'));
    if (size == 0 || obeyed) {
      absl::StrAppendFormat(&result, "\\x%02x", first);
    } else {
      absl::StrAppend(&result, text.substr(0, size));
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace oneflow
