// To any process over the control network: the messages of an act are one frame.
#include "actor/transport/peer_network.h"
#include "actor/transport/route/route.h"

namespace oneflow {
namespace {

class NetworkRoute final : public Route {
 public:
  NetworkRoute(const RouteContext& context, int process) : context_(context), process_(process) {}

  void Send(absl::Span<const Message> messages, Gathering& gathering) override {
    std::vector<Message>& frame = gathering.Of(this);
    for (const Message& message : messages) frame.push_back(context_.ids.ForPeer(message));
  }
  void SendGathered(absl::Span<const Message> messages) override { context_.peers->Send(process_, messages); }

 private:
  const RouteContext& context_;
  const int process_;
};

}  // namespace

std::unique_ptr<Route> MakeNetworkRoute(const RouteContext& context, const RouteEnd& end) {
  return std::make_unique<NetworkRoute>(context, end.process);
}

}  // namespace oneflow
