// T5 on bytes (Raffel et al., "Exploring the Limits of Transfer Learning", 2020; Shazeer, "GLU Variants", 2020): an
// encoder reads the first `source` tokens of a window of a text, a decoder says the `target` tokens behind them, each
// from those before it.
//
//   source ──► wte ──► encoder blocks h0, h1, ... ──► norm ────┐
//   start, target but the last ──► wte ──► decoder blocks ◄────┘ ──► norm ──► head ──► logits [n,target,vocabulary]
//
//   block:  x += attention(norm(x));  of the decoder x += attention(norm(x) to the encoder's);  x += mlp(norm(x))
//
// Norms are RMS norms, nothing has a bias, scores are not divided. To those of self-attention a number is added for
// each head and group of distances (T5Bucket), the same in all blocks of a stack. The MLP is gated by a tanh GELU, as
// in T5 1.1, or two layers with a ReLU between them. A tied head is the table of tokens, and what it reads is divided
// by sqrt(width), as in T5 1.0.
//
// Initial values are normal: of the table with deviation 1; of q 1 / sqrt(width * head_width); of k, v, the first
// layers of MLPs, the numbers for distances and the head 1 / sqrt(width); of what writes to the stream 1 / sqrt(its
// inputs). Layouts are said by the layers (nn/).
//
// Variables: "wte/weight", "encoder/distances/weight", "encoder/h0/norm1/weight", "encoder/h0/attn/{q,k,v,o}/weight",
// "encoder/h0/norm2/weight", "encoder/h0/mlp/{gate,up,down}/weight" or "mlp/{in,down}/weight", "encoder/norm_f/weight";
// of the decoder also "decoder/h0/norm_cross/weight", "decoder/h0/cross/{q,k,v,o}/weight"; "head/weight".
#include "oneflow_core/models/t5.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/gated_mlp.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {

int64_t T5Bucket(int64_t distance, bool causal, int64_t buckets, int64_t most_distance) {
  const int64_t groups = causal ? buckets : buckets / 2;
  const int64_t first = !causal && distance > 0 ? groups : 0;
  const int64_t apart = causal ? std::max<int64_t>(-distance, 0) : std::abs(distance);
  const int64_t alone = groups / 2;
  if (apart < alone) return first + apart;
  // In f32, as those compute it whose weights are read.
  const auto of_alone = static_cast<float>(alone);
  const auto all = static_cast<float>(std::log(static_cast<double>(most_distance) / static_cast<double>(alone)));
  const float share = std::log(static_cast<float>(apart) / of_alone) / all;
  return first + std::min(groups - 1, alone + static_cast<int64_t>(share * static_cast<float>(groups - alone)));
}

namespace {

class T5 {
 public:
  explicit T5(const AttrMap& fields) : fields_(fields), width_(fields.Int("width")) {}

  Tensor Loss(const Tensor& tokens) const {
    if (!tokens.valid()) return Tensor();
    const int64_t source = fields_.Int("source"), target = fields_.Int("target");
    const TensorType first = {DType::kInt32, {tokens.shape()[0], 1}};
    Tensor read = Constant(*tokens.builder(), first, static_cast<double>(fields_.Int("start_token")));
    if (target > 1) read = Concat({read, Slice(tokens, 1, source, target - 1)}, 1);
    const Tensor encoded = Blocks(Embedded(Slice(tokens, 1, 0, source)), "encoder", Tensor());
    const Tensor logits = Logits(Blocks(Embedded(read), "decoder", encoded));
    return ReduceMean(SoftmaxCrossEntropy(logits, Slice(tokens, 1, source, target)), {0, 1});
  }

 private:
  static std::string Initial(int64_t inputs) { return nn::Normal(1 / std::sqrt(static_cast<double>(inputs))); }
  int64_t HeadWidth() const {
    return fields_.Int("head_width") > 0 ? fields_.Int("head_width") : width_ / fields_.Int("heads");
  }
  nn::EmbeddingOptions Table() const {
    return {.rows = fields_.Int("vocabulary"), .width = width_, .init = nn::Normal(1)};
  }
  Tensor Embedded(const Tensor& tokens) const { return nn::Embedding(tokens, "wte", Table()); }
  Tensor Norm(const Tensor& x, absl::string_view name) const { return nn::RmsNorm(x, name, fields_.Double("epsilon")); }

  // What is added to scores of so many tokens among themselves: [1,heads,time,time].
  Tensor OfDistances(GraphBuilder& b, int64_t time, bool causal) const {
    const int64_t heads = fields_.Int("heads"), buckets = fields_.Int("buckets");
    std::vector<double> groups;  // of distances from 1 - time
    for (int64_t distance = 1 - time; distance < time; ++distance) {
      groups.push_back(static_cast<double>(T5Bucket(distance, causal, buckets, fields_.Int("most_distance"))));
    }
    const Tensor ids = Constant(b, {DType::kInt32, {2 * time - 1}}, groups);
    const Tensor by_distance =
        nn::Embedding(ids, "distances", {.rows = buckets, .width = heads, .init = Initial(width_)});
    const auto ahead = static_cast<double>(time - 1);
    const Tensor keys = Reshape(Arange(b, DType::kFloat32, time, ahead), {1, time});
    const Tensor queries = Reshape(Arange(b, DType::kFloat32, time), {time, 1});
    const Tensor of_pairs = Gather(by_distance, Cast(Sub(keys, queries), DType::kInt32));
    return Reshape(Transpose(of_pairs, {2, 0, 1}), {1, heads, time, time});
  }

  nn::AttentionOptions Attention(bool causal, const Tensor& added) const {
    const int64_t head_width = HeadWidth();
    return {.heads = fields_.Int("heads"),
            .head_width = head_width,
            .causal = causal,
            .qkv_bias = false,
            .output_bias = false,
            .scale = 1,
            .added = added,
            .init = Initial(width_),
            .query_init = Initial(width_ * head_width),
            .output_init = Initial(fields_.Int("heads") * head_width)};
  }

  Tensor Mlp(const Tensor& x) const {
    const int64_t hidden = fields_.Int("hidden");
    const std::string in = Initial(width_), out = Initial(hidden);
    if (fields_.String("activation") != "relu") {
      return nn::GatedMlp(x, "mlp", {.hidden = hidden, .init = in, .output_init = out, .gelu = true});
    }
    if (!x.valid()) return Tensor();
    const GraphBuilder::Scope scope(*x.builder(), "mlp");
    nn::LinearOptions up = nn::ColumnSplit(hidden, in), down = nn::RowSplit(width_, out);
    up.bias = down.bias = false;
    return nn::Linear(Relu(nn::Linear(x, "in", up)), "down", down);
  }

  // A stack of blocks, which look at `encoded` too if it is valid.
  Tensor Blocks(const Tensor& embedded, absl::string_view name, const Tensor& encoded) const {
    if (!embedded.valid()) return Tensor();
    GraphBuilder& b = *embedded.builder();
    const GraphBuilder::Scope scope(b, name);
    const bool decodes = encoded.valid();
    const nn::AttentionOptions own = Attention(decodes, OfDistances(b, embedded.shape()[1], decodes));
    const nn::AttentionOptions other = Attention(/*causal=*/false, Tensor());
    const int64_t decoder_layers = fields_.Int("decoder_layers");
    const int64_t layers = decodes && decoder_layers > 0 ? decoder_layers : fields_.Int("layers");
    const Tensor x = nn::Layers(embedded, layers, [&](const Tensor& input, int64_t) {
      Tensor y = Add(input, nn::SelfAttention(Norm(input, "norm1"), "attn", own));
      if (decodes) y = Add(y, nn::CrossAttention(Norm(y, "norm_cross"), encoded, "cross", other));
      return Add(y, Mlp(Norm(y, "norm2")));
    });
    return Norm(x, "norm_f");
  }

  Tensor Logits(const Tensor& x) const {
    if (!x.valid()) return Tensor();
    if (!fields_.Bool("tied_embedding")) {
      return nn::Linear(x, "head", {.width = fields_.Int("vocabulary"), .bias = false, .init = Initial(width_)});
    }
    const double factor = 1 / std::sqrt(static_cast<double>(width_));
    return MatMul(Scale(x, factor), nn::EmbeddingTable(*x.builder(), "wte", Table()), /*transpose_b=*/true);
  }

  const AttrMap& fields_;
  const int64_t width_;
};

absl::StatusOr<std::vector<Graph>> BuildT5(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const LanguageModel model = {.name = "t5",
                               .vocabulary = fields.Int("vocabulary"),
                               .context = fields.Int("source") + fields.Int("target"),
                               .loss = [&](const Batch& samples, bool) { return T5(fields).Loss(samples.inputs); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, std::nullopt, ops);
}

std::optional<FieldComplaint> CheckT5(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads");
  if (fields.Int("head_width") == 0 && width % heads != 0) {
    return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
  }
  const int64_t start = fields.Int("start_token"), vocabulary = fields.Int("vocabulary");
  if (start >= vocabulary) {
    return FieldComplaint{"start_token", absl::StrCat(start, " is not in a vocabulary of ", vocabulary)};
  }
  const int64_t buckets = fields.Int("buckets"), most = fields.Int("most_distance");
  if (most >= buckets) return std::nullopt;
  return FieldComplaint{"most_distance", absl::StrCat(most, " is less than ", buckets, " buckets")};
}

}  // namespace

ModelDef T5Model() {
  ModelDef t5 =
      OfText("t5", BuildT5, CheckT5,
             "vocabulary: 128 layers: 2 decoder_layers: 1 width: 24 heads: 4 head_width: 5 hidden: 20 source: "
             "9 target: 6 buckets: 8 most_distance: 12");
  t5.generates = false;
  return t5;
}

}  // namespace oneflow
