// The losses of the project's example jobs under many layouts, to the bit: whatever changes inside the engine, users'
// numbers stay, or the golden file changes in the same commit and its message says why.
//
// Sizes are cut down by --set; models, optimizers and schedules are those of the examples. Metrics carry nine digits,
// which tell any two floats apart, so equal texts are equal bits. Bits also depend on the machine (MachineFacts): the
// golden files name the one that they were written on, and other machines compare within a tolerance and say so.
//
// ONEFLOW_UPDATE_GOLDENS=1 writes the files.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/e2e/machine_facts.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/golden.h"
#include "test/support/paths.h"

namespace oneflow::e2e {
namespace {

// Relative, where processors or libraries differ: sums are added in another order, and four updates do not carry that
// far.
constexpr double kElsewhere = 1e-6;

struct Layout {
  std::string mesh;
  int processes = 1;
  int micro_batches = 1;  // 1: as many as the example says
};

struct Example {
  std::string name;  // of the file in tools/examples/
  std::vector<std::string> settings;
  std::vector<Layout> more_layouts = {};
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

const Layout kLayouts[] = {
    {"", 1},      {"dp: 2", 1},       {"dp: 2", 2},    {"dp: 3", 1},          {"dp: 4", 2},
    {"tp: 2", 2}, {"dp: 2 tp: 2", 2}, {"pp: 2", 1, 4}, {"pp: 2 dp: 2", 2, 4}, {"pp: 2 tp: 2", 1, 2},
};

// The text, images and labels are the workspace's.
std::vector<Example> Examples() {
  const std::vector<std::string> gpt = {"data.text.path=DIR/text", "model.gpt.layers=2",  "model.gpt.width=32",
                                        "model.gpt.context=16",    "train.batch_size=16", "evaluate.batches=2",
                                        "evaluate.batch_size=4",   "generate.tokens=1"};
  const std::vector<std::string> images = {"data.images.train_images=DIR/images",
                                           "data.images.train_labels=DIR/labels",
                                           "data.images.test_images=DIR/images",
                                           "data.images.test_labels=DIR/labels",
                                           "train.batch_size=24",
                                           "evaluate.batches=2",
                                           "evaluate.batch_size=12"};
  return {
      {"gpt_dp2_tp2", gpt, {{"dp: 2 tp: 2", 1}, {"pp: 2 dp: 2", 1, 4}, {"pp: 2 dp: 2 tp: 2", 2, 4}}},
      {"gpt_pp2_dp2", Join(gpt, {"model.gpt.tied_embedding=true", "model.gpt.dropout=0.1"})},
      {"fashion_mnist", Join(images, {"model.convnet.channels=[4, 8]", "model.convnet.hidden=16"})},
      {"mlp_fashion_mnist", Join(images, {"model.mlp.widths=[32, 16]"})},
      {"margin_classifier",
       {"data.prototypes.classes=100", "data.prototypes.samples=400", "data.prototypes.validation_samples=40",
        "evaluate.batch_size=12", "model.margin_classifier.widths=[16]", "model.margin_classifier.embedding=8",
        "train.batch_size=24", "evaluate.batches=2"},
       {{"tp: 4", 2}}},
      {"wide_deep",
       {"data.clicks.vocabulary=400", "data.clicks.fields=4", "data.clicks.samples=400",
        "data.clicks.validation_samples=50", "model.wide_deep.embedding=4", "model.wide_deep.widths=[16, 8]",
        "train.batch_size=24", "evaluate.batch_size=12", "evaluate.batches=2"},
       {{"tp: 4", 2}}},
  };
}

std::string Describe(const Layout& layout) {
  std::string text = layout.mesh.empty() ? "one device" : absl::StrReplaceAll(layout.mesh, {{": ", ""}, {" ", " x "}});
  absl::StrAppend(&text, ", ", layout.processes, layout.processes == 1 ? " process" : " processes");
  if (layout.micro_batches > 1) absl::StrAppend(&text, ", ", layout.micro_batches, " micro-batches");
  return text;
}

// One line of a golden file: the losses of four steps, then that of the validation, as the metrics write them.
std::string LossesOf(const Workspace& work, const Example& example, const Layout& layout) {
  std::vector<std::string> arguments = OnMesh(layout.mesh, layout.processes);
  const auto set = [&](const std::string& setting) {
    arguments.push_back("--set");
    arguments.push_back(absl::StrReplaceAll(setting, {{"DIR/", work.Path("")}}));
  };
  for (const std::string& setting : example.settings) set(setting);
  // One core per device: what a kernel adds up may depend on how many work on it.
  set("train.steps=4");
  set("train.schedule.warmup_steps=1");
  set("cluster.cores_per_process=1");
  if (layout.micro_batches > 1) set(absl::StrCat("train.micro_batches=", layout.micro_batches));
  std::vector<std::string> losses;
  for (const nlohmann::json& line :
       work.Metrics(absl::StrCat(SourceDir(), "/tools/examples/", example.name, ".pbtxt"), arguments)) {
    for (const char* name : {"loss", "validation_loss"}) {
      if (line.contains(name)) losses.push_back(absl::StrFormat("%.9g", line[name].get<double>()));
    }
  }
  return absl::StrCat(Describe(layout), ": ", absl::StrJoin(losses, " "));
}

std::vector<double> Numbers(const std::string& line) {
  std::vector<double> numbers;
  for (const absl::string_view word : absl::StrSplit(line.substr(line.find(": ") + 2), ' ')) {
    EXPECT_TRUE(absl::SimpleAtod(word, &numbers.emplace_back())) << word << " in " << line;
  }
  return numbers;
}

void ExpectClose(const std::string& got, const std::string& want) {
  const std::vector<double> a = Numbers(got), b = Numbers(want);
  ASSERT_EQ(got.substr(0, got.find(": ")), want.substr(0, want.find(": ")));
  ASSERT_EQ(a.size(), b.size()) << got << "\n" << want;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(std::abs(a[i] / b[i] - 1), kElsewhere) << "number " << i + 1 << " of " << got;
  }
}

class GoldenLossesTest : public ::testing::TestWithParam<Example> {
 protected:
  std::string LossesOfAllLayouts() const {
    const Workspace work;
    std::string lines;
    const auto add = [&](const Layout& layout) { absl::StrAppend(&lines, LossesOf(work, GetParam(), layout), "\n"); };
    for (const Layout& layout : kLayouts) add(layout);
    for (const Layout& layout : GetParam().more_layouts) add(layout);
    return lines;
  }
};

TEST_P(GoldenLossesTest, AreWhatTheyWereUnderEveryLayout) {
  const std::string path = absl::StrCat("losses/", GetParam().name, ".txt");
  const std::string facts = MachineFacts(), losses = LossesOfAllLayouts();
  const std::string golden = ReadFile(absl::StrCat(SourceDir(), "/test/golden/", path));
  if (testing::UpdatesGoldens() || absl::StartsWith(golden, facts)) {
    EXPECT_GOLDEN(path, facts + losses);
    return;
  }
  std::cout << "Compared within " << kElsewhere
            << ", not to the bit: the golden was written elsewhere. This machine is\n"
            << facts;
  std::vector<std::string> want = absl::StrSplit(golden, '\n', absl::SkipEmpty());
  want.erase(std::remove_if(want.begin(), want.end(), [](const std::string& line) { return line[0] == '#'; }),
             want.end());
  const std::vector<std::string> got = absl::StrSplit(losses, '\n', absl::SkipEmpty());
  ASSERT_EQ(got.size(), want.size()) << "layouts in the test and in the golden file";
  for (size_t i = 0; i < got.size(); ++i) ExpectClose(got[i], want[i]);
}

INSTANTIATE_TEST_SUITE_P(Examples, GoldenLossesTest, ::testing::ValuesIn(Examples()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace oneflow::e2e
