#include "app/task/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cctype>

#include "app/data/images/dataset.h"
#include "app/data/rows/rows.h"
#include "app/data/text/pairs.h"
#include "app/data/text/text.h"
#include "app/model/image_model.h"
#include "app/model/language_model.h"
#include "app/model/library.h"
#include "app/model/linear_model.h"
#include "app/model/translation_model.h"
#include "app/task/image_task.h"
#include "app/task/linear.h"
#include "app/task/text_task.h"
#include "app/task/translate.h"

namespace sotto {
namespace {

template <const auto& (*table)()>
std::vector<std::string_view> names_in() {
  return table().names();
}

constexpr std::string_view adamw = "adamw", adagrad = "adagrad";

// The models of a task with its own table, and the optimiser that their learning rates are for.
template <const auto& (*table)(), const std::string_view& optimiser>
struct Models {
  static std::string help() {
    const auto& models = table();
    std::size_t width = 12;
    for (const auto& model : models) width = std::max(width, model.name.size());
    std::string text;
    for (const auto& model : models) {
      text += fmt::format("  {:<{}} {}; {}, lr {}\n", model.name, width, model.summary, optimiser, model.default_lr);
    }
    const std::string common = help_options(models.begin()->options());
    const auto has_these = [&](const auto& model) { return help_options(model.options()) == common; };
    const bool same = std::all_of(models.begin(), models.end(), has_these);
    return text + (same ? "Options of all:\n" + common : models.options());
  }
  static ModelChoice read(const Expression& expression) {
    auto spec = table().read(expression);
    const ModelDefaults defaults{spec.entry->default_lr, 0.9, optimiser};
    return {spec.entry->name, std::move(spec.options), std::move(spec.place), defaults};
  }
};

template <const auto& (*models)(), const std::string_view& optimiser, const auto& (*data)()>
constexpr TaskEntry entry(std::string_view name, std::string_view summary, std::span<const Metric> metrics,
                          std::string_view goal, std::unique_ptr<Task> (*make)(const TaskSetup& setup),
                          bool has_labels = false) {
  using Its = Models<models, optimiser>;
  return {name, summary, metrics, goal, names_in<models>, names_in<data>, Its::help, Its::read, make, has_labels};
}

constexpr std::array entries{
    TaskEntry{"classify", "tells which of some classes an image belongs to", classify_metrics, "accuracy",
              names_in<image_model_table>, names_in<dataset_table>, image_models,
              [](const Expression& expression) { return read_image_model(expression); }, make_classify, true, true},
    TaskEntry{"regress", "predicts the label of an image as a number", regress_metrics, "r2",
              names_in<image_model_table>, names_in<dataset_table>, regress_models, read_regress_model, make_regress,
              true, true},
    entry<language_model_table, adamw, text_table>("language", "predicts the next token of a text", language_metrics,
                                                   "loss", make_language),
    entry<masked_model_table, adamw, text_table>("masked", "finds hidden tokens of a text", masked_metrics, "loss",
                                                 make_masked),
    entry<translation_model_table, adamw, pair_table>("translate", "translates sentences", translate_metrics, "bleu",
                                                      make_translate),
    entry<two_class_model_table, adagrad, row_table>("classify-rows",
                                                     "tells to which of two classes a sparse row belongs",
                                                     two_class_metrics, "accuracy", make_two_class, true),
    entry<value_model_table, adagrad, row_table>("regress-rows", "predicts the label of a sparse row as a number",
                                                 value_metrics, "r2", make_value, true),
};
constexpr Table<TaskEntry> table("task", entries);

bool has(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::count(names, name) > 0;
}

}  // namespace

const Table<TaskEntry>& task_table() { return table; }

std::string recorded_model(std::string_view model) {
  if (names_library(model)) return with_absolute_path(model);
  std::string text(model);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string_view default_model(std::string_view name, std::string_view data) {
  if (name != "auto") return table.require("task", name).model_names().front();
  const auto fits = [&](const TaskEntry& task) { return data == "auto" || has(task.data_names(), data); };
  const auto found = std::ranges::find_if(entries, fits);
  return (found == entries.end() ? entries.front() : *found).model_names().front();  // or else the data are refused
}

const TaskEntry& find_task(std::string_view name, const Expression& model, std::string_view data) {
  if (name != "auto") {
    const TaskEntry& task = table.require("task", name);
    const auto other = [&](const TaskEntry& entry) { return has(entry.data_names(), data); };
    if (data != "auto" && !other(task) && std::ranges::any_of(entries, other)) {
      throw ConfigError(fmt::format("{}: is not for the task {}, which takes {}", named("data", data), name,
                                    fmt::join(task.data_names(), ", ")));
    }
    return task;
  }
  const Call& call = model.calls.front();
  const bool own = names_library(call.name);
  std::vector<std::string_view> models;
  const auto fits = [&](const TaskEntry& task) {
    const std::vector<std::string_view> known = task.model_names();
    models.insert(models.end(), known.begin(), known.end());
    return 2 * int{has(known, call.name) || (own && task.takes_libraries)} +
           int{data == "auto" || has(task.data_names(), data)};
  };
  const TaskEntry& best = *std::ranges::max_element(entries, {}, fits);
  if (data == "auto" && !own && !has(models, call.name)) {
    std::ranges::sort(models);
    models.erase(std::ranges::unique(models).begin(), models.end());
    fail_at(model, call, call.position, unknown_name("model", call.name, models));
  }
  if (data != "auto" && !has(best.data_names(), data)) {
    std::vector<std::string_view> others;
    for (const TaskEntry& task : entries) {
      if (!has(task.data_names(), data)) continue;
      for (const std::string_view other : task.model_names()) {
        if (!has(others, other)) others.push_back(other);
      }
    }
    if (!others.empty()) {
      throw ConfigError(fmt::format("{}: is not for the model {}; it goes with {}", named("data", data), call.name,
                                    fmt::join(others, ", ")));
    }
  }
  return best;
}

}  // namespace sotto
