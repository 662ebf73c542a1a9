#include "compiler/explain/html.h"

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "test/compiler/explain/example.h"
#include "test/support/names.h"

namespace oneflow::testing {
namespace {

using nlohmann::json;

// What the page carries for its program.
json DataOf(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(HtmlTest, ThePageNeedsNothingFromElsewhere) {
  const std::string page = ExplainAsHtml(ExampleFacts());
  for (const char* outside : {"src=", "href=", "@import", "url(", "fetch(\"", "https:"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  }
}

TEST(HtmlTest, CarriesEveryNodeWithItsExplanation) {
  const JobFacts job = ExampleFacts();
  const json graph = DataOf(ExplainAsHtml(job)).at("graphs").at(0);
  const size_t num_boxings = NamesOf(job.graphs[0].boxed, "boxing").size();
  ASSERT_EQ(graph.at("nodes").size(), job.graphs[0].boxed.num_nodes() - num_boxings);
  for (const json& node : graph.at("nodes")) {
    EXPECT_THAT(node.at("x").get<std::string>(), HasSubstr(node.at("n").get<std::string>()));
  }
}

TEST(HtmlTest, EdgesNameTheBoxingsOnTheWay) {
  const JobFacts job = ExampleFacts();
  const json graph = DataOf(ExplainAsHtml(job)).at("graphs").at(0);
  bool found = false;
  for (const json& edge : graph.at("edges")) {
    const std::string from = graph.at("nodes").at(edge[0].get<int>()).at("n");
    const std::string to = graph.at("nodes").at(edge[1].get<int>()).at("n");
    if (from != "down/matmul" || to != "losses") continue;
    found = true;
    ASSERT_EQ(edge[2].size(), 1);
    const json& boxing = graph.at("boxings").at(edge[2][0].get<int>());
    EXPECT_EQ(boxing.at("n"), "down/matmul");
    EXPECT_EQ(boxing.at("k"), "all-reduce");
    EXPECT_EQ(boxing.at("w"), "(S(0),P) -> (S(0),B)");
  }
  EXPECT_TRUE(found);
}

TEST(HtmlTest, EveryGraphSaysItsMesh) {
  JobFacts job = ExampleFacts();
  EXPECT_EQ(DataOf(ExplainAsHtml(job)).at("graphs").at(0).at("mesh"), "dp 2 x tp 2");
  job.options.meshes.emplace("train", PlanMesh(*Mesh::Create({{"tp", 4}})));
  EXPECT_EQ(DataOf(ExplainAsHtml(job)).at("graphs").at(0).at("mesh"), "tp 4");
}

TEST(HtmlTest, NamesCannotEndTheScript) {
  EXPECT_EQ(JsonString("a\"b\\c\n</script>&"), "\"a\\\"b\\\\c\\u000a\\u003c/script\\u003e\\u0026\"");
  JobFacts job = ExampleFacts();
  job.options.job = "</script><script>alert(1)";
  const std::string page = ExplainAsHtml(job);
  EXPECT_FALSE(absl::StrContains(page, "</script><script>alert"));
  EXPECT_EQ(DataOf(page).at("job"), job.options.job);
}

}  // namespace
}  // namespace oneflow::testing
