#include "tools/bench/links.h"

#include "compiler/lower/program.h"
#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "proto/plan.pb.h"
#include "test/support/status_matchers.h"
#include "tools/bench/boxing_job.h"
#include "tools/control/local/run_in_place.h"

namespace oneflow {
namespace {

TEST(LinksBenchTest, ShowsMediansBesideWhatBytesSay) {
  const std::string text = LinksText({{.hop_seconds = 40e-6, .flat_seconds = 1.1, .hierarchical_seconds = 0.5},
                                      {.hop_seconds = 50e-6, .flat_seconds = 1.0, .hierarchical_seconds = 0.7},
                                      {.hop_seconds = 90e-6, .flat_seconds = 1.2, .hierarchical_seconds = 0.55}},
                                     "cluster 'a:1'");
  EXPECT_EQ(text,
            "links: between hosts of cluster 'a:1', medians\n"
            "  hop                                      50.0 us\n"
            "  all-reduce, 64 MiB, flat               1100.0 ms   a machine of two ranks sends 134.2 MB: 122.0 MB/s\n"
            "  all-reduce, 64 MiB, hierarchical        550.0 ms   a machine of two ranks sends  67.1 MB: 122.0 MB/s\n"
            "  hierarchical is 2.00 times as fast; 2.00 by the bytes\n");
}

// Two transfers of 64 bytes in each of twice seven steps.
TEST(LinksBenchTest, ARoundTripGoesOverAndBackInEveryStep) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(pb::JobSpec spec, MakeRoundTripJob(/*steps=*/7, /*cores=*/2, ops));
  pb::PlanSet plan;
  ASSERT_TRUE(plan.ParseFromString(spec.plan()));
  ASSERT_OK_AND_ASSIGN(pb::Program program, ProgramOf(plan, std::nullopt, spec.plan_hash()));
  for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
  spec.set_processes(1);
  spec.set_devices_per_process(2);
  ASSERT_OK_AND_ASSIGN(const EngineStats stats, RunInPlace(spec, std::move(program), nullptr));
  EXPECT_EQ(stats.bytes_moved, 2 * 7 * 2 * 64);
}

}  // namespace
}  // namespace oneflow
