// Where an act is drawn: every queue of every rank is a track.
#pragma once

#include "proto/program.pb.h"

namespace oneflow {

// The queue that an actor is on.
inline int QueueOf(const pb::Actor& actor) { return actor.queue(); }
inline const char* QueueName(int queue) {
  static constexpr const char* kNames[] = {"compute", "communication", "host"};
  return queue >= 0 && queue < pb::Queue_ARRAYSIZE ? kNames[queue] : "?";
}

}  // namespace oneflow
