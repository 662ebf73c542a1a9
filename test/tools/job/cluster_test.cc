#include "tools/job/cluster.h"

#include "sbp/device_kinds.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/tools/job/good_config.h"
#include "tools/job/device_table.h"

namespace oneflow {
namespace {

TEST(ClusterTest, WithoutHostsThereIsOneThatHasRoomForAll) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith("mesh { dp: 6 } cluster { device: 'cuda' }"));
  EXPECT_OK(ValidateConfig(config));
  ASSERT_OK_AND_ASSIGN(const std::vector<HostGroup> hosts, HostsOf(config));
  ASSERT_THAT(hosts, SizeIs(1));
  EXPECT_EQ(hosts[0].devices, 6);
  EXPECT_EQ(hosts[0].device.kind, "h100-sxm") << "no processor's constants for a GPU";
}

TEST(ClusterTest, LikeHostsAreSaidOnce) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith(R"(mesh { dp: 64 tp: 8 } cluster {
    device: 'cuda' processes: 64 device_kind: 'h200-sxm'
    hosts { count: 63 cores: 192 memory_bytes: 2000000000000 nics { link: 'infiniband' count: 8 }
            nics { link: 'ethernet' } }
    hosts { device_memory_bytes: 100000000000 nics { link: 'ethernet' gbit_per_s: 25 latency_us: 30 } }
  })"));
  EXPECT_OK(ValidateConfig(config));
  ASSERT_OK_AND_ASSIGN(const std::vector<HostGroup> hosts, HostsOf(config));
  ASSERT_THAT(hosts, SizeIs(2));
  EXPECT_EQ(hosts[0].count, 63);
  EXPECT_EQ(hosts[0].devices, 8) << "the mesh's 512 over 64 hosts";
  EXPECT_EQ(hosts[0].device.memory_bytes, FindDevice(KnownDevices(), "h200-sxm")->memory_bytes);
  EXPECT_EQ(hosts[1].device.memory_bytes, 100000000000);
  ASSERT_OK_AND_ASSIGN(const Topology topology, Topology::Create(512, 8, hosts));
  EXPECT_DOUBLE_EQ(topology.HostBeta(0, 8), 8 / 400e9 / 8);
  EXPECT_DOUBLE_EQ(topology.LinkBetween(0, 511).beta_s_per_byte, 8 / 10e9) << "the slower of both cards";
}

TEST(ClusterTest, WhatDoesNotFitIsOneClearErrorEach) {
  TestDir dir;
  const std::string bad = dir.Write("bad", "devices { kind: 'x' device: 'gpu' }");
  const struct {
    std::string text;
    std::vector<std::string> message;
  } kCases[] = {
      {"mesh { dp: 8 } cluster { hosts { devices: 4 } }", {"cluster.hosts", "8 ranks", "the 1 host has 4 devices"}},
      {"mesh { dp: 9 } cluster { hosts { count: 3 devices: 2 } }", {"9 ranks", "the 3 hosts have 6 devices"}},
      {"mesh { dp: 2 } cluster { hosts { devices: 0 } }", {"cluster.hosts[0].devices: 0 is not positive"}},
      {"mesh { dp: 2 } cluster { hosts { } hosts { devices: -4 } }", {"cluster.hosts[1].devices: -4 is not positive"}},
      {"mesh { dp: 2 } cluster { hosts { count: 0 } }", {"cluster.hosts[0].count: 0 is not positive"}},
      {"mesh { dp: 2 } cluster { hosts { cores: -1 } }", {"cluster.hosts[0].cores: -1 is negative"}},
      {"mesh { dp: 2 } cluster { hosts { memory_bytes: -1 } }", {"cluster.hosts[0].memory_bytes: -1 is negative"}},
      {"mesh { dp: 2 } cluster { hosts { count: 2000000 devices: 2000 } }",
       {"2000000 hosts of 2000 devices are more than 2^31 devices"}},
      {"mesh { dp: 2 } cluster { hosts { count: 2147483647 } hosts { count: 2147483647 } }",
       {"4294967294 devices, more than 2^31"}},
      {"mesh { dp: 4096 tp: 4096 }", {"16777216 devices, at most 4096"}},
      {"mesh { dp: 4 } cluster { hosts { nics { link: 'token-ring' } } }",
       {"group 0", "'token-ring' is none of the link classes 'ethernet', 'roce', 'infiniband'"}},
      {"mesh { dp: 4 } cluster { hosts { nics { link: 'roce' count: 0 } } }",
       {"cluster.hosts[0].nics[0].count: 0 is not positive"}},
      {"mesh { dp: 4 } cluster { hosts { nics { link: 'roce' gbit_per_s: 0 } } }",
       {"nics[0].gbit_per_s: 0 is not a finite number > 0"}},
      {"mesh { dp: 4 } cluster { hosts { nics { link: 'roce' latency_us: nan } } }",
       {"nics[0].latency_us: nan is not a finite number >= 0"}},
      {"mesh { dp: 4 } cluster { hosts { nics { link: 'roce' } } hosts { nics { link: 'infiniband' } } }",
       {"group 0", "group 1", "have no class of network cards in common"}},
      {"mesh { dp: 6 } cluster { processes: 2 hosts { count: 3 devices: 2 } }",
       {"group 0: 2 devices do not divide among processes of 3", "cannot lie on two hosts"}},
      {"mesh { dp: 2 } cluster { device_kind: 'b9000' }",
       {"cluster.device_kind", "'b9000'", "cpu, a100-sxm, h100-sxm"}},
      {"mesh { dp: 2 } cluster { device_kind: 'h100-sxm' }",
       {"'h100-sxm' is a cuda device, but cluster.device is 'cpu'"}},
      {"mesh { dp: 2 } cluster { hosts { device_kind: 'x' } }", {"cluster.hosts: group 0: 'x' is no kind of device"}},
      {"mesh { dp: 2 } cluster { device_table: '/nowhere/table' }", {"cluster.device_table", "'/nowhere/table'"}},
      {"mesh { dp: 2 } cluster { device_table: '" + bad + "' }", {"'x': device: 'gpu' is neither 'cpu' nor 'cuda'"}},
      {"mesh { dp: 2 } cluster { device: 'cuda' variable_bytes_per_device: 99000000000 }",
       {"99000000000 bytes are more than the 85899345920 bytes of a 'h100-sxm'"}},
      {"mesh { dp: 2 } cluster { device: 'cuda' memory_bytes_per_device: 99000000000 }",
       {"cluster.memory_bytes_per_device: 99000000000 bytes are more than the 85899345920 bytes of a 'h100-sxm'"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    ASSERT_OK_AND_ASSIGN(const SourcedConfig config, GoodConfigWith(c.text));
    const absl::Status status = ValidateConfig(config);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("j.pbtxt:3: "));
    for (const std::string& part : c.message) EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

TEST(DeviceTableTest, ATableIsReadAsItWasWritten) {
  TestDir dir;
  const std::string path = dir.Write("table", DeviceTableText(KnownDevices()));
  ASSERT_OK_AND_ASSIGN(const std::vector<DeviceSpeeds> table, ReadDeviceTable(path));
  ASSERT_EQ(table.size(), KnownDevices().size());
  for (size_t i = 0; i < table.size(); ++i) {
    const DeviceSpeeds &read = table[i], &known = KnownDevices()[i];
    EXPECT_EQ(read.kind, known.kind);
    EXPECT_EQ(read.device, known.device);
    EXPECT_EQ(read.bf16_flops, known.bf16_flops);
    EXPECT_EQ(read.memory_bytes, known.memory_bytes);
    EXPECT_DOUBLE_EQ(read.act_s, known.act_s);
    EXPECT_DOUBLE_EQ(read.same_host.alpha_s, known.same_host.alpha_s);
    EXPECT_DOUBLE_EQ(read.same_host.beta_s_per_byte, known.same_host.beta_s_per_byte);
    EXPECT_EQ(read.hides_memory, known.hides_memory);
    for (const double size : {0.0, 1e5, 2e6, 5e7, 2e8, 1e9, 2e10, 1e12}) {
      EXPECT_EQ(ShareAt(read.product_efficiency, size), ShareAt(known.product_efficiency, size));
      EXPECT_EQ(ShareAt(read.memory_efficiency, size), ShareAt(known.memory_efficiency, size));
    }
  }
}

TEST(DeviceTableTest, WhatIsNoTableIsRefusedWithRowAndField) {
  TestDir dir;
  std::string good = DeviceTableText({KnownDevices()[0]});
  const auto replaced = [&](const std::string& a, const std::string& b) {
    std::string text = good;
    return text.replace(text.find(a), a.size(), b);
  };
  const struct {
    std::string text, message;
  } kCases[] = {
      {"", "has no rows"},
      {"devices {\n  king: 'x' }", ":2: "},
      {good + good, "'cpu': comes twice"},
      {replaced("kind: \"cpu\"", ""), "has no name"},
      {replaced("f32_flops: 50000000000", "f32_flops: 0"), "'cpu': f32_flops: 0 is not"},
      {replaced("memory_bytes_per_s: 20000000000", "memory_bytes_per_s: nan"), "memory_bytes_per_s: nan is not"},
      {replaced("latency_us: 30", "latency_us: -30"), "within_host: -30 us"},
      {replaced("act_us: ", "act_us: -"), "neither may be negative"},
      {replaced("act_us: ", "product_efficiency { from: 1 share: 1 } act_us: "), "product_efficiency: row 0 is"},
      {replaced("act_us: ", "memory_efficiency { share: 1.5 } act_us: "), "memory_efficiency: row 0 is a share of 1.5"},
  };
  for (const auto& c : kCases) {
    EXPECT_THAT(ReadDeviceTable(dir.Write("table", c.text)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text;
  }
  EXPECT_THAT(ReadDeviceTable(dir.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none': cannot open: No such")));
}

}  // namespace
}  // namespace oneflow
