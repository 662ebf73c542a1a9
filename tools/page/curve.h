// A curve over training steps of which a bounded part is kept, however long it grows: neighbouring steps share a point,
// which has their least, greatest and mean value, and twice as many as soon as there would be too many points.
//
//   steps    0 1 | 2 3 | 4 5 | 6 7        one step more than fits:    0 1 2 3 | 4 5 6 7 | 8
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

class Curve {
 public:
  static constexpr size_t kMostPoints = 2048;  // twice what a wide screen has columns

  struct Point {
    int64_t index = 0;  // of its first step: index * stride
    int64_t count = 0;  // of numbers; inf and nan are none
    double least = 0, most = 0, sum = 0;
  };

  // A step that comes again, or comes late, is one value more of its point.
  void Add(int64_t step, double value);
  // Steps from this one on come again: their points are dropped, but for one that has earlier steps too.
  void CutFrom(int64_t step);

  int64_t stride() const { return stride_; }
  // Another one whenever anything but the last point changes: who has the points of a generation has all but the last.
  int64_t generation() const { return generation_; }
  const std::vector<Point>& points() const { return points_; }  // by index
  double last() const { return last_; }

 private:
  void Halve();

  int64_t stride_ = 1, generation_ = 0;
  std::vector<Point> points_;
  double last_ = 0;
};

}  // namespace oneflow
