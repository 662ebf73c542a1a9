// How what hosts send each other lies and what it takes on the way. A payload is parcels, one behind the other; it goes
// in pieces. A piece is a frame, and so are the messages of actors that are sent together.
#pragma once

#include <cstdint>

namespace oneflow {

// The place of the next parcel of a payload whose last one ends at `end`: aligned for any contents.
constexpr int64_t ParcelOffset(int64_t end) { return (end + 7) / 8 * 8; }

inline constexpr int64_t kPayloadPieceBytes = 128 << 10;  // at most

inline constexpr int64_t kChannelHeaderBytes = 56;  // before what a frame holds
inline constexpr int64_t kMessageBytes = 16;        // of a `freed`, or of a `filled` without data
// What a frame takes beside what it holds: the header, and 13 bytes of UCX if the network is TCP. Where frames are
// sealed, each has a tag too (actor/transport/seal.h), which no plan knows of.
inline constexpr int64_t kFrameBytes = kChannelHeaderBytes + 13;

}  // namespace oneflow
