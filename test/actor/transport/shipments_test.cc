#include "actor/transport/shipments.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace oneflow {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The parcels' elements one by one, as the payload has them.
std::string Gathered(const pb::Shipment& shipment, const std::string& slot) {
  std::string payload;
  for (const pb::Parcel& parcel : shipment.parcels()) {
    payload.resize(ParcelOffset(static_cast<int64_t>(payload.size())));
    const size_t size = SizeOf(static_cast<DType>(parcel.dtype()));
    std::vector<int64_t> at(parcel.extent_size(), 0);
    int64_t count = 1;
    for (const int64_t extent : parcel.extent()) count *= extent;
    for (; count > 0; --count) {
      int64_t offset = 0;
      for (int d = 0; d < parcel.extent_size(); ++d) offset += at[d] * parcel.stride(d);
      payload += slot.substr(parcel.offset() + offset * static_cast<int64_t>(size), size);
      for (int d = parcel.extent_size(); d-- > 0;) {
        if (++at[d] < parcel.extent(d)) break;
        at[d] = 0;
      }
    }
  }
  return payload;
}

TEST(ShipmentTest, HasTheElementsOfItsBoxesInTheirOrder) {
  const uint32_t seed = 4;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto pick = [&](int least, int most) { return least + static_cast<int>(random() % (most - least + 1)); };
  for (int round = 0; round < 300; ++round) {
    pb::Register reg;
    reg.set_slots(3);
    reg.set_slot_bytes(4096);
    reg.set_slot_stride(4096);
    std::string slots(3 * 4096, '\0');
    for (char& c : slots) c = static_cast<char>(random());
    pb::Shipment from;
    for (int p = pick(0, 3); p > 0; --p) {
      pb::Parcel& parcel = *from.add_parcels();
      parcel.set_dtype(std::vector<pb::DType>{pb::F32, pb::BF16, pb::U8, pb::I64}[pick(0, 3)]);
      int64_t stride = 1;
      std::vector<int64_t> extent, strides;
      for (int d = pick(0, 3); d > 0; --d) {
        const int dim = pick(1, 5);
        extent.insert(extent.begin(), pick(0, dim));
        strides.insert(strides.begin(), stride);
        stride *= dim;
      }
      parcel.mutable_extent()->Add(extent.begin(), extent.end());
      parcel.mutable_stride()->Add(strides.begin(), strides.end());
      parcel.set_offset(pick(0, 64) * static_cast<int64_t>(SizeOf(static_cast<DType>(parcel.dtype()))));
    }
    const Shipment shipment(from, reg, slots.data());
    const int slot = pick(0, 2);
    const std::string expected = Gathered(from, slots.substr(slot * 4096, 4096));
    ASSERT_EQ(shipment.num_bytes(), static_cast<int64_t>(expected.size())) << from.DebugString();
    std::string got(expected.size(), 'x');
    shipment.CopyTo(slot, got.data());
    EXPECT_EQ(got, expected) << from.DebugString();
    int64_t runs = 0;
    shipment.ForEachRun(slot, [&](Shipment::Run run) { runs += run.empty() ? 0 : 1; });
    EXPECT_EQ(runs, shipment.num_runs());
  }
}

TEST(ShipmentTest, OfAWholeSlotIsOneRun) {
  pb::Shipment from;
  pb::Parcel& parcel = *from.add_parcels();
  parcel.set_dtype(pb::F32);
  for (const int64_t extent : {4, 1, 8}) parcel.add_extent(extent);
  for (const int64_t stride : {8, 8, 1}) parcel.add_stride(stride);
  EXPECT_EQ(Shipment(from, {}, nullptr).num_runs(), 1);
}

TEST(LandingTest, TellsOfSlotsInTheirTurnThoughTheyOvertake) {
  pb::Register reg;
  reg.set_slots(3);
  reg.set_initially_filled(1);
  char memory[64];
  Landing landing({}, reg, memory);
  const auto after = [&](int slot) {
    std::vector<int> filled;
    landing.OnArrived({.slot = slot}, [&](const Message& message) { filled.push_back(message.slot); });
    return filled;
  };
  EXPECT_THAT(after(2), IsEmpty());
  EXPECT_THAT(after(1), ElementsAre(1, 2));
  EXPECT_THAT(after(0), ElementsAre(0));
}

}  // namespace
}  // namespace oneflow
