// The law of spoiled programs: whatever number of a program is changed, an engine refuses it, runs it, or says what
// went wrong; it never crashes. The programs are compiled ones, of one process on cpu devices, which may be said to be
// on two hosts.
#include <future>
#include <random>

#include "actor/engine.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "test/laws/random_model.h"
#include "test/support/guarded_memory.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// Changes one number somewhere in a message.
class Spoiler {
 public:
  explicit Spoiler(uint64_t seed) : random_(seed) {}

  // What was changed.
  std::string Spoil(google::protobuf::Message& message) {
    places_.clear();
    Collect(message);
    const Place place = places_[random_() % places_.size()];
    const Reflection& access = *place.message->GetReflection();
    int64_t now = 0, before = 0;
    const auto change = [&](auto value) {
      before = static_cast<int64_t>(value);
      now = Other(before);
      return static_cast<decltype(value)>(now);
    };
    switch (place.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        Set(place, change(Get(place, &Reflection::GetInt32, &Reflection::GetRepeatedInt32)), &Reflection::SetInt32,
            &Reflection::SetRepeatedInt32);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        Set(place, change(Get(place, &Reflection::GetInt64, &Reflection::GetRepeatedInt64)), &Reflection::SetInt64,
            &Reflection::SetRepeatedInt64);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        access.SetBool(place.message, place.field, !access.GetBool(*place.message, place.field));
        break;
      default:
        access.SetEnumValue(place.message, place.field, static_cast<int>(random_() % 8));
    }
    return absl::StrCat(place.field->full_name(), " ", before, " -> ", now, " in ",
                        place.message->ShortDebugString().substr(0, 300));
  }

 private:
  struct Place {
    google::protobuf::Message* message;
    const FieldDescriptor* field;
    int index;  // -1: not repeated
  };

  template <typename T>
  static T Get(const Place& place, T (Reflection::*get)(const google::protobuf::Message&, const FieldDescriptor*) const,
               T (Reflection::*get_repeated)(const google::protobuf::Message&, const FieldDescriptor*, int) const) {
    const Reflection& access = *place.message->GetReflection();
    return place.index < 0 ? (access.*get)(*place.message, place.field)
                           : (access.*get_repeated)(*place.message, place.field, place.index);
  }
  template <typename T>
  static void Set(const Place& place, T value,
                  void (Reflection::*set)(google::protobuf::Message*, const FieldDescriptor*, T) const,
                  void (Reflection::*set_repeated)(google::protobuf::Message*, const FieldDescriptor*, int, T) const) {
    const Reflection& access = *place.message->GetReflection();
    if (place.index < 0) {
      (access.*set)(place.message, place.field, value);
    } else {
      (access.*set_repeated)(place.message, place.field, place.index, value);
    }
  }

  int64_t Other(int64_t value) {
    const int64_t choices[] = {value - 1, value + 1, 0, 1, -1, 2 * value, value / 2, value + 64, value - 64};
    return choices[random_() % std::size(choices)];
  }

  void Collect(google::protobuf::Message& message) {
    const Reflection& access = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    access.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count = field->is_repeated() ? access.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          Collect(*(field->is_repeated() ? access.MutableRepeatedMessage(&message, field, i)
                                         : access.MutableMessage(&message, field)));
        } else if (IsSpoiled(field->cpp_type())) {
          places_.push_back({&message, field, field->is_repeated() ? i : -1});
        }
      }
    }
  }
  static bool IsSpoiled(FieldDescriptor::CppType type) {
    return type == FieldDescriptor::CPPTYPE_INT32 || type == FieldDescriptor::CPPTYPE_INT64 ||
           type == FieldDescriptor::CPPTYPE_BOOL || type == FieldDescriptor::CPPTYPE_ENUM;
  }

  std::mt19937_64 random_;
  std::vector<Place> places_;
};

// Convolution, pooling, attention, normalisation, ragged rows that travel, and losses, trained.
absl::StatusOr<pb::Program> Train(const OpRegistry& ops, std::vector<Axis> mesh, int hosts, bool in_tiers) {
  GraphBuilder b(ops, "train");
  const PrototypeData data{.classes = 4, .samples = 64, .height = 6, .width = 6, .noise = 0.3};
  const Batch batch = ReadPrototypeBatch(b, data, DataSplit::kTrain, 4);
  const auto weight = [&](const char* name, std::vector<int64_t> dims) {
    return b.Variable(name, {DType::kFloat32, Shape(std::move(dims))}, "normal(0.3)");
  };
  const Tensor seen = MaxPool2d(Conv2d(batch.inputs, weight("k", {4, 1, 3, 3}), 1, 1), 2, 2);
  const Tensor x = Reshape(seen, {4, 9, 4});
  const Tensor tokens = Reshape(Attention(x, x, x, 2, true), {4, 36});
  const Tensor hidden = Gelu(BiasAdd(MatMul(tokens, weight("w", {36, 8})), weight("b", {8})));
  const Tensor logits = MatMul(LayerNorm(hidden, weight("gamma", {8}), weight("beta", {8})), weight("out", {8, 4}));
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, batch.labels));
  b.SetLoss(loss);
  const Tensor rows = MatMul(KeepRows(x, batch.labels), weight("rows", {4, 5})).To({{"dp", Sbp::Split(2)}});
  b.SetLoss(Scale(ReduceSum(Square(rows)), 0.01));
  Fetch(loss, "loss");
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  CompileOptions options;
  options.job = "spoiled";
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(mesh)));
  options.ranks_per_process = options.mesh.size() / hosts;
  options.hosts = {{.count = hosts, .devices = options.ranks_per_process}};
  options.micro_batches = 2;
  if (in_tiers) {
    const OffloadOptions disk = {.tier = FindTier("disk"), .unit_bytes = 100};
    options.offload = {disk, disk, disk};
    options.offload[1].what = OffloadOptions::What::kWeights;
    options.offload[1].tier = FindTier("host");
    options.offload[2].what = OffloadOptions::What::kActivations;
  }
  OF_ASSIGN_OR_RETURN(pb::Program program, CompileSpelledOut({std::move(graph)}, options, ops));
  for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);
  return program;
}

// Whether its zones are about as large as they were.
bool IsSmall(const pb::Program& program) {
  for (const pb::Rank& rank : program.ranks()) {
    for (const ZoneKind& kind : kZones) {
      if (BytesOfZone(rank, kind.zone) > (1 << 22)) return false;
    }
  }
  return true;
}

// A program whose acts wait for each other is ended from here.
absl::Status RunFor(Engine& engine, std::chrono::milliseconds limit) {
  std::future<absl::Status> status = std::async(std::launch::async, [&] { return engine.Run("train", 0, 2); });
  if (status.wait_for(limit) == std::future_status::timeout) engine.Abort(absl::CancelledError("it takes too long"));
  return status.get();
}

TEST(SpoiledProgramsTest, NeverCrashAnEngine) {
  const int count = FromEnvironment("ONEFLOW_RANDOM_PROGRAMS", 300), first = FromEnvironment("ONEFLOW_RANDOM_SEED", 1);
  SaidOnFault said;
  std::map<absl::StatusCode, int> loaded, run;
  const OpRegistry ops = StandardOps();
  struct World {
    std::vector<Axis> mesh;
    int hosts;
    bool in_tiers = false;
  };
  for (const auto& [mesh, hosts, in_tiers] :
       {World{{}, 1}, World{{{"dp", 2}}, 1}, World{{{"dp", 2}}, 2}, World{{}, 1, true}, World{{{"dp", 2}}, 1, true}}) {
    ASSERT_OK_AND_ASSIGN(const pb::Program good, Train(ops, mesh, hosts, in_tiers));
    for (int seed = first; seed < first + count; ++seed) {
      pb::Program program = good;
      const std::string change = Spoiler(static_cast<uint64_t>(seed)).Spoil(program);
      said.Set(
          absl::StrCat("seed ", seed, ", ", mesh.empty() ? 1 : mesh[0].size, " ranks on ", hosts, " hosts: ", change));
      if (!IsSmall(program)) continue;
      const auto engine = Engine::Create(program, {});
      ++loaded[engine.status().code()];
      if (engine.ok()) ++run[RunFor(**engine, std::chrono::seconds(1)).code()];
    }
  }
  EXPECT_GT(loaded[absl::StatusCode::kInvalidArgument], count / 4);
  EXPECT_GT(run[absl::StatusCode::kOk], count / 10);
}

}  // namespace
}  // namespace oneflow::testing
