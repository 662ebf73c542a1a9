// Kernels that must know which part of the logical tensor they hold: run on uneven shards, they give the shards of the
// whole result, or addends of it.
#include <cmath>

#include "test/kernels/harness.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kSplitSeed = 11;
using Ints = std::vector<int64_t>;

// How an operand is cut: along a dimension, not at all, or (outputs only) into addends.
constexpr int kWhole = -1, kPartial = -2;

struct SplitCase {
  std::string op;
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  std::vector<int> input_splits, output_splits;
  std::vector<int64_t> sizes;  // of the parts along the split dimension
  RefContext context = {};
};

// Part `part` of a tensor of these dims; sizes are scaled where the dimension is a multiple of their sum (heads to
// columns).
Part PartOf(const Ints& dims, int split, const Ints& sizes, size_t part, Ints* extent) {
  Part result = {dims, Ints(dims.size(), 0)};
  *extent = dims;
  if (split < 0) return result;
  int64_t total = 0, before = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    total += sizes[i];
    before += i < part ? sizes[i] : 0;
  }
  const int64_t unit = dims[split] / total;
  result.start[split] = before * unit;
  (*extent)[split] = sizes[part] * unit;
  return result;
}

void CheckSplit(DeviceContext& device, const SplitCase& c) {
  std::vector<RefTensor> inputs = c.inputs;
  for (RefTensor& x : inputs) x = Rounded(x);
  std::vector<RefTensor> whole = inputs;
  ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> want, Reference(c.op, c.attrs, whole, c.context));
  std::vector<RefTensor> got;
  for (const RefTensor& x : want) got.push_back(Zeros(x.dims, x.dtype));
  for (size_t part = 0; part < c.sizes.size(); ++part) {
    KernelCall call = {c.op, c.attrs, {}, {}};
    call.context = c.context;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Ints extent;
      call.input_parts.push_back(PartOf(inputs[i].dims, c.input_splits[i], c.sizes, part, &extent));
      call.inputs.push_back(Cut(inputs[i], call.input_parts.back().start, extent));
    }
    for (size_t i = 0; i < want.size(); ++i) {
      Ints extent;
      call.output_parts.push_back(PartOf(want[i].dims, c.output_splits[i], c.sizes, part, &extent));
      call.outputs.push_back(Zeros(extent, want[i].dtype));
    }
    ASSERT_OK_AND_ASSIGN(const KernelResult result, RunKernel(device, call));
    for (size_t i = 0; i < want.size(); ++i) {
      if (c.output_splits[i] == kPartial) {
        for (int64_t j = 0; j < got[i].count(); ++j) got[i].values[j] += result.outputs[i].values[j];
      } else {
        Paste(result.outputs[i], call.output_parts[i].start, &got[i]);
      }
    }
  }
  for (size_t i = 0; i < want.size(); ++i) {
    for (int64_t j = 0; j < want[i].count(); ++j) {
      ASSERT_NEAR(got[i].values[j], want[i].values[j], 2e-5) << "output " << i << " element " << j;
    }
  }
}

// Random elements, rows of embeddings, and classes.
std::vector<SplitCase> DrawnAndLabelled(Random& r) {
  const AttrMap dropout = {{"rate", 0.3}, {"seed", int64_t{4}}, {"key", int64_t{5}}};
  return {{"dropout", dropout, {r.Uniform({7, 6, 5})}, {0}, {0}, {3, 2, 2}, {9, 2}},
          {"dropout", dropout, {r.Uniform({4, 7, 5})}, {1}, {1}, {3, 2, 2}, {9, 2}},
          {"dropout", dropout, {r.Uniform({4, 6, 70})}, {2}, {2}, {3, 2, 2}, {9, 2}},
          {"dropout", dropout, {r.Uniform({7})}, {0}, {0}, {7, 0}},
          {"embedding", {}, {r.Uniform({7, 6}), r.Integers({4, 5}, 7)}, {0, kWhole}, {kPartial}, {3, 2, 2}},
          {"embedding", {}, {r.Uniform({5, 7}), r.Integers({4, 5}, 5)}, {1, kWhole}, {2}, {3, 2, 2}},
          {"embedding", {}, {r.Uniform({5, 6}), r.Integers({7, 5}, 5)}, {kWhole, 0}, {0}, {3, 2, 2}},
          {"embedding_grad",
           {{"rows", int64_t{7}}},
           {r.Uniform({4, 5, 6}), r.Integers({4, 5}, 7)},
           {kWhole, kWhole},
           {0},
           {3, 2, 2}},
          {"embedding_grad",
           {{"rows", int64_t{5}}},
           {r.Uniform({4, 5, 7}), r.Integers({4, 5}, 5)},
           {2, kWhole},
           {1},
           {3, 2, 2}},
          {"embedding_grad",
           {{"rows", int64_t{5}}},
           {r.Uniform({7, 5, 6}), r.Integers({7, 5}, 5)},
           {0, 0},
           {kPartial},
           {3, 2, 2}},
          {"softmax_cross_entropy_grad",
           {},
           {r.Uniform({11}), r.Uniform({11, 7}), r.Integers({11}, 7), r.Uniform({11}, 1, 3)},
           {kWhole, 1, kWhole, kWhole},
           {1},
           {3, 2, 2}},
          {"matmul_cross_entropy_grad",
           {{"dx_transpose_b", true}},
           {r.Uniform({7, 4}), r.Uniform({4, 9}), r.Integers({7}, 9), r.Uniform({7})},
           {0, kWhole, 0, 0},
           {0, 0, kPartial},
           {3, 0, 4}}};
}

// Elements by index, and softmax in parts.
std::vector<SplitCase> Indexed(Random& r) {
  const AttrMap rows = {{"axis", int64_t{1}}, {"size", int64_t{7}}};
  return {{"gather", rows, {r.Uniform({3, 7, 2}), r.Integers({4, 5}, 7)}, {1, kWhole}, {kPartial}, {3, 0, 4}},
          {"gather", rows, {r.Uniform({3, 5, 2}), r.Integers({7, 4}, 5)}, {kWhole, 0}, {1}, {3, 2, 2}},
          {"scatter_add", rows, {r.Uniform({3, 9, 2}), r.Integers({9}, 7)}, {kWhole, kWhole}, {1}, {3, 0, 4}},
          {"scatter_add", rows, {r.Uniform({3, 7, 2}), r.Integers({7}, 7)}, {1, 0}, {kPartial}, {3, 2, 2}},
          {"take_along", {}, {r.Uniform({6, 7}), r.Integers({6, 4}, 7)}, {1, kWhole}, {kPartial}, {3, 0, 4}},
          {"take_along", {}, {r.Uniform({6, 5}), r.Integers({6, 7}, 5)}, {kWhole, 1}, {1}, {3, 2, 2}},
          {"put_along",
           {{"columns", int64_t{7}}},
           {r.Uniform({6, 9}), r.Integers({6, 9}, 7)},
           {kWhole, kWhole},
           {1},
           {3, 0, 4}},
          {"put_along",
           {{"columns", int64_t{5}}},
           {r.Uniform({6, 7}), r.Integers({6, 7}, 5)},
           {1, 1},
           {kPartial},
           {3, 2, 2}},
          {"softmax_sums",
           {},
           {r.Uniform({11, 7}), r.Integers({11}, 7), r.Uniform({11}, 1, 2)},
           {1, kWhole, kWhole},
           {kPartial, kPartial},
           {3, 0, 4}}};
}

// Results that are divided by logical counts.
std::vector<SplitCase> Reduced(Random& r) {
  return {{"reduce_mean", {{"axes", Ints{0, 1}}}, {r.Uniform({7, 6})}, {0}, {kPartial}, {3, 2, 2}},
          {"reduce_mean", {{"axes", Ints{1}}}, {r.Uniform({7, 6})}, {0}, {0}, {3, 2, 2}},
          {"reduce_sum", {{"axes", Ints{0}}}, {r.Uniform({7, 6})}, {0}, {kPartial}, {3, 0, 4}},
          {"channel_mean", {}, {r.Uniform({7, 6, 5})}, {0}, {kPartial}, {3, 0, 4}},
          {"channel_variance", {}, {r.Uniform({7, 6, 5}), r.Uniform({6})}, {0, kWhole}, {kPartial}, {3, 0, 4}},
          {"channel_variance", {}, {r.Uniform({7, 6}), r.Uniform({6})}, {1, 0}, {0}, {3, 2, 1}},
          {"batch_norm_dx",
           {{"epsilon", 1e-3}},
           {r.Uniform({7, 6, 5}), r.Uniform({7, 6, 5}), r.Uniform({6}), r.Uniform({6}), r.Uniform({6}, 0.5, 2),
            r.Uniform({6}), r.Uniform({6})},
           {0, 0, kWhole, kWhole, kWhole, kWhole, kWhole},
           {0},
           {3, 0, 4}}};
}

// Whole heads.
std::vector<SplitCase> OfAttention(Random& r) {
  const AttrMap attention = {{"heads", int64_t{5}}, {"causal", true}};
  std::vector<RefTensor> qkv = {r.Uniform({2, 9, 20}), r.Uniform({2, 9, 20}), r.Uniform({2, 9, 20})};
  for (RefTensor& x : qkv) x = Rounded(x);
  const std::vector<RefTensor> out = *Reference("attention", attention, qkv);
  return {{"attention", attention, {qkv[0], qkv[1], qkv[2]}, {2, 2, 2}, {2, 1}, {2, 2, 1}},
          {"attention", attention, {qkv[0], qkv[1], qkv[2]}, {0, 0, 0}, {0, 0}, {1, 1}},
          {"attention_grad",
           attention,
           {r.Uniform({2, 9, 20}), qkv[0], qkv[1], qkv[2], out[0], out[1]},
           {2, 2, 2, 2, 2, 1},
           {2, 2, 2},
           {2, 0, 3}}};
}

// What is dropped is counted by samples and heads of the whole.
std::vector<SplitCase> OfDroppedAttention(Random& r) {
  const AttrMap attention = {{"heads", int64_t{5}}, {"causal", true},     {"soft_cap", 2.0},
                             {"dropout", 0.4},      {"seed", int64_t{3}}, {"key", int64_t{8}}};
  std::vector<RefTensor> in;
  for (int i = 0; i < 3; ++i) in.push_back(Rounded(r.Uniform({3, 9, 20})));
  for (int i = 0; i < 2; ++i) in.push_back(r.Integers({3, 9}, 2));
  in[4] = in[3];
  const RefContext context = {9, 2};
  const std::vector<RefTensor> out = *Reference("attention", attention, in, context);
  const std::vector<RefTensor> grad = {
      r.Uniform({3, 9, 20}), in[0], in[1], in[2], Rounded(out[0]), out[1], in[3], in[4], r.Uniform({3, 5, 9})};
  return {{"attention", attention, in, {2, 2, 2, kWhole, kWhole}, {2, 1}, {2, 2, 1}, context},
          {"attention", attention, in, {0, 0, 0, 0, 0}, {0, 0}, {2, 1}, context},
          {"attention_grad", attention, grad, {2, 2, 2, 2, 2, 1, kWhole, kWhole, 1}, {2, 2, 2}, {2, 0, 3}, context},
          {"attention_grad", attention, grad, {0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}, {1, 2}, context}};
}

// Parts of the queries with all keys: gradients of keys are addends. Parts of the keys with all queries: those of
// queries are. Masks, windows and what is dropped are as of the whole, whichever part it is.
std::vector<SplitCase> OfTokens(Random& r) {
  std::vector<SplitCase> cases;
  for (const int64_t tokens : {9, 72, 144}) {
    const Ints sizes = tokens == 9 ? Ints{3, 2, 4} : tokens == 72 ? Ints{1, 2} : Ints{1, 1};
    for (const bool causal : {false, true}) {
      for (const int64_t window : {0, 4, 40}) {
        if (window > 0 && !causal) continue;
        AttrMap attrs = {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"causal", causal}};
        if (window > 0) attrs.Set("window", window);
        const bool dropped = tokens == 9 && window != 4;
        if (dropped) {
          attrs.Set("dropout", 0.4);
          attrs.Set("seed", int64_t{3});
          attrs.Set("key", int64_t{8});
        }
        const int64_t d = tokens == 72 ? 32 : 8;
        std::vector<RefTensor> in = {Rounded(r.Uniform({2, tokens, 4 * d}, -1, 1)),
                                     Rounded(r.Uniform({2, tokens, 2 * d}, -1, 1)),
                                     Rounded(r.Uniform({2, tokens, 2 * d}, -1, 1))};
        std::vector<int> of_queries = {1, kWhole, kWhole}, of_keys = {kWhole, 1, 1};
        if (dropped) {
          in.push_back(r.Integers({2, tokens}, 2));
          in.push_back(in.back());
          of_queries.insert(of_queries.end(), {1, kWhole});
          of_keys.insert(of_keys.end(), {kWhole, 1});
        }
        const RefContext context = {9, 2};
        cases.push_back({"attention", attrs, in, of_queries, {1, 2}, sizes, context});
        std::vector<RefTensor> forward = in;
        const std::vector<RefTensor> out = *Reference("attention", attrs, forward, context);
        std::vector<RefTensor> grad = {
            r.Uniform({2, tokens, 4 * d}, -0.2, 0.2), in[0], in[1], in[2], Rounded(out[0]), out[1]};
        grad.insert(grad.end(), in.begin() + 3, in.end());
        std::vector<int> queries = {1, 1, kWhole, kWhole, 1, 2}, keys = {kWhole, kWhole, 1, 1, kWhole, kWhole};
        queries.insert(queries.end(), of_queries.begin() + 3, of_queries.end());
        keys.insert(keys.end(), of_keys.begin() + 3, of_keys.end());
        cases.push_back({"attention_grad", attrs, grad, queries, {1, kPartial, kPartial}, sizes, context});
        cases.push_back({"attention_grad", attrs, grad, keys, {kPartial, 1, 1}, sizes, context});
      }
    }
  }
  return cases;
}

TEST(SplitTest, ShardsOfTheInputsGiveShardsOfTheResult) {
  Random r(kSplitSeed);
  const auto device = MakeCpuDevice(1);
  device->BindThread();
  for (const auto cases : {DrawnAndLabelled, Indexed, Reduced, OfAttention, OfDroppedAttention, OfTokens}) {
    for (const SplitCase& c : cases(r)) {
      SCOPED_TRACE(absl::StrCat(c.op, " split along ", c.input_splits[0], ", seed ", kSplitSeed));
      CheckSplit(*device, c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SplitTest, IndicesOutsideTheLogicalTableAreErrors) {
  const auto device = MakeCpuDevice(1);
  Random r(kSplitSeed);
  for (const double bad : {-1.0, 7.0}) {
    RefTensor ids = r.Integers({3}, 7);
    ids.values[1] = bad;
    EXPECT_THAT(RunKernel(*device, {"embedding", {}, {r.Uniform({7, 4}), ids}, {Zeros({3, 4})}}),
                StatusIs(absl::StatusCode::kInternal, "embedding: an index is outside the table"));
    EXPECT_THAT(RunKernel(*device, {"softmax_cross_entropy", {}, {r.Uniform({3, 7}), ids}, {Zeros({3}), Zeros({3})}}),
                StatusIs(absl::StatusCode::kInternal, "cross entropy: a label is no class"));
    EXPECT_THAT(
        RunKernel(*device, {"matmul_cross_entropy", {}, {r.Uniform({3, 2}), r.Uniform({2, 7}), ids}, {Zeros({3})}}),
        StatusIs(absl::StatusCode::kInternal, "cross entropy: a label is no class"));
    EXPECT_THAT(
        RunKernel(*device, {"softmax_sums", {}, {r.Uniform({3, 7}), ids, Zeros({3})}, {Zeros({3}), Zeros({3})}}),
        StatusIs(absl::StatusCode::kInternal, "softmax sums: a label is no class"));
    const AttrMap rows = {{"axis", int64_t{0}}};
    EXPECT_THAT(RunKernel(*device, {"gather", rows, {r.Uniform({7, 4}), ids}, {Zeros({3, 4})}}),
                StatusIs(absl::StatusCode::kInternal, "gather: an index is outside the dimension"));
    EXPECT_THAT(RunKernel(*device, {"scatter_add", rows, {r.Uniform({3, 4}), ids}, {Zeros({7, 4})}}),
                StatusIs(absl::StatusCode::kInternal, "scatter_add: an index is outside the dimension"));
    EXPECT_THAT(RunKernel(*device, {"take_along", {}, {r.Uniform({7}), ids}, {Zeros({3})}}),
                StatusIs(absl::StatusCode::kInternal, "take_along: an index is no column"));
    EXPECT_THAT(RunKernel(*device, {"put_along", {}, {r.Uniform({3}), ids}, {Zeros({7})}}),
                StatusIs(absl::StatusCode::kInternal, "put_along: an index is no column"));
  }
}

// A shard has nothing of an index that another shard has; that is no error.
TEST(SplitTest, IndicesOfOtherShardsAreNoErrors) {
  const auto device = MakeCpuDevice(1);
  RefTensor ids = Zeros({2}, DType::kInt32), x = Zeros({3});
  ids.values = {1, 5};
  x.values = {4, 5, 6};
  const Part whole = {{2}, {0}}, upper = {{8}, {4}};
  ASSERT_OK_AND_ASSIGN(const KernelResult taken,
                       RunKernel(*device, {"take_along", {}, {x, ids}, {Zeros({2})}, {upper, whole}, {whole}}));
  EXPECT_EQ(taken.outputs[0].values, (std::vector<double>{0, 5}));
  ASSERT_OK_AND_ASSIGN(const KernelResult put,
                       RunKernel(*device, {"put_along", {}, {taken.outputs[0], ids}, {x}, {whole, whole}, {upper}}));
  EXPECT_EQ(put.outputs[0].values, (std::vector<double>{0, 5, 0}));
}

}  // namespace
}  // namespace oneflow::testing
