#include "tools/bench/header_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr char kHeaders[] = "/usr/include/c++";
constexpr size_t kHeaderBytes = 3'660'000;

}  // namespace

absl::StatusOr<std::string> HeaderText() {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(kHeaders, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file()) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(stream), {});
    if (text.size() >= kHeaderBytes) break;
  }
  if (text.size() < kHeaderBytes) {
    return absl::NotFoundError(absl::StrCat("'", kHeaders, "' has ", text.size(), " bytes of headers of the C++ ",
                                            "library; ", kHeaderBytes, " are trained on"));
  }
  text.resize(kHeaderBytes);
  return text;
}

}  // namespace oneflow
