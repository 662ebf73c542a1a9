#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/schedule/draw.h"

namespace oneflow {
namespace {

// In pixels. A row is as high as a number needs, a box as wide as two digits need.
constexpr double kRow = 26, kGap = 4, kMargin = 64, kRight = 150, kTop = 44, kBottom = 34, kBox = 20;
constexpr double kMostWidth = 12000, kLeastWidth = 580;  // of time

struct Look {
  const char* name;
  std::array<int, 3> colour;  // of a rank's first chunk
};

// By kind: blue for forward, green for backward; its halves are a greener and a yellower one.
constexpr Look kLooks[] = {{"forward", {58, 110, 190}},
                           {"input gradient", {38, 150, 130}},
                           {"weight gradient", {206, 160, 44}},
                           {"backward", {66, 148, 74}}};

// 1, 2 or 5 times a power of ten, at least `least`.
double RoundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1., 2., 5.}) {
    if (digit * power >= least) return digit * power;
  }
  return 10 * power;
}

class SvgDrawing {
 public:
  SvgDrawing(const Schedule& schedule, const Timeline& timeline)
      : schedule_(schedule), timeline_(timeline), shade_(schedule.num_chunks()) {
    double shortest = timeline.makespan;
    for (const std::vector<TimeSpan>& spans : timeline.ranks) {
      for (const TimeSpan& span : spans) {
        if (span.end > span.begin) shortest = std::min(shortest, span.end - span.begin);
      }
    }
    const double natural = shortest > 0 ? timeline.makespan / shortest * kBox : 0;
    width_ = std::clamp(natural, kLeastWidth, kMostWidth);
    scale_ = timeline.makespan > 0 ? width_ / timeline.makespan : 0;
    SetShades();
  }

  std::string Draw() {
    const double bottom = RowTop(schedule_.num_ranks());
    absl::StrAppendFormat(&out_,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                          "font-family=\"DejaVu Sans, Helvetica, sans-serif\" font-size=\"11\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          kMargin + width_ + kRight, bottom + kBottom);
    AddLegend();
    AddAxis(bottom);
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) AddRank(rank);
    return absl::StrCat(out_, "</svg>\n");
  }

 private:
  // 0 for a rank's first chunk, up to below 1 for its last.
  void SetShades() {
    std::vector<int> seen(schedule_.num_ranks(), 0), all(schedule_.num_ranks(), 0);
    for (const int rank : schedule_.rank_of_chunk) ++all[rank];
    for (int c = 0; c < schedule_.num_chunks(); ++c) {
      const int rank = schedule_.rank_of_chunk[c];
      shade_[c] = static_cast<double>(seen[rank]++) / all[rank];
    }
  }

  static double RowTop(int rank) { return kTop + rank * (kRow + kGap); }
  double X(double time) const { return kMargin + time * scale_; }

  // `shade` 0: the kind's colour; towards 1: towards white.
  static std::string Colour(ActionKind kind, double shade) {
    const auto mix = [&](int part) { return static_cast<int>(std::lround(part + (255 - part) * 0.75 * shade)); };
    const std::array<int, 3>& colour = kLooks[static_cast<int>(kind)].colour;
    return absl::StrFormat("#%02x%02x%02x", mix(colour[0]), mix(colour[1]), mix(colour[2]));
  }

  void AddText(double x, double y, const char* anchor, const char* fill, const std::string& text) {
    absl::StrAppendFormat(&out_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor,
                          fill, text);
  }

  void AddLegend() {
    std::array<bool, std::size(kLooks)> used{};
    for (const std::vector<Action>& actions : schedule_.ranks) {
      for (const Action& action : actions) used[static_cast<int>(action.kind)] = true;
    }
    double x = kMargin;
    for (size_t k = 0; k < used.size(); ++k) {
      if (!used[k]) continue;
      absl::StrAppendFormat(&out_, "<rect x=\"%.1f\" y=\"12\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x,
                            Colour(static_cast<ActionKind>(k), 0));
      AddText(x + 20, 23, "start", "#333", kLooks[k].name);
      x += 130;
    }
    if (schedule_.num_chunks() > schedule_.num_ranks())
      AddText(x, 23, "start", "#666", "lighter: later chunks of a rank");
  }

  void AddAxis(double bottom) {
    const double step = timeline_.makespan > 0 ? RoundStep(timeline_.makespan * 60 / width_) : 1;
    for (int tick = 0; tick * step <= timeline_.makespan; ++tick) {
      const double x = X(tick * step);
      absl::StrAppendFormat(&out_, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/>\n", x, kTop, bottom + 4);
      AddText(x, bottom + 18, "middle", "#666", absl::StrFormat("%.6g", tick * step));
    }
  }

  void AddRank(int rank) {
    const double top = RowTop(rank), base = top + kRow / 2 + 4;
    AddText(kMargin - 8, base, "end", "#333", absl::StrCat("rank ", rank));
    absl::StrAppendFormat(&out_, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#f1f1f1\"/>\n",
                          kMargin, top, width_, kRow);
    const std::vector<Action>& actions = schedule_.ranks[rank];
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> step = StepAt(actions, i);
      const double height = kRow / step.size();
      for (size_t k = 0; k < step.size(); ++k) {
        AddBox(step[k], timeline_.ranks[rank][i + k], top + k * height, height);
      }
      i += step.size();
    }
    const double idle = timeline_.makespan > 0 ? 100 * timeline_.idle[rank] / timeline_.makespan : 0;
    AddText(X(timeline_.makespan) + 8, base, "start", "#333",
            absl::StrFormat("idle %.1f%%, keeps %d", idle, timeline_.peak[rank]));
  }

  void AddBox(const Action& action, const TimeSpan& span, double top, double height) {
    const double width = (span.end - span.begin) * scale_, shade = shade_[action.chunk];
    absl::StrAppendFormat(&out_,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"#fff\" "
                          "stroke-width=\"0.8\"><title>%s: %.6g to %.6g</title></rect>\n",
                          X(span.begin), top, width, height, Colour(action.kind, shade), ToString(action), span.begin,
                          span.end);
    const std::string number = absl::StrCat(action.micro_batch);
    constexpr double kDigit = 7;
    if (width < number.size() * kDigit) return;
    AddText(X(span.begin) + width / 2, top + height / 2 + 4, "middle", shade < 0.5 ? "#fff" : "#222", number);
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  double width_ = 0;           // of time
  double scale_ = 0;           // pixels of a second
  std::vector<double> shade_;  // by chunk
  std::string out_;
};

}  // namespace

std::string DrawSvg(const Schedule& schedule, const Timeline& timeline) {
  return SvgDrawing(schedule, timeline).Draw();
}

}  // namespace oneflow
