// What users get wrong, and what they read then: exit code 1 and one line that names the place and the values; exit
// code 2 for wrong usage. Nothing is said twice, nothing is left behind.
#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"

namespace oneflow::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Arguments and message may name files of the workspace as "DIR/name".
struct Case {
  std::vector<std::string> arguments;
  std::string message;  // part of the line
};

std::string InWorkspace(const Workspace& work, const std::string& text) {
  return absl::StrReplaceAll(text, {{"DIR/", work.Path("")}});
}

// Runs all cases, beside one another, and expects of each the exit code, one line with the message, and an empty
// standard output.
void ExpectErrors(const Workspace& work, const std::vector<Case>& cases, int exit_code) {
  std::vector<std::unique_ptr<RunningCommand>> commands;
  for (const Case& c : cases) {
    std::vector<std::string> arguments;
    for (const std::string& argument : c.arguments) arguments.push_back(InWorkspace(work, argument));
    commands.push_back(work.Start(arguments));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(::testing::PrintToString(cases[i].arguments));
    const Outcome ended = commands[i]->Wait();
    EXPECT_EQ(ended.exit_code, exit_code);
    EXPECT_EQ(ended.signal, 0);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, StartsWith("oneflow"));
    EXPECT_THAT(ended.err, HasSubstr(InWorkspace(work, cases[i].message)));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  EXPECT_THAT(work.Leftovers(), IsEmpty());
}

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
          {{"run", gpt, "--set", "mesh.ep=2"}, "Mesh has no field 'ep'; it has pp, dp, tp"},
          {{"run", gpt, "--set", "cluster.devices_per_process=3"},
           "1 processes of 3 devices make 3, but the job has 1"},
          {{"run", gpt, "--set", "seed=-1"}, "--set seed=-1: '-1' is no uint64"},
          {{"run", gpt, "--set", "model={convnet{channels:[4]}}"}, "the network has 2 convolutions, but 1 sizes"},
          {{"run", gpt, "--set", "data.text.validation_fraction=1"}, "validation_fraction: 1 is not in [0, 1)"},
          {{"run", gpt, "--set", "generate={tokens:5}"}, "generate.prompt: is empty; at least one byte is needed"},
          {{"run", gpt, "--set", "train.schedule.kind=step"}, "'step' is none of 'constant', 'cosine', 'linear'"},
          {{"compile", gpt, "--dump-after", "nothing"}, "--dump-after: there is no pass 'nothing'; there are "},
          {{"generate", gpt}, "generate: is missing"},
          {{"generate", gpt, "--prompt", "a", "--tokens", "3"}, "weights: is missing; generation starts from saved"},
          {{"generate", work.ConvNetJob(), "--prompt", "a", "--tokens", "3"}, "only a language model generates text"},
      },
      1);
}

TEST(ErrorsTest, OfFilesThatAreRead) {
  const Workspace work;
  const std::string gpt = work.GptJob(), net = work.ConvNetJob();
  const gzFile gz = gzopen(work.Path("cut.gz").c_str(), "wb");
  const std::string images = ReadFile(work.Path("images"));
  ASSERT_EQ(gzwrite(gz, images.data(), images.size()), static_cast<int>(images.size()));
  gzclose(gz);
  std::filesystem::resize_file(work.Path("cut.gz"), std::filesystem::file_size(work.Path("cut.gz")) / 2);
  work.Write("short", "a few bytes");
  for (const char* directory : {"no_graphs", "bad_graphs"}) std::filesystem::create_directory(work.Path(directory));
  work.Write("bad_graphs/train.graph", "graph \"train\"\n%0:f32[2] = sum_of_all() \"x\"\n");
  work.Write("garbage", "garbage");
  work.Write("nothing", "");
  ExpectErrors(
      work,
      {
          {{"run", gpt, "--set", "data.text.path=DIR/none"},
           "data file 'DIR/none': cannot open: No such file or directory"},
          {{"run", gpt, "--set", "data.text.path=DIR/tmp"}, "data file 'DIR/tmp': not a regular file"},
          {{"run", gpt, "--set", "model.gpt.vocabulary=20"}, "is outside the vocabulary of 20"},
          {{"run", gpt, "--set", "model.gpt.context=5000000"}, "model.gpt.context: 5000000 is not in"},
          {{"run", gpt, "--set", "model={margin_classifier{}}"}, "reads prototypes, so data.prototypes must be given"},
          {{"run", gpt, "--set", "model={wide_deep{table_split:'rings'}}"},
           "'rings' is none of 'rows', 'columns', 'none'"},
          {{"run", gpt, "--set", "data={prototypes{classes:1}}", "--set", "model={margin_classifier{}}"},
           "data.prototypes.classes: 1 is not in [2, "},
          {{"run", gpt, "--set", "data={clicks{fields:9 vocabulary:8}}", "--set", "model={wide_deep{}}"},
           "wide_deep: the vocabulary is 8, but must be from 9"},
          {{"run", gpt, "--set", "data.text.path=DIR/short"}, "has 11 of the file's 11 bytes, but a sample"},
          {{"run", net, "--set", "data.images.train_images=DIR/cut.gz"},
           "data file 'DIR/cut.gz': the gzip stream is damaged or cut off"},
          {{"run", net, "--set", "data.images.train_images=DIR/labels"},
           "data file 'DIR/labels': begins with bytes 0 0 8 1, but an IDX file of bytes in 3 dimensions with 0 0 8 3"},
          {{"run", net, "--set", "data.images.train_labels=DIR/none"}, "data file 'DIR/none': cannot open"},
          {{"run", gpt, "--set", "model.graph=DIR/none"}, "model.graph 'DIR/none': No such file or directory"},
          {{"run", gpt, "--set", "model.graph=DIR/no_graphs"}, "model.graph 'DIR/no_graphs': no file *.graph in it"},
          {{"run", gpt, "--set", "model.graph=DIR/bad_graphs"}, "train.graph': graph text, line 2: "},
          {{"plan", "show", "DIR/none"}, "plan file 'DIR/none': cannot open: No such file or directory"},
          {{"plan", "show", "DIR/garbage"}, "plan file 'DIR/garbage': is not a serialised plan set"},
          {{"plan", "show", "DIR/nothing"}, "plan file 'DIR/nothing': plan set: version is 0, this reader knows 9"},
          {{"trace", "summary", "DIR/none"}, "oneflow: trace 'DIR/none': cannot open: No such file or directory"},
          {{"plan", "simulate", gpt, "--costs", "DIR/none"}, "trace 'DIR/none': cannot open"},
          {{"run", gpt, "--set", "slots=DIR/none"}, "slots: file of slots 'DIR/none': cannot open"},
          {{"plan", "show", "DIR/none.pbtxt"}, "job config 'DIR/none.pbtxt': cannot open"},
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
  std::vector<Case> cases;
  for (const auto& [text, message] : graphs) {
    const std::string directory = absl::StrCat("graphs", cases.size());
    std::filesystem::create_directory(work.Path(directory));
    work.Write(directory + "/train.graph", text);
    cases.push_back({{"run", gpt, "--set", absl::StrCat("model.graph=DIR/", directory)},
                     absl::StrCat("graph file 'DIR/", directory, "/train.graph': graph text, ", message)});
  }
  ExpectErrors(work, cases, 1);
}

// A safetensors file: the length of its header, the header, data.
std::string Safetensors(const std::string& header, size_t num_bytes) {
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) file += static_cast<char>(uint64_t{header.size()} >> shift);
  return file + header + std::string(num_bytes, '\0');
}

TEST(ErrorsTest, OfMalformedWeightFiles) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  const std::pair<std::string, std::string> files[] = {
      {Safetensors("{\"a\": ", 0), "its header is not a JSON object"},
      {Safetensors("[1,2]", 0), "its header is not a JSON object"},
      {std::string(7, '\xff') + '\x0f' + "{}", "its header claims 1152921504606846975 bytes, but the file has 2 after"},
      {Safetensors(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8),
       "tensor 'a': dtype 'F31' is not supported"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1000000]}})", 8),
       "tensor 'a': f32[2] takes 8 bytes, but data_offsets are [0, 1000000]"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "tensor 'a': f32[3] takes 12 bytes, but data_offsets are [0, 8]"},
      {Safetensors(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "tensor 'a': no list 'shape'"},
      {Safetensors(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       "tensor 'a': 'shape' holds something that is no size"},
  };
  std::vector<Case> cases;
  for (const auto& [bytes, message] : files) {
    const std::string name = absl::StrCat("weights", cases.size());
    work.Write(name, bytes);
    cases.push_back(
        {{"run", gpt, "--weights", "DIR/" + name}, absl::StrCat("weight file 'DIR/", name, "': ", message)});
  }
  ExpectErrors(work, cases, 1);
}

TEST(ErrorsTest, OfDamagedPlans) {
  const Workspace work;
  const Outcome compiled = work.Run({"compile", work.GptJob(), "-o", work.Path("plan")});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const std::string plan = ReadFile(work.Path("plan"));
  work.Write("cut", plan.substr(0, plan.size() / 2));
  work.Write("longer", plan + "\xff\xff");
  ExpectErrors(work,
               {
                   {{"plan", "show", "DIR/cut"}, "plan file 'DIR/cut': is not a serialised plan set"},
                   {{"plan", "show", "DIR/longer"}, "plan file 'DIR/longer': is not a serialised plan set"},
               },
               1);
}

TEST(ErrorsTest, OfWeightFiles) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  const Outcome saved = work.Run({"run", gpt, "--set", "train.steps=1", "--save-weights", work.Path("weights")});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const Outcome tied = work.Run({"run", gpt, "--set", "train.steps=1", "--set", "model.gpt.tied_embedding=true",
                                 "--save-weights", work.Path("tied")});
  ASSERT_EQ(tied.exit_code, 0) << tied.err;
  work.Write("cut", ReadFile(work.Path("weights")).substr(0, 5000));
  work.Write("short", "abc");
  ExpectErrors(
      work,
      {
          {{"run", gpt, "--weights", "DIR/none"}, "weight file 'DIR/none': cannot open: No such file or directory"},
          {{"run", gpt, "--weights", "DIR/cut"}, "weight file 'DIR/cut': its tensors take "},
          {{"run", gpt, "--weights", "DIR/short"}, "weight file 'DIR/short': has 3 bytes, a header takes at least 8"},
          {{"run", gpt, "--weights", "DIR/weights", "--set", "model.gpt.width=32"},
           "tensor 'wpe/weight' is f32[16,16], the variable is f32[16,32]"},
          {{"run", gpt, "--weights", "DIR/tied", "--set", "mesh.dp=2", "--cluster", "2"},
           "'DIR/tied': tensor 'head/weight': it is missing"},
          {{"run", gpt, "--weights", "DIR/weights", "--set", "model.gpt.tied_embedding=true"},
           "'DIR/weights': tensor 'head/weight' (f32[16,256]) is no trainable variable of job 'gpt'"},
      },
      1);
}

TEST(ErrorsTest, OfPlacesToWrite) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  ExpectErrors(
      work,
      {
          {{"run", gpt, "--lost-after", "5", "--scheduler", "127.0.0.1:1"}, "--lost-after is of an embedded cluster"},
          {{"run", gpt, "--metrics", "DIR/none/m"},
           "--metrics: cannot write 'DIR/none/m': there is no folder 'DIR/none'"},
          {{"bench", "--json", "DIR/none/j"}, "--json: cannot write 'DIR/none/j': there is no folder 'DIR/none'"},
          {{"bench", "device", "--output", "DIR/none/d"}, "--output: cannot write 'DIR/none/d': there is no folder"},
          {{"bench", "kernels", gpt, "--output", "DIR/none/k"},
           "--output: cannot write 'DIR/none/k': there is no folder"},
          {{"run", gpt, "--save-weights", "DIR/none/w"}, "cannot write 'DIR/none/w': there is no folder 'DIR/none'"},
          {{"run", gpt, "--save-weights", "DIR/tmp"}, "cannot write 'DIR/tmp': it is a directory"},
          {{"run", gpt, "--save-initial-weights", "DIR/none/w"}, "save_initial_weights: cannot write"},
          {{"run", gpt, "--save-gradients", "DIR/none/g"}, "save_gradients: cannot write"},
      },
      1);
  // What can be printed is printed, then the file fails.
  const Outcome compiled = work.Run({"compile", gpt, "-o", work.Path("none/plan")});
  EXPECT_EQ(compiled.exit_code, 1);
  EXPECT_EQ(compiled.err, absl::StrCat("oneflow: plan file '", work.Path("none/plan"),
                                       "': cannot write: No such file or directory\n"));
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

TEST(ErrorsTest, OfPortsHostsAndNumbers) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  std::vector<Case> cases;
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
  for (size_t i = 0; i < cases.size(); i += 16) {  // so many processes at a time
    const auto end = cases.begin() + static_cast<std::ptrdiff_t>(std::min(i + 16, cases.size()));
    ExpectErrors(work, {cases.begin() + static_cast<std::ptrdiff_t>(i), end}, 2);
  }
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

// Whatever people name by --resume= is gone on from, or it is said what it is.
TEST(ErrorsTest, OfFoldersToGoOnFrom) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  const auto with = [&](const std::string& folder, const std::string& resume) {
    return std::vector<std::string>{
        "run",           gpt,   "--set", absl::StrCat("checkpoint={path: '", work.Path(folder), "'}"), "--set",
        "train.steps=4", resume};
  };
  const Outcome saved =
      work.Run({"run", gpt, "--set", absl::StrCat("checkpoint={path: '", work.Path("c"), "' every: 1}"), "--set",
                "train.steps=3"});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  std::filesystem::create_directory(work.Path("empty"));
  work.Write("file", "");
  ExpectErrors(work,
               {
                   {with("d1", "--resume=DIR/none"), "--resume=DIR/none: 'DIR/none': no such folder"},
                   {with("d2", "--resume=DIR/empty"), "--resume=DIR/empty: 'DIR/empty': there is no checkpoint"},
                   {with("d3", "--resume=DIR/file"), "'DIR/file' is a file, and a checkpoint is a folder"},
                   {with("d4", "--resume=DIR/file/x"), "--resume=DIR/file/x: "},
               },
               1);
  for (const auto& [folder, resume] : std::vector<std::pair<std::string, std::string>>{
           {"e1", "c"}, {"e2", "c/"}, {"e3", "c/step-000000003"}, {"c", "c"}, {"c", "c/step-000000004"}}) {
    const Outcome ended = work.Run(with(folder, absl::StrCat("--resume=", work.Path(resume))));
    EXPECT_EQ(ended.exit_code, 0) << resume << ": " << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("goes on from step ")) << resume;
  }
  // Of another job's folder the last whole one: what was interrupted or damaged is no ground to begin anew.
  std::filesystem::remove(work.Path("c/step-000000004/manifest"));
  const Outcome older = work.Run(with("e4", absl::StrCat("--resume=", work.Path("c"))));
  EXPECT_EQ(older.exit_code, 0) << older.err;
  EXPECT_THAT(older.out, HasSubstr("goes on from step 3"));
}

// What people have downloaded and named as weights, wherever weights are named.
TEST(ErrorsTest, OfFilesThatAreNoWeights) {
  const Workspace work;
  const std::string gpt = work.GptJob();
  work.Write("model.bin", std::string("\x80\x02}q\x00.", 6) + std::string(100, 'x'));
  work.Write("lfs.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 10\n");
  work.Write("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"model-00001.safetensors\"}}");
  const std::pair<std::string, std::string> files[] = {{"model.bin", "pickle"},
                                                       {"lfs.safetensors", "LFS"},
                                                       {"model.safetensors.index.json", "index"},
                                                       {"tmp", "folder"}};
  std::vector<Case> cases;
  for (const auto& [file, kind] : files) {
    const std::string path = "DIR/" + file;
    cases.push_back({{"run", gpt, "--weights", path}, kind});
    cases.push_back({{"generate", gpt, "--prompt", "a", "--tokens", "1", "--weights", path}, kind});
    if (file != "tmp") cases.push_back({{"checkpoint", "convert", path, "DIR/made"}, kind});
  }
  ExpectErrors(work, cases, 1);
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
