#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "sotto/codec/gradient_file.h"
#include "sotto/comm/threads.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/state_file.h"
#include "sotto/train/capture.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/file_work.h"
#include "sotto/train/folder_lock.h"
#include "sotto/train/manifest.h"
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

TEST(TrainOptions, TheRateGrowsWithTheExamplesOfAStep) {
  TrainOptions options;
  options.lr = 0.1;
  options.batch_size = 256;
  options.ranks = 8;
  options.lr_scale = true;
  EXPECT_DOUBLE_EQ(chosen_optimiser(options).lr, 0.8);
  options.batch_size = 32;
  options.accumulate = 4;
  EXPECT_DOUBLE_EQ(chosen_optimiser(options).lr, 0.4);
  options.algorithm = "parameter_server(servers=2, dedicated=true)";
  EXPECT_DOUBLE_EQ(chosen_optimiser(options).lr, 0.3) << "servers see no examples";
  options = {};
  options.lr_scale = true;
  EXPECT_DOUBLE_EQ(chosen_optimiser(options).lr, 0.05 / 4) << "the model's";
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
  Recorder::prepare(temp.path(), {});
  {
    Recorder recorder(temp.path(), 3);
    for (std::uint64_t step = 0; step < 5; ++step) recorder.add(row(step));
    EXPECT_NEAR(recorder.median_step_ms(), 3.0, 0.03);
    EXPECT_DOUBLE_EQ(recorder.means().step_ms, 3.0);
    EXPECT_DOUBLE_EQ(recorder.means().bytes_sent, 20.0);
  }
  const std::string all = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6);
  EXPECT_NE(all.find("\n4,3,"), std::string::npos);
  write(temp.path() / "steps.csv", all + "5,3,0.1");                         // a row that a crash cut off
  Recorder::prepare(temp.path(), std::array<std::uint64_t, 4>{0, 0, 0, 3});  // of each rank
  const std::string kept = read_text(temp.path() / "steps.csv");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 4);
  EXPECT_NE(kept.find("\n2,3,"), std::string::npos);
  EXPECT_EQ(kept.find("\n3,3,"), std::string::npos);
}

TEST(Recorder, TellsWhatShareOfTheExchangesComputingHid) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  recorder.add(row(0));
  EXPECT_FALSE(recorder.means().hidden());  // there were none
  StepRow exchanged = row(1);
  exchanged.report.phases = {.encode = 0.001, .network = 0.006, .decode = 0.001};
  exchanged.report.wait = 0.002;
  exchanged.report.queue = 0.004;
  recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.means().queue_ms, 2.0);
  EXPECT_DOUBLE_EQ(recorder.means().hidden().value_or(-1), 0.75);
  exchanged.report.wait = 1;  // for a peer that is late, before the exchange
  for (int i = 0; i < 4; ++i) recorder.add(exchanged);
  EXPECT_DOUBLE_EQ(recorder.means().hidden().value_or(-1), 0);
}

// A dense warm-up is in what a step sends.
TEST(Recorder, BytesOfAStepAreTheMean) {
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  for (std::uint64_t step = 0; step < 200; ++step) {
    StepRow sent = row(step);
    sent.bytes_sent = step < 60 ? 1000 : 2;
    recorder.add(sent);
  }
  EXPECT_DOUBLE_EQ(recorder.means().bytes_sent, (60 * 1000 + 140 * 2) / 200.0);
}

TEST(Recorder, AFileThatIsTakenAwayIsBegunAnew) {
  const TempFolder temp;
  const fs::path file = temp.path() / "steps.csv";
  Recorder::prepare(temp.path(), {});
  Recorder first(temp.path(), 0), second(temp.path(), 1);
  first.add(row(0));
  first.flush();
  EXPECT_EQ(first.take_remark(), "");
  for (const bool moved : {false, true}) {
    moved ? fs::rename(file, temp.path() / "old") : static_cast<void>(fs::remove(file));
    for (Recorder* recorder : {&first, &second}) {
      recorder->add(row(7));
      recorder->flush();
      EXPECT_NE(recorder->take_remark().find("steps.csv was taken away"), std::string::npos);
      EXPECT_EQ(recorder->take_remark(), "");
    }
    const std::string text = read_text(file);
    EXPECT_TRUE(text.starts_with("step,rank,")) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
    EXPECT_NE(text.find("\n7,0,"), std::string::npos);
    EXPECT_NE(text.find("\n7,1,"), std::string::npos);
  }
}

// Ten million rows in memory would be a gigabyte.
TEST(Recorder, KeepsNoRows) {
  EXPECT_LT(sizeof(Recorder), 32U << 10U);
  const TempFolder temp;
  Recorder::prepare(temp.path(), {});
  Recorder recorder(temp.path(), 0);
  const auto resident = [] {
    std::ifstream status("/proc/self/statm");
    std::size_t all = 0, pages = 0;
    status >> all >> pages;
    return pages * static_cast<std::size_t>(::getpagesize());
  };
  const auto add = [&](std::uint64_t count) {
    for (std::uint64_t step = 0; step < count; ++step) {
      recorder.add(row(step));
      if (step % 100 == 0) recorder.flush();
    }
  };
  add(1000);
  const std::size_t before = resident();
  add(50'000);
  EXPECT_LE(resident(), before + (1U << 20U));  // 6 MB of rows
}

TEST(FolderLock, OnlyAnotherHolderKeepsItAway) {
  const TempFolder temp;
  const FolderLock first(temp.path());
  EXPECT_TRUE(first.held());
  EXPECT_EQ(first.doubt(), "");
  EXPECT_FALSE(FolderLock(temp.path()).held());
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    static int reason = 0;
    reason = error;
    const FolderLock without(temp.path(), [](int, int) {
      errno = reason;
      return -1;
    });
    EXPECT_TRUE(without.held());
    EXPECT_NE(without.doubt().find("cannot be locked"), std::string::npos);
  }
}

TEST(Manifest, ComesBackAndTellsPartsApart) {
  const TempFolder temp;
  Workers workers(2);
  Manifest manifest{.run = "ab", .step = 7, .rolling = true, .identity = {{"ranks", "2"}}, .parts = {}};
  for (const char* name : {"rank_0", "rank_1"}) {
    StateWriter part(temp.path() / name, part_text(manifest, name), workers);
    part.add("values", std::vector<float>{1, 2});
    manifest.parts[name] = part.finish();
  }
  write_manifest(temp.path(), manifest);
  const Manifest read = Manifest::of_text(read_manifest_text(temp.path()));
  EXPECT_TRUE(read.run == "ab" && read.step == 7 && read.rolling);
  EXPECT_EQ(read.identity, manifest.identity);
  EXPECT_EQ(read.parts, manifest.parts);
  const auto problem = [&](const char* name) { return problem_of_part(temp.path(), name, manifest, workers); };
  EXPECT_EQ(problem("rank_0"), "");
  EXPECT_NE(problem("rank_2").find("has no such part"), std::string::npos);
  fs::copy_file(temp.path() / "rank_0", temp.path() / "rank_1", fs::copy_options::overwrite_existing);
  EXPECT_NE(problem("rank_1").find("but rank_0 of step 7 of the same run"), std::string::npos) << problem("rank_1");
  write(temp.path() / "rank_1", "damaged");
  EXPECT_NE(problem("rank_1").find("rank_1: not a file of this kind"), std::string::npos) << problem("rank_1");
  fs::remove(temp.path() / "rank_1");
  EXPECT_NE(problem("rank_1").find("missing"), std::string::npos);
}

// A disk that is much slower than the deadline of the network.
TEST(FileWork, DisksHaveTimeOfTheirOwn) {
  std::atomic<int> ended = 0;
  const auto deadline = std::chrono::seconds(2);
  run_threads(3, deadline, [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(60));
    files.run("write", [&] {
      if (communicator.rank() == 1) std::this_thread::sleep_for(2 * deadline);
      ++ended;
    });
    EXPECT_EQ(ended, 3) << "all wait for all";
  });
}

TEST(FileWork, AllHearOfAnError) {
  std::array<std::string, 3> heard;
  run_threads(3, std::chrono::seconds(20), [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(60));
    try {
      files.run("write its part", [&] {
        if (communicator.rank() == 1) throw FileError("the disk is full");
      });
    } catch (const FileError& error) {
      heard[static_cast<std::size_t>(communicator.rank())] = error.what();
    } catch (const CommError& error) {
      heard[static_cast<std::size_t>(communicator.rank())] = std::string("C ") + error.what();
    }
    communicator.barrier();  // which can still be had
  });
  EXPECT_EQ(heard[0], "C rank 1 could not write its part: the disk is full");
  EXPECT_EQ(heard[1], "the disk is full");
  EXPECT_EQ(heard[2], heard[0]);
}

TEST(FileWork, EndsAtItsOwnLimit) {
  std::atomic<bool> others_gave_up = false;
  std::array<std::string, 2> heard;
  run_threads(2, std::chrono::seconds(20), [&](Communicator& communicator) {
    FileWork files(communicator, std::chrono::seconds(0));
    heard[static_cast<std::size_t>(communicator.rank())] = message_of([&] {
      files.run("write", [&] {
        while (communicator.rank() == 1 && !others_gave_up) std::this_thread::yield();
      });
    });
    if (communicator.rank() == 0) others_gave_up = true;
  });
  EXPECT_NE(heard[0].find("rank 1 to write; --disk-deadline"), std::string::npos) << heard[0];
}

TEST(Capture, IsWrittenBesideAndItsErrorsCome) {
  const TempFolder temp;
  const Layout layout({{"w", 0, {3}}}, 16);
  Capture capture("every=2,dir=" + (temp.path() / "folder").string());
  for (std::uint64_t step = 0; step < 6; step += 2) {
    const auto room = capture.room(16);
    std::ranges::fill(room, 0.0F);
    room[0] = static_cast<float>(step);
    capture.write(step, layout);
  }
  capture.finish();
  EXPECT_EQ(read_gradient_file(temp.path() / "folder" / "gradient-000004.sotto").values[0], 4);
  fs::remove_all(temp.path() / "folder");
  write(temp.path() / "folder", "in the way");
  capture.write(6, layout);
  EXPECT_NE(message_of([&] { capture.finish(); }).find("folder"), std::string::npos);
  capture.finish();  // said once
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
