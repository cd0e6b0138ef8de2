#include "app/task/image_task.h"

#include <fmt/ranges.h>

#include <bit>
#include <thread>

#include "app/data/images/loader.h"
#include "app/model/library.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// Help for the options of all models, and then of each family: models with the same options that one function makes.
std::string image_model_options() {
  const std::string common = help_options(image_model_table().begin()->options());
  std::string text = "Options of all models:\n" + common;
  for (auto model = image_model_table().begin(); model != image_model_table().end(); ++model) {
    const auto same = [&](const ImageModelEntry& other) {
      return other.make == model->make && names_of_options(other.options()) == names_of_options(model->options());
    };
    if (std::any_of(image_model_table().begin(), model, same)) continue;
    std::string own;
    std::istringstream all(help_options(model->options()));
    for (std::string line; std::getline(all, line);) {
      if (common.find(line) == common.npos) own += line + "\n";
    }
    if (own.empty()) continue;
    std::vector<std::string_view> family;
    for (const ImageModelEntry& other : image_model_table()) {
      if (same(other)) family.push_back(other.name);
    }
    text += fmt::format("Options of {}:\n{}", fmt::join(family, ", "), own);
  }
  return text;
}

// The options with a number of threads.
DataOptions with_threads(DataOptions options, int ranks) {
  if (!options.data_threads) {
    options.data_threads = std::max<std::int64_t>(1, std::thread::hardware_concurrency() / (4 * ranks));
  }
  return options;
}

constexpr std::size_t most_floats = std::size_t{1} << 23;  // at most, in the images that are evaluated at once

ImageModelSpec spec_of(const ModelChoice& choice) {
  const bool own = choice.name == library_entry().name;
  return own ? ImageModelSpec{&library_entry(), choice.options, choice.place} : choice.in(image_model_table());
}

Labels all_labels(const Dataset& data) {
  Labels labels;
  for (std::int64_t label = 0; label < data.classes(); ++label) labels.names.push_back(data.class_name(label));
  for (std::size_t i = 0; i < data.size(); ++i) labels.classes.push_back(static_cast<std::uint32_t>(data.label(i)));
  return labels;
}

class ImageTask final : public ModelTask<ImageModel, Dataset, Loader> {
 public:
  ImageTask(const TaskSetup& setup, const ImageTraits& traits)
      : ImageTask(setup, traits, with_threads(setup.data, setup.share.ranks)) {}
  ImageTask(const TaskSetup& setup, const ImageTraits& traits, const DataOptions& options)
      : ModelTask{setup.batch > 0 ? open_dataset(options, Split::train) : nullptr, open_dataset(options, Split::test),
                  2 + traits.sums, traits.metrics},
        traits_(traits),
        test_batch_(std::min({setup.test_batch, std::max<std::size_t>(1, test_->size()),
                              std::max<std::size_t>(1, most_floats / test_->shape().size())})),
        readers_(any().decodes() ? static_cast<int>(options.data_threads.value()) : 1) {
    if (train_ && train_->shape() != test_->shape()) {
      const auto text = [](ImageShape shape) { return fmt::format("{}x{}", shape.height, shape.width); };
      throw ConfigError(fmt::format("{}: images of {} pixels for training and of {} for tests; both need one size",
                                    named("data-dir", options.data_dir), text(train_->shape()), text(test_->shape())));
    }
    model_ = make_image_model(spec_of(setup.model), any().shape(), traits.outputs(any()), setup.seed, traits.loss);
    model_->compute_in(setup.precision);
    if (setup.data.data_threads && !any().decodes()) {
      throw ConfigError(named("data-threads", format_optional(setup.data.data_threads)) +
                        ": is for pictures in files, and these data are none; leave it out");
    }
    if (!train_) return;
    if (deals(setup.partition)) partition_ = {setup.partition, all_labels(*train_), {setup.share.ranks, setup.seed}};
    order_.emplace(*train_, LoaderOptions{{setup.seed, setup.share.rank, setup.share.ranks, setup.batch},
                                          setup.prefetch,
                                          read_augment(options.augment, *train_),
                                          readers_.threads(),
                                          partition_.hand(setup.share.rank)});
  }

  std::uint64_t sample_hash(Split split) const override {
    std::vector<float> image(data(split).shape().size());
    std::int64_t label = 0;
    return hash_of_some(split, 16, [&](Hash& hash, const Dataset& images, std::size_t i) {
      images.read(i, image, label);
      hash.add(static_cast<std::uint64_t>(label));
      for (const float value : image) hash.add(std::bit_cast<std::uint32_t>(value));
    });
  }

  double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                             const SegmentCalls& calls) override {
    Timer waiting;
    const Batch batch = order_->at(position);
    data_seconds_ = waiting.seconds();
    const double loss = model_->accumulate_gradient(batch, scale, random, calls, adds_to(trained_, batch));
    trained_[0] += loss * static_cast<double>(batch.count());
    return loss;
  }
  std::string data_report(int first_rank) const override { return partition_.report(first_rank); }

  // Evaluates every `ranks`-th example, beginning with example `rank`.
  Tally evaluate(Split split, Share share, const AfterBatch& after_batch) override {
    const Dataset& examples = data(split);
    const std::size_t image = examples.shape().size();
    std::vector<float> images(test_batch_ * image);
    std::vector<std::int64_t> labels(test_batch_);
    Tally total(trained_.size());
    std::uint64_t done = 0;
    const auto stride = static_cast<std::size_t>(share.ranks);
    for (auto next = static_cast<std::size_t>(share.rank); next < examples.size(); next += test_batch_ * stride) {
      const std::size_t count = std::min(test_batch_, (examples.size() - next + stride - 1) / stride);
      readers_.run(count, [&](std::size_t i) {
        examples.read(next + i * stride, std::span(images).subspan(i * image, image), labels[i]);
      });
      const Batch batch{std::span<const float>(images).first(count * image),
                        std::span<const std::int64_t>(labels).first(count), examples.shape()};
      total[0] += model_->evaluate(batch, adds_to(total, batch));
      if (after_batch) after_batch(done += count);
    }
    return total;
  }

  std::vector<double> values(const Tally& tally) const override { return traits_.values(tally); }
  double loss_of_guessing() const override { return traits_.loss_of_guessing(*test_); }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> all = train_ ? train_->remarks() : std::vector<std::string>();
    const std::vector<std::string> tests = test_->remarks();
    all.insert(all.end(), tests.begin(), tests.end());
    return all;
  }

 private:
  const Dataset& any() const { return train_ ? *train_ : *test_; }
  ImageModel::SeeOutputs adds_to(Tally& tally, const Batch& batch) const {
    return [&](std::span<const float> outputs) {
      tally[1] += static_cast<double>(batch.count());
      traits_.add(outputs, batch, std::span(tally).subspan(2));
    };
  }

  ImageTraits traits_;
  std::size_t test_batch_;
  Partition partition_;
  ThreadPool readers_;  // of evaluations
};

// ConfigError for an option that this model's name decides, though others of its family have it.
void require_name_alone(const Expression& expression, const ImageModelEntry& model) {
  const Call& call = expression.calls.front();
  const auto has = [](const ImageModelEntry& entry, const std::string& option) {
    return std::ranges::count(names_of_options(entry.options()), option) > 0;
  };
  for (const Argument& argument : call.arguments) {
    if (has(model, argument.key)) continue;
    for (const ImageModelEntry& other : image_model_table()) {
      if (other.make != model.make || !has(other, argument.key)) continue;
      fail_at(expression, call, argument.position,
              fmt::format("the name {} says its {}; write {}({}={})", model.name, argument.key, other.name,
                          argument.key, argument.value));
    }
  }
}

}  // namespace

std::unique_ptr<Task> make_image_task(const TaskSetup& setup, const ImageTraits& traits) {
  return std::make_unique<ImageTask>(setup, traits);
}

std::string image_models() {
  std::string text;
  for (const ImageModelEntry& model : image_model_table()) {
    text += fmt::format("  {:<12} {}; lr {}, momentum {}\n", model.name, model.summary, model.default_lr,
                        model.default_momentum);
  }
  text += fmt::format("  {:<12} {}, see docs/api.md; lr {}, momentum {}\n", "./mine.so", library_entry().summary,
                      library_entry().default_lr, library_entry().default_momentum);
  return text + image_model_options();
}

ModelChoice read_image_model(const Expression& expression, double rate) {
  const ImageModelEntry* known = image_model_table().find(expression.calls.front().name);
  if (known != nullptr) require_name_alone(expression, *known);
  const bool own = names_library(expression.calls.front().name);
  ImageModelSpec spec = own ? read_library(expression) : image_model_table().read(expression);
  const ModelDefaults defaults{rate * spec.entry->default_lr, spec.entry->default_momentum};
  std::string fingerprint = own ? fingerprint_of(spec) : "";
  return {spec.entry->name, std::move(spec.options), std::move(spec.place), defaults, std::move(fingerprint)};
}

}  // namespace sotto
