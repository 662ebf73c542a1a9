#include "actor/instruction/attributes.h"

#include <vector>

namespace oneflow {

AttrMap ToAttrMap(const google::protobuf::RepeatedPtrField<pb::Attribute>& attributes) {
  AttrMap map;
  for (const pb::Attribute& attribute : attributes) {
    switch (attribute.value_case()) {
      case pb::Attribute::kB:
        map.Set(attribute.name(), attribute.b());
        break;
      case pb::Attribute::kI:
        map.Set(attribute.name(), int64_t{attribute.i()});
        break;
      case pb::Attribute::kF:
        map.Set(attribute.name(), attribute.f());
        break;
      case pb::Attribute::kS:
        map.Set(attribute.name(), attribute.s());
        break;
      case pb::Attribute::kInts:
        map.Set(attribute.name(),
                std::vector<int64_t>(attribute.ints().values().begin(), attribute.ints().values().end()));
        break;
      default:
        break;
    }
  }
  return map;
}

}  // namespace oneflow
