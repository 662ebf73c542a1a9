// Pictures of what a case has measured: series of points over two axes, as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace oneflow {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // joined in this order; those that an axis cannot show are left out
};

struct PlotAxis {
  std::string name;  // "bytes of a rank"
  bool by_decades = false;
};

struct Plot {
  std::string name;  // of the file, without ending: "distance-20-workers"
  std::string title;
  PlotAxis x, y;
  std::vector<PlotSeries> series;
};

// Without a point that both axes can show: the axes alone.
std::string PlotSvg(const Plot& plot);

}  // namespace oneflow
