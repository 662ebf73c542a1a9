// bert-layer: an encoder layer of BERT-base. One half of what it reads is its input, the other what its output is to
// be.
#include "absl/strings/str_cat.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"
#include "tools/bench/graph_contest.h"

namespace oneflow {
namespace {

constexpr int64_t kBertBatch = 8, kBertTokens = 128, kBertWidth = 768, kBertHeads = 12, kBertHidden = 3072;

// norm(x + attention(x)), and of that y: norm(y + mlp(y)), as BERT has it.
Tensor EncoderLayer(const Tensor& x) {
  const auto linear = [](const Tensor& from, const char* name) {
    return nn::Linear(from, name, {.width = kBertWidth});
  };
  const Tensor mixed = Attention(linear(x, "attn/q"), linear(x, "attn/k"), linear(x, "attn/v"), kBertHeads,
                                 /*causal=*/false);
  const Tensor y = nn::LayerNorm(x + linear(mixed, "attn/o"), "ln1");
  return nn::LayerNorm(y + nn::Mlp(y, "mlp", {.hidden = kBertHidden}), "ln2");
}

Tensor BertLayerLoss(const Batch& batch) {
  const Tensor both = Reshape(batch.inputs, {kBertBatch, 2, kBertTokens, kBertWidth});
  const auto part = [&](int64_t i) {
    return Reshape(Slice(both, /*axis=*/1, i, 1), {kBertBatch, kBertTokens, kBertWidth});
  };
  const Tensor y = EncoderLayer(part(0)), target = part(1);
  if (!y.valid()) return Tensor();
  // A difference that is rounded to bf16 has a larger square, on average; autocast takes losses in f32 too.
  const GraphBuilder::PrecisionScope full(*y.builder(), DType::kFloat32);
  return ReduceMean(Square(y - target));
}

}  // namespace

std::unique_ptr<BenchCase> MakeBertLayerCase(const BenchContext& context) {
  return MakeGraphContest(
      {.name = "bert-layer",
       .title = absl::StrCat("bert-layer: encoder layer of BERT-base, width ", kBertWidth, ", ", kBertHeads, " heads, ",
                             kBertBatch, " x ", kBertTokens, " tokens, AdamW"),
       .unit = "tokens",
       .per_step = static_cast<double>(kBertBatch * kBertTokens),
       .pytorch = {{"model", "bert-layer"},
                   {"batch", kBertBatch},
                   {"tokens", kBertTokens},
                   {"width", kBertWidth},
                   {"heads", kBertHeads}},
       .training = "optimizer { adamw { weight_decay: 0.01 } } schedule { learning_rate: 1e-4 }",
       .images = {kBertBatch, 2 * kBertTokens, kBertWidth},
       .warmup = 3,
       .steps = 10,
       .modes = {"eager", "compile"},
       .loss = BertLayerLoss},
      context);
}

}  // namespace oneflow
