#include "tools/bench/plot.h"

#include <limits>

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

size_t CountOf(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(PlotTest, PointsLieByTheirAxes) {
  // The axes end at ticks: 0 to 4 in steps of 1, and 0.01 to 100.
  const std::string svg =
      PlotSvg({"p", "a < b", {"step"}, {"loss", true}, {{"one & two", {{0, 100}, {2, 1}, {4, 0.01}}}}});
  EXPECT_THAT(svg, HasSubstr("<polyline points=\"76.0,40.0 356.0,220.0 636.0,400.0 \""));
  EXPECT_EQ(CountOf(svg, "<circle"), 3u);
  EXPECT_THAT(svg, HasSubstr(">a &lt; b</text>"));
  EXPECT_THAT(svg, HasSubstr(">one &amp; two</text>"));
  for (const char* tick : {">0<", ">4<", ">0.01<", ">100<"}) EXPECT_THAT(svg, HasSubstr(tick));
}

TEST(PlotTest, WhatAnAxisCannotShowIsLeftOut) {
  const double none = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<double>::infinity();
  const std::string svg = PlotSvg({"p", "", {}, {"", true}, {{"", {{1, 0}, {2, -1}, {none, 1}, {3, most}, {4, 10}}}}});
  EXPECT_EQ(CountOf(svg, "<circle"), 1u);
  EXPECT_EQ(CountOf(svg, "nan"), 0u);
  EXPECT_EQ(CountOf(svg, "inf"), 0u);
}

TEST(PlotTest, NothingIsAPictureToo) {
  const std::string svg = PlotSvg({"p", "", {"x"}, {"y"}, {{"none", {}}}});
  EXPECT_THAT(svg, HasSubstr(">none</text>"));
  EXPECT_EQ(CountOf(svg, "nan"), 0u);
}

TEST(PlotTest, LongSeriesAreLinesWithAnEnd) {
  PlotSeries series = {"long", {}};
  for (int i = 0; i < 1000; ++i) series.points.emplace_back(i, i);
  EXPECT_EQ(CountOf(PlotSvg({"p", "", {}, {}, {series}}), "<circle"), 1u);
}

}  // namespace
}  // namespace oneflow
