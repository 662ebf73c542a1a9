#include "tools/job/device_table.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/device_table.pb.h"
#include "tools/job/first_error.h"
#include "tools/job/read_text.h"

namespace oneflow {
namespace {

absl::StatusOr<Link> LinkOf(const pb::LinkSpeed& link, absl::string_view field) {
  if (!(link.bytes_per_s() > 0) || !std::isfinite(link.bytes_per_s()) || !(link.latency_us() >= 0) ||
      !std::isfinite(link.latency_us())) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", link.latency_us(), " us and ", link.bytes_per_s(), " bytes per second are no link"));
  }
  return Link{link.latency_us() * 1e-6, 1 / link.bytes_per_s()};
}

absl::StatusOr<std::vector<Efficiency>> EfficiencyOf(const google::protobuf::RepeatedPtrField<pb::Efficiency>& rows,
                                                     absl::string_view field) {
  std::vector<Efficiency> table;
  for (const pb::Efficiency& row : rows) {
    const bool ascends = table.empty() ? row.from() == 0 : row.from() > table.back().from && std::isfinite(row.from());
    if (!ascends || !(row.share() > 0 && row.share() <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": row ", table.size(), " is a share of ", row.share(),
                                                     " from ", row.from(),
                                                     " on, but rows ascend from 0 and shares are in (0, 1]"));
    }
    table.push_back({row.from(), row.share()});
  }
  return table;
}

absl::StatusOr<DeviceSpeeds> Row(const pb::DeviceSpeeds& row) {
  if (row.device() != "cpu" && row.device() != "cuda")
    return absl::InvalidArgumentError(absl::StrCat("device: '", row.device(), "' is neither 'cpu' nor 'cuda'"));
  for (const auto& [field, value] : {std::pair("f32_flops", row.f32_flops()),
                                     {"bf16_flops", row.bf16_flops()},
                                     {"f16_flops", row.f16_flops()},
                                     {"memory_bytes_per_s", row.memory_bytes_per_s()}}) {
    if (!(value > 0) || !std::isfinite(value))
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is not a finite number > 0"));
  }
  if (!(row.act_us() >= 0) || row.memory_bytes() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("act_us ", row.act_us(), ", memory_bytes ", row.memory_bytes(), ": neither may be negative"));
  }
  DeviceSpeeds speeds{row.kind(), row.device() == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda};
  speeds.f32_flops = row.f32_flops();
  speeds.bf16_flops = row.bf16_flops();
  speeds.f16_flops = row.f16_flops();
  speeds.memory_bytes_per_s = row.memory_bytes_per_s();
  speeds.memory_bytes = row.memory_bytes();
  speeds.act_s = row.act_us() * 1e-6;
  OF_ASSIGN_OR_RETURN(speeds.same_process, LinkOf(row.within_process(), "within_process"));
  OF_ASSIGN_OR_RETURN(speeds.same_host, LinkOf(row.within_host(), "within_host"));
  if (row.has_host_tier()) {
    OF_ASSIGN_OR_RETURN(speeds.host_tier, LinkOf(row.host_tier(), "host_tier"));
  }
  if (row.has_disk_tier()) {
    OF_ASSIGN_OR_RETURN(speeds.disk_tier, LinkOf(row.disk_tier(), "disk_tier"));
  }
  OF_ASSIGN_OR_RETURN(speeds.product_efficiency, EfficiencyOf(row.product_efficiency(), "product_efficiency"));
  OF_ASSIGN_OR_RETURN(speeds.memory_efficiency, EfficiencyOf(row.memory_efficiency(), "memory_efficiency"));
  speeds.hides_memory = !row.memory_on_top();
  return speeds;
}

void Write(const Link& link, pb::LinkSpeed& out) {
  out.set_latency_us(link.alpha_s * 1e6);
  out.set_bytes_per_s(1 / link.beta_s_per_byte);
}

void Write(const std::vector<Efficiency>& table, google::protobuf::RepeatedPtrField<pb::Efficiency>& out) {
  for (const Efficiency& row : table) {
    pb::Efficiency& written = *out.Add();
    written.set_from(row.from);
    written.set_share(row.share);
  }
}

}  // namespace

absl::StatusOr<std::vector<DeviceSpeeds>> ReadDeviceTable(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("device table", path));
  pb::DeviceTable table;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &table))
    return absl::InvalidArgumentError(absl::StrCat("device table '", path, "':", error.line(), ": ", error.message()));
  std::vector<DeviceSpeeds> result;
  std::set<std::string> kinds;
  for (const pb::DeviceSpeeds& row : table.devices()) {
    const std::string where = absl::StrCat("device table '", path, "': '", row.kind(), "'");
    if (row.kind().empty() || !kinds.insert(row.kind()).second)
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", row.kind().empty() ? "has no name" : "comes twice"));
    OF_ASSIGN_OR_RETURN_AT(result.emplace_back(), Row(row), where);
  }
  if (result.empty()) return absl::InvalidArgumentError(absl::StrCat("device table '", path, "': has no rows"));
  return result;
}

std::string DeviceTableText(const std::vector<DeviceSpeeds>& table) {
  pb::DeviceTable out;
  for (const DeviceSpeeds& speeds : table) {
    pb::DeviceSpeeds& row = *out.add_devices();
    row.set_kind(speeds.kind);
    row.set_device(speeds.device == DeviceKind::kCpu ? "cpu" : "cuda");
    row.set_f32_flops(speeds.f32_flops);
    row.set_bf16_flops(speeds.bf16_flops);
    row.set_f16_flops(speeds.f16_flops);
    row.set_memory_bytes_per_s(speeds.memory_bytes_per_s);
    row.set_memory_bytes(speeds.memory_bytes);
    row.set_act_us(speeds.act_s * 1e6);
    Write(speeds.same_process, *row.mutable_within_process());
    Write(speeds.same_host, *row.mutable_within_host());
    Write(speeds.host_tier, *row.mutable_host_tier());
    Write(speeds.disk_tier, *row.mutable_disk_tier());
    Write(speeds.product_efficiency, *row.mutable_product_efficiency());
    Write(speeds.memory_efficiency, *row.mutable_memory_efficiency());
    row.set_memory_on_top(!speeds.hides_memory);
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(out, &text);
  return text;
}

}  // namespace oneflow
