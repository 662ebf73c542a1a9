#include "tools/page/trace_view.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr size_t kMostSteps = 500;
constexpr int kMostActs = 20'000;
// Of files; what is compressed grows tenfold.
constexpr uintmax_t kMostBytes = uintmax_t{256} << 20, kMostCompressed = uintmax_t{24} << 20;

double Micro(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

using StepKey = std::tuple<int32_t, int32_t, int64_t>;  // run, plan, step

StepKey KeyOf(const TracedAct& act) { return {act.run, act.plan, act.step}; }

std::string QueueName(const Trace& trace, const pb::Actor& actor) {
  return absl::StrCat("rank ", actor.rank(), " (", trace.head.program().ranks(actor.rank()).device(), ") ",
                      oneflow::QueueName(actor.queue()));
}

}  // namespace

nlohmann::json StepsJson(const Trace& trace) {
  std::map<StepKey, std::pair<int64_t, int64_t>> spans;
  for (const TracedAct& act : trace.acts) {
    const auto [found, is_new] = spans.try_emplace(KeyOf(act), act.begin_ns, act.end_ns);
    found->second.first = std::min(found->second.first, act.begin_ns);
    found->second.second = std::max(found->second.second, act.end_ns);
  }
  nlohmann::json steps = nlohmann::json::array();
  auto at = spans.begin();
  if (spans.size() > kMostSteps) std::advance(at, spans.size() - kMostSteps);
  for (; at != spans.end(); ++at) {
    const auto& [run, plan, step] = at->first;
    steps.push_back({{"run", run},
                     {"plan", plan},
                     {"name", trace.head.program().plans(plan).name()},
                     {"step", step},
                     {"ms", Micro(at->second.second - at->second.first) * 1e-3}});
  }
  return {{"steps", std::move(steps)}};
}

absl::StatusOr<nlohmann::json> ActsJson(const Trace& trace, int32_t run, int32_t plan, int64_t step) {
  std::map<std::pair<int, int>, std::pair<std::string, nlohmann::json>> queues;  // by rank and queue: name, acts
  int64_t begin = 0, end = 0;
  int count = 0;
  for (const TracedAct& act : trace.acts) {  // by begin
    if (KeyOf(act) != StepKey{run, plan, step}) continue;
    if (count++ == 0) begin = act.begin_ns;
    end = std::max(end, act.end_ns);
    if (count > kMostActs) continue;
    const pb::Actor& actor = trace.ActorOf(act);
    auto& [name, acts] = queues[{actor.rank(), actor.queue()}];
    if (name.empty()) name = QueueName(trace, actor);
    acts.push_back({Micro(act.begin_ns - begin), Micro(act.end_ns - act.begin_ns), actor.name(),
                    absl::AsciiStrToLower(pb::Cause_Name(act.cause)), Micro(act.begin_ns - act.ready_ns)});
  }
  if (count == 0) return absl::NotFoundError(absl::StrCat("the trace has no act of step ", step, " of run ", run));
  nlohmann::json result = {{"ms", Micro(end - begin) * 1e-3}, {"left_out", std::max(count - kMostActs, 0)}};
  for (auto& [key, queue] : queues) {
    result["queues"].push_back({{"name", queue.first}, {"acts", std::move(queue.second)}});
  }
  return result;
}

absl::StatusOr<std::shared_ptr<const Trace>> TraceReader::Read(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const OpenedFile file, allowed_.Open({"trace", path}));
  struct stat info = {};
  if (fstat(file.fd(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("trace '", path, "'"));
  const auto size = static_cast<uintmax_t>(info.st_size);
  if (const uintmax_t most = absl::EndsWith(path, ".gz") ? kMostCompressed : kMostBytes; size > most) {
    return absl::ResourceExhaustedError(absl::StrCat("trace '", path, "' has ", size, " bytes; up to ", most,
                                                     " are looked at here: open it in https://ui.perfetto.dev"));
  }
  if (!mu_.TryLock()) return absl::ResourceExhaustedError("another trace is being read: ask again");
  const std::unique_ptr<absl::Mutex, void (*)(absl::Mutex*)> unlock(&mu_, [](absl::Mutex* mu) { mu->Unlock(); });
  const std::string key =
      absl::StrCat(path, " ", info.st_ino, " ", size, " ", info.st_mtim.tv_sec, " ", info.st_mtim.tv_nsec);
  if (key == key_) return trace_;
  OF_ASSIGN_OR_RETURN_AT(Trace trace, ReadChromeTrace(absl::StrCat("/proc/self/fd/", file.fd())),
                         absl::StrCat("trace '", path, "'"));
  trace_ = std::make_shared<const Trace>(std::move(trace));
  key_ = key;
  return trace_;
}

}  // namespace oneflow
