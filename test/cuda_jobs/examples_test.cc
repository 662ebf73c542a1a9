// The example jobs, made small, on the devices and in the processes that they ask for: on CUDA devices they learn,
// evaluate and generate as on the host.
#include <cmath>
#include <map>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/cuda_jobs/devices.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow::e2e {
namespace {

struct Example {
  const char* name;
  std::vector<std::string> smaller;  // beside the steps
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

std::vector<std::string> Sets(const std::vector<std::string>& overrides) {
  std::vector<std::string> arguments;
  for (const std::string& one : overrides) arguments.insert(arguments.end(), {"--set", one});
  return arguments;
}

class CudaExamplesTest : public ::testing::TestWithParam<Example> {
 protected:
  static constexpr size_t kSteps = 3;

  void SetUp() override {
    if (const std::string why = testing::LacksCudaDevices(4); !why.empty()) GTEST_SKIP() << why;
  }

  std::vector<std::string> Smaller() const {
    std::vector<std::string> all = GetParam().smaller;
    all.push_back(absl::StrCat("train.steps=", kSteps));
    if (absl::StartsWith(GetParam().name, "gpt")) {
      all.push_back("data.text.path=" + work_.Path("text"));
      for (const char* one : {"model.gpt.layers=2", "model.gpt.width=16", "model.gpt.heads=2", "model.gpt.context=16",
                              "train.batch_size=8", "evaluate.every=3", "generate.tokens=3"}) {
        all.push_back(one);
      }
    }
    if (absl::StrContains(GetParam().name, "mnist")) {
      for (const char* split : {"train", "test"}) {
        all.push_back(absl::StrCat("data.images.", split, "_images=", work_.Path("images")));
        all.push_back(absl::StrCat("data.images.", split, "_labels=", work_.Path("labels")));
      }
    }
    return Sets(all);
  }
  // Every number of every line that it writes, step by step.
  std::vector<std::map<std::string, double>> Numbers(const std::vector<std::string>& arguments) const {
    const std::string job = absl::StrCat(SourceDir(), "/tools/examples/", GetParam().name, ".pbtxt");
    std::vector<std::map<std::string, double>> numbers;
    for (const nlohmann::json& line : work_.Metrics(job, Join(Smaller(), arguments))) {
      auto& of_line = numbers.emplace_back();
      for (const auto& [key, value] : line.items()) {
        if (value.is_number() && !absl::StrContains(key, "per_s")) of_line[key] = value;
      }
    }
    return numbers;
  }

  const Workspace work_;
};

TEST_P(CudaExamplesTest, ComputeWhatTheHostDoes) {
  const auto host = Numbers({}), cuda = Numbers({"--set", "cluster.device=cuda"});
  ASSERT_GE(host.size(), kSteps);
  ASSERT_THAT(cuda, SizeIs(host.size()));
  for (size_t i = 0; i < host.size(); ++i) {
    ASSERT_THAT(cuda[i], SizeIs(host[i].size()));
    for (const auto& [key, value] : host[i]) {
      ASSERT_EQ(cuda[i].count(key), 1u) << key;
      EXPECT_LE(std::abs(cuda[i].at(key) - value), 1e-5 * (1 + std::abs(value))) << "line " << i + 1 << ": " << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Examples, CudaExamplesTest,
    ::testing::Values(Example{"gpt_dp2_tp2", {}}, Example{"gpt_pp2_dp2", {}}, Example{"gpt_meshes", {}},
                      Example{"gpt_co2", {"sync.co2.tau=2", "sync.co2.warmup_steps=1"}}, Example{"gpt_zero3", {}},
                      Example{"gpt_context", {"model.gpt.context=64"}},
                      Example{"gpt_offload",
                              {"offload=[{what: OPTIMIZER tier: DISK unit_mb: 0.01 least_kb: 0}, "
                               "{what: WEIGHTS tier: HOST unit_mb: 0.01 least_kb: 0}, "
                               "{what: ACTIVATIONS tier: HOST unit_mb: 0.01 least_kb: 0}]"}},
                      Example{"gpt_lgreco", {"compress.adaptive={every: 1 window: 1}", "compress.warmup_steps=1"}},
                      Example{"masha", {}},
                      Example{"fashion_mnist",
                              {"model.convnet.channels=[2,3]", "model.convnet.hidden=8", "train.batch_size=8"}},
                      Example{"mlp_fashion_mnist", {"model.mlp.widths=[24,16]", "train.batch_size=8"}},
                      Example{"margin_classifier",
                              {"model.margin_classifier.widths=[24]", "model.margin_classifier.embedding=8",
                               "data.prototypes.classes=50", "data.prototypes.samples=400",
                               "data.prototypes.validation_samples=40", "train.batch_size=8"}},
                      Example{"wide_deep",
                              {"model.wide_deep.widths=[16]", "model.wide_deep.embedding=4",
                               "data.clicks.vocabulary=300", "train.batch_size=32"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace oneflow::e2e
