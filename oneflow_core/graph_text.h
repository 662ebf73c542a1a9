// The text form of a graph: one line per node, written to be read, and exact: reading it gives the same graph again.
//
//   graph "train"
//   %0:f32[8,4]{dp:S(0)}, %1:i32[8] = read_data() "data" {batch=8, dataset="images"} from "mlp.cc:12"
//   %2:f32[4,2] = variable() "fc/weight" {init="normal(0.02)", shape=[4,2], trainable=true} from "mlp.cc:14"
//   %3:f32[8,2]@[dp=2]{0,1}(S(0)) = matmul(%0, %2) "fc/matmul" at pp=1 on [dp=2]{0,1} from "mlp.cc:14"
//   ...
//   loss %5
//
//   text    = 'graph' STRING  segment*  node*  ('loss' VALUE)*  a line each; empty ones and those with # are skipped
//   segment = 'segment' INT STRING (the kind)  ['in' INT]
//   node    = [output (',' output)* '=']  OP '(' [VALUE (',' VALUE)*] ')'  STRING (the name)
//             ['{' attribute, ... '}']  ['at' AXIS=INT, ...]  ['segment' INT]  ['role' ROLE]  ['forward' STRING]
//             ['variable' STRING]  ['chunk' INT]  ['rate' RATE]  ['on' PLACEMENT]  ['after' VALUE (',' VALUE)*]
//             ['from' STRING (the source)]
//   output  = VALUE ':' TYPE  ['{' hint '}']  ['@' PLACEMENT SBP]
//
// Values are %0, %1, ... in the order in which they are defined. Attributes are written as attr_text.h says. Role
// forward and rate micro-batch are not written. 'forward' and 'variable' give the names of the nodes that this one
// serves, which may come later.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

// Exact for every graph that VerifyGraph accepts.
std::string GraphToText(const Graph& graph);

// Inverse of GraphToText(). The text need not be trusted: the result satisfies VerifyGraph. InvalidArgument naming the
// line, what is wrong there and both values if the text is malformed, an op is unknown, or a declared type is not what
// the op gives.
absl::StatusOr<Graph> GraphFromText(absl::string_view text, const OpRegistry& ops);

}  // namespace oneflow
