// The life of one end of a stream between two processes, as a state machine: events in, actions out. It knows neither
// gRPC nor frames; PeerNetwork tells it what has happened and does what it says.
//
//   kNew ──kAccept, kCall──► kGreeting ──kGreeted──► kOpen      reading and writing go on side by side
//     └────kRefuse─────────► kRefused
//
//   reading   kInFlight ──kFrame──► kTaking ──kTaken──► kInFlight      a frame's messages are being delivered
//                 ├──────kHeldFrame─► kHeld ──kResume──► kTaking       they wait for somebody who takes them
//                 └──kReadFailed, kNonsense, kRejected──► kEnded
//   writing   kIdle ◄──► kInFlight;  kIdle ──closing──► kClosed;  kInFlight ──kWriteFailed──► kBroken
//
// A stream is released once reading has ended and no write is in flight. It is closed only while a read is in flight,
// since nothing else keeps a closed stream alive until its end is known.
#pragma once

#include <optional>

namespace oneflow {

class StreamState {
 public:
  enum class Event {
    kAccept,       // a peer has called
    kRefuse,       // a peer has called whom we do not hear
    kCall,         // we call a peer; our hello is the first frame
    kGreeted,      // read: the peer's hello, which is accepted
    kRejected,     // read: a hello that is not, or anything of a peer whom we do not hear
    kFrame,        // read: a frame
    kHeldFrame,    // read: a frame whose messages nobody takes yet
    kNonsense,     // read: a frame that makes no sense
    kReadFailed,   // nothing more can be read
    kTaken,        // the messages of the frame have been delivered
    kResume,       // somebody takes the messages of the held frame now
    kQueued,       // there is a frame to write
    kWritten,      // the write in flight has ended
    kWriteFailed,  // likewise; reading will fail, too
    kClose,        // this process closes
  };
  // To be done in this order.
  struct Actions {
    bool read = false;
    bool write = false;  // the next frame of the queue; before the greeting our hello
    bool refuse = false;
    bool half_close = false;  // nothing will be written any more
    bool release = false;     // gRPC may destroy the stream
    bool cancel = false;
    bool operator==(const Actions&) const = default;
  };

  // Empty if the event cannot happen now; then nothing changes. `has_frames`: whether frames are queued for the peer.
  std::optional<Actions> On(Event event, bool has_frames);

  bool is_greeted() const { return phase_ == Phase::kOpen; }
  bool is_refused() const { return phase_ == Phase::kRefused; }
  bool holds_frame() const { return reading_ == Reading::kHeld; }
  bool is_released() const { return is_released_; }

  auto operator<=>(const StreamState&) const = default;

 private:
  enum class Phase { kNew, kGreeting, kRefused, kOpen };
  enum class Reading { kNone, kInFlight, kTaking, kHeld, kEnded };
  enum class Writing { kIdle, kInFlight, kBroken, kClosed };

  bool CanHappen(Event event) const;
  void Begin(Event event, Actions& actions);
  void Read(Actions& actions);
  void Write(Actions& actions);
  void GoOnReading(bool has_frames, Actions& actions);
  void EndReading(Event event, Actions& actions);
  // Writes what is queued; closes when that is all.
  void MaybeWrite(bool has_frames, Actions& actions);
  void MaybeRelease(Actions& actions);
  void Close(bool has_frames, Actions& actions);

  Phase phase_ = Phase::kNew;
  Reading reading_ = Reading::kNone;
  Writing writing_ = Writing::kIdle;
  bool is_closing_ = false;
  bool is_released_ = false;
};

}  // namespace oneflow
