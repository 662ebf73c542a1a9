// Which devices the meshes of a config take, and what is said of those that do not fit.
#include "tools/job/meshes.h"

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/job/good_config.h"

namespace oneflow {
namespace {

std::string OfPlan(const SourcedConfig& config, const std::string& plan) {
  const auto meshes = OwnMeshes(config);
  return meshes.ok() ? meshes->at(plan).whole().ToString() : meshes.status().ToString();
}

TEST(MeshesTest, AJobWithoutOthersHasTheDevicesOfItsMesh) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith("mesh { dp: 2 tp: 3 } evaluate {}"));
  EXPECT_EQ(NumDevices(config.config), 6);
  ASSERT_OK_AND_ASSIGN(const auto meshes, OwnMeshes(config));
  EXPECT_THAT(meshes, IsEmpty());
}

TEST(MeshesTest, AJobHasTheDevicesOfAllItsMeshes) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config,
                       GoodConfigWith("mesh { dp: 2 } evaluate { mesh { tp: 3 } ranks { first: 1 } } "
                                      "generate { tokens: 1 prompt: 'x' mesh { pp: 1 } ranks { first: 5 } }"));
  EXPECT_OK(ValidateConfig(config));
  EXPECT_EQ(NumDevices(config.config), 6);
  EXPECT_EQ(OfPlan(config, "evaluate"), "[tp=3]{1,2,3}");
  EXPECT_EQ(OfPlan(config, "generate"), "[]{5}");
}

TEST(MeshesTest, AxesMayHaveNamesOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config,
                       GoodConfigWith("mesh { tp: 2 axes { name: 'copies' size: 2 role: 'batch' } "
                                      "axes { name: 'depth' size: 3 role: 'stage' } axes { name: 'one' size: 1 } }"));
  EXPECT_OK(ValidateConfig(config));
  EXPECT_EQ(NumDevices(config.config), 12);
  ASSERT_OK_AND_ASSIGN(const Mesh mesh, ToMesh(config.config.mesh()));
  EXPECT_EQ(AxesText(mesh.axes()), "copies=2,depth=3,tp=2");
  EXPECT_EQ(mesh.StageAxis(), "depth");
  EXPECT_THAT(mesh.AxesOf(AxisRole::kBatch), ElementsAre("copies"));
  for (const auto& [axes, says] : std::map<std::string, std::string>{
           {"dp: 2 axes { name: 'dp' size: 2 }", "mesh: axis 'dp' is named twice"},
           {"pp: 2 axes { name: 'x' size: 2 role: 'stage' }", "'pp' and 'x' are both for stages"},
           {"axes { name: 'a b' size: 2 }", "axis 'a b' has other characters"},
           {"axes { size: 2 }", "mesh.axes[0].name: is missing"},
           {"axes { name: 'x' size: 2 role: 'rows' }", "mesh.axes[0].role"},
           {"axes { name: 'x' size: 5000 }", "mesh.axes[0].size"}}) {
    ASSERT_OK_AND_ASSIGN(const SourcedConfig wrong, GoodConfigWith(absl::StrCat("mesh { ", axes, " }")));
    EXPECT_THAT(ValidateConfig(wrong), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says))) << axes;
  }
}

TEST(MeshesTest, RanksAloneMoveTheJobsMesh) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config,
                       GoodConfigWith("mesh { dp: 2 tp: 2 } evaluate { ranks { first: 2 } }"));
  EXPECT_EQ(NumDevices(config.config), 6);
  EXPECT_EQ(OfPlan(config, "evaluate"), "[dp=2,tp=2]{2,3,4,5}");
}

TEST(MeshesTest, HostsThatAMeshNamesAreTakenWhole) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config,
                       GoodConfigWith("mesh { dp: 3 } evaluate { mesh { dp: 2 tp: 2 } ranks { hosts: [2, 0] } } "
                                      "cluster { hosts { count: 2 devices: 3 } hosts { devices: 4 } }"));
  EXPECT_EQ(OfPlan(config, "evaluate"), "[dp=2,tp=2]{6,7,8,9}");
  EXPECT_EQ(NumDevices(config.config), 10);
  ASSERT_OK_AND_ASSIGN(const SourcedConfig two,
                       GoodConfigWith("mesh { dp: 3 } evaluate { mesh { tp: 3 } ranks { hosts: [2, 0] } } "
                                      "cluster { hosts { count: 3 devices: 2 } }"));
  EXPECT_EQ(OfPlan(two, "evaluate"), "[tp=3]{4,5,0}");
  EXPECT_EQ(NumDevices(two.config), 6);
}

TEST(MeshesTest, HostsThatDoNotSayTheirDevicesHaveTheJobs) {
  ASSERT_OK_AND_ASSIGN(
      const SourcedConfig config,
      GoodConfigWith("mesh { dp: 4 } evaluate { mesh { tp: 2 } ranks { hosts: 1 } } cluster { hosts { count: 2 } }"));
  EXPECT_OK(ValidateConfig(config));
  EXPECT_EQ(OfPlan(config, "evaluate"), "[tp=2]{2,3}");
  ASSERT_OK_AND_ASSIGN(const SourcedConfig one,
                       GoodConfigWith("mesh { dp: 2 } evaluate { mesh { tp: 3 } ranks { hosts: 0 } }"));
  EXPECT_OK(ValidateConfig(one));
  EXPECT_EQ(NumDevices(one.config), 3) << "one host has as many as are needed";
}

TEST(MeshesTest, WhatDoesNotFitIsOneClearErrorEach) {
  const std::string text = "generate { tokens: 1 prompt: 'x' ";
  const std::string two_hosts = " cluster { processes: 2 hosts { count: 2 devices: 4 } }";
  const struct {
    std::string rest;
    std::vector<std::string> message;
  } kCases[] = {
      {"evaluate { mesh { tp: 16 } }" + two_hosts, {"evaluate.mesh: takes ranks up to 15", "the hosts have 8 devices"}},
      {"evaluate { mesh { tp: 4 } ranks { first: 6 } }" + two_hosts,
       {"evaluate.ranks.first: takes ranks up to 9", "the hosts have 8 devices"}},
      {"evaluate { mesh { tp: 4 } } mesh { dp: 2 } cluster { processes: 2 devices_per_process: 1 }",
       {"evaluate.mesh: takes ranks up to 3", "the processes have 2 devices"}},
      {text + "mesh { tp: 3 } } mesh { dp: 2 } cluster { processes: 2 }",
       {"cluster.processes: the job's 3 devices do not divide among 2 processes"}},
      {text + "ranks { hosts: 2 } }" + two_hosts, {"generate.ranks.hosts: host 2 is not one of the job's 2"}},
      {text + "ranks { hosts: -1 } }", {"generate.ranks.hosts: host -1 is not one of the job's 1"}},
      {text + "ranks { hosts: 1 } }", {"generate.ranks.hosts: host 1 is not one of the job's 1"}},
      {text + "mesh { dp: 2 } ranks { hosts: [1, 1] } }" + two_hosts, {"generate.ranks.hosts: host 1 is named twice"}},
      {text + "mesh { dp: 5 } ranks { hosts: 1 } }" + two_hosts,
       {"generate.ranks.hosts: the mesh has 5 devices, the hosts it names have 4"}},
      {text + "ranks { first: 1 hosts: 1 } }" + two_hosts, {"generate.ranks: names a first rank and hosts"}},
      {text + "ranks { first: -1 } }", {"generate.ranks.first: -1 is not in [0, 4096]"}},
      {text + "mesh { tp: -2 } }", {"generate.mesh.tp: -2 is not in [0, 4096]"}},
      {text + "mesh { tp: 5000 } }", {"generate.mesh.tp: 5000 is not in [0, 4096]"}},
      {text + "mesh { dp: 4096 tp: 4096 } }", {"generate.mesh: has 16777216 devices, at most 4096"}},
      {text + "mesh { dp: 4000 } ranks { first: 100 } }", {"mesh: the job's meshes take 4100 devices, at most 4096"}},
  };
  for (const auto& [rest, message] : kCases) {
    ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith(rest));
    const absl::Status status = ValidateConfig(config);
    for (const std::string& part : message) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("j.pbtxt"), HasSubstr(part))))
          << rest;
    }
  }
  EXPECT_THAT(GoodConfigWith("evaluate { mesh { sp: 2 } }").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sp")));
}

}  // namespace
}  // namespace oneflow
