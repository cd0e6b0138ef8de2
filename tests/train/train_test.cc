#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/optimiser.h"
#include "sotto/train/options.h"
#include "sotto/train/recorder.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {
namespace fs = std::filesystem;
using test::message_of;

class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "sotto-train-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

TEST(Checkpoint, FindsWholeOnesAscendingAndRemovesPartialOnes) {
  const TempFolder temp;
  for (const char* name : {"model_step_30", "model_step_4", "model_step_100.tmp", "model_step_x", "model_step_"}) {
    fs::create_directories(temp.path() / name);
  }
  EXPECT_EQ(checkpoint::find(temp.path()), (std::vector<std::uint64_t>{4, 30}));
  checkpoint::remove_partial(temp.path());
  EXPECT_FALSE(fs::exists(temp.path() / "model_step_100.tmp"));
  EXPECT_TRUE(fs::exists(temp.path() / "model_step_30"));
  EXPECT_TRUE(checkpoint::find(temp.path() / "missing").empty());
}

TEST(Checkpoint, MetadataComesBack) {
  const checkpoint::Metadata metadata{{"codec", "ef | topk(ratio=0.01)"}, {"ranks", "4"}};
  EXPECT_EQ(checkpoint::from_text(checkpoint::to_text(metadata)), metadata);
}

TEST(TrainOptions, ComeBackFromToml) {
  const TempFolder temp;
  TrainOptions options;
  options.codec = "ef | topk(0.01) | qsgd(4)";
  options.lr = 0.1;
  options.overlap = false;
  options.data.data = "mnist";
  options.data.data_dir = "/some where/\"quoted\"\\x";
  options.max_steps = 60;
  write(temp.path() / "c.toml", to_toml(options));
  TrainOptions read;
  from_toml((temp.path() / "c.toml").string(), read);
  EXPECT_EQ(to_toml(read), to_toml(options));
  EXPECT_EQ(read.lr, 0.1);
  EXPECT_EQ(read.data.data_dir, options.data.data_dir);
}

TEST(TrainOptions, BadTomlIsRefusedWithFileAndKey) {
  const TempFolder temp;
  const std::string path = (temp.path() / "c.toml").string();
  const auto refusal = [&](const std::string& text) {
    write(path, text);
    TrainOptions options;
    return message_of([&] { from_toml(path, options); });
  };
  EXPECT_NE(refusal("batchsize = 3\n").find("did you mean `batch-size`"), std::string::npos);
  EXPECT_NE(refusal("batch-size = 0\n").find("batch-size must be in"), std::string::npos);
  EXPECT_NE(refusal("batch-size = \"many\"\n").find("batch-size must be a whole number"), std::string::npos);
  EXPECT_NE(refusal("lr = \n").find("c.toml:1"), std::string::npos);
  EXPECT_EQ(refusal("lr = 1\nepochs = 2\n"), "") << "a whole number is a number";
}

TEST(TrainOptions, ResolveFillsInTheModelsOwnRate) {
  TrainOptions options;
  options.model = "LeNet";
  options.data.data = "MNIST";
  resolve(options);
  EXPECT_EQ(options.model, "lenet");
  EXPECT_EQ(options.data.data, "mnist");
  EXPECT_EQ(options.lr, 0.05);
  EXPECT_EQ(options.momentum, 0.9);
  options.lr_shrinkage = 0.95;
  resolve(options);
  EXPECT_EQ(options.schedule, "step(every=50, factor=0.95)");
}

// What the flags make of --optimiser and a preset.
std::string optimiser(const std::string& said, const std::function<void(TrainOptions&)>& set = {},
                      const std::string& codec = "none") {
  TrainOptions options;
  options.optimiser = said;
  options.codec = codec;
  if (set) set(options);
  resolve(options);
  return optimiser_of(options);
}

TEST(TrainOptions, FlagsAreOptionsOfTheOptimiser) {
  const auto momentum = [](TrainOptions& o) { o.momentum = 0.5; };
  EXPECT_EQ(optimiser("auto"), "sgd(momentum=0.9, nesterov=false, weight-decay=0)") << "the model's momentum";
  EXPECT_EQ(optimiser("sgd", momentum), "sgd(momentum=0.5, nesterov=false, weight-decay=0)");
  EXPECT_EQ(optimiser("sgd(0.25)"), "sgd(momentum=0.25, nesterov=false, weight-decay=0)");
  EXPECT_EQ(optimiser("sgd", [](TrainOptions& o) { o.nesterov = true, o.weight_decay = 0.01; }),
            "sgd(momentum=0.9, nesterov=true, weight-decay=0.01)");
  EXPECT_EQ(optimiser("adamw(beta2=0.95)", [](TrainOptions& o) { o.weight_decay = 0.1; }),
            "adamw(beta1=0.9, beta2=0.95, eps=1e-08, weight-decay=0.1)");
  EXPECT_EQ(optimiser("auto", {}, "signum"), "signum(momentum=0.9, weight-decay=0)") << "the preset's own";
  EXPECT_EQ(optimiser("auto", {}, "signsgd"), "signum(momentum=0, weight-decay=0)");
  EXPECT_EQ(optimiser("onebit-adam(warmup=5)", {}, "onebit-adam").find("onebit-adam(warmup=5"), 0U);

  const auto refusal = [&](const std::string& said, const auto& set, const std::string& codec = "none") {
    TrainOptions options;
    options.optimiser = said;
    options.codec = codec;
    set(options);
    return message_of([&] { resolve(options); });
  };
  EXPECT_NE(refusal("adam", momentum).find("--momentum 0.5: the optimiser `adam` has no momentum; it has beta1"),
            std::string::npos);
  EXPECT_NE(refusal("sgd(momentum=0.9)", momentum).find("leave one of them out"), std::string::npos);
  EXPECT_NE(refusal("sgd(0.9)", momentum).find("leave one of them out"), std::string::npos);
  EXPECT_NE(refusal("sgdd", momentum).find("did you mean `sgd`"), std::string::npos);
  EXPECT_NE(refusal(
                "sgd", [](TrainOptions&) {}, "signum")
                .find("tied to the optimiser `signum`"),
            std::string::npos);
}

TEST(TrainOptions, TheRateIsTheOptimisersOrTheModels) {
  TrainOptions options;
  options.optimiser = "adam";
  resolve(options);
  EXPECT_EQ(options.lr, 1e-3);
  EXPECT_EQ(options.momentum, -1) << "it has none";
}

TEST(TrainOptions, ContradictionsAreRefused) {
  TrainOptions unknown;
  unknown.model = "lenett";
  EXPECT_NE(message_of([&] { resolve(unknown); }).find("did you mean `lenet`"), std::string::npos);
  TrainOptions shrinkage;
  shrinkage.lr_shrinkage = 0.5;
  shrinkage.schedule = "cosine";
  EXPECT_THROW(resolve(shrinkage), ConfigError);
  TrainOptions resume;
  resume.resume = true;
  EXPECT_NE(message_of([&] { resolve(resume); }).find("--train-dir"), std::string::npos);
}

StepRow row(std::uint64_t step) {
  StepRow r;
  r.step = step;
  r.report.loss = 0.5;
  r.report.seconds = 0.001 * static_cast<double>(step + 1);
  r.bytes_sent = 10 * step;
  return r;
}

TEST(Recorder, WritesRowsAndAResumeDropsThoseThatItRepeats) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), 0);
  {
    Recorder recorder(temp.path(), 3);
    for (std::uint64_t step = 0; step < 5; ++step) recorder.add(row(step));
    EXPECT_DOUBLE_EQ(recorder.medians().step_ms, 3.0);
    EXPECT_DOUBLE_EQ(recorder.medians().bytes_sent, 20.0);
  }
  const std::string all = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6);
  EXPECT_NE(all.find("\n4,3,"), std::string::npos);
  write(temp.path() / "steps.csv", all + "5,3,0.1");  // a row that a crash cut off
  Recorder::prepare(temp.path(), 3);
  const std::string kept = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 4);
  EXPECT_NE(kept.find("\n2,3,"), std::string::npos);
  EXPECT_EQ(kept.find("\n3,3,"), std::string::npos);
}

TEST(Recorder, AFullDiskIsAFileError) {
  const TempFolder temp;
  fs::create_symlink("/dev/full", temp.path() / "steps.csv");
  Recorder recorder(temp.path(), 0);
  recorder.add(row(0));
  EXPECT_NE(message_of([&] { recorder.flush(); }).find("steps.csv"), std::string::npos);
}

}  // namespace
}  // namespace sotto
