#include "sotto/task/table.h"

#include <array>

#include "sotto/task/classify.h"
#include "sotto/task/regress.h"

namespace sotto {
namespace {

constexpr std::array entries{
    TaskEntry{"classify", "tells which of some classes an image belongs to", classify_metrics, "accuracy",
              classify_models, read_classify_model, make_classify},
    TaskEntry{"regress", "predicts the label of an image as a number", regress_metrics, "r2", regress_models,
              read_regress_model, make_regress},
};
constexpr Table<TaskEntry> table("task", entries);

}  // namespace

const Table<TaskEntry>& task_table() { return table; }

}  // namespace sotto
