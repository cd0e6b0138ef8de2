#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/options.h"

namespace sotto {

// A chosen component with its options, which were read and checked.
template <class Entry>
struct Spec {
  const Entry* entry = nullptr;  // null: none
  AnyOptions options{};
  Place place{};  // in the user's text; empty if the program chose the component

  explicit operator bool() const { return entry != nullptr; }
  // The canonical text, with every option named; empty without a component.
  std::string text() const { return entry == nullptr ? "" : record_options(entry->name, options); }
  // The text as the user wrote it, or the canonical one if the program chose the component.
  std::string source_text() const { return place.call.empty() ? text() : place.call; }
};

// Calls make(). ConfigErrors of make() get the component's place in the user's text.
template <class Entry, class Make>
auto with_place(const Spec<Entry>& spec, Make&& make) {
  try {
    return make();
  } catch (const ConfigError& error) {
    if (spec.place.text.empty()) throw;
    fail_at(spec.place,
            error.text([](std::string_view option, std::string_view value) { return named(option, value); }));
  }
}

// Every kind of component has one explicit table of entries {name, ...}; nothing registers itself. If components of a
// kind have options, each entry has `AnyOptions (*options)()`, which returns the defaults.
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
  // ConfigError, which suggests the nearest known name, for an unknown name.
  const Entry& require(std::string_view option, std::string_view name) const {
    if (const Entry* entry = find(name)) return *entry;
    throw ConfigError(named(option) + ": " + unknown_name(kind_, name, names()));
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) names.push_back(entry.name);
    return names;
  }

  // The help text of the options of all entries.
  std::string options() const {
    std::string text;
    for (const Entry& entry : entries_) {
      if (const std::string its = help_options(entry.options()); !its.empty()) {
        text += "Options of " + std::string(entry.name) + ":\n" + its;
      }
    }
    return text;
  }

  // The entry that a call names, with its options. ConfigError, with a caret, for an unknown name or wrong arguments.
  Spec<Entry> read(const Expression& expression, const Call& call) const {
    const Entry* entry = find(call.name);
    if (entry == nullptr) {
      fail_at(expression, call, call.position, unknown_name(kind_, call.name, names()));
    }
    return {entry, read_options(expression, call, entry->options()), place_of(expression, call)};
  }
  // The same for an expression, which must consist of a single call.
  Spec<Entry> read(const Expression& expression) const {
    const Call& call = expression.calls.front();
    if (expression.calls.size() > 1) {
      fail_at(expression, call, expression.calls[1].position, "a single call is wanted here, not several");
    }
    return read(expression, call);
  }
  Spec<Entry> read(std::string_view option, std::string_view text) const {
    return read(parse_expression(option, text));
  }
  // A component that the program itself chooses. REQUIRES the name of an entry, and options of that entry's type.
  Spec<Entry> choose(std::string_view name, AnyOptions options) const { return {find(name), std::move(options), {}}; }
  Spec<Entry> choose(std::string_view name) const { return choose(name, find(name)->options()); }

 private:
  std::string_view kind_;
  std::span<const Entry> entries_;
};

// Derives the `options` and `make` of an entry from the function that makes the component from its own options struct:
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
