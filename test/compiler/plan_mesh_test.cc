// What the mesh of a plan says of ranks that are not its first ones.
#include "compiler/plan_mesh.h"

#include "compiler/options.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(PlanMeshTest, LiesOnTheFirstRanksUnlessToldOtherwise) {
  const Mesh mesh = *Mesh::Create({{"dp", 2}, {"tp", 2}});
  EXPECT_THAT(PlanMesh(mesh).ranks(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(PlanMesh(mesh, 2).ranks(), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(PlanMesh(mesh, 2).last_rank(), 5);
  EXPECT_THAT(PlanMesh().ranks(), ElementsAre(0));
}

TEST(PlanMeshTest, PlacesItsPartsOnItsRanks) {
  ASSERT_OK_AND_ASSIGN(const PlanMesh mesh, PlanMesh::Create(*Mesh::Create({{"pp", 2}, {"tp", 2}}), {4, 1, 7, 2}));
  EXPECT_EQ(mesh.last_rank(), 7);
  ASSERT_OK_AND_ASSIGN(const Placement stage, mesh.Place({{"pp", 1}}));
  EXPECT_EQ(stage.ToString(), "[tp=2]{7,2}");
  ASSERT_OK_AND_ASSIGN(const Placement part, mesh.Place({{"tp", 1}}));
  EXPECT_EQ(part.ToString(), "[pp=2]{1,2}");
  EXPECT_EQ(mesh.Place({{"pp", 2}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PlanMeshTest, KnowsItsParts) {
  const PlanMesh mesh(*Mesh::Create({{"pp", 2}, {"tp", 2}}), 2);
  for (const PlacementHint& hint :
       std::vector<PlacementHint>{{}, {{"pp", 0}}, {{"pp", 1}}, {{"tp", 1}}, {{"pp", 1}, {"tp", 0}}}) {
    EXPECT_TRUE(mesh.Has(*mesh.Place(hint))) << mesh.Place(hint)->ToString();
  }
  for (const char* other : {"[pp=2,tp=2]{0,1,2,3}", "[tp=4]{2,3,4,5}", "[tp=2]{3,4}", "[tp=2]{0,1}", "[dp=2]{2,3}",
                            "[tp=2,pp=2]{2,4,3,5}", "[]{6}"}) {
    EXPECT_FALSE(mesh.Has(*Placement::Parse(other))) << other;
  }
}

TEST(PlanMeshTest, ACoordinateIsThatOfTheRankInTheMesh) {
  const Mesh mesh = *Mesh::Create({{"pp", 3}, {"dp", 2}, {"tp", 2}});
  EXPECT_EQ(PlanMesh(mesh).CoordinateOf(5, "pp"), 1);
  EXPECT_EQ(PlanMesh(mesh).CoordinateOf(11, "pp"), 2);
  EXPECT_EQ(PlanMesh(mesh).CoordinateOf(11, "ep"), 0);
  EXPECT_EQ(PlanMesh(mesh, 4).CoordinateOf(8, "pp"), 1);
  EXPECT_EQ(PlanMesh(mesh, 4).CoordinateOf(0, "pp"), 0);  // not in it
}

TEST(PlanMeshTest, RefusesRanksThatAreNotOnePerPosition) {
  const Mesh mesh = *Mesh::Create({{"dp", 2}});
  EXPECT_THAT(PlanMesh::Create(mesh, {1}).status().message(), HasSubstr("2 positions cannot lie on 1 ranks"));
  EXPECT_THAT(PlanMesh::Create(mesh, {1, 1}).status().message(), HasSubstr("rank 1 is negative or named twice"));
  EXPECT_THAT(PlanMesh::Create(mesh, {-1, 1}).status().message(), HasSubstr("rank -1"));
}

TEST(PlanMeshTest, AJobHasTheRanksOfAllItsMeshes) {
  CompileOptions options;
  options.mesh = *Mesh::Create({{"dp", 2}});
  EXPECT_EQ(options.NumRanks(), 2);
  options.meshes.emplace("evaluate", PlanMesh(*Mesh::Create({{"tp", 3}}), 1));
  EXPECT_EQ(options.NumRanks(), 4);
  EXPECT_THAT(options.MeshOf("evaluate").ranks(), ElementsAre(1, 2, 3));
  EXPECT_THAT(options.MeshOf("train").ranks(), ElementsAre(0, 1));
  options.num_ranks = 8;  // more than its meshes need
  EXPECT_EQ(options.NumRanks(), 8);
}

}  // namespace
}  // namespace oneflow
