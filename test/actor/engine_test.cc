#include "actor/engine.h"

#include <map>
#include <mutex>
#include <thread>

#include "actor/diagnosis.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"
#include "test/actor/test_device.h"
#include "test/actor/test_plan.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// What arrived, by name and step.
class Fetches {
 public:
  void Add(Fetched fetched) {
    std::lock_guard<std::mutex> lock(mu_);
    values_[{fetched.name, fetched.step}] = std::move(fetched.values);
  }
  std::vector<double> At(const std::string& name, int64_t step) {
    std::lock_guard<std::mutex> lock(mu_);
    return values_[{name, step}];
  }
  size_t size() {
    std::lock_guard<std::mutex> lock(mu_);
    return values_.size();
  }

 private:
  std::mutex mu_;
  std::map<std::pair<std::string, int64_t>, std::vector<double>> values_;
};

EngineOptions Options(Fetches& fetches) {
  EngineOptions options;
  options.on_fetch = [&fetches](Fetched fetched) { fetches.Add(std::move(fetched)); };
  options.ops = &testing::TestOps();
  options.open_device = TestDevice::Open;
  return options;
}

// A source on the first rank, an accumulation over micro-batches passed on by copies round all ranks, a fetch on the
// last.
TestPlan Ring(int ranks, int micro_batches) {
  TestPlan plan(std::vector<int>(ranks, 0), micro_batches);
  const int source = plan.Actor(0, "source", micro_batches), sum = plan.Actor(0, "sum", micro_batches);
  std::vector<int> copies;
  for (int r = 1; r < ranks; ++r) copies.push_back(plan.Actor(r, absl::StrCat("copy", r)));
  const int sink = plan.Actor(ranks - 1, "sink");
  const int x = plan.Register("x", {source}, {{sum}}, 2);
  int last = plan.Register("total", {sum, micro_batches}, {{copies.empty() ? sink : copies[0]}}, 2);
  plan.Compute(source, "position", {}, {x});
  plan.Compute(sum, "accumulate", {x}, {last});
  for (size_t i = 0; i < copies.size(); ++i) {
    const int next =
        plan.Register(absl::StrCat("c", i), {copies[i]}, {{i + 1 < copies.size() ? copies[i + 1] : sink}}, 1);
    plan.Copy(copies[i], {last}, next);
    last = next;
  }
  plan.Fetch(sink, last, "total");
  return plan;
}

TEST(EngineTest, RunsStepsOverThreadsOfOneProcess) {
  for (const int ranks : {1, 2, 4}) {
    TestPlan plan = Ring(ranks, 3);
    Fetches fetches;
    ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
    ASSERT_OK(engine->Run("p", 0, 2));
    ASSERT_OK(engine->Run("p", 7, 200));
    EXPECT_EQ(fetches.size(), 202u);
    for (const int64_t step : {0, 1, 7, 100, 206}) {
      // 3 micro-batches of 100 * step + i, and 0 + 10 + 20 on top
      const double base = 300.0 * static_cast<double>(step) + 30;
      EXPECT_THAT(fetches.At("total", step), ElementsAre(base, base + 3, base + 6, base + 9)) << ranks << " ranks";
    }
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.acts, 202 * (6 + ranks));
    EXPECT_EQ(stats.bytes_moved, 202 * 16 * (ranks - 1));
    EXPECT_GT(stats.kernel_seconds, 0);
    EXPECT_GT(stats.wall_seconds, 0);
  }
}

// Beside Ring(): a source on the first rank, copied to the second and fetched there as "other".
TestPlan RingAndOneBeside() {
  TestPlan plan = Ring(2, 1);
  plan.AddPlan("beside", 1);
  plan.plan().set_beside(true);
  const int source = plan.Actor(0, "source"), copy = plan.Actor(1, "copy"), sink = plan.Actor(1, "sink");
  const int x = plan.Register("x", {source}, {{copy}}, 1), y = plan.Register("y", {copy}, {{sink}}, 1);
  plan.Compute(source, "position", {}, {x});
  plan.Copy(copy, {x}, y);
  plan.Fetch(sink, y, "other");
  for (pb::Actor& actor : *plan.plan().mutable_actors()) actor.set_queue(kBesideQueue);
  return plan;
}

TEST(EngineTest, APlanRunsBesideOthers) {
  TestPlan plan = RingAndOneBeside();
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  ASSERT_OK(engine->WaitBeside()) << "nothing runs";
  for (int64_t round = 0; round < 20; ++round) {
    ASSERT_OK(engine->RunBeside("beside", 10 * round, 10));
    for (int i = 0; i < 3; ++i) ASSERT_OK(engine->Run("p", 30 * round + 10 * i, 10));
    ASSERT_OK(engine->WaitBeside());
    ASSERT_OK(engine->WaitBeside()) << "again";
    EXPECT_EQ(fetches.size(), static_cast<size_t>(40 * (round + 1)));
  }
  EXPECT_THAT(fetches.At("other", 199), ElementsAre(19900, 19901, 19902, 19903));
  ASSERT_OK(engine->Run("beside", 500, 2)) << "also alone";
  EXPECT_THAT(fetches.At("other", 501), ElementsAre(50100, 50101, 50102, 50103));
  ASSERT_OK(engine->RunBeside("p", 900, 2)) << "a plan that is none is run to its end";
  EXPECT_EQ(fetches.At("total", 901).size(), 4u);
}

TEST(EngineTest, AnErrorBesideEndsEverything) {
  TestPlan plan = RingAndOneBeside();
  pb::Instruction& copy = *plan.plan().mutable_actors(1)->mutable_instructions(0);
  copy.set_kind(pb::Instruction::COMPUTE);
  copy.set_op("fail");
  copy.clear_pieces();
  copy.clear_inputs();
  pb::Attribute* const shape = copy.add_attributes();
  shape->set_name("shape");
  *shape->mutable_ints()->mutable_values() = copy.outputs(0).logical_dims();
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  ASSERT_OK(engine->RunBeside("beside", 0, 1));
  const absl::Status status = engine->WaitBeside();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(engine->Run("p", 0, 1), status) << "the first error";
}

TEST(EngineTest, APlanBesideIsOnItsOwnQueue) {
  for (const bool beside : {false, true}) {
    TestPlan plan = RingAndOneBeside();
    if (beside) {
      plan.plan().mutable_actors(0)->set_queue(kComputeQueue);
    } else {
      plan.plan().set_beside(false);
    }
    Fetches fetches;
    EXPECT_THAT(Engine::Create(plan.set(), Options(fetches)).status(),
                testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("beside others")));
  }
}

TEST(EngineTest, TimesEveryOpOnlyIfAskedTo) {
  for (const bool profile : {false, true}) {
    TestPlan plan = Ring(3, 2);
    Fetches fetches;
    EngineOptions options = Options(fetches);
    options.profile = profile;
    ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), std::move(options)));
    ASSERT_OK(engine->Run("p", 0, 5));
    std::map<std::string, int64_t> calls;
    double seconds = 0;
    const EngineStats stats = engine->stats();
    for (const OpTime& time : stats.ops) {
      calls[time.op] = time.calls;
      seconds += time.seconds;
    }
    EXPECT_LE(seconds, stats.kernel_seconds);
    if (!profile) {
      EXPECT_THAT(stats.ops, IsEmpty());
      continue;
    }
    EXPECT_GT(seconds, 0);
    EXPECT_THAT(calls, ElementsAre(Pair("accumulate", 10), Pair("copy", 10), Pair("fetch", 5), Pair("position", 10)));
  }
}

TEST(EngineTest, UpdatesAVariableOncePerStepAndSharesItBetweenPlans) {
  TestPlan plan({0}, 2);
  const int variable = plan.Variable("w", 4, "list(1,2,3,4)", {0});
  const int forward = plan.Actor(0, "forward", 2), update = plan.Actor(0, "update"), sink = plan.Actor(0, "sink", 2);
  const int gradient = plan.Register("gradient", {forward, 2}, {{update}}, 1);
  const int seen = plan.Register("seen", {forward}, {{sink}}, 1);
  const int w = plan.Register("w", {update}, {{forward, 2}}, 1, 4, /*initially_filled=*/1);
  const auto put_on_variable = [&](int id) {
    plan.plan().mutable_registers(id)->set_offset(plan.set().variables(variable).shards(0).offset());
    plan.plan().mutable_registers(id)->set_slot_stride(0);
  };
  put_on_variable(w);
  plan.Compute(forward, "sum", {w}, {seen});
  plan.Compute(forward, "accumulate", {w}, {gradient});
  plan.Compute(update, "update", {w, gradient}, {});
  plan.Fetch(sink, seen, "w");
  plan.AddPlan("look", 1);
  const int show = plan.Actor(0, "show"), look = plan.Actor(0, "look");
  const int same = plan.Register("same", {show}, {{look}}, 2);
  put_on_variable(same);
  plan.Fetch(look, same, "look");

  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  ASSERT_OK(engine->Run("p", 0, 1));
  EXPECT_THAT(fetches.At("w", 0), ElementsAre(1, 2, 3, 4));
  ASSERT_OK(engine->Run("look", 0, 1));
  EXPECT_THAT(fetches.At("look", 0), ElementsAre(3, 6, 9, 12));  // w + 2 micro-batches of w
  ASSERT_OK(engine->Run("p", 1, 2));
  EXPECT_THAT(fetches.At("w", 2), ElementsAre(9, 18, 27, 36));
}

TEST(EngineTest, CombinesPiecesAndFillsTheRestWithZeros) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b"), copy = plan.Actor(0, "copy"), sink = plan.Actor(0, "sink");
  const int x = plan.Register("x", {a}, {{copy}}, 1), y = plan.Register("y", {b}, {{copy}}, 1);
  const int z = plan.Register("z", {copy}, {{sink}}, 1, 6);
  plan.Compute(a, "position", {}, {x});
  plan.Compute(b, "position", {}, {y});
  pb::Instruction* instruction = plan.Copy(copy, {x, y}, z);
  instruction->set_zero_fill(true);
  instruction->mutable_pieces(1)->set_extent(0, 2);  // y[1..2] is added to z[3..4], of which x covers z[3]
  instruction->mutable_pieces(1)->set_source_offset(1);
  instruction->mutable_pieces(1)->set_target_offset(3);
  plan.Fetch(sink, z, "z");
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  ASSERT_OK(engine->Run("p", 0, 1));
  EXPECT_THAT(fetches.At("z", 0), ElementsAre(0, 1, 2, 4, 2, 0));
  EXPECT_EQ(engine->stats().bytes_moved, 8);  // the piece of y; x is of the same rank
}

TEST(EngineTest, ReportsTheRootCauseAndStopsAllRanks) {
  TestPlan plan = Ring(3, 1);
  const int copy = 3;  // "copy2" on rank 2
  pb::Attribute* attribute =
      plan.Compute(copy, "fail", {}, {plan.plan().actors(copy).outputs(0).register_()})->add_attributes();
  attribute->set_name("step");
  attribute->set_i(2);
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  EXPECT_THAT(
      engine->Run("p", 0, 1000),
      StatusIs(absl::StatusCode::kInternal,
               "plan 'p' actor 'copy2' node 'n/fail' (fail, model.cc:1) on rank 2 (cpu:2): this kernel was told "
               "to fail"));
  EXPECT_THAT(engine->Run("p", 0, 1), StatusIs(absl::StatusCode::kInternal, HasSubstr("told to fail")));
  EXPECT_LE(fetches.size(), 2u);
}

TEST(EngineTest, CanBeAbortedFromAnotherThreadWhileItWaits) {
  TestPlan plan({0, 0});
  const int a = plan.Actor(0, "a"), b = plan.Actor(1, "b");  // each waits for the other
  plan.Register("ab", {a}, {{b}}, 1);
  plan.Register("ba", {b}, {{a}}, 1);
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  std::thread other([&] {
    std::string cause;
    while (cause.find("a cycle of 2 waits") == std::string::npos) cause = Diagnose({engine->Waits()}).cause;
    EXPECT_THAT(cause, HasSubstr("actor 0 'a' on rank 0 waits for register 1 'ba' slot 0 to be filled by actor 1 'b'"));
    EXPECT_THAT(cause, HasSubstr("actor 1 'b' on rank 1 waits for register 0 'ab' slot 0 to be filled by actor 0 'a'"));
    engine->Abort(absl::CancelledError("had enough"));
  });
  EXPECT_THAT(engine->Run("p", 0, 1), StatusIs(absl::StatusCode::kCancelled, "had enough"));
  other.join();
}

TEST(EngineTest, RefusesAtLoadWhatItCannotRun) {
  Fetches fetches;
  const auto create = [&](const std::function<void(TestPlan&, int, int)>& change) {
    TestPlan plan({0});
    const int a = plan.Actor(0, "a");
    change(plan, a, plan.Register("r", {a}, {}, 1));
    return Engine::Create(plan.set(), Options(fetches)).status();
  };
  EXPECT_THAT(create([](TestPlan& p, int a, int r) { p.Compute(a, "relu", {r}, {r}); }),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "plan 'p' actor 'a' node 'n/relu' (relu, model.cc:1) on rank 0 (cpu:0): no kernel for f32"));
  EXPECT_THAT(create([](TestPlan& p, int a, int r) {
                pb::Instruction* accumulate = p.Compute(a, "accumulate", {r}, {p.Register("sum", {a}, {}, 1)});
                accumulate->mutable_inputs(0)->set_dtype(pb::I32);
                accumulate->mutable_outputs(0)->set_dtype(pb::I32);
              }),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no kernel for i32; there is one for f32")));
  EXPECT_THAT(create([](TestPlan& p, int a, int r) { p.Compute(a, "refuse", {}, {r}); }),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("does not support these shapes")));
  EXPECT_THAT(create([](TestPlan& p, int a, int r) {
                p.set().add_communicators()->add_ranks(0);
                p.plan().add_orders()->add_actors(a);
                p.plan().mutable_orders(0)->set_queue(kCommunicationQueue);
                p.Instruct(a, pb::Instruction::COLLECTIVE, "boxing", {r}, {r})->set_collective("all-reduce");
              }),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("there are no collectives")));
  EXPECT_THAT(create([](TestPlan& p, int a, int r) { p.Instruct(a, pb::Instruction::READ, "read_data", {}, {r}); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("read_data")));
  EXPECT_THAT(create([](TestPlan& p, int, int) { p.set().set_version(kRuntimeProgramVersion + 1); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version")));
}

namespace refused {

const auto axis = [](pb::Instruction* instruction, int64_t value) {
  pb::Attribute* attribute = instruction->add_attributes();
  attribute->set_name("axis");
  attribute->set_i(value);
};
const struct {
  const char* op;
  const char* error;
  std::vector<int> inputs, outputs;
  std::function<void(pb::Instruction*)> change;
} kCases[] = {
    {"softmin", "no op 'softmin'", {0}, {0}, [](auto*) {}},
    {"add", "takes 2 inputs (a, b) but is given 1", {0}, {0}, [](auto*) {}},
    {"add", "takes 2 inputs (a, b) but is given 3", {0, 0, 0}, {0}, [](auto*) {}},
    {"relu", "it has 2 outputs but the op gives 1", {0}, {0, 0}, [](auto*) {}},
    {"relu",
     "output 0 is f32[3] but the op gives f32[4]",
     {0},
     {0},
     [](pb::Instruction* x) {
       x->mutable_outputs(0)->set_dims(0, 3);
       x->mutable_outputs(0)->set_logical_dims(0, 3);
     }},
    {"relu",
     "its shards: output 0 is f32[4] but the op gives f32[3]",
     {0},
     {0},
     [](pb::Instruction* x) { x->mutable_inputs(0)->set_dims(0, 3); }},
    {"relu",
     "x is i32[4] but must be floating",
     {0},
     {0},
     [](pb::Instruction* x) {
       x->mutable_inputs(0)->set_dtype(pb::I32);
       x->mutable_outputs(0)->set_dtype(pb::I32);
     }},
    {"relu",
     "output 0 is i32[4] but the op gives f32[4]",
     {0},
     {0},
     [](pb::Instruction* x) { x->mutable_outputs(0)->set_dtype(pb::I32); }},
    {"concat", "attribute 'axis' is 1 but must be in [0, 0]", {0}, {0}, [](pb::Instruction* x) { axis(x, 1); }},
    {"concat", "attribute 'axis' is -1 but must be in [0, 0]", {0}, {0}, [](pb::Instruction* x) { axis(x, -1); }},
    {"concat", "attribute 'axis' is missing", {0}, {0}, [](auto*) {}},
    {"reshape",
     "x is f32[4] and has 4 elements, shape [2,3] has 6",
     {0},
     {0},
     [](pb::Instruction* x) {
       pb::Ints& sizes = *x->mutable_attributes(0)->mutable_ints();
       sizes.set_values(0, 2);
       sizes.add_values(3);
     }},
};

}  // namespace refused

// Of register r, vectors of four.
TEST(EngineTest, RefusesAtLoadWhatAnOpDoesNotTake) {
  for (const auto& c : refused::kCases) {
    TestPlan plan({0});
    const int a = plan.Actor(0, "a");
    plan.Register("r", {a}, {}, 1);
    c.change(plan.Compute(a, c.op, c.inputs, c.outputs));
    for (const bool has_kernels : {true, false}) {  // what is wrong is so on every device
      EngineOptions options;
      if (!has_kernels) options.open_device = TestDevice::Open;
      EXPECT_THAT(
          Engine::Create(plan.set(), std::move(options)).status(),
          StatusIs(absl::StatusCode::kInvalidArgument, absl::StrCat("plan 'p' actor 'a' node 'n/", c.op, "' (", c.op,
                                                                    ", model.cc:1) on rank 0 (cpu:0): ", c.error)))
          << c.op;
    }
  }
}

TEST(EngineTest, RefusesAtLoadWhatASourceDoesNotFill) {
  const auto status = [](const std::function<void(pb::Instruction&)>& change) {
    TestPlan plan({0});
    const int a = plan.Actor(0, "a");
    const int x = plan.Register("x", {a}, {}, 1, 2 * 3 * 3), y = plan.Register("y", {a}, {}, 1, 2);
    pb::Instruction& read = *plan.Instruct(a, pb::Instruction::READ, "read_data", {}, {x, y});
    const auto set = [&](const char* name) {
      pb::Attribute* attribute = read.add_attributes();
      attribute->set_name(name);
      return attribute;
    };
    set("dataset")->set_s("prototypes");
    set("split")->set_s("train");
    for (const auto& [name, value] :
         {std::pair("batch", 2), {"channels", 1}, {"height", 3}, {"width", 3}, {"samples", 10}, {"classes", 2}}) {
      set(name)->set_i(value);
    }
    for (auto* sizes : {read.mutable_outputs(0)->mutable_dims(), read.mutable_outputs(0)->mutable_logical_dims()}) {
      sizes->Clear();
      for (const int64_t size : {2, 1, 3, 3}) sizes->Add(size);
    }
    for (int i = 0; i < 3; ++i) read.mutable_outputs(0)->add_start(0);
    read.mutable_outputs(1)->set_dtype(pb::I32);
    change(read);
    return Engine::Create(plan.set(), {}).status();
  };
  EXPECT_OK(status([](pb::Instruction&) {}));
  EXPECT_THAT(status([](pb::Instruction& read) { read.mutable_outputs()->RemoveLast(); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it has 1 outputs but the op gives 2")));
  EXPECT_THAT(status([](pb::Instruction& read) { read.mutable_outputs(1)->set_dims(0, 1); }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its shards: output 1 is i32[1] but the op gives i32[2]")));
  EXPECT_THAT(status([](pb::Instruction& read) { read.mutable_outputs(0)->set_dims(3, 2); }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its shards: output 0 is f32[2,1,3,2] but the op gives f32[2,1,3,3]")));
}

// A program of standard ops on two cpu devices: made, summed over micro-batches, copied, put into a variable, fetched.
pb::Program OfStandardOps() {
  TestPlan plan({0, 0}, 2);
  const int variable = plan.Variable("v", 4, "list(1,2,3,4)", {1});
  const int make = plan.Actor(0, "make", 2), sum = plan.Actor(0, "sum", 2), copy = plan.Actor(1, "copy");
  const int update = plan.Actor(1, "update"), sink = plan.Actor(1, "sink");
  const int x = plan.Register("x", {make}, {{sum}}, 2), y = plan.Register("y", {make}, {}, 1);
  const int total = plan.Register("total", {sum, 2}, {{copy}}, 2), here = plan.Register("here", {copy}, {{update}}, 1);
  const int v = plan.Register("v", {update}, {{sink}}, 1, 4, /*initially_filled=*/1);
  plan.plan().mutable_registers(v)->set_offset(plan.set().variables(variable).shards(0).offset());
  plan.plan().mutable_registers(v)->set_slot_stride(0);
  const auto set = [](pb::Instruction* instruction, const std::string& name) {
    pb::Attribute* attribute = instruction->add_attributes();
    attribute->set_name(name);
    return attribute;
  };
  pb::Instruction* constant = plan.Compute(make, "constant", {}, {y});
  set(constant, "dtype")->set_s("f32");
  set(constant, "value")->set_f(1.5);
  set(plan.Compute(make, "concat", {y}, {x}), "axis")->set_i(0);
  plan.Compute(sum, "accumulate", {x}, {total});
  plan.Copy(copy, {total}, here);
  set(plan.Compute(update, "ema_update", {v, here}, {}), "decay")->set_f(0.5);
  plan.Fetch(sink, v, "v");
  return plan.set();
}

// The check of programs and the binding of instructions together leave nothing to chance: an engine comes to be or does
// not. (Address sanitizer looks on.)
TEST(EngineTest, SurvivesAnyBytesThatParse) {
  google::protobuf::LogSilencer silencer;  // names that are no UTF-8 any more
  Fetches fetches;
  {
    ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(OfStandardOps(), {.on_fetch = Options(fetches).on_fetch}));
    ASSERT_OK(engine->Run("p", 0, 2));
    EXPECT_THAT(fetches.At("v", 0), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(fetches.At("v", 1), ElementsAre(2, 2.5, 3, 3.5));  // halfway from there to twice 1.5
  }
  const std::string good = OfStandardOps().SerializeAsString();
  std::map<absl::StatusCode, int> seen;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const unsigned char bits : {0x01, 0x7F, 0x80}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bits);
      pb::Program program;
      if (!program.ParseFromString(bad)) continue;
      const bool is_small = std::all_of(program.ranks().begin(), program.ranks().end(), [](const pb::Rank& rank) {
        return BytesOfZone(rank, kPrivateZone) < (1 << 20) && BytesOfZone(rank, kSharedZone) < (1 << 20);
      });
      if (is_small) ++seen[Engine::Create(std::move(program), {}).status().code()];
    }
  }
  EXPECT_GT(seen[absl::StatusCode::kOk], 100);
  EXPECT_GT(seen[absl::StatusCode::kInvalidArgument], 100);
}

TEST(EngineTest, RefusesRunsThatCannotBe) {
  TestPlan plan = Ring(1, 2);
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  EXPECT_THAT(engine->Run("q", 0, 1), StatusIs(absl::StatusCode::kInvalidArgument, "there is no plan 'q'"));
  EXPECT_THAT(engine->Run("p", -1, 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from step -1")));
  EXPECT_THAT(engine->Run("p", 0, INT64_MAX), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be run")));
  EXPECT_OK(engine->Run("p", 0, 0));
  EXPECT_EQ(fetches.size(), 0u);
}

TEST(EngineTest, GivesKernelsTheScratchMemoryTheyAskFor) {
  TestPlan plan({0});
  const int a = plan.Actor(0, "a"), sink = plan.Actor(0, "sink");
  const int r = plan.Register("r", {a}, {{sink}}, 1, 3);
  plan.Compute(a, "scratch", {}, {r});
  plan.Fetch(sink, r, "r");
  Fetches fetches;
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), Options(fetches)));
  ASSERT_OK(engine->Run("p", 0, 1));
  EXPECT_THAT(fetches.At("r", 0), ElementsAre(5, 0, 0));
  EXPECT_EQ(engine->stats().scratch_bytes, 3000);
}

TEST(EngineTest, RunsOnADeviceThatTheHostCannotAddress) {
  TestPlan plan({0, 0});
  plan.Variable("w", 4, "ones", {0, 1});
  const int a = plan.Actor(0, "a"), b = plan.Actor(0, "b"), sink = plan.Actor(0, "sink");
  const int x = plan.Register("x", {a}, {{b}}, 2), y = plan.Register("y", {b}, {{sink}}, 1);
  plan.Compute(a, "position", {}, {x});
  plan.Compute(b, "sum", {x}, {y});
  plan.Fetch(sink, y, "y");
  Fetches fetches;
  EngineOptions options = Options(fetches);
  options.open_device = [](const Device&, int) -> absl::StatusOr<std::unique_ptr<DeviceContext>> {
    return std::make_unique<TestDevice>(/*has_stream=*/true);
  };
  ASSERT_OK_AND_ASSIGN(auto engine, Engine::Create(plan.set(), std::move(options)));
  ASSERT_OK(engine->Run("p", 0, 50));
  EXPECT_THAT(fetches.At("y", 49), ElementsAre(4900, 4901, 4902, 4903));
}

}  // namespace
}  // namespace oneflow
