#include "tools/control/launch/allocation.h"

#include <map>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "tools/control/launch/joined_job.h"
#include "tools/control/launch/local_address.h"

namespace oneflow {
namespace {

using Values = std::map<std::string, std::string>;

absl::StatusOr<Allocation> Found(const Values& values) {
  return FindAllocation([&values](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

// What srun -N3 -n5 -c2 says to its last task.
Values OfSlurmTask() {
  return {{"SLURM_PROCID", "4"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_NODEID", "2"},
          {"SLURM_JOB_ID", "1234"},
          {"SLURM_STEP_ID", "1"},
          {"SLURM_STEP_NODELIST", "gpu-[007-008,12],m1"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_CPUS_ON_NODE", "8"}};
}

TEST(AllocationTest, SlurmSaysWhichTaskOfWhichJob) {
  ASSERT_OK_AND_ASSIGN(const Allocation found, Found(OfSlurmTask()));
  EXPECT_EQ(found.launcher, "Slurm");
  EXPECT_EQ(found.task, 4);
  EXPECT_EQ(found.tasks, 5);
  EXPECT_EQ(found.nodes, 3);
  EXPECT_TRUE(found.uneven);
  EXPECT_EQ(found.first, "gpu-007");
  EXPECT_EQ(found.cores, 8) << "all of a node for its one task";
  EXPECT_EQ(found.number, 1234 * 7 + 1);
  EXPECT_FALSE(found.restarted);
  Values requeued = OfSlurmTask();
  requeued["SLURM_RESTART_COUNT"] = "2";
  requeued["SLURM_CPUS_PER_TASK"] = "3";
  ASSERT_OK_AND_ASSIGN(const Allocation again, Found(requeued));
  EXPECT_TRUE(again.restarted);
  EXPECT_EQ(again.cores, 3);
}

TEST(AllocationTest, WhatMakesNoSenseIsNamed) {
  Values values = OfSlurmTask();
  values["SLURM_PROCID"] = "5";
  EXPECT_THAT(Found(values).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "Slurm says that this is task 5 of 5"));
  values["SLURM_PROCID"] = "first";
  EXPECT_THAT(Found(values).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, "SLURM_PROCID is 'first', which is no number from 0 on"));
  values = OfSlurmTask();
  values["SLURM_STEP_TASKS_PER_NODE"] = "2(x99999999)";
  EXPECT_THAT(Found(values).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'2(x99999999)' for 3 nodes")));
  values = OfSlurmTask();
  values.erase("SLURM_STEP_NODELIST");
  EXPECT_THAT(Found(values).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("names no host")));
  values = OfSlurmTask();
  values["SLURM_PROCID"] = "0";
  EXPECT_THAT(Found(values).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("task 0 is on node 2 of the step")));
  EXPECT_THAT(Found({}).status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no batch system")));
}

TEST(AllocationTest, OthersSayLessAndTheFirstHostMayBeGiven) {
  Values values = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  ASSERT_OK_AND_ASSIGN(Allocation found, Found(values));
  EXPECT_EQ(found.nodes, 2);
  EXPECT_EQ(found.first, "");
  values["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  ASSERT_OK_AND_ASSIGN(found, Found(values));
  EXPECT_EQ(found.first, "127.0.0.1") << "all are here";
  values = {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "2"}};
  ASSERT_OK_AND_ASSIGN(found, Found(values));
  EXPECT_TRUE(found.uneven);
  values = {{"JOB_COMPLETION_INDEX", "1"}, {"ONEFLOW_TASKS", "2"}, {"ONEFLOW_FIRST", "train-0.train"}};
  ASSERT_OK_AND_ASSIGN(found, Found(values));
  EXPECT_EQ(found.first, "train-0.train");
  EXPECT_EQ(found.nodes, 2);
  EXPECT_TRUE(found.restarted) << "there may have been another pod";
}

TEST(AllocationTest, ListsOfHostsBeginWithTheFirst) {
  EXPECT_EQ(FirstHost("node7"), "node7");
  EXPECT_EQ(FirstHost("a,b"), "a");
  EXPECT_EQ(FirstHost("n[007-9,12],m"), "n007");
  EXPECT_EQ(FirstHost("rack[2,4]-n[10-19].site"), "rack2-n10.site");
  EXPECT_EQ(FirstHost("127.0.0.[2-3]"), "127.0.0.2");
  EXPECT_EQ(FirstHost(""), "");
  EXPECT_EQ(FirstHost("n[1-"), "");
}

TEST(JoinedJobTest, WhatTheConfigLeavesOpenIsTheAllocations) {
  SourcedConfig config;
  const Allocation even = {.launcher = "Slurm", .tasks = 4, .nodes = 2, .cores = 3};
  EXPECT_OK(FitToAllocation(even, config));
  EXPECT_EQ(config.config.cluster().processes(), 4);
  EXPECT_EQ(config.config.cluster().cores_per_process(), 3);
  ASSERT_EQ(config.config.cluster().hosts_size(), 1);
  EXPECT_EQ(config.config.cluster().hosts(0).count(), 2);

  config.config.mutable_cluster()->clear_hosts();
  config.config.mutable_cluster()->set_processes(3);
  config.config.mutable_cluster()->set_cores_per_process(1);
  const Allocation uneven = {.launcher = "Slurm", .tasks = 3, .nodes = 2, .uneven = true, .cores = 3};
  EXPECT_THAT(FitToAllocation(uneven, config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("3 tasks on 2 nodes, not as many on each")));
  EXPECT_EQ(config.config.cluster().cores_per_process(), 1) << "what the config says stays";
  config.config.mutable_cluster()->add_hosts();
  EXPECT_OK(FitToAllocation(uneven, config));
  EXPECT_THAT(FitToAllocation(even, config),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("processes is 3; Slurm has begun 4 tasks")));
}

TEST(LocalAddressTest, AddressesAreNumbersAndOnesOwnIsOnTheWay) {
  EXPECT_EQ(*NumericAddress("127.0.0.2"), "127.0.0.2");
  EXPECT_EQ(*AddressTowards("127.0.0.2"), "127.0.0.1");
  EXPECT_EQ(WithPort("10.0.0.7", 7000), "10.0.0.7:7000");
  EXPECT_EQ(WithPort("fd00::7", 7000), "[fd00::7]:7000");
  EXPECT_THAT(NumericAddress("no.such.host.invalid").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("host 'no.such.host.invalid'")));
}

}  // namespace
}  // namespace oneflow
