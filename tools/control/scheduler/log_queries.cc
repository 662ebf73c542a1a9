#include "tools/control/scheduler/log_queries.h"

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr char kLost[] = "(its daemon was lost)\n";

}  // namespace

void LogQueries::Begin(int64_t request, int first, const std::vector<Worker>& workers, absl::Time now) {
  Query& query = open_[request];
  query.due = now + limit_;
  query.first = first;
  for (int process = first; process < first + static_cast<int>(workers.size()); ++process) {
    const Worker& worker = workers[process - first];
    pb::WorkerLog& log = *query.reply.add_logs();
    log.set_process(process);
    log.set_daemon(worker.daemon);
    if (worker.session) {
      query.awaited[process] = *worker.session;
    } else {
      log.set_text(kLost);
    }
  }
}

void LogQueries::Answer(SessionId session, const pb::LogsAnswer& answer) {
  const auto found = open_.find(answer.request());
  if (found == open_.end()) return;
  Query& query = found->second;
  const auto awaited = query.awaited.find(answer.log().process());
  if (awaited == query.awaited.end() || awaited->second != session) return;
  pb::WorkerLog& log = *query.reply.mutable_logs(awaited->first - query.first);
  log.set_text(answer.log().text());
  log.set_next_offset(answer.log().next_offset());
  query.awaited.erase(awaited);
}

void LogQueries::Lose(SessionId session) {
  for (auto& [request, query] : open_) {
    for (const auto& [process, awaited] : query.awaited) {
      if (awaited == session) query.reply.mutable_logs(process - query.first)->set_text(kLost);
    }
    std::erase_if(query.awaited, [session](const auto& entry) { return entry.second == session; });
  }
}

void LogQueries::Delay(absl::Duration pause) {
  for (auto& [request, query] : open_) query.due += pause;
}

std::vector<std::pair<int64_t, pb::LogsReply>> LogQueries::Take(absl::Time now) {
  std::vector<std::pair<int64_t, pb::LogsReply>> taken;
  for (auto it = open_.begin(); it != open_.end();) {
    Query& query = it->second;
    if (!query.awaited.empty() && now < query.due) {
      ++it;
      continue;
    }
    for (const auto& [process, session] : query.awaited) {
      query.reply.mutable_logs(process - query.first)
          ->set_text(absl::StrCat("(its daemon did not answer within ", absl::FormatDuration(limit_), ")\n"));
    }
    taken.emplace_back(it->first, std::move(query.reply));
    it = open_.erase(it);
  }
  return taken;
}

}  // namespace oneflow
