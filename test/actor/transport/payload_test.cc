#include "actor/transport/payload.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/transport/every_second_run.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(OutgoingPayloadTest, IsItsPiecesOneBehindTheOther) {
  std::mt19937 random(3);
  for (const auto& [runs, run] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {1, 1000}, {7, 33}, {64, 10}, {200, 3}, {5, 20000}}) {
    std::string slot(2 * runs * run, '\0'), expected;
    for (char& c : slot) c = static_cast<char>(random());
    for (int64_t r = 0; r < runs; ++r) expected += slot.substr(2 * r * run, run);
    for (const int64_t most : {1, 32, 33, 100, 5000, 50000}) {
      SCOPED_TRACE(absl::StrCat(runs, " runs of ", run, " in pieces of ", most));
      const Shipment shipment = Every2nd(runs, run, slot);
      OutgoingPayload payload(shipment, 0);
      std::string got;
      for (bool is_last = false; !is_last;) {
        const OutgoingPayload::Piece piece = payload.Next(most);
        ASSERT_EQ(piece.offset, static_cast<int64_t>(got.size()));
        for (const Shipment::Run x : piece.runs) got.append(x.data(), x.size());
        ASSERT_LE(static_cast<int64_t>(got.size()), piece.offset + most);
        is_last = piece.is_last;
      }
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(OutgoingPayloadTest, ShortRunsArePackedAndLongOnesStayWhereTheyAre) {
  for (const int64_t run : {33, 20000}) {
    const std::string slot(2 * 5 * run, 'x');
    const Shipment shipment = Every2nd(5, run, slot);
    OutgoingPayload payload(shipment, 0);
    const OutgoingPayload::Piece piece = payload.Next(1 << 20);
    EXPECT_EQ(piece.runs.size(), run == 33 ? 1u : 5u);
    EXPECT_EQ(piece.runs[0].data() == slot.data(), run == 20000);
  }
}

// Rows of a hundred groups, every third of which is full, then a number at its place.
TEST(OutgoingPayloadTest, LeavesOutRowsThatAreNotFilled) {
  for (const int64_t columns : {3, 4}) {  // of four: then rows are many runs, or one
    pb::Shipment from;
    pb::Parcel &rows = *from.add_parcels(), &number = *from.add_parcels();
    rows.set_dtype(pb::U8);
    for (const int64_t extent : {int64_t{100}, int64_t{5}, columns}) rows.add_extent(extent);
    for (const int64_t stride : {20, 4, 1}) rows.add_stride(stride);
    rows.mutable_counts()->add_stride(1);
    number.set_dtype(pb::I64);
    number.set_offset(2000);
    std::string slot(2008, '\0');
    for (size_t i = 0; i < slot.size(); ++i) slot[i] = static_cast<char>(i % 251);
    std::vector<int32_t> counts(100, 0);
    for (size_t g = 0; g < 100; g += 3) counts[g] = 5;
    std::string expected;
    for (size_t g = 0; g < 100; g += 3) {
      for (size_t row = 0; row < 5; ++row) expected += slot.substr(20 * g + 4 * row, columns);
    }
    const int64_t filled = static_cast<int64_t>(expected.size()), place = ParcelOffset(500 * columns);
    const Shipment::Counts its{reinterpret_cast<const char*>(counts.data())};
    Shipment shipment(from, {}, slot.data());
    shipment.CountRows(0, its);
    for (const int64_t most : {7, 100, 100000}) {
      SCOPED_TRACE(absl::StrCat(columns, " columns in pieces of ", most));
      OutgoingPayload payload(shipment, 0);
      EXPECT_EQ(payload.num_bytes(), filled + 8);
      std::string got(place + 8, 'x');
      int64_t pieces = 0;
      for (bool is_last = false; !is_last; ++pieces) {
        const OutgoingPayload::Piece piece = payload.Next(most);
        int64_t end = piece.offset;
        for (const Shipment::Run x : piece.runs) got.replace(end, x.size(), x.data(), x.size()), end += x.size();
        is_last = piece.is_last;
      }
      EXPECT_EQ(got.substr(0, filled), expected);
      EXPECT_EQ(got.substr(filled, place - filled), std::string(place - filled, 'x'));
      EXPECT_EQ(got.substr(place), slot.substr(2000));
      EXPECT_EQ(pieces, (filled + most - 1) / most + (8 + most - 1) / most);
    }
  }
}

TEST(ArrivingPayloadsTest, AreCompleteWithTheirLastPiece) {
  ArrivingPayloads arriving;
  const Message one{Message::Kind::kFilled, 0, 0, 1, 1, 0}, two{Message::Kind::kFilled, 0, 0, 1, 1, 1};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(arriving.Add(0, 1, one, 164, 36, 100, 200).value(), false);
    EXPECT_EQ(arriving.Add(0, 1, two, 0, 0, 0, 0).value(), true);
    EXPECT_EQ(arriving.Add(0, 1, one, 0, 64, 100, 200).value(), true);
  }
}

TEST(ArrivingPayloadsTest, PiecesBeyondTheEndAreNonsense) {
  ArrivingPayloads arriving;
  const Message message{Message::Kind::kFilled, 0, 0, 1, 1, 0};
  const auto add = [&](int64_t offset, int64_t num_bytes) {
    return arriving.Add(0, 1, message, offset, num_bytes, /*of_bytes=*/100, /*room=*/120).status();
  };
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of 120; "));
  EXPECT_THAT(add(-1, 10), refused);
  EXPECT_THAT(add(115, 10), refused);
  EXPECT_THAT(add(0, 121), refused);
  EXPECT_THAT(add(0, 101), refused) << "more than is to come";
  ASSERT_OK(add(0, 60));
  EXPECT_THAT(add(60, 60), refused) << "40 are left";
}

}  // namespace
}  // namespace oneflow
