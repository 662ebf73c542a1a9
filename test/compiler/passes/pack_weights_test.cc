// pack-weights: which products read panels, and who makes them.
#include "test/compiler/passes/testing.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

// x -> w [128,192] -> relu -> v [192,64] -> mean, of 512 rows.
struct Hints {
  SbpHint w = {}, v = {};
};
Graph TwoProducts(const Hints& hints = {}, int64_t samples = 64) {
  GraphBuilder b(Ops(), "products");
  const Tensor x = Reshape(ReadSamples(b, samples * 8).rows, {samples, 128});
  const Tensor hidden = Relu(MatMul(x, Weight(b, "w", {128, 192}, hints.w)));
  b.SetLoss(ReduceMean(MatMul(hidden, Weight(b, "v", {192, 64}, hints.v))));
  return *b.Finish();
}

CompileOptions InBf16(std::vector<Axis> axes = {}, int micro_batches = 1) {
  CompileOptions options = Options(std::move(axes), micro_batches);
  options.precision.compute = DType::kBFloat16;
  return options;
}

absl::StatusOr<Graph> Packed(Graph graph, const CompileOptions& options) {
  return RunUpTo("pack-weights", std::move(graph), options);
}

std::vector<std::string> SbpsOf(const Graph& graph, absl::string_view op) {
  std::vector<std::string> sbps;
  for (const std::string& name : NamesOf(graph, op)) {
    const Node& node = NodeOf(graph, name);
    sbps.push_back(absl::StrCat(ToString(graph.value(node.inputs[0]).dist->sbp), "->",
                                ToString(graph.value(node.outputs[0]).dist->sbp)));
  }
  return sbps;
}

TEST(PackWeightsTest, EachDirectionOfAWeightHasPanelsOfItsOwnMadeOfTheMaster) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Packed(TwoProducts(), InBf16()));
  EXPECT_THAT(NamesOf(graph, "matmul"), IsEmpty());
  EXPECT_EQ(NamesOf(graph, "packed_matmul").size(), 3) << "two forward, one for the gradient of the hidden rows";
  std::vector<std::string> from;
  for (const std::string& name : NamesOf(graph, "pack_weight")) {
    const Node& pack = NodeOf(graph, name);
    EXPECT_EQ(pack.rate, Rate::kStep);
    from.push_back(absl::StrCat(ProducerOf(graph, pack, 0).name, pack.attrs.Bool("transpose") ? " transposed" : ""));
  }
  EXPECT_THAT(from, UnorderedElementsAre("w", "v", "v transposed"));
  for (const std::string& name : NamesOf(graph, "cast")) EXPECT_THAT(name, Not(::testing::HasSubstr("w/")));
}

TEST(PackWeightsTest, ProductsThatReadAWeightAlikeShareItsPanels) {
  GraphBuilder b(Ops(), "tied");
  const Tensor w = Weight(b, "w", {128, 128});
  Tensor x = Reshape(ReadSamples(b, 512).rows, {64, 128});
  for (int i = 0; i < 3; ++i) x = Relu(MatMul(x, w));
  b.SetLoss(ReduceMean(x));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Packed(std::move(graph), InBf16()));
  EXPECT_EQ(NamesOf(graph, "packed_matmul").size(), 5) << "three forward, two for gradients of rows";
  EXPECT_EQ(NamesOf(graph, "pack_weight").size(), 2) << "one for each direction";
}

TEST(PackWeightsTest, OnlyBf16OnCpus) {
  ASSERT_OK_AND_ASSIGN(const Graph full, Packed(TwoProducts(), Options({})));
  EXPECT_THAT(NamesOf(full, "pack_weight"), IsEmpty());
  CompileOptions halves = InBf16();
  halves.precision.compute = DType::kFloat16;
  ASSERT_OK_AND_ASSIGN(const Graph half, Packed(TwoProducts(), halves));
  EXPECT_THAT(NamesOf(half, "pack_weight"), IsEmpty());
  CompileOptions gpu = InBf16();
  gpu.device = DeviceKind::kCuda;
  ASSERT_OK_AND_ASSIGN(const Graph on_gpu, Packed(TwoProducts(), gpu));
  EXPECT_THAT(NamesOf(on_gpu, "pack_weight"), IsEmpty());
}

TEST(PackWeightsTest, FewRowsAreMultipliedAsTheyAre) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Packed(TwoProducts({}, 32), InBf16()));
  EXPECT_THAT(NamesOf(graph, "pack_weight"), IsEmpty());
}

TEST(PackWeightsTest, RanksPackTheirShards) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Packed(TwoProducts({{{"tp", Sbp::Split(0)}}, {{"tp", Sbp::Split(0)}}}, 256),
                                                 InBf16({{"tp", 2}})));
  EXPECT_THAT(SbpsOf(graph, "pack_weight"), ElementsAre("(S(0))->(S(1))")) << "rows of v are dimension 1 of its panels";
  EXPECT_THAT(NamesOf(graph, "packed_matmul"), ElementsAre("matmul_2"));
  EXPECT_THAT(SbpsOf(graph, "matmul"), ElementsAre("(B)->(S(1))", "(B)->(S(1))"))
      << "w is moved to be read by columns, v is transposed: 96 on a rank are a panel and a half";
}

TEST(PackWeightsTest, WhatIsReadInOtherWaysIsRoundedOnceForAll) {
  GraphBuilder b(Ops(), "shared");
  const Tensor x = Reshape(ReadSamples(b, 512).rows, {64, 128});
  const Tensor w = Cast(Weight(b, "w", {128, 64}), DType::kBFloat16);
  Fetch(ReduceMean(Cast(w, DType::kFloat32)), "read");
  Fetch(ReduceMean(MatMul(Cast(x, DType::kBFloat16), w)), "multiplied");
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  ASSERT_OK_AND_ASSIGN(graph, Packed(std::move(graph), InBf16()));
  const std::vector<std::string> packs = NamesOf(graph, "pack_weight");
  ASSERT_EQ(packs.size(), 1);
  EXPECT_EQ(ProducerOf(graph, NodeOf(graph, packs[0]), 0).op, "cast");
}

// By pass: how often it packs a weight one way and both ways.
using PackCounts = std::pair<size_t, size_t>;
PackCounts PacksOf(const Graph& graph) {
  return {NamesOf(graph, "pack_weight").size(), NamesOf(graph, "pack_weight_both_ways").size()};
}
absl::StatusOr<Graph> PackedOnce(Graph graph, const CompileOptions& options) {
  return RunUpTo("pack-once", std::move(graph), options);
}

TEST(PackOnceTest, MicroBatchesReadPanelsThatOnePassOverTheWeightMade) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, PackedOnce(TwoProducts({}, 128), InBf16({}, 2)));
  EXPECT_EQ(PacksOf(graph), PackCounts(1, 1)) << "no gradient flows through w";
  const Node& both = NodeOf(graph, NamesOf(graph, "pack_weight_both_ways")[0]);
  EXPECT_EQ(ProducerOf(graph, both, 0).name, "v");
  ASSERT_EQ(both.outputs.size(), 2);
  EXPECT_EQ(graph.value(both.outputs[0]).type.ToString(), "bf16[1,96,64,2]");
  EXPECT_EQ(graph.value(both.outputs[1]).type.ToString(), "bf16[3,32,64,2]");
  for (const ValueId panels : both.outputs) EXPECT_EQ(graph.Consumers()[panels].size(), 1);
}

TEST(PackOnceTest, PanelsOfOneMicroBatchAreMadeWhenTheyAreWanted) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, PackedOnce(TwoProducts(), InBf16()));
  EXPECT_EQ(PacksOf(graph), PackCounts(3, 0)) << "those of the gradient would be there all through forward";
}

TEST(PackOnceTest, AFusedHeadReadsPanelsThatOnePassOverTheWeightMade) {
  GraphBuilder b(Ops(), "head");
  const Samples samples = ReadSamples(b, 128);
  const Tensor x = Relu(MatMul(samples.rows, Weight(b, "up", {16, 64})));
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(MatMul(x, Weight(b, "w", {64, 128})), samples.labels)));
  ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
  CompileOptions apart = InBf16();
  apart.fuse = false;
  ASSERT_OK_AND_ASSIGN(const Graph of_parts, PackedOnce(graph, apart));
  EXPECT_EQ(PacksOf(of_parts), PackCounts(2, 0));
  ASSERT_OK_AND_ASSIGN(graph, PackedOnce(std::move(graph), InBf16()));
  EXPECT_EQ(PacksOf(graph), PackCounts(0, 1));
}

}  // namespace
}  // namespace oneflow::testing
