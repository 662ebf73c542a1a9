#include "tools/page/job_history.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using nlohmann::json;

// Gives events numbers and times: a millisecond for each.
class Story {
 public:
  void Value(const std::string& plan, const std::string& name, int64_t step, double value) {
    pb::JobEvent event;
    event.mutable_fetched()->set_plan(plan);
    event.mutable_fetched()->set_name(name);
    event.mutable_fetched()->set_step(step);
    event.mutable_fetched()->add_values(value);
    Add(event);
  }
  void State(pb::JobState state, const std::string& message = "") {
    pb::JobEvent event;
    event.mutable_state()->set_state(state);
    event.mutable_state()->set_message(message);
    Add(event);
  }
  void Done(const std::string& plan) {
    pb::JobEvent event;
    event.mutable_phase_done()->mutable_done()->mutable_run()->set_plan(plan);
    Add(event);
  }

  JobHistory history;

 private:
  void Add(pb::JobEvent& event) {
    event.set_time_us(1000 * next_);
    event.set_sequence(next_++);
    history.Add(event);
  }
  int64_t next_ = 0;
};

json CurveOfStory(const Story& story, const std::string& name) {
  return story.history.Json(json::object()).at("curves").at(name).at("points");
}

// As the page does.
void Apply(const json& told, json& mine) {
  for (const auto& [name, curve] : told.at("curves").items()) {
    json& points = mine["points"][name];
    if (!points.is_array()) points = json::array();
    points.erase(points.begin() + curve.at("from").get<int64_t>(), points.end());
    for (const json& point : curve.at("points")) points.push_back(point);
    mine["known"][name] = {curve.at("generation"), points.size()};
  }
}

TEST(JobHistoryTest, AMillionLossesAreAScreenful) {
  Story story;
  for (int64_t step = 0; step < 1'000'000; ++step) {
    story.Value("train", "loss", step, step == 777'777 ? -5 : std::sin(static_cast<double>(step) * 1e-5));
  }
  const json points = CurveOfStory(story, "train/loss");
  EXPECT_LE(points.size(), Curve::kMostPoints);
  EXPECT_GE(points.size(), Curve::kMostPoints / 2 - 1);
  EXPECT_LT(story.history.Json(json::object()).dump().size(), 400'000u);
  const int64_t stride = points[1][0].get<int64_t>() - points[0][0].get<int64_t>();
  const json& dip = points[777'777 / stride];
  EXPECT_EQ(dip[2], -5);  // whatever is thinned, a spike is seen
  EXPECT_NEAR(dip[1], std::sin(7.77777), 0.03);
}

TEST(JobHistoryTest, LossesThatAreNoNumbersAreGaps) {
  Story story;
  story.Value("train", "loss", 0, 2);
  story.Value("train", "loss", 1, std::numeric_limits<double>::quiet_NaN());
  story.Value("train", "loss", 2, 3);
  EXPECT_EQ(CurveOfStory(story, "train/loss").dump(), "[[1,2.0,2.0,2.0],[2,null,null,null],[3,3.0,3.0,3.0]]");
}

TEST(JobHistoryTest, EvaluationsAreMeansAtTheStepBeforeThem) {
  Story story;
  for (int step = 0; step < 5; ++step) story.Value("train", "loss", step, 1);
  story.Done("train");
  for (int batch = 0; batch < 4; ++batch) story.Value("evaluate", "loss", batch, batch);
  story.Done("evaluate");
  EXPECT_EQ(CurveOfStory(story, "validation/loss").dump(), "[[5,1.5,1.5,1.5]]");
}

TEST(JobHistoryTest, AStepsTimeIsAMeanOfARun) {
  Story story;
  for (int step = 0; step < 250; ++step) story.Value("train", "loss", step, 1);
  story.Done("train");  // what follows takes however long
  for (int batch = 0; batch < 1000; ++batch) story.Value("evaluate", "loss", batch, 1);
  story.Done("evaluate");
  for (int step = 250; step < 400; ++step) story.Value("train", "loss", step, 1);
  const json seconds = CurveOfStory(story, "step seconds");
  ASSERT_THAT(seconds, SizeIs(4));  // and what is left of the first run when it ends
  for (const json& point : seconds) EXPECT_DOUBLE_EQ(point[1], 0.001);
  EXPECT_EQ(seconds[0][0], 101);
  EXPECT_EQ(seconds[2][0], 250);
  EXPECT_EQ(seconds[3][0], 351);
}

TEST(JobHistoryTest, AnAttemptThatGoesOnTakesThePlaceOfWhatItDoesAgain) {
  Story story;
  for (int step = 0; step < 10; ++step) story.Value("train", "loss", step, 1);
  story.State(pb::QUEUED, "attempt 2 of 2 after: worker 0 was killed");
  story.State(pb::RUNNING);
  for (int step = 6; step < 8; ++step) story.Value("train", "loss", step, 2);
  const json points = CurveOfStory(story, "train/loss");
  ASSERT_THAT(points, SizeIs(8));
  EXPECT_EQ(points[5][1], 1);
  EXPECT_EQ(points[6][1], 2);
  const json told = story.history.Json(json::object());
  EXPECT_EQ(told.at("steps"), 8);
  EXPECT_THAT(told.at("events")[0].at("text").get<std::string>(), HasSubstr("QUEUED: attempt 2 of 2 after"));
}

// Whoever asks now and then, whenever that is, has what is there.
TEST(JobHistoryTest, WhatIsNewIsEnoughToHaveAll) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Story story;
    json mine = {{"points", json::object()}, {"known", json::object()}};
    int64_t step = 0;
    for (int i = 0; i < 12'000; ++i) {
      if (random() % 3000 == 0) step = random() % (step + 1);
      story.Value("train", "loss", step, static_cast<double>(random() % 1000));
      if (random() % 2) story.Value("train", "lr", step, 0.5);
      ++step;
      if (random() % 500 == 0) Apply(story.history.Json(mine["known"]), mine);
    }
    Apply(story.history.Json(mine["known"]), mine);
    for (const char* curve : {"train/loss", "train/lr", "step seconds"}) {
      EXPECT_EQ(mine["points"][curve], CurveOfStory(story, curve)) << curve;
    }
  }
}

TEST(JobHistoryTest, AskingForNonsenseIsAskingForAll) {
  Story story;
  for (int step = 0; step < 3; ++step) story.Value("train", "loss", step, 1);
  for (const char* known : {R"({"train/loss": 7})", R"({"train/loss": [0, -1]})", R"({"train/loss": ["a", 2]})",
                            R"({"train/loss": [0, 99999999999]})", R"({"other": [0, 2]})", "[]", "null"}) {
    const json told = story.history.Json(json::parse(known)).at("curves").at("train/loss");
    EXPECT_LE(told.at("from"), 2) << known;
    EXPECT_EQ(told.at("from").get<size_t>() + told.at("points").size(), 3u) << known;
  }
}

}  // namespace
}  // namespace oneflow
