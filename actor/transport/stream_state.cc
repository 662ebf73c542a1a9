#include "actor/transport/stream_state.h"

namespace oneflow {

bool StreamState::CanHappen(Event event) const {
  const bool reads = reading_ == Reading::kInFlight;
  switch (event) {
    case Event::kAccept:
    case Event::kRefuse:
    case Event::kCall:
      return phase_ == Phase::kNew;
    case Event::kGreeted:
      return reads && phase_ == Phase::kGreeting;
    case Event::kRejected:
      return reads && (phase_ == Phase::kGreeting || phase_ == Phase::kRefused);
    case Event::kFrame:
    case Event::kHeldFrame:
    case Event::kNonsense:
      return reads && phase_ == Phase::kOpen;
    case Event::kReadFailed:
      return reads;
    case Event::kTaken:
      return reading_ == Reading::kTaking;
    case Event::kResume:
      return reading_ == Reading::kHeld;
    case Event::kWritten:
    case Event::kWriteFailed:
      return writing_ == Writing::kInFlight;
    case Event::kQueued:
    case Event::kClose:
      return phase_ != Phase::kNew;
  }
  return false;
}

std::optional<StreamState::Actions> StreamState::On(Event event, bool has_frames) {
  if (!CanHappen(event)) return std::nullopt;
  Actions actions;
  switch (event) {
    case Event::kAccept:
    case Event::kRefuse:
    case Event::kCall:
      Begin(event, actions);
      break;
    case Event::kGreeted:
      phase_ = Phase::kOpen;
      GoOnReading(has_frames, actions);
      break;
    case Event::kTaken:
      GoOnReading(has_frames, actions);
      break;
    case Event::kFrame:
    case Event::kResume:
      reading_ = Reading::kTaking;
      break;
    case Event::kHeldFrame:
      reading_ = Reading::kHeld;
      break;
    case Event::kRejected:
    case Event::kNonsense:
    case Event::kReadFailed:
      EndReading(event, actions);
      break;
    case Event::kQueued:
      MaybeWrite(has_frames, actions);
      break;
    case Event::kWritten:
      writing_ = Writing::kIdle;
      MaybeWrite(has_frames, actions);
      MaybeRelease(actions);
      break;
    case Event::kWriteFailed:
      writing_ = Writing::kBroken;
      MaybeRelease(actions);
      break;
    case Event::kClose:
      Close(has_frames, actions);
      break;
  }
  return actions;
}

void StreamState::Begin(Event event, Actions& actions) {
  phase_ = event == Event::kRefuse ? Phase::kRefused : Phase::kGreeting;
  actions.refuse = event == Event::kRefuse;
  Read(actions);
  if (event == Event::kCall) Write(actions);
}

void StreamState::GoOnReading(bool has_frames, Actions& actions) {
  Read(actions);
  MaybeWrite(has_frames, actions);
}

void StreamState::Read(Actions& actions) {
  reading_ = Reading::kInFlight;
  actions.read = true;
}

void StreamState::Write(Actions& actions) {
  writing_ = Writing::kInFlight;
  actions.write = true;
}

void StreamState::EndReading(Event event, Actions& actions) {
  actions.refuse = event == Event::kRejected && phase_ == Phase::kGreeting;
  actions.cancel = event == Event::kNonsense;
  if (actions.refuse) phase_ = Phase::kRefused;
  reading_ = Reading::kEnded;
  MaybeRelease(actions);
}

void StreamState::MaybeWrite(bool has_frames, Actions& actions) {
  if (phase_ != Phase::kOpen || writing_ != Writing::kIdle || reading_ == Reading::kEnded) return;
  if (has_frames) return Write(actions);
  if (!is_closing_ || reading_ != Reading::kInFlight) return;
  writing_ = Writing::kClosed;
  actions.half_close = true;
}

void StreamState::MaybeRelease(Actions& actions) {
  if (is_released_ || reading_ != Reading::kEnded || writing_ == Writing::kInFlight) return;
  is_released_ = true;
  actions.release = true;
}

void StreamState::Close(bool has_frames, Actions& actions) {
  if (is_released_) return;
  is_closing_ = true;
  if (reading_ == Reading::kHeld) Read(actions);  // nobody will take its messages
  if (phase_ != Phase::kOpen) {
    actions.cancel = true;
  } else {
    MaybeWrite(has_frames, actions);
  }
}

}  // namespace oneflow
