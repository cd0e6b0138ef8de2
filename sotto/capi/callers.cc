#include "sotto/capi/callers.h"

#include <cmath>
#include <new>

#include "sotto/core/version.h"

namespace sotto::capi {
namespace {

// Also of an error for which there is no memory.
struct LastError {
  std::string plain, marked;
};
thread_local LastError last;

std::pair<sotto_status, LastError> described(const std::exception_ptr& error) {
  const auto plain = [](sotto_status status, const std::exception& thrown) {
    return std::pair(status, LastError{thrown.what(), thrown.what()});
  };
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& thrown) {
    return {SOTTO_CONFIG_ERROR, {thrown.what(), thrown.text([](auto... parts) { return named(parts...); })}};
  } catch (const WireError& thrown) {
    return plain(SOTTO_WIRE_ERROR, thrown);
  } catch (const CommError& thrown) {
    return plain(SOTTO_COMM_ERROR, thrown);
  } catch (const FileError& thrown) {
    return plain(SOTTO_FILE_ERROR, thrown);
  } catch (const NumericError& thrown) {
    return plain(SOTTO_NUMERIC_ERROR, thrown);
  } catch (const std::exception& thrown) {
    return plain(SOTTO_INTERNAL_ERROR, thrown);
  }
}

// `context` of the functions below is a StorePtr*.
template <class F>
int request(void* context, F f) {
  return guarded([&] { f(**static_cast<StorePtr*>(context)); }) == SOTTO_OK ? 0 : 1;
}

int find_key(void* context, const char* key, const sotto_sink* sink) {
  return request(context, [&](Store& store) {
    if (store.check(key)) return give(store.get(key), *sink);
    if (const auto why = store.why_no_progress()) throw CommError(*why);
  });
}

}  // namespace

sotto_status remember(const std::exception_ptr& error) noexcept {
  try {
    auto [status, text] = described(error);
    last = std::move(text);
    return status;
  } catch (...) {  // no memory for the text
    last.plain.clear(), last.marked.clear();
    return SOTTO_INTERNAL_ERROR;
  }
}

sotto_store calls_of(StorePtr store) {
  return {.set =
              [](void* context, const char* key, const void* value, std::size_t bytes) {
                return request(context, [&](Store& own) { own.set(key, {static_cast<const char*>(value), bytes}); });
              },
          .find = find_key,
          .add = [](void* context, const char* key, std::int64_t number,
                    std::int64_t* sum) { return request(context, [&](Store& own) { *sum = own.add(key, number); }); },
          .set_first =
              [](void* context, const char* key, const void* desired, std::size_t bytes, const sotto_sink* sink) {
                return request(context, [&](Store& own) {
                  give(own.compare_set(key, "", {static_cast<const char*>(desired), bytes}), *sink);
                });
              },
          .release = [](void* context) { delete static_cast<StorePtr*>(context); },
          .context = new StorePtr(std::move(store))};
}

void give(const StateValues& values, const sotto_visitor& visitor) {
  for (const auto& [name, value] : values) {
    sotto_value given{name.c_str(), SOTTO_NUMBER, nullptr, 1};
    if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
      given = {name.c_str(), SOTTO_FLOATS, floats->data(), floats->size()};
    } else if (const auto* bytes = std::get_if<std::vector<std::uint8_t>>(&value)) {
      given = {name.c_str(), SOTTO_BYTES, bytes->data(), bytes->size()};
    } else {
      given.data = &std::get<std::uint64_t>(value);
    }
    visitor.visit(visitor.context, &given);
  }
}

void give_names(const std::vector<std::string>& names, const sotto_visitor& visitor) {
  for (const std::string& name : names) {
    const sotto_value given{name.c_str(), SOTTO_NUMBER, nullptr, 0};
    visitor.visit(visitor.context, &given);
  }
}

std::chrono::milliseconds milliseconds(double seconds) {
  if (!(seconds >= 0)) throw ConfigError(named("timeout") + ": wants seconds above 0");
  if (seconds == 0) seconds = 60;
  constexpr double most = std::chrono::duration<double>(Deadline::longest).count();
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::min(seconds, most) * 1000)));
}

void give(const char* name, const std::string& text, const sotto_visitor& visitor) {
  const sotto_value given{name, SOTTO_BYTES, text.data(), text.size()};
  visitor.visit(visitor.context, &given);
}

FormerState read_former(const sotto_former& former) {
  constexpr int most = 1 << 16;  // memory is taken for each of them
  if (former.rank >= former.ranks || former.ranks > most)
    throw ConfigError("a former rank is not below the number of ranks, or that is above 65536");
  return {former.rank, former.ranks, read_values(former.values, former.count)};
}

Terms read_terms(const sotto_term* terms, std::size_t count) {
  Terms read;
  for (const auto& [name, value] : span_of(terms, count, "the required terms")) {
    require(name, "the name of a term");
    require(value, name);
    read.emplace_back(name, value);
  }
  return read;
}

void gather(Communicator& communicator, const void* data, std::size_t bytes, const sotto_sink& sink) {
  const auto own = span_of(static_cast<const char*>(data), bytes, "data");
  for (const std::string& one : sotto::gather(communicator, {own.data(), own.size()})) give(one, sink);
}

StateValues read_values(const sotto_value* values, std::size_t count) {
  StateValues read;
  for (const auto& [name, kind, data, size] : span_of(values, count, "values")) {
    require(name, "the name of a value");
    if (size > 0) require(data, name);
    const auto* floats = static_cast<const float*>(data);
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    switch (kind) {
      case SOTTO_FLOATS: read[name] = std::vector<float>(floats, floats + size); break;
      case SOTTO_BYTES: read[name] = std::vector<std::uint8_t>(bytes, bytes + size); break;
      case SOTTO_NUMBER: {
        std::uint64_t number = 0;
        if (size != 1) throw ConfigError(std::string(name) + ": a number has a count of 1");
        std::memcpy(&number, data, sizeof(number));
        read[name] = number;
        break;
      }
      default: throw ConfigError(std::string(name) + ": its kind is none of the three");
    }
  }
  return read;
}

}  // namespace sotto::capi

unsigned sotto_interface(void) { return SOTTO_INTERFACE; }

const char* sotto_version(void) { return sotto::version.data(); }

const char* sotto_last_error(int marked) {
  return (marked != 0 ? sotto::capi::last.marked : sotto::capi::last.plain).c_str();
}
