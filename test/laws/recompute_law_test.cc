// The law of recomputation: what is computed again instead of being kept changes no bit of any loss, under any layout
// and schedule, and takes the memory that the plan says. ONEFLOW_RANDOM_MODELS says how many random models with random
// segments, ONEFLOW_RANDOM_SEED which is the first.
#include <random>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "oneflow_core/graph_text.h"
#include "test/laws/layouts_law.h"
#include "test/laws/random_model.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class RecomputeLawTest : public testing::LayoutsLaw {
 protected:
  RecomputeLawTest() { steps_ = 4; }

  // Expects the same losses with `what` computed again, and says how many bytes less the plan has.
  int64_t BytesLess(const std::string& config, std::vector<std::string> layout, const std::string& what) {
    SCOPED_TRACE(absl::StrCat(absl::StrJoin(layout, " "), ", ", what));
    const absl::StatusOr<testing::Outcome> kept = Run(config, layout);
    layout.push_back(absl::StrCat("recompute.what=", what));
    const absl::StatusOr<testing::Outcome> again = Run(config, layout);
    EXPECT_OK(kept.status());
    EXPECT_OK(again.status());
    if (!kept.ok() || !again.ok()) return 0;
    EXPECT_EQ(again->losses, kept->losses) << "bitwise";
    EXPECT_EQ(again->stats.bytes_moved, again->predicted_bytes);
    EXPECT_EQ(again->stats.register_bytes, again->planned_bytes);
    EXPECT_EQ(again->stats.scratch_bytes, 0) << "nothing asks for more than the plan has";
    return kept->planned_bytes - again->planned_bytes;
  }

  // A GPT of more activations than weights.
  std::string LongGpt() const {
    return "model { gpt { vocabulary: 128 layers: 4 width: 16 heads: 4 context: 96 dropout: 0.1 } } data { text { "
           "path: "
           "'" +
           text_ + "' } } train { batch_size: 8 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 3e-3 } }";
  }
};

TEST_F(RecomputeLawTest, AGptTrainsAlikeInLessMemory) {
  const std::vector<std::string> layouts[] = {{},
                                              {"mesh={dp:2 tp:2}"},
                                              {"mesh={tp:2}", "train.micro_batches=2"},
                                              {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
                                              {"mesh={pp:4}", "train.micro_batches=4"}};
  for (const std::vector<std::string>& layout : layouts) {
    EXPECT_GT(BytesLess(LongGpt(), layout, "layers"), 0) << absl::StrJoin(layout, " ");
  }
}

TEST_F(RecomputeLawTest, AndUnderEverySchedule) {
  steps_ = 3;
  const struct {
    const char* schedule;
    const char* mesh;
    int micro_batches;
  } kCases[] = {{"gpipe", "pp:2", 4},      {"1f1b", "pp:2 dp:2", 4}, {"interleaved", "pp:2 dp:2", 4},
                {"zb-h1", "pp:2 tp:2", 4}, {"zb-v", "pp:2", 4},      {"dualpipe-v", "pp:2", 4},
                {"greedy", "pp:4", 8}};
  for (const auto& c : kCases) {
    const std::vector<std::string> layout = {absl::StrCat("pipeline={schedule:'", c.schedule, "'}"),
                                             absl::StrCat("mesh={", c.mesh, "}"),
                                             absl::StrCat("train.micro_batches=", c.micro_batches)};
    EXPECT_GT(BytesLess(LongGpt(), layout, "layers"), 0) << c.schedule;
  }
}

TEST_F(RecomputeLawTest, AConvNetDoesToo) {
  // Something is, though it saves nothing here: convolutions are fused with what follows them, and keep less anyway.
  EXPECT_NE(BytesLess(ConvNet(), {}, "layers"), 0);
  EXPECT_GT(BytesLess(ConvNet(), {"mesh={dp:2}", "train.micro_batches=2"}, "layers"), 0);
}

TEST_F(RecomputeLawTest, ACapOnMemoryIsMetByNoMoreThanIsNeeded) {
  ASSERT_OK_AND_ASSIGN(const testing::Outcome kept, Run(LongGpt(), {"mesh={dp:2}"}));
  ASSERT_OK_AND_ASSIGN(const testing::Outcome again, Run(LongGpt(), {"mesh={dp:2}", "recompute.what=layers"}));
  const int64_t most = kept.planned_bytes / 2, least = again.planned_bytes / 2;
  for (const int64_t cap : {most, (most + least) / 2, least}) {
    SCOPED_TRACE(absl::StrCat("cap ", cap, ", ", most, " kept, ", least, " computed again"));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome capped,
                         Run(LongGpt(), {"mesh={dp:2}", absl::StrCat("recompute.memory='", cap, "B'")}));
    EXPECT_EQ(capped.losses, kept.losses) << "bitwise";
    EXPECT_LE(capped.planned_bytes, 2 * cap);
    EXPECT_EQ(capped.stats.register_bytes, capped.planned_bytes);
    EXPECT_GT(capped.planned_bytes, 2 * cap - (kept.planned_bytes - again.planned_bytes) / 2) << "and is made use of";
  }
  EXPECT_THAT(Run(LongGpt(), {"mesh={dp:2}", "recompute.memory='1kB'"}).status().message(),
              ::testing::HasSubstr("recompute.memory is 1000 bytes, but with all 4 'layers' computed again"));
  EXPECT_THAT(Run(LongGpt(), {"recompute.memory='much'"}).status().message(),
              ::testing::HasSubstr("recompute.memory: 'much' is no size of memory"));
}

// Whether they are a run of layers or nodes at random: a segment may need what comes out of another, which needs what
// comes out of it.
TEST_F(RecomputeLawTest, RandomSegmentsOfRandomModelsChangeNoLoss) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_MODELS", 40), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  const char* const meshes[] = {"", "mesh={dp:2 tp:2}", "mesh={tp:3}", "mesh={pp:2}", "mesh={pp:2 dp:2}"};
  int changed = 0;
  for (int seed = first; seed < first + count; ++seed) {
    RandomModel model(ops_, seed);
    ASSERT_OK_AND_ASSIGN(Graph graph, model.Make());
    std::mt19937 random(seed);
    const int segments = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < segments; ++i) graph.segments.push_back(Segment{"layers"});
    const bool in_order = random() % 2 == 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const int of = in_order ? id * (segments + 1) / graph.num_nodes() : static_cast<int>(random() % (segments + 1));
      graph.node(id).segment = of - 1;
    }
    const std::string config = model.Config(2), mesh = meshes[model.Draw(5)];
    SCOPED_TRACE(absl::StrCat("ONEFLOW_RANDOM_SEED=", seed, ", ", mesh, ", ", config, "\n", GraphToText(graph)));
    const auto losses = [&](const std::string& what) -> absl::StatusOr<std::vector<double>> {
      OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
      if (!mesh.empty()) OF_RETURN_IF_ERROR(ApplyOverride(mesh, sourced));
      OF_RETURN_IF_ERROR(ApplyOverride("recompute.what=" + what, sourced));
      OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), {graph}));
      OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
      changed += what == "layers" && absl::StrContains(job.spec.plan(), "/recompute");
      std::vector<double> values(2, std::nan(""));
      OF_RETURN_IF_ERROR(RunInPlace(job.spec, std::move(program), [&](const pb::JobEvent& event) {
                           if (event.fetched().name() == "loss")
                             values[event.fetched().step()] = event.fetched().values(0);
                         }).status());
      return values;
    };
    ASSERT_OK_AND_ASSIGN(const std::vector<double> kept, losses("none"));
    ASSERT_OK_AND_ASSIGN(const std::vector<double> again, losses("layers"));
    EXPECT_EQ(again, kept) << "bitwise";
  }
  EXPECT_GT(changed, count / 4) << "plans that compute something again";
}

}  // namespace
}  // namespace oneflow
