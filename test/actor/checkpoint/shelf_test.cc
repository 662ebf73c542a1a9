#include "actor/checkpoint/shelf.h"

#include <filesystem>
#include <fstream>

#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

std::vector<ShelvedCheckpoint> Checkpoints(absl::string_view kinds) {
  std::vector<ShelvedCheckpoint> checkpoints;
  for (const char kind : kinds) {
    checkpoints.push_back(
        {static_cast<int64_t>(10 * (checkpoints.size() + 1)), kind == 'g'   ? ShelvedCheckpoint::Kind::kGood
                                                              : kind == 'p' ? ShelvedCheckpoint::Kind::kPending
                                                                            : ShelvedCheckpoint::Kind::kBad});
  }
  return checkpoints;
}

TEST(StepsToRemoveTest, CountsWhatIsGoodAlone) {
  const struct {
    const char* kinds;  // of steps 10, 20, ...: good, pending or bad
    KeepRule rule;
    std::vector<int64_t> removed;
  } kCases[] = {
      {"gggg", {.last = 2}, {10, 20}},
      {"gggg", {.last = 2, .every = 20}, {10}},
      {"gggg", {.last = 0}, {}},
      {"g", {.last = 3}, {}},
      {"", {.last = 1}, {}},
      {"gggp", {.last = 1}, {10, 20}},  // what is pending takes nobody's place
      {"gpp", {.last = 1}, {}},
      {"gbbg", {.last = 1}, {10, 20, 30}},  // and what is damaged neither
      {"gbgp", {.last = 2}, {}},
      {"ggb", {.last = 1}, {10, 30}},  // passed over by a resume
      {"ggb", {.last = 3}, {30}},
      {"gb", {.last = 1, .every = 20}, {20}},
      {"bgg", {.last = 1, .every = 10}, {}},  // who keeps them for ever decides when they go
      {"ppb", {.last = 1}, {}},               // nothing is good yet
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(StepsToRemove(Checkpoints(c.kinds), c.rule), c.removed)
        << "'" << c.kinds << "', keep " << c.rule.last << ", every " << c.rule.every;
  }
}

class ShelfTest : public ::testing::Test {
 protected:
  void Write(int64_t step) const {
    OwnedState state;
    pb::CheckpointTensor& tensor = state.tensors.emplace_back();
    tensor.set_name("n");
    tensor.set_dtype(pb::I64);
    tensor.add_slices();
    state.num_bytes = 8;
    const auto writer = *CheckpointWriter::Create({.path = path()}, std::move(state));
    pb::CheckpointManifest head;
    head.set_step(step);
    EXPECT_OK(writer->Start(std::move(head), [](char* to) {
      std::fill(to, to + 8, 0);
      return absl::OkStatus();
    }));
    writer->Wait();
  }
  void Write(Shelf& shelf, int64_t step) const {
    shelf.Wrote(step);
    Write(step);
    EXPECT_OK(shelf.Tidy());
  }
  void Confirm(Shelf& shelf, int64_t step) const {
    shelf.Confirm(step);
    EXPECT_OK(shelf.Tidy());
  }
  std::string path() const { return dir_.File("c"); }
  std::vector<int64_t> Steps() const { return *ListCheckpoints(path()); }

  TestDir dir_;
};

TEST_F(ShelfTest, TheLastGoodOneStaysUntilTheNextIsGood) {
  Shelf shelf(path(), {.last = 1});
  Write(shelf, 1);
  Write(shelf, 2);
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  Confirm(shelf, 1);
  EXPECT_THAT(Steps(), ElementsAre(1, 2));
  Confirm(shelf, 2);
  EXPECT_THAT(Steps(), ElementsAre(2));
  Write(shelf, 3);
  EXPECT_THAT(Steps(), ElementsAre(2, 3));
  EXPECT_THAT(shelf.GiveUpPending(), ElementsAre(HasSubstr("removed")));
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_THAT(shelf.GiveUpPending(), IsEmpty());
}

TEST_F(ShelfTest, TheBestStaysUntilABetterOneIsGood) {
  const auto named = [&] { return ReadBest(path()).value_or(-2); };
  {
    Shelf shelf(path(), {.last = 1, .best = true});
    Write(shelf, 1);
    shelf.IsBest(1);
    EXPECT_EQ(named(), -1) << "nothing followed from it yet";
    Confirm(shelf, 1);
    EXPECT_EQ(named(), 1);
    Write(shelf, 2);
    Write(shelf, 3);
    Confirm(shelf, 3);
    EXPECT_THAT(Steps(), ElementsAre(1, 3));
    Write(shelf, 4);
    shelf.IsBest(4);
    EXPECT_THAT(Steps(), ElementsAre(1, 3, 4));
    EXPECT_EQ(named(), 1);
    Confirm(shelf, 4);
    EXPECT_THAT(Steps(), ElementsAre(4));
    EXPECT_EQ(named(), 4);
    Write(shelf, 5);
    Confirm(shelf, 5);
  }
  Shelf resumed(path(), {.last = 1, .best = true});
  resumed.WentOnFrom(5, /*confirmed=*/true);
  resumed.IsBest(4);  // as its manifest says
  Write(resumed, 6);
  Confirm(resumed, 6);
  EXPECT_THAT(Steps(), ElementsAre(4, 6));
  EXPECT_EQ(named(), 4);
  Shelf without(path(), {.last = 1});
  without.WentOnFrom(6, /*confirmed=*/true);
  Write(without, 7);
  Confirm(without, 7);
  EXPECT_THAT(Steps(), ElementsAre(7));
}

TEST_F(ShelfTest, ALabelThatNamesNoCheckpointIsRefused) {
  std::filesystem::create_directories(path());
  for (const char* text : {"", "../step-000000001", "step-x", "step--1", "best"}) {
    std::ofstream(path() + "/best") << text << "\n";
    EXPECT_THAT(ReadBest(path()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is no name of a checkpoint")));
  }
  EXPECT_OK(WriteBest(path(), 12));
  EXPECT_EQ(ReadBest(path()).value_or(-2), 12);
  EXPECT_OK(WriteBest(path(), -1));
  EXPECT_EQ(ReadBest(path()).value_or(-2), -1);
}

TEST_F(ShelfTest, WhatAResumePassedOverGoesWhenSomethingGoodIsWritten) {
  for (const int64_t step : {10, 20, 30, 40}) Write(step);
  Shelf shelf(path(), {.last = 2});
  shelf.WentOnFrom(20, /*confirmed=*/true);
  Write(shelf, 25);
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 25, 30, 40)) << "nothing goes for what may be bad";
  Confirm(shelf, 25);
  EXPECT_THAT(Steps(), ElementsAre(20, 25));
}

TEST_F(ShelfTest, AnOlderOneThatIsNotWholeKeepsNoPlace) {
  for (const int64_t step : {10, 20, 30}) Write(step);
  std::filesystem::remove(absl::StrCat(CheckpointFolder(path(), 20), "/", PieceName(0)));
  Shelf shelf(path(), {.last = 3});
  shelf.WentOnFrom(30, /*confirmed=*/true);
  Write(shelf, 40);
  Confirm(shelf, 40);
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 30, 40));
  Write(shelf, 50);
  Confirm(shelf, 50);
  EXPECT_THAT(Steps(), ElementsAre(30, 40, 50));
}

// A run that was killed may have left, as the last, a checkpoint from which nothing ever followed.
TEST_F(ShelfTest, WhatABrokenRunWentOnFromIsSetAsideUnlessItWasGood) {
  for (const bool confirmed : {true, false}) {
    Write(7);
    Write(8);
    Shelf shelf(path(), {.last = 3});
    shelf.WentOnFrom(8, confirmed);
    Write(shelf, 9);
    const std::vector<std::string> told = shelf.GiveUpPending();
    if (confirmed) {
      EXPECT_THAT(Steps(), ElementsAre(7, 8));
      EXPECT_THAT(told, ElementsAre(HasSubstr("removed")));
    } else {
      EXPECT_THAT(Steps(), ElementsAre(7));
      EXPECT_TRUE(std::filesystem::exists(absl::StrCat(CheckpointFolder(path(), 8), ".broken")));
      EXPECT_THAT(told, ElementsAre(HasSubstr("removed"), HasSubstr("is now")));
    }
  }
}

}  // namespace
}  // namespace oneflow
