// Tests of functions that are made of several ops, by the values of their formulas.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "oneflow_core/builder.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/reference.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

MATCHER(IsClose, "is within 1e-6 of the other") {
  const auto& [mine, other] = arg;
  return std::abs(mine - other) <= 1e-6 * (1 + std::abs(other));
}

// A builder with tensors of given and of random values, and the values of what is made of them.
class FormulaTest : public ::testing::Test {
 protected:
  // A variable with these values.
  Tensor Given(const RefTensor& values) {
    const std::string name = absl::StrCat("x", given_.size());
    given_[name] = values;
    return b_.Variable(name, {values.dtype, Shape(values.dims)}, "zeros", {}, /*trainable=*/false);
  }
  Tensor Drawn(std::vector<int64_t> dims, double low = -2, double high = 2) {
    RefTensor x = Zeros(std::move(dims));
    std::uniform_real_distribution<double> draw(low, high);
    for (double& value : x.values) value = draw(random_);
    drawn_.push_back(x);
    return Given(x);
  }
  static RefTensor Ids(std::vector<int64_t> dims, std::vector<double> values) {
    return {std::move(dims), std::move(values), DType::kInt32};
  }

  // What the graph computes.
  std::vector<double> Values(const Tensor& of) {
    EXPECT_OK(b_.status());
    std::map<ValueId, RefTensor> values;
    const Graph& graph = b_.graph();
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      std::vector<RefTensor> out;
      if (node.op == "variable") {
        out = {given_.at(node.name)};
      } else {
        std::vector<RefTensor> in;
        for (const ValueId input : node.inputs) in.push_back(values.at(input));
        auto computed = Reference(node.op, node.attrs, in);
        EXPECT_OK(computed.status());
        if (!computed.ok()) return {};
        out = *computed;
      }
      for (size_t i = 0; i < out.size(); ++i) values[node.outputs[i]] = out[i];
    }
    return values.at(of.id()).values;
  }
  // f of each drawn element of the first tensor, and of the second beside it.
  std::vector<double> Each(const std::function<double(double, double)>& f) const {
    std::vector<double> result;
    for (size_t i = 0; i < drawn_[0].values.size(); ++i) {
      result.push_back(f(drawn_[0].values[i], drawn_.size() > 1 ? drawn_[1].values[i] : 0));
    }
    return result;
  }

  const unsigned seed_ = std::random_device()();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, absl::StrCat("seed ", seed_)};
  std::mt19937 random_{seed_};
  const OpRegistry ops_ = StandardOps();
  GraphBuilder b_{ops_, "composed"};
  std::map<std::string, RefTensor> given_;
  std::vector<RefTensor> drawn_;
};

}  // namespace oneflow::testing
