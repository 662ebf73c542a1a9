// Which ops have a rule of their own.
#include "sbp/rules/rules.h"

namespace oneflow {
namespace {

struct Entry {
  absl::string_view op;
  RuleFn rule;
};

constexpr Entry kRules[] = {
    {"variable", rules::Variable},
    {"constant", rules::Variable},
    {"read_data", rules::ReadData},
    {"to", rules::Identity},
    {"boxing", rules::Identity},
    {"fetch", rules::Replicated},
    {"sample_token", rules::Replicated},
    {"append_token", rules::Replicated},
    {"cast", rules::Cast},
    {"bias_add", rules::BiasAdd},
    {"bias_grad", rules::BiasGrad},
    {"add_n", rules::AddN},
    {"reduce_sum", rules::ReduceSum},
    {"reduce_mean", rules::ReduceSum},  // divides by the logical count, so the means of parts add up as sums do
    {"reduce_max", rules::ReduceMax},
    {"reduce_min", rules::ReduceMin},
    {"extremum_count", rules::ExtremumCount},
    {"extremum_grad", rules::ExtremumGrad},
    {"sum_to", rules::SumTo},
    {"broadcast_to", rules::BroadcastTo},
    {"reshape", rules::Reshape},
    {"transpose", rules::Transpose},
    {"slice", rules::Slice},
    {"slice_grad", rules::Slice},
    {"concat", rules::Concat},
    {"pad", rules::Pad},
    {"cumsum", rules::Slice},  // the other dimensions pass, the sum is linear
    {"channel_variance", rules::BatchNorm},
    {"batch_norm", rules::BatchNorm},
    {"batch_norm_sums", rules::BatchNormSums},
    {"batch_norm_dx", rules::BatchNormDx},
    {"matmul", rules::MatMul},
    {"matmul_wgrad", rules::MatMulWgrad},
    {"batch_matmul", rules::BatchMatMul},
    {"attention", rules::Attention},
    {"attention_grad", rules::AttentionGrad},
    {"gather", rules::Gather},
    {"scatter_add", rules::ScatterAdd},
    {"replica_digest", rules::ReplicaDigest},
    {"assert_replicas", rules::AssertReplicas},
};

}  // namespace

RuleFn FindRule(absl::string_view op) {
  for (const Entry& entry : kRules) {
    if (entry.op == op) return entry.rule;
  }
  return nullptr;
}

}  // namespace oneflow
