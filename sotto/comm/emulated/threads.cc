#include "sotto/comm/emulated/threads.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <thread>

#include "sotto/comm/inbox.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

// The mailboxes of all ranks, which are threads of this process.
class PostOffice {
 public:
  explicit PostOffice(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) inboxes_.emplace_back(ranks);
  }
  Inbox& of(int rank) { return inboxes_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(inboxes_.size()); }

  // That rank has closed its mailbox. The others are told first, so that a rank that cannot send any more finds out
  // why.
  void close(int rank) {
    for (Inbox& inbox : inboxes_) inbox.leave(rank);
    of(rank).close();
  }
  // The rank is lost for that reason, unless it has closed its mailbox before.
  void end(int rank, const std::string& reason) {
    for (Inbox& inbox : inboxes_) inbox.lose(rank, reason);
    of(rank).close();
  }

 private:
  std::deque<Inbox> inboxes_;
};

// Puts a message directly into the inbox of its receiver.
class ThreadMailbox final : public Mailbox {
 public:
  ThreadMailbox(std::shared_ptr<PostOffice> office, int rank, std::size_t max_bytes, Deadline deadline)
      : Mailbox(rank, office->size(), max_bytes, std::move(deadline)), office_(std::move(office)) {}

  // If an exception ends the rank, whoever catches it reports the reason.
  ~ThreadMailbox() override {
    if (std::uncaught_exceptions() == exceptions_) office_->end(rank(), "it gave up its mailbox without closing it");
  }

  void recycle(Mail mail) override { mine().recycle(std::move(mail.data)); }
  void cancel() override { mine().cancel(); }
  void close() override { office_->close(rank()); }
  bool has_left(int peer) const override { return office_->of(rank()).has_left(peer); }

 private:
  bool do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) override {
    if (is_gone(to)) return false;
    Inbox& theirs = office_->of(to);
    Mail mail{rank(), theirs.buffer(data.size()), std::max(Clock::now(), not_before)};
    std::ranges::copy(data, mail.data.begin());
    const auto put = theirs.put(std::move(mail), Clock::now() + deadline());
    if (put == Inbox::Put::full) throw CommError(failure(to, not_polled()));
    return put == Inbox::Put::taken || !is_gone(to);  // a rank tells everybody before it closes its inbox
  }

  bool is_gone(int peer) {
    const auto why = mine().gone(peer);
    if (why && !why->empty()) throw CommError(failure(peer, *why));
    return why.has_value();
  }

  std::optional<Mail> do_poll(Clock::time_point until) override {
    std::pair<int, std::string> lost;
    auto mail = mine().poll(until, lost);
    if (!mail && !lost.second.empty()) throw CommError(failure(lost.first, lost.second));
    return mail;
  }

  Inbox& mine() { return office_->of(rank()); }

  std::shared_ptr<PostOffice> office_;
  int exceptions_ = std::uncaught_exceptions();
};

// What all ranks share: one lock for everything, and one bell per rank. Data is copied outside the lock.
struct Session {
  explicit Session(int ranks) : bells(static_cast<std::size_t>(ranks)), ended(bells.size()) {}

  Condition& bell(int rank) { return bells[static_cast<std::size_t>(rank)]; }
  void end(int rank) SOTTO_REQUIRES(mutex) {
    ended[static_cast<std::size_t>(rank)] = true;
    for (auto& each : bells) each.notify_all();
    for (const auto& office : offices) office->end(rank, ending(rank));
  }
  std::string failure() const SOTTO_REQUIRES(mutex) {
    return failed < 0 ? std::string() : fmt::format("rank {} ended with an error: {}", failed, reason);
  }
  bool has_ended(int rank) const SOTTO_REQUIRES(mutex) { return ended[static_cast<std::size_t>(rank)]; }
  std::string ending(int rank) const SOTTO_REQUIRES(mutex) {
    return failed == rank ? "it ended with an error: " + reason : "it ended without closing its mailbox";
  }
  std::shared_ptr<PostOffice> new_office() SOTTO_REQUIRES(mutex) {
    offices.push_back(std::make_shared<PostOffice>(static_cast<int>(bells.size())));
    for (int rank = 0; rank < static_cast<int>(bells.size()); ++rank) {
      if (has_ended(rank)) offices.back()->end(rank, ending(rank));
    }
    return offices.back();
  }

  Mutex mutex;
  std::vector<Condition> bells;
  std::vector<std::shared_ptr<PostOffice>> offices SOTTO_GUARDED_BY(mutex);
  std::vector<bool> ended SOTTO_GUARDED_BY(mutex);
  int failed SOTTO_GUARDED_BY(mutex) = -1;  // the first rank that threw
  std::string reason SOTTO_GUARDED_BY(mutex);
  int gave_up SOTTO_GUARDED_BY(mutex) =
      -1;  // the first rank that gave up: if it throws, its error is the cause of the others'
  std::exception_ptr error SOTTO_GUARDED_BY(mutex);
};

// A send: it stays in its sender's memory until the receiver has copied it.
struct Post {
  enum class State { waiting, copying, taken };
  std::span<const std::byte> data;
  Clock::time_point not_before;
  int to = 0;
  State state = State::waiting;
};

// The channels of one communicator, one for each ordered pair of ranks; clones have their own.
struct Group {
  explicit Group(std::shared_ptr<Session> of)
      : session(std::move(of)),
        channels(session->bells.size() * session->bells.size()),
        given_up(session->bells.size()) {}
  std::vector<Post*>& channel(int from, int to) SOTTO_REQUIRES(session->mutex) {
    return channels[static_cast<std::size_t>(from) * session->bells.size() + static_cast<std::size_t>(to)];
  }

  std::shared_ptr<Session> session;
  std::vector<std::vector<Post*>> channels SOTTO_GUARDED_BY(session->mutex);
  std::vector<std::optional<std::string>> given_up SOTTO_GUARDED_BY(session->mutex);  // the reason of each rank
  // In the order of the calls; the first rank to call makes the entry.
  std::vector<std::shared_ptr<Group>> clones SOTTO_GUARDED_BY(session->mutex);
  std::vector<std::shared_ptr<PostOffice>> offices SOTTO_GUARDED_BY(session->mutex);
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank, Deadline deadline)
      : Communicator(rank, static_cast<int>(group->session->bells.size()), std::move(deadline)),
        group_(std::move(group)),
        blocked_(static_cast<std::size_t>(size())) {}

  std::string_view name() const override { return "threads"; }

  void give_up(const std::string& reason) override {
    Session& session = *group_->session;
    const Lock lock(session.mutex);
    if (session.gave_up < 0) session.gave_up = rank();
    group_->given_up[static_cast<std::size_t>(rank())] = reason;
    for (auto& bell : session.bells) bell.notify_all();
  }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto until = Clock::now() + deadline();
    filled_.assign(recvs.size(), false);
    Lock lock(group_->session->mutex);
    post(sends);
    try {
      while (true) {
        auto wake = until;
        if (receive(recvs, wake)) continue;
        const int peer = awaited(recvs);
        if (peer < 0) return;
        if (group_->session->failed >= 0) fail(operation(), peer, group_->session->failure());
        const auto& why = group_->given_up[static_cast<std::size_t>(peer)];
        if (why) fail(operation(), peer, fmt::format("it gave up (because of {})", *why));
        if (group_->session->has_ended(peer)) fail(operation(), peer, "it has ended");
        if (Clock::now() >= until) fail(operation(), peer, fmt::format("timed out after {:g} s", seconds(deadline())));
        group_->session->bell(rank()).wait_until(lock, wake);
      }
    } catch (...) {
      withdraw(lock);
      throw;
    }
  }

  std::unique_ptr<Communicator> do_clone() override {
    const Lock lock(group_->session->mutex);
    auto& clones = group_->clones;
    if (clones.size() == clones_) clones.push_back(std::make_shared<Group>(group_->session));
    return std::make_unique<ThreadCommunicator>(clones[clones_++], rank(), deadlines());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    const Lock lock(group_->session->mutex);
    auto& offices = group_->offices;
    if (offices.size() == mailboxes_) offices.push_back(group_->session->new_office());
    return std::make_unique<ThreadMailbox>(offices[mailboxes_++], rank(), max_bytes, deadlines());
  }

  static double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

  void post(std::span<const Send> sends) SOTTO_REQUIRES(group_->session->mutex) {
    posts_.resize(sends.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      posts_[i] = {sends[i].data, sends[i].not_before, sends[i].peer};
      group_->channel(rank(), sends[i].peer).push_back(&posts_[i]);
      group_->session->bell(sends[i].peer).notify_all();
    }
  }

  // Receives the messages that are there; `wake` becomes the time when the next one may be received. Returns whether
  // any was received; releases the mutex while it copies.
  bool receive(std::span<Recv> recvs, Clock::time_point& wake) SOTTO_REQUIRES(group_->session->mutex) {
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
      group_->session->mutex.unlock();
      if (fits && length > 0) std::memcpy(recvs[i].buffer.data(), message.data.data(), length);
      recvs[i].arrived = Clock::now();
      group_->session->mutex.lock();
      message.state = Post::State::taken;
      group_->session->bell(recvs[i].peer).notify_all();
      if (!fits) {
        fail(operation(), recvs[i].peer,
             fmt::format("a message of {} bytes for a room of {}", length, recvs[i].buffer.size()));
      }
      filled_[i] = true;
      any = true;
    }
    return any;
  }

  // A peer from which a message is still missing, or -1.
  int awaited(std::span<const Recv> recvs) const SOTTO_REQUIRES(group_->session->mutex) {
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      if (!filled_[i]) return recvs[i].peer;
    }
    for (const Post& message : posts_) {
      if (message.state != Post::State::taken) return message.to;
    }
    return -1;
  }

  // Withdraws sends that were not received yet, and waits for receivers that are copying.
  void withdraw(Lock& lock) SOTTO_REQUIRES(group_->session->mutex) {
    for (Post& message : posts_) {
      if (message.state == Post::State::waiting) std::erase(group_->channel(rank(), message.to), &message);
      group_->session->bell(rank()).wait(lock, [&] { return message.state != Post::State::copying; });
    }
  }

  std::shared_ptr<Group> group_;
  std::size_t clones_ = 0;
  std::size_t mailboxes_ = 0;
  // For the current exchange; kept, so that a step allocates nothing.
  std::vector<Post> posts_ SOTTO_GUARDED_BY(group_->session->mutex);
  std::vector<bool> filled_;
  std::vector<bool> blocked_;  // for each peer
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
    const Lock lock(session->mutex);
    if (error && (session->failed < 0 || session->gave_up == rank)) {
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
  } catch (const Error& error) {  // running ranks learn that the others never come
    const Lock lock(session->mutex);
    const auto first = static_cast<int>(threads.size());
    if (session->failed < 0) {
      session->failed = first;
      session->reason = error.what();
      session->error = std::current_exception();
    }
    for (int rank = first; rank < ranks; ++rank) session->end(rank);
  }
  for (auto& thread : threads) thread.join();
  const Lock lock(session->mutex);
  if (session->error) std::rethrow_exception(session->error);
}

}  // namespace sotto
