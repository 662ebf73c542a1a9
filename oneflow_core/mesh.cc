#include "oneflow_core/mesh.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {

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

int Placement::IndexOf(int rank) const {
  const auto it = std::find(ranks_.begin(), ranks_.end(), rank);
  return it == ranks_.end() ? -1 : static_cast<int>(it - ranks_.begin());
}

std::vector<int> Placement::Coordinates(int index) const {
  std::vector<int> result(axes_.size());
  for (int i = num_axes() - 1; i >= 0; --i) {
    result[i] = index % axes_[i].size;
    index /= axes_[i].size;
  }
  return result;
}

int Placement::IndexAt(const std::vector<int>& coordinates) const {
  int index = 0;
  for (int i = 0; i < num_axes(); ++i) index = index * axes_[i].size + coordinates[i];
  return index;
}

std::string Placement::ToString() const {
  return absl::StrCat(
      "[", absl::StrJoin(axes_, ",", [](std::string* s, const Axis& a) { absl::StrAppend(s, a.name, "=", a.size); }),
      "]{", absl::StrJoin(ranks_, ","), "}");
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
  return mesh;
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
  std::vector<int> wanted(axes_.size(), -1);  // -1: the axis stays free
  for (const AxisCoordinate& f : fixed) {
    const int size = AxisSize(f.axis);
    if (f.coordinate < 0 || f.coordinate >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("placement ", f.axis, "=", f.coordinate, ": the mesh has ", size, " along axis '", f.axis, "'"));
    }
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].name == f.axis) wanted[i] = f.coordinate;
    }
  }
  const Placement whole(axes_, [&] {
    std::vector<int> ranks(size());
    for (int r = 0; r < size(); ++r) ranks[r] = r;
    return ranks;
  }());
  std::vector<Axis> free_axes;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (wanted[i] < 0) free_axes.push_back(axes_[i]);
  }
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) {
    const std::vector<int> coordinates = whole.Coordinates(r);
    bool inside = true;
    for (size_t i = 0; i < axes_.size(); ++i) inside = inside && (wanted[i] < 0 || wanted[i] == coordinates[i]);
    if (inside) ranks.push_back(r);
  }
  return Placement(std::move(free_axes), std::move(ranks));
}

}  // namespace oneflow
