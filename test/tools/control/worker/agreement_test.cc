#include "tools/control/worker/agreement.h"

#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

TEST(AgreementTest, AMessageThatIsNotUtf8ArrivesWithItsCause) {
  const absl::Status status =
      absl::DataLossError("weight file 'w\xff': tensor '\xc3': it is missing, gr\xc3\xbc\xc3\x9f");
  pb::WorkerFailed told;
  ASSERT_TRUE(told.ParseFromString(ToProto(status).SerializeAsString()));
  EXPECT_THAT(FromProto(told), StatusIs(absl::StatusCode::kDataLoss,
                                        "weight file 'w\\xff': tensor '\\xc3': it is missing, gr\xc3\xbc\xc3\x9f"));
}

}  // namespace
}  // namespace oneflow
