// The arrows between rooms, read off the include lines: A -> B means that A may include B. A room may have rooms in it:
// a file is of the innermost.
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

using Rooms = std::set<std::string>;

Rooms And(Rooms rooms, const Rooms& more) {
  rooms.insert(more.begin(), more.end());
  return rooms;
}

const std::map<std::string, Rooms>& Arrows() {
  static const auto* const kArrows = [] {
    const Rooms kValues = {"sbp", "oneflow_core"};
    const Rooms kCompiler = {"compiler",
                             "compiler/schedule",
                             "compiler/select",
                             "compiler/passes",
                             "compiler/plan",
                             "compiler/lower",
                             "sbp",
                             "oneflow_core",
                             "proto"};
    const Rooms kEngine = And(kCompiler, {"compiler/explain", "actor", "kernels"});
    const Rooms kControl = And(kEngine, {"tools/job", "tools/control"});
    const Rooms kServers = {"tools/control/http", "tools/control/metrics", "tools/control/scheduler",
                            "tools/control/daemon"};
    const Rooms kStudy = And(kControl, {"tools/study"});
    return new std::map<std::string, Rooms>{
        {"oneflow_core", {}},
        {"sbp", {"oneflow_core"}},
        {"compiler/schedule", kValues},
        {"compiler/select", And(kValues, {"compiler"})},
        {"compiler/passes", And(kValues, {"compiler", "compiler/select", "compiler/schedule"})},
        {"compiler/plan", And(kValues, {"compiler", "compiler/schedule"})},
        {"compiler/lower", And(kCompiler, {"compiler/explain"})},
        {"compiler/explain", kCompiler},
        // The table of passes, and what all parts of the compiler share.
        {"compiler", And(kValues, {"compiler/passes", "compiler/schedule"})},
        {"kernels", {"oneflow_core"}},
        {"actor", {"kernels", "oneflow_core", "proto"}},
        {"tools/job", kEngine},
        {"tools/examples/plugin", {"actor", "kernels", "oneflow_core"}},  // of the installed package
        {"tools/control", And(kEngine, {"tools/job"})},
        {"tools/control/http", kControl},
        {"tools/control/metrics", And(kControl, {"tools/control/http"})},
        {"tools/control/daemon", And(kControl, {"tools/control/http", "tools/control/metrics"})},
        {"tools/control/scheduler", And(kControl, {"tools/control/http", "tools/control/metrics"})},
        {"tools/study", kControl},
        {"tools/bench", kStudy},
        {"tools/page", And(kStudy, {"tools/control/http", "tools/control/scheduler"})},
        {"tools/cli", And(And(kStudy, kServers), {"tools/bench", "tools/page"})},
    };
  }();
  return *kArrows;
}

// What a file includes, of ours and of libraries.
std::vector<std::string> Includes(const fs::path& file) {
  std::vector<std::string> result;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind("#include ", 0) == 0) result.push_back(line.substr(10, line.find_first_of("\">", 10) - 10));
  }
  return result;
}

// Of a path from the root: the innermost room of the table, or, where it is in none, its first folder.
std::string Room(const std::string& path) {
  for (size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    if (Arrows().count(path.substr(0, end)) > 0) return path.substr(0, end);
  }
  return path.substr(0, path.find('/'));
}

// Calls visit(room, relative path, include) for every include in every source of every room.
template <typename Visit>
int ForEachInclude(const Visit& visit) {
  const fs::path root = SourceDir();
  int files = 0;
  for (const char* top : {"oneflow_core", "sbp", "compiler", "kernels", "actor", "tools"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
      ++files;
      const std::string file = fs::relative(entry.path(), root).string();
      for (const std::string& include : Includes(entry.path())) visit(Room(file), file, include);
    }
  }
  return files;
}

TEST(ArrowsTest, NoRoomIncludesARoomThatItsArrowsDoNotReach) {
  const int files = ForEachInclude([](const std::string& room, const std::string& file, const std::string& include) {
    ASSERT_EQ(Arrows().count(room), 1u) << file << " is in no room that the table of arrows has";
    const std::string target = Room(include);
    const bool is_ours = Arrows().count(target) > 0 || target == "proto" || target == "test" || target == "tools";
    if (target == room || !is_ours) return;
    EXPECT_TRUE(Arrows().at(room).count(target) > 0)
        << file << " includes " << include << ": " << room << "/ may not include " << target << "/";
  });
  EXPECT_GT(files, 50) << "the rooms were not found under " << SourceDir();
}

TEST(ArrowsTest, TheCompilerSeesProtobufOnlyWhereItLowers) {
  ForEachInclude([](const std::string& room, const std::string& file, const std::string& include) {
    if (room.rfind("compiler", 0) != 0 || room == "compiler/lower") return;
    EXPECT_NE(Room(include), "proto") << file << " includes " << include << "; only compiler/lower/ may";
  });
}

// So that a program which links these rooms needs none of that.
TEST(ArrowsTest, WhatProgramsLinkHasNoDatabaseNoHttpAndNoCommandLine) {
  int elsewhere = 0;
  ForEachInclude([&](const std::string& room, const std::string& file, const std::string& include) {
    const bool linked = room == "tools/job" || room == "tools/control" || room == "tools/study";
    for (const char* library : {"sqlite3.h", "httplib.h", "prometheus/", "CLI/"}) {
      if (include.rfind(library, 0) != 0) continue;
      EXPECT_FALSE(linked) << file << " includes " << include;
      ++elsewhere;
    }
  });
  EXPECT_GT(elsewhere, 4) << "the servers and the command have them";
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
