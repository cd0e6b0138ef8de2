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
#include "sotto/train/plan.h"
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

TEST(TrainOptions, ResolveKeepsWhatNobodySaid) {
  TrainOptions options;
  options.model = "LeNet";
  options.data.data = "MNIST";
  resolve(options);
  EXPECT_EQ(options.model, "lenet");
  EXPECT_EQ(options.data.data, "mnist");
  EXPECT_EQ(options.lr, 0);
  EXPECT_EQ(options.momentum, -1);
  EXPECT_EQ(chosen_optimiser(options).lr, 0.05) << "the model's";
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
  return chosen_optimiser(options).sentence;
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

  EXPECT_EQ(optimiser("auto", {}, "dgc"), "dgc(weight-decay=0, decay-momentum=0.9)");
  EXPECT_EQ(optimiser("sgd", {}, "momentum | topk(0.1)"), "sgd(momentum=0, nesterov=false, weight-decay=0)");

  const auto decay = [](double value) { return [value](TrainOptions& o) { o.weight_decay = value; }; };
  EXPECT_NE(optimiser("adamw").find("weight-decay=0.01"), std::string::npos) << "its own";
  EXPECT_NE(optimiser("adamw", decay(0)).find("weight-decay=0)"), std::string::npos);
  const auto dense = [](TrainOptions& o) { o.codec_start_after = 7; };
  EXPECT_EQ(optimiser("auto", dense, "onebit-adam").find("onebit-adam(warmup=7"), 0U);
  EXPECT_EQ(optimiser("sgd", dense), optimiser("sgd")) << "it has no such steps of its own";

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
  EXPECT_NE(refusal("onebit-adam(9)", dense).find("--codec-start-after 7: the optimiser `onebit-adam(9)` says it, too"),
            std::string::npos);
  EXPECT_NE(refusal("sgd", decay(-0.5)).find("--weight-decay -0.5: must be 0 or more, or -1"), std::string::npos);
  EXPECT_NE(refusal("sgdd", momentum).find("did you mean `sgd`"), std::string::npos);
  EXPECT_NE(refusal(
                "sgd", [](TrainOptions&) {}, "signum")
                .find("tied to the optimiser `signum`"),
            std::string::npos);
}

TEST(TrainOptions, TheRateIsTheOptimisersOrTheModels) {
  TrainOptions options;
  options.optimiser = "adam";
  EXPECT_EQ(chosen_optimiser(options).lr, 1e-3);
  options.lr = 0.5;
  EXPECT_EQ(chosen_optimiser(options).lr, 0.5);
}

TEST(TrainOptions, OfAnOptimiserAllLastsButTheDecay) {
  EXPECT_EQ(lasting_options({"sgd(momentum=0.9, nesterov=false, weight-decay=0.1)"}),
            "sgd(momentum=0.9, nesterov=false)");
  EXPECT_EQ(lasting_options({"sign(weight-decay=0.1)"}), "sign");
}

std::string phases_of(const RunPlan& plan) {
  std::string text;
  for (const Phase& phase : plan.phases) text += std::to_string(phase.first_step) + " " + phase.method + "; ";
  return text;
}

TEST(RunPlan, CountsStepsOfMicroSteps) {
  TrainOptions options;
  options.epochs = 5;
  options.accumulate = 4;
  RunPlan plan = plan_run(options, 18, 0);
  EXPECT_EQ(plan.steps_per_epoch, 4U);
  EXPECT_EQ(plan.steps, 22U);
  EXPECT_EQ(plan.horizon, 22U);
  options.max_steps = 7;
  plan = plan_run(options, 18, 0);
  EXPECT_EQ(plan.steps, 7U);
  EXPECT_EQ(plan.horizon, 22U) << "a stop stretches nothing";
  options.horizon = 100;
  EXPECT_EQ(plan_run(options, 18, 0).horizon, 100U);
  options.accumulate = 91;
  EXPECT_NE(message_of([&] { plan_run(options, 18, 0); }).find("5 epochs have only 90 micro-steps"), std::string::npos);
}

TEST(RunPlan, BeginsDenseWhereSomebodySaysSo) {
  TrainOptions options;
  options.codec = "ef | topk(0.1)";
  EXPECT_EQ(phases_of(plan_run(options, 10, 0)), "0 ef | topk(0.1); ");
  EXPECT_EQ(phases_of(plan_run(options, 10, 6)), "0 ef | f32; 6 ef | topk(0.1); ") << "the optimiser";
  options.codec_start_after = 9;
  EXPECT_EQ(phases_of(plan_run(options, 10, 0)), "0 ef | f32; 9 ef | topk(0.1); ");
  EXPECT_FALSE(plan_run(options, 10, 0).only_dense());
  options.codec_start_after = 30;
  EXPECT_TRUE(plan_run(options, 10, 0).only_dense());
  options.codec_start_after = 0;
  EXPECT_FALSE(plan_run(options, 10, 0).only_dense());
  options.codec_warmup = "list(50%/20%)";
  options.codec_start_after = 15;
  const std::string found = phases_of(plan_run(options, 10, 0));
  EXPECT_TRUE(found.starts_with("0 ef | f32; 15 ef | topk(ratio=0.2")) << found;
  EXPECT_NE(found.find("; 20 ef | topk(ratio=0.1"), std::string::npos) << found;
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

TEST(Recorder, TellsWhatShareOfTheExchangesComputingHid) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), 0);
  Recorder recorder(temp.path(), 0);
  recorder.add(row(0));
  EXPECT_FALSE(recorder.medians().hidden());  // there were none
  StepRow exchanged = row(1);
  exchanged.report.phases = {.encode = 0.001, .network = 0.006, .decode = 0.001};
  exchanged.report.wait = 0.002;
  exchanged.report.queue = 0.004;
  recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.means().queue_ms, 2.0);
  EXPECT_DOUBLE_EQ(recorder.medians().queue_ms, 4.0);
  EXPECT_DOUBLE_EQ(recorder.medians().hidden().value_or(-1), 0.75);
  exchanged.report.wait = 1;  // for a peer that is late, before the exchange
  for (int i = 0; i < 4; ++i) recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.medians().hidden().value_or(-1), 0);
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
