#include "actor/transport/shipments.h"

#include <array>
#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

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
    int64_t end = 0;
    shipment.ForEachRun(slot, [&](int64_t place, Shipment::Run run) {
      EXPECT_EQ(place, end) << from.DebugString();
      end += static_cast<int64_t>(run.size());
    });
    ASSERT_EQ(end, static_cast<int64_t>(expected.size())) << from.DebugString();
    std::string got(expected.size(), 'x');
    shipment.CopyTo(slot, got.data());
    EXPECT_EQ(got, expected) << from.DebugString();
  }
}

TEST(ShipmentTest, OfAWholeSlotIsOneRun) {
  pb::Shipment from;
  pb::Parcel& parcel = *from.add_parcels();
  parcel.set_dtype(pb::F32);
  for (const int64_t extent : {4, 1, 8}) parcel.add_extent(extent);
  for (const int64_t stride : {8, 8, 1}) parcel.add_stride(stride);
  int64_t runs = 0;
  const std::string slot(128, 'x');
  Shipment(from, {}, slot.data()).ForEachRun(0, [&](int64_t, Shipment::Run run) {
    EXPECT_EQ(run.size(), 128);
    ++runs;
  });
  EXPECT_EQ(runs, 1);
}

// Rows 1 to 3 of two groups, columns 1 and 2 of three; then three bytes of something else.
TEST(ShipmentTest, OfRaggedRowsHasThoseThatTheCountsOfTheirFillingSay) {
  pb::Register reg;
  reg.set_slots(2);
  reg.set_slot_stride(64);
  pb::Shipment from;
  pb::Parcel &rows = *from.add_parcels(), &other = *from.add_parcels();
  rows.set_dtype(pb::U8);
  for (const int64_t extent : {2, 3, 2}) rows.add_extent(extent);
  for (const int64_t stride : {12, 3, 1}) rows.add_stride(stride);
  rows.set_offset(4);  // of [2,4,3]
  rows.mutable_counts()->add_stride(2);
  rows.mutable_counts()->set_first_row(1);
  other.set_dtype(pb::U8);
  other.set_offset(30);
  other.add_extent(3), other.add_stride(1);
  std::string slots(128, '\0');
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<char>(i);
  // Three slots of counts at a distance of 5, each for two fillings: what is between is nobody's.
  const std::vector<std::array<int32_t, 2>> filled = {{0, 4}, {3, 1}, {2, 9}};
  std::vector<int32_t> counts(15, 3);
  for (int s = 0; s < 3; ++s) counts[5 * s] = filled[s][0], counts[5 * s + 2] = filled[s][1];
  const Shipment::Counts its{reinterpret_cast<const char*>(counts.data()), 20, 3, 2};
  Shipment shipment(from, reg, slots.data());
  shipment.CountRows(0, its);
  for (int filling = 0; filling < 13; ++filling) {
    SCOPED_TRACE(filling);
    const int slot = filling % 2;
    std::string expected(19, 'x');
    size_t end = 0;
    for (int group = 0; group < 2; ++group) {
      for (int row = 1; row < std::min(4, filled[filling / 2 % 3][group]); ++row, end += 2) {
        expected.replace(end, 2, slots.substr(64 * slot + 12 * group + 3 * row + 1, 2));
      }
    }
    expected.replace(16, 3, slots.substr(64 * slot + 30, 3));  // at its place, and nothing comes between
    std::string got(19, 'x');
    shipment.OnFilled({.slot = slot},
                      [&](const Message& message, const Shipment& of) { of.CopyTo(message.slot, got.data()); });
    EXPECT_EQ(got, expected);
  }
}

// Of two slots, each with a row or none; one slot of counts, which a variable's may be, goes with two of them.
TEST(ShipmentTest, OfRaggedRowsWaitsForTheirCounts) {
  pb::Register reg;
  pb::Shipment counts_from, rows_from;
  pb::Parcel& of_counts = *counts_from.add_parcels();
  of_counts.set_dtype(pb::I32);
  pb::Parcel& of_rows = *rows_from.add_parcels();
  of_rows.set_dtype(pb::U8);
  of_rows.add_extent(1), of_rows.add_stride(1);
  of_rows.mutable_counts();
  const char slots[] = "rs";
  int32_t count = 1;
  const char* const counted = reinterpret_cast<const char*>(&count);
  for (const int initial : {0, 1}) {
    Shipment counts(counts_from, reg, counted);
    const Shipment::Counts its{.slots = counted, .fillings = 2, .initial = initial, .shipment = &counts};
    Shipment rows(rows_from, reg, slots);
    rows.CountRows(0, its);
    EXPECT_TRUE(counts.is_counted() && rows.is_counted());
    std::vector<int> sent;
    const auto fill = [&](Shipment& shipment, int slot) {
      sent.clear();
      shipment.OnFilled({.register_id = &shipment == &rows ? 1 : 0, .slot = slot},
                        [&](const Message& message, const Shipment& of) {
                          int64_t bytes = 0;
                          of.ForEachRun(0, [&](int64_t, Shipment::Run run) { bytes += run.size(); });
                          EXPECT_EQ(bytes, message.register_id == 1 ? count : 4);
                          sent.push_back(10 * message.register_id + message.slot);
                        });
      return sent;
    };
    if (initial == 0) {
      EXPECT_THAT(fill(rows, 0), IsEmpty());
      EXPECT_THAT(fill(rows, 1), IsEmpty());
      EXPECT_THAT(fill(counts, 0), ElementsAre(0, 10, 11));
    } else {
      EXPECT_THAT(fill(rows, 0), ElementsAre(10));
      EXPECT_THAT(fill(rows, 1), ElementsAre(11));
    }
    EXPECT_THAT(fill(rows, 2), IsEmpty());
    count = 0;
    EXPECT_THAT(fill(counts, 0), ElementsAre(0, 12));
    EXPECT_THAT(fill(rows, 3), ElementsAre(13));
    count = 1;
  }
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
