#include "compiler/schedule/csv.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

constexpr absl::string_view kTogether = "OVERLAP_F_B";
constexpr absl::string_view kNotOurs[] = {"SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

// A cell cut into number, word and number.
struct CellParts {
  absl::string_view chunk, word, micro_batch;
};

CellParts CutCell(absl::string_view cell) {
  const auto is_digit = [](char c) { return absl::ascii_isdigit(c); };
  const char* const word = std::find_if_not(cell.begin(), cell.end(), is_digit);
  const char* const last = std::find_if_not(cell.rbegin(), cell.rend(), is_digit).base();
  const size_t begin = word - cell.begin(), end = std::max<size_t>(begin, last - cell.begin());
  return {cell.substr(0, begin), cell.substr(begin, end - begin), cell.substr(end)};
}

bool IsNotOurs(const CellParts& parts) {
  int number = 0;
  const bool known = std::find(std::begin(kNotOurs), std::end(kNotOurs), parts.word) != std::end(kNotOurs);
  return known && absl::SimpleAtoi(parts.chunk, &number) &&
         (parts.micro_batch.empty() || absl::SimpleAtoi(parts.micro_batch, &number));
}

std::optional<Action> ComputeAction(const CellParts& parts) {
  constexpr absl::string_view kLetters = "FIWB";
  Action action;
  const size_t kind = parts.word.size() == 1 ? kLetters.find(parts.word[0]) : absl::string_view::npos;
  if (kind == absl::string_view::npos || !absl::SimpleAtoi(parts.chunk, &action.chunk) ||
      !absl::SimpleAtoi(parts.micro_batch, &action.micro_batch)) {
    return std::nullopt;
  }
  action.kind = static_cast<ActionKind>(kind);
  return action;
}

// "(0F3;7B1)OVERLAP_F_B".
std::vector<Action> PairOf(absl::string_view cell) {
  if (!absl::ConsumePrefix(&cell, "(") || !absl::ConsumeSuffix(&cell, kTogether) || !absl::ConsumeSuffix(&cell, ")")) {
    return {};
  }
  const std::vector<absl::string_view> both = absl::StrSplit(cell, ';');
  if (both.size() != 2) return {};
  std::optional<Action> first = ComputeAction(CutCell(absl::StripAsciiWhitespace(both[0])));
  const std::optional<Action> second = ComputeAction(CutCell(absl::StripAsciiWhitespace(both[1])));
  if (!first || !second) return {};
  first->with_next = true;
  return {*first, *second};
}

absl::Status BadCell(absl::string_view cell, absl::string_view what) {
  constexpr size_t kMost = 40;  // characters of what may be a whole file without commas
  const std::string text = absl::StrCat(absl::CHexEscape(cell.substr(0, kMost)), cell.size() > kMost ? ".." : "");
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' ", what));
}

// The actions of a cell: none of a bubble or of what is not ours.
absl::StatusOr<std::vector<Action>> ActionsOf(absl::string_view cell) {
  if (cell.empty()) return std::vector<Action>();
  if (cell[0] == '(') {
    const std::vector<Action> pair = PairOf(cell);
    if (!pair.empty()) return pair;
    return BadCell(cell, absl::StrCat("is no pair, such as (0F3;7B1)", kTogether));
  }
  const CellParts parts = CutCell(cell);
  if (const std::optional<Action> action = ComputeAction(parts)) return std::vector<Action>{*action};
  if (IsNotOurs(parts)) return std::vector<Action>();
  return BadCell(cell, "is no action, such as 2F0: chunk, one of F I W B, micro-batch");
}

// Writers of this form put quotes around a row's only cell if it is empty.
absl::string_view WithoutQuotes(absl::string_view cell) {
  cell = absl::StripAsciiWhitespace(cell);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
    cell = absl::StripAsciiWhitespace(cell.substr(1, cell.size() - 2));
  }
  return cell;
}

class CsvReader {
 public:
  // Chunks and micro-batches have an action each, so that there are no more of them than characters.
  explicit CsvReader(absl::string_view text) : most_(text.size()) {
    std::vector<absl::string_view> rows = absl::StrSplit(text, '\n');
    if (rows.back().empty()) rows.pop_back();
    rows_ = std::move(rows);
  }

  absl::StatusOr<Schedule> Read() {
    for (size_t row = 0; row < rows_.size(); ++row) {
      schedule_.ranks.emplace_back();
      const std::vector<absl::string_view> cells = absl::StrSplit(rows_[row], ',');
      for (size_t column = 0; column < cells.size(); ++column) {
        OF_RETURN_IF_ERROR_AT(ReadCell(WithoutQuotes(cells[column])),
                              absl::StrCat("row ", row + 1, ", column ", column + 1));
      }
    }
    OF_RETURN_IF_ERROR(CheckNoGaps(schedule_.rank_of_chunk, "chunk"));
    OF_RETURN_IF_ERROR(CheckNoGaps(micro_batches_, "micro-batch"));
    schedule_.num_micro_batches = static_cast<int>(micro_batches_.size());
    return std::move(schedule_);
  }

 private:
  absl::Status ReadCell(absl::string_view cell) {
    OF_ASSIGN_OR_RETURN(const std::vector<Action> actions, ActionsOf(cell));
    for (const Action& action : actions) {
      OF_RETURN_IF_ERROR(SetRank(action, cell));
      schedule_.ranks.back().push_back(action);
    }
    return absl::OkStatus();
  }

  absl::Status SetRank(const Action& action, absl::string_view cell) {
    const size_t largest = std::max(action.chunk, action.micro_batch);
    if (largest >= most_) return BadCell(cell, "has a number that is larger than the whole text");
    Mark(micro_batches_, action.micro_batch) = 0;
    int& rank = Mark(schedule_.rank_of_chunk, action.chunk);
    const int here = schedule_.num_ranks() - 1;
    if (rank >= 0 && rank != here) {
      return BadCell(cell, absl::StrCat("is on rank ", here, ", and chunk ", action.chunk, " lies on rank ", rank));
    }
    rank = here;
    return absl::OkStatus();
  }

  // The element at `index`, of as many as are needed; -1 in those that nobody has set.
  static int& Mark(std::vector<int>& values, int index) {
    if (index >= static_cast<int>(values.size())) values.resize(index + 1, -1);
    return values[index];
  }

  static absl::Status CheckNoGaps(const std::vector<int>& values, absl::string_view what) {
    const auto gap = std::find(values.begin(), values.end(), -1);
    if (values.empty()) return absl::InvalidArgumentError("there are no actions");
    if (gap == values.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("there is a ", what, " ", values.size() - 1, ", and no action of ",
                                                   what, " ", gap - values.begin()));
  }

  const size_t most_;
  std::vector<absl::string_view> rows_;
  std::vector<int> micro_batches_;  // 0: it has an action
  Schedule schedule_;
};

}  // namespace

std::string ScheduleToCsv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> step = StepAt(actions, i);
      if (i > 0) text += ',';
      if (step.size() == 1) {
        text += ToString(step[0]);
      } else {
        absl::StrAppend(&text, "(", ToString(step[0]), ";", ToString(step[1]), ")", kTogether);
      }
      i += step.size();
    }
    text += '\n';
  }
  return text;
}

absl::StatusOr<Schedule> ScheduleFromCsv(absl::string_view text, absl::string_view name) {
  absl::StatusOr<Schedule> schedule = CsvReader(text).Read();
  if (!schedule.ok()) return Annotate(schedule.status(), name);
  return schedule;
}

absl::StatusOr<Schedule> ReadSchedule(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.peek();  // a directory can be opened but not read
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read schedule '", path, "': ", std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  return ScheduleFromCsv(absl::StripPrefix(bytes, "\xef\xbb\xbf"),
                         path);  // the mark of UTF-8, as spreadsheets write it
}

}  // namespace oneflow
