#include "tools/bench/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace oneflow {
namespace {

// In pixels.
constexpr double kPlotWidth = 560, kPlotHeight = 360, kPlotLeft = 76, kPlotTop = 40, kPlotBottom = 52;
constexpr double kLegendWidth = 320, kLegendRow = 18, kPointRadius = 3;
constexpr size_t kMostMarked = 24;  // points of a series that are drawn, besides the line
constexpr double kTicks = 6;        // at most, or one more

// Apart also for those who tell few colours (Okabe, Ito 2008).
constexpr const char* kSeriesColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};

std::string EscapedForSvg(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Where the numbers of an axis lie: its least is 0, its largest 1.
class PlotRange {
 public:
  explicit PlotRange(bool by_decades) : by_decades_(by_decades) {}

  bool Shows(double value) const { return std::isfinite(value) && (!by_decades_ || value > 0); }
  void Add(double value) {
    least_ = std::min(least_, Scaled(value));
    most_ = std::max(most_, Scaled(value));
  }
  // Once all are added: the bounds become ticks.
  void Round() {
    if (least_ > most_) least_ = most_ = 0;
    if (least_ == most_) most_ = least_ + 1;
    const double least_step = (most_ - least_) / kTicks, power = std::pow(10, std::floor(std::log10(least_step)));
    step_ = 10 * power;
    for (const double digit : {5., 2., 1.}) step_ = digit * power >= least_step ? digit * power : step_;
    if (by_decades_) step_ = std::max(1.0, std::ceil(step_));
    least_ = step_ * std::floor(least_ / step_ + kRounding);
    most_ = step_ * std::ceil(most_ / step_ - kRounding);
  }
  double At(double value) const { return (Scaled(value) - least_) / (most_ - least_); }
  std::vector<std::pair<double, std::string>> Ticks() const {
    std::vector<std::pair<double, std::string>> ticks;
    for (double at = least_; at <= most_ + kRounding * step_; at += step_) {
      const double value = by_decades_ ? std::pow(10, at) : std::abs(at) < kRounding * step_ ? 0 : at;
      ticks.emplace_back((at - least_) / (most_ - least_), absl::StrFormat("%.4g", value));
    }
    return ticks;
  }

 private:
  static constexpr double kRounding = 1e-9;
  double Scaled(double value) const { return by_decades_ ? std::log10(value) : value; }

  const bool by_decades_;
  double least_ = std::numeric_limits<double>::infinity(), most_ = -std::numeric_limits<double>::infinity();
  double step_ = 1;
};

class PlotDrawing {
 public:
  explicit PlotDrawing(const Plot& plot) : plot_(plot), x_(plot.x.by_decades), y_(plot.y.by_decades) {
    for (const PlotSeries& series : plot.series) {
      for (const auto& [x, y] : series.points) {
        if (!Shows(x, y)) continue;
        x_.Add(x);
        y_.Add(y);
      }
    }
    x_.Round();
    y_.Round();
  }

  std::string Draw() {
    const double legend = kPlotTop + kLegendRow * static_cast<double>(plot_.series.size() + 1);
    absl::StrAppendFormat(&out_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                          "font-family=\"DejaVu Sans, Helvetica, sans-serif\" font-size=\"11\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          kPlotLeft + kPlotWidth + kLegendWidth,
                          std::max(kPlotTop + kPlotHeight + kPlotBottom, legend));
    Text(kPlotLeft, kPlotTop - 16, "start", plot_.title);
    DrawAxes();
    for (size_t i = 0; i < plot_.series.size(); ++i) DrawSeries(i);
    return absl::StrCat(out_, "</svg>\n");
  }

 private:
  bool Shows(double x, double y) const { return x_.Shows(x) && y_.Shows(y); }
  static double Across(double share) { return kPlotLeft + share * kPlotWidth; }
  static double Down(double share) { return kPlotTop + (1 - share) * kPlotHeight; }

  void Text(double x, double y, const char* anchor, const std::string& text) {
    absl::StrAppendFormat(&out_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#333\">%s</text>\n", x, y,
                          anchor, EscapedForSvg(text));
  }
  void Line(double x1, double y1, double x2, double y2, const char* colour, double width) {
    absl::StrAppendFormat(
        &out_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1, y1,
        x2, y2, colour, width);
  }

  void DrawAxes() {
    for (const auto& [at, text] : x_.Ticks()) {
      Line(Across(at), Down(0), Across(at), Down(1), "#e4e4e4", 1);
      Text(Across(at), Down(0) + 16, "middle", text);
    }
    for (const auto& [at, text] : y_.Ticks()) {
      Line(Across(0), Down(at), Across(1), Down(at), "#e4e4e4", 1);
      Text(Across(0) - 6, Down(at) + 4, "end", text);
    }
    Text(Across(0.5), Down(0) + 38, "middle", plot_.x.name);
    absl::StrAppendFormat(&out_,
                          "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\" "
                          "fill=\"#333\">%s</text>\n",
                          Down(0.5), EscapedForSvg(plot_.y.name));
  }

  void DrawSeries(size_t i) {
    const char* const colour = kSeriesColours[i % std::size(kSeriesColours)];
    // A second round of the colours is dashed.
    const char* const dashes = i < std::size(kSeriesColours) ? "" : " stroke-dasharray=\"5 3\"";
    std::string points, marks;
    const std::vector<std::pair<double, double>>& all = plot_.series[i].points;
    for (size_t p = 0; p < all.size(); ++p) {
      if (!Shows(all[p].first, all[p].second)) continue;
      const double x = Across(x_.At(all[p].first)), y = Down(y_.At(all[p].second));
      absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y);
      if (all.size() > kMostMarked && p + 1 < all.size()) continue;
      absl::StrAppendFormat(&marks, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, kPointRadius,
                            colour);
    }
    const double row = kPlotTop + kLegendRow * static_cast<double>(i) + 8, left = kPlotLeft + kPlotWidth + 16;
    absl::StrAppendFormat(&out_, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s/>\n%s",
                          points, colour, dashes, marks);
    absl::StrAppendFormat(
        &out_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", left,
        row, left + 20, row, colour, dashes);
    Text(left + 26, row + 4, "start", plot_.series[i].name);
  }

  const Plot& plot_;
  PlotRange x_, y_;
  std::string out_;
};

}  // namespace

std::string PlotSvg(const Plot& plot) { return PlotDrawing(plot).Draw(); }

}  // namespace oneflow
