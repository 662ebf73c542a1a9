#include "actor/transport/peer_stream.h"

#include <string>

namespace oneflow {

void ListeningEnd::Refuse(const absl::Status& status) {
  FinishOnce(grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message())));
}

CallingEnd::CallingEnd(Owner& owner, pb::Peer::Stub& stub) : StreamEnd(owner) {
  context_.set_wait_for_ready(true);  // the peer may not listen yet; PeerNetwork::Connect() has a time limit
  stub.async()->Connect(&context_, this);
  AddHold();  // writes are started outside of reactions; Release() ends that
}

void CallingEnd::OnDone(const grpc::Status& status) {
  owner_.OnEnd(this, absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
}

}  // namespace oneflow
