#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "actor/message.h"
#include "actor/transport/peer_frames.h"
#include "actor/transport/peer_network.h"
#include "glog/logging.h"
#include "oneflow_core/zones.h"
#include "proto/peer.grpc.pb.h"
#include "test/fuzz/script.pb.h"
#include "test/fuzz/target.h"

namespace oneflow::testing {
namespace {

class Deaf : public PeerNetwork::Listener {
 public:
  void OnMessages(int, absl::Span<const oneflow::Message>) override {}
  void OnPeerError(int, absl::Status status) override { CHECK(!status.ok()); }
  void OnPeerLost(int, absl::Status status) override { CHECK(!status.ok()); }
};

// Process 1 of a job says these frames to process 0.
void RunFrames(absl::string_view input) {
  pb::PeerScript script;
  if (!script.ParseFromString(std::string(input)) || script.frames().empty()) return;
  const PeerIdentity self = {.process = 0, .processes = 2, .attempt = 1};
  if (const absl::Status greeted = CheckHello(script.frames(0), self, /*called=*/-1); !greeted.ok()) {
    CHECK(!greeted.message().empty());  // what follows is tried all the same: most inputs have a wrong hello
  }
  PeerInbox inbox;
  for (int i = 1; i < script.frames_size(); ++i) {
    const absl::StatusOr<PeerReaction> reaction = TakeFrame(*script.mutable_frames(i), inbox);
    if (!reaction.ok()) return;  // whoever says such a thing is not heard again
    for (const oneflow::Message& message : reaction->messages) {
      CHECK(message.kind == oneflow::Message::Kind::kFilled || message.kind == oneflow::Message::Kind::kFreed);
    }
    CHECK(!reaction->answer.has_value() || reaction->answer->time().has_answered_ns());
    CHECK(inbox.plans.size() <= 2 && inbox.notes.size() <= 2) << "what nobody takes grows";
  }
}

// The same over a connection. That they are dealt with is known when the call has ended.
void RunConnection(absl::string_view input) {
  pb::PeerScript script;
  if (!script.ParseFromString(std::string(input))) return;
  Deaf deaf;
  const auto network = PeerNetwork::Create(/*process=*/0, /*num_processes=*/2, /*attempt=*/1);
  CHECK(network.ok()) << network.status();
  (*network)->SetListener(&deaf);
  const auto stub = pb::Peer::NewStub(grpc::CreateChannel((*network)->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Connect(&context);
  for (const pb::PeerFrame& frame : script.frames()) {
    if (!stream->Write(frame)) break;
  }
  stream->WritesDone();
  (*network)->Interrupt(absl::CancelledError("enough"));
  pb::PeerFrame heard;
  for (int i = 0; i < 2 && stream->Read(&heard); ++i) continue;  // a hello, an answer
  context.TryCancel();
  (void)stream->Finish();
  (*network)->SetListener(nullptr);
}

pb::PeerScript Conversation() {
  pb::PeerScript script;
  pb::PeerHello& hello = *script.add_frames()->mutable_hello();
  hello.set_attempt(1);
  hello.set_process(1);
  hello.set_processes(2);
  pb::PeerPlan& plan = *script.add_frames()->mutable_plan();
  plan.set_hash("0123");
  pb::SharedZone& zone = *plan.add_zones();
  zone.set_zone(kSharedZone);
  zone.set_pid(1);
  zone.set_size(4096);
  script.add_frames()->mutable_messages()->set_packed(std::string(2 * sizeof(oneflow::Message), '\1'));
  script.add_frames()->mutable_barrier()->set_sequence(1);
  script.add_frames()->mutable_note()->set_text("note");
  script.add_frames()->mutable_time()->set_asked_ns(1);
  script.add_frames()->mutable_error()->set_message("it failed");
  return script;
}

}  // namespace

void AddPeerTargets(std::vector<FuzzTarget>& targets) {
  targets.push_back({.name = "frame",
                     .seeds = {Conversation().SerializeAsString()},
                     .message = std::make_shared<pb::PeerScript>(),
                     .run = RunFrames});
  targets.push_back({.name = "connection",
                     .seeds = {Conversation().SerializeAsString()},
                     .message = std::make_shared<pb::PeerScript>(),
                     .run = RunConnection});
}

}  // namespace oneflow::testing
