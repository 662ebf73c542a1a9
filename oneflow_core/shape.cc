#include "oneflow_core/shape.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

// Keeps count() * SizeOf() and offsets far from overflowing int64_t.
constexpr int64_t kMaxCount = int64_t{1} << 58;

}  // namespace

int64_t Shape::count() const {
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

std::vector<int64_t> Shape::Strides() const {
  std::vector<int64_t> strides(dims_.size(), 1);
  for (int i = rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims_[i + 1];
  return strides;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

absl::StatusOr<Shape> Shape::Parse(absl::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return absl::InvalidArgumentError(absl::StrCat("shape '", text, "' is not of the form [2,3]"));
  }
  std::vector<int64_t> dims;
  const absl::string_view inside = text.substr(1, text.size() - 2);
  if (inside.empty()) return Shape(std::move(dims));
  int64_t count = 1;
  for (absl::string_view part : absl::StrSplit(inside, ',')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("shape '", text, "': '", part, "' is not a size >= 0"));
    }
    if (size != 0 && count > kMaxCount / size) {
      return absl::InvalidArgumentError(absl::StrCat("shape '", text, "' has more than 2^58 elements"));
    }
    if (size != 0) count *= size;
    dims.push_back(size);
  }
  return Shape(std::move(dims));
}

std::string TensorType::ToString() const {
  if (!is_ragged()) return absl::StrCat(Name(dtype), shape.ToString());
  std::vector<std::string> sizes;
  for (int d = 0; d < shape.rank(); ++d) sizes.push_back(absl::StrCat(shape[d], d == ragged ? "~" : ""));
  return absl::StrCat(Name(dtype), "[", absl::StrJoin(sizes, ","), "]");
}

absl::StatusOr<TensorType> TensorType::Parse(absl::string_view text) {
  const size_t bracket = text.find('[');
  TensorType type;
  if (bracket == absl::string_view::npos || !ParseDType(std::string(text.substr(0, bracket)).c_str(), &type.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("type '", text, "' does not begin with a dtype such as f32["));
  }
  std::string shape(text.substr(bracket));
  if (const size_t mark = shape.find('~'); mark != std::string::npos) {
    if (shape.find('~', mark + 1) != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("type '", text, "' has more than one ragged dimension"));
    }
    const bool after_size = mark > 0 && absl::ascii_isdigit(shape[mark - 1]);
    const bool before_end = mark + 1 < shape.size() && (shape[mark + 1] == ',' || shape[mark + 1] == ']');
    if (!after_size || !before_end) {
      return absl::InvalidArgumentError(absl::StrCat("type '", text, "': '~' belongs behind a size, as in f32[8,64~]"));
    }
    type.ragged = static_cast<int>(std::count(shape.begin(), shape.begin() + static_cast<int64_t>(mark), ','));
    shape.erase(mark, 1);
  }
  OF_ASSIGN_OR_RETURN(type.shape, Shape::Parse(shape));
  return type;
}

}  // namespace oneflow
