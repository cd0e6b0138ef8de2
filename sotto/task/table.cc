#include "sotto/task/table.h"

#include <fmt/format.h>

#include <array>

#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/task/classify.h"

namespace sotto {
namespace {

constexpr std::array table{
    TaskEntry{"classify", "tells which of some classes an image belongs to", classify_metrics, "accuracy",
              classify_models, classify_defaults, make_classify},
};

}  // namespace

std::span<const TaskEntry> task_table() { return table; }

const TaskEntry& task_entry(std::string_view where, std::string_view name) {
  if (const TaskEntry* entry = find_entry(task_table(), name)) return *entry;
  throw ConfigError(fmt::format("{}: {}", named(where), unknown_name("task", name, names_of(task_table()))));
}

}  // namespace sotto
