// The frames between the processes of a job: how they are made, and the checks of those that arrive. No threads, no
// network: PeerNetwork carries the frames and guards the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "actor/message.h"
#include "actor/transport/peer_clock.h"
#include "oneflow_core/status.h"
#include "proto/peer.pb.h"

namespace oneflow {

// One frame holds at most this many bytes of messages, well below gRPC's own limit.
inline constexpr size_t kMaxBatchBytes = size_t{1} << 20;
inline constexpr size_t kLongestError = size_t{64} << 10;
// One frame holds a piece of a note.
inline constexpr size_t kNotePieceBytes = size_t{1} << 20;
// The most memory that a peer can take from us with a note. Histograms of a large model take some 100 KB.
inline constexpr size_t kLongestNote = size_t{1} << 30;

// The sender of a hello.
struct PeerIdentity {
  int process = 0;
  int processes = 1;
  uint64_t attempt = 0;
  uint64_t run = 0;  // JobSpec.run: the same for all attempts of a job, and for no other job
};

pb::PeerFrame HelloFrame(const PeerIdentity& self);
// Reports that the sender has failed, with the beginning of a message that is too long for a frame.
pb::PeerFrame ErrorFrame(const absl::Status& status);
// Asks for the peer's time.
pb::PeerFrame ClockQuestion();
// `text` cut into as many frames as it needs, at least one. ResourceExhausted if it is longer than kLongestNote.
absl::StatusOr<std::vector<pb::PeerFrame>> NoteFrames(absl::string_view text);

// Whether `frame` is the hello of the peer that `self` talks to: of process `called`, or, if -1, of one that may call
// `self`, with a higher number. InvalidArgument if it is no hello or another's, FailedPrecondition if it is of another
// job, attempt or job size.
absl::Status CheckHello(const pb::PeerFrame& frame, const PeerIdentity& self, int called);

// Everything that a peer has said since its hello and nobody has taken yet.
struct PeerInbox {
  int64_t barrier = 0;  // how many barriers it has entered
  std::deque<pb::PeerPlan> plans;
  std::deque<std::string> notes;
  std::string note_begun;             // the pieces so far of the arriving note
  std::optional<ClockReading> clock;  // the last answer to our questions
  absl::Status failure;               // its own report
};

// The immediate reaction to a frame.
struct PeerReaction {
  std::vector<Message> messages;        // for the listener
  std::optional<pb::PeerFrame> answer;  // for the peer
};

// The messages of a frame. InvalidArgument if it is no sequence of messages.
absl::StatusOr<std::vector<Message>> Unpack(const std::string& packed);

// Adds the frame to the inbox. InvalidArgument if a peer would not send it, or not now.
absl::StatusOr<PeerReaction> TakeFrame(pb::PeerFrame& frame, PeerInbox& inbox);

}  // namespace oneflow
