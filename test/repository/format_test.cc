// Every source is formatted as .clang-format says.
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

TEST(FormatTest, ClangFormatHasNothingToChange) {
  const std::string command =
      "cd '" + SourceDir() +
      "' && git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format --dry-run 2>&1 | grep warning: "
      "| cut -d: -f1 | sort -u";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string files;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) files += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(files, "") << "run clang-format -i on these";
}

}  // namespace
}  // namespace oneflow
