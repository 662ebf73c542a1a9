// A small model as text, so that golden explanations name lines that do not move: two layers, columns of the first
// weight and rows of the second split over "tp", samples over "dp".
#pragma once

#include "compiler/explain/facts.h"
#include "oneflow_core/graph_text.h"
#include "test/compiler/passes/testing.h"

namespace oneflow::testing {

inline constexpr char kExample[] = R"graph(graph "train"
%0:f32[8,1,4,4], %1:i32[8] = read_data() "data" {batch=8, channels=1, dataset="images", height=4, width=4} from "model.cc:3"
%2:f32[8,1,4,4]{dp:S(0)} = to(%0) "to" from "model.cc:4"
%3:f32[8,16] = reshape(%2) "rows" {shape=[8,16]} from "model.cc:5"
%4:f32[16,32]{tp:S(1)} = variable() "up/weight" {dtype="f32", init="normal(0.1)", shape=[16,32], trainable=true} from "model.cc:7"
%5:f32[8,32] = matmul(%3, %4) "up/matmul" {transpose_b=false} from "model.cc:8"
%6:f32[8,32] = relu(%5) "up/relu" from "model.cc:9"
%7:f32[32,4]{tp:S(0)} = variable() "down/weight" {dtype="f32", init="normal(0.1)", shape=[32,4], trainable=true} from "model.cc:11"
%8:f32[8,4] = matmul(%6, %7) "down/matmul" {transpose_b=false} from "model.cc:12"
%9:f32[8], %10:f32[8] = softmax_cross_entropy(%8, %1) "losses" from "model.cc:14"
%11:f32[] = reduce_mean(%9) "loss" {axes=[0]} from "model.cc:15"
fetch(%11) "fetch" {name="loss"} from "model.cc:16"
loss %11
)graph";

inline absl::StatusOr<JobFacts> FactsOf(const Program& program, CompileOptions options) {
  return GatherFacts(program, options, Ops());
}

// The example on dp 2 x tp 2: two processes of two ranks. Nothing is fused, so that every op has a tensor of its own.
inline JobFacts ExampleFacts(int micro_batches = 1, int rows = 8) {
  std::string text = kExample;
  for (size_t at = 0; rows != 8 && (at = text.find_first_of("8", at)) != std::string::npos; ++at) {
    if (text[at - 1] == '[' || text[at - 1] == '=') text.replace(at, 1, absl::StrCat(rows));
  }
  CompileOptions options = Options({{"dp", 2}, {"tp", 2}}, micro_batches);
  options.job = "example";
  options.ranks_per_process = 2;
  options.fuse = false;
  return *FactsOf({*GraphFromText(text, Ops())}, options);
}

// The output of that node in the boxed graph.
inline ValueId BoxedValue(const GraphFacts& facts, const std::string& name, int output = 0) {
  return NodeOf(facts.boxed, name).outputs[output];
}

}  // namespace oneflow::testing
