// The arrows between rooms, read off the include lines: A -> B means that A may include B.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>>& Arrows() {
  static const auto* const kArrows = new std::map<std::string, std::set<std::string>>{
      {"oneflow_core", {}},
      {"sbp", {"oneflow_core"}},
      {"compiler", {"sbp", "oneflow_core", "proto"}},
      {"kernels", {"oneflow_core"}},
      {"actor", {"kernels", "oneflow_core", "proto"}},
      {"tools", {"compiler", "actor", "kernels", "sbp", "oneflow_core", "proto"}},
  };
  return *kArrows;
}

// The rooms and the libraries, by first path component, that a file's quoted includes name.
std::vector<std::string> Includes(const fs::path& file) {
  std::vector<std::string> result;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("#include \"", 0) == 0) result.push_back(line.substr(10, line.find('"', 10) - 10));
  }
  return result;
}

std::string Room(const std::string& path) { return path.substr(0, path.find('/')); }

// Calls visit(room, relative path, include) for every include in every source of every room.
template <typename Visit>
int ForEachInclude(const Visit& visit) {
  const fs::path root = SourceDir();
  int files = 0;
  for (const auto& [room, allowed] : Arrows()) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
      ++files;
      for (const std::string& include : Includes(entry.path())) {
        visit(room, fs::relative(entry.path(), root).string(), include);
      }
    }
  }
  return files;
}

TEST(ArrowsTest, NoRoomIncludesARoomThatItsArrowsDoNotReach) {
  const int files = ForEachInclude([](const std::string& room, const std::string& file, const std::string& include) {
    const std::string target = Room(include);
    if (target == room || (Arrows().count(target) == 0 && target != "proto" && target != "test")) return;
    EXPECT_TRUE(Arrows().at(room).count(target) > 0)
        << file << " includes " << include << ": " << room << "/ may not include " << target << "/";
  });
  EXPECT_GT(files, 50) << "the rooms were not found under " << SourceDir();
}

TEST(ArrowsTest, TheCompilerSeesProtobufOnlyWhereItLowers) {
  ForEachInclude([](const std::string& room, const std::string& file, const std::string& include) {
    if (room != "compiler" || file.rfind("compiler/lower/", 0) == 0) return;
    EXPECT_NE(Room(include), "proto") << file << " includes " << include << "; only compiler/lower/ may";
  });
}

TEST(ArrowsTest, CudaSourcesDoNotIncludeHeavyLibraries) {
  ForEachInclude([](const std::string&, const std::string& file, const std::string& include) {
    if (file.find(".cu") == std::string::npos) return;
    for (const char* heavy : {"absl/", "glog/", "google/"}) {
      EXPECT_NE(include.rfind(heavy, 0), 0u)
          << file << " includes " << include << ", which makes nvcc several times slower";
    }
  });
}

}  // namespace
}  // namespace oneflow
