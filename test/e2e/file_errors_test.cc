// Files that cannot be read, are not what they should be, or cannot be written, and what the command says of them.
#include <zlib.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/e2e/error_cases.h"
#include "test/support/names.h"

namespace oneflow::e2e {
namespace {

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
           "data file 'DIR/labels': begins with bytes 0 0 8 1, but an IDX file of bytes in 3 or 4 dimensions with 0 0 "
           "8 3 or 4"},
          {{"run", net, "--set", "data.images.train_labels=DIR/none"}, "data file 'DIR/none': cannot open"},
          {{"run", gpt, "--set", "model.graph=DIR/none"}, "model.graph 'DIR/none': No such file or directory"},
          {{"run", gpt, "--set", "model.graph=DIR/no_graphs"}, "model.graph 'DIR/no_graphs': no file *.graph in it"},
          {{"run", gpt, "--set", "model.graph=DIR/bad_graphs"}, "train.graph': graph text, line 2: "},
          {{"plan", "show", "DIR/none"}, "plan file 'DIR/none': cannot open: No such file or directory"},
          {{"plan", "show", "DIR/garbage"}, "plan file 'DIR/garbage': is not a serialised plan set"},
          {{"plan", "show", "DIR/nothing"}, "plan file 'DIR/nothing': plan set: version is 0, this reader knows 10"},
          {{"trace", "summary", "DIR/none"}, "oneflow: trace 'DIR/none': cannot open: No such file or directory"},
          {{"plan", "simulate", gpt, "--costs", "DIR/none"}, "trace 'DIR/none': cannot open"},
          {{"run", gpt, "--set", "slots=DIR/none"}, "slots: file of slots 'DIR/none': cannot open"},
          {{"plan", "show", "DIR/none.pbtxt"}, "job config 'DIR/none.pbtxt': cannot open"},
      },
      1);
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
  std::vector<ErrorCase> cases;
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
  std::vector<ErrorCase> cases;
  for (const auto& [file, kind] : files) {
    const std::string path = "DIR/" + file;
    cases.push_back({{"run", gpt, "--weights", path}, kind});
    cases.push_back({{"generate", gpt, "--prompt", "a", "--tokens", "1", "--weights", path}, kind});
    if (file != "tmp") cases.push_back({{"checkpoint", "convert", path, "DIR/made"}, kind});
  }
  ExpectErrors(work, cases, 1);
}

}  // namespace
}  // namespace oneflow::e2e
