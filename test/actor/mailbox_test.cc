#include "actor/mailbox.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(MailboxTest, GivesOutAllMailInOrder) {
  Mailbox<int> mailbox;
  EXPECT_FALSE(mailbox.HasMail());
  mailbox.Push(1);
  mailbox.Push(2);
  EXPECT_TRUE(mailbox.HasMail());
  std::vector<int> mail = {9};
  mailbox.TakeAll(mail);
  EXPECT_THAT(mail, ElementsAre(1, 2));
  EXPECT_FALSE(mailbox.HasMail());
  mailbox.TakeAll(mail);
  EXPECT_THAT(mail, IsEmpty());
}

TEST(MailboxTest, LosesNothingAndKeepsEachSendersOrder) {
  constexpr int kSenders = 3, kItems = 20000;
  for (const bool looks : {false, true}) {
    Mailbox<std::pair<int, int>> mailbox;
    std::vector<std::thread> senders;
    for (int s = 0; s < kSenders; ++s) {
      senders.emplace_back([&mailbox, s] {
        for (int i = 0; i < kItems; ++i) mailbox.Push({s, i});
      });
    }
    std::vector<int> next(kSenders, 0);
    std::vector<std::pair<int, int>> mail;
    for (int received = 0; received < kSenders * kItems;) {
      for (int i = 0; looks && i < 50 && !mailbox.HasMail(); ++i) continue;
      mailbox.Wait();
      mailbox.TakeAll(mail);
      for (const auto& [sender, item] : mail) ASSERT_EQ(item, next[sender]++);
      received += static_cast<int>(mail.size());
    }
    for (std::thread& sender : senders) sender.join();
    mailbox.TakeAll(mail);  // HasMail() may be wrong until then: the last sender says so after its mail was taken
    EXPECT_THAT(mail, IsEmpty());
    EXPECT_FALSE(mailbox.HasMail());
  }
}

}  // namespace
}  // namespace oneflow
