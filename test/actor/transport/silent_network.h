// A network of processes that never say anything; process 0 is this one. Tests override what they look at.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "actor/transport/peer_network.h"

namespace oneflow::testing {

class SilentNetwork : public PeerNetwork {
 public:
  SilentNetwork(int num_processes, std::string address) : num_processes_(num_processes), address_(std::move(address)) {}

  int process() const override { return 0; }
  int num_processes() const override { return num_processes_; }
  bool is_secret() const override { return false; }
  const std::string& address() const override { return address_; }
  absl::Status Connect(const std::vector<std::string>&, absl::Duration) override { return absl::OkStatus(); }
  void SetListener(Listener*) override {}
  void Send(int, absl::Span<const Message>) override {}
  void SendError(const absl::Status&) override {}
  // As if all others were like this one.
  absl::StatusOr<std::vector<pb::PeerPlan>> Exchange(const pb::PeerPlan& mine) override { return std::vector{mine}; }
  absl::StatusOr<std::vector<std::string>> ExchangeNotes(const std::string& mine) override { return std::vector{mine}; }
  absl::Status Barrier() override { return absl::OkStatus(); }
  absl::StatusOr<ClockReading> CompareClock(int) override { return ClockReading(); }
  void Interrupt(const absl::Status&) override {}

 private:
  const int num_processes_;
  const std::string address_;
};

}  // namespace oneflow::testing
