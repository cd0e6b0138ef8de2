#include "sotto/algorithm/server/served_worker.h"

#include <fmt/format.h>

namespace sotto {

using Kind = ServerNote::Kind;

ServedWorker::ServedWorker(const ServerPlan& plan, const AlgorithmOptions& options, const StageSpecs& down,
                           std::span<const BucketPlan> buckets, std::span<const Shard> shards,
                           Communicator& communicator)
    : plan_(plan),
      options_(options),
      communicator_(communicator),
      shards_(shards),
      buckets_(buckets.begin(), buckets.end()),
      owner_(buckets.size()),
      uplink_(options.recipe(), std::make_shared<ThreadPool>(options.codec_threads), buckets,
              static_cast<int>(plan.workers())),
      downlink_(down, std::make_shared<ThreadPool>(options.codec_threads), buckets),
      versions_(shards.size()),
      heard_(shards.size()),
      thread_(
          buckets.size(), options.overlap, [this](std::size_t bucket) { offer_in_place(*worker_, buckets_[bucket]); },
          [this](std::size_t bucket) { send(bucket); }) {
  for (int server = 0; server < plan.servers; ++server) {
    if (plan.trains(communicator.rank()) || server == 0 || server == communicator.rank()) servers_.push_back(server);
  }
  std::size_t gradient = ServerNote::bytes, model = 0;
  for (const BucketPlan& bucket : buckets) gradient = std::max(gradient, uplink_.max_bytes(bucket.layout));
  for (std::size_t s = 0; s < shards.size(); ++s) {
    model = std::max(model, downlink_.max_bytes(shards[s]));
    for (const Shard::Part& part : shards[s].parts()) owner_[part.index] = static_cast<int>(s);
  }
  requests_ = communicator.open_mailbox(gradient);
  replies_ = communicator.open_mailbox(ServerNote::bytes + model);
}

void ServedWorker::step(Worker& worker, Step& now) {
  worker_ = &worker;
  now_ = &now;
  if (worker.optimiser().offer_makes_buffers()) worker.optimiser().begin_step(now.step);
  thread_.run(worker, now);
  const Timer hearing;
  for (const int server : servers_) {
    tell(server, {.kind = Kind::gradient,
                  .step = now.step,
                  .version = versions_[static_cast<std::size_t>(server)],
                  .stop = now.stop ? now.step : ServerNote::never,
                  .rate = now.lr,
                  .loss = now.loss});
  }
  double decode = 0;
  hear(servers_.size(), now.step, Kind::model, [&](int server, const ServerNote& note, const Mail& mail) {
    const Timer timer;
    downlink_.decode(shards_[static_cast<std::size_t>(server)], std::span(mail.data).subspan(ServerNote::bytes),
                     {.generation = options_.generation,
                      .origin = static_cast<std::uint16_t>(server),
                      .step = static_cast<std::uint32_t>(now.step)},
                     worker.parameters());
    versions_[static_cast<std::size_t>(server)] = note.version;
    decode += timer.seconds();
  });
  const double heard = hearing.seconds();
  now.timings.network += heard - decode;
  now.timings.decode += decode;
  now.wait += heard;
  note_end(now);
}

void ServedWorker::end_idle_step(Step& now) {
  for (const int server : servers_) {
    tell(server, {.kind = Kind::idle, .step = now.step, .stop = now.stop ? now.step : ServerNote::never});
  }
  hear(servers_.size(), now.step, Kind::told, [](int, const ServerNote&, const Mail&) {});
  note_end(now);
}

// A rank that only serves may be late, and its steps cost nothing: it makes all of them before it meets the others.
void ServedWorker::note_end(Step& now) const {
  const bool stops = now.step >= stop_;
  if (!plan_.together) {
    now.stops = stops;
    return;
  }
  const bool enough = now.meeting > 0 && made_ / plan_.workers() >= now.meeting &&
                      (plan_.trains(communicator_.rank()) || now.step + 1 >= now.meeting);
  now.meets = stops || enough;
}

void ServedWorker::rest(std::uint64_t step) {
  for (const int server : servers_) tell(server, {.kind = Kind::rest, .step = step});
  hear(servers_.size(), step, Kind::rested, [&](int server, const ServerNote& note, const Mail&) {
    versions_[static_cast<std::size_t>(server)] = note.version;
  });
}

void ServedWorker::leave() noexcept {
  try {
    requests_->close();
    replies_->close();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the others notice it as any end of a rank
  }
}

Traffic ServedWorker::traffic() const {
  Traffic all = requests_->traffic();
  const Traffic more = replies_->traffic();
  all.bytes_sent += more.bytes_sent;
  all.bytes_received += more.bytes_received;
  all.messages_sent += more.messages_sent;
  all.seconds += more.seconds;
  return all;
}

void ServedWorker::visit_state(StateVisitor& visitor) {
  if (!plan_.trains(communicator_.rank())) return;
  uplink_.visit_state(visitor);
  for (std::size_t s = 0; s < versions_.size(); ++s) visitor.visit(fmt::format("version/{}", s), versions_[s]);
}

void ServedWorker::send(std::size_t index) {
  const BucketPlan& plan = buckets_[index];
  const Bucket bucket{worker_->gradient().subspan(plan.range.begin, plan.range.size()), &plan.layout,
                      static_cast<std::uint16_t>(index)};
  uplink_.send(bucket, now_->key, {now_->step, now_->lr}, owner_[index], *requests_, now_->timings);
}

void ServedWorker::tell(int server, ServerNote note) {
  note.generation = options_.generation;
  std::array<std::byte, ServerNote::bytes> bytes{};
  write_note(note, bytes);
  requests_->send(server, bytes);
}

template <class Take>
void ServedWorker::hear(std::size_t answers, std::uint64_t step, Kind kind, Take&& take) {
  heard_.assign(heard_.size(), false);
  while (answers > 0) {
    // A little longer than the deadline: a server that waits for another rank says so first.
    auto mail = replies_->poll(replies_->deadline() + replies_->deadline() / 8);
    if (!mail) {
      const int silent =
          *std::ranges::find_if(servers_, [this](int s) { return !heard_[static_cast<std::size_t>(s)]; });
      throw CommError(fmt::format("rank {}: rank {}, which serves, did not answer step {} within {:g} s",
                                  communicator_.rank(), silent, step,
                                  std::chrono::duration<double>(replies_->deadline()).count()));
    }
    try {
      const ServerNote note = read_note(mail->data, options_.generation);
      const auto server = static_cast<std::size_t>(mail->sender);
      if (server >= heard_.size() || heard_[server]) throw WireError("an answer that nobody waits for");
      if (note.kind == Kind::waiting) {
        replies_->recycle(std::move(*mail));
        continue;
      }
      if (note.kind != kind || note.step != step) throw WireError("the answer to something else");
      if (server == 0) {
        stop_ = note.stop;
        made_ = note.made;
      }
      take(mail->sender, note, *mail);
      heard_[server] = true;
    } catch (const WireError& error) {
      throw WireError(fmt::format("rank {}: answer of rank {} at step {}: {}", communicator_.rank(), mail->sender, step,
                                  error.what()));
    }
    replies_->recycle(std::move(*mail));
    --answers;
  }
}

}  // namespace sotto
