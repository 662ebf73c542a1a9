#include "actor/diagnosis.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// What a process says that was watched for half a second and runs plan 'p'.
pb::ProcessWaits Process(int process, const std::string& queues) {
  pb::ProcessWaits waits;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(queues, &waits)) << queues;
  waits.set_process(process);
  if (waits.silent().empty()) waits.set_window_seconds(0.5);
  return waits;
}

// Actor 1 'a' of rank 0 waits for actor 2 'b' of rank 1, and that for a slot that 'a' holds.
const char* const kAWaitsForB = R"(
  queues { rank: 0 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 31 actors { actor: 1 name: 'a' acts_left: 2
    waits { kind: DATA register: 7 name: 'x' slot: 0 peers { actor: 2 name: 'b' rank: 1 } }
    held { register: 9 slots: [0, 1] } } })";
const char* const kBWaitsForA = R"(
  queues { rank: 1 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 30 actors { actor: 2 name: 'b' acts_left: 2
    waits { kind: CREDIT register: 9 name: 'y' slot: 1 missing: 1 peers { actor: 1 name: 'a' rank: 0 } }
    filled { register: 9 slots: [0, 1] } } })";

TEST(DiagnosisTest, ACycleOverProcessesIsToldActorByActor) {
  const Diagnosis found = Diagnose({Process(0, kAWaitsForB), Process(1, kBWaitsForA)});
  EXPECT_EQ(found.cause,
            "a cycle of 2 waits, which nobody will end:\n"
            "  actor 1 'a' on rank 0 waits for register 7 'x' slot 0 to be filled by actor 2 'b' on rank 1\n"
            "  actor 2 'b' on rank 1 waits for register 9 'y' slot 1 to be freed by actor 1 'a' on rank 0");
  EXPECT_THAT(
      found.ranks,
      ElementsAre(
          StartsWith("rank 0 (cpu:0, process 0): queue compute, busy for 0% of the time, has ended no act for 31.0 "
                     "s: actor 1 'a' waits for register 7"),
          StartsWith("rank 1 (cpu:0, process 1): ")));
}

TEST(DiagnosisTest, WhatMovedWhileItWasWatchedIsInNoCycle) {
  pb::ProcessWaits moving = Process(1, kBWaitsForA);
  moving.mutable_queues(0)->set_acts(3);
  moving.mutable_queues(0)->set_still_seconds(0.1);
  EXPECT_THAT(Diagnose({Process(0, kAWaitsForB), moving}).cause, StartsWith("the job goes on: 3 acts"));
}

TEST(DiagnosisTest, ASlotThatWasFreedIsOnItsWayOrLost) {
  pb::ProcessWaits freed = Process(0, kAWaitsForB);
  freed.mutable_queues(0)->mutable_actors(0)->mutable_held(0)->clear_slots();
  EXPECT_THAT(
      Diagnose({freed, Process(1, kBWaitsForA)}).cause,
      AllOf(StartsWith("a message about slot 1 of register 9 'y' between actor 2 'b' on rank 1 and actor 1 'a' on "
                       "rank 0, which is on its way, or lost"),
            HasSubstr("2 of 2 queues wait for that")));
}

TEST(DiagnosisTest, ASlotThatWasFilledIsOnItsWayOrLost) {
  pb::ProcessWaits filled = Process(1, kBWaitsForA);
  *filled.mutable_queues(0)->mutable_actors(0)->mutable_filled(0) = pb::SlotsOf();
  filled.mutable_queues(0)->mutable_actors(0)->mutable_filled(0)->set_register_(7);
  filled.mutable_queues(0)->mutable_actors(0)->mutable_filled(0)->add_slots(0);
  filled.mutable_queues(0)->mutable_actors(0)->clear_waits();
  EXPECT_THAT(Diagnose({Process(0, kAWaitsForB), filled}).cause,
              StartsWith("a message about slot 0 of register 7 'x' between actor 2 'b' on rank 1 and actor 1 'a'"));
}

const char* const kBRuns = R"(
  queues { rank: 1 device: 'cpu:0' queues: 2 plan: 'p' still_seconds: 9 running { actor: 2 name: 'b' seconds: 8.5
    instruction: 'read_data at 4' } })";

TEST(DiagnosisTest, AnActThatAllWaitForIsToldWithWhereItIs) {
  // 'c' waits for 'a', and so for the act of 'b'.
  const std::string c = R"(
    queues { rank: 2 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 7 actors { actor: 3 name: 'c'
      waits { kind: DATA register: 8 name: 'z' peers { actor: 1 name: 'a' rank: 0 } } } })";
  pb::ProcessWaits first = Process(0, kAWaitsForB);
  first.mutable_queues(0)->mutable_actors(0)->mutable_waits(0)->mutable_peers(0)->set_queue(kHostQueue);
  const Diagnosis found = Diagnose({first, Process(1, kBRuns), Process(2, c)});
  EXPECT_EQ(found.cause,
            "rank 1 (cpu:0, process 1), queue host: is in an act for 8.5 s: read_data at 4\n"
            "  2 of 2 other queues wait for that");
  EXPECT_THAT(found.ranks,
              ElementsAre(StartsWith("rank 0"), HasSubstr("queue host, busy for 0% of the time, is in an act"),
                          StartsWith("rank 2")));
}

TEST(DiagnosisTest, OfSeveralConsumersTheOneThatHoldsASlotIsBlamed) {
  const std::string producer = R"(
    queues { rank: 0 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 9 actors { actor: 1 name: 'a'
      waits { kind: CREDIT register: 7 name: 'x' slot: 0 missing: 1
              peers { actor: 2 name: 'b' rank: 1 } peers { actor: 3 name: 'c' rank: 2 } }
      filled { register: 7 slots: 0 } } })";
  const std::string quick = R"(
    queues { rank: 1 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 9 actors { actor: 2 name: 'b'
      waits { kind: DATA register: 7 name: 'x' slot: 1 peers { actor: 1 name: 'a' rank: 0 } }
      held { register: 7 } } })";
  const std::string slow = R"(
    queues { rank: 2 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 9
      running { actor: 3 name: 'c' seconds: 8 } })";
  EXPECT_THAT(Diagnose({Process(0, producer), Process(1, quick), Process(2, slow)}).cause,
              AllOf(StartsWith("rank 2 (cpu:0, process 2), queue compute: is in an act of actor 3 'c' for 8.0 s"),
                    HasSubstr("2 of 2 other queues")));
}

TEST(DiagnosisTest, AProcessThatDoesNotAnswerIsNamed) {
  const std::string text = "process 1 (pid 7 on daemon 'd1') did not answer within 1 s";
  const pb::ProcessWaits silent = Process(1, "silent: \"(pid 7 on daemon 'd1') did not answer within 1 s\"");
  EXPECT_THAT(Diagnose({Process(0, kAWaitsForB), silent}).cause,
              AllOf(StartsWith("rank 1: " + text), HasSubstr("1 of 1 queues wait for that")));
  pb::ProcessWaits moving = Process(0, kAWaitsForB);
  moving.mutable_queues(0)->set_acts(1);
  const Diagnosis found = Diagnose({moving, silent});
  EXPECT_THAT(found.cause, StartsWith(text + "\nthe job goes on"));
  EXPECT_THAT(found.ranks, ElementsAre(StartsWith("rank 0"), text));
}

TEST(DiagnosisTest, AProcessThatIsElsewhereIsSaidToBe) {
  const pb::ProcessWaits saving = Process(1, "doing: 'saves weights' queues { rank: 1 device: 'cpu:0' queues: 0 }");
  const Diagnosis found = Diagnose({Process(0, kAWaitsForB), saving});
  EXPECT_THAT(found.cause, StartsWith("rank 1 (cpu:0, process 1): its process saves weights"));
  EXPECT_EQ(found.ranks[1], "rank 1 (cpu:0, process 1): its process saves weights");
}

TEST(DiagnosisTest, AProcessWhosePartIsOverHasSaidAllThatItHadToSay) {
  const pb::ProcessWaits over =
      Process(1, "plan: 'p' doing: 'has ended its part of plan' queues { rank: 1 device: 'cpu:0' queues: 0 }");
  EXPECT_THAT(Diagnose({Process(0, kAWaitsForB), over}).cause,
              StartsWith("a message about slot 0 of register 7 'x' between actor 2 'b' on rank 1 and actor 1 'a'"));
}

TEST(DiagnosisTest, ATurnIsAWaitLikeAnyOther) {
  const std::string turns = R"(
    queues { rank: 0 device: 'cpu:0' queues: 0 plan: 'p' still_seconds: 9
      actors { actor: 1 name: 'a' waits { kind: TURN peers { actor: 2 name: 'b' } } filled { register: 7 } }
      actors { actor: 2 name: 'b' waits { kind: DATA register: 7 name: 'x' peers { actor: 1 name: 'a' } } } })";
  EXPECT_THAT(Diagnose({Process(0, turns)}).cause,
              HasSubstr("actor 1 'a' on rank 0 waits for its turn, which is that of actor 2 'b' on rank 0"));
}

TEST(DiagnosisTest, ARankThatComputesWhileOthersWaitIsTheSlowest) {
  const auto rank = [](int rank, double busy) {
    return Process(rank, absl::StrCat("queues { rank: ", rank, " device: 'cpu:0' queues: 0 plan: 'p' acts: 20 ",
                                      "busy_seconds: ", busy, " }"));
  };
  EXPECT_EQ(Diagnose({rank(0, 0.2), rank(1, 0.48), rank(2, 0.15)}).cause,
            "the slowest: rank 1 (cpu:0, process 1) computes for 96% of the time, the 2 others for at most 40%");
  EXPECT_THAT(Diagnose({rank(0, 0.4), rank(1, 0.48)}).cause,
              AllOf(StartsWith("the job goes on"), Not(HasSubstr("slow"))));
  EXPECT_THAT(Diagnose({rank(0, 0.1), rank(1, 0.2)}).cause, StartsWith("the job goes on"));
}

}  // namespace
}  // namespace oneflow
