#include "tools/control/scheduler/log_queries.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(5);
const absl::Time kAskedAt = absl::UnixEpoch();

pb::LogsAnswer Answer(int64_t request, int process, const std::string& text) {
  pb::LogsAnswer answer;
  answer.set_request(request);
  answer.mutable_log()->set_process(process);
  answer.mutable_log()->set_text(text);
  return answer;
}

std::vector<std::string> Texts(const pb::LogsReply& reply) {
  std::vector<std::string> texts;
  for (const pb::WorkerLog& log : reply.logs()) texts.push_back(log.text());
  return texts;
}

TEST(LogQueriesTest, AnswersWhenAllDaemonsHave) {
  LogQueries queries(kLimit);
  queries.Begin(1, 0, {{"a", 10}, {"b", 11}}, kAskedAt);
  queries.Answer(11, Answer(1, 1, "second"));
  EXPECT_THAT(queries.Take(kAskedAt), IsEmpty());
  queries.Answer(11, Answer(1, 0, "not its own"));
  queries.Answer(10, Answer(2, 0, "of no question"));
  EXPECT_THAT(queries.Take(kAskedAt), IsEmpty());
  queries.Answer(10, Answer(1, 0, "first"));
  const auto taken = queries.Take(kAskedAt);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].first, 1);
  EXPECT_THAT(Texts(taken[0].second), ElementsAre("first", "second"));
  EXPECT_THAT(queries.Take(kAskedAt + kLimit), IsEmpty());
}

TEST(LogQueriesTest, SaysWhichDaemonsAreLostOrLate) {
  LogQueries queries(kLimit);
  queries.Begin(1, 4, {{"a", 10}, {"b", std::nullopt}, {"c", 12}}, kAskedAt);
  queries.Lose(10);
  queries.Delay(absl::Seconds(1));
  EXPECT_THAT(queries.Take(kAskedAt + kLimit), IsEmpty());
  const auto taken = queries.Take(kAskedAt + kLimit + absl::Seconds(1));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_THAT(Texts(taken[0].second), ElementsAre("(its daemon was lost)\n", "(its daemon was lost)\n",
                                                  "(its daemon did not answer within 5s)\n"));
  EXPECT_EQ(taken[0].second.logs(0).process(), 4);
}

}  // namespace
}  // namespace oneflow
