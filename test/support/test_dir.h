// A directory of its own for a test, removed with everything in it at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "glog/logging.h"

namespace oneflow::testing {

class TestDir {
 public:
  explicit TestDir(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "oneflow-test-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr) << name;
    path_ = name;
  }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }
  // Writes `contents` and returns the file's path.
  std::string Write(const std::string& name, const std::string& contents) const {
    std::ofstream(path_ / name, std::ios::binary) << contents;
    return File(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace oneflow::testing
