// Attention in parts of the keys, merged by their log-sum-exp: in any order it is attention over all keys, in doubles
// to 1e-12, also where queries see no key of a part. The numbers are those of an independent computation.
#include <algorithm>
#include <cmath>

#include "test/kernels/harness.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr int kGoldenTokens = 8, kGoldenShard = 2;

// [1,8,2]: of one head of two columns.
RefTensor OfIndex(double (*value)(double)) {
  RefTensor x = Zeros({1, kGoldenTokens, 2});
  for (int i = 0; i < kGoldenTokens; ++i) {
    for (int j = 0; j < 2; ++j) x.values[2 * i + j] = value(2 * i + j);
  }
  return x;
}

class AttentionPartsTest : public ::testing::Test {
 protected:
  const RefTensor q_ = OfIndex([](double n) { return std::sin(1 + n); });
  const RefTensor k_ = OfIndex([](double n) { return std::cos(1 + n); });
  const RefTensor v_ = OfIndex([](double n) { return std::sin(0.5 * n); });

  // Causal attention to the keys of some shards, as out and lse.
  std::vector<RefTensor> To(std::vector<int> shards) const {
    RefTensor out = Zeros({1, kGoldenTokens, 2}), lse = Zeros({1, 1, kGoldenTokens});
    for (int i = 0; i < kGoldenTokens; ++i) {
      double sum = 0;
      for (int j = 0; j <= i; ++j) {
        if (std::find(shards.begin(), shards.end(), j / kGoldenShard) == shards.end()) continue;
        const double score =
            (q_.values[2 * i] * k_.values[2 * j] + q_.values[2 * i + 1] * k_.values[2 * j + 1]) / std::sqrt(2.0);
        sum += std::exp(score);
        for (int c = 0; c < 2; ++c) out.values[2 * i + c] += std::exp(score) * v_.values[2 * j + c];
      }
      lse.values[i] = std::log(sum);
      for (int c = 0; c < 2 && sum > 0; ++c) out.values[2 * i + c] /= sum;
    }
    return {out, lse};
  }
  static std::vector<RefTensor> Merged(const std::vector<RefTensor>& a, const std::vector<RefTensor>& b) {
    std::vector<RefTensor> in = {a[0], a[1], b[0], b[1]};
    return *Reference("merge_attention", {}, in);
  }
};

TEST_F(AttentionPartsTest, HaveTheGoldenNumbers) {
  constexpr double kInfinite = INFINITY;
  const struct {
    int row;
    double parts[4], lse, out[2];
  } kGolden[] = {{2, {1.091635, -0.382048, -kInfinite, -kInfinite}, 1.297901, {0.681144, 0.816632}},
                 {5, {1.217816, 0.172713, 1.206657, -kInfinite}, 2.068206, {0.012659, 0.001217}},
                 {7, {0.751397, 0.872921, 0.484966, 0.847197}, 2.136657, {0.049369, 0.142222}}};
  const std::vector<RefTensor> whole = To({0, 1, 2, 3});
  for (const auto& it : kGolden) {
    for (int shard = 0; shard < 4; ++shard) {
      const double lse = To({shard})[1].values[it.row];
      if (std::isinf(it.parts[shard])) {
        EXPECT_EQ(lse, it.parts[shard]);
      } else {
        EXPECT_NEAR(lse, it.parts[shard], 1e-6) << "row " << it.row << ", shard " << shard;
      }
    }
    EXPECT_NEAR(whole[1].values[it.row], it.lse, 1e-6);
    for (int c = 0; c < 2; ++c) EXPECT_NEAR(whole[0].values[2 * it.row + c], it.out[c], 1e-6);
  }
}

TEST_F(AttentionPartsTest, MergeInAnyOrder) {
  const std::vector<RefTensor> whole = To({0, 1, 2, 3});
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::vector<RefTensor> sum = To({order[0]});
    for (int i = 1; i < 4; ++i) sum = Merged(sum, To({order[i]}));
    const std::vector<RefTensor> pairs =
        Merged(Merged(To({order[0]}), To({order[1]})), Merged(To({order[2]}), To({order[3]})));
    for (const std::vector<RefTensor>& merged : {sum, pairs}) {
      for (int output = 0; output < 2; ++output) {
        for (int64_t i = 0; i < whole[output].count(); ++i) {
          ASSERT_NEAR(merged[output].values[i], whole[output].values[i], 1e-12) << "output " << output << " " << i;
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Two empty sides stay empty, and one changes nothing; no NaN comes of infinities.
TEST_F(AttentionPartsTest, OfNoKeysAreNeutral) {
  RefTensor nothing = Zeros({1, kGoldenTokens, 2}), no_sum = Zeros({1, 1, kGoldenTokens});
  std::fill(no_sum.values.begin(), no_sum.values.end(), -INFINITY);
  const std::vector<RefTensor> none = {nothing, no_sum}, some = To({1, 2});
  EXPECT_EQ(Merged(none, none)[0].values, nothing.values);
  EXPECT_EQ(Merged(none, none)[1].values, no_sum.values);
  for (const std::vector<RefTensor>& merged : {Merged(none, some), Merged(some, none)}) {
    EXPECT_EQ(merged[0].values, some[0].values);
    EXPECT_EQ(merged[1].values, some[1].values);
  }
}

// The kernels: forward of each shard of the keys merged, gradients with lse of all keys added.
TEST_F(AttentionPartsTest, OfKernelsGiveTheGoldenGradients) {
  const auto device = MakeCpuDevice(1);
  device->BindThread();
  const AttrMap attrs = {{"heads", int64_t{1}}, {"causal", true}};
  const std::vector<RefTensor> whole = To({0, 1, 2, 3});
  const RefTensor dout = OfIndex([](double n) { return std::cos(0.3 * n); });
  const std::vector<int64_t> all = {1, kGoldenTokens, 2}, shard_dims = {1, kGoldenShard, 2};
  const Part every = {all, {0, 0, 0}}, of_lse = {{1, 1, kGoldenTokens}, {0, 0, 0}};
  std::vector<RefTensor> sum;  // out and lse
  RefTensor dq = Zeros(all), dk = Zeros(all), dv = Zeros(all);
  for (int shard = 0; shard < 4; ++shard) {
    const Part part = {all, {0, shard * kGoldenShard, 0}};
    const RefTensor k = Cut(k_, part.start, shard_dims), v = Cut(v_, part.start, shard_dims);
    ASSERT_OK_AND_ASSIGN(const KernelResult forward, RunKernel(*device, {"attention",
                                                                         attrs,
                                                                         {q_, k, v},
                                                                         {Zeros(all), Zeros({1, 1, kGoldenTokens})},
                                                                         {every, part, part},
                                                                         {every, of_lse}}));
    if (sum.empty()) {
      sum = forward.outputs;
    } else {
      ASSERT_OK_AND_ASSIGN(const KernelResult merged,
                           RunKernel(*device, {"merge_attention",
                                               {},
                                               {sum[0], sum[1], forward.outputs[0], forward.outputs[1]},
                                               {Zeros(all), Zeros({1, 1, kGoldenTokens})}}));
      sum = merged.outputs;
    }
    ASSERT_OK_AND_ASSIGN(const KernelResult backward,
                         RunKernel(*device, {"attention_grad",
                                             attrs,
                                             {dout, q_, k, v, whole[0], whole[1]},
                                             {Zeros(all), Zeros(shard_dims), Zeros(shard_dims)},
                                             {every, every, part, part, every, of_lse},
                                             {every, part, part}}));
    for (int64_t i = 0; i < dq.count(); ++i) dq.values[i] += backward.outputs[0].values[i];
    Paste(backward.outputs[1], part.start, &dk);
    Paste(backward.outputs[2], part.start, &dv);
  }
  for (int64_t i = 0; i < whole[0].count(); ++i) EXPECT_NEAR(sum[0].values[i], whole[0].values[i], 1e-6);
  for (int64_t i = 0; i < whole[1].count(); ++i) EXPECT_NEAR(sum[1].values[i], whole[1].values[i], 1e-6);
  const auto row = [](const RefTensor& x, int i) { return std::pair(x.values[2 * i], x.values[2 * i + 1]); };
  const auto expect = [&](const RefTensor& x, int i, double first, double second) {
    EXPECT_NEAR(row(x, i).first, first, 2e-6);
    EXPECT_NEAR(row(x, i).second, second, 2e-6);
  };
  expect(dq, 7, 0.029372, 0.024688);
  expect(dk, 0, 0.021030, 0.172407);
  expect(dv, 0, 0.986547, 0.746545);
  expect(dk, 5, 0.014924, 0.144393);
}

}  // namespace
}  // namespace oneflow::testing
