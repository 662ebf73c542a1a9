#include "actor/transport/peer_frames.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The job that a process claims.
std::string Belongs(int process, uint64_t attempt, uint64_t run, int processes) {
  return absl::StrCat("process ", process, " is of attempt ", attempt, " of run ", absl::Hex(run, absl::kZeroPad16),
                      " with ", processes, " processes");
}

absl::Status TakeBarrier(const pb::PeerBarrier& barrier, PeerInbox& inbox) {
  if (barrier.sequence() != inbox.barrier + 1) {
    return absl::InvalidArgumentError(absl::StrCat("barrier ", barrier.sequence(), " follows barrier ", inbox.barrier));
  }
  ++inbox.barrier;
  return absl::OkStatus();
}

absl::Status TakeNote(pb::PeerNote& note, PeerInbox& inbox) {
  if (inbox.notes.size() > 1) return absl::InvalidArgumentError("a note that nobody has waited for");
  std::string& begun = inbox.note_begun;
  if (note.text().size() > kLongestNote - begun.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a note of ", begun.size() + note.text().size(), " bytes or more, there may be ", kLongestNote));
  }
  if (begun.empty()) {
    begun = std::move(*note.mutable_text());
  } else {
    begun.append(note.text());
  }
  if (!note.more()) inbox.notes.push_back(std::exchange(begun, std::string()));
  return absl::OkStatus();
}

// The answer, if it is a question.
absl::StatusOr<std::optional<pb::PeerFrame>> TakeTime(const pb::PeerTime& time, PeerInbox& inbox) {
  const int64_t now = SteadyNs();
  if (time.has_answered_ns()) {
    if (time.asked_ns() < 0 || time.asked_ns() > now || time.answered_ns() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("an answer of ", time.answered_ns(), " ns to a question asked at ",
                                                     time.asked_ns(), " ns, heard at ", now, " ns"));
    }
    inbox.clock = ReadClock(time.asked_ns(), time.answered_ns(), now);
    return std::nullopt;
  }
  pb::PeerFrame answer;
  *answer.mutable_time() = time;
  answer.mutable_time()->set_answered_ns(now);
  return answer;
}

// An error must not arrive as success, whatever its code.
absl::Status FailureIn(const pb::PeerError& error) {
  const auto code = error.code() == 0 ? absl::StatusCode::kUnknown : absl::StatusCode{error.code()};
  return absl::Status(code, error.message());
}

}  // namespace

pb::PeerFrame HelloFrame(const PeerIdentity& self) {
  pb::PeerFrame frame;
  frame.mutable_hello()->set_process(self.process);
  frame.mutable_hello()->set_processes(self.processes);
  frame.mutable_hello()->set_attempt(self.attempt);
  frame.mutable_hello()->set_run(self.run);
  return frame;
}

pb::PeerFrame ErrorFrame(const absl::Status& status) {
  pb::PeerFrame frame;
  frame.mutable_error()->set_code(static_cast<int>(status.code()));
  frame.mutable_error()->set_message(std::string(status.message().substr(0, kLongestError)));
  return frame;
}

pb::PeerFrame ClockQuestion() {
  pb::PeerFrame frame;
  frame.mutable_time()->set_asked_ns(SteadyNs());
  return frame;
}

absl::StatusOr<std::vector<pb::PeerFrame>> NoteFrames(absl::string_view text) {
  if (text.size() > kLongestNote) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a note to the other processes has ", text.size(), " bytes, there may be ", kLongestNote));
  }
  std::vector<pb::PeerFrame> frames;
  do {
    const absl::string_view piece = text.substr(0, kNotePieceBytes);
    text.remove_prefix(piece.size());
    pb::PeerNote& note = *frames.emplace_back().mutable_note();
    note.set_text(piece.data(), piece.size());
    note.set_more(!text.empty());
  } while (!text.empty());
  return frames;
}

absl::Status CheckHello(const pb::PeerFrame& frame, const PeerIdentity& self, int called) {
  if (frame.kind_case() != pb::PeerFrame::kHello) return absl::InvalidArgumentError("the first frame is no hello");
  const pb::PeerHello& hello = frame.hello();
  if (hello.run() != self.run || hello.attempt() != self.attempt || hello.processes() != self.processes) {
    return absl::FailedPreconditionError(
        absl::StrCat(Belongs(self.process, self.attempt, self.run, self.processes), "; ",
                     Belongs(hello.process(), hello.attempt(), hello.run(), hello.processes())));
  }
  if (called >= 0 && hello.process() != called) {
    return absl::InvalidArgumentError(absl::StrCat("process ", hello.process(), " answers for another"));
  }
  if (called < 0 && (hello.process() <= self.process || hello.process() >= self.processes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", hello.process(), " must not call process ", self.process));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Message>> Unpack(const std::string& packed) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are sent as they lie in memory");
  if (packed.size() % sizeof(Message) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(packed.size(), " bytes are no whole number of messages"));
  }
  std::vector<Message> messages(packed.size() / sizeof(Message));
  for (size_t i = 0; i < messages.size(); ++i) {
    const char* bytes = packed.data() + i * sizeof(Message);
    if (bytes[0] != 0 && bytes[0] != 1) {
      return absl::InvalidArgumentError(absl::StrCat("message kind ", int{bytes[0]}, " is unknown"));
    }
    std::memcpy(&messages[i], bytes, sizeof(Message));
  }
  return messages;
}

absl::StatusOr<PeerReaction> TakeFrame(pb::PeerFrame& frame, PeerInbox& inbox) {
  PeerReaction reaction;
  switch (frame.kind_case()) {
    case pb::PeerFrame::kMessages: {
      OF_ASSIGN_OR_RETURN(reaction.messages, Unpack(frame.messages().packed()));
      break;
    }
    case pb::PeerFrame::kPlan:
      if (inbox.plans.size() > 1) return absl::InvalidArgumentError("a plan that nobody has waited for");
      inbox.plans.push_back(std::move(*frame.mutable_plan()));
      break;
    case pb::PeerFrame::kBarrier:
      OF_RETURN_IF_ERROR(TakeBarrier(frame.barrier(), inbox));
      break;
    case pb::PeerFrame::kNote:
      OF_RETURN_IF_ERROR(TakeNote(*frame.mutable_note(), inbox));
      break;
    case pb::PeerFrame::kTime: {
      OF_ASSIGN_OR_RETURN(reaction.answer, TakeTime(frame.time(), inbox));
      break;
    }
    case pb::PeerFrame::kError:
      inbox.failure = FailureIn(frame.error());
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("an unexpected frame of kind ", frame.kind_case()));
  }
  return reaction;
}

}  // namespace oneflow
