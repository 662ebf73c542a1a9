// Sizes of models that are published, and that they follow from fields.
#include "tools/study/planner/model_size.h"

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

absl::StatusOr<ModelSize> SizeOf(const std::string& name, const std::vector<std::string>& settings) {
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ConfigOfModel(name, settings));
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kSealed, ops));
  return SizeOfModel(job, ops);
}

TEST(ModelSizeTest, CountsTheParametersOfPublishedModels) {
  struct Published {
    const char* model;
    std::vector<std::string> settings;
    int64_t parameters;
  };
  const std::vector<Published> published = {
      {"gpt",
       {"vocabulary=50257", "layers=12", "width=768", "heads=12", "context=1024", "tied_embedding=true"},
       124'439'808},
      {"llama",
       {"vocabulary=32000", "layers=32", "width=4096", "heads=32", "hidden=11008", "context=16"},
       6'738'415'616},
      {"llama",
       {"vocabulary=128256", "layers=32", "width=4096", "heads=32", "kv_heads=8", "hidden=14336", "context=16"},
       8'030'261'248},
      {"llama",
       {"vocabulary=151936", "layers=24", "width=896", "heads=14", "kv_heads=2", "hidden=4864", "context=16",
        "qkv_bias=true", "tied_embedding=true"},
       494'032'768},
      {"gemma",
       {"vocabulary=256000", "layers=26", "width=2304", "heads=8", "kv_heads=4", "head_width=256", "hidden=9216",
        "context=16"},
       2'614'341'888},
      // The text model of Gemma 3 1B
      {"gemma",
       {"vocabulary=262144", "layers=26", "width=1152", "heads=4", "kv_heads=1", "head_width=256", "hidden=6912",
        "context=16", "qk_norm=true"},
       999'885'952},
      // BERT-base of transformers (BertForMaskedLM, BertForSequenceClassification)
      {"bert", {"vocabulary=30522", "layers=12", "width=768", "heads=12", "context=512"}, 109'514'298},
      {"bert",
       {"vocabulary=30522", "layers=12", "width=768", "heads=12", "context=512", "data.texts.text=words"},
       109'483'778},
      // DeepSeek-V2-Lite with dense layers alone
      {"deepseek",
       {"vocabulary=102400", "layers=27", "width=2048", "heads=16", "hidden=10944", "context=16", "kv_rank=512",
        "plain_width=128", "rotary_width=64", "value_width=128"},
       2'606'624'256},
      // T5 1.1 small
      {"t5",
       {"vocabulary=32128", "layers=8", "width=512", "heads=6", "head_width=64", "hidden=1024", "source=16",
        "target=16"},
       76'961'152},
      // torchvision's
      {"resnet", {"depth=18", "classes=1000", "data.images.channels=3"}, 11'689'512},
      {"resnet", {"depth=34", "classes=1000", "data.images.channels=3"}, 21'797'672},
      {"resnet", {"depth=50", "classes=1000", "data.images.channels=3"}, 25'557'032},
      {"resnet", {"depth=101", "classes=1000", "data.images.channels=3"}, 44'549'160},
      {"resnet", {"depth=152", "classes=1000", "data.images.channels=3"}, 60'192'808},
      // ViT-B/16 of 224 x 224 pixels
      {"vit",
       {"patch=16", "layers=12", "width=768", "heads=12", "classes=1000", "data.images.channels=3",
        "data.images.height=224", "data.images.width=224"},
       86'567'656}};
  for (const Published& each : published) {
    ASSERT_OK_AND_ASSIGN(const ModelSize size, SizeOf(each.model, each.settings));
    EXPECT_EQ(size.parameters, each.parameters) << each.model;
  }
}

// 2 FLOPs for each weight of a matrix and each token forward, and twice that backward.
TEST(ModelSizeTest, CountsWorkByTokensAndSamples) {
  const std::vector<std::string> settings = {"vocabulary=128", "layers=2",   "width=64",
                                             "heads=4",        "hidden=128", "context=32"};
  ASSERT_OK_AND_ASSIGN(const ModelSize one, SizeOf("llama", settings));
  const double products = 2.0 * 32 * (2 * (4 * 64 * 64 + 3 * 64 * 128) + 64 * 128);
  EXPECT_GT(one.forward_flops, products);
  EXPECT_LT(one.forward_flops, 1.3 * products);
  EXPECT_GT(one.step_flops, 2.8 * products);
  EXPECT_GE(one.memory.at("weights"), 4 * one.parameters);
  std::vector<std::string> more = settings;
  more.push_back("train.batch_size=8");
  ASSERT_OK_AND_ASSIGN(const ModelSize eight, SizeOf("llama", more));
  EXPECT_EQ(eight.samples, 8);
  EXPECT_NEAR(eight.forward_flops / one.forward_flops, 8, 0.2);  // positions are added once
  EXPECT_EQ(eight.parameters, one.parameters);
  more.push_back("train.micro_batches=4");
  ASSERT_OK_AND_ASSIGN(const ModelSize accumulated, SizeOf("llama", more));
  EXPECT_NEAR(accumulated.forward_flops / eight.forward_flops, 1, 0.02);
}

TEST(ModelSizeTest, NamesPartsOnce) {
  ASSERT_OK_AND_ASSIGN(const ModelSize size, SizeOf("gpt", {"layers=3", "width=8", "heads=2", "context=4"}));
  const std::string text = ModelSizeText("gpt", size);
  EXPECT_THAT(text, HasSubstr("  h*"));
  EXPECT_THAT(text, HasSubstr("  3 x 872\n"));
  EXPECT_THAT(text, HasSubstr("  wte             2,048\n"));
}

TEST(ModelSizeTest, RefusesWhatIsNoModelOrField) {
  EXPECT_THAT(ConfigOfModel("lama", {}), StatusIs(absl::StatusCode::kNotFound, HasSubstr("gpt, llama")));
  EXPECT_THAT(ConfigOfModel("gpt", {"depth=3"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("depth")));
  EXPECT_THAT(SizeOf("gpt", {"layers=3", "width=8", "heads=3", "context=4"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("heads")));
  EXPECT_THAT(SizeOf("bert", {"layers=1", "width=8", "heads=2", "context=4", "data.texts.first_token=256"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.texts.first_token is 256, but must be in a vocabulary of 256")));
}

}  // namespace
}  // namespace oneflow
