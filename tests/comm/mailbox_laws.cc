#include "mailbox_laws.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest = 100000;

template <class... Args>
void require(bool holds, fmt::format_string<Args...> what, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(what, std::forward<Args>(args)...));
}

// Runs `work` on another thread, at the latest until the end of the block. end() waits for it and throws what it threw.
class Beside {
 public:
  explicit Beside(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          try {
            work();
          } catch (...) {
            error_ = std::current_exception();
          }
        }) {}
  ~Beside() {
    if (thread_.joinable()) thread_.join();
  }
  void end() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
  std::thread thread_;
};

// Message `number` of a thread (`lane`) of a rank. Its content depends on all three. Lengths vary with `number`, from
// empty to the longest.
constexpr std::array<std::size_t, 9> lengths{0, 1, 7, 4000, longest, 4095, 4096, 4097, 60000};
std::vector<std::byte> message(int rank, int lane, std::size_t number) {
  std::vector<std::byte> data(lengths.at(number % lengths.size()));
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i * 7 + number + 16 * static_cast<std::size_t>(rank) +
                                     3 * static_cast<std::size_t>(lane));
  if (!data.empty()) data[0] = static_cast<std::byte>(lane);
  return data;
}

Mail next(Mailbox& mailbox) {
  auto mail = mailbox.poll(30s);
  require(mail.has_value(), "nothing came");
  require(mail->arrived <= Clock::now(), "a message that has not arrived yet");
  return std::move(*mail);
}

// Closes the mailbox once all ranks have polled all their messages.
void part(Communicator& communicator, Mailbox& mailbox) {
  communicator.barrier();
  mailbox.close();
}

void all_to_all_in_order(Communicator& communicator) {
  constexpr std::size_t count = 30;
  const auto mailbox = communicator.open_mailbox(longest);
  Beside sending([&] {
    for (std::size_t number = 0; number < count; ++number) {
      for (int to = 0; to < communicator.size(); ++to) {
        require(mailbox->send(to, message(communicator.rank(), 0, number)), "rank {} has left?", to);
      }
    }
  });
  std::vector<std::size_t> seen(static_cast<std::size_t>(communicator.size()));
  for (std::size_t i = 0; i < count * seen.size(); ++i) {
    Mail mail = next(*mailbox);
    auto& number = seen.at(static_cast<std::size_t>(mail.sender));
    require(mail.data == message(mail.sender, 0, number), "message {} of rank {}", number, mail.sender);
    ++number;
    if (i % 2 == 0) mailbox->recycle(std::move(mail));
  }
  require(!mailbox->poll(1ms), "one message too many");
  sending.end();
  part(communicator, *mailbox);
}

// Several threads of each rank send at the same time.
void many_to_one(Communicator& communicator) {
  constexpr std::size_t count = 20, lanes = 3;
  const auto mailbox = communicator.open_mailbox(longest);
  std::vector<std::unique_ptr<Beside>> senders;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    senders.push_back(std::make_unique<Beside>([&, lane] {
      for (std::size_t number = 1; number < count; ++number) {
        if (number % lengths.size() == 0) continue;  // an empty message does not tell its lane
        mailbox->send(0, message(communicator.rank(), static_cast<int>(lane), number));
      }
    }));
  }
  if (communicator.rank() == 0) {
    std::vector<std::array<std::size_t, lanes>> seen(static_cast<std::size_t>(communicator.size()), {1, 1, 1});
    const std::size_t each = lanes * (count - 1 - (count - 1) / lengths.size());
    for (std::size_t i = 0; i < each * seen.size(); ++i) {
      const Mail mail = next(*mailbox);
      const int lane = static_cast<int>(mail.data.at(0));
      auto& number = seen.at(static_cast<std::size_t>(mail.sender)).at(static_cast<std::size_t>(lane));
      if (number % lengths.size() == 0) ++number;
      require(mail.data == message(mail.sender, lane, number), "message {} of thread {}", number, lane);
      ++number;
    }
  }
  for (const auto& sender : senders) sender->end();
  part(communicator, *mailbox);
}

// Rank 0 answers each question as it comes, as a parameter server does.
void questions_are_answered(Communicator& communicator) {
  constexpr std::size_t count = 20;
  const auto mailbox = communicator.open_mailbox(longest);
  if (communicator.rank() == 0) {
    for (std::size_t i = 0; i < count * static_cast<std::size_t>(communicator.size() - 1); ++i) {
      const Mail mail = next(*mailbox);
      mailbox->send(mail.sender, mail.data);
    }
  } else {
    for (std::size_t number = 0; number < count; ++number) {
      const auto question = message(communicator.rank(), 0, number);
      mailbox->send(0, question);
      require(next(*mailbox).data == question, "another answer");
    }
  }
  part(communicator, *mailbox);
}

void cancel_wakes_its_own_polls_only(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int last = communicator.size() - 1;
  if (communicator.rank() == 0) {
    Beside canceller([&] { mailbox->cancel(); });
    require(!mailbox->poll(600s), "a message from nobody");
    canceller.end();
    require(!mailbox->poll(600s), "a message from nobody");
    if (last > 0) mailbox->send(last, message(0, 0, 4));
  } else if (communicator.rank() == last) {
    require(next(*mailbox).data == message(0, 0, 4), "another message");
  }
  part(communicator, *mailbox);
}

void who_leaves_in_peace_is_no_trouble(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int last = communicator.size() - 1;
  if (communicator.rank() == last) {
    for (std::size_t number = 0; last > 0 && number < Mailbox::depth; ++number)
      mailbox->send(0, message(last, 0, number));
    mailbox->close();
    require(!mailbox->poll(600s), "a message after the end");
  } else {
    int others = 0;  // messages from faster ranks
    for (std::size_t number = 0; communicator.rank() == 0 && number < Mailbox::depth;) {
      const Mail mail = next(*mailbox);
      require(mail.data == (mail.sender == last ? message(last, 0, number) : message(0, 0, 0)), "message {}", number);
      if (mail.sender == last) {
        ++number;
      } else {
        ++others;
      }
    }
    const Timer timer;
    while (!mailbox->has_left(last) && timer.seconds() < 30) std::this_thread::sleep_for(1ms);
    require(mailbox->has_left(last), "it has not left");
    require(!mailbox->send(last, message(0, 0, 1)), "sent to a rank that has left");
    for (int to = 0; to < last; ++to) require(mailbox->send(to, {}), "the others are there");
    for (; others < last; ++others) next(*mailbox);
  }
  communicator.barrier();
  mailbox->close();
}

void not_before_is_kept(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int next_rank = (communicator.rank() + 1) % communicator.size();
  communicator.barrier();
  const auto begin = Clock::now();
  mailbox->send(next_rank, message(0, 0, 1), begin + 40ms);
  mailbox->send(next_rank, message(0, 0, 2));
  require(next(*mailbox).data == message(0, 0, 1), "the second overtook the first");
  next(*mailbox);
  // Ranks begin at different times, so only the longest wait is sure to be long enough.
  std::array<double, 1> waited{std::chrono::duration<double>(Clock::now() - begin).count()};
  communicator.all_reduce(waited, ReduceOp::max);
  require(waited[0] >= 0.04, "after {} s", waited[0]);
  part(communicator, *mailbox);
}

void bytes_are_counted(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int to = (communicator.rank() + 1) % communicator.size();
  std::uint64_t bytes = 0;
  for (std::size_t number = 0; number < 10; ++number) {
    mailbox->send(to, message(0, 0, number));
    next(*mailbox);
    if (communicator.size() > 1) bytes += message(0, 0, number).size() + mailbox->header_bytes();
  }
  const Traffic traffic = mailbox->traffic();
  require(traffic.bytes_sent == bytes, "{} bytes sent instead of {}", traffic.bytes_sent, bytes);
  require(traffic.bytes_received == bytes, "{} bytes received instead of {}", traffic.bytes_received, bytes);
  require(traffic.messages_sent == (communicator.size() > 1 ? 10 : 0), "{} messages", traffic.messages_sent);
  part(communicator, *mailbox);
}

void mailboxes_are_apart(Communicator& communicator) {
  const auto one = communicator.open_mailbox(10);
  const auto other = communicator.open_mailbox(longest);
  const int to = (communicator.rank() + 1) % communicator.size();
  other->send(to, message(0, 0, 8));
  one->send(to, message(0, 0, 2));
  require(next(*one).data == message(0, 0, 2) && next(*other).data == message(0, 0, 8), "messages were mixed");
  part(communicator, *one);
  part(communicator, *other);
}

template <class Exception, class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  throw std::runtime_error("no error");
}

void arguments_are_checked(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(10);
  require(mailbox->max_bytes() == 10 && mailbox->size() == communicator.size(), "another mailbox");
  error_of<std::logic_error>([&] { mailbox->send(-1, {}); });
  error_of<std::logic_error>([&] { mailbox->send(communicator.size(), {}); });
  error_of<std::logic_error>([&] { mailbox->send(0, message(0, 0, 3)); });
  part(communicator, *mailbox);
  if (communicator.size() == 1) return;
  const auto error = error_of<CommError>([&] { communicator.open_mailbox(communicator.rank() == 0 ? 10 : 11); });
  require(error.find("its messages may have 1") != error.npos, "{}", error);
}

constexpr std::array table{
    Law{"all_to_all_in_order", all_to_all_in_order},
    Law{"many_to_one", many_to_one},
    Law{"questions_are_answered", questions_are_answered},
    Law{"cancel_wakes_its_own_polls_only", cancel_wakes_its_own_polls_only},
    Law{"who_leaves_in_peace_is_no_trouble", who_leaves_in_peace_is_no_trouble},
    Law{"not_before_is_kept", not_before_is_kept},
    Law{"bytes_are_counted", bytes_are_counted},
    Law{"mailboxes_are_apart", mailboxes_are_apart},
    Law{"arguments_are_checked", arguments_are_checked},
};

}  // namespace

std::span<const Law> mailbox_laws() { return table; }

void check_mailbox_laws(Communicator& communicator) {
  for (const Law& law : mailbox_laws()) {
    try {
      law.check(communicator);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(law.name) + ": " + error.what());
    }
  }
}

void check_stalled_peer(Communicator& communicator) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int rank = communicator.rank();
  const int stalled = communicator.size() - 1;
  const auto close = [&] {
    try {
      mailbox->close();
    } catch (const CommError&) {  // the backend cannot tell stalled peers, or the others have given this one up
    }
  };
  if (rank == stalled) {
    std::this_thread::sleep_for(2 * communicator.deadline());
    close();
  } else {
    const Timer timer;
    const auto error = error_of<CommError>([&] {
      for (std::size_t i = 0; i < 100; ++i) mailbox->send(stalled, message(rank, 0, 4));
    });
    const auto begins =
        fmt::format("rank {}: mailbox with rank {}: {} messages were not polled for ", rank, stalled, Mailbox::depth);
    require(error.starts_with(begins), "{}", error);
    require(timer.seconds() >= std::chrono::duration<double>(communicator.deadline()).count(), "too soon");
    for (int to = 0; to < stalled; ++to) mailbox->send(to, message(rank, 0, 4));
    for (int from = 0; from < stalled; ++from) {
      const Mail mail = next(*mailbox);
      require(mail.data == message(mail.sender, 0, 4), "another message");
    }
    close();
  }
}

void check_lost_peer(Communicator& communicator, const std::function<void()>& die) {
  const auto mailbox = communicator.open_mailbox(longest);
  const int rank = communicator.rank();
  const int dying = communicator.size() - 1;
  if (rank == dying) {
    for (int to = 0; to < dying; ++to) mailbox->send(to, message(rank, 0, 3));
    for (int from = 0; from < dying; ++from) next(*mailbox);
    return die();
  }
  require(next(*mailbox).data == message(dying, 0, 3), "another message");
  mailbox->send(dying, message(rank, 0, 3));
  const auto begins = fmt::format("rank {}: mailbox with rank {}: ", rank, dying);
  for (int i = 0; i < 2; ++i) {
    const auto error = error_of<CommError>([&] { mailbox->poll(600s); });
    require(error.starts_with(begins), "{}", error);
  }
  const auto error = error_of<CommError>([&] { mailbox->send(dying, {}); });
  require(error.starts_with(begins), "{}", error);
  mailbox->close();
}

}  // namespace sotto
