#include "tools/cli/command.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

RunFunction DeclareCount(CLI::App& app, ParsedArguments& arguments) {
  int& number = arguments.New<int>(7);
  app.add_option("--number", number);
  return [&number] { return number; };
}

RunFunction DeclareAsked(CLI::App& app, ParsedArguments& arguments) {
  app.add_option("--scheduler", arguments.scheduler().address);
  return [&arguments] { return static_cast<int>(arguments.scheduler().address.size()); };
}

// A command line of a command, a name for commands, a command that has one, and one that is not for people.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    app_.require_subcommand(1);
    AddCommands({{"count", "count it", DeclareCount},
                 {"plans", "look at plans", nullptr, {{"show", "show one", DeclareCount}}},
                 {"list", "list all", DeclareCount, {{"one", "say more of one", DeclareAsked}}},
                 {"ask", "ask it", DeclareAsked, {{"more", "ask more of it", DeclareAsked}}},
                 {"inner", "of programs", DeclareCount, {}, /*for_people=*/false}},
                app_, arguments_, chosen_);
  }
  int Run(const std::string& line) {
    app_.parse(line);
    return chosen_();
  }

  ParsedArguments arguments_;
  RunFunction chosen_;
  CLI::App app_{"test", "test"};
};

TEST_F(CommandTest, RunsTheOneThatIsNamedWithItsOwnArguments) {
  EXPECT_EQ(Run("count"), 7);
  EXPECT_EQ(Run("count --number 3"), 3);
  EXPECT_EQ(Run("plans show --number 4"), 4);
  EXPECT_EQ(Run("inner --number 5"), 5);
}

TEST_F(CommandTest, OneThatHasCommandsLeavesTheChoiceToThem) {
  EXPECT_EQ(Run("list --number 2"), 2);
  EXPECT_EQ(Run("list one --scheduler abc"), 3);
}

TEST_F(CommandTest, ANameForCommandsNeedsOneOfThem) { EXPECT_THROW(Run("plans"), CLI::RequiredError); }

TEST_F(CommandTest, CommandsThatAskASchedulerShareItsAddress) { EXPECT_EQ(Run("ask --scheduler abcd more"), 4); }

TEST_F(CommandTest, HelpListsThemInTheirOrderAndNoneThatIsNotForPeople) {
  const std::string help = app_.help();
  EXPECT_LT(help.find("count it"), help.find("look at plans"));
  EXPECT_LT(help.find("look at plans"), help.find("list all"));
  EXPECT_THAT(help, HasSubstr("ask it"));
  EXPECT_THAT(help, Not(HasSubstr("of programs")));
}

}  // namespace
}  // namespace oneflow
