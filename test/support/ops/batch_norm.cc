// What tests know of the parts of a batch norm.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::BatchNormOps {
namespace {

// Which channel each element of [n,c,..] belongs to.
std::vector<int64_t> Channels(const RefTensor& x) {
  std::vector<int64_t> channels(x.values.size());
  for (int64_t i = 0; i < x.count(); ++i) channels[i] = Unravel(x.dims, i)[1];
  return channels;
}

Tensors ChannelMean(RefCall& c) {
  const RefTensor& x = c.in[0];
  const std::vector<int64_t> channel = Channels(x);
  RefTensor mean = Zeros({x.dims[1]});
  for (int64_t i = 0; i < x.count(); ++i) mean.values[channel[i]] += x.values[i];
  for (double& m : mean.values) m /= static_cast<double>(x.count()) / static_cast<double>(mean.count());
  return {mean};
}

Tensors ChannelVariance(RefCall& c) {
  const RefTensor &x = c.in[0], &mean = c.in[1];
  const std::vector<int64_t> channel = Channels(x);
  RefTensor var = Zeros(mean.dims);
  for (int64_t i = 0; i < x.count(); ++i) {
    var.values[channel[i]] += std::pow(x.values[i] - mean.values[channel[i]], 2);
  }
  for (double& v : var.values) v /= static_cast<double>(x.count()) / static_cast<double>(var.count());
  return {var};
}

double Normalized(const RefTensor& x, const RefTensor& mean, const RefTensor& var, const AttrMap& attrs, int64_t i,
                  int64_t channel) {
  return (x.values[i] - mean.values[channel]) / std::sqrt(var.values[channel] + attrs.Double("epsilon"));
}

Tensors BatchNorm(RefCall& c) {
  const std::vector<int64_t> channel = Channels(c.in[0]);
  RefTensor y = c.in[0];
  for (int64_t i = 0; i < y.count(); ++i) {
    const double h = Normalized(c.in[0], c.in[3], c.in[4], c.attrs, i, channel[i]);
    y.values[i] = h * c.in[1].values[channel[i]] + c.in[2].values[channel[i]];
  }
  return {y};
}

Tensors BatchNormSums(RefCall& c) {
  const std::vector<int64_t> channel = Channels(c.in[0]);
  RefTensor dgamma = Zeros(c.in[2].dims), dbeta = dgamma;
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    dgamma.values[channel[i]] += c.in[0].values[i] * Normalized(c.in[1], c.in[2], c.in[3], c.attrs, i, channel[i]);
    dbeta.values[channel[i]] += c.in[0].values[i];
  }
  return {dgamma, dbeta};
}

Tensors BatchNormDx(RefCall& c) {
  const RefTensor &dy = c.in[0], &gamma = c.in[2], &var = c.in[4], &dgamma = c.in[5], &dbeta = c.in[6];
  const std::vector<int64_t> channel = Channels(dy);
  const double n = static_cast<double>(dy.count()) / static_cast<double>(gamma.count());
  RefTensor dx = Zeros(dy.dims);
  for (int64_t i = 0; i < dx.count(); ++i) {
    const int64_t k = channel[i];
    const double h = Normalized(c.in[1], c.in[3], var, c.attrs, i, k);
    dx.values[i] = gamma.values[k] / std::sqrt(var.values[k] + c.attrs.Double("epsilon")) *
                   (dy.values[i] - dbeta.values[k] / n - h * dgamma.values[k] / n);
  }
  return {dx};
}

constexpr const char kTypes[] = R"(
channel_mean(f32[2,3,4,4]) = f32[3]
channel_mean(bf16[2,3]) = f32[3]
channel_mean(f32[3]) ! x is f32[3] but must have at least 2 dimensions
channel_mean(f32[0,3]) ! x is f32[0,3] but must have at least one element
channel_variance(f32[2,3,4,4] f32[3]) = f32[3]
channel_variance(bf16[2,3] f32[3]) = f32[3]
channel_variance(f32[2,3] f32[2]) ! mean is f32[2] but x, which is f32[2,3], needs f32[3]
channel_variance(f32[0,3] f32[3]) ! x is f32[0,3] but must have at least one element
channel_variance(f32[3] f32[3]) ! x is f32[3] but must have at least 2 dimensions
batch_norm(f32[2,3,4] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3,4]
batch_norm(bf16[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5 training=false} = bf16[2,3]
batch_norm(bf16[2,3] bf16[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} ! gamma is bf16[3] but must be f32
batch_norm(f32[2,3] f32[3] f32[2] f32[3] f32[3]) {epsilon=1e-5} ! beta is f32[2] but x, which is f32[2,3], needs f32[3]
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[4]) {epsilon=1e-5} ! var is f32[4] but x, which is f32[2,3], needs f32[3]
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5 training=1} ! attribute 'training' is an integer but must
    be a bool
batch_norm(f32[2,3] f32[3] f32[3] f32[3] f32[3]) {epsilon=-1e-5} ! attribute 'epsilon' is -1e-05 but must be at least 0
batch_norm_sums(f32[2,3,4] f32[2,3,4] f32[3] f32[3]) {epsilon=1e-5} = f32[3] f32[3]
batch_norm_sums(bf16[2,3,4] bf16[2,3,4] f32[3] f32[3]) {epsilon=1e-5} = f32[3] f32[3]
batch_norm_sums(f32[2,3] f32[2,4] f32[4] f32[4]) {epsilon=1e-5} ! dy is f32[2,3], x is f32[2,4]; they must be the same
batch_norm_dx(f32[2,3,4] f32[2,3,4] f32[3] f32[3] f32[3] f32[3] f32[3]) {epsilon=1e-5} = f32[2,3,4]
batch_norm_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[2] f32[3]) {epsilon=1e-5} ! dgamma is f32[2] but x, which is
    f32[2,3], needs f32[3]
batch_norm_dx(f32[2,3] f32[2,3] f32[3] f32[3] f32[3] f32[3] f32[3]) ! attribute 'epsilon' is missing
)";

constexpr const char kSignatures[] = R"(
batch_norm(f32[8,4,16], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5} | S(0),B,B,B,B->S(0) |
    S(1),S(0),S(0),S(0),S(0)->S(1) S(2),B,B,B,B->S(2) | - | normalization_op.cpp | with statistics given: they are the
    next rows
channel_mean(f32[8,4,16]) | - | S(0)->P S(1)->S(0) S(2)->P P->P | - | - | -
channel_variance(f32[8,4,16], f32[4]) | - | S(0),B->P S(1),S(0)->S(0) S(2),B->P | S(0),B->B | normalization_op.cpp,
    which gives the statistics as its outputs | not S(0),B->B: each rank would have the statistics of its own samples;
    here they are addends, reduced
batch_norm_sums(f32[8,4,16], f32[8,4,16], f32[4], f32[4]) {epsilon=1e-5} | - | S(0),S(0),B,B->P,P
    S(1),S(1),S(0),S(0)->S(0),S(0) S(2),S(2),B,B->P,P P,B,B,B->P,P | - | - | -
batch_norm_dx(f32[8,4,16], f32[8,4,16], f32[4], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5} | - |
    S(0),S(0),B,B,B,B,B->S(0) S(1),S(1),S(0),S(0),S(0),S(0),S(0)->S(1) S(2),S(2),B,B,B,B,B->S(2) P,B,B,B,B,P,P->P | - |
    - | -
)";

void AddExamples(Random& r, OpCases& cases) {
  const AttrMap attrs = {{"epsilon", 1e-3}};
  for (const Dims& dims : {Dims{7, 5}, Dims{5, 7, 3}, Dims{3, 5, 2, 3}}) {
    const Dims c = {dims[1]};
    const auto one = [&] { return r.Uniform(c); };
    const auto variance = [&] { return r.Uniform(c, 0.5, 2); };
    cases.push_back({"channel_mean", "small", {}, {r.Uniform(dims)}});
    cases.push_back({"channel_variance", "small", {}, {r.Uniform(dims), one()}});
    cases.push_back({"batch_norm", "small", attrs, {r.Uniform(dims), one(), one(), one(), variance()}});
    cases.push_back({"batch_norm_sums", "small", attrs, {r.Uniform(dims), r.Uniform(dims), one(), variance()}, 1e-4});
    cases.push_back({"batch_norm_dx",
                     "small",
                     attrs,
                     {r.Uniform(dims), r.Uniform(dims), one(), one(), variance(), one(), one()},
                     1e-4});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  const AttrMap attrs = {{"epsilon", 1e-3}};
  for (const Dims& dims : {Dims{5, 37}, Dims{7, 1}, Dims{200, 20}, Dims{1000, 33}, Dims{3, 5, 6}, Dims{2, 4, 3, 7},
                           Dims{3, 2, 40, 41}, Dims{130, 3, 9}, Dims{2, 3, 1, 2, 5}, Dims{0, 3, 4}, Dims{0, 3},
                           Dims{3, 0, 4}, Dims{3, 32, 5, 7}, Dims{2, 16, 90, 1}, Dims{0, 16, 2, 2}}) {
    const Dims c = {dims[1]};
    const RefTensor x = r.Uniform(dims, 3, 9), mean = r.Uniform(c, 5, 7), var = r.Uniform(c, 0.5, 2);
    if (x.count() > 0) cases.push_back({"channel_mean", "sides", {}, {x}, 2e-6});
    if (x.count() > 0) cases.push_back({"channel_variance", "sides", {}, {x, mean}, 2e-6});
    const RefTensor gamma = r.Uniform(c), beta = r.Uniform(c), dy = r.Uniform(dims);
    cases.push_back(InPlace({"batch_norm", "sides", attrs, {x, gamma, beta, mean, var}, 5e-6}, 0));
    cases.push_back({"batch_norm_sums", "sides", attrs, {dy, x, mean, var}, 5e-5});
    if (x.count() == 0) continue;
    cases.push_back(
        InPlace({"batch_norm_dx", "sides", attrs, {dy, x, gamma, mean, var, r.Uniform(c), r.Uniform(c)}, 1e-5}, 0));
  }
}

void AddExtremes(Random& r, OpCases& cases) {
  // By the statistics of its own batch.
  for (const Dims& dims : {Dims{7, 5}, Dims{5, 7, 3}, Dims{3, 5, 2, 3}}) {
    Tensors x = {r.Uniform(dims)};
    x.push_back((*Reference("channel_mean", {}, x))[0]);
    const RefTensor var = (*Reference("channel_variance", {}, x))[0];
    const Dims c = {dims[1]};
    cases.push_back({"batch_norm",
                     "training",
                     {{"epsilon", 1e-3}, {"training", true}},
                     {x[0], r.Uniform(c), r.Uniform(c), x[1], var}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {
      .types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges, .extremes = AddExtremes};
  facts.reference = {{"channel_mean", ChannelMean},
                     {"channel_variance", ChannelVariance},
                     {"batch_norm", BatchNorm},
                     {"batch_norm_sums", BatchNormSums},
                     {"batch_norm_dx", BatchNormDx}};
  // Not linear; the sums enter twice.
  facts.wrong_signatures = {{"channel_variance", {2}, {"P,P->P"}}, {"batch_norm_dx", {2}, {"P,B,B,B,B,B,B->P"}}};
  facts.dsl = {{[](Operands d) {
                  return BatchNorm(d.F32({2, 3, 8, 8}), d.F32({3}), d.F32({3})).y;
                },
                "batch_norm", "f32[2,3,8,8]"},
               {[](Operands d) {
                  return BatchNorm(d.F32({2, 3, 8, 8}), d.F32({3}), d.F32({3})).mean;
                },
                "channel_mean", "f32[3]"},
               {[](Operands d) {
                  return BatchNorm(d.F32({2, 3, 8, 8}), d.F32({3}), d.F32({3})).var;
                },
                "channel_variance", "f32[3]"},
               {[](Operands d) {
                  return BatchNorm(d.F32({2, 3}), d.F32({3}), d.F32({3}), d.F32({3}), d.F32({3}));
                },
                "batch_norm", "f32[2,3]"}};
  facts.without_gradient = {{"batch_norm_sums", "a gradient itself"}, {"batch_norm_dx", "a gradient itself"}};
  return facts;
}

}  // namespace oneflow::testing::BatchNormOps
