// To a process of this host: a ring in its shared memory for each address.
#include "absl/strings/str_cat.h"
#include "actor/transport/route/route.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

class RingRoute final : public Route {
 public:
  RingRoute(const RouteContext& context, const RouteEnd& end)
      : context_(context), ring_(*end.ring), rank_(RankAt(end.address)) {}

  void Send(absl::Span<const Message> messages, Gathering&) override {
    absl::InlinedVector<Message, 8> theirs;
    for (const Message& message : messages) theirs.push_back(context_.ids.ForPeer(message));
    const absl::Status status = ring_.Write(theirs, context_.now_ns());
    if (!status.ok()) context_.on_error(Annotate(status, absl::StrCat("to rank ", rank_)));
  }

 private:
  const RouteContext& context_;
  RingWriter& ring_;
  const int rank_;
};

}  // namespace

std::unique_ptr<Route> MakeRingRoute(const RouteContext& context, const RouteEnd& end) {
  return std::make_unique<RingRoute>(context, end);
}

}  // namespace oneflow
