#include "sotto/algorithm/server/server.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

using Mode = ServerPlan::Mode;
using Kind = ServerNote::Kind;

void require(bool holds, std::string_view otherwise) {
  if (!holds) throw WireError(std::string(otherwise));
}

// A server's rank encodes gradients, too, so models need other random numbers.
std::uint64_t seed_of_models(std::uint64_t seed) {
  Hash hash;
  hash.add("model");
  hash.add(seed);
  return hash.value();
}

}  // namespace

Server::Server(const ServerPlan& plan, int rank, Shard shard, std::shared_ptr<Codec> uplink, Downlink downlink,
               std::uint64_t seed, std::uint16_t generation, Post post)
    : plan_(plan),
      rank_(rank),
      shard_(std::move(shard)),
      uplink_(std::move(uplink)),
      downlink_(std::move(downlink)),
      seed_(seed_of_models(seed)),
      generation_(generation),
      post_(std::move(post)),
      model_(shard_.size()),
      mean_(shard_.size()) {
  for (int r = 0; r < plan.ranks; ++r) {
    if (!plan.trains(r) && rank != 0 && rank != r) continue;
    Client client;
    client.rank = r;
    client.trains = plan.trains(r);
    if (client.trains) client.messages = std::vector<Message>(shard_.parts().size());
    clients_.push_back(std::move(client));
  }
  if (plan.in_step() && !downlink_.sends_models()) known_.resize(shard_.size());
  if (plan.carry) carried_.resize(shard_.size());
}

void Server::begin(std::span<const std::uint64_t> steps, std::span<const float> parameters, Optimiser& optimiser) {
  optimiser.take_shares(plan_.rate_share());
  if (!has_begun()) start_from(parameters);
  const auto now = Clock::now();
  for (Client& client : clients_) {
    client.next = steps[static_cast<std::size_t>(client.rank)];
    client.state = State::at_work;
    client.since = now;
    if (client.trains && client.known.empty() && !plan_.in_step() && !downlink_.sends_models()) client.known = model_;
  }
}

void Server::start_from(std::span<const float> parameters) {
  shard_.gather(parameters, model_);
  if (!known_.empty()) known_ = model_;
  begun_ = 1;
}

void Server::all_know() {
  for (Client& client : clients_) {
    if (!client.known.empty()) client.known = model_;
  }
}

Timings Server::take(int sender, std::span<const std::byte> mail, Optimiser& optimiser) {
  Turn turn{optimiser};
  try {
    Client& from = client(sender);
    if (is_note(mail)) {
      const ServerNote note = read_note(mail, generation_);
      require(mail.size() == ServerNote::bytes, "bytes too many after a note");
      take_note(from, note, turn);
    } else {
      take_message(from, mail);
    }
  } catch (const WireError& error) {
    throw WireError(fmt::format("rank {}: message of rank {} to the server: {}", rank_, sender, error.what()));
  }
  return turn.timings;
}

Server::Client& Server::client(int rank) {
  const auto found = std::ranges::find(clients_, rank, &Client::rank);
  require(found != clients_.end(), "this rank is no worker");
  return *found;
}

void Server::take_message(Client& from, std::span<const std::byte> bytes) {
  require(from.trains && from.state == State::at_work, "a message before the last one was answered");
  const MessageView first = MessageView::parse(bytes);
  const auto parts = shard_.parts();
  const auto part = std::ranges::find(parts, first.header().bucket, &Shard::Part::index);
  require(part != parts.end(), "a bucket that another server owns");
  first.expect({.generation = generation_,
                .origin = static_cast<std::uint16_t>(from.rank),
                .step = static_cast<std::uint32_t>(from.next),
                .bucket = part->index});
  require(first.size() == bytes.size(), "bytes too many after a message");
  Message& message = from.messages[static_cast<std::size_t>(part - parts.begin())];
  require(!message.here, "a bucket that came before");
  message.bytes.assign(bytes.begin(), bytes.end());
  if (!message.opened) message.opened = uplink_->make_opened();
  message.opened->open(MessageView::parse(message.bytes), part->plan.layout, part->whole());
  message.here = true;
  from.since = Clock::now();
}

void Server::take_note(Client& from, const ServerNote& note, Turn& turn) {
  require(note.step == from.next && from.state == State::at_work, "a note of another step");
  from.since = Clock::now();
  if (note.stop != ServerNote::never && stop_ == ServerNote::never) {
    // The first step that no rank has been answered in yet: everybody hears of the stop in time. Ranks that count
    // together need not make as many steps, and each stops as soon as it hears of it.
    stop_ = plan_.together ? 0 : std::ranges::max_element(clients_, {}, &Client::next)->next;
  }
  if (note.kind == Kind::gradient) {
    require(from.trains && std::ranges::all_of(from.messages, &Message::here),
            "a gradient of which buckets are missing");
    require(std::isfinite(note.rate) && note.version <= version_, "a gradient of a model that never was");
    for (Message& message : from.messages) message.here = false;
    from.note = note;
    from.state = State::waits;
    take_gradient(from, turn);
  } else if (note.kind == Kind::rest) {
    from.state = State::rests;
    if (plan_.mode == Mode::sync) update_when_enough(turn);
    if (plan_.mode == Mode::stale) answer(released(), turn);
    rest_when_all();
  } else {
    require(note.kind == Kind::idle && !from.trains, "a note that a server does not take");
    post(from, Kind::told);
    ++from.next;
  }
}

void Server::take_gradient(Client& from, Turn& turn) {
  if (plan_.mode == Mode::sync) return from.note.version < version_ ? take_late(from, turn) : update_when_enough(turn);
  const Clients one = choose([&](const Client& client) { return &client == &from; });
  update(one, turn);
  answer(plan_.mode == Mode::stale ? released() : one, turn);
}

// The gradient was taken at an older model, so it makes no update: it is dropped, or carried over to the next one.
void Server::take_late(Client& from, Turn& turn) {
  if (plan_.carry) add_to(carried_, from);
  answer(choose([&](const Client& client) { return &client == &from; }), turn);
}

// An update needs plan_.quorum workers that wait or rest. If it needed all workers that do not rest, servers could
// hang: workers may wait at several servers, each of which has answered only some of them. This rule does not hang: of
// the servers' last updates, look at the oldest. All workers in it that do not rest wait at that server again, because
// the updates that they needed from the other servers came later.
void Server::update_when_enough(Turn& turn) {
  const auto at_rest =
      std::ranges::count_if(clients_, [](const Client& c) { return c.trains && c.state == State::rests; });
  const Clients waiting = choose([](const Client& client) { return client.state == State::waits; });
  if (waiting.empty() || waiting.size() + static_cast<std::size_t>(at_rest) < plan_.quorum) return;
  update(waiting, turn);
  answer(waiting, turn);
}

// The workers that wait and are not too far ahead of the slowest one that continues.
Server::Clients Server::released() {
  const auto done = [](const Client& client) { return client.next + (client.state == State::waits ? 1 : 0); };
  std::uint64_t least = ServerNote::never;
  for (const Client& client : clients_) {
    if (client.trains && client.state != State::rests) least = std::min(least, done(client));
  }
  return choose(
      [&](const Client& client) { return client.state == State::waits && done(client) - least <= plan_.bound; });
}

void Server::update(Clients with, Turn& turn) {
  const Timer timer;
  std::ranges::fill(mean_, 0.0F);
  const Client* farthest = with.front();
  for (Client* from : with) {
    add_to(mean_, *from);
    if (from->note.step > farthest->note.step) farthest = from;
  }
  if (plan_.carry) {
    kernels::add(carried_, mean_);
    std::ranges::fill(carried_, 0.0F);
  }
  const double rate = farthest->note.rate * plan_.rate_share();
  if (!turn.optimiser.offer_makes_buffers()) turn.optimiser.begin_step(version_);  // else its worker does, meanwhile
  for (const Shard::Part& part : shard_.parts()) {
    turn.optimiser.apply(Shard::bucket(model_, part).values, Shard::bucket(mean_, part).values, part.plan.range.begin,
                         rate);
  }
  ++version_;
  turn.timings.decode += timer.seconds();
}

void Server::add_to(std::vector<float>& sum, Client& from) {
  for (std::size_t i = 0; i < shard_.parts().size(); ++i) {
    const Shard::Part& part = shard_.parts()[i];
    Bucket bucket = Shard::bucket(sum, part);
    from.messages[i].opened->add_to(bucket, plan_.share());
  }
}

// Answers its own rank last.
void Server::answer(Clients all, Turn& turn) {
  const Timer timer;
  std::ranges::stable_partition(all, [this](const Client* client) { return client->rank != rank_; });
  bool encoded = false;
  for (Client* to : all) {
    if (!encoded || !plan_.in_step()) {
      letter_.resize(ServerNote::bytes);
      const Key key{seed_, static_cast<std::uint16_t>(rank_), generation_, static_cast<std::uint32_t>(to->next)};
      downlink_.encode(shard_, model_, plan_.in_step() ? known_ : to->known, key, letter_);
      encoded = true;
    }
    post(*to, Kind::model, letter_);
    ++to->next;
    to->state = State::at_work;
    to->since = Clock::now();
  }
  turn.timings.encode += timer.seconds();
}

void Server::post(const Client& to, Kind kind) {
  std::array<std::byte, ServerNote::bytes> note{};
  post(to, kind, note);
}

// Writes the note into the first bytes of the letter, and posts it.
void Server::post(const Client& to, Kind kind, std::span<std::byte> letter) {
  write_note({.kind = kind,
              .generation = generation_,
              .step = to.next,
              .version = version_,
              .stop = stop_,
              .made = made_steps()},
             letter);
  post_(to.rank, letter);
}

bool Server::at_rest() const {
  return std::ranges::all_of(clients_, [](const Client& client) { return client.state == State::rests; });
}

void Server::rest_when_all() {
  if (!at_rest()) return;
  for (Client& client : clients_) {
    if (client.rank != rank_) post(client, Kind::rested);
  }
  for (Client& client : clients_) {
    if (client.rank == rank_) post(client, Kind::rested);
  }
}

void Server::remind() {
  for (Client& client : clients_) {
    if (client.state == State::rests) post(client, Kind::waiting);
  }
}

Server::Debtor Server::slowest() const {
  Debtor slowest;
  for (const Client& client : clients_) {
    const bool owes = client.trains && client.state == State::at_work;
    if (owes && client.since < slowest.since) slowest = {client.rank, client.next, client.since};
  }
  return slowest;
}

// A gradient that is here counts, whether it was answered or not.
std::uint64_t Server::made_steps() const {
  std::uint64_t made = 0;
  for (const Client& client : clients_) {
    if (client.trains) made += client.next + (client.state == State::waits ? 1 : 0);
  }
  return made;
}

std::uint64_t Server::common_steps() const {
  if (plan_.together) return made_steps() / plan_.workers();
  std::uint64_t least = ServerNote::never;
  for (const Client& client : clients_) {
    if (client.trains) least = std::min(least, client.next);
  }
  return least;
}

bool Server::meets() const {
  return plan_.together && std::ranges::any_of(clients_, [](const Client& client) {
           return client.trains && client.state == State::rests;
         });
}

double Server::loss() const {
  double sum = 0;
  for (const Client& client : clients_) sum += client.trains ? client.note.loss : 0;
  return sum / static_cast<double>(plan_.workers());
}

template <class Which>
Server::Clients Server::choose(Which&& which) {
  chosen_.clear();
  for (Client& client : clients_) {
    if (which(client)) chosen_.push_back(&client);
  }
  return chosen_;
}

void Server::visit_state(StateVisitor& visitor) {
  visitor.visit("begun", begun_);
  visitor.visit("version", version_);
  visit_vector(visitor, "model", model_);
  if (!known_.empty()) visit_vector(visitor, "known", known_);
  if (plan_.carry) visit_vector(visitor, "carried", carried_);
  downlink_.visit_state(visitor);
}

}  // namespace sotto
