#include "tools/cli/job_tables.h"

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/support/names.h"

namespace oneflow {
namespace {

pb::JobStatus AJob(int64_t number, pb::JobState state, const std::string& message) {
  pb::JobStatus job;
  job.set_job(number);
  job.set_name("gpt");
  job.set_state(state);
  job.set_message(message);
  job.set_processes(2);
  job.set_devices_per_process(4);
  job.set_attempt(1);
  job.set_attempts(3);
  job.set_device("cpu");
  return job;
}

TEST(JobsTableTest, HasALineAJobHoweverLongItsMessage) {
  const std::string table =
      JobsTable({AJob(9, pb::RUNNING, ""), AJob(10, pb::FAILED, "worker 1 died:\nits last words")}, /*colour=*/false);
  EXPECT_THAT(table, HasSubstr("job  name  state    size   attempt  submitted            message\n"));
  EXPECT_THAT(table, HasSubstr("\n  9  gpt   RUNNING  2 x 4  1/3      "));
  EXPECT_THAT(table, HasSubstr("\n 10  gpt   FAILED   2 x 4  1/3      "));
  EXPECT_THAT(table, HasSubstr("worker 1 died: (more: oneflow jobs describe 10)\n"));
  EXPECT_THAT(table, Not(HasSubstr("last words")));
}

TEST(JobsTableTest, ColoursStatesAloneAndObeysNoName) {
  pb::JobStatus job = AJob(1, pb::FAILED, "\x1b[2Jgone");
  const std::string table = JobsTable({job}, /*colour=*/true);
  EXPECT_THAT(table, HasSubstr("\x1b[31mFAILED\x1b[0m"));
  EXPECT_THAT(table, HasSubstr("?[2Jgone"));
}

TEST(JobsJsonTest, IsOneObjectALineWithEveryField) {
  const std::string text = JobsJson({AJob(1, pb::QUEUED, "waits"), AJob(2, pb::RUNNING, "")});
  const nlohmann::json first = nlohmann::json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(first.at("state"), "QUEUED");
  EXPECT_EQ(first.at("devices_per_process"), 4);
  EXPECT_EQ(first.at("finished_us"), "0") << "64 bits are text, as JSON of messages has them";
  EXPECT_EQ(nlohmann::json::parse(text.substr(text.find('\n') + 1)).at("message"), "");
}

TEST(JobTextTest, SaysWhereWorkersAreAndWhatItWaitsFor) {
  pb::DescribeReply about;
  *about.mutable_status() = AJob(7, pb::QUEUED, "2 processes of 4 cpu devices each; 4 are free");
  EXPECT_THAT(JobText(about), HasSubstr("waits: 2 processes of 4 cpu devices each; 4 are free\n"));
  EXPECT_THAT(JobText(about), HasSubstr("its config is no longer kept"));
  about.mutable_status()->set_state(pb::RUNNING);
  about.mutable_spec()->set_config("model { gpt {} }\n");
  pb::WorkerPlace& worker = *about.add_workers();
  worker.set_daemon("d0"), worker.set_pid(4711), worker.set_state("running");
  EXPECT_THAT(JobText(about), ContainsRegex("0 +d0 +4711 +0 +running\n"));
  EXPECT_THAT(JobText(about), HasSubstr("\n\nmodel { gpt {} }\n"));
  pb::FetchedValue& code = *about.add_codes();
  code.set_name("h0/mlp/up/weight"), code.set_step(199), code.add_values(6);
  EXPECT_THAT(JobText(about), ContainsRegex("matrix +code since step 200\nh0/mlp/up/weight +6\n"));
}

TEST(NodesTableTest, SaysWhatIsUsedAndWhatIsAway) {
  pb::Node node;
  node.set_name("d0"), node.set_host("h"), node.set_cpu_devices(4), node.set_used_cpu(3), node.set_drained(true);
  node.add_jobs(3), node.add_jobs(8);
  node.set_cores(64), node.set_memory_bytes(256'000'000'000), node.set_used_memory_bytes(12'340'000'000);
  for (const auto& [name, kind, speed] : {std::tuple("mlx5_0", "infiniband", 200'000), {"eth0", "ethernet", 2500}}) {
    pb::NetworkLink& link = *node.add_links();
    link.set_name(name), link.set_kind(kind), link.set_mbit_per_s(speed);
  }
  EXPECT_THAT(NodesTable({node}), ContainsRegex("d0 +h +up, drained +3/4 +0/0 +64 +12.3/256.0 +mlx5_0 200G infiniband, "
                                                "eth0 2.5G +3 8\n"));
  node.set_away(true);
  EXPECT_THAT(NodesTable({node}), HasSubstr("away, drained"));
}

}  // namespace
}  // namespace oneflow
