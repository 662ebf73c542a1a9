#include "oneflow_core/einsum.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

// A tensor and the letters of its dimensions.
struct Term {
  Tensor x;
  std::string letters;
};

bool Has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// Those of `letters` that are, or are not, in `of`.
std::string In(const std::string& letters, const std::string& of, bool wanted = true) {
  std::string result;
  for (const char letter : letters) {
    if (Has(of, letter) == wanted) result += letter;
  }
  return result;
}
std::string NotIn(const std::string& letters, const std::string& of) { return In(letters, of, /*wanted=*/false); }

class Sums {
 public:
  Sums(std::map<char, int64_t> sizes, Location loc) : sizes_(std::move(sizes)), loc_(loc) {}

  // The sum of products of `terms` in which the letters `result` stay.
  Tensor Of(std::vector<Term> terms, const std::string& result) const {
    Term product = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      std::string stay = result;
      for (size_t later = i + 1; later < terms.size(); ++later) stay += terms[later].letters;
      product = Product(product, terms[i], stay);
    }
    return Ordered(Without(product, NotIn(product.letters, result)), result);
  }

 private:
  // Summed over these letters of it.
  Term Without(const Term& term, const std::string& letters) const {
    if (letters.empty()) return term;
    std::vector<int64_t> axes;
    for (const char letter : letters) axes.push_back(static_cast<int64_t>(term.letters.find(letter)));
    return {ReduceSum(term.x, axes, /*keepdims=*/false, loc_), NotIn(term.letters, letters)};
  }

  // Its dimensions in this order of its letters.
  Tensor Ordered(const Term& term, const std::string& letters) const {
    if (term.letters == letters) return term.x;
    std::vector<int64_t> perm;
    for (const char letter : letters) perm.push_back(static_cast<int64_t>(term.letters.find(letter)));
    return Transpose(term.x, perm, loc_);
  }

  std::vector<int64_t> Sizes(const std::string& letters) const {
    std::vector<int64_t> sizes;
    for (const char letter : letters) sizes.push_back(sizes_.at(letter));
    return sizes;
  }
  int64_t Count(const std::string& letters) const { return Shape(Sizes(letters)).count(); }

  // The dimensions `rows`, of which there is at least one, then one of `summed`.
  Tensor AsRows(const Term& term, const std::string& rows, const std::string& summed) const {
    const Tensor ordered = Ordered(term, rows + summed);
    if (!rows.empty() && summed.size() == 1) return ordered;
    std::vector<int64_t> sizes = rows.empty() ? std::vector<int64_t>{1} : Sizes(rows);
    sizes.push_back(Count(summed));
    return Reshape(ordered, sizes, loc_);
  }

  // The dimensions `apart`, then one of `a` and one of `b`.
  Tensor AsMatrices(const Term& term, const std::string& apart, const std::string& a, const std::string& b) const {
    std::vector<int64_t> sizes = Sizes(apart);
    sizes.insert(sizes.end(), {Count(a), Count(b)});
    const Tensor ordered = Ordered(term, apart + a + b);
    return a.size() == 1 && b.size() == 1 ? ordered : Reshape(ordered, sizes, loc_);
  }

  Term Product(Term a, Term b, const std::string& stay) const {
    a = Without(a, NotIn(NotIn(a.letters, b.letters), stay));
    b = Without(b, NotIn(NotIn(b.letters, a.letters), stay));
    const std::string both = In(a.letters, b.letters), batch = In(both, stay), summed = NotIn(both, stay);
    const std::string rows = NotIn(a.letters, b.letters), columns = NotIn(b.letters, a.letters);
    const std::string letters = batch + rows + columns;
    if (summed.empty()) return {Mul(Broadcast(a, letters), Broadcast(b, letters), loc_), letters};
    // An operand whose last dimension is not summed lies transposed as it is.
    const bool transpose_b = Has(summed, b.letters.back()), transpose_a = !Has(summed, a.letters.back());
    const Tensor right = transpose_b ? AsMatrices(b, batch, columns, summed) : AsMatrices(b, batch, summed, columns);
    if (batch.empty()) {
      const Tensor product = MatMul(AsRows(a, rows, summed), right, transpose_b, loc_);
      return {!rows.empty() && columns.size() == 1 ? product : Reshape(product, Sizes(letters), loc_), letters};
    }
    const Tensor left = transpose_a ? AsMatrices(a, batch, summed, rows) : AsMatrices(a, batch, rows, summed);
    const Tensor product = BatchMatMul(left, right, transpose_a, transpose_b, loc_);
    return {rows.size() == 1 && columns.size() == 1 ? product : Reshape(product, Sizes(letters), loc_), letters};
  }

  // In the order of `letters`, with a dimension of one where it has none of them.
  Tensor Broadcast(const Term& term, const std::string& letters) const {
    std::vector<int64_t> sizes;
    for (const char letter : letters) sizes.push_back(Has(term.letters, letter) ? sizes_.at(letter) : 1);
    const Tensor ordered = Ordered(term, In(letters, term.letters));
    return term.letters.size() == letters.size() ? ordered : Reshape(ordered, sizes, loc_);
  }

  const std::map<char, int64_t> sizes_;
  const Location loc_;
};

// Notes the sizes of the letters of x; what is wrong, or nothing.
std::string AddSizes(const Tensor& x, const std::string& letters, std::map<char, int64_t>* sizes) {
  if (static_cast<int>(letters.size()) != x.shape().rank()) {
    return absl::StrCat("'", letters, "' are not the dimensions of ", x.type().ToString());
  }
  for (size_t i = 0; i < letters.size(); ++i) {
    const char letter = letters[i];
    if (!absl::ascii_isalpha(static_cast<unsigned char>(letter)) || letters.find(letter, i + 1) != std::string::npos) {
      return absl::StrCat("'", letters, "' must be different letters");
    }
    const int64_t size = x.shape()[static_cast<int>(i)];
    const auto [it, first] = sizes->emplace(letter, size);
    if (it->second != size) return absl::StrCat("'", std::string(1, letter), "' is ", it->second, " and ", size);
  }
  return "";
}

std::string CheckResult(const std::string& result, const std::map<char, int64_t>& sizes) {
  for (size_t i = 0; i < result.size(); ++i) {
    if (sizes.count(result[i]) == 0 || result.find(result[i], i + 1) != std::string::npos) {
      return absl::StrCat("the result '", result, "' must have different letters of the operands");
    }
  }
  return "";
}

}  // namespace

Tensor Einsum(absl::string_view letters, const std::vector<Tensor>& operands, Location loc) {
  for (const Tensor& x : operands) {
    if (!x.valid()) return Tensor();
  }
  if (operands.empty()) return Tensor();
  const std::vector<std::string> sides = absl::StrSplit(letters, "->");
  const std::vector<std::string> of = absl::StrSplit(sides[0], ',');
  std::vector<Term> terms;
  std::map<char, int64_t> sizes;
  std::string wrong;
  if (sides.size() != 2 || of.size() != operands.size()) {
    wrong = absl::StrCat("must be the letters of ", operands.size(), " operands and '->' those of the result");
  }
  for (size_t i = 0; i < operands.size() && wrong.empty(); ++i) {
    wrong = AddSizes(operands[i], of[i], &sizes);
    terms.push_back({operands[i], of[i]});
  }
  if (wrong.empty()) wrong = CheckResult(sides[1], sizes);
  if (wrong.empty()) return Sums(std::move(sizes), loc).Of(std::move(terms), sides[1]);
  operands[0].builder()->Fail(absl::InvalidArgumentError(absl::StrCat("einsum '", letters, "': ", wrong)));
  return Tensor();
}

}  // namespace oneflow
