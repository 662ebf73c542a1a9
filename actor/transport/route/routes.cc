#include "actor/transport/route/route.h"

namespace oneflow {
namespace {

bool IsHere(const RouteContext& context, const RouteEnd& end) { return end.process == context.process; }

constexpr RouteKind kKinds[] = {
    {.name = "channel",
     .serves = [](const RouteContext&, const RouteEnd& end) { return end.is_far; },
     .make = MakeChannelRoute,
     .of_process = true},
    {.name = "landing",
     .serves = [](const RouteContext& context,
                  const RouteEnd& end) { return IsHere(context, end) && context.shipments != nullptr; },
     .make = MakeLandingRoute},
    {.name = "mailbox", .serves = IsHere, .make = MakeMailboxRoute},
    {.name = "ring",
     .serves = [](const RouteContext&, const RouteEnd& end) { return end.ring != nullptr; },
     .make = MakeRingRoute},
    {.name = "network",
     .serves = [](const RouteContext&, const RouteEnd&) { return true; },
     .make = MakeNetworkRoute,
     .of_process = true},
};

}  // namespace

std::vector<Message>& Gathering::Of(Route* route) {
  for (auto& [of, messages] : gathered_) {
    if (of == route) return messages;
  }
  return gathered_.emplace_back(route, std::vector<Message>()).second;
}

void Gathering::Flush() {
  for (const auto& [route, messages] : gathered_) {
    if (!messages.empty()) route->SendGathered(messages);
  }
  gathered_.clear();
}

void Route::SendGathered(absl::Span<const Message>) {}
void Route::SendInitial(const Message&) {}

absl::Span<const RouteKind> RouteKinds() { return kKinds; }

const RouteKind& KindOf(const RouteContext& context, const RouteEnd& end) {
  for (const RouteKind& kind : kKinds) {
    if (kind.serves(context, end)) return kind;
  }
  return kKinds[std::size(kKinds) - 1];
}

}  // namespace oneflow
