// Golden files: expected texts in test/golden/, read by people and rewritten by the tests themselves.
//
//   EXPECT_GOLDEN("graph_text/classifier.graph", GraphToText(graph));
//
// Running a test with ONEFLOW_UPDATE_GOLDENS=1 in the environment writes the actual text instead of comparing; the diff
// is then reviewed like code.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow::testing {

inline bool UpdatesGoldens() {
  const char* update = std::getenv("ONEFLOW_UPDATE_GOLDENS");
  return update != nullptr && std::string(update) == "1";
}

inline void ExpectGolden(const std::string& path_below_golden, const std::string& actual, const char* file, int line) {
  const ::testing::ScopedTrace trace(file, line, "golden " + path_below_golden);
  const std::filesystem::path path = std::filesystem::path(SourceDir()) / "test/golden" / path_below_golden;
  if (UpdatesGoldens()) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << actual;
    EXPECT_TRUE(out.flush().good()) << "cannot write " << path;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good()) << "cannot read " << path << "; ONEFLOW_UPDATE_GOLDENS=1 writes it";
  std::ostringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(actual, expected.str()) << "if the new text is right, ONEFLOW_UPDATE_GOLDENS=1 writes it";
}

}  // namespace oneflow::testing

#define EXPECT_GOLDEN(path, actual) ::oneflow::testing::ExpectGolden((path), (actual), __FILE__, __LINE__)
