#include "tools/control/scheduler/effects.h"

#include <iterator>

namespace oneflow {
namespace {

template <typename T>
void MoveBehind(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void Effects::Append(Effects later) {
  MoveBehind(new_jobs, later.new_jobs);
  MoveBehind(changed_jobs, later.changed_jobs);
  MoveBehind(events, later.events);
  MoveBehind(messages, later.messages);
  MoveBehind(closed_sessions, later.closed_sessions);
  MoveBehind(logs, later.logs);
  MoveBehind(diagnoses, later.diagnoses);
  for (auto& [worker, stored] : later.changed_workers) changed_workers[worker] = std::move(stored);
  for (auto& [name, stored] : later.changed_daemons) changed_daemons[name] = std::move(stored);
  for (const auto& [session, number] : later.acknowledged) acknowledged[session] = number;
}

}  // namespace oneflow
