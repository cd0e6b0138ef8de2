#include "sotto/comm/threads.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/comm/thread_mailbox.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

// What all ranks share: one lock for everything, one bell a rank. Data is copied outside the lock.
struct Session {
  explicit Session(int ranks) : bells(static_cast<std::size_t>(ranks)), ended(bells.size()) {}

  std::condition_variable& bell(int rank) { return bells[static_cast<std::size_t>(rank)]; }
  // These REQUIRE the lock.
  void end(int rank) {
    ended[static_cast<std::size_t>(rank)] = true;
    for (auto& each : bells) each.notify_all();
    for (const auto& office : offices) office->end(rank, ending(rank));
  }
  std::string failure() const {
    return failed < 0 ? std::string() : fmt::format("rank {} ended with an error: {}", failed, reason);
  }
  bool has_ended(int rank) const { return ended[static_cast<std::size_t>(rank)]; }
  std::string ending(int rank) const {
    return failed == rank ? "it ended with an error: " + reason : "it ended without closing its mailbox";
  }
  std::shared_ptr<PostOffice> new_office() {
    offices.push_back(std::make_shared<PostOffice>(static_cast<int>(bells.size())));
    for (int rank = 0; rank < static_cast<int>(bells.size()); ++rank) {
      if (has_ended(rank)) offices.back()->end(rank, ending(rank));
    }
    return offices.back();
  }

  std::mutex mutex;
  std::vector<std::condition_variable> bells;
  std::vector<std::shared_ptr<PostOffice>> offices;
  std::vector<bool> ended;
  int failed = -1;  // the first rank that threw
  std::string reason;
  std::exception_ptr error;
};

// A send: it stays in its sender's memory until the receiver has copied it.
struct Post {
  enum class State { waiting, copying, taken };
  std::span<const std::byte> data;
  Clock::time_point not_before;
  int to = 0;
  State state = State::waiting;
};

// The channels of one communicator, one an ordered pair of ranks; clones have their own.
struct Group {
  explicit Group(std::shared_ptr<Session> of)
      : session(std::move(of)), channels(session->bells.size() * session->bells.size()) {}
  std::vector<Post*>& channel(int from, int to) {
    return channels[static_cast<std::size_t>(from) * session->bells.size() + static_cast<std::size_t>(to)];
  }

  std::shared_ptr<Session> session;
  std::vector<std::vector<Post*>> channels;
  std::vector<std::shared_ptr<Group>> clones;  // in the order of the calls; made by the rank that comes first
  std::vector<std::shared_ptr<PostOffice>> offices;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank, std::chrono::milliseconds deadline)
      : Communicator(rank, static_cast<int>(group->session->bells.size()), deadline),
        group_(std::move(group)),
        session_(*group_->session),
        blocked_(session_.bells.size()) {}

  std::string_view name() const override { return "threads"; }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto until = Clock::now() + deadline();
    filled_.assign(recvs.size(), false);
    std::unique_lock lock(session_.mutex);
    post(sends);
    try {
      while (true) {
        auto wake = until;
        if (receive(recvs, lock, wake)) continue;
        const int peer = awaited(recvs);
        if (peer < 0) return;
        if (session_.failed >= 0) fail(operation(), peer, session_.failure());
        if (session_.has_ended(peer)) fail(operation(), peer, "it has ended");
        if (Clock::now() >= until) fail(operation(), peer, fmt::format("timed out after {:g} s", seconds(deadline())));
        session_.bell(rank()).wait_until(lock, wake);
      }
    } catch (...) {
      withdraw(lock);
      throw;
    }
  }

  std::unique_ptr<Communicator> do_clone() override {
    const std::lock_guard lock(session_.mutex);
    auto& clones = group_->clones;
    if (clones.size() == clones_) clones.push_back(std::make_shared<Group>(group_->session));
    return std::make_unique<ThreadCommunicator>(clones[clones_++], rank(), deadline());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    const std::lock_guard lock(session_.mutex);
    auto& offices = group_->offices;
    if (offices.size() == mailboxes_) offices.push_back(session_.new_office());
    return make_thread_mailbox(offices[mailboxes_++], rank(), max_bytes, deadline());
  }

  static double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

  void post(std::span<const Send> sends) {
    posts_.resize(sends.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      posts_[i] = {sends[i].data, sends[i].not_before, sends[i].peer};
      group_->channel(rank(), sends[i].peer).push_back(&posts_[i]);
      session_.bell(sends[i].peer).notify_all();
    }
  }

  // Takes what is there; `wake` becomes the time when the next message may be taken. Whether anything was taken.
  bool receive(std::span<Recv> recvs, std::unique_lock<std::mutex>& lock, Clock::time_point& wake) {
    bool any = false;
    blocked_.assign(blocked_.size(), false);
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      const auto peer = static_cast<std::size_t>(recvs[i].peer);
      if (filled_[i] || blocked_[peer]) continue;
      auto& channel = group_->channel(recvs[i].peer, rank());
      if (channel.empty() || channel.front()->not_before > Clock::now()) {
        if (!channel.empty()) wake = std::min(wake, channel.front()->not_before);
        blocked_[peer] = true;  // later receives from this peer must not overtake
        continue;
      }
      Post& message = *channel.front();
      channel.erase(channel.begin());
      message.state = Post::State::copying;
      const std::size_t length = message.data.size();
      const bool fits = length <= recvs[i].buffer.size();
      lock.unlock();
      if (fits && length > 0) std::memcpy(recvs[i].buffer.data(), message.data.data(), length);
      recvs[i].arrived = Clock::now();
      lock.lock();
      message.state = Post::State::taken;
      session_.bell(recvs[i].peer).notify_all();
      if (!fits) {
        fail(operation(), recvs[i].peer,
             fmt::format("a message of {} bytes for a room of {}", length, recvs[i].buffer.size()));
      }
      filled_[i] = true;
      any = true;
    }
    return any;
  }

  // A peer that something is still awaited from, or -1.
  int awaited(std::span<const Recv> recvs) const {
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      if (!filled_[i]) return recvs[i].peer;
    }
    for (const Post& message : posts_) {
      if (message.state != Post::State::taken) return message.to;
    }
    return -1;
  }

  // Takes back what was not received yet, and waits for whoever is copying.
  void withdraw(std::unique_lock<std::mutex>& lock) {
    for (Post& message : posts_) {
      if (message.state == Post::State::waiting) std::erase(group_->channel(rank(), message.to), &message);
      session_.bell(rank()).wait(lock, [&] { return message.state != Post::State::copying; });
    }
  }

  std::shared_ptr<Group> group_;
  Session& session_;
  std::size_t clones_ = 0;
  std::size_t mailboxes_ = 0;
  // Of the exchange that is going on; kept, so that a step allocates nothing.
  std::vector<Post> posts_;
  std::vector<bool> filled_;
  std::vector<bool> blocked_;  // by peer
};

}  // namespace

void run_threads(int ranks, std::chrono::milliseconds deadline,
                 const std::function<void(Communicator& communicator)>& body) {
  if (ranks < 1) throw std::logic_error("run_threads: at least one rank");
  const auto session = std::make_shared<Session>(ranks);
  const auto group = std::make_shared<Group>(session);
  const auto run = [&](int rank) {
    std::exception_ptr error;
    std::string reason = "an unknown exception";
    try {
      ThreadCommunicator communicator(group, rank, deadline);
      body(communicator);
    } catch (const std::exception& exception) {
      error = std::current_exception();
      reason = exception.what();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(session->mutex);
    if (error && session->failed < 0) {
      session->failed = rank;
      session->reason = reason;
      session->error = error;
    }
    session->end(rank);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.push_back(start_thread("a rank", run, rank));
  } catch (const Error& error) {  // those that run already learn that the others never come
    const std::lock_guard lock(session->mutex);
    const auto first = static_cast<int>(threads.size());
    if (session->failed < 0) {
      session->failed = first;
      session->reason = error.what();
      session->error = std::current_exception();
    }
    for (int rank = first; rank < ranks; ++rank) session->end(rank);
  }
  for (auto& thread : threads) thread.join();
  if (session->error) std::rethrow_exception(session->error);
}

}  // namespace sotto
