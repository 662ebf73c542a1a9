#include "tools/study/weights/correspondence.h"

#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/tools/study/weights/drawn_model.h"
#include "tools/study/weights/elements.h"

namespace oneflow {
namespace {

Mapping MappingOf(const std::string& rules) {
  absl::StatusOr<Mapping> mapping = ParseMapping(absl::StrCat(kTableHead, rules), "m");
  EXPECT_OK(mapping);
  return *std::move(mapping);
}

ModelVariable Variable(const std::string& name, std::initializer_list<int64_t> dims) {
  return {name, {DType::kFloat32, Shape(dims)}};
}

TEST(CorrespondenceTest, PartsFollowOneAnotherAsLargeAsTheyAre) {
  const Mapping mapping = MappingOf(R"(
      rules { ours: "h{i}/k" theirs: "{i}.qkv" part { axis: 0 index: 1 of: 2 } transpose: true }
      rules { ours: "h{i}/q" theirs: "{i}.qkv" part { axis: 0 index: 0 of: 2 } transpose: true }
      rules { ours: "e" theirs: "e" leading_rows: true })");
  ASSERT_OK_AND_ASSIGN(const Correspondence found,
                       Correspond(mapping, {Variable("e", {5, 2}), Variable("h7/k", {8, 2}), Variable("h7/q", {8, 6}),
                                            Variable("head", {1})}));
  EXPECT_THAT(found.unnamed, ElementsAre(3));
  ASSERT_EQ(found.tensors.size(), 2u);
  EXPECT_EQ(found.tensors[0].name, "7.qkv");
  EXPECT_EQ(found.tensors[0].shape, Shape({8, 8}));
  ASSERT_EQ(found.tensors[0].pieces.size(), 2u);
  EXPECT_EQ(found.tensors[0].pieces[0].variable, 2);
  EXPECT_EQ(found.tensors[0].pieces[1].begin, 6);
  EXPECT_TRUE(found.tensors[1].leading_rows);
}

TEST(CorrespondenceTest, RulesThatDoNotFitTheModelAreNamed) {
  const std::string part = "part { axis: 0 index: ", q = "rules { ours: \"q\" theirs: \"t\" ",
                    k = "rules { ours: \"k\" theirs: \"t\" ";
  const std::vector<ModelVariable> both = {Variable("k", {2, 3}), Variable("q", {2, 4})};
  const struct {
    std::string rules;
    std::vector<ModelVariable> variables;
    const char* message;
  } kCases[] = {
      {q + "} rules { ours: \"q\" theirs: \"u\" }", both, "variable 'q' has two rules, 'q' and 'q'"},
      {q + "} " + k + "}", both, "variables 'k' and 'q' are both all of it"},
      {q + part + "0 of: 2 } } " + k + part + "1 of: 2 } }", both, "'q', [2,4], and 'k', [2,3], do not fit together"},
      {q + part + "1 of: 2 } }", both, "tensor 't': part 0 of 2 is no variable"},
      {q + part + "0 of: 2 } }", both, "part 1 of 2 is no variable"},
      {q + part + "0 of: 2 } } " + k + part + "0 of: 2 } }", both, "part 0 is 'q' and another one"},
      {q + part + "0 of: 2 } } " + k + part + "1 of: 3 } }", both, "parts of different numbers or axes"},
      {q + part + "0 of: 2 } } " + k + "}", both, "'k'"},
      {q + "transpose: true }", {Variable("q", {3})}, "variable 'q' is f32[3], of which nothing can be transposed"},
      {q + "part { axis: 2 index: 0 of: 1 } }", both, "axis 2 cannot be a part"},
      {q + "leading_rows: true }", {Variable("q", {})}, "there are no rows"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(Correspond(MappingOf(c.rules), c.variables),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.rules;
  }
}

// Where element `index` of a variable lies in the tensor, by coordinates.
int64_t PlaceOf(int64_t index, const Shape& variable, const Piece& piece, const Shape& tensor) {
  std::vector<int64_t> at(variable.rank());
  for (int d = variable.rank(); d-- > 0; index /= variable[d]) at[d] = index % variable[d];
  if (piece.transpose) std::swap(at[0], at[1]);
  if (!at.empty()) at[piece.axis] += piece.begin;
  int64_t place = 0;
  for (int d = 0; d < tensor.rank(); ++d) place = place * tensor[d] + at[d];
  return place;
}

TEST(CorrespondenceTest, VariablesComeBackToTheBitFromTheTensorsThatTheyMake) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const DrawnModel drawn = DrawModel(random);
    SCOPED_TRACE(drawn.rules);
    ASSERT_OK_AND_ASSIGN(const Correspondence found, Correspond(MappingOf(drawn.rules), drawn.variables));
    ASSERT_TRUE(found.unnamed.empty());
    ASSERT_EQ(found.tensors.size(), drawn.theirs.size());
    for (const TheirTensor& tensor : found.tensors) {
      ASSERT_EQ(tensor.shape, drawn.theirs.at(tensor.name)) << tensor.name;
      std::vector<float> theirs(tensor.shape.count()), seen(theirs.size());
      for (const Piece& piece : tensor.pieces) {
        const Shape& shape = drawn.variables[piece.variable].type.shape;
        std::vector<float> ours(shape.count()), again(ours.size());
        for (float& value : ours) {
          const uint32_t bits = random();  // NaNs too
          std::memcpy(&value, &bits, sizeof(bits));
        }
        PutIn(piece, tensor.shape, ours.data(), theirs.data());
        CutOut(piece, tensor.shape, theirs.data(), again.data());
        if (ours.empty()) continue;
        ASSERT_EQ(std::memcmp(ours.data(), again.data(), ours.size() * sizeof(float)), 0) << tensor.name;
        int64_t elsewhere = 0;
        for (int64_t i = 0; i < shape.count(); ++i) {
          const int64_t place = PlaceOf(i, shape, piece, tensor.shape);
          elsewhere += std::memcmp(&ours[i], &theirs[place], sizeof(float)) != 0;
          ++seen[place];
        }
        ASSERT_EQ(elsewhere, 0) << tensor.name << ": elements of " << drawn.variables[piece.variable].name;
      }
      EXPECT_EQ(seen, std::vector<float>(seen.size(), 1)) << tensor.name << ": every element is of one variable";
    }
  }
}

}  // namespace
}  // namespace oneflow
