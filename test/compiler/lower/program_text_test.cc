#include "compiler/lower/program_text.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

// An actor on `rank` that acts `acts` times a step; its number.
int AddActor(pb::Plan& plan, int rank, int acts) {
  pb::Actor& actor = *plan.add_actors();
  actor.set_rank(rank);
  actor.set_acts_per_step(acts);
  return plan.actors_size() - 1;
}

// One that `producer` fills once in `acts_per_slot` acts.
pb::Register& AddRegister(pb::Plan& plan, int producer, int acts_per_slot, const std::vector<int>& consumers) {
  pb::Port& port = *plan.mutable_actors(producer)->add_outputs();
  port.set_register_(plan.registers_size());
  port.set_acts_per_slot(acts_per_slot);
  pb::Register& reg = *plan.add_registers();
  reg.set_producer(producer);
  reg.mutable_consumers()->Add(consumers.begin(), consumers.end());
  return reg;
}

void AddParcel(pb::Shipment& shipment, DType dtype, int64_t elements) {
  pb::Parcel& parcel = *shipment.add_parcels();
  parcel.set_dtype(static_cast<pb::DType>(dtype));
  parcel.add_extent(elements);
}

// Ranks 0 and 1 are two processes of a host, 2 and 3 a process each of another.
class PredictedTrafficTest : public ::testing::Test {
 protected:
  PredictedTrafficTest() {
    for (int rank = 0; rank < 4; ++rank) {
      pb::Rank& of = *program_.add_ranks();
      of.set_process(rank);
      of.set_host(rank / 2);
      for (const int acts : {8, 1}) AddActor(plan_, rank, acts);
    }
  }
  // The actors of a rank.
  static int Often(int rank) { return 2 * rank; }
  static int Once(int rank) { return 2 * rank + 1; }

  HostTraffic Of(int process) {
    program_.set_process(process);
    return PredictedTraffic(program_, plan_);
  }
  HostTraffic OfAll() {
    program_.clear_process();
    return PredictedTraffic(program_, plan_);
  }

  pb::Program program_;
  pb::Plan plan_;
};

void Expect(const HostTraffic& traffic, int64_t payloads, int64_t pieces, int64_t messages) {
  EXPECT_EQ(traffic.payloads, payloads);
  EXPECT_EQ(traffic.pieces, pieces);
  EXPECT_EQ(traffic.messages, messages);
  EXPECT_EQ(traffic.on_the_way(), payloads + 69 * pieces + 85 * messages);
}

TEST_F(PredictedTrafficTest, WithinAHostNothingGoes) {
  AddRegister(plan_, Often(0), 1, {Once(1), Often(1)});
  Expect(OfAll(), 0, 0, 0);
}

// Filled by the producer's process, freed by the consumers'.
TEST_F(PredictedTrafficTest, ARegisterThatOnlyOrdersIsMessages) {
  AddRegister(plan_, Often(0), 4, {Often(1), Often(2), Once(3)});
  Expect(Of(0), 0, 0, 2 * 2);
  Expect(Of(1), 0, 0, 0);
  Expect(Of(2), 0, 0, 2);
  Expect(Of(3), 0, 0, 2);
  Expect(OfAll(), 0, 0, 8);
}

TEST_F(PredictedTrafficTest, APayloadSaysItselfThatASlotIsFilled) {
  pb::Register& reg = AddRegister(plan_, Often(2), 1, {Often(0), Often(1)});
  pb::Shipment& shipment = *reg.add_shipments();
  shipment.set_consumer(Often(1));
  AddParcel(shipment, DType::kFloat32, 10);
  Expect(Of(2), 8 * 40, 8, 8);  // messages: to rank 0
  Expect(Of(0), 0, 0, 8);
  Expect(Of(1), 0, 0, 8);
  Expect(OfAll(), 8 * 40, 8, 24);
}

TEST_F(PredictedTrafficTest, APieceEndsWhereItIsFullAndAtAGap) {
  const auto pieces_of = [&](const std::vector<std::pair<DType, int64_t>>& parcels) {
    plan_.clear_registers();
    pb::Shipment& shipment = *AddRegister(plan_, Once(0), 1, {Once(2)}).add_shipments();
    shipment.set_consumer(Once(2));
    for (const auto& [dtype, elements] : parcels) AddParcel(shipment, dtype, elements);
    return Of(0);
  };
  constexpr int64_t kFull = kPayloadPieceBytes / 4;
  Expect(pieces_of({{DType::kFloat32, kFull}}), 4 * kFull, 1, 0);
  Expect(pieces_of({{DType::kFloat32, kFull + 1}}), 4 * kFull + 4, 2, 0);
  Expect(pieces_of({{DType::kFloat32, 2}, {DType::kFloat32, 4}}), 24, 1, 0);
  Expect(pieces_of({{DType::kBFloat16, 3}, {DType::kFloat32, 4}}), 22, 2, 0);
  Expect(pieces_of({{DType::kBFloat16, 3}, {DType::kFloat32, 2 * kFull}, {DType::kBFloat16, 5}}), 6 + 8 * kFull + 10, 4,
         0);
  Expect(pieces_of({{DType::kFloat32, 0}}), 0, 1, 0);
}

}  // namespace
}  // namespace oneflow
