// Every target on its seeds and on inputs made of them. ONEFLOW_FUZZ_RUNS says on how many, ONEFLOW_FUZZ_SEED with
// which to begin; `test/fuzz/run` does it for hours, guided by what code an input reaches.
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "test/fuzz/memory_use.h"
#include "test/fuzz/target.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kUsualRuns = 300;
constexpr size_t kMostBytes = 1 << 20;

uint64_t FromEnvironment(const char* name, uint64_t usual) {
  const char* const text = std::getenv(name);
  uint64_t value = usual;
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &value)) << name << " is '" << text << "', which is no number";
  return value;
}

const std::vector<FuzzTarget>& AllTargets() {
  static const std::vector<FuzzTarget> targets = FuzzTargets();
  return targets;
}

// Whoever finds a crash wants the input that did it.
void Keep(absl::string_view input, const FuzzTarget& target) {
  const char* const folder = std::getenv("ONEFLOW_FUZZ_KEEP");
  if (folder == nullptr) return;
  std::ofstream(absl::StrCat(folder, "/", target.name), std::ios::binary | std::ios::trunc) << input;
}

void RunCounted(const FuzzTarget& target, absl::string_view input) {
  Keep(input, target);
  StartCounting();
  target.run(input);
  EXPECT_LE(MostMemory(), target.most_memory) << "for " << input.size() << " bytes";
}

class FuzzTest : public ::testing::TestWithParam<const char*> {
 protected:
  static const FuzzTarget& Target() {
    for (const FuzzTarget& target : AllTargets()) {
      if (target.name == GetParam()) return target;
    }
    CHECK(false) << "no target '" << GetParam() << "'";
    std::abort();
  }
};

TEST_P(FuzzTest, NeitherCrashesNorTakesAllMemory) {
  google::protobuf::LogSilencer silent;
  const FuzzTarget& target = Target();
  for (const std::string& seed : target.seeds) RunCounted(target, seed);
  const uint64_t first = FromEnvironment("ONEFLOW_FUZZ_SEED", 1),
                 runs = FromEnvironment("ONEFLOW_FUZZ_RUNS", kUsualRuns);
  std::vector<std::string> inputs = target.seeds;  // some of them changed more than once
  for (uint64_t seed = first; seed < first + runs && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("ONEFLOW_FUZZ_SEED=", seed));
    std::mt19937_64 random(seed);
    // Mostly small ones: there are more of them in an hour, and of what they are made of more is changed.
    const std::string& one = inputs[random() % inputs.size()];
    const std::string& other = inputs[random() % inputs.size()];
    const std::string& base = one.size() < other.size() ? one : other;
    const std::string input = Changed(target, base, inputs[random() % inputs.size()], seed, kMostBytes);
    RunCounted(target, input);
    if (seed % 4 != 0) continue;
    if (inputs.size() < target.seeds.size() + 16) {
      inputs.push_back(input);
    } else {
      inputs[target.seeds.size() + random() % 16] = input;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest,
                         ::testing::Values("config_text", "config", "graph", "schedule", "plan", "program",
                                           "safetensors", "safetensors_header", "safetensors_index", "checkpoint",
                                           "checkpoint_piece", "frame", "connection", "job_spec", "scheduler"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FuzzTargetsTest, EachIsTested) { EXPECT_EQ(AllTargets().size(), 15); }

}  // namespace
}  // namespace oneflow::testing
