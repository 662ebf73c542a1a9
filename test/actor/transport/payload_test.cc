#include "actor/transport/payload.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::oneflow::testing::StatusIs;
using ::testing::HasSubstr;

// Bytes of a slot, every other run of so many.
Shipment RunsOf(int64_t runs, int64_t run, const std::string& slot) {
  pb::Shipment from;
  pb::Parcel& parcel = *from.add_parcels();
  parcel.set_dtype(pb::U8);
  parcel.add_extent(runs), parcel.add_extent(run);
  parcel.add_stride(2 * run), parcel.add_stride(1);
  return Shipment(from, {}, slot.data());
}

TEST(OutgoingPayloadTest, IsItsPiecesOneBehindTheOther) {
  std::mt19937 random(3);
  for (const auto& [runs, run] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {1, 1000}, {7, 33}, {64, 10}, {200, 3}}) {
    std::string slot(2 * runs * run, '\0'), expected;
    for (char& c : slot) c = static_cast<char>(random());
    for (int64_t r = 0; r < runs; ++r) expected += slot.substr(2 * r * run, run);
    for (const int64_t most : {1, 32, 33, 100, 5000}) {
      SCOPED_TRACE(absl::StrCat(runs, " runs of ", run, " in pieces of ", most));
      const Shipment shipment = RunsOf(runs, run, slot);
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

TEST(ArrivingPayloadsTest, AreCompleteWithTheirLastPiece) {
  ArrivingPayloads arriving;
  const Message one{Message::Kind::kFilled, 0, 0, 1, 1, 0}, two{Message::Kind::kFilled, 0, 0, 1, 1, 1};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(arriving.Add(0, 1, one, 64, 36, 100).value(), false);
    EXPECT_EQ(arriving.Add(0, 1, two, 0, 0, 0).value(), true);
    EXPECT_EQ(arriving.Add(0, 1, one, 0, 64, 100).value(), true);
  }
}

TEST(ArrivingPayloadsTest, PiecesBeyondTheEndAreNonsense) {
  ArrivingPayloads arriving;
  const Message message{Message::Kind::kFilled, 0, 0, 1, 1, 0};
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of 100"));
  EXPECT_THAT(arriving.Add(0, 1, message, -1, 10, 100).status(), refused);
  EXPECT_THAT(arriving.Add(0, 1, message, 95, 10, 100).status(), refused);
  EXPECT_THAT(arriving.Add(0, 1, message, 0, 101, 100).status(), refused);
  ASSERT_OK(arriving.Add(0, 1, message, 0, 60, 100).status());
  EXPECT_THAT(arriving.Add(0, 1, message, 0, 60, 100).status(), refused) << "it has come already";
}

}  // namespace
}  // namespace oneflow
