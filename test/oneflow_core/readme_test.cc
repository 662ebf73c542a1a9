// The example of oneflow_core/README.md, compiled and run: what stands between the two marks below is, letter by
// letter, what the README shows.
#include <fstream>
#include <sstream>

#include "oneflow_core/ops/ops.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"

// clang-format off
// --- begin example
#include "oneflow_core/functional.h"
#include "oneflow_core/nn/linear.h"

using namespace oneflow;

absl::StatusOr<Graph> Classifier(const OpRegistry& ops, int64_t batch) {
  GraphBuilder b(ops, "train");
  const ImageBatch data = ReadImages(b, batch, 1, 28, 28, {{"images", "images.gz"}, {"labels", "labels.gz"}});
  const Tensor images = data.images.To({{"dp", Sbp::Split(0)}});  // samples are dealt out along mesh axis dp

  Tensor x = Reshape(images, {batch, -1});
  x = Relu(nn::Linear(x, "fc", nn::ColumnSplit(512, "normal(0.05)")));         // columns of fc/weight along tp
  const Tensor logits = nn::Linear(x, "head", nn::RowSplit(10, "normal(0.05)"));  // rows of head/weight along tp

  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, data.labels));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();  // or the first mistake, with the line above that made it
}
// --- end example
// clang-format on

namespace oneflow {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(SourceDir() + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ReadmeTest, ItsExampleIsAGraph) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, ::Classifier(StandardOps(), 32));
  EXPECT_TRUE(graph.is_trained());
  EXPECT_EQ(testing::NumParameters(graph), 784 * 512 + 512 + 512 * 10 + 10);
  EXPECT_THAT(testing::Fetches(graph), ElementsAre("loss"));
}

TEST(ReadmeTest, ItsExampleIsTheOneCompiledHere) {
  const std::string source = Read("test/oneflow_core/readme_test.cc");
  const std::string begin = "// --- begin example\n", end = "// --- end example\n";
  const size_t first = source.find(begin) + begin.size();
  const std::string example = source.substr(first, source.find(end, first) - first);
  ASSERT_THAT(example, HasSubstr("b.Finish()"));
  EXPECT_THAT(Read("oneflow_core/README.md"), HasSubstr("```cpp\n" + example + "```\n"));
}

}  // namespace
}  // namespace oneflow
