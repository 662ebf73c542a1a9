#include "tools/control/scheduler/thinning.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr char kStepsOf[] = "train";

// The shortest stretches, powers of two long, of which kStretches reach beyond `last`.
int64_t StretchLength(int64_t last) {
  int64_t length = 1;
  while (last / length >= kStretches) length *= 2;
  return length;
}

}  // namespace

void Thinning::Add(const pb::JobEvent& event) {
  switch (event.kind_case()) {
    case pb::JobEvent::kFetched:
      if (event.fetched().plan() == kStepsOf) {
        return AddTo(event.fetched().name(), {event.fetched().step(), {event.sequence()}});
      }
      return of_current_part_.push_back(event.sequence());
    case pb::JobEvent::kStats:
      return of_current_part_.push_back(event.sequence());
    case pb::JobEvent::kPhaseDone: {
      Item part{event.phase_done().part(), std::exchange(of_current_part_, {})};
      part.sequences.push_back(event.sequence());
      return AddTo(absl::StrCat("part of kind ", event.phase_done().done().kind_case()), std::move(part));
    }
    case pb::JobEvent::kState:  // an attempt that ended within a part: what it told of it stays
      return of_current_part_.clear();
    case pb::JobEvent::kNotice:
    case pb::JobEvent::kStall:
    case pb::JobEvent::KIND_NOT_SET:
      return;
  }
}

void Thinning::AddTo(const std::string& series, Item item) {
  int& turn = turns_[series];
  std::vector<Item>* items = &series_[{series, turn}];
  if (!items->empty() && item.index < items->back().index) items = &series_[{series, ++turn}];
  items->push_back(std::move(item));
}

std::vector<int64_t> Thinning::Superfluous() const {
  std::vector<int64_t> sequences;
  for (const auto& [name, items] : series_) {
    const int64_t early = static_cast<int64_t>(items.size()) - kLastKept;
    if (early <= 0) continue;
    const int64_t length = StretchLength(items[early - 1].index);
    for (int64_t i = 1; i < early; ++i) {
      if (items[i].index / length != items[i - 1].index / length) continue;
      sequences.insert(sequences.end(), items[i].sequences.begin(), items[i].sequences.end());
    }
  }
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

}  // namespace oneflow
