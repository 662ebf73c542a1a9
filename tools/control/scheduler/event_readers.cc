#include "tools/control/scheduler/event_readers.h"

#include <algorithm>
#include <limits>

namespace oneflow {

void EventReaders::Leave(Handle reader, absl::Time now) {
  Expect(reader->job, reader->next, now);
  readers_.erase(reader);
}

void EventReaders::Expect(int64_t job, int64_t next, absl::Time now) {
  while (!left_.empty() && left_.front().until < now) left_.pop_front();
  left_.push_back({job, next, now + kReaderReturns});
}

int64_t EventReaders::FirstUnread(int64_t job, absl::Time now) const {
  int64_t first = std::numeric_limits<int64_t>::max();
  const auto look = [&](const Reader& reader) {
    if (reader.job == job && reader.until >= now) first = std::min(first, reader.next - kOnTheWay);
  };
  for (const Reader& reader : readers_) look(reader);
  for (const Reader& reader : left_) look(reader);
  return first;
}

}  // namespace oneflow
