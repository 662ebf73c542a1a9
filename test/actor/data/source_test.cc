#include "actor/data/source.h"

#include <filesystem>
#include <set>

#include "actor/data/permutation.h"
#include "oneflow_core/data/data_kind.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

// One local shard of an output, with its memory.
struct LocalShard {
  std::vector<int64_t> dims, logical, start;
  std::vector<uint8_t> bytes;
  TensorArg arg;

  LocalShard(DType dtype, std::vector<int64_t> dims_in, std::vector<int64_t> logical_in, std::vector<int64_t> start_in)
      : dims(std::move(dims_in)), logical(std::move(logical_in)), start(std::move(start_in)) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    bytes.resize(count * SizeOf(dtype));
    arg = {bytes.data(), dtype, static_cast<int>(dims.size()), count, dims.data(), logical.data(), start.data()};
  }
  LocalShard(const LocalShard&) = delete;
  int32_t I(int64_t i) const { return arg.as<int32_t>()[i]; }
  float F(int64_t i) const { return arg.as<float>()[i]; }
};

std::string Text(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += static_cast<char>((i * 7 + i / 50) % 100 + 28);
  return text;
}

std::string Idx(std::vector<uint32_t> dims, const std::string& data) {
  std::string file = {0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t d : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(d >> shift);
  }
  return file + data;
}

AttrMap TextAttributes(const std::string& path, const std::string& split) {
  return {{"dataset", std::string("text")}, {"path", path},          {"split", split},
          {"validation_fraction", 0.1},     {"context", int64_t{8}}, {"seed", int64_t{5}}};
}

TEST(TextSourceTest, LabelsAreTheNextBytesOfTheTokens) {
  const TestDir dir;
  const std::string text = Text(1000);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(TextAttributes(dir.Write("t", text), "train")));
  LocalShard tokens(DType::kInt32, {4, 8}, {4, 8}, {0, 0}), labels(DType::kInt32, {4, 8}, {4, 8}, {0, 0});
  const TensorArg outputs[] = {tokens.arg, labels.arg};
  ASSERT_OK(source->Read(3, 0, 1, outputs));
  for (int row = 0; row < 4; ++row) {
    std::string window;
    for (int i = 0; i < 8; ++i) window += static_cast<char>(tokens.I(row * 8 + i));
    const size_t at = text.find(window);
    ASSERT_NE(at, std::string::npos);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(labels.I(row * 8 + i), text[at + i + 1]);
  }
}

TEST(TextSourceTest, APartOfTheTextIsReadAlone) {
  const TestDir dir;
  std::string text;
  for (const char c : {'a', 'b', 'c'}) text += std::string(300, c);
  text += std::string(100, 'v');
  for (int64_t part = 0; part < 3; ++part) {
    for (const char* split : {"train", "validation"}) {
      AttrMap attributes = TextAttributes(dir.Write("t", text), split);
      attributes.Set("part", part);
      attributes.Set("parts", int64_t{3});
      ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(attributes));
      LocalShard tokens(DType::kInt32, {20, 8}, {20, 8}, {0, 0}), labels(DType::kInt32, {20, 8}, {20, 8}, {0, 0});
      const TensorArg outputs[] = {tokens.arg, labels.arg};
      ASSERT_OK(source->Read(0, 0, 1, outputs));
      const int want = split == std::string("train") ? 'a' + static_cast<int>(part) : 'v';
      for (int i = 0; i < 160; ++i) {
        EXPECT_EQ(tokens.I(i), want);
        EXPECT_EQ(labels.I(i), want);
      }
    }
  }
  AttrMap attributes = TextAttributes(dir.Write("t", text), "train");
  attributes.Set("part", int64_t{3});
  attributes.Set("parts", int64_t{3});
  EXPECT_THAT(OpenSource(attributes).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1000 bytes have no part 3 of 3")));
}

TEST(TextSourceTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  const TestDir dir;
  const std::string path = dir.Write("t", Text(1000));
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(TextAttributes(path, "train")));
  LocalShard tokens(DType::kInt32, {4, 8}, {4, 8}, {0, 0}), labels(DType::kInt32, {4, 8}, {4, 8}, {0, 0});
  const TensorArg outputs[] = {tokens.arg, labels.arg};
  EXPECT_OK(source->Read(3, 0, 1, outputs));
  std::filesystem::resize_file(path, 3);
  EXPECT_THAT(
      source->Read(4, 0, 1, outputs),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr(absl::StrCat("data file '", path, "': 8 bytes at ")),
                     HasSubstr("cannot be read: it ends at "), HasSubstr(", but had 1000 bytes when it was opened"))));
}

TEST(TextSourceTest, ShardsAndMicroBatchesReadTheSameSamplesAsTheWhole) {
  const TestDir dir;
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(TextAttributes(dir.Write("t", Text(1000)), "train")));
  LocalShard whole(DType::kInt32, {6, 8}, {6, 8}, {0, 0}), whole_labels(DType::kInt32, {6, 8}, {6, 8}, {0, 0});
  const TensorArg whole_outputs[] = {whole.arg, whole_labels.arg};
  ASSERT_OK(source->Read(2, 0, 1, whole_outputs));
  // Micro-batch 1 of 2 has rows 3..5; its second shard of uneven two begins at row 2 of 3 and holds one row.
  LocalShard part(DType::kInt32, {1, 8}, {3, 8}, {2, 0}), part_labels(DType::kInt32, {1, 8}, {3, 8}, {2, 0});
  const TensorArg part_outputs[] = {part.arg, part_labels.arg};
  ASSERT_OK(source->Read(2, 1, 2, part_outputs));
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(part.I(i), whole.I(5 * 8 + i));
    EXPECT_EQ(part_labels.I(i), whole_labels.I(5 * 8 + i));
  }
}

TEST(TextSourceTest, ValidationWalksTheEndOfTheFileWindowByWindow) {
  const TestDir dir;
  const std::string text = Text(1000);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(TextAttributes(dir.Write("t", text), "validation")));
  EXPECT_EQ(source->num_samples(), 12);  // 100 bytes: 12 windows of 8 and a label after the last
  LocalShard tokens(DType::kInt32, {13, 8}, {13, 8}, {0, 0}), labels(DType::kInt32, {13, 8}, {13, 8}, {0, 0});
  const TensorArg outputs[] = {tokens.arg, labels.arg};
  ASSERT_OK(source->Read(0, 0, 1, outputs));
  for (int i = 0; i < 96; ++i) EXPECT_EQ(tokens.I(i), text[900 + i]);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(tokens.I(96 + i), text[900 + i]) << "after the last window comes the first";
}

TEST(ImageSourceTest, AnEpochIsAPermutationAndTheNextIsAnother) {
  const TestDir dir;
  std::string pixels, labels;
  for (int i = 0; i < 10; ++i) pixels += std::string(4, static_cast<char>(25 * i)), labels += static_cast<char>(i);
  const AttrMap attributes = {{"dataset", std::string("images")},
                              {"images", dir.Write("i", Idx({10, 2, 2}, pixels))},
                              {"labels", dir.Write("l", Idx({10}, labels))},
                              {"split", std::string("train")},
                              {"seed", int64_t{1}}};
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(attributes));
  std::vector<std::vector<int>> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    LocalShard x(DType::kFloat32, {10, 1, 2, 2}, {10, 1, 2, 2}, {0, 0, 0, 0}), y(DType::kInt32, {10}, {10}, {0});
    const TensorArg outputs[] = {x.arg, y.arg};
    ASSERT_OK(source->Read(epoch, 0, 1, outputs));
    epochs.emplace_back();
    for (int i = 0; i < 10; ++i) {
      epochs.back().push_back(y.I(i));
      EXPECT_NEAR(x.F(4 * i), 25 * y.I(i) / 127.5 - 1, 1e-6) << "image and label belong together";
    }
    EXPECT_EQ(std::set<int>(epochs.back().begin(), epochs.back().end()).size(), 10u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(ImageSourceTest, PixelsAreNormalisedAsTheJobSays) {
  const TestDir dir;
  AttrMap attributes = {{"dataset", std::string("images")},
                        {"images", dir.Write("i", Idx({1, 1, 3}, std::string("\0\x66\xff", 3)))},
                        {"labels", dir.Write("l", Idx({1}, std::string(1, '\0')))},
                        {"split", std::string("train")}};
  const auto pixels = [&]() -> absl::StatusOr<std::vector<float>> {
    OF_ASSIGN_OR_RETURN(const auto source, OpenSource(attributes));
    LocalShard x(DType::kFloat32, {1, 1, 1, 3}, {1, 1, 1, 3}, {0, 0, 0, 0}), y(DType::kInt32, {1}, {1}, {0});
    const TensorArg outputs[] = {x.arg, y.arg};
    OF_RETURN_IF_ERROR(source->Read(0, 0, 1, outputs));
    return std::vector<float>{x.F(0), x.F(1), x.F(2)};
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<float> usual, pixels());
  EXPECT_EQ(usual[0], -1);
  EXPECT_EQ(usual[1], 102 * (2.0f / 255.0f) - 1.0f) << "to the bit";
  EXPECT_EQ(usual[2], 1);
  attributes.Set("mean", 0.2);
  attributes.Set("std", 0.1);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> normal, pixels());
  EXPECT_NEAR(normal[0], -2, 1e-6);
  EXPECT_NEAR(normal[1], 2, 1e-6) << "0.4 - 0.2, in tenths";
  EXPECT_NEAR(normal[2], 8, 1e-6);
  attributes.Set("std", 0.0);
  EXPECT_THAT(pixels().status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("std 0")));
}

// Image i has pixels 25 i + its channel.
TEST(ImageSourceTest, FilesOfFourDimensionsHaveChannels) {
  const TestDir dir;
  std::string pixels, labels;
  for (int i = 0; i < 10; ++i) {
    for (int channel = 0; channel < 3; ++channel) pixels += std::string(8, static_cast<char>(25 * i + channel));
    labels += static_cast<char>(i);
  }
  AttrMap attributes = {{"dataset", std::string("images")},
                        {"images", dir.Write("i", Idx({10, 3, 2, 4}, pixels))},
                        {"labels", dir.Write("l", Idx({10}, labels))},
                        {"split", std::string("train")}};
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(attributes));
  LocalShard x(DType::kFloat32, {10, 3, 2, 4}, {10, 3, 2, 4}, {0, 0, 0, 0}), y(DType::kInt32, {10}, {10}, {0});
  const TensorArg outputs[] = {x.arg, y.arg};
  ASSERT_OK(source->Read(0, 0, 1, outputs));
  for (int i = 0; i < 240; ++i) EXPECT_NEAR(x.F(i), (25 * y.I(i / 24) + i / 8 % 3) / 127.5 - 1, 1e-6) << i;
  // Each with a mean of its own, and all with one deviation.
  const double means[] = {0.1, 0.5, 0.25};
  attributes.Set("mean", std::string("0.1,0.5,0.25"));
  attributes.Set("std", 0.2);
  ASSERT_OK_AND_ASSIGN(const auto normal, OpenSource(attributes));
  ASSERT_OK(normal->Read(0, 0, 1, outputs));
  for (int i = 0; i < 240; ++i) {
    const int channel = i / 8 % 3;
    EXPECT_NEAR(x.F(i), ((25 * y.I(i / 24) + channel) / 255.0 - means[channel]) / 0.2, 1e-5) << i;
  }
  attributes.Set("std", std::string("0.2,0.3"));
  EXPECT_THAT(OpenSource(attributes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("images: std '0.2,0.3' is no list of a number for each of 3 channels")));
  attributes.Set("std", std::string("0.2,0.3,0"));
  EXPECT_THAT(OpenSource(attributes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("std 0 of channel 2")));
  attributes.Set("std", 0.2);
  attributes.Set("channels", int64_t{1});
  EXPECT_THAT(OpenSource(attributes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("are 3x2x4, the model reads 1x2x4")));
}

// Record i of all files has label i, and of CIFAR-100 i + 100, and pixels i.
void WriteCifar(const TestDir& dir, const std::vector<std::string>& names, bool hundred) {
  int i = 0;
  for (const std::string& name : names) {
    std::string records;
    for (int record = 0; record < 3; ++record, ++i) {
      records += static_cast<char>(i);
      if (hundred) records += static_cast<char>(i + 100);
      records += std::string(3072, static_cast<char>(i));
    }
    dir.Write(name, records);
  }
}

TEST(CifarSourceTest, ReadsTheFilesOfASplitInTheirOrder) {
  const TestDir dir;
  WriteCifar(dir, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
             /*hundred=*/false);
  WriteCifar(dir, {"train.bin"}, /*hundred=*/true);
  WriteCifar(dir, {"test.bin"}, /*hundred=*/true);
  AttrMap attributes = {{"dataset", std::string("cifar")}, {"folder", dir.File("")}, {"split", std::string("train")}};
  const auto labels = [&](int count) {
    std::set<int> found;
    const absl::StatusOr<std::unique_ptr<Source>> source = OpenSource(attributes);
    EXPECT_OK(source);
    EXPECT_EQ((*source)->num_samples(), count);
    LocalShard x(DType::kFloat32, {count, 3, 32, 32}, {count, 3, 32, 32}, {0, 0, 0, 0}),
        y(DType::kInt32, {count}, {count}, {0});
    const TensorArg outputs[] = {x.arg, y.arg};
    EXPECT_OK((*source)->Read(0, 0, 1, outputs));
    for (int i = 0; i < count; ++i) {
      EXPECT_NEAR(x.F(3072 * i + 3071), (y.I(i) % 100) / 127.5 - 1, 1e-6) << "image and label belong together";
      found.insert(y.I(i));
    }
    return found;
  };
  EXPECT_THAT(labels(15), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  attributes.Set("labels", std::string("fine"));
  EXPECT_THAT(labels(3), ElementsAre(100, 101, 102));
  attributes.Set("labels", std::string("coarse"));
  attributes.Set("split", std::string("validation"));
  EXPECT_THAT(labels(3), ElementsAre(0, 1, 2));
  attributes.Set("classes", int64_t{2});
  EXPECT_THAT(OpenSource(attributes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("label 2 of image 2 is outside the 2 classes")));
  dir.Write("test.bin", std::string(3073, 'x'));
  EXPECT_THAT(OpenSource(attributes).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 3073 bytes, but records have 3074")));
  attributes.Set("labels", std::string("cifar10"));
  EXPECT_THAT(OpenSource(attributes).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("test_batch.bin")));
}

TEST(PermutationTest, IsABijectionForEverySize) {
  for (uint64_t n = 1; n < 70; ++n) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) seen.insert(PermutedIndex(99, n, i));
    EXPECT_EQ(seen.size(), n);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(SourceTest, MalformedDataFilesGetOneClearError) {
  const TestDir dir;
  const std::string good_images = dir.Write("i", Idx({2, 2, 2}, std::string(8, 'p')));
  const std::string good_labels = dir.Write("l", Idx({2}, std::string("\1\2")));
  const auto images = [&](const std::string& i, const std::string& l) -> AttrMap {
    return {{"dataset", std::string("images")},
            {"images", i},
            {"labels", l},
            {"split", std::string("train")},
            {"classes", int64_t{10}}};
  };
  AttrMap narrow = TextAttributes(dir.Write("v", "abc\xff" + Text(200)), "train");
  narrow.Set("vocabulary", int64_t{128});
  AttrMap bad_split = TextAttributes(dir.Write("t", Text(200)), "dev");
  AttrMap bad_fraction = TextAttributes(dir.File("t"), "train");
  bad_fraction.Set("validation_fraction", 1.5);
  const struct {
    const char* name;
    AttrMap attributes;
    const char* message;
  } kCases[] = {
      {"no such kind", {{"dataset", std::string("audio")}}, "'audio'"},
      {"missing text", TextAttributes(dir.File("absent"), "train"), "absent"},
      {"empty text", TextAttributes(dir.Write("e", ""), "train"), "has 0 of the file's 0 bytes"},
      {"text shorter than a sample", TextAttributes(dir.Write("s", "12345678"), "train"), "needs 9"},
      {"validation part too short", TextAttributes(dir.Write("v2", Text(50)), "validation"), "needs 9"},
      {"a directory", TextAttributes(dir.File(""), "train"), "not a regular file"},
      {"byte outside the vocabulary", narrow, "byte 255 at offset 3"},
      {"unknown split", bad_split, "'dev'"},
      {"fraction out of range", bad_fraction, "1.5"},
      {"labels missing", images(good_images, dir.File("absent")), "absent"},
      {"images too short for a header", images(dir.Write("b1", "abc"), good_labels), "header has 16 bytes"},
      {"wrong magic", images(dir.Write("b2", std::string("\1\2\3\4", 4) + std::string(20, 'x')), good_labels),
       "begins with bytes 1 2 3 4"},
      {"labels given as images", images(good_labels + "", good_labels), "header has 16 bytes"},
      {"images given as labels", images(good_images, good_images), "in 1 dimensions"},
      {"data cut off", images(dir.Write("b3", Idx({2, 2, 2}, "1234567")), good_labels), "but 7 follow"},
      {"data left over", images(dir.Write("b4", Idx({2, 2, 2}, "123456789")), good_labels), "but 9 follow"},
      {"overflowing dimensions", images(dir.Write("b5", Idx({0xffffffff, 0xffffffff, 0xffffffff}, "")), good_labels),
       "overflow"},
      {"different counts", images(good_images, dir.Write("l3", Idx({3}, "\1\2\3"))), "3 labels"},
      {"label outside the classes", images(good_images, dir.Write("l4", Idx({2}, std::string("\1\x0b")))),
       "label 11 of image 1"},
      {"damaged gzip", images(dir.Write("b6", std::string("\x1f\x8b\x08garbage", 10)), good_labels), "gzip"},
      {"no images at all", images(dir.Write("b7", Idx({0, 2, 2}, "")), dir.Write("l5", Idx({0}, ""))), "0 images"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto source = OpenSource(c.attributes);
    ASSERT_FALSE(source.ok());
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(c.message));
  }
}

TEST(SourceTest, EveryKindOfDataHasASource) {
  ASSERT_FALSE(DataKinds().empty());
  for (const DataKind& kind : DataKinds()) {
    const absl::Status status = OpenSource({{"dataset", kind.name}}).status();
    EXPECT_NE(status.code(), absl::StatusCode::kUnimplemented) << status;
  }
}

}  // namespace
}  // namespace oneflow
