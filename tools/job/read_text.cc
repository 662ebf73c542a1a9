#include "tools/job/read_text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
// UTF-32 in the order of our processors begins with the mark of UTF-16, and in the other with two zeros.
constexpr absl::string_view kOtherMarks[] = {"\xff\xfe", "\xfe\xff", absl::string_view("\0\0\xfe\xff", 4)};

}  // namespace

absl::StatusOr<std::string> ReadText(absl::string_view what, const std::string& path) {
  const std::string where = absl::StrCat(what, " '", path, "': ");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return absl::InvalidArgumentError(where + "is a directory");
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    const int reason = errno;
    return absl::Status(reason == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
                        absl::StrCat(where, "cannot open: ", std::strerror(reason)));
  }
  std::ostringstream read;
  if (stream.peek() != std::ifstream::traits_type::eof()) read << stream.rdbuf();  // of nothing it makes a failure
  if (stream.bad() || read.fail()) return absl::InvalidArgumentError(where + "cannot be read");
  std::string text = std::move(read).str();
  if (absl::StartsWith(text, kUtf8Mark)) text.erase(0, kUtf8Mark.size());
  for (const absl::string_view mark : kOtherMarks) {
    if (!absl::StartsWith(text, mark)) continue;
    return absl::InvalidArgumentError(where + "begins with the byte-order mark of UTF-16 or UTF-32: save it as UTF-8");
  }
  return text;
}

}  // namespace oneflow
