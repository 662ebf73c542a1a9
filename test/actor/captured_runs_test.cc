#include "actor/captured_runs.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/actor/test_device.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Writes down what it is asked for. Launches while it captures belong to the piece of work.
class CapturingDevice : public TestDevice {
 public:
  CapturingDevice() : TestDevice(/*has_stream=*/true) {}

  bool captures() const override { return true; }
  const char* BeginCapture() override {
    capturing_ = true;
    return begin_error;
  }
  const char* EndCapture(std::unique_ptr<CapturedWork>* work) override {
    capturing_ = false;
    if (end_error != nullptr) return end_error;
    *work = std::make_unique<Work>(*this, std::exchange(captured_, {}));
    return nullptr;
  }
  void LaunchOne(const std::string& what) { (capturing_ ? captured_ : log).push_back(what); }

  const char* begin_error = nullptr;
  const char* end_error = nullptr;
  std::vector<std::string> log;  // launches: by itself "x", as a piece "[xy]"

 private:
  class Work : public CapturedWork {
   public:
    Work(CapturingDevice& device, std::vector<std::string> parts) : device_(device) {
      for (const std::string& part : parts) text_ += part;
    }
    const char* Launch() override {
      device_.log.push_back("[" + text_ + "]");
      return nullptr;
    }

   private:
    CapturingDevice& device_;
    std::string text_;
  };

  bool capturing_ = false;
  std::vector<std::string> captured_;
};

// An actor with one output of `slots`, whose every act launches "a<slot>" and "b".
class CapturedRunTest : public ::testing::Test {
 protected:
  void MakeActor(int slots, int acts_per_step = 1) {
    ActorSpec spec{.name = "h0", .acts_per_step = acts_per_step};
    spec.outputs.push_back({.register_id = 0, .slots = slots, .peers = {1}});
    actor_.emplace(std::move(spec));
    actor_->Grant(0, 1000);
  }

  absl::Status Act() {
    const int slot = actor_->output_slot(0);
    const absl::Status status = run_.Launch(
        *actor_, device_,
        [&] {
          device_.LaunchOne("a" + std::to_string(slot));
          device_.LaunchOne("b");
          return kernel_status_;
        },
        [] { return std::string("actor 'h0'"); });
    OutgoingMessages outbox;
    actor_->Act(outbox);
    EXPECT_OK(actor_->OnMessage({.kind = Message::Kind::kFreed, .number = outbox[0].number, .slot = slot}));
    return status;
  }
  std::vector<std::string> Acts(int n) {
    device_.log.clear();
    for (int i = 0; i < n; ++i) EXPECT_OK(Act());
    return device_.log;
  }

  CapturingDevice device_;
  CapturedRun run_{0, 4};
  std::optional<Actor> actor_;
  absl::Status kernel_status_;
};

TEST_F(CapturedRunTest, TheFirstActLaunchesOneByOneAndLaterOnesWhatWasCapturedForTheirSlots) {
  MakeActor(2);
  EXPECT_THAT(Acts(1), ElementsAre("a0", "b"));
  EXPECT_THAT(Acts(4), ElementsAre("[a1b]", "[a0b]", "[a1b]", "[a0b]"));
  EXPECT_EQ(run_.num_captured(), 2);
}

TEST_F(CapturedRunTest, TheFirstMicroBatchOfAStepIsKeptApart) {
  MakeActor(1, /*acts_per_step=*/3);
  Acts(9);
  EXPECT_EQ(run_.num_captured(), 2);
}

TEST_F(CapturedRunTest, SlotsInManyCombinationsAreLaunchedOneByOneBeyondABound) {
  MakeActor(40);
  Acts(80);
  EXPECT_EQ(run_.num_captured(), 16);
  EXPECT_THAT(Acts(1), ElementsAre("a0", "b")) << "the 16 of slots 1 to 16 are kept";
  EXPECT_THAT(Acts(1), ElementsAre("[a1b]"));
}

TEST_F(CapturedRunTest, WhatADeviceRefusesIsLaunchedOneByOneFromThenOn) {
  MakeActor(1);
  device_.end_error = "operation not permitted when stream is capturing";
  EXPECT_THAT(Acts(4), SizeIs(8));
  device_.end_error = nullptr;
  EXPECT_THAT(Acts(1), ElementsAre("a0", "b"));
  EXPECT_EQ(run_.num_captured(), 0);
}

TEST_F(CapturedRunTest, ErrorsOfLaunchesAreThoseOfTheAct) {
  MakeActor(1);
  Acts(1);
  kernel_status_ = absl::InternalError("no such kernel");
  EXPECT_THAT(Act(), StatusIs(absl::StatusCode::kInternal, HasSubstr("no such kernel")));
}

TEST_F(CapturedRunTest, AStreamThatCannotBeginIsAnError) {
  MakeActor(1);
  Acts(1);
  device_.begin_error = "the stream has failed";
  EXPECT_THAT(Act(), StatusIs(absl::StatusCode::kInternal, HasSubstr("the stream has failed")));
}

std::vector<std::pair<size_t, size_t>> Runs(const std::string& captured) {
  std::vector<bool> can;
  for (const char c : captured) can.push_back(c == 'x');
  std::vector<std::pair<size_t, size_t>> runs;
  for (const CapturedRun& run : RunsToCapture(can)) runs.emplace_back(run.begin(), run.end());
  return runs;
}

TEST(RunsToCaptureTest, AreNeighboursFromFourOn) {
  EXPECT_THAT(Runs(""), IsEmpty());
  EXPECT_THAT(Runs("xxx"), IsEmpty());
  EXPECT_THAT(Runs("xxxx"), ElementsAre(std::pair(0, 4)));
  EXPECT_THAT(Runs(".xxxxx.xx.xxxx"), ElementsAre(std::pair(1, 6), std::pair(10, 14)));
}

}  // namespace
}  // namespace oneflow
