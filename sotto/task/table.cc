#include "sotto/task/table.h"

#include <array>

#include "sotto/task/classify.h"

namespace sotto {
namespace {

constexpr std::array entries{
    TaskEntry{"classify", "tells which of some classes an image belongs to", classify_metrics, "accuracy",
              classify_models, classify_defaults, make_classify},
};
constexpr Table<TaskEntry> table("task", entries);

}  // namespace

const Table<TaskEntry>& task_table() { return table; }

}  // namespace sotto
