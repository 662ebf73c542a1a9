#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/data/image_types.h"

namespace oneflow {

PrototypeData PrototypeDataOf(const AttrMap& fields) {
  PrototypeData data;
  data.classes = fields.Int("classes");
  SetSamples(fields, data);
  data.channels = fields.Int("channels");
  data.height = fields.Int("height");
  data.width = fields.Int("width");
  data.noise = fields.Double("noise");
  return data;
}

Batch ReadPrototypeBatch(GraphBuilder& b, const PrototypeData& data, DataSplit split, int64_t batch,
                         std::source_location loc) {
  std::vector<Tensor> read = ReadMade(b, "prototypes", data, split, batch,
                                      {{"channels", data.channels},
                                       {"height", data.height},
                                       {"width", data.width},
                                       {"classes", data.classes},
                                       {"noise", data.noise}},
                                      loc);
  read.resize(2);
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}, {"tp", Sbp::Split(0)}};
  return {read[0].To(by_sample, loc), read[1].To({{"dp", Sbp::Split(0)}}, loc)};
}

// No `read`: the data says how many classes there are, which other models' configs do.
DataKind PrototypesKind() { return {.name = "prototypes", .types = ImageTypes, .unit = "images"}; }

}  // namespace oneflow
