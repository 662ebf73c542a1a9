// To a thread of this process.
#include "actor/transport/route/route.h"

namespace oneflow {
namespace {

class MailboxRoute final : public Route {
 public:
  explicit MailboxRoute(MessageSink* const* sink) : sink_(sink) {}
  void Send(absl::Span<const Message> messages, Gathering&) override { (*sink_)->Post(messages); }

 private:
  MessageSink* const* const sink_;
};

}  // namespace

std::unique_ptr<Route> MakeMailboxRoute(const RouteContext&, const RouteEnd& end) {
  return std::make_unique<MailboxRoute>(end.sink);
}

}  // namespace oneflow
