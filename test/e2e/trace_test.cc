// `oneflow run --trace`, and `oneflow trace`, as users meet them.
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

TEST(TraceTest, OfAJobOverTwoProcessesIsOneFileThatTheCommandsRead) {
  const Workspace work;
  const std::vector<std::string> run = Join({"run", work.GptJob()}, OnMesh("dp: 2 tp: 2", 2));
  for (const char* name : {"a.json", "b.json.gz"}) {
    const Outcome ran = work.Run(Join(run, {"--trace", work.Path(name)}));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("wrote " + work.Path(name)));
  }
  const nlohmann::json trace = nlohmann::json::parse(ReadFile(work.Path("a.json")));
  std::set<int> ranks;
  int64_t arrows = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ranks.insert(event["pid"].get<int>());
    arrows += event["ph"] == "s";
  }
  EXPECT_EQ(ranks.size(), 4u);
  EXPECT_GT(arrows, 100);
  const Outcome summary = work.Run({"trace", "summary", work.Path("b.json.gz")});
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_THAT(summary.out, AllOf(HasSubstr("plan 'train'"), HasSubstr("on 4 ranks in 2 processes"),
                                 HasSubstr("20 steps, of which 20 are whole"), HasSubstr("bottleneck: "),
                                 HasSubstr("critical path, by edge"), HasSubstr("rank 3")));
  const Outcome one = work.Run({"trace", "summary", work.Path("b.json.gz"), "--rank", "2"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("rank 2"), Not(HasSubstr("rank 3 "))));
  const Outcome compared = work.Run({"trace", "compare", work.Path("a.json"), work.Path("b.json.gz")});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_THAT(compared.out, AllOf(HasSubstr("step: "), HasSubstr("largest differences")));
  for (const auto& file : std::filesystem::directory_iterator(work.Path(""))) {
    EXPECT_THAT(file.path().filename().string(), AllOf(Not(HasSubstr(".part")), Not(HasSubstr(".partial"))));
  }
}

TEST(TraceTest, WrongFilesAndFlagsAreOneClearLine) {
  const Workspace work;
  const std::string bad = work.Write("bad.json", "{\"traceEvents\": []}");
  const std::string text = work.Write("no_json", "step 1 loss 2");
  const struct {
    std::vector<std::string> arguments;
    int exit_code;
    const char* error;
  } cases[] = {
      {{"trace", "summary", work.Path("none")}, 1, "cannot open"},
      {{"trace", "summary", bad}, 1, "it is no trace of a job"},
      {{"trace", "compare", text, bad}, 1, "it is no JSON"},
      {{"trace"}, 2, "oneflow trace"},
      {{"run", work.GptJob(), "--trace", work.Path("no/folder/t.json")}, 1, "trace.file: cannot write"},
      {{"run", work.GptJob(), "--set", "trace={megabytes:3}"}, 1, "trace.file: is missing"},
      {{"run", work.GptJob(), "--trace", "t.json", "--set", "trace.megabytes=0"}, 1, "trace.megabytes"},
  };
  for (const auto& c : cases) {
    const Outcome ended = work.Run(c.arguments);
    EXPECT_EQ(ended.exit_code, c.exit_code);
    EXPECT_THAT(ended.err, HasSubstr(c.error));
  }
}

}  // namespace
}  // namespace oneflow::e2e
