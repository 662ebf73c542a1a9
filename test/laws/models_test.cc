// Laws of every model that a config can name, on its small instance: a model that is added is tested without a line
// here, unless it reads a kind of data that none before it read.
#include <map>
#include <random>
#include <set>

#include "oneflow_core/models/model.h"
#include "test/laws/layouts_law.h"

namespace oneflow {
namespace {

class ModelsTest : public testing::LayoutsLaw {
 protected:
  // A little of each kind of data.
  std::map<std::string, std::string> Data() const {
    return {{"text", absl::StrCat("text { path: '", text_, "' }")},
            {"images", absl::StrCat("images { train_images: '", images_, "' train_labels: '", labels_, "' }")},
            {"prototypes", "prototypes { classes: 37 samples: 400 height: 5 width: 5 noise: 0.2 }"},
            {"texts", absl::StrCat("texts { path: '", Texts(), "' text: 'words' label: 'kind' }")},
            {"clicks", "clicks { fields: 3 vocabulary: 301 numbers: 2 }"},
            {"game", "game { dimension: 9 }"},
            {"csv", absl::StrCat("csv { path: '", Csv(), "' features: ['a', 'b'] label: 'sign' }")}};
  }
  // Words of small letters, or of large ones.
  std::string Texts() const {
    std::mt19937 random(7);
    std::string rows = "kind,words\n";
    for (int i = 0; i < 300; ++i) {
      absl::StrAppend(&rows, i % 2, ",");
      for (size_t letters = 1 + random() % 15; letters > 0; --letters)
        rows += static_cast<char>("aA"[i % 2] + random() % 26);
      rows += "\n";
    }
    return dir_.Write("texts.csv", rows);
  }
  // Which is larger of two numbers, and their product.
  std::string Csv() const {
    std::mt19937 random(7);
    std::string rows = "a,b,sign,product\n";
    for (int i = 0; i < 300; ++i) {
      const double a = static_cast<double>(random() % 2001) / 1000 - 1,
                   b = static_cast<double>(random() % 2001) / 1000 - 1;
      absl::StrAppend(&rows, a, ",", b, ",", a > b ? 1 : 0, ",", a * b, "\n");
    }
    return dir_.Write("rows.csv", rows);
  }
  std::string JobText(const ModelDef& model, const std::string& kind) const {
    return absl::StrCat("model { ", model.name, " { ", model.small, " } } data { ", Data().at(kind),
                        " } train { batch_size: 96 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 0.02 "
                        "} }");
  }
};

TEST_F(ModelsTest, EachTrainsAlikeUnderEveryLayout) {
  for (const ModelDef& model : Models()) {
    for (const std::string& kind : model.reads) {
      if (kind == "cifar") continue;  // alike images of IDX files, as the next test says
      SCOPED_TRACE(absl::StrCat(model.name, " on ", kind));
      ASSERT_EQ(Data().count(kind), 1u) << "a little data of this kind is missing here";
      std::vector<std::vector<std::string>> layouts = {
          {"mesh={dp:2}"},
          {"mesh={tp:2}"},
          {"mesh={dp:3}"},
          {"mesh={pp:2}", "train.micro_batches=2"},
          {"mesh={dp:2 tp:2}", "train.micro_batches=3"},
          {"mesh={tp:2 axes{name:'x' size:2 role:'batch'}}"},
          {"mesh={axes{name:'x' size:2 role:'model'} axes{name:'y' size:2 role:'model'}}"}};
      steps_ = 20;
      if (model.least_batch > 1) {
        // Batch norms are of a micro-batch. Behind them some ReLU's input is always so near zero that rounding turns it
        // over: from the third step on the layouts go ways of their own.
        std::erase_if(layouts, [](const std::vector<std::string>& layout) { return layout.size() > 1; });
        layouts.push_back({"mesh={pp:2}"});
        steps_ = 2;
      }
      ExpectSameUnder(JobText(model, kind), layouts);
    }
  }
}

// The same images in the files of CIFAR-10 and in IDX files.
TEST_F(ModelsTest, CifarTrainsAsTheSameImagesInIdxFilesDo) {
  std::mt19937 random(7);
  std::string pixels{0, 0, 8, 4, 0, 0, 0, 100, 0, 0, 0, 3, 0, 0, 0, 32, 0, 0, 0, 32}, classes{0, 0, 8, 1, 0, 0, 0, 100};
  for (int file = 1; file <= 5; ++file) {
    std::string records;
    for (int i = 0; i < 20; ++i) {
      std::string image;
      for (int p = 0; p < 3072; ++p) image += static_cast<char>((p % 1024 / 96 == i % 10 ? 60 : 0) + random() % 196);
      absl::StrAppend(&records, std::string(1, static_cast<char>(i % 10)), image);
      absl::StrAppend(&pixels, image);
      classes += static_cast<char>(i % 10);
    }
    dir_.Write(absl::StrCat("data_batch_", file, ".bin"), records);
  }
  const std::string job = absl::StrCat(
      "model { convnet { channels: [6, 10] hidden: 20 } } data { images { train_images: '", dir_.Write("i", pixels),
      "' train_labels: '", dir_.Write("l", classes),
      "' channels: 3 height: 32 width: 32 std: 0.25 } } train { batch_size: 24 optimizer { adamw {} } schedule { "
      "learning_rate: 0.001 } }");
  const std::string cifar = absl::StrCat("data={cifar {folder: '", dir_.File(""), "' std: 0.25}}");
  steps_ = 8;  // which read all images, and then some again
  for (const char* mesh : {"mesh={}", "mesh={dp:2}"}) {
    ASSERT_OK_AND_ASSIGN(const Outcome idx, Run(job, {mesh}));
    ASSERT_OK_AND_ASSIGN(const Outcome same, Run(job, {mesh, cifar}));
    EXPECT_NE(idx.losses.front(), idx.losses.back());
    EXPECT_EQ(same.losses, idx.losses) << mesh;
  }
}

// Numbers instead of classes.
TEST_F(ModelsTest, AnMlpEstimatesATargetAlikeUnderEveryLayout) {
  const std::string job = absl::StrCat("model { mlp { widths: [16] } } data { csv { path: '", Csv(),
                                       "' features: ['b', 'a'] target: 'product' } } train { batch_size: 96 optimizer "
                                       "{ adamw {} } schedule { learning_rate: 0.02 } }");
  ExpectSameUnder(job, {{"mesh={dp:3}"}, {"mesh={tp:2}"}, {"mesh={pp:2}", "train.micro_batches=2"}});
}

// Batch norms are of all samples, wherever they lie, and so is the comparison with all classes.
TEST_F(ModelsTest, AMarginClassifierOnAResNetTrainsAlikeUnderEveryLayout) {
  steps_ = 2;
  for (const std::string head : {"", "head_norms: true dropout: 0.3"}) {
    first_bar_ = head.empty() ? 1e-6 : 1e-5;  // norms make what is small in their statistics large
    const std::string job =
        absl::StrCat("model { margin_classifier { depth: 18 width: 4 small_images: true embedding: 10 scale: 8 ", head,
                     " } } data { ", Data().at("prototypes"),
                     " } train { batch_size: 96 optimizer { adamw {} } schedule { learning_rate: 0.02 } }");
    ExpectSameUnder(job, {{"mesh={dp:2}"}, {"mesh={tp:2}"}, {"mesh={dp:2 tp:2}"}, {"mesh={pp:2}"}});
  }
}

TEST_F(ModelsTest, EachSaysWhatIsEvaluated) {
  for (const ModelDef& model : Models()) {
    const DataKind kind = *FindDataKind(model.reads[0]);
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(JobText(model, kind.name), "law"));
    ASSERT_OK(ApplyOverride("evaluate={batches: 1}", config));
    if (kind.name == "images") {
      ASSERT_OK(ApplyOverride("data.images.test_images=" + images_, config));
      ASSERT_OK(ApplyOverride("data.images.test_labels=" + labels_, config));
    }
    if (model.generates) {
      ASSERT_OK(ApplyOverride("generate={tokens: 1 prompt: 'a'}", config));
    }
    ASSERT_OK_AND_ASSIGN(const oneflow::Job job, MakeJob(std::move(config), JobKind::kTrain, ops_));
    std::set<std::string> graphs;
    for (const Graph& graph : job.program) graphs.insert(graph.name());
    EXPECT_EQ(graphs.count("train") + graphs.count("evaluate"), 2u) << model.name;
    EXPECT_EQ(graphs.count("generate"), model.generates ? 1u : 0u) << model.name;
  }
}

}  // namespace
}  // namespace oneflow
