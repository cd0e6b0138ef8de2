#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/sentence.h"

namespace sotto {

// A component that was chosen, with its options, read and checked.
template <class Entry>
struct Spec {
  const Entry* entry = nullptr;  // null: none
  AnyOptions options{};
  Place place{};  // in the user's text; nowhere where the program itself chose it

  explicit operator bool() const { return entry != nullptr; }
  // Canonical, with every option named; empty where there is none.
  std::string text() const { return entry == nullptr ? "" : record_options(entry->name, options); }
  // As the user wrote it, where a user did.
  std::string said() const { return place.call.empty() ? text() : place.call; }
};

// make(). Its ConfigErrors are about this component, and show where it stands in the user's text.
template <class Entry, class Make>
auto with_place(const Spec<Entry>& spec, Make&& make) {
  try {
    return make();
  } catch (const ConfigError& error) {
    if (spec.place.text.empty()) throw;
    fail_at(spec.place, error.what());
  }
}

// Every kind of component has one explicit table of entries {name, ...}; nothing registers itself. Components that are
// called with options have `AnyOptions (*options)()`, their defaults, in the entry.
template <class Entry>
class Table {
 public:
  constexpr Table(std::string_view kind, std::span<const Entry> entries) : kind_(kind), entries_(entries) {}

  constexpr auto begin() const { return entries_.begin(); }
  constexpr auto end() const { return entries_.end(); }
  constexpr std::size_t size() const { return entries_.size(); }

  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  }
  // ConfigError, which names the nearest known name.
  const Entry& require(std::string_view option, std::string_view name) const {
    if (const Entry* entry = find(name)) return *entry;
    throw ConfigError(named(option) + ": " + unknown_name(kind_, name, names()));
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }

  // The options of all entries that have some, for help.
  std::string options() const {
    std::string text;
    for (const Entry& entry : entries_) {
      if (const std::string its = help_options(entry.options()); !its.empty()) {
        text += "Options of " + std::string(entry.name) + ":\n" + its;
      }
    }
    return text;
  }

  // What a call names. ConfigError with a caret, and the nearest known name.
  Spec<Entry> read(const Sentence& sentence, const Call& call) const {
    const Entry* entry = find(call.name);
    if (entry == nullptr) {
      fail_at(sentence, call, call.position, unknown_name(kind_, call.name, names()));
    }
    return {entry, read_options(sentence, call, entry->options()), place_of(sentence, call)};
  }
  // What a sentence of a single call names.
  Spec<Entry> read(const Sentence& sentence) const {
    const Call& call = sentence.calls.front();
    if (sentence.calls.size() > 1) {
      fail_at(sentence, call, sentence.calls[1].position, "a single call is wanted here, not several");
    }
    return read(sentence, call);
  }
  Spec<Entry> read(std::string_view option, std::string_view text) const { return read(parse_sentence(option, text)); }
  // A choice of the program's own. REQUIRES a name of the table, and options of this entry's type.
  Spec<Entry> choose(std::string_view name, AnyOptions options) const { return {find(name), std::move(options), {}}; }
  Spec<Entry> choose(std::string_view name) const { return choose(name, find(name)->options()); }

 private:
  std::string_view kind_;
  std::span<const Entry> entries_;
};

// `options` and `make` of an entry, out of the function that makes the component of its own options struct:
//   std::unique_ptr<Memory> make_demo(const DemoOptions& options, const MemoryParts& parts);
template <auto Make>
struct Made;
template <class Product, class Options, class... Parts, Product (*Make)(const Options&, Parts...)>
struct Made<Make> {
  static AnyOptions options() { return Options{}; }
  static Product make(const AnyOptions& options, Parts... parts) {
    return Make(options.as<Options>(), std::forward<Parts>(parts)...);
  }
};

}  // namespace sotto
