#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/schedule/draw.h"

namespace oneflow {
namespace {

constexpr int kMostColumns = 2000;  // if no width is given: what a pager shows with some scrolling
constexpr int kLeastColumns = 10;   // of time, however narrow a terminal is

// By kind: what fills an action's time.
char MarkOf(ActionKind kind) { return "><=<"[static_cast<int>(kind)]; }

class TextDrawing {
 public:
  TextDrawing(const Schedule& schedule, const Timeline& timeline, int width)
      : schedule_(schedule),
        timeline_(timeline),
        several_chunks_(schedule.num_chunks() > schedule.num_ranks()),
        margin_(static_cast<int>(absl::StrCat("rank ", schedule.num_ranks() - 1, " ").size())) {
    const int most = width > 0 ? std::max(kLeastColumns, width - margin_ - 2) : kMostColumns;
    const double natural = std::ceil(NaturalScale() * timeline.makespan);
    columns_ = static_cast<int>(std::min<double>(most, std::max<double>(kLeastColumns, natural)));
    scale_ = timeline.makespan > 0 ? columns_ / timeline.makespan : 0;
    names_ = Shortest() * scale_ >= 2;
  }

  std::string Draw() const {
    std::string text;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      const std::string name = absl::StrCat("rank ", rank);
      absl::StrAppend(&text, name, std::string(margin_ - name.size(), ' '), "|", Row(rank), "|\n");
    }
    return absl::StrCat(text, Legend());
  }

 private:
  std::string LongName(const Action& action) const { return several_chunks_ ? ToString(action) : ShortName(action); }
  static std::string ShortName(const Action& action) {
    return absl::StrCat(std::string(1, KindLetter(action.kind)), action.micro_batch);
  }

  double Shortest() const {
    double shortest = timeline_.makespan;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      ForEachBox(rank, [&](const Action&, const TimeSpan& span) {
        if (span.end > span.begin) shortest = std::min(shortest, span.end - span.begin);
      });
    }
    return shortest;
  }

  std::string NameWithin(size_t columns, const Action& action) const {
    const std::string kind(1, KindLetter(action.kind));
    if (names_ && LongName(action).size() <= columns) return LongName(action);
    if (names_ && ShortName(action).size() <= columns) return ShortName(action);
    return columns > 0 ? kind : "";
  }

  // Columns of a second at which every action has room for its name and a mark.
  double NaturalScale() const {
    double scale = 0;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) {
      ForEachBox(rank, [&](const Action& action, const TimeSpan& span) {
        if (span.end > span.begin) scale = std::max(scale, (LongName(action).size() + 1) / (span.end - span.begin));
      });
    }
    return scale;
  }

  // Of two that run together, each has half of the time.
  template <typename Visit>
  void ForEachBox(int rank, const Visit& visit) const {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> step = StepAt(actions, i);
      const TimeSpan& span = timeline_.ranks[rank][i];
      const double share = (span.end - span.begin) / step.size();
      for (size_t k = 0; k < step.size(); ++k) visit(step[k], {span.begin + k * share, span.begin + (k + 1) * share});
      i += step.size();
    }
  }

  std::string Row(int rank) const {
    std::string row(columns_, '.');
    ForEachBox(rank, [&](const Action& action, const TimeSpan& span) {
      const size_t begin = ColumnOf(span.begin), columns = ColumnOf(span.end) - begin;
      std::string box(columns, MarkOf(action.kind));
      const std::string name = NameWithin(columns, action);
      row.replace(begin, columns, box.replace(0, name.size(), name));
    });
    return row;
  }
  size_t ColumnOf(double time) const { return std::min<size_t>(columns_, std::lround(time * scale_)); }

  std::string Legend() const {
    return absl::StrFormat("%*s F> forward  B< backward  I< input gradient  W= weight gradient  . idle; %.6g in all\n",
                           margin_, "", timeline_.makespan);
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  const bool several_chunks_;
  const int margin_;   // columns before time begins
  int columns_ = 0;    // of time
  double scale_ = 0;   // columns of a second
  bool names_ = true;  // some have room for one, and the others for two letters, so that it can be seen whose they are
};

}  // namespace

std::string DrawText(const Schedule& schedule, const Timeline& timeline, int width) {
  return TextDrawing(schedule, timeline, width).Draw();
}

}  // namespace oneflow
