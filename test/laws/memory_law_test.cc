// The law of shared memory: of two uses of the same bytes of a rank, one is over before the other begins, whatever the
// order in which ranks get to act. Looked at on every rank of spelled out plans and with every wait among them, by
// transitive closure: nothing is taken from the compiler but the plan.
#include <functional>
#include <map>
#include <random>

#include "compiler/lower/compile.h"
#include "compiler/schedule/named_schedule.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/zones.h"
#include "proto/plan.pb.h"
#include "test/laws/random_pipeline.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

constexpr int kMemorySteps = 3;

// Acts of all actors over some steps, and which of them each waits for, however indirectly.
class Waits {
 public:
  explicit Waits(const pb::Plan& plan) : plan_(plan) {
    for (const pb::Actor& actor : plan.actors()) {
      first_.push_back(num_acts_);
      num_acts_ += NumActs(actor);
    }
    before_.resize(num_acts_);
    for (int a = 0; a < plan.actors_size(); ++a) {
      for (int act = 1; act < NumActs(plan.actors(a)); ++act) Add(a, act, a, act - 1);
    }
    for (int r = 0; r < plan.registers_size(); ++r) AddRegister(r);
    Close();
  }

  int Vertex(int actor, int act) const { return first_[actor] + act; }
  // Whether `act` begins after `earlier` is over.
  bool Follows(int act, int earlier) const { return (after_[act][earlier / 64] >> (earlier % 64) & 1) != 0; }
  static int NumActs(const pb::Actor& actor) { return actor.acts_per_step() * kMemorySteps; }

 private:
  void Add(int actor, int act, int other, int other_act) {
    if (other_act < 0) return;
    ASSERT_LT(other_act, NumActs(plan_.actors(other)));
    before_[Vertex(actor, act)].push_back(Vertex(other, other_act));
  }

  void AddRegister(int id) {
    const pb::Register& reg = plan_.registers(id);
    const int from_acts = testing::ActsPerSlot(plan_.actors(reg.producer()).outputs(), id);
    for (const int consumer : reg.consumers()) {
      const int to_acts = testing::ActsPerSlot(plan_.actors(consumer).inputs(), id);
      for (int act = 0; act < NumActs(plan_.actors(consumer)); ++act) {
        const int fill = act / to_acts - reg.initially_filled();
        if (fill >= 0) Add(consumer, act, reg.producer(), (fill + 1) * from_acts - 1);
      }
      for (int act = 0; act < NumActs(plan_.actors(reg.producer())); ++act) {
        const int freed = act / from_acts + reg.initially_filled() - reg.slots();
        if (freed >= 0) Add(reg.producer(), act, consumer, (freed + 1) * to_acts - 1);
      }
    }
  }

  void Close() {
    after_.assign(num_acts_, std::vector<uint64_t>(num_acts_ / 64 + 1, 0));
    std::vector<int> missing(num_acts_), ready;
    std::vector<std::vector<int>> waiters(num_acts_);
    for (int act = 0; act < num_acts_; ++act) {
      missing[act] = static_cast<int>(before_[act].size());
      for (const int other : before_[act]) waiters[other].push_back(act);
      if (missing[act] == 0) ready.push_back(act);
    }
    for (size_t head = 0; head < ready.size(); ++head) {
      const int act = ready[head];
      for (const int waiter : waiters[act]) {
        after_[waiter][act / 64] |= uint64_t{1} << (act % 64);
        for (size_t word = 0; word < after_[act].size(); ++word) after_[waiter][word] |= after_[act][word];
        if (--missing[waiter] == 0) ready.push_back(waiter);
      }
    }
    ASSERT_EQ(ready.size(), static_cast<size_t>(num_acts_));
  }

  const pb::Plan& plan_;
  std::vector<int> first_;
  int num_acts_ = 0;
  std::vector<std::vector<int>> before_;
  std::vector<std::vector<uint64_t>> after_;  // by act: a bit for each that it waits for
};

// Bytes of a rank in use from an instruction of one act to instructions of others.
struct Use {
  struct Moment {
    int act = 0;
    int instruction = 0;
  };
  int64_t begin = 0, end = 0;
  Moment written;
  std::vector<Moment> last;
  int id = -1;   // of the register, in the program; -1: of a workspace
  int fill = 0;  // or act
};

class MemoryLaw {
 public:
  MemoryLaw(const pb::Program& program, const pb::Plan& plan) : program_(program), plan_(plan), waits_(plan) {}

  // How many pairs of uses share bytes.
  int Check() {
    for (int r = 0; r < plan_.registers_size(); ++r) AddRegister(r);
    int shared = 0;
    for (auto& [where, uses] : registers_) {
      for (size_t i = 0; i < uses.size(); ++i) {
        for (size_t j = 0; j < i; ++j) shared += CheckPair(uses[i], uses[j]);
      }
    }
    for (int a = 0; a < plan_.actors_size(); ++a) shared += CheckWorkspace(a);
    return shared;
  }

 private:
  bool InRegion(int rank, int zone, int64_t offset) const {
    const pb::Rank& of = program_.ranks(rank);
    return offset >= VariableBytesOfZone(of, zone);
  }

  void AddRegister(int id) {
    const pb::Register& reg = plan_.registers(id);
    const pb::Actor& producer = plan_.actors(reg.producer());
    if (reg.slot_bytes() == 0 || !InRegion(producer.rank(), reg.zone(), reg.offset())) return;
    ASSERT_EQ(reg.initially_filled(), 0);
    const int acts = testing::ActsPerSlot(producer.outputs(), id);
    for (int fill = 0; fill < Waits::NumActs(producer) / acts; ++fill) {
      Use use{reg.offset(),
              reg.offset() + reg.slots() * reg.slot_stride(),
              {waits_.Vertex(reg.producer(), fill * acts), First(producer, id)},
              {},
              id,
              fill};
      for (const int consumer : reg.consumers()) {
        const pb::Actor& reader = plan_.actors(consumer);
        const int last = (fill + 1) * testing::ActsPerSlot(reader.inputs(), id) - 1;
        use.last.push_back({waits_.Vertex(consumer, last), Last(reader, id)});
      }
      registers_[{producer.rank(), reg.zone()}].push_back(std::move(use));
    }
  }

  static bool Names(const google::protobuf::RepeatedPtrField<pb::Operand>& operands, int reg) {
    return std::any_of(operands.begin(), operands.end(), [&](const pb::Operand& x) { return x.register_() == reg; });
  }
  static int First(const pb::Actor& actor, int reg) {
    for (int i = 0; i < actor.instructions_size(); ++i) {
      if (Names(actor.instructions(i).outputs(), reg)) return i;
    }
    return 0;
  }
  static int Last(const pb::Actor& actor, int reg) {
    int last = 0;
    for (int i = 0; i < actor.instructions_size(); ++i) {
      if (Names(actor.instructions(i).inputs(), reg)) last = i;
    }
    return last;
  }

  bool Follows(const Use::Moment& later, const Use::Moment& earlier) const {
    if (later.act == earlier.act) return later.instruction > earlier.instruction;
    return waits_.Follows(later.act, earlier.act);
  }
  bool IsBefore(const Use& a, const Use& b) const {
    return std::all_of(a.last.begin(), a.last.end(), [&](const Use::Moment& end) { return Follows(b.written, end); });
  }

  bool CheckPair(const Use& a, const Use& b) const {
    if (a.id >= 0 && a.id == b.id) return false;
    if (a.end <= b.begin || b.end <= a.begin) return false;
    if (IsBefore(a, b) || IsBefore(b, a)) return true;
    ADD_FAILURE() << Show(a) << " and " << Show(b);
    return true;
  }

  std::string Show(const Use& use) const {
    return absl::StrCat(use.id < 0 ? "workspace" : absl::StrCat("register '", plan_.registers(use.id).name(), "'"),
                        " [", use.begin, ",", use.end, ") of fill ", use.fill);
  }

  // What an act writes into its workspace lies on no register in use.
  int CheckWorkspace(int id) {
    const pb::Actor& actor = plan_.actors(id);
    int shared = 0;
    for (int i = 0; i < actor.instructions_size(); ++i) {
      for (const pb::Operand& x : actor.instructions(i).outputs()) {
        if (x.register_() >= 0 || x.zone() != kPrivateZone || !InRegion(actor.rank(), kPrivateZone, x.offset()))
          continue;
        int64_t bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(x.dtype())));
        for (const int64_t dim : x.dims()) bytes *= dim;
        shared += CheckNow(id, i, x.offset(), bytes);
      }
      if (actor.instructions(i).scratch_bytes() > 0) {
        EXPECT_TRUE(InRegion(actor.rank(), kPrivateZone, actor.instructions(i).scratch_offset()));
        shared += CheckNow(id, i, actor.instructions(i).scratch_offset(), actor.instructions(i).scratch_bytes());
      }
    }
    return shared;
  }

  // Bytes that are written during an instruction.
  int CheckNow(int id, int instruction, int64_t offset, int64_t bytes) {
    const pb::Actor& actor = plan_.actors(id);
    int shared = 0;
    for (int act = 0; act < Waits::NumActs(actor); ++act) {
      const Use::Moment now{waits_.Vertex(id, act), instruction};
      const Use use{offset, offset + bytes, now, {now}, -1, act};
      for (const Use& other : registers_[{actor.rank(), kPrivateZone}]) shared += CheckPair(use, other);
    }
    return shared;
  }

  const pb::Program& program_;
  const pb::Plan& plan_;
  const Waits waits_;
  std::map<std::pair<int, int>, std::vector<Use>> registers_;  // by rank and zone
};

// Every op needs scratch memory, by its results.
KernelScratch SomeScratch() {
  KernelScratch scratch;
  for (const auto& [name, op] : Ops().all()) {
    if (op.kind == OpKind::kCompute) scratch.ops.insert(name);
  }
  scratch.num_bytes = [](const OpDef&, const AttrMap&, absl::Span<const ShardType>,
                         absl::Span<const ShardType> outputs) { return outputs[0].dims.count() * 2 + 100; };
  return scratch;
}

int DrawBelow(std::mt19937& random, int below) { return static_cast<int>(random() % static_cast<uint32_t>(below)); }

int CheckLaw(const pb::PlanSet& set) {
  const pb::Program program = SpelledOut(set);
  int shared = 0;
  for (const pb::Plan& plan : program.plans()) shared += MemoryLaw(program, plan).Check();
  return shared;
}

TEST(MemoryLawTest, OfUsesOfTheSameBytesOneIsOverBeforeTheOther) {
  int shared = 0;
  for (uint32_t seed = 0; seed < 400 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomJob job = MakeRandomJob(seed);
    if (seed % 2 == 0) job.options.device = DeviceKind::kCuda;
    if (seed % 3 == 0) job.options.kernel_scratch = SomeScratch();
    absl::StatusOr<pb::PlanSet> set = CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops());
    if (set.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(set);
    shared += CheckLaw(*set);
  }
  EXPECT_GT(shared, 1000);
}

// Where a job says of all registers how many slots they have. Some such plans are dead, where a schedule needs more.
TEST(MemoryLawTest, HoldsWithAnySlots) {
  int shared = 0, plans = 0;
  for (uint32_t seed = 0; plans < 100 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const DeviceKind device = seed % 4 < 2 ? DeviceKind::kCuda : DeviceKind::kCpu;
    RandomJob job = seed % 2 == 0 ? MakeRandomPipeline(seed, device) : MakeRandomJob(seed);
    job.options.device = device;
    const auto compile = [&] { return CompileBoxed({{job.graph, job.options.micro_batches}}, job.options, Ops()); };
    const absl::StatusOr<pb::PlanSet> as_credits_say = compile();
    if (as_credits_say.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_OK(as_credits_say);
    for (const pb::ClassRegister& reg : as_credits_say->plans(0).registers()) {
      if (reg.variable() >= 0 || reg.initially_filled() > 0) continue;
      const int slots = 1 + static_cast<int>(random() % 4);
      ASSERT_TRUE(job.options.slots[job.graph.name()].emplace(reg.name(), slots).second) << reg.name();
    }
    const absl::StatusOr<pb::PlanSet> set = compile();
    if (set.status().code() == absl::StatusCode::kFailedPrecondition) continue;
    ASSERT_OK(set);
    shared += CheckLaw(*set);
    ++plans;
  }
  EXPECT_GT(shared, 300);
}

// The plans of a GPT, which all share something.
void ExpectLawOfGpt(int layers, int context, const CompileOptions& options) {
  const GptConfig config{.vocabulary = 128, .layers = layers, .width = 16, .heads = 2, .context = context};
  ASSERT_OK_AND_ASSIGN(const Program program, GptProgram(config, {"text"}, {8, 8}, Continuation{"x", 0}, Ops()));
  ASSERT_OK_AND_ASSIGN(const pb::PlanSet set, Compile(program, options, Ops()));
  EXPECT_GT(CheckLaw(set), 100);
}

CompileOptions OnMesh(std::vector<Axis> axes, int micro_batches) {
  CompileOptions options;
  options.mesh = *Mesh::Create(std::move(axes));
  options.micro_batches = micro_batches;
  return options;
}

// Sixteen jobs of three layers on drawn meshes and devices, of which `more` draws the rest; what it says of them.
void ExpectLawOfDrawnGpts(int least_dp, const std::function<std::string(std::mt19937&, CompileOptions&)>& more) {
  std::mt19937 random(1);
  for (int i = 0; i < 16 && !::testing::Test::HasFailure(); ++i) {
    const int dp = least_dp + DrawBelow(random, 3), tp = 1 + DrawBelow(random, 2), pp = 1 + (DrawBelow(random, 5) == 0);
    CompileOptions options = OnMesh({{"pp", pp}, {"dp", dp}, {"tp", tp}}, 1 + DrawBelow(random, 3));
    options.ranks_per_process = DrawBelow(random, 2) == 0 ? 1 : dp * tp * pp;
    options.device = DrawBelow(random, 3) == 0 ? DeviceKind::kCuda : DeviceKind::kCpu;
    options.sequence_parallel = DrawBelow(random, 2) == 0;
    if (DrawBelow(random, 3) == 0) options.recompute.what = "layers";
    const std::string of_job = more(random, options);
    SCOPED_TRACE(absl::StrCat("case ", i, ", ", AxesText(options.mesh.axes()), ", ", options.micro_batches,
                              " micro-batches, ", of_job));
    ExpectLawOfGpt(3, 8, options);
  }
}

TEST(MemoryLawTest, TrainingOfAGptSharesRegistersOverTheWholeStep) {
  struct Layout {
    int pp, dp, tp, micro_batches, ranks_per_process;
  };
  for (const Layout& x : {Layout{1, 1, 2, 1, 1}, {1, 2, 2, 2, 2}, {2, 1, 2, 4, 4}, {1, 2, 2, 3, 1}}) {
    SCOPED_TRACE(absl::StrCat("pp", x.pp, " dp", x.dp, " tp", x.tp, " micro-batches ", x.micro_batches));
    CompileOptions options = OnMesh({{"pp", x.pp}, {"dp", x.dp}, {"tp", x.tp}}, x.micro_batches);
    options.ranks_per_process = x.ranks_per_process;
    options.optimizer.clip_norm = 1;
    options.kernel_scratch = SomeScratch();
    ExpectLawOfGpt(2, 8, options);
  }
}

// What goes round a ring takes turns on the same bytes, whoever reads it.
TEST(MemoryLawTest, RingsShareNoMoreThanWaitsAllow) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    for (const std::vector<int>& sizes : {std::vector<int>{1, 2, 1}, {1, 4, 1}, {2, 3, 1}, {1, 5, 1}, {2, 2, 2}}) {
      for (const int micro_batches : {1, 2}) {
        if (micro_batches == 2 && (device == DeviceKind::kCuda || sizes[1] > 4)) continue;
        CompileOptions options = OnMesh({{"dp", sizes[0]}, {"cp", sizes[1]}, {"tp", sizes[2]}}, micro_batches);
        options.device = device;
        options.rings = RingUse::kWherePossible;
        options.kernel_scratch = SomeScratch();
        SCOPED_TRACE(absl::StrCat(AxesText(options.mesh.axes()), ", micro-batches ", micro_batches));
        ExpectLawOfGpt(2, 16, options);
      }
    }
  }
}

// Gathered weights, and gradients until they are reduced, take turns on the same bytes.
TEST(MemoryLawTest, StateInPartsSharesNoMoreThanWaitsAllow) {
  ExpectLawOfDrawnGpts(2, [](std::mt19937& random, CompileOptions& options) {
    options.zero = ZeroOptions{.stage = 2 + DrawBelow(random, 2),
                               .axis = "dp",
                               .prefetch = DrawBelow(random, 4),
                               .unit_bytes = int64_t{1} << (4 * DrawBelow(random, 5)),
                               .keeps_gathered = DrawBelow(random, 4) == 0,
                               .sums_once = DrawBelow(random, 4) == 0};
    return absl::StrCat("stage ", options.zero->stage, ", prefetch ", options.zero->prefetch, ", units of ",
                        options.zero->unit_bytes);
  });
}

TEST(MemoryLawTest, TiersShareNoMoreThanWaitsAllow) {
  static constexpr int kPrefetches[] = {0, 1, 2, 3, 8, 24};
  ExpectLawOfDrawnGpts(1, [](std::mt19937& random, CompileOptions& options) {
    if (DrawBelow(random, 3) == 0) options.zero = ZeroOptions{.stage = 1 + DrawBelow(random, 3), .axis = "dp"};
    if (DrawBelow(random, 2) == 0) options.optimizer.clip_norm = 1;
    for (const auto what : {OffloadOptions::What::kOptimizer, OffloadOptions::What::kWeights,
                            OffloadOptions::What::kActivations, OffloadOptions::What::kGradients}) {
      if (DrawBelow(random, 4) == 0) continue;
      options.offload.push_back({.what = what,
                                 .tier = &kTiers[DrawBelow(random, 2)],
                                 .prefetch = kPrefetches[DrawBelow(random, 6)],
                                 .unit_bytes = int64_t{1} << (3 * (2 + DrawBelow(random, 4))),
                                 .least_bytes = DrawBelow(random, 2) * 200});
    }
    return absl::StrCat(options.offload.size(), " offloads");
  });
}

TEST(MemoryLawTest, SchedulesShareNoMoreThanWaitsAllow) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v"}) {
    SCOPED_TRACE(schedule);
    CompileOptions options = OnMesh({{"pp", 2}, {"dp", 2}, {"tp", 1}}, 4);
    ASSERT_OK_AND_ASSIGN(options.pipeline,
                         MakeSchedule({.name = schedule, .num_ranks = 2, .num_micro_batches = options.micro_batches}));
    ExpectLawOfGpt(2, 8, options);
  }
}

}  // namespace
}  // namespace oneflow
