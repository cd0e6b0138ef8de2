#include "laws.h"

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

#include "tests/comm/law_checks.h"

namespace sotto {
namespace {

constexpr std::array table{
    Law{"all_reduce_is_exact", law::all_reduce_is_exact},
    Law{"all_types_are_reduced", law::all_types_are_reduced},
    Law{"sums_are_in_the_documented_order", law::sums_are_in_the_documented_order},
    Law{"gathers", law::gathers},
    Law{"broadcasts", law::broadcasts},
    Law{"barriers_end", law::barriers_end},
    Law{"ragged_messages_arrive", law::ragged_messages_arrive},
    Law{"messages_stay_in_order", law::messages_stay_in_order},
    Law{"all_to_all_arrives", law::all_to_all_arrives},
    Law{"one_way_messages_arrive", law::one_way_messages_arrive},
    Law{"not_before_is_kept", law::not_before_is_kept},
    Law{"bytes_follow_the_formulas", law::bytes_follow_the_formulas},
    Law{"clones_work_beside", law::clones_work_beside},
    Law{"arguments_are_checked", law::arguments_are_checked},
};

}  // namespace

std::span<const Law> laws() { return table; }

void check_laws(Communicator& communicator) {
  for (const Law& law : laws()) {
    try {
      law.check(communicator);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(law.name) + ": " + error.what());
    }
  }
}

}  // namespace sotto
