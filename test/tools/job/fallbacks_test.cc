// On which fewer devices a job may go on, and what is said of meshes that are no fewer.
#include "tools/job/fallbacks.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/job/good_config.h"
#include "tools/job/cluster.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

// "dp2 tp2 on 2 x 2" of each: sizes of the axes that there are, processes and devices of each.
std::vector<std::string> FallbacksOf(const std::string& rest) {
  const absl::StatusOr<SourcedConfig> config = GoodConfigWith(rest);
  if (!config.ok()) return {config.status().ToString()};
  const auto fallbacks = FallbackConfigs(*config);
  if (!fallbacks.ok()) return {fallbacks.status().ToString()};
  std::vector<std::string> texts;
  for (const FallbackConfig& fallback : *fallbacks) {
    const pb::JobConfig& smaller = fallback.config.config;
    if (absl::Status valid = ValidateConfig(fallback.config); !valid.ok()) {
      texts.push_back(valid.ToString());
      continue;
    }
    std::string& text = texts.emplace_back();
    for (const auto& [axis, size] :
         {std::pair("pp", smaller.mesh().pp()), {"dp", smaller.mesh().dp()}, {"tp", smaller.mesh().tp()}}) {
      if (size > 0) absl::StrAppend(&text, axis, size, " ");
    }
    absl::StrAppend(&text, "on ", NumProcesses(smaller), " x ", NumDevices(smaller) / NumProcesses(smaller));
  }
  return texts;
}

TEST(FallbacksTest, AJobHasNoneUnlessItAsks) {
  EXPECT_THAT(FallbacksOf("mesh { dp: 4 } restart { attempts: 3 }"), IsEmpty());
}

TEST(FallbacksTest, MeshesComeInTheirOrderAndKeepProcessesAsLargeAsTheyCan) {
  EXPECT_THAT(FallbacksOf("mesh { dp: 2 tp: 2 } cluster { processes: 2 } restart { attempts: 2 meshes { dp: 3 } "
                          "meshes { tp: 2 } meshes { dp: 1 } }"),
              ElementsAre("dp3 on 3 x 1", "tp2 on 1 x 2", "dp1 on 1 x 1"));
  EXPECT_THAT(FallbacksOf("mesh { dp: 4 } restart { attempts: 2 meshes { dp: 2 } }"), ElementsAre("dp2 on 1 x 2"))
      << "one process, as the job";
}

TEST(FallbacksTest, LessOfDpDownToTheLeast) {
  EXPECT_THAT(FallbacksOf("mesh { dp: 4 tp: 2 } cluster { processes: 4 } restart { attempts: 2 least_devices: 4 }"),
              ElementsAre("dp3 tp2 on 3 x 2", "dp2 tp2 on 2 x 2"));
  EXPECT_THAT(FallbacksOf("mesh { dp: 32 } cluster { processes: 4 } restart { attempts: 2 least_devices: 1 }"),
              ElementsAre("dp28 on 4 x 7", "dp24 on 3 x 8", "dp20 on 4 x 5", "dp16 on 2 x 8", "dp12 on 2 x 6",
                          "dp8 on 1 x 8", "dp4 on 1 x 4"));
  EXPECT_THAT(FallbacksOf("mesh { tp: 4 } restart { attempts: 2 least_devices: 1 }"), IsEmpty());
}

TEST(FallbacksTest, AMeshThatIsNoSmallerIsRefused) {
  EXPECT_THAT(FallbacksOf("mesh { dp: 2 } restart { attempts: 2 meshes { dp: 1 } meshes { tp: 2 } }")[0],
              HasSubstr("j.pbtxt:3: restart.meshes: mesh 2 takes 2 devices, which are not fewer than the job's 2"));
  EXPECT_THAT(FallbacksOf("mesh { dp: 2 } evaluate { mesh { dp: 2 } } restart { attempts: 2 meshes { dp: 1 } }")[0],
              HasSubstr("mesh 1 takes 2 devices, which are not fewer than the job's 2"))
      << "evaluation takes as many still";
}

TEST(FallbacksTest, WhatCannotBeIsToldByTheConfigsOwnChecks) {
  EXPECT_THAT(FallbacksOf("mesh { dp: 4 } restart { attempts: 2 meshes { dp: -1 pp: 2 } }")[0],
              HasSubstr("mesh.dp: -1 is not in [0, 4096]"));
  for (const auto& [restart, error] :
       {std::pair("restart { meshes { dp: 1 } }", "restart.meshes: no attempt follows the first"),
        {"restart { attempts: 1 least_devices: 1 }", "restart.least_devices: no attempt follows the first"},
        {"restart { attempts: 2 wait_seconds: 3 }", "restart.wait_seconds: there are no fewer devices to go on with"},
        {"restart { attempts: 2 least_devices: 1 wait_seconds: -3 }", "restart.wait_seconds: -3 is not in [0, 86400]"},
        {"restart { attempts: 2 least_devices: -1 }", "restart.least_devices: -1 is not in "},
        {"restart { attempts: 2 grow: true }", "restart.grow: there are no fewer devices to grow from"},
        {"restart { attempts: 2 least_devices: 1 grow: true }", "restart.grow: needs a checkpoint"},
        {"restart { attempts: 2 least_devices: 1 grow: true } checkpoint { path: 'c' on_stop: false }",
         "restart.grow: needs a checkpoint"}}) {
    ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith(absl::StrCat("mesh { dp: 2 } ", restart)));
    EXPECT_THAT(ValidateConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(error)));
  }
}

}  // namespace
}  // namespace oneflow
