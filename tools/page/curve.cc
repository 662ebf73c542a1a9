#include "tools/page/curve.h"

#include <algorithm>
#include <cmath>

namespace oneflow {
namespace {

void Merge(const Curve::Point& from, Curve::Point& to) {
  if (from.count == 0) return;
  to.least = to.count == 0 ? from.least : std::min(to.least, from.least);
  to.most = to.count == 0 ? from.most : std::max(to.most, from.most);
  to.sum += from.sum;
  to.count += from.count;
}

}  // namespace

void Curve::Add(int64_t step, double value) {
  last_ = value;
  Point point{.index = step / stride_};
  if (std::isfinite(value)) point = {point.index, 1, value, value, value};
  const auto at = std::lower_bound(points_.begin(), points_.end(), point.index,
                                   [](const Point& a, int64_t index) { return a.index < index; });
  if (at != points_.end() && at + 1 != points_.end()) ++generation_;
  if (at != points_.end() && at->index == point.index) return Merge(point, *at);
  if (at != points_.end()) ++generation_;
  points_.insert(at, point);
  if (points_.size() > kMostPoints) Halve();
}

void Curve::CutFrom(int64_t step) {
  const int64_t first = (step + stride_ - 1) / stride_;  // whose steps all come again
  generation_ += std::erase_if(points_, [first](const Point& point) { return point.index >= first; }) > 0;
}

void Curve::Halve() {
  stride_ *= 2;
  ++generation_;
  std::vector<Point> halved;
  for (Point point : points_) {
    point.index /= 2;
    if (!halved.empty() && halved.back().index == point.index) {
      Merge(point, halved.back());
    } else {
      halved.push_back(point);
    }
  }
  points_ = std::move(halved);
}

}  // namespace oneflow
