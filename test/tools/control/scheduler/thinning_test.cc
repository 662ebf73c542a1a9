#include "tools/control/scheduler/thinning.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// The events of a job as they come.
class History {
 public:
  void Fetch(const std::string& plan, const std::string& name, int64_t step) {
    pb::FetchedValue& value = *Next().mutable_fetched();
    value.set_plan(plan);
    value.set_name(name);
    value.set_step(step);
  }
  // An evaluation over three batches in two processes.
  void Evaluate(int part) {
    for (int batch = 0; batch < 3; ++batch) Fetch("evaluate", "loss", batch);
    for (int process = 0; process < 2; ++process) Next().mutable_stats()->set_part(part);
    pb::PhaseDone& done = *Next().mutable_phase_done();
    done.set_part(part);
    done.mutable_done()->mutable_run();
  }
  void Tell() { Next().mutable_notice()->set_text("something"); }
  void Start() { Next().mutable_state()->set_state(pb::RUNNING); }

  // Takes away what is superfluous.
  void Thin() {
    Thinning thinning;
    for (const pb::JobEvent& event : events) thinning.Add(event);
    const std::vector<int64_t> gone = thinning.Superfluous();
    EXPECT_TRUE(std::is_sorted(gone.begin(), gone.end()));
    const std::set<int64_t> without(gone.begin(), gone.end());
    EXPECT_EQ(without.size(), gone.size());
    std::erase_if(events, [&](const pb::JobEvent& event) { return without.count(event.sequence()) > 0; });
  }
  std::vector<int64_t> Steps(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const pb::JobEvent& event : events) {
      if (event.fetched().plan() == "train" && event.fetched().name() == name) steps.push_back(event.fetched().step());
    }
    return steps;
  }
  std::vector<int64_t> Sequences() const {
    std::vector<int64_t> sequences;
    for (const pb::JobEvent& event : events) sequences.push_back(event.sequence());
    return sequences;
  }

  std::vector<pb::JobEvent> events;

 private:
  pb::JobEvent& Next() {
    pb::JobEvent& event = events.emplace_back();
    event.set_sequence(next_++);
    return event;
  }
  int64_t next_ = 0;
};

TEST(ThinningTest, AShortHistoryIsKeptWhole) {
  History history;
  for (int64_t step = 0; step < kLastKept + kStretches; ++step) history.Fetch("train", "loss", step);
  const std::vector<int64_t> all = history.Sequences();
  history.Thin();
  EXPECT_EQ(history.Sequences(), all);
}

TEST(ThinningTest, ALongCurveIsKeptEvenlyAndItsEndWhole) {
  History history;
  constexpr int64_t kSteps = 100'000;
  for (int64_t step = 0; step < kSteps; ++step) history.Fetch("train", "loss", step);
  history.Thin();
  const std::vector<int64_t> steps = history.Steps("loss");
  EXPECT_LE(static_cast<int64_t>(steps.size()), kLastKept + kStretches);
  EXPECT_GE(static_cast<int64_t>(steps.size()), kLastKept + kStretches / 2);
  EXPECT_EQ(steps.front(), 0);
  for (int64_t i = 0; i < kLastKept; ++i) EXPECT_EQ(steps[steps.size() - 1 - i], kSteps - 1 - i);
  for (size_t i = 1; i < steps.size() - kLastKept; ++i) EXPECT_EQ(steps[i] - steps[i - 1], 256);
}

TEST(ThinningTest, AnEvaluationIsKeptWholeOrNotAtAll) {
  History history;
  constexpr int kParts = 5000;
  for (int part = 0; part < kParts; ++part) history.Evaluate(part);
  history.Thin();
  std::set<int> parts;
  for (const pb::JobEvent& event : history.events) {
    if (event.has_phase_done()) parts.insert(event.phase_done().part());
  }
  EXPECT_LE(static_cast<int64_t>(parts.size()), kLastKept + kStretches);
  EXPECT_EQ(history.events.size(), parts.size() * 6);
  for (int part = kParts - kLastKept; part < kParts; ++part) EXPECT_EQ(parts.count(part), 1u);
}

TEST(ThinningTest, AnAttemptThatGoesBackIsACurveOfItsOwn) {
  History history;
  for (int64_t step = 0; step < 4000; ++step) history.Fetch("train", "loss", step);
  history.Start();
  for (int64_t step = 2000; step < 6000; ++step) history.Fetch("train", "loss", step);
  history.Thin();
  const std::vector<int64_t> steps = history.Steps("loss");
  const auto back = std::adjacent_find(steps.begin(), steps.end(), std::greater<>());
  ASSERT_NE(back, steps.end());
  EXPECT_EQ(*back, 3999);
  EXPECT_EQ(*std::next(back), 2000);
}

// Whoever thins often keeps what one who thins once does, and never what is no member of a series.
TEST(ThinningTest, OftenKeepsWhatOnceKeeps) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    History often, once;
    std::vector<int64_t> always;
    int64_t step = 0;
    int part = 0;
    const int64_t num_events = 2000 + random() % 6000, every = 1 + random() % 500;
    const auto both = [&](auto add) { add(often), add(once); };
    for (int64_t i = 0; i < num_events; ++i) {
      const int kind = static_cast<int>(random() % 1000);
      if (kind < 3) {
        both([&](History& history) { history.Tell(); });
        always.push_back(once.events.back().sequence());
      } else if (kind == 3) {
        step -= random() % (step + 1);
        both([&](History& history) { history.Start(); });
        always.push_back(once.events.back().sequence());
      } else if (kind < 60) {
        both([&](History& history) { history.Evaluate(part); });
        ++part;
      } else {
        step += 1 + (random() % 8 == 0 ? random() % 20 : 0);
        both([&](History& history) { history.Fetch("train", "loss", step); });
        if (step % 3 == 0) both([&](History& history) { history.Fetch("train", "rate", step); });
      }
      if (i % every == 0) often.Thin();
    }
    often.Thin();
    once.Thin();
    EXPECT_EQ(often.Sequences(), once.Sequences());
    EXPECT_THAT(once.Sequences(), IsSupersetOf(always));
    const std::vector<int64_t> kept = once.Sequences();
    once.Thin();
    EXPECT_EQ(once.Sequences(), kept) << "a second time takes nothing";
  }
}

}  // namespace
}  // namespace oneflow
