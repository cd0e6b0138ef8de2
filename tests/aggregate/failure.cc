#include "tests/aggregate/failure.h"
#include "sotto/aggregate/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/aggregate/group.h"

namespace sotto::test {

std::string second_step_fails(const std::string& aggregator, const std::string& method, int which,
                              const std::function<void(std::span<Recv>)>& spoil) {
  const Layout layout = sample_layout();
  const auto buckets = plan_buckets(layout, 1U << 20);
  std::string text;
  run_threads(3, std::chrono::seconds(20), [&](Communicator& group) {
    Spoilt communicator(group, [&](int exchange, std::span<Recv> arrived) {
      if (group.rank() == 1 && exchange == which) spoil(arrived);
    });
    const auto made = make_aggregator(read_recipe(method, aggregator), buckets, communicator);
    auto values = sample_gradient(layout, group.rank(), 0);
    average_all(*made, buckets, values, 0, communicator);
    State before = state_of(*made);
    const auto gradient = sample_gradient(layout, group.rank(), 1);
    values = gradient;
    if (group.rank() != 1) {
      try {
        average_all(*made, buckets, values, 1, communicator);
      } catch (const CommError&) {  // rank 1 is gone
      }
      return;
    }
    text = message_of([&] { average_all(*made, buckets, values, 1, communicator); });
    EXPECT_EQ(values, gradient);
    if (!method.starts_with("ef")) return;
    auto& held = before.floats.at("memory.ef");
    for (std::size_t i = 0; i < held.size(); ++i) held[i] += gradient[i];
    EXPECT_EQ(state_of(*made), before);
  });
  return text;
}

void expect_bad_messages_are_refused(const std::string& aggregator, int which, std::span<const char* const> methods) {
  const auto of_rank_2 = [](std::span<Recv> arrived) { return std::ranges::find(arrived, 2, &Recv::peer)->buffer; };
  for (const char* method : methods) {
    const auto expect_named = [&](const char* what, const std::function<void(std::span<Recv>)>& spoil) {
      const std::string text = second_step_fails(aggregator, method, which, spoil);
      EXPECT_NE(text.find("rank 1: message of rank 2 at step 1"), std::string::npos)
          << method << ", exchange " << which << ", " << what << ": " << text;
    };
    expect_named("a bit", [&](auto arrived) { of_rank_2(arrived)[33] ^= std::byte{4}; });
    expect_named("the header", [&](auto arrived) { of_rank_2(arrived)[8] ^= std::byte{1}; });
    expect_named("a length or a norm", [&](auto arrived) {
      replace_body(of_rank_2(arrived), [](std::span<std::byte> body) { body[3] = std::byte{0xFF}; });
    });
    expect_named("the message of another rank", [&](auto arrived) {
      const auto from = std::ranges::find(arrived, 0, &Recv::peer)->buffer;
      const auto to = of_rank_2(arrived);
      std::ranges::copy(from.first(std::min(from.size(), to.size())), to.begin());
    });
  }
}

}  // namespace sotto::test
