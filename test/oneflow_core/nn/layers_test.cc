#include "oneflow_core/nn/layers.h"

#include "oneflow_core/functional.h"
#include "test/oneflow_core/nn/module_test.h"
#include "test/support/names.h"

namespace oneflow::nn {
namespace {

using LayersTest = testing::ModuleTest;

TEST_F(LayersTest, AreBlocksInScopesOfTheirOwn) {
  const Tensor y = Layers(Input({DType::kFloat32, {2, 3}}), 3,
                          [](const Tensor& x, int64_t layer) { return Scale(x, static_cast<double>(layer + 2)); });
  EXPECT_TRUE(y.valid());
  ASSERT_OK_AND_ASSIGN(const Graph graph, builder_.Finish());
  for (const auto& [name, factor] :
       {std::pair("h0/scale", 2.0), std::pair("h1/scale", 3.0), std::pair("h2/scale", 4.0)}) {
    ASSERT_GE(graph.FindNode(name), 0) << name;
    EXPECT_EQ(graph.node(graph.FindNode(name)).attrs.Double("alpha"), factor);
  }
}

TEST_F(LayersTest, StopAtAnError) {
  int made = 0;
  const Tensor y = Layers(Input({DType::kFloat32, {2, 3}}), 3, [&](const Tensor& x, int64_t) {
    ++made;
    return MatMul(x, x);
  });
  EXPECT_FALSE(y.valid());
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace oneflow::nn
