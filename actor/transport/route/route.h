// The ways of messages out of an actor thread. Every address of a job has one route, chosen when the job is loaded; a
// new transport is a file with its route and a row of the table in routes.cc.
//
//   mailbox   a thread of this process
//   landing   the same, between hosts of the plan that this process plays: with the data of the messages
//   channel   a process of another host: the data channel, with the data of the messages
//   ring      a process of this host, through shared memory
//   network   any process, over the control network
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "actor/message.h"
#include "actor/transport/message_bus.h"
#include "actor/transport/message_ring.h"
#include "actor/transport/program_ids.h"
#include "oneflow_core/status.h"

namespace oneflow {

class DataChannel;
class PeerNetwork;
class Route;
class Shipments;

// The messages of one act that go out together: routes that send frames add to them here.
class Gathering {
 public:
  std::vector<Message>& Of(Route* route);
  // Lets every route send what it has gathered.
  void Flush();

 private:
  absl::InlinedVector<std::pair<Route*, std::vector<Message>>, 2> gathered_;
};

class Route {
 public:
  virtual ~Route() = default;

  // Sends messages, or gathers them. They have the numbers of this program. Any thread; never blocks for long.
  virtual void Send(absl::Span<const Message> messages, Gathering& gathering) = 0;
  // Sends what it has gathered.
  virtual void SendGathered(absl::Span<const Message> messages);
  // Sends the shipped bytes of a slot that is filled when a run begins.
  virtual void SendInitial(const Message& message);
};

// What routes need of a process; all of it is borrowed.
struct RouteContext {
  int process = 0;
  const ProgramIds& ids;
  PeerNetwork* peers = nullptr;    // null for a job of one process
  DataChannel* channel = nullptr;  // null: nothing goes to other hosts
  Shipments* shipments = nullptr;  // null: no data goes with messages
  // Told, on any thread, which messages cannot be sent.
  std::function<void(absl::Status)> on_error;
  // The clock of sending, for records of messages.
  int64_t (*now_ns)() = [] { return int64_t{0}; };
};

// The receiver of a route, as it is known when the job is loaded.
struct RouteEnd {
  int address = 0;
  int process = 0;
  bool is_far = false;            // on another host
  MessageSink* const* sink = {};  // where the sink of an address of this process will be
  RingWriter* ring = nullptr;     // of shared memory; null: none leads there
};

struct RouteKind {
  const char* name;
  bool (*serves)(const RouteContext& context, const RouteEnd& end);
  std::unique_ptr<Route> (*make)(const RouteContext& context, const RouteEnd& end);
  // Whether one route serves all addresses of a process that are of this kind, so that it can gather their messages.
  bool of_process = false;
};

// The first that serves an address is its route; the last serves all.
absl::Span<const RouteKind> RouteKinds();
// REQUIRES: the context has what the kinds before the last need, and peers if the end is another process.
const RouteKind& KindOf(const RouteContext& context, const RouteEnd& end);

// The rows' functions, each in the file of its kind.
std::unique_ptr<Route> MakeMailboxRoute(const RouteContext& context, const RouteEnd& end);
std::unique_ptr<Route> MakeLandingRoute(const RouteContext& context, const RouteEnd& end);
std::unique_ptr<Route> MakeChannelRoute(const RouteContext& context, const RouteEnd& end);
std::unique_ptr<Route> MakeRingRoute(const RouteContext& context, const RouteEnd& end);
std::unique_ptr<Route> MakeNetworkRoute(const RouteContext& context, const RouteEnd& end);

}  // namespace oneflow
