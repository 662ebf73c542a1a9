#include "actor/transport/stream_state.h"

#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using Event = StreamState::Event;
using Actions = StreamState::Actions;

constexpr Event kEvents[] = {Event::kAccept, Event::kRefuse,    Event::kCall,     Event::kGreeted,     Event::kRejected,
                             Event::kFrame,  Event::kHeldFrame, Event::kNonsense, Event::kReadFailed,  Event::kTaken,
                             Event::kResume, Event::kQueued,    Event::kWritten,  Event::kWriteFailed, Event::kClose};
constexpr const char* kNames[] = {"accept", "refuse",     "call",     "greeted",      "rejected",
                                  "frame",  "held frame", "nonsense", "read failed",  "taken",
                                  "resume", "queued",     "written",  "write failed", "close"};

// What the world around a stream is: which operations gRPC has, and what was said. It decides which events can happen.
struct World {
  bool begun = false, called = false, refused = false, greeted = false;
  bool reads = false, taking = false, held = false, read_ended = false;
  bool writes = false, write_failed = false;
  bool closing = false, half_closed = false, released = false;
  auto operator<=>(const World&) const = default;

  bool Allows(Event event) const {
    switch (event) {
      case Event::kAccept:
      case Event::kRefuse:
      case Event::kCall:
        return !begun;
      case Event::kGreeted:
        return reads && !greeted && !refused;
      case Event::kRejected:
        return reads && !greeted;
      case Event::kFrame:
      case Event::kHeldFrame:
      case Event::kNonsense:
        return reads && greeted;
      case Event::kReadFailed:
        return reads;
      case Event::kTaken:
        return taking;
      case Event::kResume:
        return held;
      case Event::kWritten:
      case Event::kWriteFailed:
        return writes;
      case Event::kQueued:
      case Event::kClose:
        return begun;
    }
    return false;
  }

  void Happen(Event event) {
    begun = true;
    called |= event == Event::kCall;
    refused |= event == Event::kRefuse || event == Event::kRejected;
    greeted |= event == Event::kGreeted;
    const bool ends = event == Event::kRejected || event == Event::kNonsense || event == Event::kReadFailed;
    const bool was_read = ends || event == Event::kGreeted || event == Event::kFrame || event == Event::kHeldFrame;
    read_ended |= ends;
    reads = reads && !was_read;
    taking = event == Event::kFrame || event == Event::kResume || (taking && event != Event::kTaken);
    held = event == Event::kHeldFrame || (held && event != Event::kResume && event != Event::kClose);
    writes = writes && event != Event::kWritten && event != Event::kWriteFailed;
    write_failed |= event == Event::kWriteFailed;
    closing |= event == Event::kClose;
  }

  // Checks that the actions are allowed now, and carries them out.
  void Do(const Actions& actions, Event event, bool has_frames, bool refused_before) {
    if (released) {
      EXPECT_EQ(actions, Actions()) << "a stream that was released may be gone";
      return;
    }
    if (actions.read) {
      EXPECT_FALSE(reads || taking || held || read_ended);
      reads = true;
    }
    if (actions.write) {
      EXPECT_FALSE(writes || write_failed || half_closed || read_ended);
      EXPECT_TRUE(greeted ? has_frames : event == Event::kCall);
      writes = true;
    }
    if (actions.refuse) {
      EXPECT_FALSE(greeted || refused_before);
      EXPECT_TRUE(event == Event::kRefuse || event == Event::kRejected);
    }
    if (actions.half_close) {
      EXPECT_TRUE(closing && greeted && reads) << "only a read in flight keeps a closed stream alive";
      EXPECT_FALSE(writes || half_closed || has_frames);
      half_closed = true;
    }
    if (actions.release) {
      EXPECT_TRUE(read_ended && !writes);
      released = true;
    }
    const bool may_cancel = event == Event::kNonsense || (event == Event::kClose && !greeted);
    EXPECT_TRUE(may_cancel || !actions.cancel);
  }
};

struct Node {
  StreamState state;
  World world;
  auto operator<=>(const Node&) const = default;
};

// Every state that any order of possible events leads to, with the shortest way there.
class StreamStateTest : public ::testing::Test {
 protected:
  // One event; false if it cannot happen. Expects that the state agrees on that, and does what it may.
  static bool Step(Node& node, Event event, bool has_frames) {
    const StreamState before = node.state;
    const std::optional<Actions> actions = node.state.On(event, has_frames);
    EXPECT_EQ(actions.has_value(), node.world.Allows(event));
    if (!actions.has_value()) {
      EXPECT_EQ(node.state, before) << "an event that cannot happen changes nothing";
      return false;
    }
    const bool refused_before = node.world.refused;
    node.world.Happen(event);
    node.world.Do(*actions, event, has_frames, refused_before);
    EXPECT_EQ(node.state.is_greeted(), node.world.greeted);
    EXPECT_EQ(node.state.is_refused(), node.world.refused);
    EXPECT_EQ(node.state.holds_frame(), node.world.held);
    EXPECT_EQ(node.state.is_released(), node.world.released);
    return true;
  }

  static std::vector<Node> Reachable() {
    std::deque<std::pair<Node, std::string>> open = {{Node(), "new"}};
    std::set<Node> seen = {Node()};
    std::vector<Node> all;
    while (!open.empty() && !HasFailure()) {
      const auto [from, path] = open.front();
      open.pop_front();
      all.push_back(from);
      for (size_t e = 0; e < std::size(kEvents); ++e) {
        for (const bool has_frames : {false, true}) {
          const std::string way = absl::StrCat(path, ", ", kNames[e], has_frames ? " (frames)" : "");
          SCOPED_TRACE(way);
          Node to = from;
          if (Step(to, kEvents[e], has_frames) && seen.insert(to).second) open.emplace_back(to, way);
        }
      }
    }
    return all;
  }
};

TEST_F(StreamStateTest, KeepsItsPromisesInEveryOrderOfEvents) {
  const std::vector<Node> all = Reachable();
  EXPECT_GT(all.size(), 50u);
}

// What is in flight ends, what is taken is delivered; then nothing keeps the stream.
TEST_F(StreamStateTest, EveryStreamThatBreaksIsReleased) {
  for (Node node : Reachable()) {
    if (!node.world.begun || node.world.released) continue;
    if (node.world.held) Step(node, Event::kResume, /*has_frames=*/true);
    if (node.world.taking) Step(node, Event::kTaken, /*has_frames=*/true);
    if (node.world.reads) Step(node, Event::kReadFailed, /*has_frames=*/false);
    if (node.world.writes) Step(node, Event::kWriteFailed, /*has_frames=*/false);
    EXPECT_TRUE(node.world.released);
  }
}

// Frames that are queued are written first.
TEST_F(StreamStateTest, AClosingStreamWritesWhatIsQueuedAndClosesOnce) {
  for (Node node : Reachable()) {
    if (!node.world.greeted || node.world.read_ended || node.world.write_failed || node.world.half_closed) continue;
    Step(node, Event::kClose, /*has_frames=*/true);
    if (node.world.taking) Step(node, Event::kTaken, /*has_frames=*/true);
    EXPECT_TRUE(node.world.writes);
    EXPECT_FALSE(node.world.half_closed);
    Step(node, Event::kWritten, /*has_frames=*/true);
    EXPECT_TRUE(node.world.writes);
    Step(node, Event::kWritten, /*has_frames=*/false);
    EXPECT_TRUE(node.world.half_closed);
  }
}

TEST_F(StreamStateTest, TheCallingEndSaysHelloAndHearsOne) {
  StreamState state;
  EXPECT_THAT(state.On(Event::kCall, false), Optional(Actions{.read = true, .write = true}));
  EXPECT_THAT(state.On(Event::kWritten, true), Optional(Actions())) << "frames wait for the greeting";
  EXPECT_THAT(state.On(Event::kGreeted, true), Optional(Actions{.read = true, .write = true}));
  EXPECT_THAT(state.On(Event::kWritten, false), Optional(Actions()));
  EXPECT_THAT(state.On(Event::kQueued, true), Optional(Actions{.write = true}));
}

TEST_F(StreamStateTest, TheListeningEndRefusesAHelloItDoesNotAccept) {
  StreamState state;
  EXPECT_THAT(state.On(Event::kAccept, false), Optional(Actions{.read = true}));
  EXPECT_THAT(state.On(Event::kRejected, false), Optional(Actions{.refuse = true, .release = true}));
  EXPECT_EQ(state.On(Event::kGreeted, false), std::nullopt);
}

// While a frame's messages are delivered no read is in flight, so a stream that were closed then could be gone before
// its next read.
TEST_F(StreamStateTest, IsNotClosedWhileItsFrameIsDelivered) {
  StreamState state;
  state.On(Event::kAccept, false);
  state.On(Event::kGreeted, false);
  EXPECT_THAT(state.On(Event::kFrame, false), Optional(Actions()));
  EXPECT_THAT(state.On(Event::kClose, false), Optional(Actions()));
  EXPECT_THAT(state.On(Event::kTaken, false), Optional(Actions{.read = true, .half_close = true}));
}

TEST_F(StreamStateTest, DropsTheFrameThatItHoldsWhenItCloses) {
  StreamState state;
  state.On(Event::kAccept, false);
  state.On(Event::kGreeted, false);
  EXPECT_THAT(state.On(Event::kHeldFrame, false), Optional(Actions()));
  EXPECT_TRUE(state.holds_frame());
  EXPECT_THAT(state.On(Event::kClose, false), Optional(Actions{.read = true, .half_close = true}));
}

TEST_F(StreamStateTest, LeavesAPeerThatTalksNonsense) {
  StreamState state;
  state.On(Event::kAccept, false);
  state.On(Event::kGreeted, true);  // a write is in flight
  EXPECT_THAT(state.On(Event::kNonsense, false), Optional(Actions{.cancel = true}));
  EXPECT_THAT(state.On(Event::kWriteFailed, false), Optional(Actions{.release = true}));
}

}  // namespace
}  // namespace oneflow
