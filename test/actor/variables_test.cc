#include "actor/variables.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "actor/checkpoint/fresh_variables.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

// A 4x6 matrix "w" on `ranks` ranks, cut unevenly along dimension `dim`, and a whole vector "b" on each.
class RanksOfW {
 public:
  RanksOfW(int ranks, int dim, bool has_stream = false) : plan(std::vector<int>(ranks, 0)) {
    pb::Variable* w = plan.set().add_variables();
    w->set_name("w");
    w->add_dims(4);
    w->add_dims(6);
    w->set_init("normal(1)");
    w->set_role(pb::WEIGHT);
    const int64_t size = w->dims(dim);
    for (int r = 0; r < ranks; ++r) {
      const int64_t begin = r == 0 ? 0 : size * r / ranks + 1, end = r == ranks - 1 ? size : size * (r + 1) / ranks + 1;
      pb::Shard* shard = w->add_shards();
      shard->set_rank(r);
      for (int d = 0; d < 2; ++d) {
        shard->add_start(d == dim ? begin : 0);
        shard->add_extent(d == dim ? end - begin : w->dims(d));
      }
      shard->set_zone(kSharedZone);
      shard->set_offset(plan.Reserve(r, 4 * 24));
      shard->set_owner(true);
    }
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    plan.Variable("b", 3, "list(1,2,3)", all);
    plan.set().mutable_variables(plan.Variable("b.grad", 3, "constant(7)", all))->set_role(pb::STATE);
    EXPECT_OK(CheckProgram(plan.set(), 1));
    memory = std::make_unique<JobMemory>(ranks);
    std::vector<DeviceContext*> contexts;
    for (int r = 0; r < ranks; ++r) {
      devices.push_back(std::make_unique<TestDevice>(has_stream));
      contexts.push_back(devices.back().get());
      EXPECT_OK(memory->Allocate(r, plan.set().ranks(r), *devices.back()));
    }
    variables = std::make_unique<Variables>(plan.set(), *memory, contexts);
    for (int r = 0; r < ranks; ++r) EXPECT_OK(variables->Initialise(r));
  }

  // The logical w, gathered from the shards.
  std::vector<float> Gather() const {
    std::vector<float> whole(24, -1);
    for (const pb::Shard& shard : plan_set().variables(0).shards()) {
      const float* data = reinterpret_cast<float*>(memory->Base(shard.rank(), kSharedZone) + shard.offset());
      for (int64_t i = 0; i < shard.extent(0); ++i) {
        for (int64_t j = 0; j < shard.extent(1); ++j) whole[(shard.start(0) + i) * 6 + shard.start(1) + j] = *data++;
      }
    }
    return whole;
  }
  float* B(int rank) {
    return reinterpret_cast<float*>(memory->Base(rank, kSharedZone) + plan_set().variables(1).shards(rank).offset());
  }
  const pb::Program& plan_set() const { return const_cast<TestPlan&>(plan).set(); }

  TestPlan plan;
  std::vector<std::unique_ptr<TestDevice>> devices;
  std::unique_ptr<JobMemory> memory;
  std::unique_ptr<Variables> variables;
};

class VariablesTest : public ::testing::Test {
 protected:
  VariablesTest() : directory_(std::filesystem::temp_directory_path() / absl::StrCat("variables_test.", getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~VariablesTest() override { std::filesystem::remove_all(directory_); }
  std::string Path(const std::string& name) const { return (directory_ / name).string(); }

  static absl::Status NoBarrier() { return absl::OkStatus(); }

 private:
  const std::filesystem::path directory_;
};

TEST_F(VariablesTest, StartWithTheSameValuesUnderEveryLayout) {
  const std::vector<float> expected = RanksOfW(1, 0).Gather();
  EXPECT_EQ(RanksOfW(2, 0).Gather(), expected);
  EXPECT_EQ(RanksOfW(2, 1).Gather(), expected);
  EXPECT_EQ(RanksOfW(3, 1).Gather(), expected);
  EXPECT_EQ(RanksOfW(2, 1, /*has_stream=*/true).Gather(), expected);  // through host copies
  RanksOfW job(2, 0);
  EXPECT_THAT(std::vector<float>(job.B(1), job.B(1) + 3), ElementsAre(1, 2, 3));
}

TEST_F(VariablesTest, SaveAndLoadBetweenLayouts) {
  RanksOfW saved(3, 1);
  saved.B(0)[1] = 9;
  ASSERT_OK(saved.variables->Save(Path("a"), "", 0, NoBarrier));
  RanksOfW loaded(2, 0);
  for (int r = 0; r < 2; ++r) std::fill_n(reinterpret_cast<float*>(loaded.memory->Base(r, kSharedZone)), 12, -5.0f);
  ASSERT_OK(loaded.variables->Load(Path("a")));
  EXPECT_EQ(loaded.Gather(), saved.Gather());
  EXPECT_EQ(loaded.B(1)[1], 9);
  EXPECT_FALSE(std::filesystem::exists(Path("a.partial")));
}

TEST_F(VariablesTest, SaveGradientsUnderTheNamesOfTheirVariables) {
  RanksOfW job(2, 0);
  ASSERT_OK(job.variables->Save(Path("g"), ".grad", 0, NoBarrier));
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile file, testing::ReadWeightFile(Path("g")));
  ASSERT_EQ(file.tensors.size(), 1u);
  EXPECT_EQ(file.tensors.at("b").as<float>()[2], 7);
  EXPECT_THAT(job.variables->Save(Path("n"), ".none", 0, NoBarrier),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable is named *.none")));
}

TEST_F(VariablesTest, LoadRefusesFilesThatDoNotFit) {
  RanksOfW job(1, 0);
  const auto save = [&](std::vector<SafetensorsWriter::Tensor> tensors) {
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(Path("f"), std::move(tensors));
    EXPECT_OK(writer);
    EXPECT_OK(writer->Close());
    return job.variables->Load(Path("f"));
  };
  const TensorType w{DType::kFloat32, {4, 6}}, b{DType::kFloat32, {3}};
  EXPECT_OK(save({{"w", w}, {"b", b}}));
  EXPECT_THAT(save({{"w", w}}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tensor 'b': it is missing")));
  EXPECT_THAT(save({{"w", {DType::kFloat32, {6, 4}}}, {"b", b}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'w' is f32[6,4], the variable is f32[4,6]")));
  EXPECT_THAT(save({{"w", {DType::kInt32, {4, 6}}}, {"b", b}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("i32[4,6]")));
  EXPECT_THAT(save({{"w", w}, {"b", b}, {"x", b}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor 'x' (f32[3]) is no trainable variable")));
  EXPECT_THAT(job.variables->Load(Path("absent")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

// What a layer computes with after training is part of the model.
TEST_F(VariablesTest, StatisticsTravelWithWeightsAndWithTheirAverages) {
  RanksOfW job(2, 0), other(1, 0);
  for (RanksOfW* const each : {&job, &other}) {
    each->plan.set().mutable_variables(1)->set_name("mean");
    each->plan.set().mutable_variables(1)->set_role(pb::STATISTIC);
  }
  for (const int rank : {0, 1}) job.B(rank)[1] = 9;
  ASSERT_OK(job.variables->Save(Path("weights"), "", 0, NoBarrier));
  ASSERT_OK(other.variables->Load(Path("weights")));
  EXPECT_EQ(other.B(0)[1], 9);

  job.plan.set().mutable_variables(0)->set_name("w/average");
  job.plan.set().mutable_variables(0)->set_role(pb::STATE);
  ASSERT_OK(job.variables->Save(Path("averages"), "/average", 0, NoBarrier));
  other.B(0)[1] = 0;
  ASSERT_OK(other.variables->Load(Path("averages")));
  EXPECT_EQ(other.B(0)[1], 9);

  ASSERT_OK(job.variables->Save(Path("gradients"), ".grad", 0, NoBarrier));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader gradients, SafetensorsReader::Open(Path("gradients")));
  EXPECT_THAT(gradients.tensors(), ElementsAre(Pair("b", ::testing::_)));
}

TEST_F(VariablesTest, WhatAFileDeclaresToBeFreshKeepsItsValue) {
  RanksOfW job(2, 0);
  const auto load = [&](const std::set<std::string>& fresh) {
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(
        Path("f"), {{"w", {DType::kFloat32, {4, 6}}}}, {{kFreshKey, FreshText(fresh)}, {"format", "pt"}});
    EXPECT_OK(writer);
    EXPECT_OK(writer->Close());
    return job.variables->Load(Path("f"));
  };
  ASSERT_OK(load({"a", "b"}));
  EXPECT_THAT(job.Gather(), ::testing::Each(0)) << "what the file has is taken";
  EXPECT_THAT(std::vector<float>(job.B(1), job.B(1) + 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(load({"b.grad", "bb"}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("tensor 'b': it is missing")));
}

}  // namespace
}  // namespace oneflow
