#include "tools/bench/pytorch_case.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

class PyTorchAnswerTest : public ::testing::Test {
 protected:
  absl::StatusOr<PyTorchRound> Read(const std::string& text, int code = 0) {
    return ReadPyTorchAnswer(dir_.Write("answer.json", text), code);
  }

 private:
  TestDir dir_;
};

TEST_F(PyTorchAnswerTest, HasMedianTimeMemoryAndLosses) {
  const auto round = Read(R"({"title": "PyTorch 9 eager", "losses": [3, 2, 1], "step_seconds": [5, 1, 2],
                              "cpu_seconds": 1.5, "peak_bytes": 4096})");
  ASSERT_THAT(round.status(), IsOk());
  EXPECT_EQ(round->title, "PyTorch 9 eager");
  EXPECT_EQ(round->round.step_seconds, 2);
  EXPECT_EQ(round->round.counters.cpu_seconds, 1.5);
  EXPECT_EQ(round->round.counters.peak_bytes, 4096);
  EXPECT_THAT(round->round.losses, ElementsAre(3, 2, 1));
}

TEST_F(PyTorchAnswerTest, AModeThatItLacksIsUnimplementedForItsReason) {
  EXPECT_THAT(Read(R"({"reason": "no compiler"})", kCannot).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no compiler")));
}

TEST_F(PyTorchAnswerTest, AnythingElseIsAnError) {
  EXPECT_THAT(Read("{").status(), StatusIs(absl::StatusCode::kInternal, HasSubstr("is not a JSON object")));
  EXPECT_THAT(Read("[1]").status(), StatusIs(absl::StatusCode::kInternal, HasSubstr("is not a JSON object")));
  EXPECT_THAT(Read("{}").status(), StatusIs(absl::StatusCode::kInternal, HasSubstr("told no times")));
}

}  // namespace
}  // namespace oneflow
