#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 24;  // of all matrices, which every rank makes

absl::StatusOr<std::vector<TensorType>> GameTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t d, ops::IntAttr(attributes, "dimension", 1));
  OF_ASSIGN_OR_RETURN(const int64_t workers, ops::IntAttr(attributes, "workers", 1));
  if (d > kMostNumbers / d / workers) {
    return absl::InvalidArgumentError(absl::StrCat("a game of dimension ", d, " with ", workers, " workers has ",
                                                   workers, " matrices of ", d, " x ", d, ", but may have at most ",
                                                   kMostNumbers, " numbers in them"));
  }
  const auto floats = [](std::vector<int64_t> dims) { return TensorType{DType::kFloat32, Shape(std::move(dims))}; };
  return std::vector<TensorType>{floats({batch, d, d}), floats({batch, d}), floats({batch, d}), floats({batch, 2 * d})};
}

}  // namespace

GameBatch ReadGameBatch(GraphBuilder& b, const AttrMap& fields, DataSplit split, int64_t batch,
                        std::source_location loc) {
  AttrMap attributes = {{"dataset", std::string("game")}, {"batch", batch}, {"split", SplitName(split)}};
  for (const char* name : {"dimension", "workers"}) attributes.Set(name, fields.Int(name));
  for (const char* name : {"heterogeneity", "condition"}) attributes.Set(name, fields.Double(name));
  std::vector<Tensor> read = b.Op("read_data", {}, std::move(attributes), loc);
  read.resize(4);
  for (Tensor& x : read) x = x.To({{"dp", Sbp::Split(0)}}, loc);
  return {read[0], read[1], read[2], read[3]};
}

// No `read`: a sample is a matrix with two vectors.
DataKind GameKind() { return {.name = "game", .types = GameTypes, .unit = "workers"}; }

}  // namespace oneflow
