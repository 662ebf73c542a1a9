#include "oneflow_core/models/rotary_heads.h"

namespace oneflow {

int64_t KvHeads(const AttrMap& fields) {
  return fields.Int("kv_heads") > 0 ? fields.Int("kv_heads") : fields.Int("heads");
}

AttrMap RotaryAttrs(const AttrMap& fields) {
  AttrMap attrs = {{"theta", fields.Double("rope_theta")}};
  const std::string scaling = fields.String("rope_scaling");
  if (scaling == "none") return attrs;
  attrs.Set("scaling", scaling);
  attrs.Set("factor", fields.Double("rope_factor"));
  if (const int64_t context = fields.Int("rope_original_context"); context > 0) attrs.Set("original_context", context);
  if (scaling == "llama3") {
    attrs.Set("low_frequency", fields.Double("rope_low_frequency"));
    attrs.Set("high_frequency", fields.Double("rope_high_frequency"));
  }
  return attrs;
}

std::optional<FieldComplaint> CheckRotaryHeads(const AttrMap& fields) {
  const int64_t width = fields.Int("width"), heads = fields.Int("heads"), kv_heads = KvHeads(fields);
  const int64_t head_width = fields.Int("head_width");
  if (head_width == 0 && width % heads != 0) {
    return FieldComplaint{"heads", absl::StrCat("width ", width, " is not a multiple of ", heads, " heads")};
  }
  if (heads % kv_heads != 0) {
    return FieldComplaint{"kv_heads", absl::StrCat(heads, " heads are not a multiple of ", kv_heads, " kv_heads")};
  }
  const int64_t of_head = head_width > 0 ? head_width : width / heads;
  if (of_head % 2 == 0) return std::nullopt;
  return FieldComplaint{head_width > 0 ? "head_width" : "heads",
                        absl::StrCat("heads have ", of_head, " columns, which cannot be turned in pairs")};
}

}  // namespace oneflow
