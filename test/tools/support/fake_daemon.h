// A daemon that is played by a test, at a real scheduler.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "proto/control.grpc.pb.h"
#include "tools/control/rpc/rpc.h"

namespace oneflow::testing {

// One session of a daemon, driven message by message.
class FakeDaemon {
 public:
  // `jobs`: of which it has worker 0.
  FakeDaemon(const std::string& scheduler, const std::string& name, int devices, const std::vector<int64_t>& jobs = {})
      : stub_(pb::Scheduler::NewStub(OpenChannel(scheduler))) {
    context_.set_wait_for_ready(true);  // a busy machine may take longer to connect than a channel tries
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->DaemonSession(&context_);
    pb::FromDaemon message;
    message.mutable_hello()->set_name(name);
    message.mutable_hello()->set_host("h");
    message.mutable_hello()->set_memory("m");
    message.mutable_hello()->set_pid(12);
    message.mutable_hello()->set_cpu_devices(devices);
    message.mutable_hello()->set_incarnation(12);
    for (const int64_t job : jobs) {
      pb::RunningWorker& running = *message.mutable_hello()->add_workers();
      running.set_job(job);
      running.set_attempt(1);
      running.set_started(true);
    }
    stream_->Write(message);
  }
  ~FakeDaemon() { Hang(); }

  pb::ToDaemon Read() {
    pb::ToDaemon message;
    EXPECT_TRUE(stream_->Read(&message));
    return message;
  }
  void Write(const pb::FromDaemon& message) { EXPECT_TRUE(stream_->Write(message)); }
  void Say(int64_t job, const pb::FromWorker& said) {
    pb::FromDaemon message;
    message.mutable_report()->set_job(job);
    message.mutable_report()->set_attempt(1);
    *message.mutable_report()->mutable_message() = said;
    Write(message);
  }
  // Reads until the job's worker is to be started, and says its hello.
  void StartWorker(int64_t job) {
    EXPECT_EQ(Read().start().job(), job);
    pb::FromWorker hello;
    hello.mutable_hello()->set_pid(100);
    hello.mutable_hello()->set_peer_address("a:0");
    Say(job, hello);
    EXPECT_TRUE(Read().to_worker().message().has_start());
  }
  void Hang() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    stream_->Finish();
    stream_ = nullptr;
  }
  // How the scheduler ended the session.
  absl::Status End() {
    pb::ToDaemon message;
    while (stream_->Read(&message)) {
    }
    const absl::Status end = FromGrpc(stream_->Finish());
    stream_ = nullptr;
    return end;
  }

 private:
  std::unique_ptr<pb::Scheduler::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::FromDaemon, pb::ToDaemon>> stream_;
};

}  // namespace oneflow::testing
