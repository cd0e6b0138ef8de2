#include "sotto/task/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sotto/core/error.h"
#include "sotto/data/dataset.h"
#include "sotto/data/pairs.h"
#include "sotto/data/rows.h"
#include "sotto/data/text.h"
#include "sotto/model/image_model.h"
#include "sotto/model/language_model.h"
#include "sotto/model/library.h"
#include "sotto/model/linear_model.h"
#include "sotto/model/translation_model.h"
#include "sotto/task/classify.h"
#include "sotto/task/language.h"
#include "sotto/task/linear.h"
#include "sotto/task/masked.h"
#include "sotto/task/regress.h"
#include "sotto/task/translate.h"

namespace sotto {
namespace {

template <const auto& (*table)()>
std::vector<std::string_view> names_in() {
  return table().names();
}

constexpr std::array entries{
    TaskEntry{"classify", "tells which of some classes an image belongs to", classify_metrics, "accuracy",
              names_in<image_model_table>, names_in<dataset_table>, classify_models, read_classify_model, make_classify,
              true, true},
    TaskEntry{"regress", "predicts the label of an image as a number", regress_metrics, "r2",
              names_in<image_model_table>, names_in<dataset_table>, regress_models, read_regress_model, make_regress,
              true, true},
    TaskEntry{"language", "predicts the next token of a text", language_metrics, "loss", names_in<language_model_table>,
              names_in<text_table>, language_models, read_language_model, make_language},
    TaskEntry{"masked", "finds hidden tokens of a text", masked_metrics, "loss", names_in<masked_model_table>,
              names_in<text_table>, masked_models, read_masked_model, make_masked},
    TaskEntry{"translate", "translates sentences", translate_metrics, "bleu", names_in<translation_model_table>,
              names_in<pair_table>, translate_models, read_translate_model, make_translate},
    TaskEntry{"classify-rows", "tells to which of two classes a sparse row belongs", two_class_metrics, "accuracy",
              names_in<two_class_model_table>, names_in<row_table>, two_class_models, read_two_class_model,
              make_two_class, true},
    TaskEntry{"regress-rows", "predicts the label of a sparse row as a number", value_metrics, "r2",
              names_in<value_model_table>, names_in<row_table>, value_models, read_value_model, make_value, true},
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

const TaskEntry& find_task(std::string_view name, const Sentence& model, std::string_view data) {
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
