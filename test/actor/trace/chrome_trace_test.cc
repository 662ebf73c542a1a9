#include "actor/trace/chrome_trace.h"

#include "actor/data/data_file.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/actor/trace/played.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

Played PlayedPipeline() {
  TestPlan plan = testing::Pipeline(3, 2, 2);
  plan.plan().mutable_actors(1)->set_name("a \"quoted\\name\"\x01 \xc3\xa9");
  return Player(plan.set(),
                {.act_ns = [](int actor, int64_t act) { return 1000 * (actor + 1) + act; }, .message_ns = 123})
      .Play(4);
}

std::string TextOf(const std::string& path) {
  const DataFile file = std::move(DataFile::Open(path)).value();
  const std::vector<uint8_t> bytes = std::move(file.ReadAll()).value();
  return std::string(bytes.begin(), bytes.end());
}

class ChromeTraceTest : public ::testing::Test {
 protected:
  std::string Write(const Trace& trace, const std::string& name = "t.json") {
    EXPECT_OK(WriteChromeTrace(trace, dir_.File(name)));
    return dir_.File(name);
  }
  TestDir dir_;
};

TEST_F(ChromeTraceTest, IsReadBackToTheNanosecond) {
  const Trace trace = PlayedPipeline().trace;
  for (const char* name : {"t.json", "t.json.gz"}) {
    ASSERT_OK_AND_ASSIGN(const Trace read, ReadChromeTrace(Write(trace, name)));
    EXPECT_EQ(read.acts, trace.acts);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(read.head, trace.head));
  }
  EXPECT_LT(3 * std::filesystem::file_size(dir_.File("t.json.gz")), std::filesystem::file_size(dir_.File("t.json")));
}

// What the trace event format asks for, and what Perfetto's importer needs beyond: it reads no \u, binds an arrow's
// ends to the act that is open at their time on their thread, joins them by id, name and category, names threads by
// number.
TEST_F(ChromeTraceTest, IsWhatViewersAskFor) {
  const Played played = PlayedPipeline();
  const std::string text = TextOf(Write(played.trace));
  EXPECT_THAT(text.substr(0, text.find("\"oneflow\"")), Not(HasSubstr("\\u")));
  const Json json = Json::parse(text);
  EXPECT_EQ(text.find("{\"traceEvents\":["), 0u);  // what comes before it some versions do not pass
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> acts;  // by process and thread
  std::map<int, std::vector<Json>> arrows;                                     // by id
  std::map<int, std::string> thread_names;
  for (const Json& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    ASSERT_TRUE(event["pid"].is_number_unsigned() && event["pid"] > 0) << event;
    if (phase == "M") {
      if (event["name"] == "thread_name") {
        EXPECT_TRUE(thread_names.emplace(event["tid"], event["args"]["name"]).second) << event;
      }
      continue;
    }
    ASSERT_TRUE(event["ts"].is_number() && event["name"].is_string() && event["cat"].is_string()) << event;
    if (phase == "X") {
      acts[{event["pid"], event["tid"]}].push_back(
          {event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
    } else {
      arrows[event["id"]].push_back(event);
    }
  }
  EXPECT_EQ(acts.size(), 3u);
  for (const auto& [track, spans] : acts) {
    EXPECT_THAT(thread_names[track.second], ::testing::AnyOf("compute", "communication", "host"));
    for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first + 1e-6);
  }
  const auto within = [&](const Json& end) {
    const double ts = end["ts"];
    const auto& spans = acts[{end["pid"], end["tid"]}];
    return std::any_of(spans.begin(), spans.end(),
                       [&](const auto& span) { return span.first <= ts && ts < span.second; });
  };
  size_t expected = 0;
  for (const TracedAct& act : played.trace.acts) expected += act.cause == pb::FILLED || act.cause == pb::FREED;
  EXPECT_GT(expected, 10u);
  EXPECT_EQ(arrows.size(), expected);
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends[0]["ph"], "s");
    EXPECT_EQ(ends[1]["ph"], "f");
    EXPECT_EQ(ends[1]["bp"], "e");
    EXPECT_EQ(ends[0]["name"], ends[1]["name"]);
    EXPECT_EQ(ends[0]["cat"], ends[1]["cat"]);
    EXPECT_LE(ends[0]["ts"], ends[1]["ts"]);
    EXPECT_TRUE(within(ends[0]) && within(ends[1])) << ends[0] << ends[1];
  }
}

TEST_F(ChromeTraceTest, SaysForPeopleWhatAnActWaitedFor) {
  const std::string text = TextOf(Write(PlayedPipeline().trace));
  EXPECT_THAT(text, AllOf(HasSubstr("\"waited_for\":\"register 'out0' filled by 'stage0' on rank 0\""),
                          HasSubstr("\"waited_for\":\"the run\""), HasSubstr("rank 2 (cpu:2, process 0)")));
}

TEST_F(ChromeTraceTest, RefusesOtherFiles) {
  const auto error_of = [&](const std::string& contents) {
    return ReadChromeTrace(dir_.Write("bad.json", contents)).status();
  };
  EXPECT_THAT(ReadChromeTrace(dir_.File("none")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  const std::string good = TextOf(Write(PlayedPipeline().trace));
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const size_t at = text.find(what);
    EXPECT_NE(at, text.npos) << what;
    return text.replace(at, what.size(), instead);
  };
  ASSERT_OK(error_of(good));
  const struct {
    std::string contents;
    const char* error;
  } cases[] = {
      {"", "it is no JSON"},
      {"name: 'a job'", "it is no JSON"},
      {good.substr(0, good.size() / 2), "it is no JSON, or was cut off"},
      {"[1, 2]", "it has no text 'oneflow'"},
      {R"({"traceEvents":[{"ph":"X","ts":1,"dur":2,"pid":1,"tid":1,"name":"x"}]})", "it has no text 'oneflow'"},
      {R"({"traceEvents":[],"oneflow":7})", "it has no text 'oneflow'"},
      {R"({"traceEvents":[],"oneflow":"x"})", "its text 'oneflow'"},
      {with("\\\"version\\\":1", "\\\"version\\\":2"), "it has format version 2; ours is 1"},
      {with("\"act\":0", "\"act\":\"x\""), "an act has no number 'act'"},
      {with("\"ready\":0.000", "\"ready\":1e300"), "an act has no number 'ready'"},
      {with("\"cause\":\"START\"", "\"cause\":\"LUCK\""), "an act does not say its 'cause'"},
      {with("\"actor\":0", "\"actor\":4000000000"), "which has 3"},
      {with("\"step\":0", "\"step\":0.5"), "an act has no number 'step'"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(error_of(c.contents),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("bad.json"), HasSubstr(c.error))));
  }
}

TEST_F(ChromeTraceTest, SaysWhereItCannotWrite) {
  EXPECT_THAT(WriteChromeTrace(PlayedPipeline().trace, dir_.File("no/folder.json")),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no/folder.json")));
  EXPECT_THAT(WriteChromeTrace(PlayedPipeline().trace, "/dev/full"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/dev/full")));
}

}  // namespace
}  // namespace oneflow
