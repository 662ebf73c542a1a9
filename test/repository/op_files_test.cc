// What a new op costs: the files that name it. An elementwise function has a row in elementwise_functions.h, a line in
// its documentation and one in a golden file. A fused op has a row in fusions.cc, kernels and cases. Of another op
// everything that can follow from its definition, its kernels and its facts (test/support/ops) does, so that it touches
// at most sixteen files:
//
//   oneflow_core/ops/x.cc, ops.h, README.md    oneflow_core/functional.{h,cc}    sbp/rules/x.cc if its rule is no text
//   kernels/families.h, cpu/x.cc, cuda/x.cu    test/support/ops/x.cc             test/parity/op_functions.py
//   test/golden/ops/gradients.txt
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/support/paths.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 16;

// Ops that nothing else is called after, of all kinds: with a function of the DSL or not, with a rule of its own or
// not, in a family of its own or not; and an elementwise op of the DSL that may be fused.
const std::vector<std::string> kOps = {
    "cumsum",    "take_along", "rms_norm_grad",   "extremum_count", "extremum_grad",      "gelu_grad", "heaviside",
    "bias_grad", "sum_to",     "max_pool2d_grad", "square_sum",     "softmax_grad_apply", "rsqrt"};

// "take_along" as the DSL, rules and functions name it.
std::string CamelCase(const std::string& op) {
  std::string name;
  for (size_t i = 0; i < op.size(); ++i) {
    if (op[i] == '_') continue;
    const bool first = i == 0 || op[i - 1] == '_';
    name += first ? static_cast<char>(std::toupper(op[i])) : op[i];
  }
  return name;
}

// The words of the sources of all rooms, by file.
std::map<std::string, std::set<std::string>> Words() {
  std::map<std::string, std::set<std::string>> words;
  const fs::path root = SourceDir();
  for (const char* room : {"oneflow_core", "sbp", "compiler", "kernels", "actor", "tools", "test", "proto"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string file = fs::relative(entry.path(), root).string();
      if (!entry.is_regular_file() || file == "test/repository/op_files_test.cc") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      std::string word;
      for (const char c : text.str() + ' ') {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
          word += c;
        } else if (!word.empty()) {
          words[file].insert(std::move(word));
          word.clear();
        }
      }
    }
  }
  return words;
}

// Of all that name the op, in the op table's way or as C++ does.
std::vector<std::string> FilesOf(const std::string& op, const std::map<std::string, std::set<std::string>>& words) {
  std::vector<std::string> files;
  const std::string name = CamelCase(op);
  for (const auto& [file, of_file] : words) {
    for (const std::string& word : {op, name, "k" + name, name + "Kernel", name + "Kernels", name + "Op"}) {
      if (of_file.count(word) == 0) continue;
      files.push_back(file);
      break;
    }
  }
  return files;
}

TEST(OpFilesTest, AnOpIsNamedInAtMostSixteenFiles) {
  const auto words = Words();
  EXPECT_GT(words.size(), 300);
  for (const std::string& op : kOps) {
    const std::vector<std::string> files = FilesOf(op, words);
    EXPECT_GE(files.size(), 4u) << op << " is no op";
    EXPECT_LE(files.size(), kMostFiles) << op << ": " << ::testing::PrintToString(files);
  }
}

TEST(OpFilesTest, AnElementwiseFunctionIsNamedInThreeFiles) {
  EXPECT_THAT(FilesOf("softsign", Words()),
              ::testing::ElementsAre("oneflow_core/elementwise_functions.h", "oneflow_core/ops/README.md",
                                     "test/golden/ops/gradients.txt"));
}

// Its row, its kernels, its cases.
TEST(OpFilesTest, AFusedOpIsNamedInFourFiles) {
  EXPECT_THAT(FilesOf("bias_add_tanh", Words()),
              ::testing::ElementsAre("kernels/cpu/bias.cc", "kernels/cuda/bias.cu", "oneflow_core/fusions.cc",
                                     "test/support/ops/fused.cc"));
}

// Its row, its message, its formula, its line in the documentation, what it is in PyTorch. (Tests of reading a job's
// optimizer and of all optimizers have it as an example.)
TEST(OpFilesTest, AnOptimizerIsNamedInFiveFiles) {
  const auto words = Words();
  std::set<std::string> files;
  for (const char* name : {"lion", "lion_update", "lion_rule"}) {
    for (std::string& file : FilesOf(name, words)) files.insert(std::move(file));
  }
  files.erase("test/tools/job/optimizer_test.cc");
  files.erase("test/laws/optimizers_test.cc");
  EXPECT_THAT(files, ::testing::ElementsAre("kernels/optimizer_updates.h", "oneflow_core/ops/README.md",
                                            "oneflow_core/optimizer_rules.cc", "proto/job.proto",
                                            "test/parity/op_functions.py"));
}

// Its file, the lists that have it, its message, its formula.
TEST(OpFilesTest, AnOptimizerMadeOfOpsIsNamedInFiveFiles) {
  EXPECT_THAT(FilesOf("lars_rule", Words()),
              ::testing::ElementsAre("oneflow_core/optimizer_rules.cc", "oneflow_core/optimizers/lars.cc",
                                     "oneflow_core/optimizers/optimizers.h"));
  EXPECT_THAT(FilesOf("lars", Words()), ::testing::ElementsAre("oneflow_core/optimizers/lars.cc", "proto/job.proto",
                                                               "test/laws/optimizers_test.cc"));
}

}  // namespace
}  // namespace oneflow
