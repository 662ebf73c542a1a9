#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "actor/data/sample_range.h"
#include "actor/data/source.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// One local shard of an output, with its memory.
template <typename T>
struct Shard {
  Shard(DType dtype, std::vector<int64_t> dims_in, std::vector<int64_t> logical_in, std::vector<int64_t> start_in)
      : dims(std::move(dims_in)), logical(std::move(logical_in)), start(std::move(start_in)) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    values.resize(count);
    arg = {values.data(), dtype, static_cast<int>(dims.size()), count, dims.data(), logical.data(), start.data()};
  }
  Shard(const Shard&) = delete;

  std::vector<int64_t> dims, logical, start;
  std::vector<T> values;
  TensorArg arg;
};

AttrMap Prototypes(const std::string& split, int64_t samples = 1000, double noise = 0.25) {
  return {{"dataset", std::string("prototypes")},
          {"classes", int64_t{20}},
          {"samples", samples},
          {"noise", noise},
          {"split", split},
          {"seed", int64_t{3}}};
}

AttrMap Clicks(const std::string& split) {
  return {{"dataset", std::string("clicks")},
          {"vocabulary", int64_t{1000}},
          {"samples", int64_t{5000}},
          {"split", split},
          {"seed", int64_t{3}}};
}

struct ImageBatchOf {
  Shard<float> images;
  Shard<int32_t> labels;
  ImageBatchOf(int64_t rows, int64_t batch, int64_t first)
      : images(DType::kFloat32, {rows, 1, 6, 6}, {batch, 1, 6, 6}, {first, 0, 0, 0}),
        labels(DType::kInt32, {rows}, {batch}, {first}) {}
};

TEST(PrototypeSourceTest, ShardsAreThePartsOfTheBatch) {
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Prototypes("train")));
  ImageBatchOf whole(8, 8, 0), part(3, 8, 5);
  const TensorArg whole_out[] = {whole.images.arg, whole.labels.arg}, part_out[] = {part.images.arg, part.labels.arg};
  ASSERT_OK(source->Read(4, 1, 2, whole_out));
  ASSERT_OK(source->Read(4, 1, 2, part_out));
  EXPECT_EQ(part.images.values, std::vector<float>(whole.images.values.begin() + 5 * 36, whole.images.values.end()));
  EXPECT_EQ(part.labels.values, std::vector<int32_t>(whole.labels.values.begin() + 5, whole.labels.values.end()));
}

TEST(PrototypeSourceTest, SamplesLieAroundTheImageOfTheirClass) {
  ASSERT_OK_AND_ASSIGN(const auto noisy, OpenSource(Prototypes("train", 1000, 0.25)));
  ASSERT_OK_AND_ASSIGN(const auto clean, OpenSource(Prototypes("train", 1000, 0)));
  ImageBatchOf a(500, 500, 0), b(500, 500, 0);
  const TensorArg a_out[] = {a.images.arg, a.labels.arg}, b_out[] = {b.images.arg, b.labels.arg};
  ASSERT_OK(noisy->Read(0, 0, 1, a_out));
  ASSERT_OK(clean->Read(0, 0, 1, b_out));
  EXPECT_EQ(a.labels.values, b.labels.values);
  double mean = 0, square = 0;
  for (size_t i = 0; i < a.images.values.size(); ++i) {
    const double noise = a.images.values[i] - b.images.values[i];
    mean += noise;
    square += noise * noise;
  }
  const double n = static_cast<double>(a.images.values.size());
  EXPECT_NEAR(mean / n, 0, 0.01);
  EXPECT_NEAR(std::sqrt(square / n), 0.25, 0.01);
  // Images without noise are equal exactly where classes are.
  std::set<std::pair<int32_t, float>> firsts;
  std::set<int32_t> classes;
  for (int row = 0; row < 500; ++row) {
    firsts.emplace(b.labels.values[row], b.images.values[row * 36]);
    classes.insert(b.labels.values[row]);
  }
  EXPECT_EQ(firsts.size(), classes.size());
  EXPECT_EQ(classes.size(), 20u);
}

TEST(PrototypeSourceTest, SamplesExistHoweverLateAndLargeABatchIs) {
  const int64_t huge = int64_t{1} << 56;
  ImageBatchOf batch(2, huge, huge - 2);
  for (const int64_t step : {int64_t{0}, int64_t{1} << 10, INT64_MAX / 4}) {
    EXPECT_GE(FirstSample(step, 3, 4, batch.labels.arg, 0), 0);
    ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Prototypes("train", 50)));
    const TensorArg out[] = {batch.images.arg, batch.labels.arg};
    ASSERT_OK(source->Read(step, 3, 4, out));
    for (const int32_t label : batch.labels.values) EXPECT_TRUE(label >= 0 && label < 20) << label;
  }
}

TEST(PrototypeSourceTest, AnEpochHasEverySampleOnceAndValidationHasOthers) {
  const auto sums = [](const AttrMap& attributes, int64_t step) {
    const auto source = *OpenSource(attributes);
    ImageBatchOf batch(50, 50, 0);
    const TensorArg out[] = {batch.images.arg, batch.labels.arg};
    EXPECT_OK(source->Read(step, 0, 1, out));
    std::multiset<float> firsts;
    for (int row = 0; row < 50; ++row) firsts.insert(batch.images.values[row * 36]);
    return firsts;
  };
  const auto first = sums(Prototypes("train", 50), 0), second = sums(Prototypes("train", 50), 1);
  EXPECT_EQ(first, second) << "the same samples in another order";
  const auto other = sums(Prototypes("validation", 50), 0);
  std::vector<float> common;
  std::set_intersection(first.begin(), first.end(), other.begin(), other.end(), std::back_inserter(common));
  EXPECT_TRUE(common.empty());
}

TEST(ClickSourceTest, FieldsHaveIdsOfTheirOwnAndClicksFollowThem) {
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Clicks("train")));
  Shard<int32_t> ids(DType::kInt32, {4000, 3}, {4000, 3}, {0, 0}), clicked(DType::kInt32, {4000}, {4000}, {0});
  Shard<float> numbers(DType::kFloat32, {4000, 2}, {4000, 2}, {0, 0});
  const TensorArg out[] = {ids.arg, numbers.arg, clicked.arg};
  ASSERT_OK(source->Read(0, 0, 1, out));
  // A hidden weight of the first number: those who click have another mean of it than those who do not.
  double sum[2] = {0, 0}, count[2] = {0, 0};
  for (int row = 0; row < 4000; ++row) {
    for (int f = 0; f < 3; ++f) {
      EXPECT_GE(ids.values[row * 3 + f], f * 1000 / 3);
      EXPECT_LT(ids.values[row * 3 + f], (f + 1) * 1000 / 3);
    }
    ASSERT_TRUE(clicked.values[row] == 0 || clicked.values[row] == 1);
    sum[clicked.values[row]] += numbers.values[row * 2];
    ++count[clicked.values[row]];
  }
  EXPECT_GT(count[0], 800);
  EXPECT_GT(count[1], 800);
  EXPECT_GT(std::abs(sum[0] / count[0] - sum[1] / count[1]), 0.1);
}

TEST(ClickSourceTest, ShardsAreThePartsOfTheBatch) {
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Clicks("validation")));
  Shard<int32_t> ids(DType::kInt32, {6, 3}, {6, 3}, {0, 0}), clicked(DType::kInt32, {2}, {6}, {4});
  Shard<int32_t> all_clicked(DType::kInt32, {6}, {6}, {0}), some_ids(DType::kInt32, {2, 3}, {6, 3}, {4, 0});
  Shard<float> numbers(DType::kFloat32, {6, 2}, {6, 2}, {0, 0}), some_numbers(DType::kFloat32, {2, 2}, {6, 2}, {4, 0});
  const TensorArg whole[] = {ids.arg, numbers.arg, all_clicked.arg};
  const TensorArg part[] = {some_ids.arg, some_numbers.arg, clicked.arg};
  ASSERT_OK(source->Read(1, 0, 1, whole));
  ASSERT_OK(source->Read(1, 0, 1, part));
  EXPECT_EQ(some_ids.values, std::vector<int32_t>(ids.values.begin() + 12, ids.values.end()));
  EXPECT_EQ(some_numbers.values, std::vector<float>(numbers.values.begin() + 8, numbers.values.end()));
  EXPECT_EQ(clicked.values, std::vector<int32_t>(all_clicked.values.begin() + 4, all_clicked.values.end()));
}

TEST(MadeSourceTest, ImpossibleSizesAreRefused) {
  AttrMap none = Prototypes("train", 0);
  EXPECT_THAT(OpenSource(none).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 samples")));
  AttrMap classes = Prototypes("train");
  classes.Set("classes", int64_t{0});
  EXPECT_THAT(OpenSource(classes).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 classes")));
  AttrMap ids = Clicks("train");
  ids.Set("vocabulary", int64_t{-4});
  EXPECT_THAT(OpenSource(ids).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-4 ids")));
  AttrMap split = Clicks("test");
  EXPECT_THAT(OpenSource(split).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'test'")));
}

}  // namespace
}  // namespace oneflow
