// `oneflow compile` and `oneflow plan show`: what would run, without running it.
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"

namespace oneflow::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string HashIn(const std::string& text) {
  const size_t at = text.find("sha256 ");
  return at == std::string::npos ? "no hash in: " + text : text.substr(at, 7 + 64);
}

TEST(PlanTest, APlanIsAFunctionOfItsJob) {
  const Workspace work;
  const std::vector<std::string> compile = Join({"compile", work.GptJob()}, OnMesh("pp: 2 dp: 2 tp: 2", 2));
  const Outcome first = work.Run(Join(compile, {"-o", work.Path("first")}));
  const Outcome second = work.Run(Join(compile, {"--output", work.Path("second")}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(HashIn(first.out).size(), 7 + 64) << first.out;
  EXPECT_EQ(HashIn(first.out), HashIn(second.out));
  EXPECT_TRUE(ReadFile(work.Path("first")) == ReadFile(work.Path("second")));
  EXPECT_NE(HashIn(work.Run(Join(compile, {"--set", "train.batch_size=16"})).out), HashIn(first.out));
}

TEST(PlanTest, AShownPlanIsTheSameFromItsFileAndItsJob) {
  const Workspace work;
  const std::string job = work.GptJob();
  ASSERT_EQ(work.Run({"compile", job, "--set", "mesh.dp=2", "-o", work.Path("plan")}).exit_code, 0);
  const Outcome from_file = work.Run({"plan", "show", work.Path("plan")});
  const Outcome from_job = work.Run({"plan", "show", job, "--set", "mesh.dp=2"});
  EXPECT_EQ(from_file.exit_code, 0) << from_file.err;
  EXPECT_EQ(from_file.out, from_job.out);
  for (const char* shown : {"rank", "private", "wte/weight", "registers", "actors", "matmul"}) {
    EXPECT_THAT(from_file.out, HasSubstr(shown));
  }
}

TEST(PlanTest, GraphsArePrintedAfterAPass) {
  const Workspace work;
  const Outcome one = work.Run({"compile", work.GptJob(), "--set", "mesh.dp=2", "--dump-after", "autodiff"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("# after autodiff\ngraph \"train\"\n"));
  EXPECT_THAT(one.out, Not(HasSubstr("# after insert-boxing")));
  const Outcome all = work.Run({"compile", work.GptJob(), "--set", "mesh.dp=2", "--dump-after", "all"});
  EXPECT_THAT(all.out, HasSubstr("# after autodiff\n"));
  EXPECT_THAT(all.out, HasSubstr("# after insert-boxing\n"));
}

}  // namespace
}  // namespace oneflow::e2e
