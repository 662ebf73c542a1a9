// To a thread of this process, where hosts of the plan are one process: the shipped bytes are copied to where they land
// before the message goes.
#include "actor/transport/route/route.h"
#include "actor/transport/shipments.h"

namespace oneflow {
namespace {

class LandingRoute final : public Route {
 public:
  LandingRoute(Shipments& shipments, MessageSink* const* sink) : shipments_(shipments), sink_(sink) {}

  void Send(absl::Span<const Message> messages, Gathering&) override {
    absl::InlinedVector<Message, 8> ready;
    for (const Message& message : messages) {
      Shipment* const shipment = shipments_.Of(message);
      if (shipment == nullptr) {
        ready.push_back(message);
        continue;
      }
      shipments_.OnFilled(message, *shipment, [&](const Message& filled, const Shipment& of) {
        Land(of, filled);
        ready.push_back(filled);
      });
    }
    if (!ready.empty()) (*sink_)->Post(ready);
  }

  void SendInitial(const Message& message) override { Land(*shipments_.Of(message), message); }

 private:
  void Land(const Shipment& shipment, const Message& message) {
    shipment.CopyTo(message.slot, shipments_.LandingOf(message)->slot(message.slot));
  }

  Shipments& shipments_;
  MessageSink* const* const sink_;
};

}  // namespace

std::unique_ptr<Route> MakeLandingRoute(const RouteContext& context, const RouteEnd& end) {
  return std::make_unique<LandingRoute>(*context.shipments, end.sink);
}

}  // namespace oneflow
