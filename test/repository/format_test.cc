// Every source is formatted as .clang-format says, comments included.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

struct Said {
  std::string text;  // both streams
  int status = 0;    // of the last command that failed
};

Said Shell(const std::string& command) {
  FILE* const pipe = popen(("exec 2>&1; cd '" + SourceDir() + "'; " + command).c_str(), "r");
  if (pipe == nullptr) return {"no shell", -1};
  Said said;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) said.text += buffer;
  said.status = pclose(pipe);
  return said;
}

// Other versions break lines elsewhere.
TEST(FormatTest, ClangFormatIsTheVersionThatTheSourcesAreFormattedWith) {
  EXPECT_THAT(Shell("clang-format --version").text, HasSubstr("version 14.")) << "tools/dev/setup.sh installs it";
}

TEST(FormatTest, ClangFormatHasNothingToChange) {
  // Git's own status is asked for apart, so that an empty list is not taken for a tidy tree.
  const Said files = Shell("git ls-files '*.h' '*.cc' '*.cu' '*.cuh'");
  ASSERT_EQ(files.status, 0) << files.text;
  ASSERT_THAT(files.text, HasSubstr("test/repository/format_test.cc\n"));
  const Said formatted = Shell("git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror");
  EXPECT_TRUE(formatted.status == 0 && formatted.text.empty()) << "run clang-format -i on these:\n" << formatted.text;
}

// clang-format leaves comments, macros and long strings as they are, and looks at no other language. A graph that a
// test has as text may have longer lines.
TEST(FormatTest, LinesKeepTheWidth) {
  constexpr ptrdiff_t kLineWidth = 120;
  const std::string plan = "test/compiler/explain/example.h";
  std::istringstream files(
      Shell("git ls-files '*.h' '*.cc' '*.cu' '*.cuh' '*.proto' '*.py' '*.cmake' '*CMakeLists.txt' "
            "'*.sh' .ci tools/test tools/quickstart tools/dev test/fuzz/run test/install/run "
            "':!*.json'")
          .text);
  int lines = 0;
  for (std::string file; std::getline(files, file);) {
    if (file == plan) continue;
    std::ifstream stream(SourceDir() + "/" + file);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      ++lines;
      // Characters, not bytes: those of UTF-8 that go on with one do not count.
      const ptrdiff_t width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      EXPECT_LE(width, kLineWidth) << file << ":" << number << ": " << line;
    }
  }
  EXPECT_GT(lines, 50'000);
}

}  // namespace
}  // namespace oneflow
