// To a process of another host over the data channel: payloads with their messages, other messages of an act as one
// frame.
#include "actor/transport/data_channel.h"
#include "actor/transport/route/route.h"
#include "actor/transport/shipments.h"

namespace oneflow {
namespace {

class ChannelRoute final : public Route {
 public:
  ChannelRoute(const RouteContext& context, int process) : context_(context), process_(process) {}

  void Send(absl::Span<const Message> messages, Gathering& gathering) override {
    for (const Message& message : messages) {
      Shipment* const shipment = context_.shipments == nullptr ? nullptr : context_.shipments->Of(message);
      if (shipment == nullptr) {
        gathering.Of(this).push_back(context_.ids.ForPeer(message));
        continue;
      }
      context_.shipments->OnFilled(message, *shipment, [&](const Message& filled, const Shipment& of) {
        Ship(DataChannel::Use::kFilled, filled, of);
      });
    }
  }
  void SendGathered(absl::Span<const Message> messages) override { context_.channel->SendMessages(process_, messages); }
  void SendInitial(const Message& message) override {
    Ship(DataChannel::Use::kInitial, message, *context_.shipments->Of(message));
  }

 private:
  void Ship(DataChannel::Use use, const Message& message, const Shipment& shipment) {
    context_.channel->SendShipment(process_, use, context_.ids.ForPeer(message), shipment, message.slot);
  }

  const RouteContext& context_;
  const int process_;
};

}  // namespace

std::unique_ptr<Route> MakeChannelRoute(const RouteContext& context, const RouteEnd& end) {
  return std::make_unique<ChannelRoute>(context, end.process);
}

}  // namespace oneflow
