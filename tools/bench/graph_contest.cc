#include "tools/bench/graph_contest.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/data/source.h"
#include "oneflow_core/functional.h"
#include "tools/bench/against_pytorch.h"
#include "tools/bench/run_job.h"
#include "tools/control/process/write_file.h"

namespace oneflow {
namespace {

constexpr int64_t kRandomImages = 64;  // in the file; they come again

std::string IdxHeader(const std::vector<int64_t>& dims) {
  std::string header = {0, 0, 8, static_cast<char>(dims.size())};
  for (const int64_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<char>(dim >> shift));
  }
  return header;
}

std::string RandomBytes(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

absl::StatusOr<ImageData> RandomImages(const GraphContest& contest, const BenchContext& context) {
  const auto [batch, height, width] = contest.images;
  ImageData data{.channels = 1, .height = height, .width = width};
  data.train_images = absl::StrCat(context.dir, "/", contest.name, ".images");
  data.train_labels = absl::StrCat(context.dir, "/", contest.name, ".labels");
  OF_RETURN_IF_ERROR(
      WriteFile("file", data.train_images,
                IdxHeader({kRandomImages, height, width}) + RandomBytes(kRandomImages * height * width, 1)));
  OF_RETURN_IF_ERROR(WriteFile("file", data.train_labels, IdxHeader({kRandomImages}) + RandomBytes(kRandomImages, 2)));
  return data;
}

absl::StatusOr<Graph> TrainingGraph(const GraphContest& contest, const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(const ImageData data, RandomImages(contest, context));
  GraphBuilder b(context.ops, "train");
  const Tensor loss = contest.loss(ReadImageBatch(b, data, DataSplit::kTrain, contest.images.batch));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::StatusOr<Job> GraphJob(const GraphContest& contest, bool bf16, const BenchContext& context) {
  const std::string text = absl::StrCat("name: '", contest.name, "' train { batch_size: ", contest.images.batch, " ",
                                        contest.training, " }");
  OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(text, absl::StrCat("(", contest.name, ")"), 1, context));
  if (bf16) config.config.mutable_precision()->set_compute(pb::Precision::BF16);
  config.config.mutable_train()->set_steps(context.asked_warmup.value_or(contest.warmup) +
                                           context.asked_steps.value_or(contest.steps));
  OF_ASSIGN_OR_RETURN(Graph graph, TrainingGraph(contest, context));
  Program program;
  program.push_back(std::move(graph));
  return MakeJob(std::move(config), std::move(program));
}

// Per step the images as floats, then their labels as 32-bit integers.
absl::StatusOr<std::string> ImageBatches(const ImageSizes& sizes, const Job& job, int steps) {
  const Graph& graph = job.program[0];
  AttrMap attributes;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (graph.node(id).op == "read_data") attributes = graph.node(id).attrs;
  }
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(attributes));
  const int64_t dims[] = {sizes.batch, 1, sizes.height, sizes.width}, start[] = {0, 0, 0, 0};
  std::vector<float> images(sizes.batch * sizes.height * sizes.width);
  std::vector<int32_t> labels(sizes.batch);
  const TensorArg outputs[] = {
      {images.data(), DType::kFloat32, 4, static_cast<int64_t>(images.size()), dims, dims, start},
      {labels.data(), DType::kInt32, 1, sizes.batch, dims, dims, start}};
  std::string bytes;
  for (int step = 0; step < steps; ++step) {
    OF_RETURN_IF_ERROR(source->Read(step, 0, 1, outputs));
    bytes.append(reinterpret_cast<const char*>(images.data()), images.size() * sizeof(float));
    bytes.append(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(int32_t));
  }
  return bytes;
}

class BothPrecisions : public BenchCase {
 public:
  BothPrecisions(std::unique_ptr<BenchCase> f32, std::unique_ptr<BenchCase> bf16)
      : f32_(std::move(f32)), bf16_(std::move(bf16)) {}

  absl::StatusOr<std::string> RunRound() override {
    OF_ASSIGN_OR_RETURN_AT(const std::string f32, f32_->RunRound(), "f32");
    OF_ASSIGN_OR_RETURN_AT(const std::string bf16, bf16_->RunRound(), "bf16");
    return absl::StrCat(f32, " in f32,", bf16, " in bf16");
  }
  std::string Text() const override { return absl::StrCat(f32_->Text(), "\n", bf16_->Text()); }
  nlohmann::json Json() const override { return {{"f32", f32_->Json()}, {"bf16", bf16_->Json()}}; }

 private:
  const std::unique_ptr<BenchCase> f32_, bf16_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeGraphContest(const GraphContest& contest, bool bf16, const BenchContext& context) {
  const auto make_model = [contest, bf16, &context]() -> absl::StatusOr<TrainedModel> {
    TrainedModel model{.title = absl::StrCat(contest.title, ", products in ", bf16 ? "bf16" : "f32"),
                       .unit = contest.unit,
                       .per_step = contest.per_step,
                       .pytorch = contest.pytorch,
                       .modes = contest.modes,
                       .warmup = context.asked_warmup.value_or(contest.warmup),
                       .steps = context.asked_steps.value_or(contest.steps)};
    model.make_job = [contest, bf16, &context](const TrainingLayout&) { return GraphJob(contest, bf16, context); };
    model.batches = [sizes = contest.images](const Job& job, int steps) { return ImageBatches(sizes, job, steps); };
    return model;
  };
  return MakeContestCase(context, make_model);
}

std::unique_ptr<BenchCase> MakeGraphContest(const GraphContest& contest, const BenchContext& context) {
  return std::make_unique<BothPrecisions>(MakeGraphContest(contest, /*bf16=*/false, context),
                                          MakeGraphContest(contest, /*bf16=*/true, context));
}

}  // namespace oneflow
