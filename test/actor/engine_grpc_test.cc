// Engines of several processes, played by one: their ranks share memory through memory files and talk over loopback.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "actor/checkpoint/checkpoint_writer.h"
#include "actor/diagnosis.h"
#include "actor/engine.h"
#include "actor/transport/mail_file.h"
#include "actor/transport/message_bus.h"
#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

// The processes of one job, each with its network and, after Load(), its engine.
class Job {
 public:
  explicit Job(int num_processes) {
    std::vector<std::string> addresses;
    for (int p = 0; p < num_processes; ++p) {
      networks_.push_back(std::move(PeerNetwork::Create(p, num_processes, 3)).value());
      addresses.push_back(networks_.back()->address());
    }
    engines_.resize(num_processes);
    OnEach([&](int p) { return networks_[p]->Connect(addresses, absl::Seconds(20)); });
  }
  ~Job() {
    engines_.clear();  // borrow the networks
  }

  // Calls fn(process) on a thread per process.
  std::vector<absl::Status> OnEach(const std::function<absl::Status(int)>& fn) {
    std::vector<absl::Status> statuses(networks_.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < networks_.size(); ++p) {
      threads.emplace_back([&, p] { statuses[p] = fn(static_cast<int>(p)); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  std::vector<absl::Status> Load(const std::function<pb::Program(int)>& plan) {
    return OnEach([&](int p) { return LoadOne(p, plan(p)); });
  }
  absl::Status LoadOne(int p, pb::Program program) {
    EngineOptions options;
    options.process = p;
    options.peers = networks_[p].get();
    options.ops = &testing::TestOps();
    options.open_device = TestDevice::Open;
    if (on_stall) options.stall_seconds = 0.3;
    options.on_stall = on_stall;
    options.on_fetch = [this](Fetched fetched) {
      std::lock_guard<std::mutex> lock(mu_);
      fetched_[{fetched.name, fetched.step}] = fetched.values;
    };
    OF_ASSIGN_OR_RETURN(engines_[p], Engine::Create(std::move(program), std::move(options)));
    return absl::OkStatus();
  }
  std::function<void(pb::ProcessWaits)> on_stall;  // of all that are loaded later
  Engine& engine(int p) { return *engines_[p]; }
  PeerNetwork& network(int p) { return *networks_[p]; }
  std::vector<double> At(const std::string& name, int64_t step) { return fetched_[{name, step}]; }
  // The process is no more.
  void Kill(int p) {
    engines_[p].reset();
    networks_[p].reset();
  }

 private:
  std::vector<std::unique_ptr<PeerNetwork>> networks_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::mutex mu_;
  std::map<std::pair<std::string, int64_t>, std::vector<double>> fetched_;
};

// Rank 0 counts, rank 1 copies and adds its own count, rank 0 copies that back and shows it.
TestPlan ThereAndBack(const std::vector<int>& process_of_rank) {
  TestPlan plan(process_of_rank, 2);
  const int source = plan.Actor(0, "source", 2), add = plan.Actor(1, "add", 2), own = plan.Actor(1, "own", 2);
  const int back = plan.Actor(0, "back", 2), sum = plan.Actor(0, "sum", 2), sink = plan.Actor(0, "sink");
  const int x = plan.Register("x", {source}, {{add}}, 2), o = plan.Register("o", {own}, {{add}}, 1);
  const int y = plan.Register("y", {add}, {{back}}, 2), here = plan.Register("here", {back}, {{sum}}, 1);
  const int z = plan.Register("z", {sum, 2}, {{sink}}, 2);
  plan.Compute(source, "position", {}, {x});
  plan.Compute(own, "position", {}, {o});
  plan.Copy(add, {x, o}, y);
  plan.Copy(back, {y}, here);
  plan.Compute(sum, "accumulate", {here}, {z});
  plan.Fetch(sink, z, "z");
  return plan;
}

// Process 0 runs more steps than process 1, so messages that it waits for are never sent.
TEST(EngineProcessesTest, AMessageThatNeverComesIsFoundWithWhoOwesIt) {
  Job job(2);
  std::string cause;
  std::once_flag once;
  job.on_stall = [&](const pb::ProcessWaits&) {
    std::call_once(once, [&] {
      cause = Diagnose({job.engine(0).Waits(), job.engine(1).Waits()}).cause;
      job.engine(0).Abort(absl::DeadlineExceededError("nothing moves"));
    });
  };
  ASSERT_THAT(job.Load([](int) {
    return ThereAndBack({0, 1}).set();
  }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  const std::vector<absl::Status> ends = job.OnEach([&](int p) { return job.engine(p).Run("p", 0, p == 0 ? 8 : 5); });
  EXPECT_THAT(ends[0], StatusIs(absl::StatusCode::kDeadlineExceeded, "nothing moves"));
  EXPECT_THAT(cause,
              HasSubstr("rank 1 (cpu:1, process 1), queue compute: actor 1 'add' has no acts left for its input"));
}

TEST(EngineProcessesTest, ComputeTheSameAsOne) {
  Job together(1), apart(2);
  EXPECT_THAT(together.Load([](int) { return ThereAndBack({0, 0}).set(); }), ElementsAre(absl::OkStatus()));
  ASSERT_THAT(apart.Load([](int) {
    return ThereAndBack({0, 1}).set();
  }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_OK(together.engine(0).Run("p", 0, 100));
  for (int run = 0; run < 4; ++run) {
    EXPECT_THAT(apart.OnEach([&](int p) { return apart.engine(p).Run("p", 25 * run, 25); }),
                ElementsAre(absl::OkStatus(), absl::OkStatus()));
  }
  for (int64_t step = 0; step < 100; ++step) {
    const double base = 400.0 * static_cast<double>(step) + 20;
    ASSERT_THAT(apart.At("z", step), ElementsAre(base, base + 4, base + 8, base + 12));
    ASSERT_EQ(apart.At("z", step), together.At("z", step));
  }
  EXPECT_EQ(apart.engine(0).stats().bytes_moved + apart.engine(1).stats().bytes_moved,
            together.engine(0).stats().bytes_moved);
}

TEST(EngineProcessesTest, ReportTheRootCauseWhereItHappenedAndAbortElsewhere) {
  TestPlan plan = ThereAndBack({0, 1});
  pb::Attribute* attribute = plan.Compute(2, "fail", {}, {1})->add_attributes();
  attribute->set_name("step");
  attribute->set_i(3);
  Job job(2);
  ASSERT_THAT(job.Load([&](int) { return plan.set(); }), ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT(
      job.OnEach([&](int p) { return job.engine(p).Run("p", 0, 1000); }),
      ElementsAre(StatusIs(absl::StatusCode::kAborted,
                           AllOf(HasSubstr("process 1 failed first: plan 'p' actor 'own'"), HasSubstr("told to fail"))),
                  StatusIs(absl::StatusCode::kInternal, HasSubstr("told to fail"))));
}

// Rank 1 fails in step 2, when rank 0 has already updated its variable in that step.
pb::Program FailsAfterAnUpdate() {
  TestPlan plan({0, 1});
  const int variable = plan.Variable("w", 4, "list(1,2,3,4)", {0});
  plan.set().mutable_variables(variable)->mutable_shards(0)->set_owner(true);
  const int forward = plan.Actor(0, "forward"), update = plan.Actor(0, "update"), next = plan.Actor(1, "next");
  const int sink = plan.Actor(1, "sink");
  const int gradient = plan.Register("gradient", {forward}, {{update}}, 1);
  const int w = plan.Register("w", {update}, {{forward}}, 1, 4, /*initially_filled=*/1);
  plan.plan().mutable_registers(w)->set_offset(plan.set().variables(variable).shards(0).offset());
  plan.plan().mutable_registers(w)->set_slot_stride(0);
  const int updated = plan.Register("updated", {update}, {{next}}, 1);
  const int seen = plan.Register("seen", {next}, {{sink}}, 1);
  plan.Compute(forward, "accumulate", {w}, {gradient});
  plan.Compute(update, "update", {w, gradient}, {});
  plan.Compute(update, "position", {}, {updated});
  plan.Copy(next, {updated}, seen);
  pb::Attribute* attribute = plan.Compute(next, "fail", {}, {seen})->add_attributes();
  attribute->set_name("step");
  attribute->set_i(2);
  plan.Fetch(sink, seen, "seen");
  return plan.set();
}

TEST(EngineProcessesTest, GiveNothingAwayOfAStepThatFailed) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("engine_grpc_test.torn.", getpid());
  Job job(2);
  ASSERT_THAT(job.Load([](int) { return FailsAfterAnUpdate(); }), ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT(job.OnEach([&](int p) { return job.engine(p).Run("p", 0, 2); }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  const auto copy = [&](int p) -> absl::Status {
    OF_ASSIGN_OR_RETURN(const OwnedState owned, job.engine(p).Owned());
    std::vector<char> bytes(owned.num_bytes);
    return job.engine(p).CopyState(bytes.data());
  };
  EXPECT_THAT(job.OnEach(copy), ElementsAre(absl::OkStatus(), absl::OkStatus()));

  const auto told = ElementsAre(StatusIs(absl::StatusCode::kAborted, HasSubstr("process 1 failed first: plan 'p'")),
                                StatusIs(absl::StatusCode::kInternal, HasSubstr("told to fail")));
  EXPECT_THAT(job.OnEach([&](int p) { return job.engine(p).Run("p", 2, 1); }), told);
  EXPECT_THAT(job.OnEach(copy), told);
  EXPECT_THAT(job.OnEach([&](int p) { return job.engine(p).SaveWeights(path.string(), ""); }), told);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
}

TEST(EngineProcessesTest, NoticeALostPeerInTheMiddleOfARun) {
  Job job(2);
  ASSERT_THAT(job.Load([](int) {
    return ThereAndBack({0, 1}).set();
  }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  absl::Status status;
  std::thread runner([&] { status = job.engine(0).Run("p", 0, 1000); });
  job.Kill(1);  // never ran its part
  runner.join();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("process 1"), HasSubstr("connection lost"))));
}

TEST(EngineProcessesTest, RefuseDifferentPlans) {
  Job job(2);
  EXPECT_THAT(job.Load([](int p) {
    TestPlan plan = ThereAndBack({0, 1});
    plan.set().set_seed(p);
    return plan.set();
  }),
              ElementsAre(StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("process 1 has another plan")),
                          StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("process 0 has another plan"))));
}

TEST(EngineProcessesTest, FailToLoadEverywhereIfOneCannot) {
  TestPlan plan = ThereAndBack({0, 1});
  plan.Compute(2, "relu", {1}, {1});  // of process 1
  Job job(2);
  EXPECT_THAT(job.Load([&](int) { return plan.set(); }),
              ElementsAre(StatusIs(absl::StatusCode::kAborted, HasSubstr("no kernel for f32")),
                          StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no kernel for f32"))));
}

TEST(EngineProcessesTest, SaveOneFileAndLoadIt) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("engine_grpc_test.", getpid(), ".safetensors");
  const auto plan = [](const char* init) {
    TestPlan plan = ThereAndBack({0, 1});
    pb::Variable* w = plan.set().mutable_variables(plan.Variable("w", 6, init, {0, 1}));
    for (int r = 0; r < 2; ++r) {
      w->mutable_shards(r)->set_start(0, r == 0 ? 0 : 4);
      w->mutable_shards(r)->set_extent(0, r == 0 ? 4 : 2);
      w->mutable_shards(r)->set_owner(true);
    }
    return plan.set();
  };
  Job saver(2);
  ASSERT_THAT(saver.Load([&](int) { return plan("list(1,2,3,4,5,6)"); }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT(saver.OnEach([&](int p) { return saver.engine(p).SaveWeights(path.string(), ""); }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  {
    ASSERT_OK_AND_ASSIGN(const testing::WeightFile file, testing::ReadWeightFile(path.string()));
    const float* w = file.tensors.at("w").as<float>();
    EXPECT_THAT(std::vector<float>(w, w + 6), ElementsAre(1, 2, 3, 4, 5, 6));
  }
  Job loader(2);
  ASSERT_THAT(loader.Load([&](int) { return plan("zeros"); }), ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT(loader.OnEach([&](int p) { return loader.engine(p).LoadWeights(path.string()); }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  std::filesystem::remove(path);
  EXPECT_THAT(loader.OnEach([&](int p) { return loader.engine(p).SaveWeights(path.string(), ""); }),
              ElementsAre(absl::OkStatus(), absl::OkStatus()));
  {
    ASSERT_OK_AND_ASSIGN(const testing::WeightFile file, testing::ReadWeightFile(path.string()));
    EXPECT_EQ(file.tensors.at("w").as<float>()[5], 6);
  }
  EXPECT_THAT(loader.OnEach([&](int p) { return loader.engine(p).LoadWeights("/no/such/file"); }),
              ElementsAre(::testing::Not(testing::IsOk()), ::testing::Not(testing::IsOk())));
  std::filesystem::remove(path);
}

// The program of process 0: ranks 0 and 1, one in each of two processes, wait for each other, over registers of so many
// floats.
pb::Program PingPong(int elements) {
  TestPlan plan({0, 1});
  const int ping = plan.Actor(0, "ping"), pong = plan.Actor(1, "pong");
  plan.Register("there", {ping}, {{pong}}, 1, elements);
  plan.Register("back", {pong}, {{ping}}, 1, elements, /*initially_filled=*/1);
  pb::Program program = plan.set();
  program.set_process(0);
  program.set_plan_hash("of the whole");
  for (int i : {0, 1}) {
    program.mutable_plans(0)->mutable_actors(i)->set_id(i);
    program.mutable_plans(0)->mutable_registers(i)->set_id(i);
  }
  return program;
}

// Process 1 of PingPong(), played by hand; on another host, unless it introduces itself with a file that is here.
class Elsewhere : public PeerNetwork::Listener {
 public:
  explicit Elsewhere(PeerNetwork& network) : network_(network) { network_.SetListener(this); }
  ~Elsewhere() override { network_.SetListener(nullptr); }

  absl::Status Introduce(const pb::PeerMail& mail) {
    pb::PeerPlan mine;
    mine.set_hash("of the whole");
    *mine.mutable_mail() = mail;
    return network_.Exchange(mine).status();
  }
  absl::Status Introduce(bool has_memory) {
    pb::PeerPlan mine;
    mine.set_hash("of the whole");
    pb::PeerMail& mail = *mine.mutable_mail();
    mail.set_pid(getpid());
    mail.set_fd(1);
    mail.set_size(4096);
    mail.set_token("sixteen bytes ..");
    if (has_memory) {
      pb::SharedZone& zone = *mine.add_zones();
      zone.set_rank(1);
      zone.set_zone(kSharedZone);
      zone.set_pid(getpid());
      zone.set_fd(1);
      zone.set_size(64);
    }
    return network_.Exchange(mine).status();
  }

  void OnMessages(int, absl::Span<const Message> messages) override {
    for (const Message& message : messages) {
      if (message.kind == Message::Kind::kFreed) continue;
      ++filled;
      Answer(message.number);
    }
  }
  // Frees what was filled and fills the other, of which one filling is there at first, over the network.
  void Answer(uint8_t number) {
    const auto next = static_cast<uint8_t>(number + 1);
    const Message answers[] = {{.kind = Message::Kind::kFreed, .number = number, .actor = 0, .register_id = 0},
                               {.kind = Message::Kind::kFilled, .number = next, .actor = 0, .register_id = 1}};
    network_.Send(0, answers);
  }
  void OnPeerError(int, absl::Status) override {}
  void OnPeerLost(int, absl::Status) override {}

  std::atomic<int> filled{0};

 private:
  PeerNetwork& network_;
};

TEST(EngineProcessesTest, TalkOverTheNetworkToAnotherHost) {
  Job job(2);
  Elsewhere elsewhere(job.network(1));
  const std::vector<absl::Status> statuses = job.OnEach([&](int p) -> absl::Status {
    if (p == 0) {
      OF_RETURN_IF_ERROR(job.LoadOne(0, PingPong(0)));
      return job.engine(0).Run("p", 0, 100);
    }
    OF_RETURN_IF_ERROR(elsewhere.Introduce(/*has_memory=*/false));
    for (int barrier = 0; barrier < 3; ++barrier) OF_RETURN_IF_ERROR(job.network(1).Barrier());
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(elsewhere.filled.load(), 100);
}

// Process 1 of PingPong() is played by hand here too, but on this host: it reads its mail in its own file.
TEST(EngineProcessesTest, TalkThroughMemoryWithinAHost) {
  constexpr int kSteps = 100;
  const pb::Program program = PingPong(0);
  std::vector<int> thread_of(2 * kNumQueues, -1);
  thread_of[AddressOf(1, kComputeQueue)] = 0;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MailFile> file,
                       MailFile::Create(program, 1, /*num_threads=*/1, thread_of));
  Job job(2);
  Elsewhere on_network(job.network(1));
  std::atomic<bool> is_over = false;
  int filled = 0, freed = 0;
  const std::vector<absl::Status> statuses = job.OnEach([&](int p) -> absl::Status {
    if (p == 0) {
      OF_RETURN_IF_ERROR(job.LoadOne(0, program));
      const absl::Status status = job.engine(0).Run("p", 0, kSteps);
      is_over = true;
      return status;
    }
    OF_RETURN_IF_ERROR(on_network.Introduce(file->announcement()));
    for (int barrier = 0; barrier < 2; ++barrier) OF_RETURN_IF_ERROR(job.network(1).Barrier());
    std::vector<std::pair<int, RingReader>> readers = file->ReadersOf(0);
    RingReader& reader = readers.at(0).second;
    // As an actor does, it waits for its slot to be free again before it fills it.
    for (int answered = 0; answered < kSteps && !is_over; std::this_thread::yield()) {
      OF_RETURN_IF_ERROR(reader.TakeAll(
          [&](const Message& message, int64_t) { ++(message.kind == Message::Kind::kFilled ? filled : freed); }));
      if (std::min(filled, freed) == answered) continue;
      on_network.Answer(static_cast<uint8_t>(answered));
      ++answered;
    }
    return job.network(1).Barrier();
  });
  EXPECT_THAT(statuses, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(filled, kSteps);
  EXPECT_EQ(on_network.filled.load(), 0) << "nothing came over the network";
}

// Ranks on two hosts, of which the first sends so many floats for each slot of the second's landing, which has four.
pb::Program Sending(int process, int elements) {
  TestPlan plan({0, 1});
  plan.set().mutable_ranks(1)->set_host(1);
  MutableZone(*plan.set().mutable_ranks(1), kPrivateZone).set_bytes(64);
  const int source = plan.Actor(0, "source"), sink = plan.Actor(1, "sink");
  const int x = plan.Register("x", {source}, {{sink}}, 1);
  plan.Compute(source, "position", {}, {x});
  pb::Program program = plan.set();
  pb::Shipment& shipment = *program.mutable_plans(0)->mutable_registers(x)->add_shipments();
  shipment.set_consumer(sink);
  shipment.add_parcels()->add_extent(elements);
  shipment.mutable_parcels(0)->add_stride(1);
  pb::Landing& landing = *program.mutable_plans(0)->mutable_actors(sink)->add_landings();
  landing.set_register_(x);
  landing.set_slot_bytes(16);
  landing.set_slot_stride(64);
  // Each process has its own half.
  if (process == 0) program.mutable_plans(0)->mutable_actors(sink)->clear_landings();
  if (process == 1) program.mutable_plans(0)->mutable_registers(x)->clear_shipments();
  if (process == 1) program.mutable_plans(0)->mutable_actors(source)->clear_instructions();
  program.set_process(process);
  program.set_plan_hash("of the whole");
  for (int i : {0, 1}) program.mutable_plans(0)->mutable_actors(i)->set_id(i);
  return program;
}

// Also if it has come before the receiver began the run.
TEST(EngineProcessesTest, RefuseWhatIsOfAnotherSizeThanItsPlaceOnAnotherHost) {
  for (const auto& [elements, late] : {std::pair(4, false), {2, false}, {2, true}}) {
    Job job(2);
    ASSERT_THAT(job.Load([&](int p) { return Sending(p, elements); }), ElementsAre(absl::OkStatus(), absl::OkStatus()));
    const std::vector<absl::Status> ends = job.OnEach([&, late = late](int p) {
      if (late && p == 1) absl::SleepFor(absl::Milliseconds(200));
      return job.engine(p).Run("p", 0, 3);
    });
    if (elements == 4) {
      EXPECT_THAT(ends, ElementsAre(absl::OkStatus(), absl::OkStatus()));
      continue;
    }
    EXPECT_THAT(ends[1], StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("rank 1 (cpu:1): plan 'p' actor 'sink': 8 bytes have come for slot 0 of "
                                            "register 'x', where there is room for 16")));
    EXPECT_THAT(ends[0], StatusIs(absl::StatusCode::kAborted, HasSubstr("8 bytes have come for slot 0")));
  }
}

TEST(EngineProcessesTest, ReadNothingOfAnotherHost) {
  Job job(2);
  Elsewhere elsewhere(job.network(1));
  const std::vector<absl::Status> statuses = job.OnEach(
      [&](int p) { return p == 0 ? job.LoadOne(0, PingPong(4)) : elsewhere.Introduce(/*has_memory=*/true); });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("process 1 shares no memory with process 0"),
                                          HasSubstr("are they on one host?"))));
}

}  // namespace
}  // namespace oneflow
