#include "compiler/lower/plan_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/lower/compile.h"
#include "compiler/lower/library_memory.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/program.h"
#include "gmock/gmock.h"
#include "oneflow_core/library_memory.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "sbp/device_kinds.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

struct GptLayout {
  int pp, dp, tp, micro_batches, ranks_per_process;
};

CompileOptions OptionsOfGpt(const GptLayout& x) {
  CompileOptions options;
  options.job = "gpt";
  options.mesh = *Mesh::Create({{"pp", x.pp}, {"dp", x.dp}, {"tp", x.tp}});
  options.micro_batches = x.micro_batches;
  options.ranks_per_process = x.ranks_per_process;
  options.optimizer.clip_norm = 1;
  return options;
}

absl::StatusOr<pb::PlanSet> Plan(const CompileOptions& options) {
  static const OpRegistry* const kOps = new OpRegistry(StandardOps());
  const GptConfig config{.vocabulary = 256, .layers = 4, .width = 128, .heads = 4, .context = 128};
  OF_ASSIGN_OR_RETURN(const Program program, GptProgram(config, {"text"}, {32, 32}, Continuation{"x", 0}, *kOps));
  return Compile(program, options, *kOps);
}

TEST(PlanMemoryTest, TrainingTakesLittleMoreThanWhatIsInUseAtOnce) {
  for (const GptLayout& x : {GptLayout{1, 1, 1, 1, 1},
                             {1, 1, 1, 4, 1},
                             {1, 4, 1, 1, 1},
                             {1, 1, 4, 1, 1},
                             {1, 2, 2, 1, 2},
                             {1, 2, 2, 4, 2},
                             {2, 1, 2, 1, 4},
                             {4, 1, 1, 8, 1},
                             {2, 2, 1, 4, 1}}) {
    SCOPED_TRACE(absl::StrCat("pp", x.pp, " dp", x.dp, " tp", x.tp, " micro-batches ", x.micro_batches));
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(OptionsOfGpt(x)));
    for (const pb::ClassMemory& memory : set.plans(0).memory()) {
      EXPECT_GT(memory.zones(kPrivateZone).bound(), 0);
      const int64_t bound = memory.zones(kPrivateZone).bound() + memory.zones(kSharedZone).bound();
      EXPECT_LE(BytesOfZones(memory), (x.pp == 1 ? 1.005 : 1.025) * bound);
    }
  }
}

// Of a quarter of the tokens a device needs little more than a quarter, in whichever way it attends to the others.
TEST(PlanMemoryTest, LongSamplesDividedByFourTakeAQuarterOfTheMemory) {
  const OpRegistry ops = StandardOps();
  const GptConfig config{.vocabulary = 256, .layers = 4, .width = 256, .heads = 8, .context = 32768};
  ASSERT_OK_AND_ASSIGN(const Program program, GptProgram(config, {"text"}, {1, 1}, Continuation{"x", 0}, ops));
  const auto activations = [&](int devices, RingUse rings) -> absl::StatusOr<double> {
    CompileOptions options;
    options.mesh = *Mesh::Create({{"cp", devices}});
    options.rings = rings;
    OF_ASSIGN_OR_RETURN(const pb::PlanSet set, Compile(program, options, ops));
    return static_cast<double>(MemoryAtPeak(set, 0)["activations"]);
  };
  ASSERT_OK_AND_ASSIGN(const double whole, activations(1, RingUse::kByCost));
  for (const RingUse rings : {RingUse::kWherePossible, RingUse::kNever}) {
    ASSERT_OK_AND_ASSIGN(const double part, activations(4, rings));
    EXPECT_LE(part, 0.27 * whole) << static_cast<int>(rings);
  }
}

// The bound in a plan is of the lifetimes that the compiler found; here it is counted what shares memory at all.
TEST(PlanMemoryTest, RegistersThatAreReadOneAfterTheOtherShareMemory) {
  for (const auto& [x, part] : {std::pair(GptLayout{1, 4, 1, 1, 1}, 0.8), {{1, 1, 4, 1, 1}, 0.6}}) {
    SCOPED_TRACE(absl::StrCat("dp", x.dp, " tp", x.tp));
    ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(OptionsOfGpt(x)));
    const pb::Program program = testing::SpelledOut(set);
    const pb::Plan& plan = program.plans(0);
    struct Run {
      int64_t begin, end;
    };
    std::map<std::pair<int, int>, std::vector<Run>> runs;  // by rank and zone
    int64_t sum = 0, extent = 0;
    for (const pb::Register& reg : plan.registers()) {
      const int64_t bytes = reg.slot_stride() * reg.slots();
      if (bytes == 0 || reg.initially_filled() > 0) continue;
      runs[{plan.actors(reg.producer()).rank(), reg.zone()}].push_back({reg.offset(), reg.offset() + bytes});
    }
    for (auto& [place, of] : runs) {
      std::sort(of.begin(), of.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
      int64_t end = 0;
      for (const Run& run : of) {
        sum += run.end - run.begin;
        extent += std::max<int64_t>(0, run.end - std::max(end, run.begin));
        end = std::max(end, run.end);
      }
    }
    EXPECT_LT(static_cast<double>(extent), part * static_cast<double>(sum));
  }
}

TEST(PlanMemoryTest, UsesAddUpToNoMoreThanThereIs) {
  CompileOptions options = OptionsOfGpt({1, 2, 2, 1, 2});
  options.kernel_scratch = {{"attention"},
                            [](const OpDef&, const AttrMap&, absl::Span<const ShardType>, absl::Span<const ShardType>) {
                              return int64_t{10'000'000};
                            }};
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(options));
  for (const pb::ClassPlan& plan : set.plans()) {
    for (int c = 0; c < set.classes_size(); ++c) {
      SCOPED_TRACE(absl::StrCat("plan '", plan.name(), "', class ", c));
      const pb::RankClass& of = set.classes(c);
      const pb::ClassMemory& memory = plan.memory(c);
      int64_t used = 0;
      for (const pb::MemoryUse& use : memory.at_peak()) used += use.bytes();
      const int64_t variables = VariableBytesOfZones(of);
      EXPECT_LE(used, variables + BytesOfZones(memory));
      EXPECT_GE(used, variables + memory.zones(kPrivateZone).bound());
      EXPECT_GE(memory.at_peak(0).bytes() + memory.at_peak(1).bytes(), variables) << "weights and optimizer";
      if (plan.name() != "train") {
        EXPECT_EQ(memory.at_peak(5).bytes(), 10'000'000) << "scratch";
      }
    }
  }
  const pb::ClassMemory& training = set.plans(0).memory(0);
  EXPECT_GT(training.at_peak(3).bytes(), training.at_peak(0).bytes()) << "activations, in a small model";
  EXPECT_THAT(PlanMemoryText(set), AllOf(HasSubstr("weights"), HasSubstr("activations"), HasSubstr("largest: '")));
}

TEST(PlanMemoryTest, ADeviceThatIsTooSmallIsAnErrorThatSaysWhatTakesMost) {
  CompileOptions options = OptionsOfGpt({1, 2, 2, 1, 2});
  options.hosts = {{.count = 1, .devices = 4}};
  options.hosts[0].device.memory_bytes = 20'000'000;
  EXPECT_THAT(Plan(options), StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("rank 0 of job 'gpt': its device, of kind 'cpu', needs"),
                                            HasSubstr("it has 20000000"), HasSubstr("use on that rank: activations"),
                                            HasSubstr("More micro-batches"))));
  options.hosts[0].device.memory_bytes = 200'000'000;
  EXPECT_OK(Plan(options));
}

// dp 2 and tp 2 on one host's GPUs.
CompileOptions FourGpus() {
  CompileOptions options = OptionsOfGpt({1, 2, 2, 1, 2});
  options.device = DeviceKind::kCuda;
  options.hosts = {{.count = 1, .devices = 4}};
  options.hosts[0].device = UsualDevice(DeviceKind::kCuda);
  return options;
}

// Of ranks of dp 2, tp 2: two communicators of two ranks, and one of all four for what is summed over all.
TEST(PlanMemoryTest, ADeviceHoldsWhatLibrariesTakeToo) {
  CompileOptions options = FourGpus();
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(options));
  const pb::RankClass& of = set.classes(0);
  const pb::Program program = testing::SpelledOut(set);
  std::set<int> communicators;          // that reduce or gather
  std::set<std::pair<int, int>> peers;  // of those that exchange
  for (const pb::Plan& plan : program.plans()) {
    for (const pb::Actor& actor : plan.actors()) {
      for (const pb::Instruction& x : actor.instructions()) {
        if (actor.rank() != 0 || x.kind() != pb::Instruction::COLLECTIVE) continue;
        if (x.transfers().empty()) communicators.insert(x.communicator());
        for (const pb::Transfer& transfer : x.transfers()) peers.insert({x.communicator(), transfer.peer()});
      }
    }
  }
  EXPECT_EQ(communicators.size(), 3);
  int64_t expected = kCudaContextBytes + kLoadedKernelBytes + static_cast<int64_t>(peers.size()) * kNcclBytesOfAPeer;
  for (const int c : communicators) {
    expected += program.communicators(c).ranks_size() == 2 ? kNcclBytesOfTwo : kNcclBytesOfMore;
  }
  EXPECT_EQ(of.library_bytes(), expected) << peers.size() << " peers";
  EXPECT_EQ(program.ranks(0).library_bytes(), expected);
  EXPECT_THAT(PlanMemoryText(set), HasSubstr(", libraries about "));
  const int64_t needed = BytesOfZones(of);
  options.hosts[0].device.memory_bytes = needed + expected;
  EXPECT_OK(Plan(options));
  options.hosts[0].device.memory_bytes = needed + expected - 1;
  EXPECT_THAT(Plan(options),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat("its device, of kind 'h100-sxm', beside ", expected,
                                              " bytes for libraries needs ", needed, " bytes of memory, it has"))));
  options.library_bytes_per_device = 0;
  EXPECT_OK(Plan(options));
}

// A stage sends activations to the next one: an exchange, with one peer.
TEST(PlanMemoryTest, AnExchangeTakesMemoryForEachPeer) {
  CompileOptions options = OptionsOfGpt({2, 1, 1, 2, 1});
  options.device = DeviceKind::kCuda;
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(options));
  const pb::Program program = testing::SpelledOut(set);
  pb::Program without = program;
  std::set<int> peers;
  for (pb::Plan& plan : *without.mutable_plans()) {
    for (pb::Actor& actor : *plan.mutable_actors()) {
      for (pb::Instruction& x : *actor.mutable_instructions()) {
        for (const pb::Transfer& transfer : x.transfers()) {
          if (actor.rank() == 0) peers.insert(transfer.peer());
        }
        x.clear_transfers();
      }
    }
  }
  ASSERT_EQ(peers.size(), 1);
  EXPECT_EQ(ExpectedLibraryBytes(program, 0) - ExpectedLibraryBytes(without, 0), kNcclBytesOfAPeer);
}

TEST(PlanMemoryTest, AHostHoldsWhatItsGpusReadAndFetch) {
  CompileOptions options = FourGpus();
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(options));
  int64_t on_host = 0;
  for (const pb::RankClass& of : set.classes()) {
    EXPECT_GT(of.host_bytes(), 0);
    EXPECT_LT(of.host_bytes(), BytesOfZone(of, kPrivateZone) / 100) << "tokens, and a loss";
    on_host += of.host_bytes() * of.ranks_size();
  }
  EXPECT_THAT(PlanMemoryText(set), HasSubstr(" of its host\n"));
  options.hosts[0].memory_bytes = on_host - 1;
  EXPECT_THAT(Plan(options), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("its host, with ranks 0 to 3,")));
  options.hosts[0].memory_bytes = on_host;
  EXPECT_OK(Plan(options));
}

TEST(PlanMemoryTest, AHostHoldsACopyOfWhatItsRanksWriteOfCheckpoints) {
  CompileOptions options = OptionsOfGpt({1, 2, 2, 1, 2});
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet without, Plan(options));
  options.checkpoints = true;
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Plan(options));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, ProgramOf(set, std::nullopt, ""));
  std::vector<int64_t> owned(4, 0);
  for (const pb::Variable& variable : program.variables()) {
    for (const pb::Shard& shard : variable.shards()) {
      int64_t bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
      for (const int64_t size : shard.extent()) bytes *= size;
      if (shard.owner()) owned[shard.rank()] += bytes;
    }
  }
  for (int c = 0; c < set.classes_size(); ++c) {
    EXPECT_EQ(without.classes(c).host_bytes(), 0);
    int64_t most = 0, all = 0;
    for (const int rank : set.classes(c).ranks()) {
      most = std::max(most, owned[rank]);
      all += owned[rank];
    }
    EXPECT_GE(set.classes(c).host_bytes(), most);
    const double mean = static_cast<double>(all) / set.classes(c).ranks_size();
    EXPECT_LT(static_cast<double>(set.classes(c).host_bytes()), 1.1 * mean) << "every rank writes about as much";
  }
}

TEST(PlanMemoryTest, AHostHoldsTheMemoryOfAllItsCpuDevices) {
  CompileOptions options = OptionsOfGpt({1, 2, 2, 1, 2});
  options.hosts = {{.count = 2, .devices = 2, .memory_bytes = 150'000'000}};
  EXPECT_THAT(Plan(options), StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("its host, with ranks 0 to 1"), HasSubstr("it has 150000000"))));
  options.hosts[0].memory_bytes = 300'000'000;
  EXPECT_OK(Plan(options));
}

}  // namespace
}  // namespace oneflow
