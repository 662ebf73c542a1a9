// Training that begins with smaller batches (train.ramp), in steps of 2, 4 and 6 samples of micro-batches of 2.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/losses.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

// Steps of so many micro-batches, up to `steps` of kComparedSteps.
std::vector<std::string> Batches(int micro_batches, size_t steps) {
  return Join(Join(Set("train.batch_size", absl::StrCat(2 * micro_batches)),
                   Set("train.micro_batches", absl::StrCat(micro_batches))),
              Join(Set("train.steps", absl::StrCat(steps)), Set("train.schedule.steps", absl::StrCat(kComparedSteps))));
}

// Four steps of 2 samples, two of 4, the others of 6.
std::vector<std::string> Ramp() {
  return Join(Batches(3, kComparedSteps), Set("train.ramp", "{start: 2 increment: 2 samples: 16}"));
}

class RampTest : public ::testing::Test {
 protected:
  std::vector<double> Losses(const std::string& folder, const std::vector<std::string>& settings) const {
    return work_.Losses(work_.GptJob(),
                        Join(Set("checkpoint", absl::StrCat("{path: '", work_.Path(folder), "'}")), settings));
  }
  // Ended by the fifth step, the first of 4 samples, and resumed, the rest with `then` as well.
  std::vector<double> InTwoParts(const std::string& folder, const std::vector<std::string>& first,
                                 const std::vector<std::string>& then) const {
    std::vector<double> losses = Losses(folder, Join(first, Set("train.stop", "{samples: 192}")));
    EXPECT_THAT(losses, SizeIs(5)) << "four steps of 2 samples and one of 4, each of 16 tokens";
    const std::vector<double> rest = Losses(folder, Join(then, {"--resume"}));
    losses.insert(losses.end(), rest.begin(), rest.end());
    return losses;
  }

  const Workspace work_;
};

TEST_F(RampTest, IsAJobAfterTheOtherToTheBit) {
  std::vector<double> apart = Losses("apart", Batches(1, 4));
  for (const auto& [micro_batches, steps] : {std::pair<int, size_t>(2, 6), {3, kComparedSteps}}) {
    const std::vector<double> more = Losses("apart", Join(Batches(micro_batches, steps), {"--resume"}));
    apart.insert(apart.end(), more.begin(), more.end());
  }
  ASSERT_THAT(apart, SizeIs(kComparedSteps));
  EXPECT_EQ(Losses("whole", Ramp()), apart);
  EXPECT_EQ(InTwoParts("parts", Ramp(), Ramp()), apart);
}

TEST_F(RampTest, ProcessesLearnAsOneAlsoIfTheyEndWithinASize) {
  const std::vector<double> alone = Losses("alone", Ramp());
  for (const char* mesh : {"dp: 2", "pp: 2"}) {
    SCOPED_TRACE(mesh);
    const std::vector<std::string> ramp = Join(Ramp(), OnMesh(mesh, 2));
    const std::vector<double> whole = Losses(absl::StrCat("whole ", mesh), ramp);
    ExpectSameLosses(whole, alone);
    EXPECT_EQ(InTwoParts(absl::StrCat("parts ", mesh), ramp, ramp), whole);
  }
  // What one process began two go on with.
  ExpectSameLosses(InTwoParts("handed on", Ramp(), Join(Ramp(), OnMesh("dp: 2", 2))), alone);
}

}  // namespace
}  // namespace oneflow::e2e
