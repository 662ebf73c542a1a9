// The compiler asks what an op is by its definition (oneflow_core/op.h), not by its name: so another op with the same
// traits is treated alike. A name may be written to make a node of that op, never to recognise one.
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

// Written plans, which have names only, are read in compiler/lower/.
bool ReadsWrittenPlans(const std::string& file) { return file.rfind("compiler/lower/", 0) == 0; }

bool ComparesOpNames(const std::string& line) {
  static const auto* const kPattern =
      new std::regex(R"re((\.|->|\b)op(\(\))? *[!=]= *"|"[a-z_0-9]+" *[!=]= *[a-zA-Z_.()>\[\]-]*\bop\b)re");
  return std::regex_search(line, *kPattern);
}

TEST(OpNamesTest, AComparisonIsRecognised) {
  for (const char* line : {R"(if (node.op == "matmul") {)", R"(return instruction->op() != "boxing";)",
                           R"(return "matmul" == graph.node(id).op;)", R"(op == "cast" ||)"}) {
    EXPECT_TRUE(ComparesOpNames(line)) << line;
  }
  for (const char* line : {R"(node.op = "boxing";)", R"(if (node.name == "matmul") {)", R"(kind == OpKind::kCast)",
                           R"(if (pass == "autodiff") facts.differentiated = after;)"}) {
    EXPECT_FALSE(ComparesOpNames(line)) << line;
  }
}

TEST(OpNamesTest, TheCompilerComparesNone) {
  const fs::path root = SourceDir();
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "compiler")) {
    const std::string file = fs::relative(entry.path(), root).string(), extension = entry.path().extension();
    if ((extension != ".h" && extension != ".cc") || ReadsWrittenPlans(file)) continue;
    ++files;
    std::ifstream stream(entry.path());
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (!ComparesOpNames(line)) continue;
      ADD_FAILURE() << file << ":" << number
                    << " compares the name of an op; ask its definition (oneflow_core/op.h): " << line;
    }
  }
  EXPECT_GT(files, 100) << "compiler/ was not found under " << root;
}

}  // namespace
}  // namespace oneflow
