// What the processes of a job say to each other, frame by frame: what is sent, and the checks of what arrives. No
// threads, no network: PeerNetwork carries the frames and guards what came of them.
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

// One frame holds at most this many bytes of messages, well below gRPC's limit for one of its own.
inline constexpr size_t kMaxBatchBytes = size_t{1} << 20;
inline constexpr size_t kLongestError = size_t{64} << 10;
// One frame holds a piece of a note.
inline constexpr size_t kNotePieceBytes = size_t{1} << 20;
// A peer cannot take more of our memory than this with a note. Histograms of a large model take some 100 KB.
inline constexpr size_t kLongestNote = size_t{1} << 30;

// Who speaks: what a hello says.
struct PeerIdentity {
  int process = 0;
  int processes = 1;
  uint64_t attempt = 0;
  uint64_t run = 0;  // JobSpec.run: the same for all attempts of a job, and for no other job
};

pb::PeerFrame HelloFrame(const PeerIdentity& self);
// That the sender has failed, with the beginning of a message that is too long for a frame.
pb::PeerFrame ErrorFrame(const absl::Status& status);
// Asks for the peer's time.
pb::PeerFrame ClockQuestion();
// `text` cut into as many frames as it needs, at least one. ResourceExhausted if it is longer than kLongestNote.
absl::StatusOr<std::vector<pb::PeerFrame>> NoteFrames(absl::string_view text);

// Whether `frame` is the hello of the peer that `self` talks to: of process `called`, or, if -1, of one that may call
// `self`, which has a higher number. InvalidArgument if it is no hello or another's, FailedPrecondition if it is of
// another job, attempt or job size.
absl::Status CheckHello(const pb::PeerFrame& frame, const PeerIdentity& self, int called);

// What a peer has said since its hello and nobody has taken yet.
struct PeerInbox {
  int64_t barrier = 0;  // how often it has entered one
  std::deque<pb::PeerPlan> plans;
  std::deque<std::string> notes;
  std::string note_begun;             // the pieces so far of the one that is arriving
  std::optional<ClockReading> clock;  // the last answer to our questions
  absl::Status failure;               // what it said of itself
};

// What is to be done at once.
struct PeerReaction {
  std::vector<Message> messages;        // for the listener
  std::optional<pb::PeerFrame> answer;  // for the peer
};

// The messages of a frame of them. InvalidArgument if it is no sequence of messages.
absl::StatusOr<std::vector<Message>> Unpack(const std::string& packed);

// Adds the frame to the inbox. InvalidArgument if a peer would not say it, or not now.
absl::StatusOr<PeerReaction> TakeFrame(pb::PeerFrame& frame, PeerInbox& inbox);

}  // namespace oneflow
