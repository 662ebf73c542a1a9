#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "actor/data/source.h"
#include "oneflow_core/text_list.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

AttrMap Csv(const std::string& path, std::vector<std::string> features, const std::string& label,
            const std::string& split = "validation") {
  return {{"dataset", "csv"}, {"path", path},   {"features", JoinTexts(features)},
          {"label", label},   {"split", split}, {"seed", int64_t{5}}};
}
AttrMap With(AttrMap attributes, const std::string& name, Attr value) {
  attributes.Set(name, std::move(value));
  return attributes;
}

struct CsvRows {
  std::vector<std::vector<float>> x;
  std::vector<int32_t> labels;
  std::vector<float> targets;
};

// The samples from `first` on, as one batch of step 0 of so many rows, read from row `first` on.
absl::StatusOr<CsvRows> ReadCsvRows(Source& source, int64_t count, int64_t columns, bool label = true,
                                    int64_t first = 0) {
  std::vector<float> x(count * columns), targets(count);
  std::vector<int32_t> labels(count);
  const int64_t x_dims[] = {count, columns}, y_dims[] = {count}, start[] = {0, 0};
  void* const y = label ? static_cast<void*>(labels.data()) : targets.data();
  const TensorArg outputs[] = {{x.data(), DType::kFloat32, 2, count * columns, x_dims, x_dims, start},
                               {y, label ? DType::kInt32 : DType::kFloat32, 1, count, y_dims, y_dims, start}};
  OF_RETURN_IF_ERROR(source.Read(0, 0, 1, outputs, first));
  CsvRows rows = {{}, labels, targets};
  for (int64_t i = 0; i < count; ++i) rows.x.emplace_back(x.begin() + i * columns, x.begin() + (i + 1) * columns);
  return rows;
}

TEST(CsvSourceTest, ColumnsAreChosenByNameInTheOrderAskedFor) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv",
                                     "age,\"income, EUR\",note,default\r\n"
                                     "31,52000.5,\"a \"\"b\"\"\nc\",0\r\n"
                                     "\r\n"
                                     "\"27\", -48e3 ,,1");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Csv(path, {"income, EUR", "age"}, "default")));
  EXPECT_EQ(source->num_samples(), 2) << "the empty line is none";
  ASSERT_OK_AND_ASSIGN(const CsvRows rows, ReadCsvRows(*source, 2, 2));
  EXPECT_THAT(rows.x, ElementsAre(ElementsAre(52000.5f, 31), ElementsAre(-48000, 27)));
  EXPECT_THAT(rows.labels, ElementsAre(0, 1));
}

TEST(CsvSourceTest, ATargetIsANumber) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv", "\xef\xbb\xbfx;y\n1;0.25\n2;-1e-3\n");
  AttrMap attributes = {{"dataset", "csv"}, {"path", path},          {"features", JoinTexts({"x"})},
                        {"target", "y"},    {"split", "validation"}, {"separator", ";"}};
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(attributes));
  ASSERT_OK_AND_ASSIGN(const CsvRows rows, ReadCsvRows(*source, 2, 1, /*label=*/false));
  EXPECT_THAT(rows.targets, ElementsAre(0.25f, -1e-3f));
}

TEST(CsvSourceTest, AnEpochIsAPermutationAndValidationHasTheLastRowsInOrder) {
  const TestDir dir;
  std::string text = "x,y\n";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&text, i, ",", i % 3, "\n");
  const AttrMap train = With(Csv(dir.Write("d.csv", text), {"x"}, "y", "train"), "validation_fraction", 0.25);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(train));
  EXPECT_EQ(source->num_samples(), 15);
  ASSERT_OK_AND_ASSIGN(const CsvRows rows, ReadCsvRows(*source, 30, 1));
  std::vector<float> first, second;
  for (int i = 0; i < 30; ++i) {
    (i < 15 ? first : second).push_back(rows.x[i][0]);
    EXPECT_EQ(rows.labels[i], static_cast<int>(rows.x[i][0]) % 3) << "they belong together";
  }
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 15u);
  EXPECT_EQ(std::set<float>(second.begin(), second.end()).size(), 15u);
  EXPECT_NE(first, second);
  // Any place of the order is read alike, wherever reading begins.
  ASSERT_OK_AND_ASSIGN(const CsvRows later, ReadCsvRows(*source, 7, 1, true, 12));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(later.x[i], rows.x[12 + i]);

  ASSERT_OK_AND_ASSIGN(const auto held_out, OpenSource(With(train, "split", "validation")));
  ASSERT_OK_AND_ASSIGN(const CsvRows last, ReadCsvRows(*held_out, 6, 1));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(last.x[i][0], 15 + i);
  EXPECT_EQ(last.x[5][0], 15) << "after the last comes the first";
}

TEST(CsvSourceTest, ShardsOfTwoSizesHaveTheSamplesOfTheWhole) {
  const TestDir dir;
  std::string text = "x,y\n";
  for (int i = 0; i < 9; ++i) absl::StrAppend(&text, i, ",", i, "\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Csv(dir.Write("d.csv", text), {"x"}, "y", "train")));
  ASSERT_OK_AND_ASSIGN(const CsvRows whole, ReadCsvRows(*source, 5, 1));
  float x[3];
  int32_t y[2];
  const int64_t x_dims[] = {3, 1}, x_whole[] = {5, 1}, x_start[] = {2, 0}, y_dims[] = {2}, y_whole[] = {5},
                y_start[] = {3};
  const TensorArg outputs[] = {{x, DType::kFloat32, 2, 3, x_dims, x_whole, x_start},
                               {y, DType::kInt32, 1, 2, y_dims, y_whole, y_start}};
  ASSERT_OK(source->Read(0, 0, 1, outputs));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(x[i], whole.x[2 + i][0]);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(y[i], whole.labels[3 + i]);
}

TEST(CsvSourceTest, WhatIsWrongIsSaidWithLineColumnAndText) {
  const TestDir dir;
  const BadText kCases[] = {
      {"", "has no line that names columns"},
      {"x,y\n", "its part 'validation' has none of its 0 rows"},
      {"a,y\n1,2\n", "d.csv':1:1: no column 'x'; there are 'a', 'y'"},
      {"x,y,x\n1,2,3\n", "d.csv':1:1: several columns 'x'; there are"},
      {"x,y\n1,0\n2\n", "d.csv':3:1: the row has 1 field, the first line names 2"},
      {"x,y\n1,0\n2,0,\n", "d.csv':3:1: the row has 3 fields"},
      {"x,y\n1,0\nabc,0\n", "d.csv':3:1: column 'x' is 'abc', which is no finite number"},
      {"y,x\n0,1\n0,\n", "d.csv':3:3: column 'x' is '', which is no finite number"},
      {"y,x\n0,nan\n", "d.csv':2:3: column 'x' is 'nan', which is no finite number"},
      {"y,x\n0,1e50\n", "column 'x' is '1e50', which is no finite number"},
      {"x,y\n1,0.5\n", "d.csv':2:3: column 'y' is '0.5', which is no integer"},
      {"x,y\n1,10\n", "d.csv':2:3: column 'y' is '10', which is outside the 10 classes from 0"},
      {"x,y\n1,-1\n", "column 'y' is '-1', which is negative"},
      {"note,x,y\n\"a\nb\",no,0\n", "d.csv':3:4: column 'x' is 'no'"},
      {"x,y\n1,0\n\"2,0\n3,0\n", "d.csv':3:1: a quoted field does not end"},
      {"x,y\n\"1\"2,0\n", "d.csv':2:4: something follows a quoted field"},
      {"x,y\n1\"2\",0\n", "d.csv':2:2: a quote in a field that does not begin with one"},
  };
  for (const auto& c : kCases) {
    const std::string path = dir.Write("d.csv", c.text);
    EXPECT_THAT(OpenSource(With(Csv(path, {"x"}, "y"), "classes", int64_t{10})).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text;
  }
  const std::string good = dir.Write("good.csv", "x,y\n1,0\n");
  EXPECT_THAT(OpenSource(Csv(dir.File("none"), {"x"}, "y")).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(OpenSource(With(Csv(good, {"x"}, "y"), "separator", "--")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'--'")));
  EXPECT_THAT(OpenSource(With(Csv(good, {"x"}, "y"), "features", "x")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no list of texts")));
}

AttrMap Texts(const std::string& path, const std::string& tokens = "bytes") {
  return {{"dataset", "texts"},
          {"path", path},
          {"text", "words"},
          {"label", "kind"},
          {"tokens", tokens},
          {"context", int64_t{5}},
          {"vocabulary", int64_t{130}},
          {"first_token", int64_t{129}},
          {"padding_token", int64_t{7}},
          {"split", "validation"}};
}

struct TextRows {
  std::vector<int32_t> tokens, labels, padding;
};

// The first samples, of which one tensor has one more than the others where they lie `apart`.
absl::StatusOr<TextRows> ReadTextRows(Source& source, int64_t count, bool apart = false) {
  TextRows rows = {std::vector<int32_t>(count * 5), std::vector<int32_t>(count), std::vector<int32_t>(count * 5)};
  const int64_t dims[] = {count, 5}, fewer[] = {count - (apart ? 1 : 0)}, start[] = {0, 0};
  const TensorArg outputs[] = {{rows.tokens.data(), DType::kInt32, 2, count * 5, dims, dims, start},
                               {rows.labels.data(), DType::kInt32, 1, fewer[0], fewer, dims, start},
                               {rows.padding.data(), DType::kInt32, 2, count * 5, dims, dims, start}};
  OF_RETURN_IF_ERROR(source.Read(0, 0, 1, outputs));
  return rows;
}

TEST(CsvSourceTest, TokensOfATextAreItsBytesWithPaddingBehind) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv", "kind,words\n1,ab\n0,\"a,b\"\"c d\"\n3,\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Texts(path)));
  for (const bool apart : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const TextRows rows, ReadTextRows(*source, 3, apart));
    EXPECT_THAT(rows.tokens, ElementsAre(129, 'a', 'b', 7, 7, 129, 'a', ',', 'b', '"', 129, 7, 7, 7, 7));
    EXPECT_THAT(rows.labels, ElementsAre(1, 0, apart ? 0 : 3));
    EXPECT_THAT(rows.padding, ElementsAre(0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1));
  }
}

TEST(CsvSourceTest, TokensOfATextMayBeNumbers) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv", "kind,words\n1, 12 \t3\n0,0 1 2 3 4 5\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(With(Texts(path, "ids"), "first_token", int64_t{0})));
  ASSERT_OK_AND_ASSIGN(const TextRows rows, ReadTextRows(*source, 2));
  EXPECT_THAT(rows.tokens, ElementsAre(12, 3, 7, 7, 7, 0, 1, 2, 3, 4));
  EXPECT_THAT(rows.padding, ElementsAre(0, 0, 1, 1, 1, 0, 0, 0, 0, 0));
}

TEST(CsvSourceTest, WhatIsNoTokenIsSaidWithItsPlace) {
  const TestDir dir;
  const struct {
    const char *text, *tokens, *message;
  } kCases[] = {
      {"kind,words\n1,ab\n1,a\xc3\xa9\n", "bytes",
       "d.csv':3:3: column 'words' has byte 195, which is no token of a vocabulary of 130"},
      {"words,kind\n1 130,1\n", "ids", "d.csv':2:1: column 'words' has '130', which is no token of a vocabulary"},
      {"words,kind\n1 x,1\n", "ids", "d.csv':2:1: column 'words' has 'x', which is no token"},
      {"words,kind\n-1,1\n", "ids", "column 'words' has '-1', which is no token"},
      {"text,kind\n-1,1\n", "ids", "d.csv':1:1: no column 'words'; there are 'text', 'kind'"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(OpenSource(Texts(dir.Write("d.csv", c.text), c.tokens)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
  const AttrMap good = Texts(dir.Write("d.csv", "kind,words\n1,\n"));
  EXPECT_OK(OpenSource(good).status());
  EXPECT_THAT(OpenSource(With(good, "first_token", int64_t{0})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("d.csv':2:3: column 'words' has no token")));
  EXPECT_THAT(OpenSource(With(good, "padding_token", int64_t{130})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token 130 is outside the vocabulary of 130")));
}

TEST(CsvSourceTest, TextsFillTensorsOfTheirContextOnly) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv", "kind,words\n1,ab\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(With(Texts(path), "context", int64_t{4})));
  EXPECT_THAT(ReadTextRows(*source, 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rows fill i32[batch,4], split by samples only, but output 0 is another")));
}

TEST(CsvSourceTest, AFileThatChangesIsAnError) {
  const TestDir dir;
  const std::string path = dir.Write("d.csv", "x,y\n1,0\n2,1\n");
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Csv(path, {"x"}, "y")));
  std::fstream(path, std::ios::in | std::ios::out).seekp(8) << "?";
  EXPECT_THAT(
      ReadCsvRows(*source, 2, 1).status(),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the row at byte 8 has changed since the file was opened: "
                                                      "column 'x' is '?'")));
  std::filesystem::resize_file(path, 6);
  EXPECT_THAT(ReadCsvRows(*source, 2, 1).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it ends at")));
}

// Rows that cross the pieces in which the file is read, with line ends and separators in quotes.
TEST(CsvSourceTest, LongFilesAreReadAsTheyWereWritten) {
  const TestDir dir;
  std::mt19937 random(7);
  std::string text = "note,x,y\n";
  std::vector<int> values;
  while (text.size() < (3u << 20)) {
    values.push_back(static_cast<int>(random() % 1000));
    std::string note(random() % 4000, 'n');
    for (char& c : note) c = "n,\n"[random() % 3];
    absl::StrAppend(&text, "\"", note, "\",", values.back(), ",", values.back() % 10, "\n");
  }
  ASSERT_OK_AND_ASSIGN(const auto source, OpenSource(Csv(dir.Write("d.csv", text), {"x"}, "y")));
  const auto count = static_cast<int64_t>(values.size());
  ASSERT_EQ(source->num_samples(), count);
  ASSERT_OK_AND_ASSIGN(const CsvRows rows, ReadCsvRows(*source, count, 1));
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(rows.x[i][0], values[i]) << i;
    ASSERT_EQ(rows.labels[i], values[i] % 10) << i;
  }
}

}  // namespace
}  // namespace oneflow
