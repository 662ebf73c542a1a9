// Annotations that cannot be met, and what their user reads: the texts are golden, as they come out of CompileJob.
#include "absl/strings/str_cat.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/golden.h"
#include "test/support/status_matchers.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

constexpr char kMlp[] = R"(graph "train"
%0:f32[8,16] = constant() "x" {dtype="f32", shape=[8,16], value=1.0} from "model.cc:1"
%1:f32[16,12] = variable() "w" {dtype="f32", init="ones", shape=[16,12], trainable=true} from "model.cc:2"
%2:f32[8,12] = matmul(%0, %1) "matmul" {transpose_b=false} from "model.cc:3"
%3:f32[8,12] = softmax(%2) "softmax" from "model.cc:4"
%4:f32[8,3,4] = reshape(%3) "reshape" {shape=[8,3,4]} from "model.cc:5"
%5:f32[] = reduce_mean(%4) "mean" {axes=[0,1,2]} from "model.cc:6"
fetch(%5) "fetch" {name="loss"} from "model.cc:7"
loss %5
)";

constexpr char kAttention[] = R"(graph "evaluate"
%0:f32[4,8,12] = constant() "x" {dtype="f32", shape=[4,8,12], value=1.0} from "model.cc:1"
%1:f32[12] = variable() "gamma" {dtype="f32", init="ones", shape=[12]} from "model.cc:2"
%2:f32[12] = variable() "beta" {dtype="f32", init="zeros", shape=[12]} from "model.cc:3"
%3:f32[4,8,12], %4:f32[4,8], %5:f32[4,8] = layer_norm(%0, %1, %2) "norm" {epsilon=1e-05} from "model.cc:4"
%6:f32[4,8,12], %7:f32[4,3,8] = attention(%3, %3, %3) "attention" {causal=true, heads=3} from "model.cc:5"
%8:f32[4,8] = reduce_max(%6) "max" {axes=[2]} from "model.cc:6"
%9:f32[4,8] = to(%8) "to" from "model.cc:7"
%10:f32[] = reduce_mean(%9) "mean" {axes=[0,1]} from "model.cc:8"
fetch(%10) "fetch" {name="loss"} from "model.cc:9"
)";

constexpr char kUpdate[] = R"(graph "evaluate"
%0:f32[16,12] = variable() "w" {dtype="f32", init="ones", shape=[16,12]} from "model.cc:1"
%1:f32[16,12] = variable() "momentum" {dtype="f32", init="zeros", shape=[16,12]} from "model.cc:2"
%2:f32[16,12] = constant() "gradient" {dtype="f32", shape=[16,12], value=0.5} from "model.cc:3"
%3:f32[] = constant() "rate" {dtype="f32", shape=[], value=0.1} from "model.cc:4"
sgd_update(%0, %1, %2, %3, %3) "update" {momentum=0.9} from "model.cc:5"
%4:i32[1,8] = variable() "tokens" {dtype="i32", init="zeros", shape=[1,8]} from "model.cc:6"
%5:i32[] = variable() "length" {dtype="i32", init="zeros", shape=[]} from "model.cc:7"
append_token(%4, %5, %5) "append" from "model.cc:8"
)";

struct Case {
  std::string what;
  const char* graph;
  std::vector<std::pair<std::string, std::string>> hints;   // of the first outputs of these nodes
  std::vector<std::pair<std::string, std::string>> second;  // of the second ones
  PlacementHint at;                                         // of the first node
};

const std::vector<Case>& Cases() {
  static const auto* const kCases = new std::vector<Case>{
      {"classes may be split: the parts of a softmax can", kMlp, {{"softmax", "tp:S(1)"}}, {}, {}},
      {"a variable is asked to be partial", kMlp, {{"w", "tp:P"}}, {}, {}},
      {"a dimension that the tensor does not have", kMlp, {{"w", "tp:S(2)"}}, {}, {}},
      {"a scalar is asked to be split", kMlp, {{"mean", "dp:S(0)"}}, {}, {}},
      {"an inner factor of a reshape", kMlp, {{"reshape", "tp:S(2)"}}, {}, {}},
      {"an axis that the mesh does not have is ignored", kMlp, {{"w", "ep:S(0)"}}, {}, {}},
      {"a place along an axis that the mesh does not have is ignored", kMlp, {}, {}, {{"pp", 3}}},
      {"heads that do not divide", kAttention, {{"attention", "tp:S(2)"}}, {}, {}},
      {"outputs of one op that contradict each other", kAttention, {{"norm", "dp:S(0)"}}, {{"norm", "dp:B"}}, {}},
      {"a maximum as addends of a sum", kAttention, {{"max", "tp:P(max)"}, {"to", "tp:P"}}, {}, {}},
      {"variables that are overwritten together", kUpdate, {{"w", "tp:S(0)"}, {"momentum", "tp:S(1)"}}, {}, {}},
      {"a variable that its update needs whole", kUpdate, {{"tokens", "dp:S(1)"}}, {}, {}},
  };
  return *kCases;
}

absl::StatusOr<Job> JobOf(const Case& c, const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(Graph graph, GraphFromText(c.graph, ops));
  for (const auto& [output, hints] : {std::make_pair(0, &c.hints), std::make_pair(1, &c.second)}) {
    for (const auto& [node, hint] : *hints) {
      OF_ASSIGN_OR_RETURN(graph.value(graph.node(graph.FindNode(node)).outputs[output]).hint, ParseSbpHint(hint));
    }
  }
  graph.node(0).at = c.at;
  OF_ASSIGN_OR_RETURN(SourcedConfig config,
                      ParseConfig("name: 'job' mesh { dp: 2 tp: 2 }\n"
                                  "train { steps: 1 batch_size: 8 schedule { learning_rate: 0.1 } }\n",
                                  "job.pbtxt"));
  return MakeJob(std::move(config), {std::move(graph)});
}

TEST(AnnotationErrorsTest, AnImpossibleAnnotationNamesBothSides) {
  const OpRegistry ops = StandardOps();
  std::string text;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.what);
    absl::StatusOr<Job> job = JobOf(c, ops);
    ASSERT_OK(job);
    const absl::Status status = CompleteSpec(*job, ops);
    absl::StrAppend(&text, "--- ", c.what, "\n");
    for (const auto& hints : {c.hints, c.second}) {
      for (const auto& [node, hint] : hints) absl::StrAppend(&text, "    ", node, " {", hint, "}\n");
    }
    absl::StrAppend(&text, status.ok() ? "compiles" : status.ToString(), "\n\n");
  }
  EXPECT_GOLDEN("errors/annotations.txt", text);
}

}  // namespace
}  // namespace oneflow
