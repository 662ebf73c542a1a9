// The examples, jobs that the project ships: each compiles, and the two whose point is a layout have it.
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

absl::StatusOr<pb::PlanSet> PlanOf(const std::string& path, const std::vector<std::string>& overrides = {}) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, LoadConfig(path, overrides));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  return CompileJob(job, ops);
}

std::string Example(const std::string& name) { return std::string(SourceDir()) + "/tools/examples/" + name + ".pbtxt"; }

int64_t MostBytes(const pb::PlanSet& plan) {
  int64_t most = 0;
  for (const pb::RankClass& of : plan.classes()) most = std::max<int64_t>(most, BytesOfZones(of));
  return most;
}

TEST(ExamplesTest, EachCompiles) {
  const TestDir dir;
  const std::string text = dir.File("text");  // in place of the one that the commands of the README make
  std::ofstream(text) << std::string(100000, 'a');
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SourceDir()) + "/tools/examples")) {
    if (entry.path().extension() != ".pbtxt") continue;
    SCOPED_TRACE(entry.path());
    std::vector<std::string> overrides;
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "gpt") || absl::StartsWith(name, "llama")) overrides = {"data.text.path=" + text};
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, PlanOf(entry.path(), overrides));
    EXPECT_GT(plan.plans_size(), 0);
    ++examples;
  }
  EXPECT_GE(examples, 6);
}

TEST(ExamplesTest, SplitTablesNeedAFractionOfTheMemoryOfCopies) {
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet copies,
                       PlanOf(Example("wide_deep"), {"model.wide_deep.table_split=none", "mesh={dp:4}"}));
  for (const char* split : {"rows", "columns"}) {
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet parts,
                         PlanOf(Example("wide_deep"), {std::string("model.wide_deep.table_split=") + split}));
    EXPECT_LT(MostBytes(parts), 0.3 * static_cast<double>(MostBytes(copies))) << split;
  }
}

}  // namespace
}  // namespace oneflow
