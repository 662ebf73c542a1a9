#include "actor/transport/peer_frames.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr PeerIdentity kSelf = {.process = 1, .processes = 3, .attempt = 5, .run = 0xa1};

absl::Status Hello(const PeerIdentity& peer, int called) { return CheckHello(HelloFrame(peer), kSelf, called); }

TEST(PeerFramesTest, AHelloIsThatOfThePeerExpected) {
  EXPECT_TRUE(Hello({.process = 2, .processes = 3, .attempt = 5, .run = 0xa1}, -1).ok());
  EXPECT_TRUE(Hello({.process = 0, .processes = 3, .attempt = 5, .run = 0xa1}, 0).ok());
  EXPECT_THAT(Hello({.process = 2, .processes = 3, .attempt = 4, .run = 0xa1}, -1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("process 2 is of attempt 4 of run")));
  EXPECT_THAT(
      Hello({.process = 2, .processes = 4, .attempt = 5, .run = 0xa1}, -1),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of attempt 5 of run 00000000000000a1 with 4")));
  // Another job at a port that was once this one's, or none that a scheduler knows.
  for (const uint64_t run : {0xa2, 0}) {
    EXPECT_THAT(Hello({.process = 2, .processes = 3, .attempt = 5, .run = run}, -1),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat("process 1 is of attempt 5 of run 00000000000000a1 with 3 processes; "
                                      "process 2 is of attempt 5 of run ",
                                      absl::Hex(run, absl::kZeroPad16), " with 3 processes")));
  }
  EXPECT_THAT(Hello({.process = 2, .processes = 3, .attempt = 5, .run = 0xa1}, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("process 2 answers for another")));
  for (const int caller : {-1, 0, 1, 3}) {
    EXPECT_THAT(Hello({.process = caller, .processes = 3, .attempt = 5, .run = 0xa1}, -1),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must not call process 1")));
  }
  EXPECT_THAT(CheckHello(ClockQuestion(), kSelf, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no hello")));
}

TEST(PeerFramesTest, ATimeThatWasNotAskedForIsRefused) {
  const struct { int64_t asked, answered; } cases[] = {{-1, 1}, {INT64_MIN, INT64_MAX}, {INT64_MAX, 1}, {1, -1}};
  for (const auto& c : cases) {
    PeerInbox inbox;
    pb::PeerFrame frame;
    frame.mutable_time()->set_asked_ns(c.asked);
    frame.mutable_time()->set_answered_ns(c.answered);
    EXPECT_THAT(TakeFrame(frame, inbox).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("an answer")));
    EXPECT_FALSE(inbox.clock.has_value());
  }
}

TEST(PeerFramesTest, AQuestionIsAnsweredAndItsAnswerRead) {
  PeerInbox mine, theirs;
  pb::PeerFrame question = ClockQuestion();
  absl::StatusOr<PeerReaction> reaction = TakeFrame(question, theirs);
  ASSERT_TRUE(reaction.ok() && reaction->answer.has_value());
  ASSERT_TRUE(TakeFrame(*reaction->answer, mine).ok());
  ASSERT_TRUE(mine.clock.has_value());
  EXPECT_LE(std::abs(mine.clock->ahead_ns), mine.clock->error_ns);  // one clock: apart by nothing
}

TEST(PeerFramesTest, ANoteOfAnySizeArrivesWhole) {
  const size_t piece = kNotePieceBytes;
  for (const size_t size : {size_t{0}, size_t{1}, piece - 1, piece, piece + 1, 3 * piece, 5 * piece + 17}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 2654435761U >> 13);
    absl::StatusOr<std::vector<pb::PeerFrame>> frames = NoteFrames(text);
    ASSERT_TRUE(frames.ok());
    PeerInbox inbox;
    for (pb::PeerFrame& frame : *frames) {
      EXPECT_TRUE(inbox.notes.empty()) << "whole before its last piece, of " << size;
      EXPECT_LE(frame.ByteSizeLong(), kNotePieceBytes + 64);  // gRPC takes no more than 4 MiB at once
      ASSERT_TRUE(TakeFrame(frame, inbox).ok());
    }
    ASSERT_EQ(inbox.notes.size(), 1u);
    EXPECT_TRUE(inbox.notes[0] == text) << "of " << size << " bytes";
    EXPECT_TRUE(inbox.note_begun.empty());
  }
}

TEST(PeerFramesTest, AnErrorArrivesWhateverItSays) {
  for (const std::string& text : {std::string("'/data/\xff\xfe': cannot open"), std::string(10'000'000, 'x')}) {
    const std::string sent = ErrorFrame(absl::DataLossError(text)).SerializeAsString();
    pb::PeerFrame frame;
    ASSERT_TRUE(frame.ParseFromString(sent)) << sent.size();
    PeerInbox inbox;
    ASSERT_TRUE(TakeFrame(frame, inbox).ok());
    EXPECT_THAT(inbox.failure, StatusIs(absl::StatusCode::kDataLoss, text.substr(0, 65536)));
  }
}

TEST(PeerFramesTest, ANoteWithoutEndIsRefused) {
  PeerInbox inbox;
  inbox.note_begun.resize(kLongestNote - 1);
  pb::PeerFrame frame;
  frame.mutable_note()->set_text("ab");
  EXPECT_THAT(TakeFrame(frame, inbox).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a note of 1073741825 bytes or more")));
  const std::string room;  // its bytes are not looked at
  EXPECT_THAT(NoteFrames(absl::string_view(room.data(), kLongestNote + 1)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1073741825 bytes")));
}

TEST(PeerFramesTest, WhatNobodyTakesDoesNotGrow) {
  PeerInbox inbox;
  for (int i = 0; i < 3; ++i) {
    pb::PeerFrame plan, note;
    plan.mutable_plan()->set_hash("0123");
    note.mutable_note()->set_text("note");
    EXPECT_EQ(TakeFrame(plan, inbox).ok(), i < 2);
    EXPECT_EQ(TakeFrame(note, inbox).ok(), i < 2);
  }
  pb::PeerFrame barrier;
  barrier.mutable_barrier()->set_sequence(2);
  EXPECT_THAT(TakeFrame(barrier, inbox).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("barrier 2")));
}

}  // namespace
}  // namespace oneflow
