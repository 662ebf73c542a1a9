// The bus of one process: it knows the route to every address of the job (route/route.h).
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actor/transport/mail_file.h"
#include "actor/transport/message_bus.h"
#include "actor/transport/route/route.h"

namespace oneflow {

class ProcessBus : public MessageBus {
 public:
  // Chooses the routes. `is_far` says which processes are on other hosts, `files` is the shared memory of processes of
  // this host, by process.
  ProcessBus(RouteContext context, std::vector<int> process_of_rank, const std::vector<bool>& is_far,
             std::map<int, std::unique_ptr<PeerMailFile>> files);

  // Borrows the sink of an address in this process. Before the first Send().
  void Attach(int address, MessageSink& sink) { sinks_[address] = &sink; }
  // Sends the shipped bytes of a slot that is filled when a run begins.
  void SendInitial(int address, const Message& message) { route_at_[address]->SendInitial(message); }
  void Send(int address, const Message& message) override;
  // Messages to one thread are one entry into its mailbox or its ring; those over a network to one process, one frame.
  void SendAll(absl::Span<const std::pair<int, Message>> messages) override;

 private:
  const RouteContext context_;
  const std::map<int, std::unique_ptr<PeerMailFile>> files_;
  std::vector<MessageSink*> sinks_;  // by address; null for those of other processes
  std::vector<std::unique_ptr<Route>> routes_;
  std::vector<Route*> route_at_;  // by address
};

}  // namespace oneflow
