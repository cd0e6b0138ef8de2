#include "app/train/options/options.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "app/train/identity.h"
#include "app/train/options/choices.h"
#include "app/train/plan.h"
#include "sotto/core/error.h"
#include "tests/support/message_of.h"
#include "tests/train/temp_folder.h"

namespace sotto {
namespace {
using test::message_of;
using test::TempFolder;
using test::write;

double lr_of(const TrainOptions& options) { return read_choices(options).optimiser.lr; }

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
  EXPECT_FALSE(read.momentum) << "nobody said it";
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
  EXPECT_EQ(refusal("lr = \"auto\"\n"), "");
  EXPECT_NE(refusal("lr = \"much\"\n").find("lr must be a number"), std::string::npos);
  EXPECT_NE(refusal("momentum = 1\n").find("momentum must be in [0, 1)"), std::string::npos);
}

TEST(TrainOptions, RecordsOfEarlierVersionsSaidNothingByZerosAndEmptyTexts) {
  const TempFolder temp;
  const std::string path = (temp.path() / "c.toml").string();
  write(path, "max-steps = 0\nhorizon = 0\nthreads = 0\neval-freq = 0\ntopology = \"\"\nlink = \"\"\n");
  TrainOptions read;
  read.max_steps = 7;
  from_toml(path, read);
  EXPECT_EQ(to_toml(read), to_toml(TrainOptions()));
  write(path, "momentum = 0\n");
  from_toml(path, read);
  EXPECT_EQ(read.momentum, 0) << "which is a value of it";
}

TEST(Choices, KeepWhatNobodySaid) {
  TrainOptions options;
  options.model = "LeNet";
  options.data.data = "MNIST";
  options = read_choices(options).options;
  EXPECT_EQ(options.model, "lenet");
  TrainOptions other;
  other.task = "translate";
  EXPECT_EQ(read_choices(other).options.model, "transformer-tiny") << "the task's";
  EXPECT_EQ(options.data.data, "mnist");
  EXPECT_FALSE(options.lr || options.momentum);
  EXPECT_EQ(lr_of(options), 0.05) << "the model's";
  options.lr_shrinkage = 0.95;
  EXPECT_EQ(read_choices(options).options.schedule, "step(every=50, factor=0.95)");
}

// The optimiser that results from --optimiser, the other flags and a preset.
std::string optimiser(const std::string& said, const std::function<void(TrainOptions&)>& set = {},
                      const std::string& codec = "none") {
  TrainOptions options;
  options.optimiser = said;
  options.codec = codec;
  if (set) set(options);
  return read_choices(options).optimiser.spec.text();
}

TEST(Choices, FlagsAreOptionsOfTheOptimiser) {
  const auto momentum = [](TrainOptions& o) { o.momentum = 0.5; };
  EXPECT_EQ(optimiser("auto"), "sgd(momentum=0.9, nesterov=false, weight-decay=0, dampening=0)")
      << "the model's momentum";
  EXPECT_EQ(optimiser("sgd", momentum), "sgd(momentum=0.5, nesterov=false, weight-decay=0, dampening=0)");
  EXPECT_EQ(optimiser("sgd(0.25)"), "sgd(momentum=0.25, nesterov=false, weight-decay=0, dampening=0)");
  EXPECT_EQ(optimiser("sgd", [](TrainOptions& o) { o.nesterov = true, o.weight_decay = 0.01; }),
            "sgd(momentum=0.9, nesterov=true, weight-decay=0.01, dampening=0)");
  EXPECT_EQ(optimiser("adamw(beta2=0.95)", [](TrainOptions& o) { o.weight_decay = 0.1; }),
            "adamw(beta1=0.9, beta2=0.95, eps=1e-08, weight-decay=0.1, amsgrad=false)");
  EXPECT_EQ(optimiser("auto", {}, "signum"), "signum(momentum=0.9, weight-decay=0)") << "the preset's own";
  EXPECT_EQ(optimiser("auto", {}, "signsgd"), "signum(momentum=0, weight-decay=0)");
  EXPECT_EQ(optimiser("onebit-adam(warmup=5)", {}, "onebit-adam").find("onebit-adam(warmup=5"), 0U);

  EXPECT_EQ(optimiser("auto", {}, "dgc"), "dgc(weight-decay=0, decay-momentum=0.9, nesterov=false)");
  EXPECT_EQ(optimiser("sgd", {}, "momentum | topk(0.1)"),
            "sgd(momentum=0, nesterov=false, weight-decay=0, dampening=0)");

  const auto decay = [](double value) { return [value](TrainOptions& o) { o.weight_decay = value; }; };
  EXPECT_NE(optimiser("adamw").find("weight-decay=0.01"), std::string::npos) << "its own";
  EXPECT_NE(optimiser("adamw", decay(0)).find("weight-decay=0,"), std::string::npos);
  const auto dense = [](TrainOptions& o) { o.codec_start_after = 7; };
  EXPECT_EQ(optimiser("auto", dense, "onebit-adam").find("onebit-adam(warmup=7"), 0U);
  EXPECT_EQ(optimiser("sgd", dense), optimiser("sgd")) << "it has no such steps of its own";

  const auto refusal = [&](const std::string& said, const auto& set, const std::string& codec = "none") {
    TrainOptions options;
    options.optimiser = said;
    options.codec = codec;
    set(options);
    return message_of([&] { read_choices(options); });
  };
  EXPECT_NE(refusal("adam", momentum).find("momentum 0.5: the optimiser `adam` has no momentum; it has beta1"),
            std::string::npos);
  EXPECT_NE(refusal("sgd(momentum=0.9)", momentum).find("leave one of them out"), std::string::npos);
  EXPECT_NE(refusal("sgd(0.9)", momentum).find("leave one of them out"), std::string::npos);
  EXPECT_NE(refusal("onebit-adam(9)", dense).find("codec-start-after 7: the optimiser `onebit-adam(9)` says it, too"),
            std::string::npos);
  EXPECT_NE(refusal("sgd", decay(-0.5)).find("weight-decay must be in [0, inf)"), std::string::npos);
  EXPECT_NE(refusal("sgdd", momentum).find("did you mean `sgd`"), std::string::npos);
  EXPECT_NE(refusal(
                "sgd", [](TrainOptions&) {}, "signum")
                .find("tied to the optimiser `signum`"),
            std::string::npos);
}

TEST(Choices, ClippingNeedsAMeanGradientOrIsOfEachRanks) {
  const auto refusal = [](const char* clip, const char* algorithm, const char* optimiser = "auto",
                          const char* codec = "none") {
    TrainOptions options;
    options.clip = clip;
    options.algorithm = algorithm;
    options.optimiser = optimiser;
    options.codec = codec;
    options.ranks = 2;
    return message_of([&] { read_choices(options); });
  };
  const auto expect = [](const std::string& found, const char* part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  for (const char* expression : {"sync", "sync(priority=need)", "parameter_server", "push_sum", "d_psgd", "ad_psgd",
                                 "choco", "local", "diloco"}) {
    EXPECT_EQ(refusal("norm(1, when=before)", expression, "auto", "sign"), "") << expression;
    EXPECT_EQ(refusal("value(1, when=before)", expression, "auto", "sign"), "") << expression;
  }
  EXPECT_EQ(refusal("norm(1)", "sync"), "");
  EXPECT_EQ(refusal("norm(1)", "sync", "adamw", "ef | topk(0.1)"), "");
  EXPECT_EQ(refusal("value(1)", "sync(priority=need)"), "");
  EXPECT_EQ(refusal("value(1)", "parameter_server(mode=async)"), "");
  expect(refusal("norm(1)", "sync(priority=need)"), "`sync(priority=need)` makes steps of parts of the mean");
  expect(refusal("norm(1)", "parameter_server"), "`parameter_server` makes steps of parts of the mean");
  expect(refusal("norm(1)", "local"), "ranks of `local` step along their own gradients");
  expect(refusal("value(1)", "push_sum"), "clip each rank's gradient: when=before");
  expect(refusal("norm(1)", "sync", "signum"), "the optimiser `signum` exchanges no gradients");
  expect(refusal("norm(1)", "sync", "auto", "onebit-adam"), "the optimiser `onebit-adam` exchanges no gradients");
  expect(refusal("norm(1)", "sync", "auto", "dgc"), "makes momenta of gradients");
  EXPECT_EQ(refusal("norm(1, when=before)", "sync", "auto", "dgc"), "");
  expect(refusal("norm(x)", "sync"), "most must be a number");
}

TEST(Choices, GroupsHaveOptionsOfTheOptimiser) {
  TrainOptions options;
  options.weight_decay = 0.1;
  options.group = "*.bias,*norm*: weight-decay=0; fc*: lr-scale=0.5";
  const ChosenOptimiser chosen = read_choices(options).optimiser;
  ASSERT_EQ(chosen.groups.size(), 2U);
  EXPECT_EQ(chosen.groups[0].optimiser.text(), "sgd(momentum=0.9, nesterov=false, weight-decay=0, dampening=0)");
  EXPECT_EQ(chosen.groups[1].optimiser.text(), "sgd(momentum=0.9, nesterov=false, weight-decay=0.1, dampening=0)");
  const std::string lasting = run_identity(read_choices(options), "", Layout(), 1).at("optimiser");
  EXPECT_EQ(lasting,
            "sgd(momentum=0.9, nesterov=false, dampening=0); *.bias,*norm*: sgd(momentum=0.9, nesterov=false, "
            "dampening=0); fc*: "
            "sgd(momentum=0.9, nesterov=false, dampening=0)")
      << "decays and factors of the rate may change";
  options.group = "fc*: momentum=0.5";
  options.codec = "momentum | topk(0.1)";
  EXPECT_NE(message_of([&] { read_choices(options); }).find("makes the momentum before gradients are sent"),
            std::string::npos);
}

TEST(Choices, OneMeanOfIteratesIsKept) {
  TrainOptions options;
  options.ema = 0.99;
  EXPECT_EQ(run_identity(read_choices(options), "", Layout(), 1).at("average-iterates"), "exponential, decay 0.99");
  options.average_iterates = 5;
  EXPECT_NE(message_of([&] { read_choices(options); }).find("only one mean is kept"), std::string::npos);
}

TEST(Choices, TheRateIsTheOptimisersOrTheModels) {
  TrainOptions options;
  options.optimiser = "adam";
  EXPECT_EQ(lr_of(options), 1e-3);
  options.lr = 0.5;
  EXPECT_EQ(lr_of(options), 0.5);
}

TEST(Choices, TheRateGrowsWithTheExamplesOfAStep) {
  TrainOptions options;
  options.lr = 0.1;
  options.batch_size = 256;
  options.ranks = 8;
  options.lr_scale = true;
  EXPECT_DOUBLE_EQ(lr_of(options), 0.8);
  options.batch_size = 32;
  options.accumulate = 4;
  EXPECT_DOUBLE_EQ(lr_of(options), 0.4);
  options.algorithm = "parameter_server(servers=2, dedicated=true)";
  EXPECT_DOUBLE_EQ(lr_of(options), 0.3) << "servers see no examples";
  options = {};
  options.lr_scale = true;
  EXPECT_DOUBLE_EQ(lr_of(options), 0.05 / 4) << "the model's";
}

TEST(Choices, OfAnOptimiserAllLastsButTheDecay) {
  const auto lasting = [](const char* optimiser) {
    TrainOptions options;
    options.optimiser = optimiser;
    return run_identity(read_choices(options), "", Layout(), 1).at("optimiser");
  };
  EXPECT_EQ(lasting("sgd(momentum=0.9, weight-decay=0.1)"), "sgd(momentum=0.9, nesterov=false, dampening=0)");
  EXPECT_EQ(lasting("sign(weight-decay=0.1)"), "sign");
}

RunPlan plan_of(const TrainOptions& options, std::uint64_t batches, std::uint64_t dense_steps) {
  const auto accumulate = static_cast<std::uint64_t>(options.accumulate);
  return plan_run(read_choices(options), Course(Epochs::of(batches), {.accumulate = accumulate}), dense_steps);
}

std::string phases_of(const RunPlan& plan) {
  std::string text;
  for (const Phase& phase : plan.phases)
    text += std::to_string(phase.first_step) + " " + phase.recipe.source_text + "; ";
  return text;
}

TEST(RunPlan, CountsStepsOfMicroSteps) {
  TrainOptions options;
  options.epochs = 5;
  options.accumulate = 4;
  RunPlan plan = plan_of(options, 18, 0);
  EXPECT_EQ(plan.epoch.steps(), 4.5);
  EXPECT_EQ(plan.steps, 22U);
  EXPECT_EQ(plan.horizon, 22U);
  options.max_steps = 7;
  plan = plan_of(options, 18, 0);
  EXPECT_EQ(plan.steps, 7U);
  EXPECT_EQ(plan.horizon, 22U) << "a stop stretches nothing";
  options.horizon = 100;
  EXPECT_EQ(plan_of(options, 18, 0).horizon, 100U);
  options.accumulate = 91;
  EXPECT_NE(message_of([&] { plan_of(options, 18, 0); }).find("5 epochs have only 90 micro-steps"), std::string::npos);
}

TEST(RunPlan, BeginsDenseWhereSomebodySaysSo) {
  TrainOptions options;
  options.codec = "ef | topk(0.1)";
  EXPECT_EQ(phases_of(plan_of(options, 10, 0)), "0 ef | topk(0.1); ");
  EXPECT_EQ(phases_of(plan_of(options, 10, 6)), "0 ef | f32; 6 ef | topk(0.1); ") << "the optimiser";
  options.codec_start_after = 9;
  EXPECT_EQ(phases_of(plan_of(options, 10, 0)), "0 ef | f32; 9 ef | topk(0.1); ");
  EXPECT_FALSE(plan_of(options, 10, 0).only_dense());
  options.codec_start_after = 30;
  EXPECT_TRUE(plan_of(options, 10, 0).only_dense());
  options.codec_start_after = 0;
  EXPECT_FALSE(plan_of(options, 10, 0).only_dense());
  options.codec_warmup = "list(50%/20%)";
  options.codec_start_after = 15;
  const std::string found = phases_of(plan_of(options, 10, 0));
  EXPECT_TRUE(found.starts_with("0 ef | f32; 15 ef | topk(ratio=0.5")) << found << ": the warm-up begins after them";
  EXPECT_NE(found.find("; 20 ef | topk(ratio=0.2"), std::string::npos) << found;
  EXPECT_NE(found.find("; 25 ef | topk(ratio=0.1"), std::string::npos) << found;
}

TEST(Choices, ContradictionsAreRefused) {
  TrainOptions unknown;
  unknown.model = "lenett";
  EXPECT_NE(message_of([&] { read_choices(unknown); }).find("did you mean `lenet`"), std::string::npos);
  TrainOptions shrinkage;
  shrinkage.lr_shrinkage = 0.5;
  shrinkage.schedule = "cosine";
  EXPECT_THROW(read_choices(shrinkage), ConfigError);
  TrainOptions resume;
  resume.resume = true;
  EXPECT_NE(message_of([&] { read_choices(resume); }).find("train-dir"), std::string::npos);
}

}  // namespace
}  // namespace sotto
