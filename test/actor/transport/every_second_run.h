// A shipment of a slot's bytes.
#pragma once

#include <cstdint>
#include <string>

#include "actor/transport/shipments.h"

namespace oneflow::testing {

// Every second run of `run` bytes, `runs` of them, beginning with the first of `slots`.
inline Shipment Every2nd(int64_t runs, int64_t run, const std::string& slots) {
  pb::Shipment from;
  pb::Parcel& parcel = *from.add_parcels();
  parcel.set_dtype(pb::U8);
  parcel.add_extent(runs), parcel.add_extent(run);
  parcel.add_stride(2 * run), parcel.add_stride(1);
  return Shipment(from, {}, slots.data());
}

}  // namespace oneflow::testing
