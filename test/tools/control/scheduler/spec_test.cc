#include "tools/control/scheduler/spec.h"

#include <functional>

#include "compiler/lower/compile.h"
#include "gmock/gmock.h"
#include "proto/plan.pb.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"

namespace oneflow {
namespace {

// Changes the plan inside a spec, keeping the hash right.
void ChangePlan(pb::JobSpec& spec, const std::function<void(pb::PlanSet&)>& change) {
  pb::PlanSet plan;
  ASSERT_TRUE(plan.ParseFromString(spec.plan()));
  change(plan);
  spec.set_plan(*SerializePlan(plan));
  spec.set_plan_hash(PlanHash(spec.plan()));
}

// The first phase, made one of training.
pb::TrainLoop& Loop(pb::JobSpec& spec) {
  pb::TrainLoop& loop = *spec.mutable_phases(0)->mutable_train();
  loop.set_plan("train");
  return loop;
}

TEST(ValidateSpecTest, AcceptsAJobThatFitsItsPlan) {
  EXPECT_OK(ValidateSpec(EmptyJob(1, 1)));
  EXPECT_OK(ValidateSpec(EmptyJob(2, 4)));
}

TEST(ValidateSpecTest, NamesWhatIsWrongAndBothValues) {
  const struct {
    std::function<void(pb::JobSpec&)> spoil;
    std::string error;
  } cases[] = {
      {[](pb::JobSpec& s) { s.set_processes(0); }, "processes is 0; it must be at least 1"},
      {[](pb::JobSpec& s) { s.set_processes(INT32_MAX); }, "processes is 2147483647; it may be up to 65536"},
      {[](pb::JobSpec& s) { s.set_processes(3); },
       "the plan has 4 ranks, 2 per process; the job has 3 processes of 2 devices"},
      {[](pb::JobSpec& s) { s.set_devices_per_process(1025); }, "devices_per_process is 1025; it may be up to 1024"},
      {[](pb::JobSpec& s) { s.set_cores_per_process(-3); }, "cores_per_process is -3; it must be at least 0"},
      {[](pb::JobSpec& s) { s.set_name(""); }, "name is empty"},
      {[](pb::JobSpec& s) { s.set_name(std::string(201, 'x')); }, "name has 201 bytes; it may have up to 200"},
      {[](pb::JobSpec& s) { s.set_name("a\x1b[2Jb"); }, "name 'a\\x1b[2Jb' has control characters"},
      {[](pb::JobSpec& s) { s.set_devices_per_process(-1); }, "devices_per_process is -1"},
      {[](pb::JobSpec& s) { s.set_device("tpu"); }, "device is 'tpu'; it may be 'cpu' or 'cuda'"},
      {[](pb::JobSpec& s) { s.set_device("cuda"); }, "the plan is for 'cpu' devices; the job asks for 'cuda'"},
      {[](pb::JobSpec& s) { s.set_plan_hash("00"); }, "the spec says '00'"},
      {[](pb::JobSpec& s) { s.set_plan("\xff\xff"), s.set_plan_hash(PlanHash(s.plan())); },
       "the plan (2 bytes) is not a serialised PlanSet"},
      {[](pb::JobSpec& s) { ChangePlan(s, [](pb::PlanSet& plan) { plan.set_version(77); }); },
       "the plan has format version 77; this scheduler reads 10"},
      {[](pb::JobSpec& s) { ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_hosts()->set_num_ranks(6); }); },
       "the plan has 6 ranks, 2 per process; the job has 2 processes of 2 devices"},
      {[](pb::JobSpec& s) { ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_hosts()->set_ranks_per_process(1); }); },
       "the plan has 4 ranks, 1 per process; the job has 2 processes of 2 devices"},
      {[](pb::JobSpec& s) {
         ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_hosts()->mutable_groups(0)->set_devices(3); });
       },
       "the plan: "},
      {[](pb::JobSpec& s) { ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_classes(0)->add_ranks(4); }); },
       "the plan: class 0: rank 4 is not one of 4"},
      {[](pb::JobSpec& s) {
         ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_classes(0)->add_zones()->set_bytes(-7); });
       },
       "zone of -7 bytes"},
      {[](pb::JobSpec& s) { ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_classes(0)->set_host_bytes(-1); }); },
       "the plan: class 0: -1 bytes of its host and 0 of libraries"},
      {[](pb::JobSpec& s) {
         ChangePlan(s, [](pb::PlanSet& plan) { plan.mutable_plans(0)->add_actors()->set_grid(3); });
       },
       "the plan: plan 'train': actor '': grid 3 is not one of 1"},
      {[](pb::JobSpec& s) { s.clear_phases(); }, "the job has no phases"},
      {[](pb::JobSpec& s) { s.add_phases(); }, "phase 1: it says neither what to run nor what to save"},
      {[](pb::JobSpec& s) { s.mutable_phases(0)->mutable_run()->set_plan("x"); },
       "phase 0: the plan set has no plan 'x'"},
      {[](pb::JobSpec& s) { s.mutable_phases(0)->mutable_run()->set_steps(-1); }, "phase 0: steps is -1"},
      {[](pb::JobSpec& s) { s.mutable_phases(0)->mutable_run()->set_first_step(-2); }, "phase 0: first_step is -2"},
      {[](pb::JobSpec& s) { s.mutable_phases(0)->mutable_save()->set_path("w"); }, "save path 'w' is not absolute"},
      {[](pb::JobSpec& s) { s.mutable_phases(0)->mutable_trace()->set_path("t"); }, "trace path 't' is not absolute"},
      {[](pb::JobSpec& s) { s.set_trace_bytes(-1); }, "trace_bytes is -1; it may be up to 1073741824"},
      {[](pb::JobSpec& s) { s.set_trace_bytes(int64_t{1} << 31); }, "trace_bytes is 2147483648"},
      {[](pb::JobSpec& s) { s.mutable_restart()->set_attempts(1001); },
       "restart.attempts is 1001; it may be up to 1000"},
      {[](pb::JobSpec& s) { s.set_weights("w"); }, "weights path 'w' is not absolute"},
      {[](pb::JobSpec& s) { s.set_tensorboard("b"); }, "tensorboard path 'b' is not absolute"},
      {[](pb::JobSpec& s) { s.set_tensorboard_histograms_every(-1); }, "tensorboard_histograms_every is -1"},
      {[](pb::JobSpec& s) { Loop(s).mutable_sync(); }, "a mean every 0 steps from step 0 on is none"},
      {[](pb::JobSpec& s) { Loop(s).mutable_sync()->set_every(3); }, "the plan set has no plan 'sync/begin'"},
      {[](pb::JobSpec& s) { Loop(s).mutable_choice()->set_every(3); },
       "a choice every 3 steps from step 0 on, with a window of 0, is none"},
      {[](pb::JobSpec& s) {
         pb::ChoiceRule& rule = *Loop(s).mutable_choice();
         rule.set_every(3), rule.set_window(3), rule.set_plan("train");
       },
       "the plan set has no plan 'compress/choose'"},
  };
  for (const auto& c : cases) {
    pb::JobSpec spec = EmptyJob(2, 2);
    c.spoil(spec);
    EXPECT_THAT(ValidateSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(ValidateWishTest, NamesWhatIsWrong) {
  pb::SubmitRequest request;
  EXPECT_THAT(ValidateWish(request), StatusIs(absl::StatusCode::kInvalidArgument, "user is empty"));
  request.set_user("ada");
  EXPECT_OK(ValidateWish(request));
  request.set_priority(1001);
  EXPECT_THAT(ValidateWish(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "priority is 1001; it may be up to 1000"));
  request.set_priority(-1001);
  EXPECT_THAT(ValidateWish(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "priority is -1001; it must be at least -1000"));
}

TEST(ValidateHelloTest, NamesWhatIsWrong) {
  pb::DaemonHello hello;
  EXPECT_THAT(ValidateHello(hello), StatusIs(absl::StatusCode::kInvalidArgument, "the daemon's name is empty"));
  hello.set_name("d0");
  EXPECT_THAT(ValidateHello(hello), StatusIs(absl::StatusCode::kInvalidArgument, "daemon 'd0': its host is empty"));
  hello.set_host("h");
  hello.set_memory("m");
  EXPECT_OK(ValidateHello(hello));
  hello.set_cpu_devices(INT32_MAX);
  EXPECT_THAT(ValidateHello(hello), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "daemon 'd0': cpu_devices is 2147483647; it may be up to 1024"));
  hello.set_cpu_devices(-1);
  EXPECT_THAT(ValidateHello(hello),
              StatusIs(absl::StatusCode::kInvalidArgument, "daemon 'd0': cpu_devices is -1; it must be at least 0"));
}

// --- Fallbacks ---

TEST(ValidateSpecTest, LooksAtEveryFallback) {
  pb::JobSpec spec = EmptyJob(4, 1);
  AddFallback(EmptyJob(2, 1), "two", spec);
  AddFallback(EmptyJob(1, 1), "one", spec);
  EXPECT_OK(ValidateSpec(spec));
  spec.mutable_fallbacks(1)->set_processes(2);
  EXPECT_THAT(ValidateSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("fallback 2: the plan has 1 ranks, 1 per process; the "
                                                     "job has 2 processes of 1 devices")));
  spec.mutable_fallbacks()->RemoveLast();
  AddFallback(EmptyJob(2, 2), "as many", spec);
  EXPECT_THAT(ValidateSpec(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("fallback 2: takes 4 devices, which are not fewer than the job's 4")));
  spec.clear_fallbacks();
  spec.mutable_restart()->set_wait_seconds(-1);
  EXPECT_THAT(ValidateSpec(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("restart.wait_seconds is -1")));
  spec.mutable_restart()->set_wait_seconds(5);
  for (int i = 0; i < 17; ++i) AddFallback(EmptyJob(1, 1), "one", spec);
  EXPECT_THAT(ValidateSpec(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("the number of fallbacks is 17; it may be up to 16")));
}

TEST(OnLayoutTest, TakesWhatTheFallbackSays) {
  pb::JobSpec spec = EmptyJob(4, 1);
  spec.set_layout("four");
  AddFallback(EmptyJob(1, 2), "two", spec);
  EXPECT_EQ(OnLayout(spec, 0).layout(), "four");
  EXPECT_EQ(OnLayout(spec, 0).plan(), spec.plan());
  const pb::JobSpec two = OnLayout(spec, 1);
  EXPECT_EQ(two.layout(), "two");
  EXPECT_EQ(two.processes(), 1);
  EXPECT_EQ(two.devices_per_process(), 2);
  EXPECT_EQ(two.plan_hash(), PlanHash(two.plan()));
  EXPECT_EQ(two.fallbacks_size(), 0);
  EXPECT_EQ(two.phases_size(), 1);
}

TEST(GangsOfTest, CountMemoryWhereItIs) {
  pb::JobSpec spec = EmptyJob(2, 2, /*hosts=*/1, /*rank_bytes=*/100);
  ChangePlan(spec, [](pb::PlanSet& plan) { plan.mutable_classes(0)->set_host_bytes(7); });
  EXPECT_EQ(GangsOf(spec)[0].process_bytes, 214);
  EXPECT_EQ(GangsOf(spec)[0].device_bytes, 0);
  ChangePlan(spec, [](pb::PlanSet& plan) { plan.mutable_hosts()->set_device("cuda"); });
  EXPECT_EQ(GangsOf(spec)[0].process_bytes, 14);
  EXPECT_EQ(GangsOf(spec)[0].device_bytes, 100);
}

TEST(GangsOfTest, HostsTakeRanksInOrderAndTheLastMayBeEmpty) {
  pb::JobSpec spec = EmptyJob(5, 2);
  ChangePlan(spec, [](pb::PlanSet& plan) {
    plan.mutable_hosts()->mutable_groups(0)->set_devices(4);
    pb::HostsAlike& more = *plan.mutable_hosts()->add_groups();
    more.set_count(3);
    more.set_devices(4);
  });
  ASSERT_OK(ValidateSpec(spec));
  ASSERT_THAT(GangsOf(spec), SizeIs(1));
  EXPECT_THAT(GangsOf(spec)[0].processes_of_host, ElementsAre(2, 2, 1));
}

}  // namespace
}  // namespace oneflow
