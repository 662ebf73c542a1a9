// BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018) that learns to fill in masked
// tokens of a text, or, of texts with labels, to say what each is.
//
//   tokens [n,t] ──► some are masked ──► rows of wte + wpe + types, layer norm ──► blocks h0, h1, ... ──► transform
//                ──► layer norm ──► product with wte + bias ──► logits [n,t,vocabulary]
//
//   texts with labels:      ... ──► blocks ──► tanh of a linear layer of the first token ──► dropout ──► linear layer
//                           ──► logits [n,classes]
//
//   block:  x = layer norm(x + attention(x));  x = layer norm(x + mlp(x))
//
// Norms come behind each part, GELU is exact, all tokens are of type 0. Of every sequence `mask_rate` of the tokens are
// replaced by `mask_token`, others in every step, and the loss is the mean over these tokens of all sequences; with a
// rate of 0 none is replaced and all count. Behind a text with a label there is padding, which its tokens do not see.
// Matrices and tables start as normal with standard deviation 0.02, biases as zeros. On mesh axis "tp" the layers are
// split as nn/ says.
//
// Variables: "wte/weight", "wpe/weight", "types/weight", "ln/...", "h0/attn/q/weight", "h0/ln1/...", "h0/mlp/up/...",
// "h0/ln2/...", and "transform/...", "transform_ln/...", "head/bias" or "pooler/...", "classifier/...".
#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/language_model.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/attention.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/layers.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/mlp.h"
#include "oneflow_core/nn/norm.h"

namespace oneflow {
namespace {

class Bert {
 public:
  Bert(const AttrMap& fields, bool training)
      : fields_(fields), dropout_(training ? fields.Double("dropout") : 0), width_(fields.Int("width")) {}

  // [n,classes].
  Tensor OfClasses(const LabelledTexts& texts) const {
    if (!texts.tokens.valid()) return Tensor();
    const int64_t samples = texts.tokens.shape()[0];
    const Tensor x = Encoded(Embedded(texts.tokens), texts.padding);
    const Tensor first = Reshape(Slice(x, 1, 0, 1), {samples, width_});
    const Tensor pooled = Dropout(Tanh(nn::Linear(first, "pooler", {.width = width_})), dropout_);
    return nn::Linear(pooled, "classifier", {.width = fields_.Int("classes")});
  }

  // Of masked tokens.
  Tensor Loss(const Tensor& tokens) const {
    if (!tokens.valid()) return Tensor();
    if (fields_.Double("mask_rate") == 0) {
      return ReduceMean(SoftmaxCrossEntropy(Logits(Embedded(tokens)), tokens), {0, 1});
    }
    const Tensor masked = Masked(tokens);
    const Tensor losses = SoftmaxCrossEntropy(Logits(WithMask(Embedded(tokens), masked)), tokens);
    return StepMean(ReduceSum(Mul(losses, masked), {0, 1}), ReduceSum(masked, {0, 1}));
  }

 private:
  nn::EmbeddingOptions Table(int64_t rows) const { return {.rows = rows, .width = width_}; }
  Tensor Norm(const Tensor& x, absl::string_view name) const {
    return nn::LayerNorm(x, name, fields_.Double("epsilon"));
  }

  // f32[n,t]: 1 for tokens that are masked, else 0.
  Tensor Masked(const Tensor& tokens) const {
    const Tensor ones = Constant(*tokens.builder(), {DType::kFloat32, tokens.shape()}, 1);
    return Sub(ones, Minimum(Dropout(ones, fields_.Double("mask_rate")), ones));  // a kept 1 becomes more
  }

  Tensor Embedded(const Tensor& tokens) const { return nn::Embedding(tokens, "wte", Table(fields_.Int("vocabulary"))); }

  // Rows of masked tokens become that of the mask's token.
  Tensor WithMask(const Tensor& rows, const Tensor& masked) const {
    if (!rows.valid() || !masked.valid()) return Tensor();
    const Tensor table = nn::EmbeddingTable(*rows.builder(), "wte", Table(fields_.Int("vocabulary")));
    const Tensor mask = Slice(table, 0, fields_.Int("mask_token"), 1);
    const Tensor factor = Reshape(masked, {masked.shape()[0], masked.shape()[1], 1});
    return Add(Mul(rows, 1.0 - factor), Mul(factor, mask));
  }

  // A token sees those whose `documents` are the same, or, without these, all.
  Tensor Block(const Tensor& x, const Tensor& documents) const {
    const Tensor attended =
        nn::SelfAttention(x, "attn", {.heads = fields_.Int("heads"), .causal = false, .documents = documents});
    const Tensor y = Norm(Add(x, Dropout(attended, dropout_)), "ln1");
    const int64_t hidden = fields_.Int("hidden");
    const Tensor processed = nn::Mlp(y, "mlp", {.hidden = hidden > 0 ? hidden : 4 * width_});
    return Norm(Add(y, Dropout(processed, dropout_)), "ln2");
  }

  Tensor Encoded(const Tensor& rows, const Tensor& documents = Tensor()) const {
    if (!rows.valid()) return Tensor();
    GraphBuilder& b = *rows.builder();
    const Tensor positions = nn::EmbeddingTable(b, "wpe", Table(fields_.Int("context")));
    const Tensor type = Slice(nn::EmbeddingTable(b, "types", Table(fields_.Int("types"))), 0, 0, 1);
    const Tensor x = Dropout(Norm(Add(rows, Add(positions, type)), "ln"), dropout_);
    return nn::Layers(x, fields_.Int("layers"), [&](const Tensor& y, int64_t) { return Block(y, documents); });
  }

  Tensor Logits(const Tensor& rows) const {
    if (!rows.valid()) return Tensor();
    GraphBuilder& b = *rows.builder();
    const Tensor x = Encoded(rows);
    const Tensor transformed = Norm(Gelu(nn::Linear(x, "transform", {.width = width_})), "transform_ln");
    const int64_t vocabulary = fields_.Int("vocabulary");
    const Tensor bias = b.Variable("head/bias", {DType::kFloat32, {vocabulary}}, "zeros", {}, true);
    return BiasAdd(MatMul(transformed, nn::EmbeddingTable(b, "wte", Table(vocabulary)), /*transpose_b=*/true), bias);
  }

  const AttrMap& fields_;
  const double dropout_;
  const int64_t width_;
};

absl::StatusOr<std::vector<Graph>> BuildClassifier(const ModelRequest& request, const OpRegistry& ops) {
  const int64_t vocabulary = request.fields.Int("vocabulary"), context = request.fields.Int("context");
  for (const char* token : {"first_token", "padding_token"}) {
    if (request.data.Int(token) < vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat("bert: data.texts.", token, " is ", request.data.Int(token),
                                                   ", but must be in a vocabulary of ", vocabulary));
  }
  const auto classifier = [&](GraphBuilder& b, DataSplit split, int64_t batch) {
    const LabelledTexts texts = ReadLabelledTexts(b, request.data, split, batch, context, vocabulary);
    return Classified{Bert(request.fields, split == DataSplit::kTrain).OfClasses(texts), texts.labels};
  };
  return ClassifierProgram(classifier, request.batches, ops);
}

absl::StatusOr<std::vector<Graph>> BuildBert(const ModelRequest& request, const OpRegistry& ops) {
  if (request.reads.name == "texts") return BuildClassifier(request, ops);
  const AttrMap& fields = request.fields;
  const LanguageModel model = {
      .name = "bert",
      .vocabulary = fields.Int("vocabulary"),
      .context = fields.Int("context"),
      .loss = [&](const Batch& samples, bool training) { return Bert(fields, training).Loss(samples.inputs); }};
  return LanguageModelProgram(model, TextDataOf(request.data), request.batches, std::nullopt, ops);
}

std::optional<FieldComplaint> CheckBert(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads");
  if (width % heads != 0) {
    return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
  }
  const int64_t mask = fields.Int("mask_token"), vocabulary = fields.Int("vocabulary");
  if (mask < vocabulary) return std::nullopt;
  return FieldComplaint{"mask_token", absl::StrCat(mask, " is not in a vocabulary of ", vocabulary)};
}

}  // namespace

ModelDef BertModel() {
  ModelDef bert = OfText("bert", BuildBert, CheckBert,
                         "vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 dropout: 0.1 mask_rate: 0.3");
  bert.generates = false;
  bert.reads.push_back("texts");
  return bert;
}

}  // namespace oneflow
