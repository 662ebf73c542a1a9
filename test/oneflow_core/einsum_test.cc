#include "oneflow_core/einsum.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "test/oneflow_core/formula_test.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

class EinsumTest : public testing::FormulaTest {
 protected:
  // The ops that make it.
  std::set<std::string> Ops() const {
    std::set<std::string> ops;
    for (NodeId id = 0; id < b_.graph().num_nodes(); ++id) ops.insert(b_.graph().node(id).op);
    ops.erase("variable");
    return ops;
  }

  // As the letters say it: all of them run through their sizes, and products are added where the result's are.
  static std::vector<double> Sum(const std::string& letters, const std::vector<RefTensor>& of) {
    const std::vector<std::string> sides = absl::StrSplit(letters, "->"), in = absl::StrSplit(sides[0], ',');
    std::map<char, int64_t> sizes, at;
    for (size_t i = 0; i < of.size(); ++i) {
      for (size_t d = 0; d < in[i].size(); ++d) sizes[in[i][d]] = of[i].dims[d];
    }
    const auto index = [&](const std::string& of_tensor) {
      int64_t result = 0;
      for (const char letter : of_tensor) result = result * sizes[letter] + at[letter];
      return static_cast<size_t>(result);
    };
    int64_t all = 1, count = 1;
    for (const auto& [letter, size] : sizes) all *= size;
    for (const char letter : sides[1]) count *= sizes[letter];
    std::vector<double> sums(count);
    for (int64_t i = 0; i < all; ++i) {
      int64_t rest = i;
      for (const auto& [letter, size] : sizes) at[letter] = rest % size, rest /= size;
      double product = 1;
      for (size_t operand = 0; operand < of.size(); ++operand) product *= of[operand].values[index(in[operand])];
      sums[index(sides[1])] += product;
    }
    return sums;
  }
};

TEST_F(EinsumTest, SumsWhatTheLettersSay) {
  const std::map<char, int64_t> sizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 2}};
  for (const char* const letters :
       {"a->a",         "ab->ba",       "abc->b",          "abc->",           "ab,bc->ac",  "ab,cb->ac",
        "ba,bc->ca",    "ab,ab->",      "ab,ab->ab",       "a,b->ab",         "a,b->ba",    "abd,acd->abc",
        "abd,adc->acb", "adb,acd->abc", "abcd,abed->abce", "ab,b->a",         "b,ab->a",    "abcd,cdbe->ae",
        "abc,bd->adc",  "abc,abc->b",   "abc,cd,da->b",    "ab,bc,cd,de->ae", "abe,ac->bc", ",ab->ab",
        "abc,ac->abc",  "acd,bcd->ab"}) {
    const std::string text = letters;
    std::vector<Tensor> operands;
    std::vector<RefTensor> values;
    for (const absl::string_view of : absl::StrSplit(text.substr(0, text.find("->")), ',')) {
      std::vector<int64_t> dims;
      for (const char letter : of) dims.push_back(sizes.at(letter));
      operands.push_back(Drawn(dims));
      values.push_back(drawn_.back());
    }
    const Tensor y = Einsum(letters, operands);
    EXPECT_THAT(Values(y), Pointwise(testing::IsClose(), Sum(letters, values))) << letters;
    std::vector<int64_t> dims;
    for (const char letter : text.substr(text.find("->") + 2)) dims.push_back(sizes.at(letter));
    EXPECT_EQ(y.shape(), Shape(dims)) << letters;
  }
}

TEST_F(EinsumTest, ScoresAreOneProductOfWhatLiesThere) {
  Einsum("bqd,bkd->bqk", {Drawn({2, 3, 4}), Drawn({2, 5, 4})});
  EXPECT_THAT(Ops(), ElementsAre("batch_matmul"));
}

TEST_F(EinsumTest, ALayerIsOneProductOfAWeight) {
  Einsum("btc,dc->btd", {Drawn({2, 3, 4}), Drawn({5, 4})});
  EXPECT_THAT(Ops(), ElementsAre("matmul"));
}

TEST_F(EinsumTest, RefusesLettersThatAreNotThoseOfItsOperands) {
  struct Case {
    const char *letters, *error;
  };
  for (const Case& c : {Case{"ab,bc", "'ab,bc': must be the letters of 2 operands and '->'"},
                        Case{"ab->a", "'ab->a': must be the letters of 2 operands"},
                        Case{"abc,bc->a", "'abc' are not the dimensions of f32[2,3]"},
                        Case{"aa,bc->a", "'aa' must be different letters"},
                        Case{"a.,bc->a", "'a.' must be different letters"}, Case{"ab,ac->a", "'a' is 2 and 3"},
                        Case{"ab,bc->ad", "the result 'ad' must have different letters of the operands"},
                        Case{"ab,bc->aa", "the result 'aa' must have different letters of the operands"}}) {
    GraphBuilder b(ops_, "refused");
    const Tensor x = b.Variable("x", {DType::kFloat32, {2, 3}}, "zeros");
    const Tensor y = b.Variable("y", {DType::kFloat32, {3, 4}}, "zeros");
    EXPECT_FALSE(Einsum(c.letters, {x, y}).valid());
    EXPECT_THAT(b.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error))) << c.letters;
  }
}

}  // namespace
}  // namespace oneflow
