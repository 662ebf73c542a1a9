// Where an act is drawn: every queue of every rank is a track.
#pragma once

#include "proto/program.pb.h"

namespace oneflow {

// The queue that an actor is on.
inline int QueueOf(const pb::Actor& actor) { return actor.queue(); }

}  // namespace oneflow
