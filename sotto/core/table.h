#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/sentence.h"

namespace sotto {

// Every kind of component has one explicit table of entries {name, ...}. Nothing registers itself.
template <class Entry>
std::vector<std::string_view> names_of(std::span<const Entry> table) {
  std::vector<std::string_view> names;
  names.reserve(table.size());
  for (const Entry& entry : table) names.push_back(entry.name);
  return names;
}

template <class Entry>
const Entry* find_entry(std::span<const Entry> table, std::string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// The entry that a call names; ConfigError with the nearest known name otherwise.
template <class Entry>
const Entry& require_entry(std::span<const Entry> table, std::string_view kind, const Sentence& sentence,
                           const Call& call) {
  if (const Entry* entry = find_entry(table, call.name)) return *entry;
  const auto names = names_of(table);
  fail_at(sentence, call, call.position, unknown_name(kind, call.name, names));
}

}  // namespace sotto
