// What users get wrong, and what they read then: exit code 1 and one line that names the place and the values; exit
// code 2 for wrong usage. Nothing is said twice, nothing is left behind.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/e2e/error_cases.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

TEST(ErrorsTest, OfConfigs) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  work.Write("unknown.pbtxt", "model { gpt { layers: 2 } }\ntrian { steps: 3 }\n");
  work.Write("type.pbtxt", "train { steps: 'many' }\n");
  work.Write("cut.pbtxt", "model { gpt { layers: 2\n");
  work.Write("empty.pbtxt", "");
  ExpectErrors(
      work,
      {
          {{"run", "DIR/nowhere.pbtxt"}, "job config 'DIR/nowhere.pbtxt': cannot open: No such file or directory"},
          {{"run", "DIR/tmp"}, "job config 'DIR/tmp': is a directory"},
          {{"run", "DIR/unknown.pbtxt"}, "DIR/unknown.pbtxt:2:7: "},
          {{"run", "DIR/type.pbtxt"}, "DIR/type.pbtxt:1:16: Expected integer"},
          {{"run", "DIR/cut.pbtxt"}, "DIR/cut.pbtxt:2:1: "},
          {{"run", "DIR/empty.pbtxt"}, "model: is missing: one of mlp, gpt, convnet, "},
          {{"run", gpt, "--set", "train.stepz=3"}, "--set train.stepz=3: Train has no field 'stepz'; it has steps, "},
          {{"run", gpt, "--set", "train.steps"}, "--set train.steps: not of the form path.to.field=value"},
          {{"run", gpt, "--set", "train.steps=ten"}, "--set train.steps=ten: 'ten' is no int64"},
          {{"run", gpt, "--set", "mesh.dp=-1"}, "mesh.dp: -1 is not in [0, 4096]"},
          {{"run", gpt, "--set", "mesh={dp: 2 tp: 2}", "--cluster", "3"},
           "the job's 4 devices do not divide among 3 processes"},
          {{"run", gpt, "--set", "cluster.device=tpu"}, "cluster.device: 'tpu' is neither 'cpu' nor 'cuda'"},
          {{"run", gpt, "--set", "cluster.variable_bytes_per_device=-1"},
           "cluster.variable_bytes_per_device: -1 is negative"},
          {{"run", gpt, "--set", "cluster.variable_bytes_per_device=1000"}, "but the limit is 1000"},
          {{"run", gpt, "--set", "cluster.memory_bytes_per_device=-1"},
           "cluster.memory_bytes_per_device: -1 is negative"},
          {{"run", gpt, "--set", "cluster.memory_bytes_per_device=1000"}, "but the limit is 1000"},
          {{"run", gpt, "--set", "train.micro_batches=3"}, "batch_size 8 is not a multiple of 3 micro-batches"},
          {{"run", gpt, "--set", "model.gpt.heads=3"}, "model.gpt.heads: width 16 is not a multiple of 3 heads"},
          {{"run", gpt, "--set", "model.gpt.dropout=1.5"}, "model.gpt.dropout: 1.5 is not in [0, 1)"},
          {{"run", gpt, "--set", "model.gpt.layers=0"}, "model.gpt.layers: 0 is not in [1, 10000]"},
          {{"run", gpt, "--set", "model.gpt.layers=99999999999"}, "'99999999999' is no int32 (Integer out of range"},
          {{"run", gpt, "--set", "train.batch_size=0"}, "train.batch_size: 0 is not in [1, 262144]"},
          {{"run", gpt, "--set", "train.schedule.learning_rate=-1"}, "learning_rate: -1 is not a finite number >= 0"},
          {{"run", gpt, "--set", "train.schedule.learning_rate=nan"}, "learning_rate: nan is not a finite number >= 0"},
          {{"run", gpt, "--set", "train.optimizer.adamw.beta1=1"}, "train.optimizer.adamw.beta1: 1 is not in [0, 1)"},
          {{"run", gpt, "--set", "train.optimizer={sgd{nesterov:true}}"}, "sgd.nesterov: needs a momentum > 0"},
          {{"run", gpt, "--set", "mesh.sp=2"}, "Mesh has no field 'sp'; it has pp, dp, tp"},
          {{"run", gpt, "--set", "cluster.devices_per_process=3"},
           "1 processes of 3 devices make 3, but the job has 1"},
          {{"run", gpt, "--set", "seed=-1"}, "--set seed=-1: '-1' is no uint64"},
          {{"run", gpt, "--set", "model={convnet{channels:[4]}}"}, "the network has 2 convolutions, but 1 sizes"},
          {{"run", gpt, "--set", "data.text.validation_fraction=1"}, "validation_fraction: 1 is not in [0, 1)"},
          {{"run", gpt, "--set", "generate={tokens:5}"}, "generate.prompt: is empty; at least one byte is needed"},
          {{"run", gpt, "--set", "train.schedule.kind=step"},
           "'step' is none of 'constant', 'cosine', 'linear', 'inverse_sqrt', 'wsd', "
           "'one_cycle', 'piecewise', 'restarts'"},
          {{"compile", gpt, "--dump-after", "nothing"}, "--dump-after: there is no pass 'nothing'; there are "},
          {{"generate", gpt}, "generate: is missing"},
          {{"generate", gpt, "--prompt", "a", "--tokens", "3"}, "weights: is missing; generation starts from saved"},
          {{"generate", work.ConvNetJob(), "--prompt", "a", "--tokens", "3"}, "only a language model generates text"},
      },
      1);
}

TEST(ErrorsTest, OfGraphs) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  const std::string x = "%0:f32[2] = constant() \"x\" {dtype=\"f32\", shape=[2], value=1.0}\n";
  const std::pair<std::string, std::string> graphs[] = {
      {"%0:f32[2] = relu(%0) \"x\"\n", "line 1: expected graph \"name\" as the first line but found '%0:f32[2] = relu"},
      {"graph \"train\"\n%0:f32[2] = relu(%7) \"x\"\n", "line 2: reads %7, but only 0 values are defined before"},
      {"graph \"train\"\n%0:f99[2] = relu() \"x\"\n", "line 2: type 'f99[2]' does not begin with a dtype"},
      {"graph \"train\"\n%0:f32[3] = constant() \"x\" {dtype=\"f32\", shape=[2], value=1.0}\n",
       "line 2: node 'x' (constant): its outputs are declared as (f32[3]), but on () the op gives (f32[2])"},
      {"graph \"train\"\n%0:f32[2] = constant() \"x\" {dtype=\"f32\", shape=[2]}\n",
       "line 2: node 'x' (constant): attribute 'value' is missing"},
      {"graph \"train\"\n" + x + "%1:f32[2] = relu(%0) \"x\"\n", "line 3: the name 'x' is already taken on line 2"},
      {"graph \"train\"\n%0:f32[2] = constant() \"x\" {dtype=\"f32\", sha",
       "line 2: expected '=' after attribute 'sha'"},
      {"graph \"train\"\n" + x + "%1:f32[3] = constant() \"y\" {dtype=\"f32\", shape=[3], value=1.0}\n" +
           "%2:f32[3] = add(%0, %1) \"z\"\n",
       "line 4: node 'z' (add): shapes do not broadcast: a is [2], b is [3] (2 against 3)"},
  };
  std::vector<ErrorCase> cases;
  for (const auto& [text, message] : graphs) {
    const std::string directory = absl::StrCat("graphs", cases.size());
    std::filesystem::create_directory(work.Path(directory));
    work.Write(directory + "/train.graph", text);
    cases.push_back({{"run", gpt, "--set", absl::StrCat("model.graph=DIR/", directory)},
                     absl::StrCat("graph file 'DIR/", directory, "/train.graph': graph text, ", message)});
  }
  ExpectErrors(work, cases, 1);
}

TEST(ErrorsTest, OfServers) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  const std::string nobody = "127.0.0.1:1";  // needs a privilege to listen on, and has been out of use for decades
  ExpectErrors(
      work,
      {
          {{"jobs", "--scheduler", nobody}, "scheduler '127.0.0.1:1': cannot connect within 5s: is it running"},
          {{"submit", gpt, "--scheduler", nobody}, "scheduler '127.0.0.1:1': cannot connect"},
          {{"run", gpt, "--scheduler", nobody}, "scheduler '127.0.0.1:1': cannot connect"},
          {{"scheduler", "--address", "127.0.0.1:0", "--db", "DIR/none/db"}, "store 'DIR/none/db': cannot open"},
          {{"scheduler", "--address", "192.0.2.1:7", "--db", "DIR/db", "--insecure"}, "cannot listen on '192.0.2.1:7'"},
          {{"scheduler", "--address", "0.0.0.0:7", "--db", "DIR/db2"},
           "scheduler: '0.0.0.0:7' can be reached from other machines"},
          {{"scheduler", "--db", "DIR/db3", "--tls", "DIR/none"}, "--tls: 'DIR/none/ca.pem': cannot read"},
          {{"daemon", "--peer-host", "0.0.0.0"}, "--peer-host: '0.0.0.0' can be reached from other machines"},
          {{"daemon", "--work-dir", "/proc/none"}, "cannot make work directory '/proc/none'"},
      },
      1);
}

TEST(ErrorsTest, OfUsage) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  ExpectErrors(work,
               {
                   {{}, "'oneflow --help' shows what there is"},
                   {{"frobnicate"}, "oneflow: there is no command 'frobnicate'; 'oneflow --help'"},
                   {{"run"}, "oneflow run: job is required; 'oneflow run --help'"},
                   {{"run", gpt, "--frobnicate"}, "oneflow run: "},
                   {{"run", gpt, "--metrics"}, "oneflow run: "},
                   {{"plan"}, "oneflow plan: "},
                   {{"plan", "show"}, "oneflow plan show: file is required"},
                   {{"logs", "first"}, "oneflow logs: "},
                   {{"daemon", "--cpu-devices", "-1"}, "oneflow daemon: --cpu-devices: "},
               },
               2);
}

// Options that contradict one another, that count only beside another, or that the file named does not have.
TEST(ErrorsTest, OfOptionsThatWouldBeIgnored) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  ExpectErrors(
      work,
      {
          {{"run", gpt, "--tls", "DIR/tls"}, "--tls requires --scheduler"},
          {{"generate", gpt, "--tls", "DIR/tls"}, "--tls requires --scheduler"},
          {{"bench", "--tls", "DIR/tls"}, "--tls requires --scheduler"},
          {{"join", gpt, "--tls", "DIR/tls", "--insecure"}, "--tls excludes --insecure"},
          {{"scheduler", "--tls", "DIR/tls", "--insecure"}, "--tls excludes --insecure"},
          {{"daemon", "--tls", "DIR/tls", "--insecure"}, "--tls excludes --insecure"},
          {{"scheduler", "--allow-path", "/"}, "--allow-path requires --page"},
          {{"plan", "show", gpt, "--process", "0", "--memory"}, "--process excludes --memory"},
          {{"plan", "show", gpt, "--process", "0", "--schedule"}, "--process excludes --schedule"},
          {{"plan", "show", gpt, "--memory", "--schedule"}, "--memory excludes --schedule"},
          {{"plan", "show", gpt, "--memory", "--schedule-svg", "DIR/s"}, "--memory excludes --schedule-svg"},
          {{"plan", "show", gpt, "--process", "0", "--schedule-svg", "DIR/s"}, "--process excludes --schedule-svg"},
          {{"plan", "simulate", gpt, "--costs", "DIR/c", "--kernels", "DIR/k"}, "--costs excludes --kernels"},
          {{"plan", "simulate", gpt, "--kernels-or-roofline"}, "--kernels-or-roofline requires --kernels"},
          {{"plan", "simulate", gpt, "--seed", "3"}, "--seed requires --delay"},
          {{"plan", "simulate", gpt, "--costs", "DIR/c", "--slow", "0=2"}, "--costs excludes --slow"},
          {{"plan", "simulate", gpt, "--costs", "DIR/c", "--kill", "0@2"}, "--costs excludes --kill"},
          {{"plan", "simulate", gpt, "--costs", "DIR/c", "--delay", "2"}, "--costs excludes --delay"},
          {{"plan", "simulate", gpt, "--costs", "DIR/c", "--cluster", "DIR/h"}, "--costs excludes --cluster"},
          {{"plan", "simulate", gpt, "--kernels", "DIR/k", "--slow", "0=2"}, "--kernels excludes --slow"},
          {{"plan", "simulate", gpt, "--kernels", "DIR/k", "--kill", "0@2"}, "--kernels excludes --kill"},
          {{"plan", "simulate", gpt, "--kernels", "DIR/k", "--delay", "2"}, "--kernels excludes --delay"},
          {{"plan", "simulate", gpt, "--kernels", "DIR/k", "--cluster", "DIR/h"}, "--kernels excludes --cluster"},
          {{"jobs", "--json", "describe", "1"}, "describe excludes --json"},
          {{"jobs", "-w", "describe", "1"}, "describe excludes --watch"},
          {{"jobs", "--json", "diagnose", "1"}, "diagnose excludes --json"},
          {{"jobs", "--watch", "diagnose", "1"}, "diagnose excludes --watch"},
          {{"bench", "--rounds", "2", "device"}, "device excludes --rounds"},
          {{"bench", "--set", "train.steps=1", "kernels", gpt}, "kernels excludes --set"},
          {{"bench", "--pytorch-script", "x.py"}, "--pytorch-script requires --pytorch"},
          {{"bench", "--pytorch-modes", "eager"}, "--pytorch-modes requires --pytorch"},
          {{"run", gpt, "--metrics=", "--resume"}, "'--metrics=' has no value"},
          {{"run", gpt, "--resume="}, "'--resume=' has no value"},
      },
      2);
}

// The same where it depends on what the job or the file is.
TEST(ErrorsTest, OfOptionsThatDoNotFitTheJob) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  ExpectErrors(
      work,
      {
          {{"run", gpt, "--insecure"}, "--insecure is of the page of an embedded cluster"},
          {{"run", gpt, "--insecure", "--scheduler", "127.0.0.1:1"}, "--insecure is of the page"},
          {{"run", gpt, "--weights", "DIR/a", "--set", "weights=DIR/b"},
           "--weights DIR/a and --set weights=DIR/b contradict one another"},
          {{"run", gpt, "--cluster", "2", "--set", "cluster.processes=1"},
           "--cluster 2 and --set cluster.processes=1 contradict"},
          {{"generate", gpt, "--tokens", "2", "--set", "generate.tokens=3"}, "--tokens 2 and --set generate.tokens=3"},
          {{"run", gpt, "--weights", "DIR/none"}, "oneflow: --weights DIR/none: weights: weight file 'DIR/none'"},
          {{"plan", "show", "DIR/plan", "--set", "train.steps=1"}, "'DIR/plan' is a plan file, which has no fields"},
          {{"plan", "diff", "DIR/plan", "DIR/plan", "--set", "train.steps=1"}, "which has no fields to set"},
          {{"plan", "diff", "DIR/plan", gpt, "--set-other", "train.stepz=1"}, "cannot open"},
          {{"plan", "credits", "DIR/plan", "--costs", "DIR/c", "--set", "a=b"}, "which has no fields to set"},
          {{"bench", "--scheduler", "127.0.0.1:1"}, "--scheduler is for the case `links`"},
          {{"manifest", "--image", "i", "--insecure", "--tasks", "3"}, "--tasks is 3, but no job is named"},
          {{"checkpoint", "convert", "DIR/tmp", "DIR/w", "--step", "3"}, "--step 3: 'DIR/tmp' is a folder"},
          {{"checkpoint", "convert", "DIR/w", "DIR/c", "--all"}, "--all: 'DIR/w' is no folder"},
          {{"run", gpt, "--resume"}, "checkpoint is missing: where are its checkpoints?"},
          {{"plan", "simulate", gpt, "--slow", "0=2", "--slow", "0=3"}, "--slow: rank 0 is named twice"},
      },
      1);
}

// As ExpectErrors, for so many cases that their processes do not all run at a time.
void ExpectUsageErrors(const Workspace& work, const std::vector<ErrorCase>& cases) {
  for (size_t i = 0; i < cases.size(); i += 16) {  // so many processes at a time
    const auto end = cases.begin() + static_cast<std::ptrdiff_t>(std::min(i + 16, cases.size()));
    ExpectErrors(work, {cases.begin() + static_cast<std::ptrdiff_t>(i), end}, 2);
  }
}

TEST(ErrorsTest, OfPortsAndHosts) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  std::vector<ErrorCase> cases;
  // Every option that takes HOST:PORT to call, one to listen on, and PORT or HOST:PORT to serve at.
  const std::vector<std::vector<std::string>> calls = {{"run", gpt},
                                                       {"generate", gpt},
                                                       {"submit", gpt},
                                                       {"jobs"},
                                                       {"jobs", "describe", "1"},
                                                       {"jobs", "diagnose", "1"},
                                                       {"watch", "1"},
                                                       {"logs", "1"},
                                                       {"cancel", "1"},
                                                       {"retry", "1"},
                                                       {"nodes"},
                                                       {"drain", "n"},
                                                       {"bench"},
                                                       {"daemon"}};
  for (const std::vector<std::string>& command : calls) {
    for (const char* wrong : {"h:65536", "h:0", "h:-1", "h:x", "h:", "h", ":7000", "::1:7000", "h:+7"}) {
      cases.push_back({Join(command, {"--scheduler", wrong}), absl::StrCat("--scheduler: '", wrong, "': ")});
    }
  }
  for (const char* wrong : {"h:65536", "h:-1", "h:x", "h", ":7000"}) {
    cases.push_back({{"scheduler", "--address", wrong}, absl::StrCat("--address: '", wrong, "': ")});
  }
  for (const char* wrong : {"65536", "-1", "x", "h:65536", "h:x", "h:", "99999999999"}) {
    const std::string port = absl::StrCat("=", wrong), said = absl::StrCat(": '", wrong, "': ");
    cases.push_back({{"run", gpt, "--page" + port}, "--page" + said});
    cases.push_back({{"scheduler", "--page" + port}, "--page" + said});
    cases.push_back({{"scheduler", "--metrics-port" + port}, "--metrics-port" + said});
    cases.push_back({{"daemon", "--metrics-port" + port}, "--metrics-port" + said});
  }
  for (const char* wrong : {"0", "65536", "-1", "x"})
    cases.push_back({{"join", gpt, absl::StrCat("--port=", wrong)}, "--port: "});
  cases.push_back({{"daemon", "--peer-host", "10.0.0.1:7000"}, "--peer-host: '10.0.0.1:7000': has a port"});
  cases.push_back({{"join", gpt, "--first", "n1:7000"}, "--first: 'n1:7000': has a port"});
  ExpectUsageErrors(work, cases);
}

TEST(ErrorsTest, OfNumbers) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  std::vector<ErrorCase> cases;
  for (const char* wrong : {"nan", "1", "inf", "1e9"}) {
    cases.push_back(
        {{"run", gpt, "--lost-after", wrong}, absl::StrCat("--lost-after: '", wrong, "': is no number in")});
  }
  for (const char* wrong : {"nan", "-1"}) {
    cases.push_back({{"plan", "credits", gpt, "--costs", "c", "--period-ms", wrong}, "--period-ms: "});
    cases.push_back({{"plan", "credits", gpt, "--costs", "c", "--memory-mb", wrong}, "--memory-mb: "});
  }
  for (const char* wrong : {"-1", "1.5", "x", "99999999999999999999"}) {
    const std::string said = absl::StrCat(": '", wrong, "': is no whole number from ");
    cases.push_back({{"plan", "show", gpt, absl::StrCat("--process=", wrong)}, "--process" + said});
    cases.push_back({{"trace", "summary", "t", absl::StrCat("--rank=", wrong)}, "--rank" + said});
    cases.push_back({{"trace", "summary", "t", absl::StrCat("--rows=", wrong)}, "--rows" + said});
    cases.push_back({{"logs", "1", absl::StrCat("--rank=", wrong)}, "--rank" + said});
    cases.push_back({{"checkpoint", "convert", "a", "b", absl::StrCat("--step=", wrong)}, "--step" + said});
    cases.push_back({{"plan", "simulate", gpt, "--delay=1", absl::StrCat("--seed=", wrong)}, "--seed" + said});
    for (const char* command : {"watch", "logs", "cancel", "retry"}) {
      cases.push_back({{command, "--", wrong}, "job" + said});
    }
    cases.push_back({{"scheduler", absl::StrCat("--devices-per-user=", wrong)}, "--devices-per-user" + said});
    cases.push_back({{"scheduler", absl::StrCat("--ready-fd=", wrong)}, "--ready-fd" + said});
  }
  cases.push_back({{"daemon", "--cpu-devices", "2000000000"}, "--cpu-devices: "});
  cases.push_back({{"daemon", "--cores", "2000000000"}, "--cores: "});
  ExpectUsageErrors(work, cases);
}

TEST(ErrorsTest, OfTextsThatAreNotUtf8) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  work.Write("odd.pbtxt", "name: '\xff'\n" + ReadFile(gpt));
  work.Write("odd\xff.pbtxt", ReadFile(gpt));
  ExpectErrors(
      work,
      {
          {{"run", "DIR/odd.pbtxt"}, "odd.pbtxt:1: name: is not UTF-8, as all texts and paths of a job must be"},
          {{"run", gpt, "--set", "name=\xff"}, "--set name=\\xff: name: is not UTF-8"},
          {{"run", gpt, "--save-weights", "DIR/w\xff"}, "w\\xff: save_weights: is not UTF-8"},
          {{"run", gpt, "--trace", "DIR/t\xff"}, "trace.file: is not UTF-8"},
          {{"submit", gpt, "--set", "save_weights=DIR/w\xff"}, "save_weights: is not UTF-8"},
          {{"run", gpt, "--set", "checkpoint.path=DIR/c", "--resume=DIR/c\xff"}, "c\\xff: is not UTF-8"},
      },
      1);
  ExpectErrors(work,
               {
                   {{"manifest", "--insecure", "--image", "i\xff"}, "--image: 'i\\xff': is not UTF-8"},
                   {{"manifest", "--insecure", "--image", "i", "--claim", "c\xff"}, "--claim: 'c\\xff': is not UTF-8"},
                   {{"manifest", "--image", "i", "--tls-secret", "s\xff"}, "--tls-secret: 's\\xff': is not UTF-8"},
                   {{"daemon", "--name", "d\xff"}, "--name: 'd\\xff': is not UTF-8"},
                   {{"drain", "d\xff"}, "node: 'd\\xff': is not UTF-8"},
               },
               2);
  ExpectErrors(work, {{{"manifest", "DIR/odd.pbtxt", "--image", "i", "--insecure"}, "odd.pbtxt': is not UTF-8"}}, 1);
  const Outcome named = work.Run({"run", work.Path("odd\xff.pbtxt"), "--set", "train.steps=1"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
}

TEST(ErrorsTest, OfNothingToDo) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  work.Write("none.pbtxt", "model { gpt { layers: 1 width: 16 heads: 2 context: 8 } }\ndata { text { path: '" +
                               work.Path("text") + "' } }\ntrain { batch_size: 4 }\n");
  ExpectErrors(
      work,
      {
          {{"run", "DIR/none.pbtxt"}, "none.pbtxt:3: train.steps: is missing, and there is nothing else to do"},
          {{"submit", "DIR/none.pbtxt"}, "train.steps: is missing, and there is nothing else to do"},
          {{"run", "DIR/none.pbtxt", "--set", "train.steps=0", "--trace", "DIR/t"},
           "train.steps: is 0, and there is nothing else to do"},
      },
      1);
  const std::vector<std::string> evaluate = {"run", work.Path("none.pbtxt"), "--set", "evaluate={batches: 1}"};
  const Outcome fresh = work.Run(Join(evaluate, {"--save-weights", work.Path("w")}));
  EXPECT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_THAT(fresh.err, HasSubstr("nothing is trained and no weights are given"));
  const Outcome given = work.Run(Join(evaluate, {"--weights", work.Path("w")}));
  EXPECT_EQ(given.exit_code, 0);
  EXPECT_EQ(given.err, "");
  EXPECT_THAT(given.out, HasSubstr("validation loss "));
}

// No option without a sentence about it.
TEST(ErrorsTest, EveryCommandAndOptionHasHelp) {
  const Workspace work;
  const Outcome man = work.Run({"man"});
  ASSERT_EQ(man.exit_code, 0);
  const std::vector<std::string> lines = absl::StrSplit(man.out, '\n');
  int options = 0, commands = 0;
  for (size_t i = 0; i + 2 < lines.size(); ++i) {
    if (lines[i] == ".TP") {
      ++options;
      EXPECT_NE(lines[i + 2], "") << lines[i + 1];
    }
    if (absl::StartsWith(lines[i], ".SS ")) {
      ++commands;
      EXPECT_NE(lines[i + 1], "") << lines[i];
    }
  }
  EXPECT_GT(options, 100);
  EXPECT_GT(commands, 30);
}

TEST(ErrorsTest, HelpIsNoError) {
  const Workspace work;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"run", "--help"}, {"plan", "show", "--help"}}) {
    const Outcome ended = work.Run(arguments);
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(ended.err, "");
    EXPECT_THAT(ended.out, HasSubstr("Usage: "));
  }
}

}  // namespace
}  // namespace oneflow::e2e
