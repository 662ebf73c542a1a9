#include "compiler/lower/memory_cap.h"

#include <map>

#include "absl/strings/str_join.h"
#include "compiler/node_view.h"
#include "compiler/select/cost_model.h"
#include "gmock/gmock.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/models/resnet.h"
#include "oneflow_core/zones.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {
namespace {

using ::testing::HasSubstr;

// Compiles one graph, and remembers with which segments it did last.
class Capped {
 public:
  Capped(Graph graph, CompileOptions options) : graph_(std::move(graph)), options_(std::move(options)) {}

  absl::StatusOr<pb::PlanSet> Under(int64_t bytes) {
    CompileOptions with = options_;
    with.recompute.memory_bytes = bytes;
    const BoxGraphs box = [this](const CompileOptions& options, std::vector<std::string>* warnings) {
      chosen_ = options.recompute.segments;
      return Box(options, warnings);
    };
    return CompileUnderCap(box, with, Ops(), nullptr);
  }
  const std::set<int>& chosen() const { return *chosen_; }
  // The numbers of its segments of that kind.
  std::vector<int> layers() const {
    std::vector<int> found;
    for (size_t i = 0; i < graph_.segments.size(); ++i) {
      if (graph_.segments[i].kind == "layers") found.push_back(static_cast<int>(i));
    }
    return found;
  }

  // The plan with just these computed again: its bytes, and the seconds of computing again.
  struct Costs {
    int64_t bytes = 0;
    double seconds = 0;
  };
  absl::StatusOr<Costs> With(const std::set<int>& segments) const {
    CompileOptions with = options_;
    with.recompute.what = "layers";
    with.recompute.segments = segments;
    OF_ASSIGN_OR_RETURN(const std::vector<BoxedGraph> boxed, Box(with, nullptr));
    OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileBoxed(boxed, with, Ops()));
    Costs costs;
    for (const pb::RankClass& ranks : plan.classes()) costs.bytes = std::max<int64_t>(costs.bytes, BytesOfZones(ranks));
    const Topology topology = JobTopology(with);
    const CostModel model(topology);
    const Graph& graph = boxed[0].graph;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      const OpDef& op = *Ops().Find(node.op);
      if (node.role != Role::kRecompute || op.kind == OpKind::kBoxing) continue;
      costs.seconds += model.Compute(graph, node, op, NodeView(graph, node, op).layout());
    }
    return costs;
  }

 private:
  absl::StatusOr<std::vector<BoxedGraph>> Box(const CompileOptions& options, std::vector<std::string>* warnings) const {
    VariableDists variables;
    std::vector<BoxedGraph> boxed(1);
    OF_ASSIGN_OR_RETURN(boxed[0].graph, RunPasses(graph_, options, Ops(), variables, nullptr, warnings));
    boxed[0].micro_batches = options.micro_batches;
    return boxed;
  }

  const Graph graph_;
  const CompileOptions options_;
  std::optional<std::set<int>> chosen_;
};

Graph CappedGpt() {
  const GptConfig config{.vocabulary = 64, .layers = 6, .width = 32, .heads = 4, .context = 64};
  return (*GptProgram(config, {.path = "text"}, {.train = 8}, std::nullopt, Ops()))[0];
}

// Layers of unequal widths, which hold and take as much as they are wide, and some twice as long for it.
Graph CappedPerceptron() {
  GraphBuilder b(Ops(), "train");
  Tensor x = ReadSamples(b, 512).rows;
  for (const int64_t width : {64, 192, 128, 320, 64, 256}) {
    const GraphBuilder::Segment segment(b, "layers");
    const std::string name = absl::StrCat("w", b.graph().num_nodes());
    Tensor hidden = Tanh(MatMul(x, Weight(b, name, {16, width})));
    if (width % 128 == 0) hidden = Tanh(MatMul(hidden, Weight(b, name + "m", {width, width})));
    x = MatMul(hidden, Weight(b, name + "b", {width, 16}));
  }
  b.SetLoss(ReduceMean(Mul(x, x)));
  return *b.Finish();
}

Graph CappedResNet() {
  GraphBuilder b(Ops(), "train");
  const std::vector<Tensor> data = b.Op("read_data", {},
                                        {{"dataset", std::string("images")},
                                         {"batch", int64_t{8}},
                                         {"channels", int64_t{3}},
                                         {"height", int64_t{32}},
                                         {"width", int64_t{32}}});
  const AttrMap fields = {
      {"depth", int64_t{18}}, {"width", int64_t{8}}, {"small_images", true}, {"classes", int64_t{10}}};
  b.SetLoss(ReduceMean(SoftmaxCrossEntropy(ResNetLogits(fields, data[0], /*training=*/true), data[1])));
  return *b.Finish();
}

// Beside the best of all choices, under caps from "all computed again" to "nothing".
void ExpectTheBest(Capped capped, int min_different) {
  const std::vector<int> layers = capped.layers();
  ASSERT_GE(layers.size(), 6u);
  std::map<std::set<int>, Capped::Costs> all;
  for (size_t bits = 0; bits < size_t{1} << layers.size(); ++bits) {
    std::set<int> segments;
    for (size_t i = 0; i < layers.size(); ++i) {
      if ((bits >> i & 1) != 0) segments.insert(layers[i]);
    }
    ASSERT_OK_AND_ASSIGN(all[segments], capped.With(segments));
  }
  const int64_t most = all.at({}).bytes;
  const int64_t whole = all.at({layers.begin(), layers.end()}).bytes;
  std::set<std::set<int>> different;
  for (const int tenth : {0, 2, 4, 7, 9}) {
    const int64_t cap = whole + (most - whole) * tenth / 10;
    SCOPED_TRACE(absl::StrCat("cap ", cap, ", ", most, " bytes with nothing computed again, ", whole, " with all"));
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, capped.Under(cap));
    for (const pb::RankClass& ranks : plan.classes()) EXPECT_LE(BytesOfZones(ranks), cap);
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [segments, costs] : all) {
      if (costs.bytes <= cap) best = std::min(best, costs.seconds);
    }
    EXPECT_LE(all.at(capped.chosen()).seconds, 1.02 * best);
    different.insert(capped.chosen());
  }
  EXPECT_GE(static_cast<int>(different.size()), min_different);
  EXPECT_THAT(capped.Under(whole / 2).status().message(), HasSubstr("'layers' computed again a device takes"));
}

TEST(MemoryCapTest, OfAGptTheBestOfAllChoices) { ExpectTheBest({CappedGpt(), Options({})}, 4); }

TEST(MemoryCapTest, OfAResNetToo) { ExpectTheBest({CappedResNet(), Options({})}, 2); }

TEST(MemoryCapTest, OfLayersThatDifferToo) { ExpectTheBest({CappedPerceptron(), Options({})}, 4); }

TEST(MemoryCapTest, AndOnSeveralDevices) { ExpectTheBest({CappedGpt(), Options({{"dp", 2}}, 2)}, 3); }

TEST(MemoryCapTest, StagesOfAPipelineHaveTheirOwn) {
  Capped capped(CappedGpt(), Options({{"pp", 2}}, 4));
  ASSERT_OK_AND_ASSIGN(const Capped::Costs none, capped.With({}));
  const std::vector<int> layers = capped.layers();
  ASSERT_OK_AND_ASSIGN(const Capped::Costs all, capped.With({layers.begin(), layers.end()}));
  ASSERT_LT(all.bytes, none.bytes);
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, capped.Under((all.bytes + none.bytes) / 2));
  for (const pb::RankClass& ranks : plan.classes()) EXPECT_LE(BytesOfZones(ranks), (all.bytes + none.bytes) / 2);
  EXPECT_GT(capped.chosen().size(), 0u);
  EXPECT_LT(capped.chosen().size(), 6u);
}

// Offloads with a cap are taken in their order, as many as it takes.
TEST(MemoryCapTest, OffloadsUnderACapAreTakenUntilAPlanFits) {
  const Program program = {CappedGpt()};
  const auto offload = [](OffloadOptions::What what) {
    return OffloadOptions{.what = what, .tier = FindTier("host"), .prefetch = 0, .unit_bytes = 1};
  };
  const std::vector<OffloadOptions> all = {offload(OffloadOptions::What::kOptimizer),
                                           offload(OffloadOptions::What::kActivations)};
  std::vector<int64_t> bytes;  // by number of offloads
  for (size_t count = 0; count <= all.size(); ++count) {
    CompileOptions options = Options({});
    options.offload.assign(all.begin(), all.begin() + static_cast<int64_t>(count));
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, Compile(program, options, Ops()));
    bytes.push_back(MostBytesOfDevice(plan));
  }
  ASSERT_GT(bytes[0], bytes[1]);
  ASSERT_GT(bytes[1], bytes[2]);
  const auto under = [&](int64_t cap, std::vector<std::string>* warnings) {
    CompileOptions options = Options({});
    options.offload = all;
    for (OffloadOptions& one : options.offload) one.memory_bytes = cap;
    return Compile(program, options, Ops(), warnings);
  };
  for (size_t count = 0; count <= all.size(); ++count) {
    std::vector<std::string> warnings;
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet plan, under(bytes[count], &warnings));
    EXPECT_EQ(MostBytesOfDevice(plan), bytes[count]) << count;
    if (count == 0) {
      EXPECT_THAT(warnings, ::testing::IsEmpty());
    } else {
      EXPECT_THAT(warnings, ::testing::ElementsAre(absl::StrCat("offload.memory: ", count,
                                                                " of 2 with it are taken, so that a "
                                                                "device takes ",
                                                                bytes[count], " of ", bytes[count], " bytes")));
    }
  }
  EXPECT_THAT(
      under(bytes[2] - 1, nullptr).status(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr(absl::StrCat("offload.memory is ", bytes[2] - 1, " bytes, but a device takes ", bytes[0],
                                      " with 0, ", bytes[1], " with 1, ", bytes[2], " with 2 of 2 offloads"))));
}

}  // namespace
}  // namespace oneflow::testing
