#include "oneflow_core/mesh.h"

#include <algorithm>
#include <climits>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {

absl::Span<const AxisRoleName> AxisRoleNames() {
  static constexpr AxisRoleName kNames[] = {{AxisRole::kStage, "stage", "pp"},
                                            {AxisRole::kBatch, "batch", "dp"},
                                            {AxisRole::kModel, "model", "tp"},
                                            {AxisRole::kSequence, "sequence", "cp"},
                                            {AxisRole::kExpert, "expert", "ep"}};
  return kNames;
}

AxisRole BuiltInRole(absl::string_view axis) {
  for (const AxisRoleName& row : AxisRoleNames()) {
    if (row.built_in == axis) return row.role;
  }
  return AxisRole::kNone;
}

AxisRole Axis::role() const { return given_role != AxisRole::kNone ? given_role : BuiltInRole(name); }

bool Axis::Has(AxisRole other) const {
  return role() == other || (role() == AxisRole::kExpert && other == AxisRole::kBatch);
}

std::string AxesText(absl::Span<const Axis> axes) {
  return absl::StrJoin(axes, ",", [](std::string* s, const Axis& a) { absl::StrAppend(s, a.name, "=", a.size); });
}

std::string Device::ToString() const { return absl::StrCat(kind == DeviceKind::kCpu ? "cpu:" : "cuda:", index); }

absl::StatusOr<Device> Device::Parse(absl::string_view text) {
  Device device;
  absl::string_view number = text;
  if (absl::ConsumePrefix(&number, "cuda:")) {
    device.kind = DeviceKind::kCuda;
  } else if (!absl::ConsumePrefix(&number, "cpu:")) {
    number = "";
  }
  if (!absl::SimpleAtoi(number, &device.index) || device.index < 0) {
    return absl::InvalidArgumentError(absl::StrCat("device '", text, "' is not of the form cpu:0 or cuda:0"));
  }
  return device;
}

namespace {

// Whether each distance is beyond all that the smaller ones reach together, so that a rank has one decomposition.
bool Nest(const std::vector<Axis>& axes, const std::vector<int>& strides) {
  std::vector<std::pair<int, int>> steps;  // {stride, size}
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size > 1) steps.push_back({strides[i], axes[i].size});
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += int64_t{stride} * (size - 1);
  }
  return true;
}

// The distance of ranks along each axis, if it is constant and these nest; else nothing.
std::vector<int> StridesOf(const std::vector<Axis>& axes, const std::vector<int>& ranks) {
  std::vector<int> strides(axes.size(), 1);
  int step = 1;  // in the list, from one coordinate to the next
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].size > 1) strides[i] = ranks[step] - ranks[0];
    step *= axes[i].size;
  }
  std::vector<int> at(axes.size(), 0);
  int expected = ranks[0];
  for (const int rank : ranks) {
    if (rank != expected) return {};
    for (size_t i = axes.size(); i-- > 0;) {
      expected += strides[i];
      if (++at[i] < axes[i].size) break;
      expected -= strides[i] * axes[i].size;
      at[i] = 0;
    }
  }
  if (!Nest(axes, strides)) return {};
  return strides;
}

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

Placement::Placement() {
  static const auto* const one = new std::shared_ptr<const Grid>(std::make_shared<Grid>(Grid{{}, {0}, {}}));
  grid_ = *one;
}

Placement::Placement(std::vector<Axis> axes, std::vector<int> ranks) {
  Grid grid{std::move(axes), std::move(ranks), {}};
  grid.strides = StridesOf(grid.axes, grid.ranks);
  grid_ = std::make_shared<const Grid>(std::move(grid));
}

int Placement::Compare(const Placement& o) const {
  if (const int by_size = Sign(size(), o.size()); by_size != 0) return by_size;
  const bool regular = strides().size() == axes().size() && o.strides().size() == o.axes().size();
  // Regular grids of one shape differ in their first rank or a stride, if they differ.
  if (!regular || axes() != o.axes()) {
    if (const int by_ranks = Sign(ranks(), o.ranks()); by_ranks != 0) return by_ranks;
  } else {
    if (ranks()[0] != o.ranks()[0]) return Sign(ranks()[0], o.ranks()[0]);
    // The last axis varies fastest, so this is the order of the lists.
    if (strides() != o.strides()) {
      return std::lexicographical_compare(strides().rbegin(), strides().rend(), o.strides().rbegin(),
                                          o.strides().rend())
                 ? -1
                 : 1;
    }
    return 0;
  }
  const auto before = [](const Axis& a, const Axis& b) { return std::tie(a.name, a.size) < std::tie(b.name, b.size); };
  if (axes() == o.axes()) return 0;
  return std::lexicographical_compare(axes().begin(), axes().end(), o.axes().begin(), o.axes().end(), before) ? -1 : 1;
}

int Placement::IndexOf(int rank) const {
  if (strides().size() != axes().size()) {
    const auto it = std::find(ranks().begin(), ranks().end(), rank);
    return it == ranks().end() ? -1 : static_cast<int>(it - ranks().begin());
  }
  // The axis of the greatest stride first: what is left over belongs to the others.
  int left = rank - ranks()[0], index = 0;
  for (int below = INT_MAX; left > 0;) {
    int next = -1, next_step = 1;  // the axis, and how far its coordinates are apart in the list
    for (int i = num_axes() - 1, step = 1; i >= 0; step *= axes()[i--].size) {
      const int stride = strides()[i];
      if (axes()[i].size == 1 || stride >= below || (next >= 0 && stride <= strides()[next])) continue;
      next = i;
      next_step = step;
    }
    if (next < 0) return -1;
    below = strides()[next];
    const int coordinate = std::min(left / below, axes()[next].size - 1);
    left -= coordinate * below;
    index += coordinate * next_step;
  }
  return left == 0 ? index : -1;
}

std::vector<int> Placement::Coordinates(int index) const {
  std::vector<int> result(axes().size());
  for (int i = num_axes() - 1; i >= 0; --i) {
    result[i] = index % axes()[i].size;
    index /= axes()[i].size;
  }
  return result;
}

int Placement::IndexAt(const std::vector<int>& coordinates) const {
  int index = 0;
  for (int i = 0; i < num_axes(); ++i) index = index * axes()[i].size + coordinates[i];
  return index;
}

bool HasRanksOf(const Placement& placement, const Placement& other) {
  if (placement == other) return true;
  if (placement.axes() != other.axes()) return false;
  std::vector<int> ranks = placement.ranks(), others = other.ranks();
  std::sort(ranks.begin(), ranks.end());
  std::sort(others.begin(), others.end());
  return ranks == others;
}

std::string Placement::ToString() const {
  return absl::StrCat("[", AxesText(axes()), "]{", absl::StrJoin(ranks(), ","), "}");
}

absl::StatusOr<Placement> Placement::Parse(absl::string_view text) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("placement '", text, "': ", what));
  };
  const size_t close = text.find("]{");
  if (text.empty() || text.front() != '[' || text.back() != '}' || close == absl::string_view::npos) {
    return error("not of the form [dp=2]{0,1}");
  }
  std::vector<Axis> axes;
  size_t size = 1;
  const absl::string_view inside = text.substr(1, close - 1);
  if (!inside.empty()) {
    for (absl::string_view part : absl::StrSplit(inside, ',')) {
      const std::pair<absl::string_view, absl::string_view> item = absl::StrSplit(part, absl::MaxSplits('=', 1));
      Axis axis{std::string(item.first), 0};
      if (axis.name.empty() || !absl::SimpleAtoi(item.second, &axis.size) || axis.size < 1 || axis.size > (1 << 20)) {
        return error(absl::StrCat("'", part, "' is not of the form dp=2"));
      }
      size *= axis.size;
      if (size > (1u << 24)) return error("more than 2^24 ranks");
      axes.push_back(std::move(axis));
    }
  }
  std::vector<int> ranks;
  for (absl::string_view part : absl::StrSplit(text.substr(close + 2, text.size() - close - 3), ',')) {
    int rank = 0;
    if (!absl::SimpleAtoi(part, &rank) || rank < 0) return error(absl::StrCat("'", part, "' is not a rank"));
    ranks.push_back(rank);
  }
  if (ranks.size() != size)
    return error(absl::StrCat("the axes make ", size, " ranks, but ", ranks.size(), " are listed"));
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size()) return error("a rank is listed twice");
  return Placement(std::move(axes), std::move(ranks));
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  std::set<std::string> names;
  int64_t size = 1;
  for (const Axis& axis : axes) {
    if (axis.name.empty()) return absl::InvalidArgumentError("mesh: an axis has no name");
    const auto is_of_word = [](char c) { return absl::ascii_isalnum(c) || c == '_'; };
    if (!std::all_of(axis.name.begin(), axis.name.end(), is_of_word)) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh: axis '", axis.name, "' has other characters than letters, digits and '_'"));
    }
    if (axis.size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh axis '", axis.name, "': size ", axis.size, " is not positive"));
    }
    if (!names.insert(axis.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("mesh: axis '", axis.name, "' is named twice"));
    }
    size *= axis.size;
    if (size > (1 << 24)) return absl::InvalidArgumentError("mesh: more than 2^24 ranks");
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  const std::vector<std::string> stages = mesh.AxesOf(AxisRole::kStage);
  if (stages.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("mesh: axes '", stages[0], "' and '", stages[1], "' are both for stages; one may be"));
  }
  return mesh;
}

std::vector<std::string> Mesh::AxesOf(AxisRole role) const {
  std::vector<std::string> names;
  for (const Axis& axis : axes_) {
    if (axis.Has(role)) names.push_back(axis.name);
  }
  return names;
}

std::string Mesh::StageAxis() const {
  const std::vector<std::string> stages = AxesOf(AxisRole::kStage);
  return stages.empty() ? "pp" : stages[0];
}

int Mesh::size() const {
  int n = 1;
  for (const Axis& axis : axes_) n *= axis.size;
  return n;
}

int Mesh::AxisSize(absl::string_view name) const {
  for (const Axis& axis : axes_) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

absl::StatusOr<Placement> Mesh::Place(const PlacementHint& fixed) const {
  std::vector<int> wanted(axes().size(), -1);  // -1: the axis stays free
  for (const AxisCoordinate& f : fixed) {
    const int size = AxisSize(f.axis);
    if (f.coordinate < 0 || f.coordinate >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("placement ", f.axis, "=", f.coordinate, ": the mesh has ", size, " along axis '", f.axis, "'"));
    }
    for (size_t i = 0; i < axes().size(); ++i) {
      if (axes()[i].name == f.axis) wanted[i] = f.coordinate;
    }
  }
  std::vector<Axis> free_axes;
  std::vector<int> strides;  // of the free axes
  int first = 0, stride = 1;
  for (size_t i = axes().size(); i-- > 0;) {
    if (wanted[i] < 0) {
      free_axes.insert(free_axes.begin(), axes()[i]);
      strides.insert(strides.begin(), stride);
    } else {
      first += wanted[i] * stride;
    }
    stride *= axes()[i].size;
  }
  std::vector<int> ranks = {first};
  for (size_t i = 0; i < free_axes.size(); ++i) {
    std::vector<int> next;
    for (const int rank : ranks) {
      for (int c = 0; c < free_axes[i].size; ++c) next.push_back(rank + c * strides[i]);
    }
    ranks = std::move(next);
  }
  return Placement(std::move(free_axes), std::move(ranks));
}

}  // namespace oneflow
